"""Reading a log: across the stretches that live in other sessions, every byte checked against the chain.

Invariant: an event is handed out only after its digest, its version and its place have been proven.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from perdure.core.errors import Damaged, NotFound, Tampered, UnknownKind
from perdure.core.session import record as records
from perdure.core.session.chain import genesis
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.kinds import payload_of
from perdure.core.session.record import Record
from perdure.core.session.turns import Retracted, TurnStarted
from perdure.ports.store import Head, Run, Store, Stored
from perdure.services.acting import is_another

T = TypeVar("T")
Pages = AsyncGenerator[list[Event], None]
"""Events page by page; who stops early closes it (`contextlib.aclosing`)."""
PAGE = 256
SMALL_PAGE = 8
SMALL_BYTES = 256 * 1024
"""About what a small page weighs."""
NAMES = 1024
"""How many names are remembered, for what a refusal says."""


class Stretch(msgspec.Struct, frozen=True):
    """Versions (after, upto] of a log: whose rows hold them, whose id was hashed, and the digests at both ends."""

    source: SessionId
    origin: SessionId
    raw_origin: bytes
    after: int
    upto: int
    start: bytes
    end: bytes


def stretches(head: Head) -> list[Stretch]:
    """Where the log of a session lives, oldest first."""
    row = head.row
    found: list[Stretch] = []
    after, parent, anchor = head.anchor_version, None, head.anchor_digest
    for item in head.segments:
        origin = raw(item.origin)
        start = anchor or genesis(origin, parent)
        found.append(Stretch(item.source, item.origin, origin, after, item.upto, start, item.digest))
        after, parent, anchor = item.upto, item.digest, None
    origin = raw(row.session)
    own = anchor or genesis(origin, parent)
    return [*found, Stretch(row.session, row.session, origin, after, row.version, own, row.digest)]


class Log:
    """Verified reading of session logs from a store."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._names: dict[SessionId, str] = {}

    def called(self, session: SessionId, name: str) -> None:
        """Remember what callers call a session, so that it is refused by that name if it is not there."""
        if session not in self._names and session != name:
            if len(self._names) >= NAMES:
                self._names.clear()
            self._names[session] = name

    async def head(self, session: SessionId) -> Head:
        """Where a session stands, or `NotFound`; so is another tenant's."""
        found = await self._store.head(session)
        if found is None or found.row.tenant != self._tenant or is_another(session, found.row.created_at):
            raise self._missing(session)
        return found

    def _missing(self, session: SessionId) -> NotFound:
        name = self._names.get(session)
        if name is None:
            return NotFound(f"no session {session} here; find lists those there are", session=session)
        told = f"no session named {name!r} here; create(name={name!r}) makes it, find lists those there are"
        return NotFound(told, session=session, name=name)

    async def steadily(self, session: SessionId, read: Callable[[Head], Awaitable[T]]) -> T:
        """What `read` makes of a session's log as it stands.

        A log that is pruned, handed over or erased while it is read looks damaged for that moment: then it is read
        again from where it stands now. Damage that is still there is damage.
        """
        head = await self.head(session)
        while True:
            try:
                return await read(head)
            except Tampered:
                fresh = await self.head(session)
                if (fresh.segments, fresh.anchor_version) == (head.segments, head.anchor_version):
                    raise
                head = fresh

    async def pages(self, head: Head, after: int = 0, upto: int | None = None, *, small: bool = False) -> Pages:
        """Events with versions in (after, upto], oldest first, page by page; `small` ones for who may take long over
        each.
        """
        wanted = head.row.version if upto is None else min(upto, head.row.version)
        if after < head.anchor_version:
            raise NotFound(
                f"versions up to {head.anchor_version} were pruned; read after that one",
                session=head.row.session,
                anchor=head.anchor_version,
            )
        for stretch in stretches(head):
            if stretch.upto <= after or stretch.after >= wanted:
                continue
            async with aclosing(
                self._stretch(head, stretch, max(after, stretch.after), min(wanted, stretch.upto), small)
            ) as pages:
                async for events in pages:
                    yield events

    async def events(self, head: Head, after: int = 0, upto: int | None = None) -> list[Event]:
        """All of them at once."""
        found: list[Event] = []
        async for page in self.pages(head, after, upto):
            found += page
        return found

    async def _stretch(self, head: Head, stretch: Stretch, after: int, upto: int, small: bool) -> Pages:
        previous: bytes | None = None
        following, limit = after, 1 if small else PAGE
        while following < upto:
            run = await self._store.run(stretch.source, after=following, upto=upto, limit=limit)
            if not run.records:
                raise _missing(head.row.session, following + 1)
            if previous is None:
                previous = stretch.start if run.records[0].record.first == stretch.after + 1 else run.before
            events = proven(head, stretch, run.records, previous)
            previous, following = run.records[-1].digest, run.records[-1].record.last
            if small:
                limit = _fitting(run, limit)
            if events[0].version <= after or events[-1].version > upto:
                events = [event for event in events if after < event.version <= upto]
            yield events

    async def last_turns(self, head: Head, count: int) -> list[Event]:
        """Every event from the start of the `count`-th last turn on; so no tool call is cut from its result."""
        collected: list[tuple[Stretch, Run]] = []
        wanted, gone = count, set[tuple[int, int]]()
        for stretch in reversed(stretches(head)):
            upto = stretch.upto
            while upto > stretch.after and count > 0:
                run = await self._newest(head, stretch, upto, min(PAGE, count + 4))
                kept, count = _back_to_turn(run, count, stretch.upto, gone)
                collected.append((stretch, kept))
                upto = run.records[0].record.first - 1
            if count == 0:
                break
        collected.reverse()
        events = [event for stretch, run in collected for event in _verified(head, stretch, run)]
        starts = [
            index
            for index, event in enumerate(events)
            if event.kind == TurnStarted.kind and not _is_gone(event.version, gone)
        ]
        return events[starts[-wanted] :] if wanted and len(starts) >= wanted else events

    async def backwards(self, head: Head, limit: int = PAGE) -> Pages:
        """Events newest first, so many records a page, so that a reader may stop early."""
        for stretch in reversed(stretches(head)):
            upto = stretch.upto
            while upto > stretch.after:
                run = await self._newest(head, stretch, upto, limit)
                yield _verified(head, stretch, run)[::-1]
                upto = run.records[0].record.first - 1

    async def standing(self, head: Head, first: int = SMALL_PAGE) -> Pages:
        """Events newest first for readers who want few: the pages grow from so many records on, and whole stretches
        that were retracted are passed over unread.
        """
        limit, gone = min(max(first, SMALL_PAGE), PAGE), set[tuple[int, int]]()
        place = head.row.version
        for stretch in reversed(stretches(head)):
            place = min(place, stretch.upto)
            while place > stretch.after:
                run = await self._newest(head, stretch, place, limit)
                events = _verified(head, stretch, run)[::-1]
                gone |= _retracted(events)
                yield events
                place = run.records[0].record.first - 1
                while (last := next((first for first, upto in gone if first <= place <= upto), None)) is not None:
                    place = last - 1
                limit = min(2 * limit, PAGE)

    async def _newest(self, head: Head, stretch: Stretch, upto: int, limit: int) -> Run:
        """The newest records of a stretch up to a version; `Damaged` when the one that holds that version is gone."""
        run = await self._store.run(stretch.source, after=stretch.after, upto=upto, limit=limit, newest=True)
        if not run.records or run.records[-1].record.last < upto:
            raise _missing(head.row.session, upto)
        return run

    async def place(self, head: Head, version: int) -> tuple[bytes, int | None]:
        """The chain's value after a version, and the latest turn begun by then, if the record there tells."""
        for shared in stretches(head)[:-1]:
            if shared.upto < version:  # whoever goes on from there shares this too: its end must be there
                await self._newest(head, shared, shared.upto, 1)
        if version == head.row.version:
            return head.row.digest, head.row.turns
        for stretch in stretches(head):
            if stretch.after < version <= stretch.upto:
                run = await self._store.run(stretch.source, after=version - 1, upto=version, limit=1)
                if not run.records:
                    raise _missing(head.row.session, version)
                first = run.records[0].record.first
                previous = stretch.start if first == stretch.after + 1 else run.before
                events = check(head, stretch, run.records[0], previous)[: version - first + 1]
                seen = [event.turn for event in events if event.turn is not None]
                return events[-1].digest, seen[-1] if seen else None
        raise NotFound(
            f"session {head.row.session} has no version {version}; it has up to {head.row.version}",
            session=head.row.session,
            version=version,
        )


def _fitting(run: Run, limit: int) -> int:
    """How many records the next small page has, by what those of this one weigh."""
    weight = sum(len(entry.data) for stored in run.records for entry in stored.record.entries)
    return max(1, min(PAGE, 2 * limit, SMALL_BYTES * len(run.records) // max(1, weight)))


def _back_to_turn(run: Run, count: int, upto: int, gone: set[tuple[int, int]]) -> tuple[Run, int]:
    """The newest records of a run back to the one in which the wanted turn starts, and how many turns are missing.
    Turns whose start was retracted do not count; `gone` gathers what was.
    """
    for index in range(len(run.records) - 1, -1, -1):
        record = run.records[index].record
        for offset, entry in enumerate(record.entries):
            version = record.first + offset
            if entry.kind == Retracted.kind and version <= upto:
                data = payload_of(entry)
                gone |= {(data.first, data.upto)} if isinstance(data, Retracted) else set()
        for offset, entry in enumerate(record.entries):
            version = record.first + offset
            count -= entry.kind == TurnStarted.kind and version <= upto and not _is_gone(version, gone)
        if count <= 0:
            before = run.records[index - 1].digest if index else run.before
            return Run(before, run.records[index:]), 0
    return run, count


def _retracted(events: Iterable[Event]) -> set[tuple[int, int]]:
    """The stretches that these events take out of the conversation."""
    found = [event.data for event in events if event.kind == Retracted.kind]
    return {(data.first, data.upto) for data in found if isinstance(data, Retracted)}


def _is_gone(version: int, gone: set[tuple[int, int]]) -> bool:
    return any(first <= version <= upto for first, upto in gone)


def _verified(head: Head, stretch: Stretch, run: Run) -> list[Event]:
    first = run.records[0].record.first
    return proven(head, stretch, run.records, stretch.start if first == stretch.after + 1 else run.before)


def proven(head: Head, stretch: Stretch, stored: Iterable[Stored], previous: bytes | None) -> list[Event]:
    """The events of records that follow one another from `previous` on, each record proven."""
    found: list[Event] = []
    for item in stored:
        found += check(head, stretch, item, previous)
        previous = item.digest
    return found


def check(head: Head, stretch: Stretch, stored: Stored, previous: bytes | None) -> list[Event]:
    """The events of one stored record, proven to follow `previous` and to end in the digest kept beside them.

    Where a branch was made inside the record, the stretch's own end is the proof.
    """
    record = stored.record
    if previous is None:
        raise _missing(head.row.session, record.first - 1)
    if record.origin != stretch.raw_origin:
        raise Tampered(
            f"version {record.first} of session {head.row.session} belongs to another log; restore it from a backup",
            session=head.row.session,
            version=record.first,
        )
    expected = stretch.end if record.last >= stretch.upto else stored.digest
    try:
        events = records.read(record, head.row.tenant, previous, stretch.upto)
    except UnknownKind:
        # A kind nobody knows is a newer perdure's only if the chain says that it was written so.
        if expected not in records.digests(record, head.row.tenant, previous):
            raise _altered(head.row.session, record) from None
        raise
    if not events or events[-1].digest != expected:
        raise _altered(head.row.session, record)
    return events


def _altered(session: SessionId, record: Record) -> Tampered:
    return Tampered(
        f"versions {record.first} to {record.last} of session {session} were changed after they were written; restore "
        "them from a backup",
        session=session,
        first=record.first,
        last=record.last,
    )


def _missing(session: SessionId, version: int) -> Damaged:
    return Damaged(
        f"version {version} of session {session} is missing; restore it from a backup",
        session=session,
        version=version,
    )
