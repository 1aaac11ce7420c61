"""The rows of blobs in the file, and which events of which sessions point to them.

Invariant: whoever points to a blob looks for it, and whoever dooms one looks for uses, inside the writer's transaction;
so one of the two comes first, in whichever process, and the other sees it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from perdure.core.session.ids import SessionId, raw
from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.ports.store import Snapshot
from perdure.stores.blobs import BlobRow, Doomed, NotedUse, anchor_uses, not_there, uses_of
from perdure.stores.sqlite.rows import Shape, fitting, spelled
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction

T = TypeVar("T")
_BYTES, _TEXT, _WHOLE, _NONE = (frozenset({kind}) for kind in (bytes, str, int, type(None)))
_ROW: Final[Shape] = (_BYTES, _TEXT, _TEXT | _NONE, _BYTES | _NONE, _BYTES, _WHOLE, _WHOLE)
_SHRINK: Final = "PRAGMA shrink_memory"
"""Empties the connection's cache, which content that passes through once would fill for nothing."""
_SHRUNK: Final = 8
_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'blob_use'"
_LATEST: Final = ((1 << 63) - 1, b"\xff" * 17)


def there(asks: Asks) -> bool:
    """Whether the store has ever had a blob, or a use of one: before that it has no tables for them."""
    return asks.execute(_THERE).fetchone() is not None


# ── uses: part of the transactions that write events ──


def refuse_missing(tx: Transaction, uses: Sequence[NotedUse]) -> None:
    """Refuse events that point to a blob which is not there; before anything is written."""
    known = there(tx)
    gone = {address for _, address in uses if not known or tx.execute(Q["blob_there"], (address,)).fetchone() is None}
    if gone:
        raise not_there(len(gone))


def note(tx: Transaction, no: int, uses: Sequence[NotedUse]) -> None:
    """Note what events of a session point to."""
    if uses and not there(tx):
        tx.execute(Q["blob_tables"])
    for version, address in uses:
        tx.execute(Q["blob_use"], (no, version, address))


def note_again(tx: Transaction, no: int, place: Place, record: Record) -> None:
    """Note what a record points to that comes from elsewhere, or that has lost content."""
    if there(tx):
        tx.execute(Q["blob_unuse"], (no, record.first, record.last))
    note(tx, no, uses_of(tx.packing, place.tenant, record))


def note_anchor(tx: Transaction, no: int, place: Place, snapshot: Snapshot | None) -> None:
    """Note what the state points to that a pruned log stands on, in place of the events before it."""
    if snapshot is not None:
        if there(tx):
            tx.execute(Q["blob_unuse"], (no, 0, snapshot.version))
        note(tx, no, anchor_uses(tx.packing, place.tenant, snapshot))


def forget(tx: Transaction, no: int) -> None:
    """A session points to nothing any more."""
    if there(tx):
        tx.execute(Q["blob_unuse_all"], (no,))


# ── the rows ──


class _Write(Protocol):
    """How the store takes an operation."""

    def __call__(self, operation: Callable[[Transaction], T], /) -> Awaitable[T]: ...


class _Read(Protocol):
    """How the store takes a question."""

    def __call__(self, question: Callable[[Asks], T], /) -> Awaitable[T]: ...


class SqliteBlobs:
    """`perdure.stores.blobs.BlobTable` in the store's file."""

    def __init__(self, write: _Write, read: _Read) -> None:
        self._write = write
        self._read = read

    async def add(self, row: BlobRow, first: int, bodies: Sequence[bytes], at: int) -> bool:
        """Chunks of an upload."""

        def work(tx: Transaction) -> bool:
            tx.execute(_SHRINK)
            if first == 0:
                if not there(tx):
                    tx.execute(Q["blob_tables"])
                tx.execute(Q["blob_begin"], (row.id, row.tenant, row.salt, row.card, row.at, at))
            found = tx.execute(Q["blob_upload"], (row.id,)).fetchone() if there(tx) else None
            if found is None:
                return False
            tx.execute(Q["blob_touch"], (at, found[0]))
            for number, body in enumerate(bodies, first):
                tx.execute(Q["blob_add"], (found[0], number, body))
            return True

        return await self._write(work)

    async def finish(self, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        """From upload to blob."""
        return await self._write(lambda tx: _finish(tx, row, at, replace) if there(tx) else (None, None))

    async def renew(self, address: str, at: int) -> BlobRow | None:
        """Touched, if it is there."""

        def work(tx: Transaction) -> BlobRow | None:
            found = _found(tx, address)
            if found is not None:
                tx.execute(Q["blob_touch"], (at, found[1]))
            return None if found is None else found[0]

        return await self._write(work)

    async def describe(self, id: bytes, card: bytes) -> None:
        """Another card."""

        def work(tx: Transaction) -> None:
            if there(tx):
                tx.execute(Q["blob_describe"], (card, id))

        await self._write(work)

    async def find(self, address: str) -> BlobRow | None:
        """By address."""
        found = await self._read(lambda connection: _found(connection, address))
        return None if found is None else found[0]

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        """One chunk."""

        def ask(connection: Asks) -> bytes | None:
            if number % _SHRUNK == _SHRUNK - 1:
                connection.execute(_SHRINK)
            found = connection.execute(Q["blob_chunk"], (id, number)).fetchone() if there(connection) else None
            return None if found is None else bytes(fitting(found, (_BYTES,))[0])

        return await self._read(ask)

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> list[BlobRow]:
        """Newest first."""
        values = (tenant, *(after or _LATEST), limit)
        return [_row(found) for found in await self._all("blob_page", values)]

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those with a use."""

        def ask(connection: Asks) -> frozenset[str]:
            if not there(connection):
                return frozenset()
            found = (address for address in addresses if connection.execute(Q["blob_used"], (address,)).fetchone())
            return frozenset(found)

        return await self._read(ask)

    async def idle(self, tenant: str | None, before: int, uploads_before: int, limit: int) -> list[bytes]:
        """What may be doomed, seen without holding anybody up."""
        return [found[0] for found in await self._all("blob_idle", (tenant, before, uploads_before, limit))]

    async def doom(self, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        """Those that are still idle."""
        return await self._write(lambda tx: _doom(tx, ids if there(tx) else (), before, uploads_before))

    async def discard(self, id: bytes) -> bool:
        """An upload nobody goes on with."""

        def work(tx: Transaction) -> bool:
            if not there(tx):
                return True
            tx.execute(Q["blob_discard"], (id,))
            return tx.execute(Q["blob_is"], (id,)).fetchone() is None

        return await self._write(work)

    async def doomed(self, tenant: str | None, limit: int) -> list[BlobRow]:
        """What waits to be dropped."""
        return [_row(found) for found in await self._all("blob_doomed", (tenant, limit))]

    async def drop(self, id: bytes, limit: int) -> bool:
        """Some chunks, and in the end the row."""
        return await self._write(lambda tx: not there(tx) or _drop(tx, id, limit))

    async def noted(self, session: SessionId) -> frozenset[NotedUse]:
        """The uses of a session's rows."""
        return frozenset(await self._all("blob_uses", (raw(session),)))

    async def missing(self, tenant: str, limit: int) -> list[SessionId]:
        """Sessions with a use that leads nowhere."""
        return [spelled(found[0]) for found in await self._all("blob_missing", (tenant, limit))]

    async def _all(self, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def ask(connection: Asks) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = connection.execute(Q[name], values).fetchall() if there(connection) else []
            return found

        return await self._read(ask)


def _finish(tx: Transaction, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
    upload = tx.execute(Q["blob_upload"], (row.id,)).fetchone()
    if upload is None:
        return None, None
    assert row.address is not None
    there = _found(tx, row.address)
    if there is not None and not replace:
        tx.execute(Q["blob_touch"], (at, there[1]))
        tx.execute(Q["blob_discard"], (row.id,))
        return there[0], row
    if there is not None:
        tx.execute(Q["blob_doom"], (there[0].id,))
    tx.execute(Q["blob_finish"], (row.address, row.card, row.size, at, upload[0]))
    return row, None if there is None else there[0]


def _doom(tx: Transaction, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
    blobs = size = uploads = 0
    for id in ids:
        found = tx.execute(Q["blob_doom_unused"], (id, before)).fetchone()
        if found is not None:
            blobs, size = blobs + 1, size + found[0]
            continue
        tx.execute(Q["blob_doom_upload"], (id, uploads_before))
        uploads += tx.changes()
    return Doomed(blobs, size, uploads)


def _drop(tx: Transaction, id: bytes, limit: int) -> bool:
    found = tx.execute(Q["blob_leaving"], (id,)).fetchone()
    if found is None:
        return True
    tx.execute(_SHRINK)
    tx.execute(Q["blob_drop_chunks"], (found[0], limit))
    if tx.changes() == limit:
        return False
    tx.execute(Q["blob_drop"], (found[0],))
    tx.destroys = True
    return True


def _found(tx: Asks, address: str) -> tuple[BlobRow, int] | None:
    found = tx.execute(Q["blob_find"], (address,)).fetchone() if there(tx) else None
    return None if found is None else (_row(found), found[7])


def _row(columns: tuple[Any, ...]) -> BlobRow:
    return BlobRow(*fitting(columns[:7], _ROW))
