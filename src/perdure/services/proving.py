"""One pass over a log that does not stop at damage: it names every place that is wrong and goes on behind it.

Behind damage the chain is taken up again from the digests kept beside the records, so what is still whole is proven to
be. The state, though, is only known up to the first damage: after it there is nothing to fold onto.
"""

from collections.abc import Collection
from hashlib import sha256
from typing import Any, Literal

import msgspec

from perdure.core.errors import BundleMissing, Damaged, NotFound, Shredded, Tampered, UnknownKind
from perdure.core.session import record as records
from perdure.core.session import state as states
from perdure.core.session.chain import genesis
from perdure.core.session.checkpoints import CheckpointExpired, CheckpointPinned, CheckpointTaken
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.record import Record
from perdure.core.session.redaction import Redacted
from perdure.core.session.refs import Use, in_record
from perdure.core.session.state import State
from perdure.ports.store import Head, Run, Store, Stored
from perdure.services.log import PAGE, Stretch, stretches

Place = Literal["log", "row", "snapshot", "checkpoint", "segment", "store", "blob", "key", "head"]
RESTORE = "restore the session from a backup or an export"
BUNDLE = "name its cold storage, or bring the bundle back from a copy of that; the store does not hold this log"
ERASED = "the session was erased: its key is gone"
NEWEST_VAULT = "if nobody erased it, the vault is older than the store: name the newest one"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it was written: where, which versions (first and last), what, and what to do."""

    place: Place
    versions: tuple[int, int] | None = None
    what: str
    advice: str


async def shredded(store: Store, session: SessionId) -> bool:
    """Whether the key of a session is gone, and with it everything that was sealed with it."""
    try:
        (await store.wrapping(session)).wrap("probe", 0, b"", b"")
    except Shredded:
        return True
    except (NotFound, Tampered):
        pass
    return False


class Walk:
    """The pass. `wanted` are the versions whose states shall be compared with something; `shas` has their digests.
    `watched` is a version whose place in the chain is wanted: `passed` is the digest proven there.
    """

    def __init__(self, store: Store, head: Head, start: State | None, wanted: Collection[int]) -> None:
        self._store = store
        self._head = head
        self._wanted = wanted
        self.problems: list[Problem] = []
        self.state = start
        self.at = self.events = self.redacted = 0
        self.shas: dict[int, bytes] = {}
        self.taken: dict[str, tuple[Event, CheckpointTaken]] = {}
        self.pinned: dict[str, bool] = {}
        self.expired: set[str] = set()
        self.uses: list[Use] = []
        self.watched = 0
        self.passed: bytes | None = None
        self._unexplained: set[int] = set()

    def note(self, place: Place, first: int, last: int, what: str, advice: str = RESTORE) -> None:
        """Remember a problem."""
        self.problems.append(Problem(place=place, versions=(first, last), what=what, advice=advice))

    async def go(self) -> None:
        """Walk the whole log."""
        ends: set[bytes] = set()
        for stretch in stretches(self._head):
            # Should the digest kept for a segment be wrong, what follows on the true one is not to blame.
            starts = {stretch.start} | {genesis(stretch.raw_origin, end) for end in ends}
            ends = await self._stretch(stretch, starts)
        if self.state is not None:
            for version in sorted(self._unexplained):
                self.note("log", version, version, "the content is gone, and no redaction says why")

    async def _stretch(self, stretch: Stretch, possible: set[bytes]) -> set[bytes]:
        """Walk one stretch, from one of these digests; the digests it may end in."""
        reached = stretch.after
        while reached < stretch.upto:
            noted = len(self.problems)
            try:
                run = await self._readable(stretch, reached)
            except Shredded:  # what follows is sealed under another key, and can be proven from here on
                self._shredded(stretch, reached + 1)
                return {stretch.end}
            except BundleMissing as missing:
                self.state = None
                if await shredded(self._store, stretch.source):  # the bundle went with its session
                    self._shredded(stretch, reached + 1)
                else:
                    self.note("log", reached + 1, stretch.upto, missing.message, BUNDLE)
                return {stretch.end}
            if not run.records:
                if len(self.problems) == noted:
                    self._gap(reached + 1, stretch.upto)
                return set()
            for index, stored in enumerate(run.records):
                first = stored.record.first
                if first != reached + 1:
                    if index or len(self.problems) == noted:
                        self._gap(reached + 1, first - 1)
                    possible = {run.before} if not index and run.before is not None else set()
                possible = self._record(stretch, stored, possible)
                reached = stored.record.last
        return possible

    def _shredded(self, stretch: Stretch, first: int) -> None:
        self.state = None
        own = stretch.source == self._head.row.session
        what = ERASED if own else f"it is shared with session {stretch.source}, which was erased: its key is gone"
        self.note("key", first, stretch.upto, what, NEWEST_VAULT)

    def _gap(self, first: int, last: int) -> None:
        self.state = None
        if first <= last:
            self.note("log", first, last, "missing")
        else:
            self.note("log", last + 1, first - 1, "stored twice")

    async def _readable(self, stretch: Stretch, reached: int) -> Run:
        """The next records that can be read; ones before them that cannot be are noted."""
        for limit in (PAGE, 16, 1):
            try:
                return await self._store.run(stretch.source, after=reached, upto=stretch.upto, limit=limit)
            except BundleMissing:
                raise
            except Tampered:
                continue
        run = Run(None, ())
        for place in range(reached + 1, stretch.upto):
            try:
                run = await self._store.run(stretch.source, after=place, upto=stretch.upto, limit=1)
            except Tampered:
                continue
            break
        self.state = None
        last = run.records[0].record.first - 1 if run.records else stretch.upto
        self.note("log", reached + 1, last, "cannot be read")
        return run

    def _record(self, stretch: Stretch, stored: Stored, possible: set[bytes]) -> set[bytes]:
        """Prove one record on one of the digests it may follow; the digests the next one may follow."""
        record = stored.record
        first, last = record.first, min(record.last, stretch.upto)
        if record.origin != stretch.raw_origin:
            self.state = None
            self.note("log", first, last, "belongs to another log")
            return {stored.digest}
        ends = set()
        for start in possible:
            digests, events, trouble = self._read(record, start)
            end = digests[last - first]
            whole = digests[-1] == stored.digest
            fits = record.last < stretch.upto or end == stretch.end
            if whole or (fits and record.last >= stretch.upto):
                if not whole:
                    self.note("log", first, last, "the digest kept beside it was changed")
                if not fits:
                    self._wrong_end(stretch, last)
                self._fold(stretch, events[: last - first + 1], first, last, trouble)
                if first <= self.watched <= last:
                    self.passed = digests[self.watched - first]
                if stretch.source == self._head.row.session:
                    self.uses += in_record(record)
                return {end}
            ends.add(end)
        self.state = None
        if possible:
            self.note("log", first, last, "changed after it was written")
        return {stored.digest, *ends}

    def _wrong_end(self, stretch: Stretch, version: int) -> None:
        if stretch.upto == self._head.row.version and stretch.origin == self._head.row.session:
            self.note("row", version, version, "the session's digest is not the one its log ends in")
        else:
            self.note("segment", version, version, "the segment's digest is not the one the shared log has there")

    def _read(self, record: Record, start: bytes) -> tuple[list[bytes], list[Event], str]:
        """A record's digests and, if they can be read, its events."""
        try:
            events = records.read(record, self._head.row.tenant, start)
        except UnknownKind as trouble:
            return records.digests(record, self._head.row.tenant, start), [], trouble.message
        return [event.digest for event in events], events, ""

    def _fold(self, stretch: Stretch, events: list[Event], first: int, last: int, trouble: str) -> None:
        try:
            for event in events:
                self.events += 1
                self.redacted += event.redacted
                self.at = event.at
                if stretch.origin == self._head.row.session:
                    self._notice(event)
                if self.state is not None:
                    self.state = states.evolve(self.state, event)
                    if event.version in self._wanted:
                        self.shas[event.version] = sha256(states.to_bytes(self.state)).digest()
        except Damaged as wrong:
            trouble = wrong.message
        if trouble:
            self.state = None
            self.note("log", first, last, trouble, "open the session with the perdure that wrote it")

    def _notice(self, event: Event) -> None:
        """Keep what the session's own events say about content and checkpoints."""
        data: Any = event.data
        if event.redacted:
            self._unexplained.add(event.version)
        match data:
            case Redacted():
                self._unexplained.difference_update(data.versions)
            case CheckpointTaken():
                self.taken[data.id] = (event, data)
            case CheckpointPinned():
                self.pinned[data.id] = data.pinned
            case CheckpointExpired():
                self.expired.update(data.ids)
            case _:
                pass
