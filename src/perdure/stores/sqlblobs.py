"""What the rows of blobs in a file and in PostgreSQL have in common: each method is one transaction or one question, of
statements that both engines have under the same names. Where the engines differ, the first few methods say so.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from perdure.core.session.ids import SessionId
from perdure.statements import Asks
from perdure.stores.blobs import BlobRow, Doomed, NotedUse
from perdure.stores.columns import Columns, spelled

T = TypeVar("T")
Tx = TypeVar("Tx", bound=Asks)
Tx_co = TypeVar("Tx_co", bound=Asks, covariant=True)
_LATEST: Final = ((1 << 63) - 1, b"\xff" * 17)


class Writes(Protocol[Tx_co]):
    """How the store takes an operation."""

    def __call__(self, operation: Callable[[Tx_co], T], /) -> Awaitable[T]: ...


class Reads(Protocol):
    """How the store takes a question."""

    def __call__(self, question: Callable[[Asks], T], /) -> Awaitable[T]: ...


class SqlBlobs(ABC, Generic[Tx]):
    """`perdure.stores.blobs.BlobTable` in a store's database. `beside` takes operations that need not wait for writers,
    nor they for it.
    """

    Q: ClassVar[Mapping[str, str]]

    def __init__(self, write: Writes[Tx], beside: Writes[Tx], read: Reads) -> None:
        self._write = write
        self._beside = beside
        self._read = read

    # ── what an engine does in its own way ──

    def _there(self, asks: Asks) -> bool:
        """Whether there are any tables for blobs yet."""
        return True

    def _prepare(self, tx: Tx) -> None:
        """Before the first chunk of an upload."""

    def _let_through(self, asks: Asks) -> None:
        """Before content passes through a connection."""

    def _dropped(self, tx: Tx) -> None:
        """After content was destroyed."""

    def _kept(self, text: str) -> str:
        """A text as a column holds it."""
        return text

    def _told(self, text: str) -> str:
        """The text behind a column."""
        return text

    @abstractmethod
    def _id(self, session: SessionId) -> str | bytes:
        """An id as a column holds it."""

    def _fitting(self, columns: Columns) -> Columns:
        """The columns, if they have the types they were written with."""
        return columns

    # ── what they do alike ──

    def _row(self, columns: Columns) -> BlobRow:
        id, tenant, address, *rest = self._fitting(columns[:7])
        return BlobRow(id, self._told(tenant), None if address is None else self._told(address), *rest)

    def _found(self, asks: Asks, address: str) -> tuple[BlobRow, int] | None:
        values = (self._kept(address),)
        found = asks.execute(self.Q["blob_find"], values).fetchone() if self._there(asks) else None
        return None if found is None else (self._row(found), found[7])

    async def _all(self, name: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        def ask(asks: Asks) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = asks.execute(self.Q[name], values).fetchall() if self._there(asks) else []
            return found

        return await self._read(ask)

    async def add(self, row: BlobRow, first: int, bodies: Sequence[bytes], at: int) -> bool:
        """Chunks of an upload."""

        def work(tx: Tx) -> bool:
            self._let_through(tx)
            if first == 0:
                self._prepare(tx)
                values = (row.id, self._kept(row.tenant), row.salt, row.card, row.at, at)
                tx.execute(self.Q["blob_begin"], values)
            found = tx.execute(self.Q["blob_upload"], (row.id,)).fetchone() if self._there(tx) else None
            if found is None:
                return False
            tx.execute(self.Q["blob_touch"], (at, found[0]))
            for number, body in enumerate(bodies, first):
                tx.execute(self.Q["blob_add"], (found[0], number, body))
            return True

        return await self._beside(work)

    async def finish(self, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        """From upload to blob."""
        return await self._write(lambda tx: self._finish(tx, row, at, replace))

    def _finish(self, tx: Tx, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        upload = tx.execute(self.Q["blob_upload"], (row.id,)).fetchone() if self._there(tx) else None
        if upload is None:
            return None, None
        assert row.address is not None
        there = self._found(tx, row.address)
        if there is not None and not replace:
            tx.execute(self.Q["blob_touch"], (at, there[1]))
            tx.execute(self.Q["blob_discard"], (row.id,))
            return there[0], row
        if there is not None:
            tx.execute(self.Q["blob_doom"], (there[0].id,))
        tx.execute(self.Q["blob_finish"], (self._kept(row.address), row.card, row.size, at, upload[0]))
        return row, None if there is None else there[0]

    async def renew(self, address: str, at: int) -> BlobRow | None:
        """Touched, if it is there."""

        def work(tx: Tx) -> BlobRow | None:
            found = self._found(tx, address)
            if found is not None:
                tx.execute(self.Q["blob_touch"], (at, found[1]))
            return None if found is None else found[0]

        return await self._write(work)

    async def describe(self, id: bytes, card: bytes) -> None:
        """Another card."""

        def work(tx: Tx) -> None:
            if self._there(tx):
                tx.execute(self.Q["blob_describe"], (card, id))

        await self._write(work)

    async def find(self, address: str) -> BlobRow | None:
        """By address."""
        found = await self._read(lambda asks: self._found(asks, address))
        return None if found is None else found[0]

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> list[BlobRow]:
        """Newest first."""
        values = (self._kept(tenant), *(after or _LATEST), limit)
        return [self._row(found) for found in await self._all("blob_page", values)]

    async def idle(self, tenant: str | None, before: int, uploads_before: int, limit: int) -> list[bytes]:
        """What may be doomed, seen without holding anybody up."""
        values = (self._any(tenant), before, uploads_before, limit)
        return [found[0] for found in await self._all("blob_idle", values)]

    def _any(self, tenant: str | None) -> str | None:
        return None if tenant is None else self._kept(tenant)

    async def doom(self, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        """Those that are still idle."""
        return await self._write(lambda tx: self._doom(tx, ids, before, uploads_before))

    def _doom(self, tx: Tx, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        blobs = size = uploads = 0
        for id in ids if self._there(tx) else ():
            found = tx.execute(self.Q["blob_doom_unused"], (id, before)).fetchone()
            if found is not None:
                blobs, size = blobs + 1, size + found[0]
            else:
                uploads += len(tx.execute(self.Q["blob_doom_upload"], (id, uploads_before)).fetchall())
        return Doomed(blobs, size, uploads)

    async def discard(self, id: bytes) -> bool:
        """An upload nobody goes on with."""

        def work(tx: Tx) -> bool:
            if not self._there(tx):
                return True
            tx.execute(self.Q["blob_discard"], (id,))
            return tx.execute(self.Q["blob_is"], (id,)).fetchone() is None

        return await self._write(work)

    async def doomed(self, tenant: str | None, limit: int) -> list[BlobRow]:
        """What waits to be dropped."""
        return [self._row(found) for found in await self._all("blob_doomed", (self._any(tenant), limit))]

    async def drop(self, id: bytes, limit: int) -> bool:
        """Some chunks, and in the end the row."""
        return await self._beside(lambda tx: self._drop(tx, id, limit))

    def _drop(self, tx: Tx, id: bytes, limit: int) -> bool:
        found = tx.execute(self.Q["blob_leaving"], (id,)).fetchone() if self._there(tx) else None
        if found is None:
            return True
        self._let_through(tx)
        if len(tx.execute(self.Q["blob_drop_chunks"], (found[0], limit)).fetchall()) == limit:
            return False
        tx.execute(self.Q["blob_drop"], (found[0],))
        self._dropped(tx)
        return True

    async def noted(self, session: SessionId) -> frozenset[NotedUse]:
        """The uses of a session's rows."""
        found = await self._all("blob_uses", (self._id(session),))
        return frozenset((version, self._told(address)) for version, address in found)

    async def missing(self, tenant: str, limit: int) -> list[SessionId]:
        """Sessions with a use that leads nowhere."""
        return [spelled(found[0]) for found in await self._all("blob_missing", (self._kept(tenant), limit))]
