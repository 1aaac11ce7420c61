"""The heart of the shell: load a session, let the core decide, append, remember.

Commands on one session queue in this process; compare-and-set guards against others. A caller who names the version
it saw gets a conflict when it is stale; one who does not is decided again on what is there now.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from perdure.core.errors import CallerError, ConflictError, KeyInFlight, KeyReused, VersionConflict
from perdure.core.masking import masked_draft
from perdure.core.session import budget
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.chain import BLIND_BYTES, genesis
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Draft, Event
from perdure.core.session.ids import RANDOM_BYTES, SessionId, raw, text
from perdure.core.session.origin import Timeouts
from perdure.core.session.record import Record
from perdure.core.session.state import State
from perdure.core.session.timeouts import OFF, SECOND
from perdure.core.session.wishes import Decided, Wish, with_automatic_checkpoints
from perdure.core.session.write import Base, Checkpoint, Mark, Stamp, Written, write
from perdure.core.tiers import DEFAULT_COSTS, asked_anew, choose
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.store import Commit, KeyTaken, KeyUse, Remembered, Segment, Snapshot, Store
from perdure.projections.row import row_of, same_listing
from perdure.services.accounts import moves_of
from perdure.services.acting import Identity
from perdure.services.keys import key_use
from perdure.services.loading import CACHED_SESSIONS, Loaded, Loader, SnapshotPolicy, snapshot_of, stale
from perdure.services.restoring import base_of
from perdure.waiting import Lane

RETRIES: Final = 1000
"""How often a command without an expected version is decided anew before giving up; each time someone else won."""

FreshId = Callable[[int, bytes | None], bytes]
"""A new id for a moment, from these random bytes or from fresh ones."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a command did: the versions it wrote, and whether an earlier call with the same key had done it."""

    session: SessionId
    first: int
    version: int
    events: tuple[Event, ...] = ()
    repeated: bool = False


class Extra(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What else an append carries, in the same transaction."""

    rewrites: tuple[Record, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    dropped_checkpoints: tuple[str, ...] = ()
    accounts: tuple[budget.AccountMove, ...] = ()
    others: tuple[Commit, ...] = ()


NOTHING: Final = Extra()


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch starts from: as much of the parent's state as its row needs, the digest at the branch point, and
    where the shared log lives. The full state is folded when first asked for, so branching costs the same anywhere.
    """

    state: State
    digest: bytes | None
    segments: tuple[Segment, ...]
    anchor: tuple[int, bytes] | None = None
    snapshot: Snapshot | None = None
    timed: bool = False
    """Whether time-outs may be inherited that only the full state tells: then somebody looks as soon as any can be."""


NO_PREFIX: Final = Prefix(state=states.BLANK, digest=None, segments=())


class Sessions:
    """Load → decide → append, for every command on a session."""

    masks: str | None = None
    """What is masked before it is written: pii, credentials or all; None for nothing."""

    def __init__(
        self,
        store: Store,
        ambient: Ambient,
        fresh_id: FreshId,
        identity: Identity,
        snapshots: SnapshotPolicy,
        timeouts: Timeouts = OFF,
    ) -> None:
        self.timeouts = timeouts
        self.store = store
        self.ambient = ambient
        self.identity = identity
        self.loader = Loader(store, ambient, snapshots, identity.tenant)
        self.log = self.loader.log
        self._fresh_id = fresh_id
        self._lanes: dict[SessionId, Lane] = {}
        self._in_flight: set[tuple[SessionId | None, str]] = set()
        on_fork(self, Forking(_unchanged, _unchanged, Sessions._forked))

    def _forked(self) -> None:
        """A child of a fork starts with empty queues: whoever held them lives in the parent."""
        self._lanes.clear()
        self._in_flight.clear()

    def fresh_id(self) -> str:
        """A new id as text."""
        return text(self._fresh_id(self.ambient.now(), None))

    def lane(self, session: SessionId) -> Lane:
        """The queue of commands on one session."""
        known = self._lanes.get(session)
        if known is not None:
            return known
        if len(self._lanes) > 2 * CACHED_SESSIONS:
            for name in [name for name, lane in list(self._lanes.items()) if lane.idle]:
                self._lanes.pop(name, None)
        return self._lanes.setdefault(session, Lane())

    async def create(
        self,
        command: do.Create,
        *,
        session: SessionId | None = None,
        key: str | None = None,
        prefix: Prefix | None = None,
        accounts: tuple[budget.AccountMove, ...] = (),
        asked: list[Any] | None = None,
    ) -> Outcome:
        """Begin a session; with a prefix, a branch. The same key begins it only once.

        `asked` is what the caller asked for, where the command holds more than that.
        """
        # The account is named after the session, whose id is fresh with every call.
        use = self._key_use(None, key, asked or msgspec.structs.replace(command, account=None))
        if use is not None and (before := await self._repeated(use)) is not None:
            return before
        fresh = session or SessionId(self.fresh_id())
        begun = prefix or NO_PREFIX
        loaded = Loaded(state=begun.state, digest=genesis(raw(fresh), begun.digest))
        criticality = None if command.config is None else command.config.criticality
        self._must_offer(criticality)
        decided = decide(begun.state, command, Facts(at=self.ambient.now()))
        written = await self._write(fresh, loaded, decided, key)
        row = row_of(written.state, digest=written.digest, at=written.record.at, defaults=self.timeouts)
        commit = Commit(
            row=msgspec.structs.replace(row, due_at=written.record.at + SECOND) if begun.timed else row,
            expected=begun.state.version,
            record=written.record,
            creates=True,
            segments=begun.segments,
            anchor=begun.anchor,
            snapshot=begun.snapshot,
            key=use,
            accounts=(*accounts, *await moves_of(self.store, self.loader, begun.state, written)),
            checkpoints=written.checkpoints,
            criticality=criticality,
        )
        try:
            await self.store.append([commit])
        except KeyTaken as taken:
            return _outcome_of(taken.remembered, use)
        if prefix is None:
            self.loader.remember(fresh, _after(loaded, written))
        return Outcome(session=fresh, first=written.record.first, version=written.state.version, events=written.events)

    def _must_offer(self, criticality: str | None) -> None:
        """`Invalid` when the store has no tier that is durable enough."""
        if criticality is not None:
            choose(criticality, {tier: DEFAULT_COSTS[tier] for tier in self.store.tiers})

    async def handle(
        self,
        session: SessionId,
        command: do.Command,
        *,
        expected: int | bytes | None = None,
        key: str | None = None,
        extra: Callable[[Loaded], Any] | None = None,
        asked: list[Any] | None = None,
    ) -> Outcome:
        """Decide the command on the session as it stands and make its events durable.

        `VersionConflict` names the version found when `expected`, a version or its digest, is stale. With a key, a
        repeated call returns what the first one did. `extra` tells, once the state is known, what else to append;
        `asked` is what the caller asked for, where the command holds what was made of it.
        """
        use = self._key_use(session, key, asked or command)
        if use is None:
            async with self.lane(session):
                return await self._attempt(session, command, expected, None, extra)
        place = (session, use.key)
        if place in self._in_flight:
            raise KeyInFlight(f"key {key!r} is being served right now; wait for that call", key=key)
        try:
            self._in_flight.add(place)
            async with self.lane(session):
                return await self._attempt_once(session, command, expected, use, extra)
        finally:
            self._in_flight.discard(place)

    async def _attempt_once(
        self,
        session: SessionId,
        command: do.Command,
        expected: int | bytes | None,
        use: KeyUse,
        extra: Callable[[Loaded], Any] | None,
    ) -> Outcome:
        """The command under its key. An append looks for the key itself; here it is done where none comes of it."""
        if extra is not None and (before := await self._repeated(use)) is not None:
            return before
        try:
            outcome = await self._attempt(session, command, expected, use, extra)
        except (CallerError, ConflictError):  # no refusal if it was done before
            if (before := await self._repeated(use)) is not None:
                return before
            raise
        if not outcome.events and not outcome.repeated and (before := await self._repeated(use)) is not None:
            return before
        return outcome

    async def _attempt(
        self,
        session: SessionId,
        command: do.Command,
        expected: int | bytes | None,
        use: KeyUse | None,
        extra: Callable[[Loaded], Any] | None,
    ) -> Outcome:
        loaded = self.loader.recent(session) or await self.loader.load(session)
        if stale(loaded, expected):
            loaded = await self.loader.load(session)
        looked = expected is not None
        for _ in range(RETRIES):
            if stale(loaded, expected):
                seen = expected.hex() if isinstance(expected, bytes) else expected
                raise VersionConflict(
                    f"session {session} is at version {loaded.state.version}, not {seen}; reload and decide again",
                    session=session,
                    expected=seen,
                    found=loaded.state.version,
                )
            try:
                outcome = await self._once(session, loaded, command, use, extra)
            except KeyTaken as taken:
                return _outcome_of(taken.remembered, use)
            except (CallerError, ConflictError) as refusal:
                # The store may have taken it for its namesake that was erased; after its first refusal it looks.
                mistaken = not looked and isinstance(refusal, VersionConflict)
                looked = looked or mistaken
                if not mistaken and await self._is_current(session, loaded):
                    raise
            else:
                if outcome.events or await self._is_current(session, loaded):
                    return outcome
            loaded = await self.loader.load(session)
        told = f"session {session} kept changing under this command; try again"
        raise VersionConflict(told, session=session, found=loaded.state.version)

    async def _is_current(self, session: SessionId, loaded: Loaded) -> bool:
        """Whether the session still stands so; only then does a refusal, or having nothing to do, count."""
        return (await self.loader.load(session)).digest == loaded.digest

    async def _once(
        self,
        session: SessionId,
        loaded: Loaded,
        command: do.Command,
        use: KeyUse | None,
        extra: Callable[[Loaded], Any] | None,
    ) -> Outcome:
        at = max(self.ambient.now(), loaded.at)
        decided = with_automatic_checkpoints(loaded.state, decide(loaded.state, command, Facts(at=at)), at)
        if not decided:
            version = loaded.state.version
            return Outcome(session=session, first=version + 1, version=version)
        more: Extra = await extra(loaded) if extra is not None else NOTHING
        written = await self._write(session, loaded, decided, use.key if use else None, at)
        asks = asked_anew(loaded.state.config.criticality, written.state.config.criticality)
        if asks is not None:
            self._must_offer(written.state.config.criticality)
        unsaved = loaded.unsaved_bytes + written.size
        # A state folded before content was destroyed still holds it: the append that destroys must not cache that.
        save = not more.rewrites and self.loader.due(loaded, written.state.version, unsaved)
        commit = Commit(
            row=row_of(written.state, digest=written.digest, at=at, defaults=self.timeouts),
            expected=loaded.state.version,
            expected_digest=loaded.digest,
            record=written.record,
            listing=not same_listing(loaded.state, written.state),
            key=use,
            accounts=(*more.accounts, *await moves_of(self.store, self.loader, loaded.state, written)),
            checkpoints=(*written.checkpoints, *more.checkpoints),
            dropped_checkpoints=more.dropped_checkpoints,
            rewrites=more.rewrites,
            snapshot=snapshot_of(written.state) if save else None,
            criticality=asks,
        )
        await self.store.append([commit, *more.others])
        self.loader.remember(session, _after(loaded, written, unsaved, saved=save))
        return Outcome(
            session=session, first=written.record.first, version=written.state.version, events=written.events
        )

    async def prepared(self, session: SessionId, command: do.Command) -> Commit:
        """What a command does to another session, to be made durable together with an append of this one's."""
        loaded = await self.loader.load(session)
        at = max(self.ambient.now(), loaded.at)
        written = await self._write(session, loaded, decide(loaded.state, command, Facts(at=at)), None, at)
        row = row_of(written.state, digest=written.digest, at=at)
        return Commit(
            row=row,
            expected=loaded.state.version,
            expected_digest=loaded.digest,
            record=written.record,
            listing=False,
        )

    async def _write(
        self, session: SessionId, loaded: Loaded, decided: Decided, key: str | None, at: int | None = None
    ) -> Written:
        """Fulfil the wishes for checkpoints and turn the drafts into a record."""
        at = max(self.ambient.now(), loaded.at) if at is None else at
        drafts: list[Draft | Mark] = []
        for item in decided:
            if isinstance(item, Wish):
                base: Base | None = loaded.base or await base_of(self.store, session, loaded.state)
                mark = Mark(
                    id=self.fresh_id(), trigger=item.trigger, label=item.label, metadata=item.metadata, base=base
                )
                drafts.append(mark)
            else:
                drafts.append(item if self.masks is None else masked_draft(item, self.masks))
        chance = self.ambient.random(RANDOM_BYTES + BLIND_BYTES * len(drafts))
        stamp = Stamp(
            tenant=self.identity.tenant,
            session=session,
            raw_session=raw(session),
            uid=self._fresh_id(at, chance[:RANDOM_BYTES]),
            at=at,
            actor=self.identity.who,
            blinds=chance[RANDOM_BYTES:],
            key=key,
        )
        return write(loaded.state, loaded.digest, drafts, stamp)

    async def repeated(
        self, session: SessionId | None, key: str | None, asked: do.Command | list[Any]
    ) -> Outcome | None:
        """What an earlier call with this key did, if there was one; `KeyReused` when it asked for something else."""
        use = self._key_use(session, key, asked)
        return None if use is None else await self._repeated(use)

    def _key_use(self, session: SessionId | None, key: str | None, asked: do.Command | list[Any]) -> KeyUse | None:
        # The length tells where the tenant ends, so that no two pairs of names are one principal.
        principal = f"{len(self.identity.tenant)}:{self.identity.tenant}:{self.identity.who}"
        return key_use(principal, session, key, asked)

    async def _repeated(self, use: KeyUse) -> Outcome | None:
        found = await self.store.remembered(use)
        return None if found is None else _outcome_of(found, use)


def _unchanged(_: Sessions) -> None:
    """A fork takes nothing from the parent."""


def _outcome_of(found: Remembered, use: KeyUse | None) -> Outcome:
    """What the first call with this key did; `KeyReused` when that was something else."""
    if use is not None and found.fingerprint != use.fingerprint:
        raise KeyReused(
            f"key {use.key!r} was used for another request; choose a fresh key", key=use.key, session=found.session
        )
    return Outcome(session=found.session, first=found.first, version=found.last, repeated=True)


def _after(loaded: Loaded, written: Written, unsaved: int = 0, *, saved: bool = False) -> Loaded:
    base = loaded.base
    if written.checkpoints:
        base = None
    return Loaded(
        state=written.state,
        digest=written.digest,
        at=written.record.at,
        snapshot_version=written.state.version if saved else loaded.snapshot_version,
        unsaved_bytes=0 if saved else unsaved,
        base=base,
    )
