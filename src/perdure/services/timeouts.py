"""Keeping time: sweeping up what is due, renewing, arming.

A sweep claims sessions whose time has come, under a lease: nobody else is handed them before it is over, and if the
sweeper dies they come up again. What is to be done about a session the core decides, on the state as it stands; every
act is a compare-and-set append or noted in one, so that sweepers that meet on a session do no harm.

A row's timer may be early (words said since have moved it), never late: then it is armed anew.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from perdure.core import scrub
from perdure.core.errors import (
    DiskFull,
    Invalid,
    NotFound,
    ReadOnly,
    StoreBusy,
    StoreClosed,
    StorePoisoned,
    VersionConflict,
)
from perdure.core.memory.shelf import Run
from perdure.core.session import commands as do
from perdure.core.session.cleanup import MAX_ERROR
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.core.session.timeouts import LONGEST, SECOND, Action, Due, due_at, overdue, renewal
from perdure.ports.store import Query, Row
from perdure.services.accounts import account_of
from perdure.services.cleanup import GIVE_UP, Cleanup
from perdure.services.erasure import Erasure
from perdure.services.lifecycle import Lifecycle
from perdure.services.loading import Loaded
from perdure.services.sessions import Sessions

BATCH: Final = 32
"""Sessions claimed at once: a sweeper that dies keeps no more than these from the others."""
LEASE: Final = 300.0
LIMIT: Final = 1000
STEPS: Final = 20
"""How often one session is looked at again because others write meanwhile."""
SOON, LATE = 60 * SECOND, 3600 * SECOND
PAGE: Final = 500
_WHOLE_STORE: Final = (StoreClosed, StorePoisoned, StoreBusy, DiskFull, ReadOnly)
"""What concerns the store and not one session: there is no use in going on."""

Progress = Callable[[int, int], None]
Remembered = tuple[dict[str, Run], dict[str, str]]
"""What was done about memories, and what failed, by space."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about one session: suspended, ended, erased, compensated; or waiting, for what went wrong."""

    session: SessionId
    did: str
    reason: str
    due_at: int | None = None
    error: str | None = None


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did, in order. `more` when its limit was reached: more may be due. `consolidated` are runs over
    memories that were due, by space, `unconsolidated` what went wrong with others.
    """

    looked: int
    rearmed: int
    done: tuple[Swept, ...]
    more: bool
    consolidated: dict[str, Run] = {}
    unconsolidated: dict[str, str] = {}

    def count(self, did: str) -> int:
        """How often this was done."""
        return sum(item.did == did for item in self.done)


class _LeaseLost(Exception):
    """The session may be another sweeper's by now."""


class _Sweep:
    """One sweep under way: its clock, its lease, what it did."""

    def __init__(self, clock: Callable[[], int], lease: float, give_up: float) -> None:
        self.clock = clock
        self.lease = round(lease * SECOND)
        self.give_up = give_up
        self.until = 0
        self.held = 0
        """Until when the session that is looked at is this sweeper's; as long as it is, its timer says the same."""
        self.looked = 0
        self.rearmed = 0
        self.done: list[Swept] = []

    def note(self, session: SessionId, did: str, action: Action | None, error: str | None = None) -> None:
        reason, since = ("", None) if action is None else (action.reason, action.since)
        self.done.append(Swept(session=session, did=did, reason=reason, due_at=since, error=error))

    def report(self, more: bool) -> SweepReport:
        return SweepReport(looked=self.looked, rearmed=self.rearmed, done=tuple(self.done), more=more)


class Timekeeper:
    """Everything that happens to sessions because time passes."""

    def __init__(
        self,
        sessions: Sessions,
        lifecycle: Lifecycle,
        cleanup: Cleanup,
        erasure: Erasure,
        swept: Callable[[], Awaitable[None]] | None = None,
        remember: Callable[[int], Awaitable[Remembered]] | None = None,
    ) -> None:
        """`swept` is called at the end of every sweep, and `remember`, with the time, sees to memories then."""
        self._swept = swept
        self._remember = remember
        self._sessions = sessions
        self._store = sessions.store
        self._lifecycle = lifecycle
        self._cleanup = cleanup
        self._erasure = erasure

    async def sweep(
        self,
        limit: int = LIMIT,
        now: int | None = None,
        *,
        lease: float = LEASE,
        give_up: float = GIVE_UP,
        progress: Progress | None = None,
    ) -> SweepReport:
        """See to what is due, up to `limit` sessions. One that fails is left for later and does not stop the others."""
        sweep = _Sweep(self._clock(now), lease, give_up)
        tenant = self._sessions.identity.tenant
        rows: tuple[Row, ...] | None = None
        while rows != () and (room := limit - sweep.looked) > 0:
            at = sweep.clock()
            sweep.until = at + sweep.lease
            rows = await self._store.claim(tenant, at, sweep.until, min(BATCH, room))
            for row in rows:
                await self._see_to(row.session, sweep)
                sweep.looked += 1
                if progress is not None:
                    progress(sweep.looked, max(limit if len(rows) == BATCH else 0, sweep.looked))
        if self._swept is not None:
            await self._swept()
        report = sweep.report(more=rows != ())
        if self._remember is None:
            return report
        ran, failed = await self._remember(sweep.clock())
        return msgspec.structs.replace(report, consolidated=ran, unconsolidated=failed)

    def _clock(self, now: int | None) -> Callable[[], int]:
        """The ambient's time; with `now`, as if it were so late when the sweep begins."""
        ambient = self._sessions.ambient
        ahead = 0 if now is None else now - ambient.now()
        return lambda: ambient.now() + ahead

    async def sweeping(
        self, interval: float, *, lease: float = LEASE, give_up: float = GIVE_UP
    ) -> AsyncIterator[SweepReport]:
        """A sweep, its report, and so on after each interval, for as long as somebody asks."""
        while True:
            report = await self.sweep(lease=lease, give_up=give_up)
            yield report
            if not report.more:
                await self._sessions.ambient.sleep(interval)

    async def _hold(self, session: SessionId, sweep: _Sweep) -> None:
        """Put off the end of the lease in good time; `_LeaseLost` when it is over."""
        left = sweep.held - sweep.clock()
        if left <= 0:
            raise _LeaseLost
        if left < sweep.lease // 2:
            await self._put_off(session, sweep, sweep.lease)

    async def _put_off(self, session: SessionId, sweep: _Sweep, pause: int) -> None:
        """Let the session come up again after a pause, unless something newer than the lease has set its timer for
        later. What is due at once is what is seen to here.
        """
        now, head = sweep.clock(), await self._store.head(session)
        due = None if head is None else head.row.due_at
        if head is None or due is None or (due != sweep.held and due > now):
            return
        if await self._store.arm(session, now + pause, expected=head.row.digest):
            sweep.held = now + pause

    async def _see_to(self, session: SessionId, sweep: _Sweep) -> None:
        """Do one thing about one session; whatever goes wrong with it stays with it.

        A move sets the timer, and with that ends the lease: if something more is due, it is claimed again for that.
        """
        action: Action | None = None
        try:
            sweep.held = sweep.until
            await self._hold(session, sweep)
            for _ in range(STEPS):
                loaded = await self._sessions.loader.load(session)
                action = overdue(loaded.state, sweep.clock(), self._sessions.timeouts)
                if action is None:
                    if await self._arm(session, loaded, sweep):
                        return
                elif not await self._act(session, loaded, action, sweep):
                    return
        except (NotFound, _LeaseLost):
            return  # erased, by this sweep or by somebody else; or somebody else is at it by now
        except _WHOLE_STORE:
            raise
        except Exception as error:  # hooks are the application's code, and a damaged session must not stop the others
            words = scrub.brief(f"{type(error).__name__}: {error}", MAX_ERROR)
            await self._leave(session, sweep, action, words, None)

    async def _act(self, session: SessionId, loaded: Loaded, action: Action, sweep: _Sweep) -> bool:
        """Do what is due; whether to look again, because somebody else wrote first or it is not due after all."""
        try:
            match action.due:
                case Due.ERASE:
                    await self._erasure.erase(session)
                    sweep.note(session, "erased", action)
                case Due.COMPENSATE:
                    return await self._compensate(session, action, sweep)
                case Due.END:
                    return await self._end(session, action, sweep)
                case Due.SUSPEND:
                    await self._move(session, loaded, action)
                    sweep.note(session, "suspended", action)
        except VersionConflict:
            return True
        return False

    async def _move(self, session: SessionId, loaded: Loaded, action: Action) -> None:
        await self._lifecycle.move(session, action.move, action.reason, expected=loaded.state.version)

    async def _end(self, session: SessionId, action: Action, sweep: _Sweep) -> bool:
        """Clean up, then end it, unless it was given more time meanwhile."""

        async def alive() -> None:
            await self._hold(session, sweep)

        stuck = await self._cleanup.run(session, action.reason, alive=alive, give_up=sweep.give_up)
        if stuck is not None:
            await self._leave(session, sweep, action, f"{stuck.step}: {stuck.error}", stuck.since)
            return False
        loaded = await self._sessions.loader.load(session)
        action_now = overdue(loaded.state, sweep.clock(), self._sessions.timeouts)
        if action_now is None or action_now.due is not Due.END:
            return True
        await self._move(session, loaded, action_now)
        sweep.note(session, "ended", action_now)
        return False

    async def _compensate(self, session: SessionId, action: Action, sweep: _Sweep) -> bool:
        """Finish what a sweeper that died after ending the session left undone."""
        unknown = await self._lifecycle.compensate(session)
        if not unknown:
            sweep.note(session, "compensated", action)
            return True
        words = f"nobody here knows how to undo {', '.join(unknown)}; sweep where that is registered"
        await self._leave(session, sweep, action, words, None)
        return False

    async def _leave(
        self, session: SessionId, sweep: _Sweep, action: Action | None, error: str, since: int | None
    ) -> None:
        """Come back later: the longer it has gone wrong, the later, up to an hour."""
        sweep.note(session, "waiting", action, error)
        begun = since if since is not None else action.since if action is not None else 0
        pause = min(max(SOON, self._sessions.ambient.now() - begun), LATE)
        await self._put_off(session, sweep, pause)

    async def _arm(self, session: SessionId, loaded: Loaded, sweep: _Sweep) -> bool:
        """Set the timer to what the state says; whether that still is the state: an append that sets it in between is
        not overwritten by something older.
        """
        due = due_at(loaded.state, self._sessions.timeouts)
        head = await self._store.head(session)
        if head is None or head.row.digest != loaded.digest:
            return head is None
        if head.row.due_at == due:
            return True
        armed = await self._store.arm(session, due, expected=loaded.digest)
        sweep.rearmed += armed
        return armed

    async def rearm(self, progress: Progress | None = None) -> int:
        """Look at every session and set its timer anew: after the deployment's defaults were changed, or a store of
        an earlier version was taken over. How many timers changed.
        """
        sweep = _Sweep(self._clock(None), LEASE, GIVE_UP)
        query = Query(tenant=self._sessions.identity.tenant, limit=PAGE)
        total, seen = await self._store.count(query), 0
        while rows := await self._store.find(query):
            for row in rows:
                await self._rearm(row.session, sweep)
                seen += 1
                if progress is not None:
                    progress(seen, max(total, seen))
            query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))
        return sweep.rearmed

    async def _rearm(self, session: SessionId, sweep: _Sweep) -> None:
        try:
            for _ in range(STEPS):
                if await self._arm(session, await self._sessions.loader.load(session), sweep):
                    return
        except NotFound:
            return

    async def renew(self, session: SessionId, *, ttl: float | None = None, until: int | None = None) -> int:
        """Let a session live until a moment, or for so many seconds from now, within its absolute limit; the moment
        that was granted.

        `NotOwner`, `BudgetExhausted`, `RenewalRefused` or `Terminal` when it may not.
        """
        if (ttl is None) == (until is None) or (ttl is not None and not _is_length(ttl)):
            raise Invalid(f"renew for a time (ttl, in seconds) or until a moment, not {shown(ttl)} and {shown(until)}")
        for _ in range(STEPS):
            loaded = await self._sessions.loader.load(session)
            at = max(self._sessions.ambient.now(), loaded.at)
            wanted = at + round(ttl * SECOND) if ttl is not None else until or 0
            account = await account_of(self._store, self._sessions.loader, loaded.state)
            expires_at = renewal(
                loaded.state,
                wanted,
                at=at,
                actor=self._sessions.identity.who,
                account=account,
                defaults=self._sessions.timeouts,
            )
            try:
                command = do.Renew(expires_at=expires_at)
                await self._sessions.handle(session, command, expected=loaded.state.version)
            except VersionConflict:  # somebody wrote meanwhile: ask again
                continue
            return expires_at
        raise VersionConflict(f"session {session} kept changing under this renewal; try again", session=session)


def _is_length(seconds: object) -> bool:
    return type(seconds) in (int, float) and 0 < seconds <= LONGEST  # type: ignore[operator]  # a number by now
