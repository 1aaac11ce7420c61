"""The reference store: everything in RAM, gone with the process. Read this one and you know them all.

Invariant: every method does its whole work under one lock and never waits inside it, so each is atomic. `append`
looks at everything that could be refused before it changes anything.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from msgspec.structs import replace

from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.write import Checkpoint
from perdure.core.tiers import Tier
from perdure.ports.seal import CLEAR, Place, Seal
from perdure.ports.store import (
    Change,
    Commit,
    Head,
    Kept,
    KeyTaken,
    KeyUse,
    Query,
    Remembered,
    Row,
    Run,
    Segment,
    Snapshot,
    Stored,
    Wrapping,
)
from perdure.stores.blobs import PackedBlobs
from perdure.stores.feed import Feed
from perdure.stores.holding import Holding
from perdure.stores.matching import matches, place, speaks_of
from perdure.stores.packing import Packing, PlaceWrapping
from perdure.stores.refusals import closed, moved_on, not_erased, not_pruned, refuse_doubles, taken, unknown
from perdure.stores.shelf import Shelf, head_of
from perdure.stores.volatile_blobs import VolatileBlobs
from perdure.stores.volatile_keys import Keys


class VolatileStore:
    """A `Store` in RAM, safe to share between tasks and threads. What each method promises, the Protocol says.

    With a seal, even what is in RAM is kept as a disk would see it.
    """

    tiers: tuple[Tier, ...] = (Tier.L0,)
    near: bool = True

    def __init__(self, seal: Seal = CLEAR) -> None:
        seal.join(None)
        self._packing = Packing(seal)
        self.seals = (seal,)
        self._lock = Lock()
        self._closed = False
        self._shelves: dict[SessionId, Shelf] = {}
        self._keys = Keys(self._packing)
        self._accounts: dict[str, Account] = {}
        self._feed = Feed()
        self._blobs = VolatileBlobs(self._open, self._shelves, self._packing)
        self.blobs = PackedBlobs(self._blobs, self._packing)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """The lock, or `StoreClosed`."""
        with self._lock:
            if self._closed:
                raise closed()
            yield

    def _shelf(self, session: SessionId) -> Shelf:
        found = self._shelves.get(session)
        if found is None:
            raise unknown(session)
        return found

    def _holding(self, row: Row) -> Holding:
        """How content of a new session is held."""
        return Holding(self._packing, Place(row.tenant, raw(row.session), self._packing.seal.fresh()))

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    async def append(self, commits: Sequence[Commit]) -> int:
        with self._open():
            self._admit(commits)
            accounts = self._charged(commits)
            for commit in commits:
                self._apply(commit)
            self._accounts |= accounts
            position, news = self._feed.position, self._feed.turn_page()
        news.deliver(None)
        return position

    def _admit(self, commits: Sequence[Commit]) -> None:
        """Refuse what does not fit; a repeated key is answered before anything else is asked."""
        refuse_doubles(commits)
        for commit in commits:
            if commit.key is not None and (remembered := self._keys.remembered(commit.key)):
                raise KeyTaken(remembered)
        self._blobs.refuse_missing(commits)
        arriving = {commit.row.session for commit in commits if commit.creates}
        for commit in commits:
            name = commit.row.session
            if not commit.creates:
                self._shelf(name).admit(commit)
            elif name in self._shelves:
                raise taken(name)
            after = commit.anchor[0] if commit.anchor is not None else 0
            for segment in commit.segments:
                if segment.source not in arriving and self._shelf(segment.source).head.anchor_version > after:
                    raise moved_on(segment.source)
                after = segment.upto

    def _charged(self, commits: Sequence[Commit]) -> dict[str, Account]:
        """The accounts after all moves; `BudgetExhausted` when one does not fit."""
        changed: dict[str, Account] = {}
        for commit in commits:
            for move in commit.accounts:
                before = changed.get(move.account) or self._accounts.get(move.account) or Account()
                changed[move.account] = budget.apply(before, move)
        return changed

    def _apply(self, commit: Commit) -> None:
        name, record = commit.row.session, commit.record
        if commit.creates:
            self._shelves[name] = Shelf(self._holding(commit.row), head_of(commit))
        self._shelves[name].apply(commit)
        if commit.rewrites:
            since = min(rewritten.first for rewritten in commit.rewrites)
            for shelf in (self._shelves[name], *self._leaning_on(name)):
                shelf.forget(since)
            for shelf in self._leaning_on(name):
                for rewritten in commit.rewrites:
                    shelf.blank(rewritten)
        if commit.snapshot is not None:
            self._shelves[name].save(commit.snapshot)
        if commit.key is not None:
            self._keys.remember(commit.key, name, record)
        kinds = tuple(entry.kind for entry in record.entries)
        self._feed.tell(name, record.at, first=record.first, last=record.last, kinds=kinds)

    # ── one session ──────────────────────────────────────────────────────────────────────────────

    async def head(self, session: SessionId) -> Head | None:
        with self._open():
            shelf = self._shelves.get(session)
            return None if shelf is None else shelf.shown()

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        with self._open():
            shelf = self._shelves.get(source)
            return Run(None, ()) if shelf is None else shelf.run(after, upto, limit, newest)

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        with self._open():
            shelf = self._shelves.get(session)
            return None if shelf is None else shelf.snapshot(upto)

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        with self._open():
            shelf = self._shelves.get(session)
            return () if shelf is None else shelf.snapshots()

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        with self._open():
            if session in self._shelves:
                self._shelves[session].save(snapshot)

    async def drop_snapshots(self, session: SessionId, since: int) -> None:
        with self._open():
            if session in self._shelves:
                self._shelves[session].drop_snapshots(since)

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        with self._open():
            if session in self._shelves:
                self._shelves[session].replace_checkpoints(checkpoints)

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        with self._open():
            shelf = self._shelves.get(session)
            return () if shelf is None else shelf.checkpoints()

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        with self._open():
            for session, shelf in self._shelves.items():
                found = shelf.checkpoint(checkpoint)
                if found is not None:
                    return session, found
            return None

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        with self._open():
            self._shelf(session).adopt(records)

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        name, brought = head.row.session, list(records)
        with self._open():
            if name in self._shelves:
                raise taken(name)
            self._shelves[name] = shelf = Shelf(self._holding(head.row), head, brought)
            if snapshot is not None:
                shelf.save(snapshot)
            for record in (stored.record for stored in brought):
                if record.origin == raw(name):
                    kinds = tuple(entry.kind for entry in record.entries)
                    self._feed.tell(name, record.at, first=record.first, last=record.last, kinds=kinds)
            news = self._feed.turn_page()
        news.deliver(None)

    async def repoint(
        self, session: SessionId, segments: tuple[Segment, ...], *, expected: tuple[Segment, ...] | None = None
    ) -> None:
        with self._open():
            shelf = self._shelf(session)
            gone = any(item.source not in self._shelves for item in segments)
            if gone or (expected is not None and shelf.head.segments != expected):
                raise moved_on(session)
            shelf.head = replace(shelf.head, segments=segments)

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        with self._open():
            shelf = self._shelf(session)
            if self._leaning_on(session):
                raise not_pruned(session)
            if expected is not None and (shelf.head.row.digest != expected or shelf.head.anchor_version >= upto):
                raise moved_on(session)
            shelf.prune(upto, digest, snapshot)

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        with self._open():
            if (shelf := self._shelves.get(session)) is None:
                return False
            if expected not in (None, shelf.head.row.digest):
                raise moved_on(session)
            if self._leaning_on(session):
                raise not_erased(session)
            doomed = [] if shelf.place.salt is None else [shelf.place.salt]
            self._packing.seal.condemn(doomed)
            del self._shelves[session]
            self._packing.seal.destroy(doomed)
            for move in accounts:
                self._accounts[move.account] = budget.apply(self._accounts.get(move.account) or Account(), move)
            self._keys.forget(session)
            self._feed.forget(session)
            self._feed.tell(session, at, first=0, last=shelf.head.row.version, erased=True)
            news = self._feed.turn_page()
        news.deliver(None)
        return True

    async def freeze(self, session: SessionId, cold: str, *, expected: bytes, anchor: int = 0) -> None:
        with self._open():
            shelf = self._shelf(session)
            if (shelf.head.row.digest, shelf.head.anchor_version) != (expected, anchor):
                raise moved_on(session)
            shelf.freeze(cold)
            self._feed.forget(session)

    async def thaw(
        self,
        session: SessionId,
        records: Iterable[Stored],
        checkpoints: Sequence[Checkpoint] = (),
        snapshot: Snapshot | None = None,
        *,
        expected: str | None = None,
    ) -> None:
        brought = list(records)
        with self._open():
            shelf = self._shelf(session)
            if shelf.head.row.cold is not None and expected in (None, shelf.head.row.cold):
                shelf.thaw(brought, checkpoints, snapshot)

    async def wrapping(self, session: SessionId) -> Wrapping:
        with self._open():
            return PlaceWrapping(self._packing.seal, self._shelf(session).place)

    async def keep(self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes) -> None:
        with self._open():
            if session in self._shelves:
                self._shelves[session].streams.keep(turn, node, until, offset, data)

    async def kept(self, session: SessionId, turn: int, after: int = 0) -> Kept | None:
        with self._open():
            shelf = self._shelves.get(session)
            return None if shelf is None else shelf.streams.kept(turn, after)

    async def let_go(self, session: SessionId, turn: int) -> None:
        with self._open():
            if session in self._shelves:
                self._shelves[session].streams.let_go(turn)

    # ── all sessions ─────────────────────────────────────────────────────────────────────────────

    async def find(self, query: Query) -> tuple[Row, ...]:
        with self._open():
            rows = self._matching(query)
        rows.sort(key=lambda row: place(row, query), reverse=True)
        older = [row for row in rows if query.after is None or place(row, query) < query.after]
        return tuple(older[: query.limit])

    async def count(self, query: Query) -> int:
        with self._open():
            return len(self._matching(query))

    def _matching(self, query: Query) -> list[Row]:
        return [
            row
            for row, shelf in ((shelf.row(), shelf) for shelf in self._shelves.values())
            if matches(row, query) and (query.text is None or speaks_of(shelf.all(), query.text))
        ]

    async def salts(self, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
        with self._open():
            following = sorted(name for name in self._shelves if after is None or name > after)[:limit]
            return tuple((name, self._shelves[name].place.salt) for name in following)

    async def claim(self, tenant: str | None, now: int, until: int, limit: int) -> tuple[Row, ...]:
        with self._open():
            due = [shelf for shelf in self._shelves.values() if shelf.is_due(tenant, now)]
            due.sort(key=lambda shelf: (shelf.head.row.due_at, shelf.head.row.session))
            for shelf in due[:limit]:
                shelf.arm(until)
            return tuple(shelf.row() for shelf in due[:limit])

    async def arm(self, session: SessionId, due_at: int | None, *, expected: bytes) -> bool:
        with self._open():
            shelf = self._shelves.get(session)
            if shelf is None or shelf.head.row.digest != expected:
                return False
            shelf.arm(due_at)
            return True

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        with self._open():
            return tuple(shelf.shown() for shelf in self._leaning_on(session))

    def _leaning_on(self, session: SessionId) -> list[Shelf]:
        """Other sessions with a segment in this one's rows; its own adopted copies tie a session to nobody."""
        return [
            shelf
            for name, shelf in self._shelves.items()
            if name != session and any(segment.source == session for segment in shelf.head.segments)
        ]

    async def remembered(self, use: KeyUse) -> Remembered | None:
        with self._open():
            return self._keys.remembered(use)

    async def account(self, account: str) -> Account | None:
        with self._open():
            return self._accounts.get(account)

    async def inspect(self) -> dict[str, Any]:
        with self._open():
            records = sum(len(shelf.records) for shelf in self._shelves.values())
            counted = {"sessions": len(self._shelves), "records": records, "position": self._feed.position}
            return {"engine": "volatile", **counted}

    # ── the feed ─────────────────────────────────────────────────────────────────────────────────

    async def position(self) -> int:
        with self._open():
            return self._feed.position

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        with self._open():
            return self._feed.since(after, limit)

    async def watch(self, after: int) -> AsyncIterator[Change]:
        while True:
            with self._lock:
                if self._closed:
                    return
                news, found = self._feed.news, self._feed.since(after)
            for change in found:
                after = change.position
                yield change
            if not found:
                await news

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            news = self._feed.turn_page()
        news.deliver(None)
        self._packing.seal.close()
