"""`SqliteStore`: sessions in one file (tier L1). One writer with group commit, many readers, many processes."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw

from perdure.core.errors import ReadOnly, StoreClosed
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.write import Checkpoint
from perdure.ports.ambient import Ambient
from perdure.ports.store import Change, Commit, Head, KeyUse, Query, Remembered, Row, Run, Segment, Snapshot, Stored
from perdure.stores.packing import pack
from perdure.stores.refusals import refuse_doubles
from perdure.stores.sqlite import connection as connections
from perdure.stores.sqlite import finding, reads, words, writes
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction, Writer
from perdure.waiting import Bell, Forking, on_fork

T = TypeVar("T")
POLL_SECONDS = 0.02
FEED_PAGE = 256


class SqliteStore:
    """The embedded store. Open it on a path; `read_only` never writes a byte."""

    def __init__(self, path: str, ambient: Ambient, *, read_only: bool = False) -> None:
        self.path = os.path.abspath(path)
        self._ambient = ambient
        self._read_only = read_only
        self._closed = False
        if read_only:
            connections.check(self.path)
            self._begin(None)
        else:
            self._begin(connections.prepare(self.path))
        on_fork(self, Forking(SqliteStore._pause, SqliteStore._go_on, SqliteStore._forked))

    def _begin(self, connection: apsw.Connection | None) -> None:
        self._bell = Bell()
        self._writer = Writer(self.path, self._bell.ring, connection)
        self._readers = Readers(self.path)

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

    async def _write(self, operation: Callable[[Transaction], T], *, guarded: bool = True) -> T:
        if self._read_only:
            raise ReadOnly(f"{self.path} was opened read-only; open it writable to change it", path=self.path)
        self._must_be_open()
        result: T = await self._writer.submit(operation, guarded=guarded)
        return result

    async def _read(self, question: Callable[[Asks], T]) -> T:
        self._must_be_open()
        return await self._readers.ask(question)

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")

    async def append(self, commits: Sequence[Commit]) -> int:
        """Make the commits durable together."""
        refuse_doubles(commits)
        packed = [(commit, pack(commit.record)) for commit in commits]
        plain = len(commits) == 1 and not commits[0].accounts and not commits[0].rewrites
        return await self._write(lambda tx: writes.append(tx, packed), guarded=not plain)

    async def head(self, session: SessionId) -> Head | None:
        """Where a session stands."""
        return await self._read(lambda connection: reads.head(connection, session))

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        """A stretch of a source's own records."""
        return await self._read(lambda connection: reads.run(connection, source, after, upto, limit, newest))

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        """The latest cached state at or before a version."""
        return await self._read(lambda connection: reads.snapshot(connection, session, upto))

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        """All cached states."""
        return await self._read(lambda connection: reads.snapshots(connection, session))

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
        return await self._read(lambda connection: reads.checkpoints(connection, session))

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        """One checkpoint by its id."""
        return await self._read(lambda connection: reads.checkpoint(connection, checkpoint))

    async def remembered(self, use: KeyUse) -> Remembered | None:
        """What a key was used for."""
        return await self._read(lambda connection: reads.remembered(connection, use))

    async def account(self, account: str) -> Account | None:
        """An account as it stands."""
        return await self._read(lambda connection: writes.read_account(connection, account))

    async def find(self, query: Query) -> tuple[Row, ...]:
        """Rows that match, newest first."""
        await self._catch_up(query)
        return await self._read(lambda connection: reads.find(connection, *finding.select(query)))

    async def count(self, query: Query) -> int:
        """How many rows match."""
        await self._catch_up(query)
        return await self._read(lambda connection: reads.count(connection, *finding.count(query)))

    async def _catch_up(self, query: Query) -> None:
        """Before a text is searched for, index what was written since the last search."""
        if query.text is None:
            return
        if self._read_only:
            if await self._read(words.position) is None:
                raise ReadOnly(f"{self.path} has no text index yet; search it once opened writable", path=self.path)
            return
        while await self._read(reads.words_behind):
            await self._write(words.catch_up)

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        """Sessions whose log has a segment in this one's rows."""
        return await self._read(lambda connection: reads.dependents(connection, session))

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        """Own copies of a shared prefix."""
        copies = [(stored, pack(stored.record)) for stored in records]
        await self._write(lambda tx: writes.adopt(tx, session, copies))

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        """Take in a session from elsewhere."""
        await self._write(lambda tx: writes.bring(tx, head, records, snapshot))

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

    async def erase(self, session: SessionId, at: int, accounts: Sequence[AccountMove] = ()) -> bool:
        """Remove a session."""
        return await self._write(lambda tx: writes.erase(tx, session, at, accounts))

    async def position(self) -> int:
        """The feed's latest position."""
        return await self._read(reads.position)

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        """Committed appends after a position."""
        return await self._read(lambda connection: reads.changes(connection, after, limit))

    async def watch(self, after: int) -> AsyncIterator[Change]:
        """Changes as they are committed: woken by this process's own, polling for those of others."""
        while not self._closed:
            heard = self._bell.heard()
            found = await self.changes(after, FEED_PAGE)
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
        self._writer.close()  # last: closing the last connection folds the log into the file
        self._bell.ring()
