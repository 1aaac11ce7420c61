"""The rows of blobs in the database, and which events of which sessions point to them.

Invariant: whoever points to a blob looks for it, and whoever dooms one looks for uses, under the lock that all writers
take; so one of the two comes first, on whichever node, and the other sees it. Chunks come and go without that lock.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from perdure.core.session.ids import SessionId, text
from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.ports.store import Snapshot
from perdure.stores.blobs import BlobRow, Doomed, NotedUse, anchor_uses, not_there, uses_of
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept, told
from perdure.stores.postgres.writer import Transaction

T = TypeVar("T")
_LATEST: Final = ((1 << 63) - 1, b"\xff" * 17)


# ── uses: part of the transactions that write events ──


def refuse_missing(tx: Asks, uses: Sequence[NotedUse]) -> None:
    """Refuse events that point to a blob which is not there; before anything is written."""
    wanted = {kept(address) for _, address in uses}
    if wanted:
        there = {found[0] for found in tx.execute(Q["blob_there"], (list(wanted),)).fetchall()}
        if wanted - there:
            raise not_there(len(wanted - there))


def note(tx: Asks, no: int, uses: Sequence[NotedUse]) -> None:
    """Note what events of a session point to."""
    for version, address in uses:
        tx.execute(Q["blob_use"], (no, version, kept(address)))


def note_again(tx: Transaction, no: int, place: Place, record: Record) -> None:
    """Note what a record points to that comes from elsewhere, or that has lost content."""
    tx.execute(Q["blob_unuse"], (no, record.first, record.last))
    note(tx, no, uses_of(tx.packing, place.tenant, record))


def note_anchor(tx: Transaction, no: int, place: Place, snapshot: Snapshot | None) -> None:
    """Note what the state points to that a pruned log stands on, in place of the events before it."""
    if snapshot is not None:
        tx.execute(Q["blob_unuse"], (no, 0, snapshot.version))
        note(tx, no, anchor_uses(tx.packing, place.tenant, snapshot))


# ── the rows ──


class _Write(Protocol):
    """How the store takes an operation."""

    def __call__(self, operation: Callable[[Transaction], T], /) -> Awaitable[T]: ...


class _Read(Protocol):
    """How the store takes a question."""

    def __call__(self, question: Callable[[Asks], T], /) -> Awaitable[T]: ...


class PostgresBlobs:
    """`perdure.stores.blobs.BlobTable` in the store's database. `beside` takes operations that need not wait for
    writers, nor they for it.
    """

    def __init__(self, write: _Write, beside: _Write, read: _Read) -> None:
        self._write = write
        self._beside = beside
        self._read = read

    async def add(self, row: BlobRow, first: int, bodies: Sequence[bytes], at: int) -> bool:
        """Chunks of an upload."""

        def work(tx: Transaction) -> bool:
            if first == 0:
                tx.execute(Q["blob_begin"], (row.id, kept(row.tenant), row.salt, row.card, row.at, at))
            found = tx.execute(Q["blob_upload"], (row.id,)).fetchone()
            if found is None:
                return False
            tx.execute(Q["blob_touch"], (at, found[0]))
            for number, body in enumerate(bodies, first):
                tx.execute(Q["blob_add"], (found[0], number, body))
            return True

        return await self._beside(work)

    async def finish(self, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        """From upload to blob."""
        return await self._write(lambda tx: _finish(tx, row, at, replace))

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
            tx.execute(Q["blob_describe"], (card, id))

        await self._write(work)

    async def find(self, address: str) -> BlobRow | None:
        """By address."""
        found = await self._read(lambda asks: _found(asks, address))
        return None if found is None else found[0]

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        """One chunk."""
        found = await self._all("blob_chunk", (id, number))
        return found[0][0] if found else None

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> list[BlobRow]:
        """Newest first."""
        return [_row(found) for found in await self._all("blob_page", (kept(tenant), *(after or _LATEST), limit))]

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those with a use."""
        found = await self._all("blob_used", ([kept(address) for address in addresses],))
        return frozenset(told(address) for (address,) in found)

    async def idle(self, tenant: str | None, before: int, uploads_before: int, limit: int) -> list[bytes]:
        """What may be doomed, seen without holding anybody up."""
        values = (_kept(tenant), before, uploads_before, limit)
        return [found[0] for found in await self._all("blob_idle", values)]

    async def doom(self, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        """Those that are still idle."""
        return await self._write(lambda tx: _doom(tx, ids, before, uploads_before))

    async def discard(self, id: bytes) -> bool:
        """An upload nobody goes on with."""

        def work(tx: Transaction) -> bool:
            tx.execute(Q["blob_discard"], (id,))
            return tx.execute(Q["blob_is"], (id,)).fetchone() is None

        return await self._write(work)

    async def doomed(self, tenant: str | None, limit: int) -> list[BlobRow]:
        """What waits to be dropped."""
        return [_row(found) for found in await self._all("blob_doomed", (_kept(tenant), limit))]

    async def drop(self, id: bytes, limit: int) -> bool:
        """Some chunks, and in the end the row."""
        return await self._beside(lambda tx: _drop(tx, id, limit))

    async def noted(self, session: SessionId) -> frozenset[NotedUse]:
        """The uses of a session's rows."""
        return frozenset((version, told(address)) for version, address in await self._all("blob_uses", (session,)))

    async def missing(self, tenant: str, limit: int) -> list[SessionId]:
        """Sessions with a use that leads nowhere."""
        return [SessionId(text(found[0])) for found in await self._all("blob_missing", (kept(tenant), limit))]

    async def _all(self, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def ask(asks: Asks) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = asks.execute(Q[name], values).fetchall()
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
    tx.execute(Q["blob_finish"], (kept(row.address), row.card, row.size, at, upload[0]))
    return row, None if there is None else there[0]


def _doom(tx: Transaction, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
    blobs = size = uploads = 0
    for id in ids:
        found = tx.execute(Q["blob_doom_unused"], (id, before)).fetchone()
        if found is not None:
            blobs, size = blobs + 1, size + found[0]
        else:
            uploads += len(tx.execute(Q["blob_doom_upload"], (id, uploads_before)).fetchall())
    return Doomed(blobs, size, uploads)


def _drop(tx: Transaction, id: bytes, limit: int) -> bool:
    found = tx.execute(Q["blob_leaving"], (id,)).fetchone()
    if found is None:
        return True
    if len(tx.execute(Q["blob_drop_chunks"], (found[0], limit)).fetchall()) == limit:
        return False
    tx.execute(Q["blob_drop"], (found[0],))
    return True


def _found(tx: Asks, address: str) -> tuple[BlobRow, int] | None:
    found = tx.execute(Q["blob_find"], (kept(address),)).fetchone()
    return None if found is None else (_row(found), found[7])


def _row(columns: tuple[Any, ...]) -> BlobRow:
    id, tenant, address, *rest = columns[:7]
    return BlobRow(id, told(tenant), None if address is None else told(address), *rest)


def _kept(tenant: str | None) -> str | None:
    return None if tenant is None else kept(tenant)
