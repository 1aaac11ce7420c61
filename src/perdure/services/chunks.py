"""A stream of chunks with a header before them and a proof behind: what bundles and portable backups are written in.

::

    stream  = magic (8 bytes; the last one is the format, 1) ‖ frames
    frame   = letter ‖ length of the body (4 bytes, big-endian) ‖ body
    H       the header, a MessagePack map; the first frame
    C       a chunk; its body is up to whoever wrote the header
    T       the last frame: a MessagePack array of the numbers of chunks and of items, and SHA-256 over every byte
            before this frame and over those two numbers

Invariant: nothing is known of a stream until its last frame has been read and found to fit.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from perdure.core.errors import Damaged, NewerStore

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"\x89PDR\r\n\x1a\x01"
CHUNK: Final = 1 << 20
"""Bytes of items, before compression, after which a chunk is full."""
LARGEST: Final = 256 << 20
"""Bytes of a chunk before compression: one record may be as long as that."""
LEVEL: Final = 3
HEADER: Final = b"H"
BODY: Final = b"C"
TRAILER: Final = b"T"
_SLACK: Final = 1 << 20

_pack = msgspec.msgpack.Encoder().encode


class Trailer(msgspec.Struct, array_like=True, frozen=True):
    """The last frame."""

    chunks: int
    items: int
    sha: bytes


_trailer = msgspec.msgpack.Decoder(Trailer).decode


class Frame(NamedTuple):
    """A letter and a body."""

    letter: bytes
    body: bytes


def squeezed(items: list[Any]) -> bytes:
    """Items as MessagePack, compressed."""
    packed: bytes = zstd.compress(_pack(items), level=LEVEL)
    return packed


def loosened(squeezed: bytes) -> bytes:
    """What was squeezed, or `Damaged`; bounded, so that a small file cannot fill the memory."""
    decompressor = zstd.ZstdDecompressor()
    try:
        plain: bytes = decompressor.decompress(squeezed, LARGEST)
    except (zstd.ZstdError, EOFError) as broken:
        raise Damaged(f"a chunk does not decompress: {broken}; take another copy") from broken
    if not decompressor.eof or decompressor.unused_data:
        raise Damaged("a chunk does not decompress to its end; take another copy")
    return plain


class Framer:
    """Writes a stream: each method gives the bytes that come next."""

    def __init__(self) -> None:
        self._sha = sha256()
        self.chunks = self.items = 0

    def header(self, content: bytes) -> bytes:
        """The beginning."""
        return self._hashed(MAGIC + _framed(HEADER, content))

    def chunk(self, body: bytes, items: int) -> bytes:
        """One more chunk, and how many items are in it."""
        self.chunks += 1
        self.items += items
        return self._hashed(_framed(BODY, body))

    def end(self) -> bytes:
        """The proof."""
        return _framed(TRAILER, _pack(Trailer(self.chunks, self.items, _proof(self._sha, self.chunks, self.items))))

    def _hashed(self, data: bytes) -> bytes:
        self._sha.update(data)
        return data


class Unframer:
    """Reads a stream: feed it pieces of any size, then ask whether it has come to its `end`."""

    def __init__(self) -> None:
        self._sha = sha256()
        self._held = bytearray()
        self._begun = False
        self._last = b""
        self._trailer: Trailer | None = None
        self.chunks = 0

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """The header and the chunks that are complete by now; `Damaged` when it is no such stream."""
        self._held += piece
        if not self._begun and len(self._held) >= len(MAGIC):
            self._begin()
        while self._begun and (frame := self._next()) is not None:
            if frame.letter != TRAILER:
                yield frame

    def _begin(self) -> None:
        found = bytes(self._held[: len(MAGIC)])
        if found[:-1] != MAGIC[:-1]:
            _refuse("it does not begin like a bundle or a backup of perdure")
        if found[-1] > MAGIC[-1]:
            raise NewerStore(f"the stream has format {found[-1]}, this perdure reads {MAGIC[-1]}; upgrade perdure")
        self._sha.update(found)
        del self._held[: len(MAGIC)]
        self._begun = True

    def _next(self) -> Frame | None:
        if self._trailer is not None:
            if self._held:
                _refuse("something follows on its end")
            return None
        if len(self._held) < 5:
            return None
        letter, length = bytes(self._held[:1]), int.from_bytes(self._held[1:5], "big")
        expected = (BODY, TRAILER) if self._last else (HEADER,)
        if letter not in expected or length > LARGEST + _SLACK:
            _refuse("a frame in it has an unknown letter or an impossible length")
        if len(self._held) < 5 + length:
            return None
        raw = bytes(self._held[: 5 + length])
        del self._held[: 5 + length]
        frame, self._last = Frame(letter, raw[5:]), letter
        if letter == TRAILER:
            self._finish(frame.body)
        else:
            self._sha.update(raw)
            self.chunks += letter == BODY
        return frame

    def _finish(self, body: bytes) -> None:
        try:
            found = _trailer(body)
        except msgspec.MsgspecError as broken:
            raise Damaged(f"the end of the stream does not decode: {broken}; take another copy") from broken
        if found.chunks != self.chunks or found.sha != _proof(self._sha, found.chunks, found.items):
            _refuse("its bytes do not match the digest at its end")
        self._trailer = found

    def end(self) -> Trailer:
        """The last frame, once everything was fed; `Damaged` when it has not come."""
        if self._trailer is None:
            _refuse("it was cut short")
        return self._trailer


def _framed(letter: bytes, body: bytes) -> bytes:
    return letter + len(body).to_bytes(4, "big") + body


def _proof(so_far: Any, chunks: int, items: int) -> bytes:
    sha = so_far.copy()
    sha.update(_pack([chunks, items]))
    digest: bytes = sha.digest()
    return digest


def _refuse(what: str) -> NoReturn:
    raise Damaged(f"the stream cannot be read: {what}; take another copy")
