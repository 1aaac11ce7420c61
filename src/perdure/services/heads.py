"""Signed heads: vouching, apart from the store, for how far each log goes; and telling which logs no longer do.

Signed is after moves that matter, at sweeps and backups, and when asked: never within an append. Invariants: a head
moves forward only, and only along its log, so that whoever cut a log cannot have the rest of it vouched for; what the
vault cannot take now is signed later, and no move fails for it.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from perdure.core.errors import NotFound, Tampered, WorldError
from perdure.core.session.heads import Stands, stands
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved
from perdure.core.session.timeouts import SECOND
from perdure.ports.backup import Progress
from perdure.ports.heads import Heads, Placed, Reached, Sealed, Vouched, heads_of
from perdure.ports.seal import Place
from perdure.ports.store import Head, Query, Row
from perdure.services.sessions import Sessions
from perdure.waiting import aside

MOVES: Final = ("archive", "complete", "expire", "suspend", "terminate", "timeout")
"""After these a head is signed."""
PAGE: Final = 200
SLACK: Final = 600 * SECOND
"""How far apart the clocks of those who write may be before a sweep passes over what they wrote."""
ACCEPT: Final = (
    "restore the newest backup; if you put an older copy back yourself, say so: perdure keys sign --accept REASON"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Unsigned(msgspec.Struct, frozen=True):
    """A session that nobody may vouch for, and why."""

    session: SessionId
    what: str


class SignReport(msgspec.Struct, frozen=True, kw_only=True):
    """What signing did: how many sessions were looked at, how many heads were signed anew, and those that were not
    because their log does not go on from the head it has. `sealed` is False where there are no keys to sign with.
    """

    sealed: bool
    sessions: int = 0
    signed: int = 0
    refused: tuple[Unsigned, ...] = ()

    def __add__(self, other: "SignReport") -> "SignReport":
        return SignReport(
            sealed=self.sealed or other.sealed,
            sessions=self.sessions + other.sessions,
            signed=self.signed + other.signed,
            refused=self.refused + other.refused,
        )


class HeadsReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions have a signed head, and those that stand against it. `sealed` as in `SignReport`."""

    sealed: bool
    signed: int = 0
    amiss: tuple[Unsigned, ...] = ()


class HeadKeeper:
    """The signed heads of a store, for the sessions of one tenant."""

    def __init__(self, sessions: Sessions) -> None:
        self._log = sessions.log
        self._store = sessions.store
        self._ambient = sessions.ambient
        self._tenant = sessions.identity.tenant
        seals = self._store.seals if isinstance(self._store, Sealed) else ()
        self._books = {id(seal): heads for seal in seals if (heads := heads_of(seal)) is not None}

    @property
    def kept(self) -> bool:
        """Whether there are signed heads at all: a store in the clear has no keys to sign with."""
        return bool(self._books)

    # ── signing ──

    async def moved(self, session: SessionId, _: Moved) -> None:
        """A hook after moves."""
        await self.reached(session)

    async def reached(self, session: SessionId) -> None:
        """Vouch for a session as it stands, if that can be done now."""
        if self.kept:
            with suppress(NotFound, WorldError):
                await self._sign([(await self._log.head(session)).row])

    async def catch_up(self) -> None:
        """Vouch for every session that has changed since this was done last, if that can be done now.

        That costs the number of those, not of all sessions.
        """
        if not self.kept:
            return
        with suppress(WorldError):
            began = self._ambient.now()
            last = await aside(lambda: min(heads.caught_up(self._tenant) for heads in self._books.values()))
            await self._through(Query(tenant=self._tenant, by_activity=True, active_after=max(0, last - SLACK)))
            if began - last >= SLACK // 10:  # that much is looked at again anyway
                await self._note(began)

    async def sign_all(self, *, accept: str | None = None, progress: Progress | None = None) -> SignReport:
        """Vouch for every session of the tenant as it stands.

        With `accept`, the reason for it, also for logs that do not go on from their signed heads, and for the absence
        of sessions: whoever restores a backup goes back, and means to.
        """
        if not self.kept:
            return SignReport(sealed=False)
        began = self._ambient.now()
        for heads in self._books.values() if accept is not None else ():
            lost = [item.salt for item in await self._lost_in(heads, every=True)]
            await aside(partial(heads.drop, lost))
        done = await self._through(Query(tenant=self._tenant), accept, progress)
        await self._note(began)
        return done

    async def _note(self, at: int) -> None:
        for heads in self._books.values():
            await aside(partial(heads.note_caught_up, self._tenant, at))

    async def _through(self, query: Query, accept: str | None = None, progress: Progress | None = None) -> SignReport:
        done = SignReport(sealed=True)
        query = msgspec.structs.replace(query, limit=PAGE)
        total = await self._store.count(query) if progress is not None else 0
        while rows := await self._store.find(query):
            done += await self._sign(rows, accept)
            if progress is not None:
                progress(done.sessions, max(done.sessions, total))
            last = rows[-1]
            after = (last.active_at if query.by_activity else last.created_at, last.session)
            query = msgspec.structs.replace(query, after=after)
        return done

    async def _sign(self, rows: Sequence[Row], accept: str | None = None) -> SignReport:
        """Vouch for these, in one transaction for each vault."""
        found: dict[int, list[tuple[Row, Place]]] = {}
        for row in rows:
            placed = await self._placed(row.session)
            if placed is not None:
                found.setdefault(placed[0], []).append((row, placed[1]))
        done = SignReport(sealed=True, sessions=len(rows))
        for book, held in found.items():
            done += await self._sign_in(self._books[book], held, accept)
        return done

    async def _sign_in(self, heads: Heads, held: Sequence[tuple[Row, Place]], accept: str | None) -> SignReport:
        known = await aside(lambda: heads.signed([place for _, place in held]))
        reached: list[Reached] = []
        refused: list[Unsigned] = []
        for row, place in held:
            before = known.get(place.salt or b"")
            what = ""
            if before is not None:
                if not before.fault and (before.version, before.digest) == (row.version, row.digest):
                    continue
                what = await self._amiss(before, row.session) if accept is None else ""
            if what:
                refused.append(Unsigned(row.session, what))
            else:
                reached.append(Reached(place, row.version, row.digest))
        signed = await aside(partial(heads.sign, reached, accept or "", back=accept is not None))
        return SignReport(sealed=True, signed=signed, refused=tuple(refused))

    async def _amiss(self, signed: Vouched, session: SessionId) -> str:
        """Why a log may not be vouched for any further; empty when it goes on from its signed head."""
        if signed.fault:
            return signed.fault
        try:
            head = await self._log.head(session)
            return amiss(signed, head, await self._digest_at(head, signed.version))
        except NotFound:  # erased, or pruned meanwhile
            return ""
        except Tampered as damage:
            return damage.message

    async def _digest_at(self, head: Head, version: int) -> bytes | None:
        """The chain's value at a version, proven; None where the log has nothing there."""
        if version == head.anchor_version:
            return head.anchor_digest
        if not head.anchor_version < version <= head.row.version:
            return None
        return (await self._log.events(head, version - 1, version))[-1].digest

    async def _placed(self, session: SessionId) -> tuple[int, Place] | None:
        """Which heads are a session's, and its place among them; None when it has none."""
        try:
            wrapping = await self._store.wrapping(session)
        except (NotFound, Tampered):
            return None
        if not isinstance(wrapping, Placed) or wrapping.place.salt is None or id(wrapping.seal) not in self._books:
            return None
        return id(wrapping.seal), wrapping.place

    # ── looking ──

    async def of(self, session: SessionId) -> Vouched | None:
        """The signed head of a session, if it has one."""
        placed = await self._placed(session) if self.kept else None
        if placed is None:
            return None
        book, place = placed
        found = await aside(lambda: self._books[book].signed([place]))
        return found.get(place.salt or b"")

    async def check(self) -> HeadsReport:
        """Every signed head of the tenant against the row of its session: quick, since no log is read. A log that was
        changed before its end, only verifying finds.
        """
        signed, wrong = 0, []
        for heads in self._books.values():
            after = b""
            while page := await aside(partial(heads.known, after, PAGE)):
                for item in page:
                    if item.tenant == self._tenant:
                        signed += 1
                        wrong += [Unsigned(item.session, what)] if (what := await self._outrun(item)) else []
                after = page[-1].salt
        wrong += [Unsigned(item.session, absent(item)) for item in await self.lost()]
        return HeadsReport(sealed=self.kept, signed=signed, amiss=tuple(wrong))

    async def _outrun(self, signed: Vouched) -> str:
        head = await self._store.head(signed.session)
        if head is None:  # lost, or erased just now
            return ""
        return amiss(signed, head, head.row.digest if head.row.version == signed.version else signed.digest)

    async def lost(self) -> tuple[Vouched, ...]:
        """The signed heads of sessions of the tenant that the store does not have."""
        return tuple([item for heads in self._books.values() for item in await self._lost_in(heads)])

    def genuine(self, head: Vouched) -> bool | None:
        """Whether a head that was taken elsewhere was signed with the keys of this store; None where there are none."""
        return any(not heads.fault(head) for heads in self._books.values()) if self.kept else None

    async def former(self, session: SessionId) -> tuple[Vouched, ...]:
        """The signed heads of this id that are not those of the session that is here now, if one is: erasing takes a
        head along, so one that is left tells of a log that was taken out, or replaced by another.
        """
        placed = await self._placed(session)
        own, found = None if placed is None else placed[1].salt, list[Vouched]()
        for heads in self._books.values():
            after = b""
            while page := await aside(partial(heads.known, after, PAGE)):
                found += [item for item in page if (item.tenant, item.session) == (self._tenant, session)]
                after = page[-1].salt
        return tuple(item for item in found if item.salt != own)

    async def _lost_in(self, heads: Heads, *, every: bool = False) -> list[Vouched]:
        """The heads without a session, of one tenant or of `every` one."""
        lost: list[Vouched] = []
        after = b""
        while page := await aside(partial(heads.known, after, PAGE)):
            asked = [item for item in page if every or item.tenant == self._tenant]
            lost += [item for item in asked if await self._store.head(item.session) is None]
            after = page[-1].salt
        places = [Place(item.tenant, b"", item.salt) for item in lost]
        still = await aside(lambda: heads.signed(places))  # a session that was erased meanwhile took its head along
        return [item for item in lost if item.salt in still]


def amiss(signed: Vouched, head: Head, found: bytes | None) -> str:
    """What is wrong with a log that has the digest `found` at its signed version; empty when nothing is."""
    if signed.fault:
        return signed.fault
    match stands((signed.version, signed.digest), head.row.version, found, head.anchor_version):
        case Stands.CUT:
            return (
                f"the log ends at {head.row.version}, but its head was signed at {signed.version} on "
                f"{day(signed.at)}: the tail was cut, or an older copy was put back"
            )
        case Stands.OTHER:
            return (
                f"the log is another one than was signed at {signed.version} on {day(signed.at)}: it was replaced, or "
                "an older copy was put back and written on"
            )
        case Stands.WHOLE | Stands.PRUNED:
            return ""


def absent(signed: Vouched) -> str:
    """What to say of a session that has a signed head and is not there."""
    return signed.fault or (
        f"session {signed.session} is not here, but its head was signed at {signed.version} on {day(signed.at)}: it "
        "was taken out, or an older copy of the store was put back"
    )


def day(at: int) -> str:
    """A moment for people."""
    return f"{_EPOCH + timedelta(microseconds=at):%Y-%m-%d %H:%M} UTC"
