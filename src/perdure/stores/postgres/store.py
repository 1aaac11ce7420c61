"""`PostgresStore`: sessions in a PostgreSQL database (tier L2). One writer with group commit, many readers, many
nodes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from perdure.core.errors import PerdureError, ReadOnly, StoreClosed
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId, raw
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
from perdure.stores.postgres import finding, keeping, preparing, reads, streams, words, writes
from perdure.stores.postgres.alone import Alone
from perdure.stores.postgres.blobs import PostgresBlobs
from perdure.stores.postgres.connection import Address, Connection, Connections
from perdure.stores.postgres.listening import Listener
from perdure.stores.postgres.noting import forget_old
from perdure.stores.postgres.readers import Readers, Session
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.touching import Touch
from perdure.stores.postgres.writer import Operation, Transaction, Writer
from perdure.stores.refusals import closed, refuse_doubles
from perdure.stores.streams import pack
from perdure.waiting import Bell, drive

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds after which a server that cannot be reached is given up."""
OPENING = 5.0
"""The same for the very first connection: whoever opens a store wants to hear of a wrong address soon."""
FEED_PAGE = 256


def look(dsn: str, ambient: Ambient) -> tuple[str, str | None]:
    """The address of a store as it may be shown, and how the store there is sealed: its mark, "" when it is not, None
    when there is no store yet.
    """
    connections = Connections(Address(dsn, read_only=True), read_only=True)
    readers = Readers(connections, ambient, OPENING)
    try:
        return connections.address.shown, drive(readers.run(preparing.mark))
    finally:
        readers.close()


class PostgresStore:
    """The store of several nodes. Open it on a libpq URL, of one host or of many; `read_only` never writes, and may be
    opened on a standby. `patience` is how long a server is waited for that went away.
    """

    tiers: tuple[Tier, ...] = (Tier.L2,)
    near: bool = False

    def __init__(
        self,
        dsn: str,
        ambient: Ambient,
        *,
        read_only: bool = False,
        seal: Seal = CLEAR,
        patience: float = PATIENCE,
    ) -> None:
        self._packing = Packing(seal)
        self.seals = (seal,)
        self._owners = Owners(self._packing)
        self._ambient = ambient
        self._read_only = read_only
        self._patience = patience
        self._closed = False
        self._connections = Connections(Address(dsn, read_only=read_only), read_only=read_only)
        self.shown = self._connections.address.shown
        self._begin(min(patience, OPENING))
        try:
            drive(self._readers.run(self._take_on))
        except BaseException:
            self._readers.close()
            self._listener.forget()
            raise
        self._readers.seconds = patience
        on_fork(self, Forking(PostgresStore._stay, PostgresStore._stay, PostgresStore._forked))

    def _take_on(self, connection: Connection) -> None:
        """The first connection looks at what is there, and makes it a store if it may."""
        seal = self._packing.seal
        if self._read_only:
            preparing.check(connection, self.shown, seal.join)
        else:
            preparing.prepare(connection, self.shown, seal.join)
            seal.settle(lambda: reads.used_salts(Session(connection)))
            forget_old(Session(connection))

    def _begin(self, patience: float) -> None:
        self._bell = Bell()
        self._writer = Writer(self._connections, self._bell.ring, self._packing, self._ambient, self._patience)
        self._readers = Readers(self._connections, self._ambient, patience)
        self._listener = Listener(self._connections, self._ambient, self._bell.ring)
        self._alone = Alone(self._readers, self._packing, self._ambient)

    def _stay(self) -> None:
        """Around a fork the parent goes on as if nothing happened."""

    def _forked(self) -> None:
        """In the child: threads, queues and connections stayed with the parent, so start anew."""
        self._connections.leave_behind()
        if not self._closed:
            self._listener.forget()
            self._begin(self._patience)

    @property
    def blobs(self) -> PackedBlobs:
        """Where blobs are kept."""
        return PackedBlobs(PostgresBlobs(self._write, self._beside, self._read), self._packing)

    async def _beside(self, operation: Callable[[Transaction], T]) -> T:
        self._must_be_writable()
        return await self._alone.repeatedly(operation)

    async def _write(self, operation: Callable[[Transaction], T], *, quiet: bool = False) -> T:
        result: T = await self._submit(operation, quiet=quiet)
        return result

    async def _submit(self, work: Touch | Operation, *, quiet: bool = False) -> Any:
        self._must_be_writable()
        return await self._writer.submit(work, quiet=quiet)

    async def _read(self, question: Callable[[Asks], T]) -> T:
        self._must_be_open()
        return await self._readers.ask(question)

    def _must_be_writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"{self.shown} was opened read-only; open it writable to change it", store=self.shown)
        self._must_be_open()

    def _must_be_open(self) -> None:
        if self._closed:
            raise closed()

    async def append(self, commits: Sequence[Commit]) -> int:
        """Make the commits durable together."""
        refuse_doubles(commits)
        packed = [
            writes.pack(
                self._packing, commit, self._owners.known(commit) or await self._owners.found(commit, self._place)
            )
            for commit in commits
        ]
        work: Touch | Operation = lambda tx: writes.append(tx, packed)  # noqa: E731
        if writes.is_touch(packed):
            work = Touch(self._packing, *packed[0][:3])
        try:
            position: int = await self._submit(work)
        except PerdureError:
            self._owners.forget(commit.row.session for commit in commits)
            raise
        for item in packed:
            self._owners.made(item.commit, item.place)
        return position

    async def _place(self, session: SessionId) -> Place | None:
        return await self._read(lambda asks: reads.place(asks, session))

    async def head(self, session: SessionId) -> Head | None:
        """Where a session stands."""
        return await self._read(lambda asks: reads.head(self._packing, asks, session))

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        """A stretch of a source's own records."""
        return await self._read(lambda asks: reads.run(self._packing, asks, source, after, upto, limit, newest))

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        """The latest cached state at or before a version."""
        return await self._read(lambda asks: reads.snapshot(self._packing, asks, session, upto))

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        """All cached states."""
        return await self._read(lambda asks: reads.snapshots(self._packing, asks, session))

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
        return await self._read(lambda asks: reads.checkpoints(self._packing, asks, session))

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        """One checkpoint by its id."""
        return await self._read(lambda asks: reads.checkpoint(self._packing, asks, checkpoint))

    async def remembered(self, use: KeyUse) -> Remembered | None:
        """What a key was used for."""
        return await self._read(lambda asks: writes.remembered(self._packing, asks, use))

    async def account(self, account: str) -> Account | None:
        """An account as it stands."""
        return await self._read(lambda asks: writes.read_account(asks, account))

    async def find(self, query: Query) -> tuple[Row, ...]:
        """Rows that match, newest first."""
        await self._catch_up(query)
        return await self._read(lambda asks: finding.find(self._packing, asks, query))

    async def count(self, query: Query) -> int:
        """How many rows match."""
        await self._catch_up(query)
        return await self._read(lambda asks: finding.count(self._packing, asks, query))

    async def _catch_up(self, query: Query) -> None:
        """Before a text is searched for, index what was written since the last search."""
        if query.text is None:
            return
        if self._read_only:
            if await self._read(words.position) is None:
                raise ReadOnly(f"{self.shown} has no text index yet; search it once opened writable", store=self.shown)
            return
        while await self._read(words.behind):
            await self._beside(lambda tx: words.catch_up(self._packing, tx))

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        """Sessions whose log has a segment in this one's rows."""
        return await self._read(lambda asks: reads.dependents(self._packing, asks, session))

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        """Own copies of a shared prefix."""
        await self._write(lambda tx: writes.adopt(tx, session, records))

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        """Take in a session from elsewhere."""
        self._must_be_writable()
        place = Place(head.row.tenant, raw(head.row.session), self._packing.seal.fresh())
        await self._alone.once(lambda tx: keeping.bring(tx, place, head, records, snapshot))
        self._bell.ring()

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

        return await self._owners.erase(session, self._place, work)

    async def salts(self, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
        """Which salt each session names."""
        return await self._read(lambda asks: reads.salts(asks, after, limit))

    async def claim(self, tenant: str | None, now: int, until: int, limit: int) -> tuple[Row, ...]:
        """Sessions with something due."""
        taken = await self._write(lambda tx: keeping.claim(tx, tenant, now, until, limit))
        heads = await self._read(lambda asks: reads.heads(self._packing, asks, taken))
        return tuple(head.row for head in heads)

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
        self._must_be_writable()
        try:
            await self._alone.once(lambda tx: keeping.thaw(tx, session, expected, records, checkpoints, snapshot))
        except keeping.Thawed:
            return

    async def wrapping(self, session: SessionId) -> Wrapping:
        """How content of a session is kept outside."""
        return await self._owners.wrapping(session, self._place)

    async def keep(self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes) -> None:
        """Keep a piece of a running turn's stream."""

        async def work(place: Place) -> bool:
            piece = (offset, offset + len(data), pack(self._packing, place, turn, offset, data))
            run_by = (turn, node, until)
            made = await self._write(lambda tx: streams.keep(tx, session, place.salt, run_by, piece), quiet=True)
            return bool(made.rowcount)

        await self._owners.keep(session, self._place, work)

    async def kept(self, session: SessionId, turn: int, after: int = 0) -> Kept | None:
        """What is kept of a turn's stream."""
        sure = not self._read_only
        return await self._read(lambda asks: streams.kept(self._packing, asks, session, turn, after, sure=sure))

    async def let_go(self, session: SessionId, turn: int) -> None:
        """Forget what is kept of turns up to this one."""
        await self._write(lambda tx: streams.let_go(tx, session, turn), quiet=True)

    async def position(self) -> int:
        """The feed's latest position."""
        return await self._read(reads.position)

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        """Committed appends after a position."""
        return await self._read(lambda asks: reads.changes(self._packing, asks, after, limit))

    async def watch(self, after: int) -> AsyncIterator[Change]:
        """Changes as they are committed: woken by this process's own and by the server, or looking now and then."""
        self._listener.start()
        rung = True
        while not self._closed:
            heard = self._bell.heard()
            try:
                found = await self.changes(after, FEED_PAGE)
            except StoreClosed:
                return
            if found and not rung:
                self._listener.missed()
            for change in found:
                after = change.position
                yield change
            if not found:
                await self._bell.wait(heard, self._listener.pause())
            rung = bool(found) or self._bell.heard() != heard

    async def inspect(self) -> dict[str, Any]:
        """Facts about the database for `doctor`."""
        facts = await self._read(reads.inspect)
        return {"engine": "postgres", "store": self.shown, "read_only": self._read_only, **facts}

    async def close(self) -> None:
        """Commit what is queued and let go of the connections."""
        if self._closed:
            return
        self._closed = True
        self._bell.ring()
        self._listener.close()
        self._readers.close()
        self._packing.seal.close()
        self._writer.close()
        self._bell.ring()
