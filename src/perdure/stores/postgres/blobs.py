"""The rows of blobs in the database, and which events of which sessions point to them.

Invariant: whoever points to a blob looks for it, and whoever dooms one looks for uses, under the lock that all writers
take; so one of the two comes first, on whichever node, and the other sees it. Chunks come and go without that lock.
"""

from collections.abc import Sequence

from perdure.core.session.ids import SessionId
from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.ports.store import Snapshot
from perdure.stores.blobs import NotedUse, anchor_uses, not_there, uses_of
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept, told
from perdure.stores.postgres.writer import Transaction
from perdure.stores.sqlblobs import SqlBlobs

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


class PostgresBlobs(SqlBlobs[Transaction]):
    """`perdure.stores.blobs.BlobTable` in the store's database."""

    Q = Q

    def _kept(self, text: str) -> str:
        return kept(text)

    def _told(self, text: str) -> str:
        return told(text)

    def _id(self, session: SessionId) -> str:
        return session

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        """One chunk."""
        found = await self._all("blob_chunk", (id, number))
        return found[0][0] if found else None

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those with a use."""
        found = await self._all("blob_used", ([kept(address) for address in addresses],))
        return frozenset(told(address) for (address,) in found)
