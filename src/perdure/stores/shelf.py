"""All that the volatile store keeps of one session: its head, its records in order, and what lies beside them.

How content is held, as it is or sealed, `holding` knows; here it is only put in its place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from perdure.core.errors import NotFound
from perdure.core.session.record import Record, both_redacted
from perdure.core.session.refs import Use, in_bytes, in_record
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Commit, Head, Row, Run, Snapshot, Stored
from perdure.stores.holding import Held, HeldRow, Holding
from perdure.stores.refusals import refuse_beyond, stale
from perdure.stores.streams import redacted_turns
from perdure.stores.volatile_streams import Streams


class Shelf:
    """One session. The caller holds the store's lock. `head` is without the content of the row: see `shown`."""

    def __init__(self, holding: Holding, head: Head, records: Iterable[Stored] = ()) -> None:
        self._holding = holding
        self.place = holding.place
        self.head = head
        self._card: bytes | None = None
        self._put_row(head.row)
        self.records: list[Held] = list(map(holding.hold, records))
        self._snapshots: dict[int, Snapshot] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._cold_uses: frozenset[Use] = frozenset()
        self.streams = Streams(holding)

    def admit(self, commit: Commit) -> None:
        """Refuse a commit that does not follow on what is here."""
        name, found = commit.row.session, self.head.row.version
        other = commit.expected_digest not in (None, self.head.row.digest)
        if found != commit.expected or other:
            raise stale(name, commit.expected, found)
        for record in commit.rewrites:
            if not self._has(record):
                raise NotFound(f"no record of {name} begins at {record.first}; rewrite its source", session=name)

    def apply(self, commit: Commit) -> None:
        """Take over a commit that was found to fit."""
        before = self.head.row
        row = replace(commit.row, cold=before.cold)
        if not commit.listing:
            row = replace(row, due_at=before.due_at)
        self._put_row(row)
        hold = self._holding.hold
        for record in commit.rewrites:
            index = self._index(record.first)
            self.records[index] = hold(Stored(record, self.records[index].digest))
        self.streams.blank(redacted_turns(commit.rewrites))
        self.records.append(hold(Stored(commit.record, row.digest)))
        self._put_checkpoints(commit.checkpoints)
        for dropped in commit.dropped_checkpoints:
            self._checkpoints.pop(dropped, None)

    def _put_row(self, row: Row) -> None:
        held = self._holding.hold_row(row)
        self.head, self._card = replace(self.head, row=held.row), held.card

    def _put_checkpoints(self, items: Iterable[Checkpoint]) -> None:
        self._checkpoints |= {item.id: self._holding.hold_checkpoint(item) for item in items}

    def all(self) -> Iterator[Record]:
        """Every record, oldest first."""
        return (self._holding.stored(held).record for held in self.records)

    def _index(self, first: int) -> int:
        return bisect_left(self.records, first, key=_first)

    def _has(self, record: Record) -> bool:
        index = self._index(record.first)
        return index < len(self.records) and _first(self.records[index]) == record.first

    def run(self, after: int, upto: int, limit: int, newest: bool) -> Run:
        """The records that hold versions in (after, upto]; never costs more than it returns, but for two searches."""
        start = bisect_right(self.records, after, key=lambda held: held.last)
        end = max(start, bisect_right(self.records, upto, key=_first))
        start, end = (max(start, end - limit), end) if newest else (start, min(end, start + limit))
        before = self.records[start - 1].digest if 0 < start < end else None
        return Run(before, tuple(map(self._holding.stored, self.records[start:end])))

    def adopt(self, records: Iterable[Stored]) -> None:
        """Take copies of records it does not have yet; of the others, what is redacted in either stays so."""
        for stored in records:
            record = stored.record
            if self._has(record):
                self.blank(record)
            else:
                self.records = sorted([*self.records, self._holding.hold(stored)], key=_first)

    def blank(self, other: Record) -> None:
        """Redact in a copy of this record what is redacted in the other."""
        if self._has(other):
            index = self._index(other.first)
            mine = self._holding.stored(self.records[index])
            if mine.record.origin == other.origin:
                self.records[index] = self._holding.hold(Stored(both_redacted(mine.record, other), mine.digest))

    def prune(self, upto: int, digest: bytes, snapshot: Snapshot) -> None:
        """Drop records up to a version. What came before it, here or elsewhere, is no longer part of the log."""
        refuse_beyond(upto, self.head.row.version)
        self.head = replace(self.head, segments=(), anchor_version=upto, anchor_digest=digest)
        self.records = [held for held in self.records if held.last > upto]
        self._snapshots = {at: kept for at, kept in self._snapshots.items() if at > upto}
        self.save(snapshot)

    def save(self, snapshot: Snapshot) -> None:
        """Cache a state."""
        self._snapshots[snapshot.version] = self._holding.hold_snapshot(snapshot)

    def snapshot(self, upto: int) -> Snapshot | None:
        """The latest cached state at or before a version."""
        versions = [version for version in self._snapshots if version <= upto]
        return self._holding.snapshot(self._snapshots[max(versions)]) if versions else None

    def drop_snapshots(self, since: int) -> None:
        """Forget cached states, but not the one that a pruned log stands on."""
        anchor = self.head.anchor_version
        self._snapshots = {at: kept for at, kept in self._snapshots.items() if at < since or at == anchor}

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All cached states, oldest first."""
        return tuple(self._holding.snapshot(self._snapshots[version]) for version in sorted(self._snapshots))

    def forget(self, since: int) -> None:
        """Let go of every cached state and checkpoint payload that may hold content of a version or a later one."""
        self.drop_snapshots(since)
        for name, kept in self._checkpoints.items():
            if kept.version >= since:
                blank = replace(kept, full=True, base=None, payload=b"", payload_sha=b"", state_sha=b"")
                self._checkpoints[name] = blank

    def replace_checkpoints(self, rebuilt: Iterable[Checkpoint]) -> None:
        """Put rebuilt checkpoints in the place of their old selves; ones that are gone stay gone."""
        self._put_checkpoints(item for item in rebuilt if item.id in self._checkpoints)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Oldest first."""
        return tuple(map(self._holding.checkpoint, sorted(self._checkpoints.values(), key=lambda item: item.seq)))

    def checkpoint(self, name: str) -> Checkpoint | None:
        """One by its id."""
        found = self._checkpoints.get(name)
        return None if found is None else self._holding.checkpoint(found)

    def is_due(self, tenant: str | None, now: int) -> bool:
        """Whether something is due, for this tenant or any."""
        row = self.head.row
        return row.due_at is not None and row.due_at <= now and tenant in (None, row.tenant)

    def arm(self, due_at: int | None) -> None:
        """Say anew when something is due."""
        self.head = replace(self.head, row=replace(self.head.row, due_at=due_at))

    def uses(self) -> frozenset[Use]:
        """The blobs that its events point to, or the state that a pruned log stands on."""
        found = {use for record in self.all() for use in in_record(record)}
        held = self._snapshots.get(self.head.anchor_version)
        anchor = None if held is None else self._holding.snapshot(held)
        pointed = in_bytes(anchor.state) if anchor is not None else frozenset()
        return self._cold_uses | found | {(self.head.anchor_version, blob) for blob in pointed}

    def freeze(self, cold: str) -> None:
        """Forget everything but the head; the log lies elsewhere."""
        self._cold_uses = self.uses()
        self.records, self._snapshots, self._checkpoints = [], {}, {}
        self.streams = Streams(self._holding)
        self.head = replace(self.head, row=replace(self.head.row, cold=cold))

    def thaw(self, records: Iterable[Stored], checkpoints: Iterable[Checkpoint], snapshot: Snapshot | None) -> None:
        """Take everything back; records written meanwhile stay."""
        self._cold_uses = frozenset()
        self.records = sorted([*map(self._holding.hold, records), *self.records], key=_first)
        self._put_checkpoints(checkpoints)
        if snapshot is not None:
            self.save(snapshot)
        self.head = replace(self.head, row=replace(self.head.row, cold=None))

    def shown(self) -> Head:
        """The head, for handing out."""
        return replace(self.head, row=self.row())

    def row(self) -> Row:
        """The row, for handing out."""
        return self._holding.row(HeldRow(self.head.row, self._card))


def head_of(commit: Commit) -> Head:
    """Where a session stands that this commit creates."""
    anchor, digest = commit.anchor or (0, None)
    return Head(row=commit.row, segments=commit.segments, anchor_version=anchor, anchor_digest=digest)


def _first(held: Held) -> int:
    return held.first
