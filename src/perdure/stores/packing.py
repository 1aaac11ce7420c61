"""The path every store's content takes to the disk and back: encoded, compressed, sealed.

The first byte says how the rest is kept: `0` as it is, `1` compressed with zstd, `2` sealed (and inside it `0` or `1`).
Invariant: in a sealed store nothing is believed that lies in the clear. Whoever can write to its files could put it
there; they cannot seal it.
"""

import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import local
from typing import Any, Final

import msgspec

from perdure.core.errors import Damaged, Invalid, Shredded
from perdure.core.session import codec
from perdure.core.session import record as records
from perdure.core.session.record import Record
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import CLEAR, Expecting, Place, Seal
from perdure.ports.store import Row, Snapshot

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PLAIN: Final = b"\x00"
ZSTD: Final = b"\x01"
SEALED: Final = b"\x02"
LEVEL: Final = 1
MAX_UNPACKED: Final = 256 << 20
_WORTH_IT: Final = 128
_WORTH_LISTING: Final = 512
"""Lists read thousands of cards, and to begin to decompress takes longer than all the rest."""
_NO_DIGEST: Final = bytes(32)
"""What stands for the digest of a payload that cannot be read: nothing has it."""


class _Contexts(local):
    """A compressor cannot be shared between threads, and making one costs more than using it."""

    def __init__(self) -> None:
        self.compressor: Any = zstd.ZstdCompressor(level=LEVEL)


_contexts = _Contexts()


def squeeze(plain: bytes, worth: int = _WORTH_IT) -> bytes:
    """Compressed bytes where that is shorter, behind the byte that says so; only if there are as many as is `worth`
    the time to take them apart again.
    """
    if len(plain) >= worth:
        body: bytes = _contexts.compressor.compress(plain, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(body) < len(plain):
            return ZSTD + body
    return PLAIN + plain


def unsqueeze(stored: bytes) -> bytes:
    """The bytes behind `squeeze`, or `Damaged`."""
    if stored[:1] == ZSTD:
        return inflate(stored[1:])
    if stored[:1] == PLAIN:
        return stored[1:]
    raise Damaged("stored bytes begin with an unknown byte; restore them from a backup")


def inflate(stored: bytes) -> bytes:
    """Decompressed bytes, or `Damaged`; bounded, so that a small file cannot fill the memory."""
    decompressor = zstd.ZstdDecompressor()
    try:
        plain: bytes = decompressor.decompress(stored, MAX_UNPACKED)
    except (zstd.ZstdError, EOFError) as broken:
        raise Damaged(f"stored bytes do not decompress: {broken}") from broken
    if not decompressor.eof or decompressor.unused_data:
        raise Damaged("stored bytes do not decompress to their end")
    return plain


def deflate(plain: bytes) -> bytes:
    """Compressed bytes of something beside the log, as the first format keeps them."""
    compressed: bytes = _contexts.compressor.compress(plain, zstd.ZstdCompressor.FLUSH_FRAME)
    return compressed


class _Card(msgspec.Struct, array_like=True, frozen=True):
    """What a list shows of a session and nobody else may read."""

    title: str
    labels: bytes


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint's content and the digests of it, which would betray what can be guessed."""

    payload: bytes
    payload_sha: bytes
    state_sha: bytes


class _Label(msgspec.Struct, array_like=True, frozen=True):
    """What a checkpoint is called; it stays when the payload has to go."""

    label: str
    metadata: bytes


class _Cached(msgspec.Struct, array_like=True, frozen=True):
    """A snapshot with its digest."""

    state: bytes
    sha: bytes


class _Labels(msgspec.Struct, frozen=True):
    """Tags and metadata without anything that JSON has no words for."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


_encode = msgspec.msgpack.Encoder().encode
_labels = msgspec.json.Decoder(_Labels).decode
_card = msgspec.msgpack.Decoder(_Card).decode
_kept = msgspec.msgpack.Decoder(_Kept).decode
_label = msgspec.msgpack.Decoder(_Label).decode
_cached = msgspec.msgpack.Decoder(_Cached).decode


class Packing:
    """How one store keeps content: sealed if it has a seal, else in the clear."""

    def __init__(self, seal: Seal = CLEAR) -> None:
        self.seal = seal
        self.clear = seal.clear

    def pack(self, place: Place | None, record: Record, digest: bytes) -> bytes:
        """A record as it is stored. Its place is also bound by the chain's value after it."""
        body = squeeze(records.to_bytes(record))
        if place is None or place.salt is None:
            return body
        return SEALED + self.seal.seal(place, "record", record.first, digest, body)

    def unpack(self, place: Place, body: bytes, first: int, digest: bytes) -> Record:
        """The record behind stored bytes, or `Damaged`."""
        if self._sealed(place):
            if body[:1] != SEALED:
                raise _bare("record")
            body = self.seal.open(place, "record", first, digest, body[1:])
        return records.from_bytes(unsqueeze(body))

    def _sealed(self, place: Place) -> bool:
        return is_sealed(self.seal, place)

    # ── snapshots ──

    def keep_snapshot(self, place: Place, item: Snapshot) -> tuple[bytes, bytes]:
        """The columns of a cached state: its bytes and its checksum."""
        if place.salt is None:
            return deflate(item.state), item.sha
        plain = squeeze(_encode(_Cached(item.state, item.sha)))
        return SEALED + self.seal.seal(place, "snapshot", item.version, b"", plain), b""

    def snapshot(self, place: Place, version: int, blob: bytes, sha: bytes) -> Snapshot:
        """The cached state behind its columns; one that cannot be read comes back empty and fails its checksum."""
        try:
            if not self._sealed(place):
                return Snapshot(version, inflate(blob), sha)
            found = self._inside(place, "snapshot", version, b"", blob, _cached)
            return Snapshot(version, found.state, found.sha)
        except Damaged:
            return Snapshot(version, b"", sha)

    # ── checkpoints ──

    def keep_checkpoint(self, place: Place, item: Checkpoint) -> tuple[bytes, bytes, bytes, str, str]:
        """The columns of a checkpoint that hold content: payload, its digest, the state's, label, metadata."""
        metadata = codec.to_json(item.metadata)
        if place.salt is None:
            return deflate(item.payload), item.payload_sha, item.state_sha, item.label, metadata.decode()
        bound = item.id.encode()
        payload = squeeze(_encode(_Kept(item.payload, item.payload_sha, item.state_sha)))
        label = squeeze(_encode(_Label(item.label, metadata)))
        kept = SEALED + self.seal.seal(place, "checkpoint", item.seq, bound, payload)
        named = SEALED + self.seal.seal(place, "label", item.seq, bound, label)
        return kept, b"", b"", named.hex(), "{}"

    def checkpoint(self, place: Place, item: Checkpoint, metadata: str) -> Checkpoint:
        """The checkpoint behind its columns; a payload that cannot be read comes back empty and fails its digest."""
        replace = msgspec.structs.replace
        if not self._sealed(place):
            return replace(item, payload=_or_empty(item.payload), metadata=mapping(metadata.encode()))
        bound = item.id.encode()
        named = self._inside(place, "label", item.seq, bound, unhex(item.label), _label)
        item = replace(item, label=named.label, metadata=mapping(named.metadata))
        if _is_blank(item.payload):
            return replace(item, payload=b"")
        try:
            kept = self._inside(place, "checkpoint", item.seq, bound, item.payload, _kept)
        except Damaged:
            return replace(item, payload=b"", payload_sha=_NO_DIGEST, state_sha=_NO_DIGEST)
        return replace(item, payload=kept.payload, payload_sha=kept.payload_sha, state_sha=kept.state_sha)

    # ── rows ──

    def expect(self, places: Iterable[Place]) -> None:
        """Content of these places is about to be read."""
        if not self.clear and isinstance(self.seal, Expecting):
            self.seal.expect([place for place in places if place.salt is not None])

    def keep_card(self, place: Place, row: Row) -> tuple[str, str, bytes | None]:
        """The columns of a row that hold content: title, tags and metadata in the clear, or all three sealed."""
        labels = labels_json(row)
        if place.salt is None:
            return row.title, labels, None
        plain = squeeze(_encode(_Card(row.title, labels.encode())), _WORTH_LISTING)
        return "", "{}", SEALED + self.seal.seal(place, "card", 0, b"", plain)

    def card(self, place: Place, title: str, labels: str, card: bytes | None) -> tuple[str, str]:
        """Title and labels behind their columns, or `Damaged`. Where the salt was destroyed they are empty, so that a
        backup older than an erasure can still be listed.
        """
        if not self._sealed(place):
            return title, labels
        try:
            found = self._inside(place, "card", 0, b"", card or b"", _card)
        except Shredded:
            return "", "{}"
        return found.title, found.labels.decode()

    def label(self, name: str, value: str) -> tuple[str, str]:
        """A tag or an entry of the metadata as it is indexed."""
        if self.clear:
            return name, value
        return "", self.seal.blind("label", f"{len(name)}:{name}{value}")

    def words(self, found: list[str]) -> list[str]:
        """The words of a text as they are indexed."""
        return found if self.clear else [self.seal.blind("word", word) for word in found]

    def key(self, principal: str, key: str) -> str:
        """An idempotency key as it is kept."""
        return key if self.clear else self.seal.blind("key", f"{len(principal)}:{principal}{key}")

    def fingerprint(self, fingerprint: bytes) -> bytes:
        """What a key stood for, as it is kept."""
        return fingerprint if self.clear else bytes.fromhex(self.seal.blind("fingerprint", fingerprint.hex()))

    def _inside(self, place: Place, kind: str, seq: int, bound: bytes, stored: bytes, decode: Any) -> Any:
        if stored[:1] != SEALED:
            raise _bare(kind)
        try:
            return decode(unsqueeze(self.seal.open(place, kind, seq, bound, stored[1:])))
        except (msgspec.MsgspecError, ValueError) as broken:
            raise Damaged(f"a stored {kind} does not decode: {broken}") from broken


def is_sealed(seal: Seal, place: Place) -> bool:
    """Whether content of a place is sealed; `Damaged` when it ought to be and the place says it is not."""
    if place.salt is None and not seal.clear:
        raise Damaged("content of a sealed store is in the clear; it was put there, restore a backup")
    return place.salt is not None


class PlaceWrapping:
    """`perdure.ports.store.Wrapping` for one place."""

    def __init__(self, seal: Seal, place: Place) -> None:
        self.seal = seal
        self.place = place
        self._sealed = is_sealed(seal, place)

    def wrap(self, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        """Sealed if the place has a salt."""
        if not self._sealed:
            return PLAIN + plain
        return SEALED + self.seal.seal(self.place, kind, seq, bound, plain)

    def unwrap(self, kind: str, seq: int, bound: bytes, wrapped: bytes) -> bytes:
        """The plain bytes, or `Damaged`."""
        if not self._sealed:
            if wrapped[:1] != PLAIN:
                raise Damaged(f"a {kind} begins with an unknown byte; restore it from a backup")
            return wrapped[1:]
        if wrapped[:1] != SEALED:
            raise _bare(kind)
        return self.seal.open(self.place, kind, seq, bound, wrapped[1:])


def _bare(kind: str) -> Damaged:
    return Damaged(f"a {kind} of a sealed session is in the clear; it was put there, restore a backup")


def _is_blank(stored: bytes) -> bool:
    """Whether a checkpoint's payload went with content that was destroyed: that it is empty needs no sealing."""
    try:
        return stored[:1] != SEALED and (not stored or inflate(stored) == b"")
    except Damaged:
        return False


def _or_empty(stored: bytes) -> bytes:
    try:
        return inflate(stored)
    except Damaged:
        return b""


def unhex(text: str) -> bytes:
    """Bytes from their digits, or `Damaged`."""
    try:
        return bytes.fromhex(text)
    except ValueError as broken:
        raise Damaged("stored digits are not hexadecimal; restore a backup") from broken


PACKING: Final = Packing()
"""The one that keeps everything in the clear."""


def labels_json(row: Row) -> str:
    """Tags and metadata as one column keeps them."""
    if not row.tags and not row.metadata:
        return "{}"
    return codec.to_json({"tags": list(row.tags), "metadata": row.metadata}).decode()


def labels_from(text: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Tags and metadata from their column, or `Damaged`."""
    if text == "{}":
        return (), {}
    if "$" not in text and "\\u" not in text:  # no marker, not even an escaped one: it means what it says
        with suppress(msgspec.MsgspecError, RecursionError):
            plain = _labels(text)
            return plain.tags, plain.metadata
    labels = mapping(text.encode())
    tags, metadata = labels.get("tags", []), labels.get("metadata", {})
    if type(tags) is not list or type(metadata) is not dict or any(type(tag) is not str for tag in tags):
        raise Damaged("the tags and metadata of a session are not what was written; restore a backup")
    return tuple(tags), metadata


def mapping(text: bytes) -> dict[str, Any]:
    """A map from a column of JSON, or `Damaged`."""
    try:
        found = codec.from_json(text)
    except Invalid as broken:
        raise Damaged(f"stored metadata does not decode: {broken.message}; restore a backup") from broken
    if type(found) is not dict:
        raise Damaged("stored metadata is not a map; restore a backup")
    return found


def label_pairs(row: Row) -> list[tuple[str, str]]:
    """Tags and metadata as `find` matches them: by name and canonical value."""
    pairs = [("tag", tag) for tag in row.tags]
    return pairs + [metadata_label(name, value) for name, value in row.metadata.items()]


def metadata_label(name: str, value: Any) -> tuple[str, str]:
    """One metadata entry as a label."""
    return f"metadata.{name}", codec.encode(value).hex()
