"""Blobs in RAM: the rows of the reference store. What sessions point to is read from their logs when it is asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from perdure.core.session.ids import SessionId
from perdure.ports.store import Commit
from perdure.stores.blobs import BlobRow, Doomed, NotedUse, address_of, not_there, uses_of
from perdure.stores.packing import Packing
from perdure.stores.shelf import Shelf


class _Kept:
    """A row, when it was touched last (None: it is on its way out), and its chunks."""

    def __init__(self, row: BlobRow) -> None:
        self.row = row
        self.touched: int | None = row.at
        self.chunks: dict[int, bytes] = {}

    def older(self, than: int) -> bool:
        return self.touched is not None and self.touched < than


class VolatileBlobs:
    """`perdure.stores.blobs.BlobTable` in RAM, under the lock of its store."""

    def __init__(
        self, lock: Callable[[], AbstractContextManager[None]], shelves: Mapping[SessionId, Shelf], packing: Packing
    ) -> None:
        self._lock = lock
        self._packing = packing
        self._shelves = shelves
        self._kept: dict[bytes, _Kept] = {}
        self._addresses: dict[str, bytes] = {}

    def refuse_missing(self, commits: Iterable[Commit]) -> None:
        """Refuse events that point to a blob which is not there. The caller holds the lock."""
        for commit in commits:
            uses = uses_of(self._packing, commit.row.tenant, commit.record)
            if gone := {address for _, address in uses} - self._addresses.keys():
                raise not_there(len(gone))

    # ── coming in ──

    async def add(self, row: BlobRow, first: int, bodies: Sequence[bytes], at: int) -> bool:
        with self._lock():
            if first == 0:
                self._kept[row.id] = _Kept(row)
            kept = self._upload(row.id)
            if kept is None:
                return False
            kept.touched = at
            kept.chunks |= dict(enumerate(bodies, first))
            return True

    def _upload(self, id: bytes) -> _Kept | None:
        kept = self._kept.get(id)
        return kept if kept is not None and kept.row.address is None and kept.touched is not None else None

    async def finish(self, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        with self._lock():
            upload = self._upload(row.id)
            if upload is None or row.address is None:
                return None, None
            there = self._at(row.address)
            if there is not None and not replace:
                there.touched, upload.touched = at, None
                return there.row, row
            if there is not None:
                self._doom(there)
            upload.row, upload.touched = row, at
            self._addresses[row.address] = row.id
            return row, None if there is None else there.row

    async def renew(self, address: str, at: int) -> BlobRow | None:
        with self._lock():
            kept = self._at(address)
            if kept is None:
                return None
            kept.touched = at
            return kept.row

    async def describe(self, id: bytes, card: bytes) -> None:
        with self._lock():
            if id in self._kept:
                self._kept[id].row = replace(self._kept[id].row, card=card)

    # ── going out ──

    def _at(self, address: str) -> _Kept | None:
        id = self._addresses.get(address)
        return None if id is None else self._kept[id]

    async def find(self, address: str) -> BlobRow | None:
        with self._lock():
            kept = self._at(address)
            return None if kept is None else kept.row

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        with self._lock():
            kept = self._kept.get(id)
            return None if kept is None or kept.touched is None else kept.chunks.get(number)

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> list[BlobRow]:
        with self._lock():
            there = [self._kept[id].row for id in self._addresses.values()]
        mine = [row for row in there if row.tenant == tenant]
        mine.sort(key=lambda row: (row.at, row.id), reverse=True)
        return [row for row in mine if after is None or (row.at, row.id) < after][:limit]

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        with self._lock():
            return frozenset(addresses) & self._used()

    # ── going away ──

    def _used(self) -> set[str]:
        return {
            address_of(self._packing.seal, shelf.head.row.tenant, blob)
            for shelf in self._shelves.values()
            for _, blob in shelf.uses()
        }

    async def idle(self, tenant: str | None, before: int, uploads_before: int, limit: int) -> list[bytes]:
        with self._lock():
            used = self._used()
            mine = (kept for kept in self._kept.values() if tenant in (None, kept.row.tenant))
            return [kept.row.id for kept in mine if _idle(kept, before, uploads_before, used)][:limit]

    async def doom(self, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        with self._lock():
            used = self._used()
            found = (self._kept.get(id) for id in ids)
            gone = [kept for kept in found if kept is not None and _idle(kept, before, uploads_before, used)]
            sizes = [kept.row.size for kept in gone if kept.row.address is not None]
            for kept in gone:
                self._doom(kept)
            return Doomed(len(sizes), sum(sizes), len(gone) - len(sizes))

    def _doom(self, kept: _Kept) -> None:
        if kept.row.address is not None:
            del self._addresses[kept.row.address]
        kept.row, kept.touched = replace(kept.row, address=None), None

    async def discard(self, id: bytes) -> bool:
        with self._lock():
            kept = self._kept.get(id)
            if kept is not None and kept.row.address is None:
                kept.touched = None
            return kept is None or kept.row.address is None

    async def doomed(self, tenant: str | None, limit: int) -> list[BlobRow]:
        with self._lock():
            gone = [kept.row for kept in self._kept.values() if kept.touched is None]
            return [row for row in gone if tenant in (None, row.tenant)][:limit]

    async def drop(self, id: bytes, limit: int) -> bool:
        with self._lock():
            kept = self._kept.get(id)
            if kept is not None and kept.touched is None:
                del self._kept[id]
            return True

    # ── proving ──

    async def noted(self, session: SessionId) -> frozenset[NotedUse]:
        with self._lock():
            shelf = self._shelves.get(session)
            if shelf is None:
                return frozenset()
            tenant = shelf.head.row.tenant
            return frozenset((version, address_of(self._packing.seal, tenant, blob)) for version, blob in shelf.uses())

    async def missing(self, tenant: str, limit: int) -> list[SessionId]:
        with self._lock():
            found = [
                name
                for name, shelf in self._shelves.items()
                if shelf.head.row.tenant == tenant
                and any(address_of(self._packing.seal, tenant, blob) not in self._addresses for _, blob in shelf.uses())
            ]
            return found[:limit]


def _idle(kept: _Kept, before: int, uploads_before: int, used: set[str]) -> bool:
    """Whether a row may be doomed: an upload untouched since, or a blob nobody uses."""
    if kept.row.address is None:
        return kept.older(uploads_before)
    return kept.older(before) and kept.row.address not in used
