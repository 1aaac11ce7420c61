"""The rows of blobs in the file, and which events of which sessions point to them.

Invariant: whoever points to a blob looks for it, and whoever dooms one looks for uses, inside the writer's transaction;
so one of the two comes first, in whichever process, and the other sees it.
"""

from collections.abc import Sequence
from typing import Final

from perdure.core.session.ids import SessionId, raw
from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.ports.store import Snapshot
from perdure.stores.blobs import NotedUse, anchor_uses, not_there, uses_of
from perdure.stores.columns import Columns
from perdure.stores.sqlblobs import SqlBlobs
from perdure.stores.sqlite.rows import Shape, fitting
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction

_BYTES, _TEXT, _WHOLE, _NONE = (frozenset({kind}) for kind in (bytes, str, int, type(None)))
_ROW: Final[Shape] = (_BYTES, _TEXT, _TEXT | _NONE, _BYTES | _NONE, _BYTES, _WHOLE, _WHOLE)
_SHRINK: Final = "PRAGMA shrink_memory"
"""Empties the connection's cache, which content that passes through once would fill for nothing."""
_SHRUNK: Final = 8
_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'blob_use'"


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


class SqliteBlobs(SqlBlobs[Transaction]):
    """`perdure.stores.blobs.BlobTable` in the store's file."""

    Q = Q

    def _there(self, asks: Asks) -> bool:
        return there(asks)

    def _prepare(self, tx: Transaction) -> None:
        if not there(tx):
            tx.execute(Q["blob_tables"])

    def _let_through(self, asks: Asks) -> None:
        asks.execute(_SHRINK)

    def _dropped(self, tx: Transaction) -> None:
        tx.destroys = True

    def _id(self, session: SessionId) -> bytes:
        return raw(session)

    def _fitting(self, columns: Columns) -> Columns:
        return fitting(columns, _ROW)

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        """One chunk."""

        def ask(connection: Asks) -> bytes | None:
            if number % _SHRUNK == _SHRUNK - 1:
                connection.execute(_SHRINK)
            found = connection.execute(Q["blob_chunk"], (id, number)).fetchone() if there(connection) else None
            return None if found is None else bytes(fitting(found, (_BYTES,))[0])

        return await self._read(ask)

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those with a use."""

        def ask(connection: Asks) -> frozenset[str]:
            if not there(connection):
                return frozenset()
            found = (address for address in addresses if connection.execute(Q["blob_used"], (address,)).fetchone())
            return frozenset(found)

        return await self._read(ask)
