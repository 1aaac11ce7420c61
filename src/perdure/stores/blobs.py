"""Blobs as every engine keeps them: packed, addressed, dropped in the right order. An engine only brings its rows.

A blob's row is found by its address: a keyed hash of tenant and content, so that nobody without the key can tell by a
file of his own whether a tenant has the same. Each chunk is sealed in its place, under the blob's own salt, and the
last one as such: one that is changed, moved, missing or cut off is found when it is read. Without sealing a checksum
over id, number, end and content does the same for damage.

A row without an address is an upload; one from which the time of its last touch was taken is on its way out, and
whoever comes by may finish that. Uses are noted by address, so a blob may come after the session that points to it.
"""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256 as hashed
from typing import Final, Protocol

import msgspec

from perdure.core.errors import BlobMissing, Damaged, Shredded, Tampered
from perdure.core.session import refs
from perdure.core.session.ids import SessionId
from perdure.core.session.record import Record
from perdure.core.session.refs import Use
from perdure.ports.blobs import CHUNK, Blob, Collected, Note, Upload
from perdure.ports.seal import Place, Seal
from perdure.ports.store import Snapshot
from perdure.stores.packing import SEALED, Packing, is_sealed, squeeze, unsqueeze

PAGE: Final = 200
DROPPED: Final = 16
"""Chunks dropped in one transaction, so that nobody waits long for it."""
_CHECK_BYTES: Final = 16
_MORE: Final = b"more"
_END: Final = b"end"

NotedUse = tuple[int, str]
"""The version of an event, and the address of a blob it points to."""


class BlobRow(msgspec.Struct, frozen=True):
    """A row as an engine keeps it."""

    id: bytes
    tenant: str
    address: str | None
    salt: bytes | None
    card: bytes
    size: int
    at: int


class Doomed(msgspec.Struct, frozen=True):
    """What a transaction put on its way out."""

    blobs: int
    bytes: int
    uploads: int


class BlobTable(Protocol):
    """The rows of one engine. Every method is one transaction."""

    async def add(self, row: BlobRow, first: int, bodies: Sequence[bytes], at: int) -> bool:
        """Insert chunks of an upload and touch it, with the very first chunk also its row; False when it is gone."""
        ...

    async def finish(self, row: BlobRow, at: int, replace: bool) -> tuple[BlobRow | None, BlobRow | None]:
        """Give an upload its address, card and size; or touch the row that has the address, and doom the upload; or
        doom that row. The row that has the address now (None when the upload is gone), and the doomed one.
        """
        ...

    async def renew(self, address: str, at: int) -> BlobRow | None:
        """Touch the row with this address, if there is one."""
        ...

    async def describe(self, id: bytes, card: bytes) -> None:
        """Replace a card."""
        ...

    async def find(self, address: str) -> BlobRow | None:
        """The row with this address."""
        ...

    async def chunk(self, id: bytes, number: int) -> bytes | None:
        """One chunk of a row that is not doomed."""
        ...

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> list[BlobRow]:
        """Rows with an address, newest first by time and id."""
        ...

    async def used(self, addresses: Sequence[str]) -> frozenset[str]:
        """Those of these addresses that a session points to."""
        ...

    async def idle(self, tenant: str | None, before: int, uploads_before: int, limit: int) -> list[bytes]:
        """Rows that may be doomed: unused blobs and uploads untouched since. Others may be quicker."""
        ...

    async def doom(self, ids: Sequence[bytes], before: int, uploads_before: int) -> Doomed:
        """Take address and touch from those that still are so, in one transaction with the look at their uses."""
        ...

    async def discard(self, id: bytes) -> bool:
        """Doom an upload, touched or not; False when it is a blob."""
        ...

    async def doomed(self, tenant: str | None, limit: int) -> list[BlobRow]:
        """Rows on their way out."""
        ...

    async def drop(self, id: bytes, limit: int) -> bool:
        """Drop up to `limit` chunks of a doomed row, and the row when none is left; whether it is gone."""
        ...

    async def noted(self, session: SessionId) -> frozenset[NotedUse]:
        """The uses noted of a session's own rows."""
        ...

    async def missing(self, tenant: str, limit: int) -> list[SessionId]:
        """Sessions with a use whose address no row has."""
        ...


class _Card(msgspec.Struct, array_like=True, frozen=True):
    """What a blob holds and what people say of it."""

    sha256: bytes
    size: int
    media_type: str
    name: str


_encode = msgspec.msgpack.Encoder().encode
_card = msgspec.msgpack.Decoder(_Card).decode


def address_of(seal: Seal, tenant: str, sha256: bytes) -> str:
    """What a blob is found by: the same for the same content of the same tenant."""
    return seal.blind("blob", f"{len(tenant)}:{tenant}{sha256.hex()}")


def uses_of(packing: Packing, tenant: str, record: Record) -> tuple[NotedUse, ...]:
    """The uses to note of a record; most have none."""
    found = refs.in_record(record)
    return tuple((version, address_of(packing.seal, tenant, sha)) for version, sha in found) if found else ()


def anchor_uses(packing: Packing, tenant: str, snapshot: Snapshot | None) -> tuple[NotedUse, ...]:
    """The uses to note of the state that a pruned log stands on: its events are gone, what they set is not."""
    if snapshot is None:
        return ()
    found = sorted(refs.in_bytes(snapshot.state))
    return tuple((snapshot.version, address_of(packing.seal, tenant, sha)) for sha in found)


def not_there(count: int) -> BlobMissing:
    """The refusal of an append that points to what is not there."""
    which = "a blob that is" if count == 1 else f"{count} blobs that are"
    return BlobMissing(
        f"the events point to {which} not here: never put, or collected since; put the content again, then append",
        missing=count,
    )


class PackedBlobs:
    """A `BlobStore` over an engine's rows."""

    def __init__(self, table: BlobTable, packing: Packing) -> None:
        self._table = table
        self._packing = packing
        self._seal = packing.seal

    # ── coming in ──

    def begin(self, tenant: str, id: bytes) -> Upload:
        """An upload; its salt is in the vault before it is used."""
        return Upload(id, tenant, self._seal.fresh())

    async def write(self, upload: Upload, first: int, chunks: Sequence[bytes], at: int, *, last: bool = False) -> None:
        """Make chunks durable. They are packed before the engine's lock is taken."""
        place, final = _place(upload), first + len(chunks) - 1 if last else -1
        try:
            bodies = [self._kept(place, first + n, chunk, first + n == final) for n, chunk in enumerate(chunks)]
        except Shredded:
            raise _collected_upload() from None
        if not await self._table.add(_row(upload, at), first, bodies, at):
            raise _collected_upload()

    async def finish(
        self, upload: Upload, sha256: bytes, size: int, note: Note, at: int, *, replace: bool = False
    ) -> Blob:
        """Make the upload a blob, or give the one there is."""
        try:
            card = self._keep_card(_place(upload), _Card(sha256, size, note.media_type, note.name))
        except Shredded:
            raise _collected_upload() from None
        address = address_of(self._seal, upload.tenant, sha256)
        wanted = BlobRow(upload.id, upload.tenant, address, upload.salt, card, size, at)
        row, doomed = await self._table.finish(wanted, at, replace)
        if row is None:
            raise _collected_upload()
        if doomed is not None:
            await self._clear([doomed])
        found = await self._there(row)
        if found is None:  # whoever collects without any grace was quicker: it was put, and went
            return _blob(row, sha256, note)
        return await self._described(_that(found, sha256), note)

    async def abandon(self, upload: Upload) -> None:
        """Drop an upload, unless it has become a blob after all."""
        if await self._table.discard(upload.id):
            await self._clear([_row(upload, 0)])

    async def renew(self, tenant: str, sha256: bytes, note: Note, at: int) -> Blob | None:
        """Start a blob's grace anew."""
        row = await self._table.renew(address_of(self._seal, tenant, sha256), at)
        found = None if row is None else await self._there(row)
        return None if found is None else await self._described(_that(found, sha256), note)

    async def _described(self, blob: Blob, note: Note) -> Blob:
        said = Note(note.media_type or blob.note.media_type, note.name or blob.note.name)
        if said == blob.note:
            return blob
        card = _Card(blob.sha256, blob.size, said.media_type, said.name)
        with suppress(Shredded):  # it is gone already, and needs no description
            await self._table.describe(blob.id, self._keep_card(_place(blob), card))
        return msgspec.structs.replace(blob, note=said)

    # ── going out ──

    async def find(self, tenant: str, sha256: bytes) -> Blob | None:
        """The blob with this content."""
        row = await self._table.find(address_of(self._seal, tenant, sha256))
        found = None if row is None else await self._there(row)
        return None if found is None else _that(found, sha256)

    async def read(self, blob: Blob, number: int) -> bytes:
        """One chunk, proven to be this one."""
        body = await self._table.chunk(blob.id, number)
        try:
            if body is None:
                raise Damaged(f"chunk {number} of a blob is missing; restore a backup")
            plain = self._chunk(_place(blob), number, body, number == blob.chunks - 1)
        except (Damaged, Shredded):
            if not await self._still(blob.id, address_of(self._seal, blob.tenant, blob.sha256)):
                raise BlobMissing("the blob was collected or replaced while it was read; open it again") from None
            raise
        expected = CHUNK if number < blob.chunks - 1 else blob.size - number * CHUNK
        if len(plain) != expected:
            raise Damaged(f"chunk {number} of a blob has {len(plain)} bytes, not {expected}; restore a backup")
        return plain

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> tuple[Blob, ...]:
        """Blobs, newest first."""
        found: list[Blob] = []
        while len(found) < limit and (rows := await self._table.page(tenant, after, limit - len(found))):
            found += [blob for row in rows if (blob := await self._readable(row)) is not None]
            after = (rows[-1].at, rows[-1].id)
        return tuple(found)

    async def used(self, blobs: Sequence[Blob]) -> frozenset[bytes]:
        """The ids of those in use."""
        addresses = {address_of(self._seal, blob.tenant, blob.sha256): blob.id for blob in blobs}
        return frozenset(addresses[address] for address in await self._table.used(tuple(addresses)))

    # ── going away ──

    async def collect(self, tenant: str | None, before: int, uploads_before: int) -> Collected:
        """First nobody finds them any more, then their chunks go, then their salts: a crash leaves nothing undone
        that the next call does not find.
        """
        blobs = size = uploads = 0
        while ids := await self._table.idle(tenant, before, uploads_before, PAGE):
            gone = await self._table.doom(ids, before, uploads_before)
            blobs, size, uploads = blobs + gone.blobs, size + gone.bytes, uploads + gone.uploads
        while rows := await self._table.doomed(tenant, PAGE):
            await self._clear(rows)
        return Collected(blobs=blobs, bytes=size, uploads=uploads)

    async def _clear(self, rows: Sequence[BlobRow]) -> None:
        """Drop what is doomed, and the salts with it."""
        salts = [row.salt for row in rows if row.salt is not None]
        self._seal.condemn(salts)
        for row in rows:
            while not await self._table.drop(row.id, DROPPED):
                continue
        self._seal.destroy(salts)

    # ── proving ──

    async def unnoted(self, tenant: str, session: SessionId, uses: Sequence[Use]) -> tuple[Use, ...]:
        """Uses that the engine does not know of."""
        noted = await self._table.noted(session)
        return tuple(use for use in uses if (use[0], address_of(self._seal, tenant, use[1])) not in noted)

    async def missing(self, tenant: str, limit: int) -> tuple[SessionId, ...]:
        """Sessions that point to what is not there."""
        return tuple(await self._table.missing(tenant, limit))

    # ── bytes ──

    def _kept(self, place: Place, number: int, plain: bytes, last: bool) -> bytes:
        if place.salt is None:
            return squeeze(_check(place.owner, number, last, plain) + plain)
        return SEALED + self._seal.seal(place, "blob", number, _END if last else _MORE, squeeze(plain))

    def _chunk(self, place: Place, number: int, body: bytes, last: bool) -> bytes:
        if place.salt is not None:
            if body[:1] != SEALED:
                raise Damaged("a chunk of a sealed blob is in the clear; it was put there, restore a backup")
            return unsqueeze(self._seal.open(place, "blob", number, _END if last else _MORE, body[1:]))
        plain = unsqueeze(body)
        if plain[:_CHECK_BYTES] != _check(place.owner, number, last, plain[_CHECK_BYTES:]):
            raise Damaged(f"chunk {number} of a blob is not what was written; put the content again with replace")
        return plain[_CHECK_BYTES:]

    def _keep_card(self, place: Place, card: _Card) -> bytes:
        plain = squeeze(_encode(card))
        return plain if place.salt is None else SEALED + self._seal.seal(place, "card", 0, b"blob", plain)

    def _blob(self, row: BlobRow) -> Blob:
        """The blob behind a row; `Damaged` or `Tampered` when the row is not what was written."""
        place, card = Place(row.tenant, row.id, row.salt), row.card
        if is_sealed(self._seal, place):
            if card[:1] != SEALED:
                raise Damaged("the card of a sealed blob is in the clear; it was put there, restore a backup")
            card = self._seal.open(place, "card", 0, b"blob", card[1:])
        try:
            found = _card(unsqueeze(card))
        except (msgspec.MsgspecError, ValueError) as broken:
            raise Damaged(f"the card of a blob does not decode: {broken}; restore a backup") from broken
        if address_of(self._seal, row.tenant, found.sha256) != row.address or found.size != row.size:
            raise _misplaced()
        return _blob(row, found.sha256, Note(found.media_type, found.name))

    async def _there(self, row: BlobRow) -> Blob | None:
        """The blob behind a row; None when it was collected since the row was read."""
        try:
            return self._blob(row)
        except Shredded:
            if await self._still(row.id, row.address):
                raise
            return None

    async def _still(self, id: bytes, address: str | None) -> bool:
        now = None if address is None else await self._table.find(address)
        return now is not None and now.id == id

    async def _readable(self, row: BlobRow) -> Blob | None:
        try:
            return await self._there(row)
        except (Tampered, Shredded):
            return _blob(row, b"", Note())


def _blob(row: BlobRow, sha256: bytes, note: Note) -> Blob:
    return Blob(id=row.id, tenant=row.tenant, salt=row.salt, sha256=sha256, size=row.size, note=note, at=row.at)


def _that(blob: Blob, sha256: bytes) -> Blob:
    """The blob, if it holds what was asked for."""
    if blob.sha256 != sha256:
        raise _misplaced()
    return blob


def _place(whose: Upload | Blob) -> Place:
    return Place(whose.tenant, whose.id, whose.salt)


def _row(upload: Upload, at: int) -> BlobRow:
    return BlobRow(upload.id, upload.tenant, None, upload.salt, b"", 0, at)


def _check(id: bytes, number: int, last: bool, plain: bytes) -> bytes:
    """Tells a chunk that is damaged, elsewhere or not the end it is taken for."""
    found = hashed(id + number.to_bytes(8, "big") + (_END if last else _MORE))
    found.update(plain)
    return found.digest()[:_CHECK_BYTES]


def _misplaced() -> Tampered:
    return Tampered("a blob is found where another belongs; restore a backup")


def _collected_upload() -> BlobMissing:
    return BlobMissing("the upload lay untouched for so long that it was collected; put the content again")
