"""`SqliteStore`: sessions in one file (tier L1). One writer with group commit, many readers, many processes."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from perdure.core.errors import PerdureError, ReadOnly, StoreClosed
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.values import clone
from perdure.core.session.write import Checkpoint
from perdure.core.tiers import Tier
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.seal import CLEAR, Place, Seal
from perdure.ports.store import (
    Change,
    Commit,
    Head,
    Kept,
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
from perdure.stores.owning import Owners
from perdure.stores.packing import Packing
from perdure.stores.refusals import closed, refuse_doubles
from perdure.stores.sqlite import connection as connections
from perdure.stores.sqlite import finding, keeping, keys, reads, streams, words, writes
from perdure.stores.sqlite.blobs import SqliteBlobs
from perdure.stores.sqlite.haste import BRIEF
from perdure.stores.sqlite.joining import Joining
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction, Writer
from perdure.stores.streams import pack
from perdure.waiting import Bell

T = TypeVar("T")
POLL_SECONDS = 0.02
FEED_PAGE = 256
MAX_HEADS = 1024
Moment = tuple[int, int]
Seen = tuple[Moment | None, reads.Glimpse, Head | None]
"""When a head was read, what lay in the file then, and what that is."""


class SqliteStore:
    """The embedded store. Open it on a path; `read_only` never writes a byte."""

    tiers: tuple[Tier, ...] = (Tier.L1,)
    near: bool = True

    def __init__(
        self,
        path: str,
        ambient: Ambient,
        *,
        read_only: bool = False,
        seal: Seal | Callable[[str | None], Seal] = CLEAR,
        hasty: bool = True,
    ) -> None:
        """The seal, or what finds it for the mark that the file carries. `hasty`: one task alone commits by itself."""
        self.path = os.path.abspath(path)
        self._ambient = ambient
        self._read_only = read_only
        self._hasty = hasty
        self._closed = False
        joining = Joining(seal)
        try:
            connection = self._join(joining)
        except BaseException:
            joining.give_up()
            raise
        self._packing = Packing(joining.seal)
        self.seals = (joining.seal,)
        self._owners = Owners(self._packing)
        self._begin(connection)
        on_fork(self, Forking(SqliteStore._pause, SqliteStore._go_on, SqliteStore._forked))

    def _join(self, joining: Joining) -> apsw.Connection | None:
        if self._read_only:
            connections.check(self.path, joining.join)
            return None
        connection = connections.prepare(self.path, joining.join)
        with connections.translated(self.path):
            joining.seal.settle(lambda: reads.used_salts(connection))
        return connection

    def _begin(self, connection: apsw.Connection | None) -> None:
        self._bell = Bell()
        self._writer = Writer(self.path, self._bell.ring, connection, self._packing)
        self._readers = Readers(self.path, self._packing)
        self._heads: dict[SessionId, Seen] = {}  # by its readers' moments

    def _pause(self) -> None:
        """Before a fork: close every connection. SQLite keeps its locks per process, and a child that inherited them
        would believe in locks that only the parent has.
        """
        self._writer.pause()
        self._readers.pause()

    def _go_on(self) -> None:
        self._readers.go_on()
        self._writer.go_on()

    def _forked(self) -> None:
        """In the child: threads and queues stayed behind, so start anew."""
        if not self._closed:
            self._begin(None)

    @property
    def blobs(self) -> PackedBlobs:
        """Where blobs are kept."""
        return PackedBlobs(SqliteBlobs(self._write, self._write, self._read), self._packing)

    async def _write(
        self, operation: Callable[[Transaction], T], *, guarded: bool = True, quiet: bool = False, brief: bool = False
    ) -> T:
        if self._read_only:
            raise ReadOnly(f"{self.path} was opened read-only; open it writable to change it", path=self.path)
        self._must_be_open()
        result: T = await self._writer.submit(operation, guarded=guarded, quiet=quiet, brief=brief)
        return result

    async def _beside(self, operation: Callable[[Transaction], T]) -> T:
        """Write what is no part of the log, and never refused."""
        return await self._write(operation, guarded=False, quiet=True)

    async def _read(self, question: Callable[[Asks], T]) -> T:
        self._must_be_open()
        return await self._readers.ask(question)

    def _must_be_open(self) -> None:
        if self._closed:
            raise closed()

    async def append(self, commits: Sequence[Commit]) -> int:
        """Make the commits durable together."""
        self._must_be_open()
        refuse_doubles(commits)
        packed = [
            self._packed(commit, self._owners.known(commit) or await self._owners.found(commit, self._place))
            for commit in commits
        ]
        plain = len(commits) == 1 and not (commits[0].accounts or commits[0].rewrites or commits[0].key)
        brief = self._hasty and len(commits) == 1 and not commits[0].rewrites and len(packed[0][2]) <= BRIEF
        try:
            position = await self._write(lambda tx: writes.append(tx, packed), guarded=not plain, brief=brief)
        except PerdureError:
            self._owners.forget(commit.row.session for commit in commits)
            raise
        for commit, place, _ in packed:
            self._owners.made(commit, place)
        return position

    def _packed(self, commit: Commit, place: Place) -> writes.Packed:
        """A commit with its record as it is stored, under the key of its session."""
        return commit, place, self._packing.pack(place, commit.record, commit.row.digest)

    async def _place(self, session: SessionId) -> Place | None:
        return await self._read(lambda connection: reads.place(connection, session))

    async def head(self, session: SessionId) -> Head | None:
        """Where a session stands. What was read stays good until somebody commits."""
        self._must_be_open()
        moment, known = self._readers.moment(), self._heads.get(session)
        if known is None or known[0] != moment or moment is None:
            known = await self._seen(session, moment, known)
            if len(self._heads) > MAX_HEADS:
                self._heads.clear()
            self._heads[session] = known
        found = known[2]
        if found is None or not found.row.metadata:
            return found
        row = msgspec.structs.replace(found.row, metadata=clone(found.row.metadata))  # callers may change theirs
        return msgspec.structs.replace(found, row=row)

    async def _seen(self, session: SessionId, moment: Moment | None, known: Seen | None) -> Seen:
        """A head as it is in the file. Where it lies there as it did before, it need not be made out again."""
        if known is not None and moment is not None:
            seen = self._readers.glance(lambda connection: reads.glimpse(connection, session))
            if seen is not None and seen == known[1]:
                return moment, seen, known[2]
        return moment, *await self._read(lambda connection: reads.seen(self._packing, connection, session))

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        """A stretch of a source's own records."""
        return await self._read(
            lambda connection: reads.run(self._packing, connection, source, after, upto, limit, newest)
        )

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        """The latest cached state at or before a version."""
        return await self._read(lambda connection: reads.snapshot(self._packing, connection, session, upto))

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        """All cached states."""
        return await self._read(lambda connection: reads.snapshots(self._packing, connection, session))

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        """Cache a state."""
        await self._write(lambda tx: writes.save_snapshot(tx, session, snapshot))

    async def drop_snapshots(self, session: SessionId, since: int) -> None:
        """Forget cached states."""
        await self._write(lambda tx: writes.drop_snapshots(tx, session, since))

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        """Replace rebuilt checkpoints."""
        await self._write(lambda tx: writes.save_checkpoints(tx, session, checkpoints))

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        """A session's checkpoints, oldest first."""
        return await self._read(lambda connection: reads.checkpoints(self._packing, connection, session))

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        """One checkpoint by its id."""
        return await self._read(lambda connection: reads.checkpoint(self._packing, connection, checkpoint))

    async def remembered(self, use: KeyUse) -> Remembered | None:
        """What a key was used for."""
        return await self._read(lambda connection: keys.remembered(self._packing, connection, use))

    async def account(self, account: str) -> Account | None:
        """An account as it stands."""
        return await self._read(lambda connection: writes.read_account(connection, account))

    async def find(self, query: Query) -> tuple[Row, ...]:
        """Rows that match, newest first."""
        await self._catch_up(query)
        return await self._read(
            lambda connection: reads.find(self._packing, connection, *finding.select(self._packing, query, connection))
        )

    async def count(self, query: Query) -> int:
        """How many rows match."""
        await self._catch_up(query)
        return await self._read(lambda connection: reads.count(connection, *finding.count(self._packing, query)))

    async def _catch_up(self, query: Query) -> None:
        """Before a text is searched for, index what was written since the last search."""
        if query.text is None:
            return
        if self._read_only:
            if await self._read(words.position) is None:
                raise ReadOnly(f"{self.path} has no text index yet; search it once opened writable", path=self.path)
            return
        while await self._read(reads.words_behind):
            await self._write(lambda tx: words.catch_up(self._packing, tx))

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        """Sessions whose log has a segment in this one's rows."""
        return await self._read(lambda connection: reads.dependents(self._packing, connection, session))

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        """Own copies of a shared prefix."""
        await self._write(lambda tx: writes.adopt(tx, session, records))

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        """Take in a session from elsewhere."""
        place = Place(head.row.tenant, raw(head.row.session), self._packing.seal.fresh())
        await self._write(lambda tx: writes.bring(tx, place, head, records, snapshot))

    async def repoint(
        self, session: SessionId, segments: tuple[Segment, ...], *, expected: tuple[Segment, ...] | None = None
    ) -> None:
        """Where the stretches of a log live."""
        await self._write(lambda tx: writes.repoint(tx, session, segments, expected))

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        """Drop a log prefix for good."""
        await self._write(lambda tx: writes.prune(tx, session, upto, digest, snapshot, expected))

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        """Remove a session. Its salt goes as well, and with it the session in every backup."""

        def work(salt: bytes | None) -> Awaitable[bool]:
            return self._write(lambda tx: writes.erase(tx, session, at, accounts, salt, expected))

        gone = await self._owners.erase(session, self._place, work)
        self._heads.pop(session, None)
        return gone

    async def salts(self, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
        """Which salt each session names."""
        return await self._read(lambda connection: reads.salts(connection, after, limit))

    async def claim(self, tenant: str | None, now: int, until: int, limit: int) -> tuple[Row, ...]:
        """Sessions with something due."""
        taken = await self._write(lambda tx: keeping.claim(tx, tenant, now, until, limit))
        heads = [await self.head(session) for session in taken]
        return tuple(head.row for head in heads if head is not None)

    async def arm(self, session: SessionId, due_at: int | None, *, expected: bytes) -> bool:
        """When something is due."""
        return await self._write(lambda tx: keeping.arm(tx, session, due_at, expected))

    async def freeze(self, session: SessionId, cold: str, *, expected: bytes, anchor: int = 0) -> None:
        """Forget a log that lies in cold storage."""
        await self._write(lambda tx: keeping.freeze(tx, session, cold, expected, anchor))

    async def thaw(
        self,
        session: SessionId,
        records: Iterable[Stored],
        checkpoints: Sequence[Checkpoint] = (),
        snapshot: Snapshot | None = None,
        *,
        expected: str | None = None,
    ) -> None:
        """Take a log back from cold storage."""
        await self._write(lambda tx: keeping.thaw(tx, session, expected, records, checkpoints, snapshot))

    async def wrapping(self, session: SessionId) -> Wrapping:
        """How content of a session is kept outside."""
        return await self._owners.wrapping(session, self._place)

    async def keep(self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes) -> None:
        """Keep a piece of a running turn's stream."""

        def work(place: Place) -> Awaitable[bool]:
            piece = (offset, offset + len(data), pack(self._packing, place, turn, offset, data))
            run_by = (turn, node, until)
            return self._beside(lambda tx: streams.keep(tx, session, place.salt, run_by, piece))

        await self._owners.keep(session, self._place, work)

    async def kept(self, session: SessionId, turn: int, after: int = 0) -> Kept | None:
        """What is kept of a turn's stream."""
        return await self._read(lambda connection: streams.kept(self._packing, connection, session, turn, after))

    async def let_go(self, session: SessionId, turn: int) -> None:
        """Forget what is kept of turns up to this one."""
        await self._beside(lambda tx: streams.let_go(tx, session, turn))

    async def position(self) -> int:
        """The feed's latest position."""
        return await self._read(reads.position)

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        """Committed appends after a position."""
        return await self._read(lambda connection: reads.changes(self._packing, connection, after, limit))

    async def watch(self, after: int) -> AsyncIterator[Change]:
        """Changes as they are committed: woken by this process's own, polling for those of others."""
        while not self._closed:
            heard = self._bell.heard()
            try:
                found = await self.changes(after, FEED_PAGE)
            except StoreClosed:
                return
            for change in found:
                after = change.position
                yield change
            if not found:
                await self._bell.wait(heard, POLL_SECONDS)

    async def inspect(self) -> dict[str, Any]:
        """Facts about the file for `doctor`."""
        facts = await self._read(lambda connection: reads.inspect(connection, self.path))
        return {"engine": "sqlite", "path": self.path, "read_only": self._read_only, **facts}

    async def close(self) -> None:
        """Commit what is queued and let go of the file."""
        if self._closed:
            return
        self._closed = True
        self._readers.close()
        self._packing.seal.close()
        self._writer.close()  # last: closing the last connection folds the log into the file
        self._bell.ring()
