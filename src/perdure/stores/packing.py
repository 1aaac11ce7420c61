"""The record path every store shares: a record becomes bytes at rest, and back.

The first byte says how the rest is kept: `0` as it is, `1` compressed with zstd. Sealing will be one more step here.
"""

import sys
from threading import local
from typing import Any, Final

from perdure.core.errors import Damaged
from perdure.core.session import record as records
from perdure.core.session.record import Record

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PLAIN: Final = b"\x00"
ZSTD: Final = b"\x01"
LEVEL: Final = 1
MAX_UNPACKED: Final = 256 << 20
_WORTH_IT: Final = 128


class _Contexts(local):
    """A compressor cannot be shared between threads, and making one costs more than using it."""

    def __init__(self) -> None:
        self.compressor: Any = zstd.ZstdCompressor(level=LEVEL)


_contexts = _Contexts()


def pack(record: Record) -> bytes:
    """The bytes to store."""
    plain = records.to_bytes(record)
    if len(plain) >= _WORTH_IT:
        body: bytes = _contexts.compressor.compress(plain, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(body) < len(plain):
            return ZSTD + body
    return PLAIN + plain


def unpack(stored: bytes) -> Record:
    """The record behind stored bytes, or `Damaged`."""
    if stored[:1] == ZSTD:
        return records.from_bytes(inflate(stored[1:]))
    if stored[:1] == PLAIN:
        return records.from_bytes(stored[1:])
    raise Damaged("a stored record begins with an unknown byte; restore it from a backup")


def deflate(plain: bytes) -> bytes:
    """Compressed bytes of something beside the log: a snapshot, a checkpoint."""
    compressed: bytes = _contexts.compressor.compress(plain, zstd.ZstdCompressor.FLUSH_FRAME)
    return compressed


def inflate(stored: bytes) -> bytes:
    """The bytes behind `deflate`, or `Damaged`; bounded, so that a small file cannot fill the memory."""
    decompressor = zstd.ZstdDecompressor()
    try:
        plain: bytes = decompressor.decompress(stored, MAX_UNPACKED)
    except (zstd.ZstdError, EOFError) as broken:
        raise Damaged(f"stored bytes do not decompress: {broken}") from broken
    if not decompressor.eof or decompressor.unused_data:
        raise Damaged("stored bytes do not decompress to their end")
    return plain


def inflate_or_empty(stored: bytes) -> bytes:
    """Like `inflate`, for what can be rebuilt: damaged bytes come back empty and fail their checksum later."""
    try:
        return inflate(stored)
    except Damaged:
        return b""
