"""Blobs as streams: content on its way in, cut into chunks, and a blob on its way out, proven as it is read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Final, Self

from perdure.core.errors import Invalid, Tampered
from perdure.core.session.shown import shown
from perdure.ports.blobs import CHUNK, Blob, BlobStore, Source

_NATIVE: Final = frozenset("cbB?hHiIlLqQnNfdP")
MEND = "put the content again with replace, or restore a backup"


class BlobReader:
    """A blob as a stream that can be read from any place. The hash of the whole is proven by reading it in order to
    the end: `Tampered` comes before the last chunk is handed out.
    """

    def __init__(self, blobs: BlobStore, blob: Blob) -> None:
        self._blobs = blobs
        self._blob = blob
        self._place = 0
        self._held: tuple[int, bytes] = (-1, b"")
        self._hash = sha256()
        self._hashed = 0

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._blob.size

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place counted from the beginning (0), from here (1) or from the end (2)."""
        bases = (0, self._place, self.size)
        if type(offset) is not int or type(whence) is not int or not 0 <= whence < len(bases):
            raise Invalid(f"seek takes a whole number and 0, 1 or 2, not {shown(offset)} and {shown(whence)}")
        place = bases[whence] + offset
        if place < 0:
            raise Invalid(f"{place} lies before the beginning; seek to 0 or further")
        self._place = place
        return place

    async def read(self, count: int = -1) -> bytes:
        """The next bytes, fewer than asked only at the end; all that are left with −1."""
        if type(count) is not int:
            raise Invalid(f"read takes a number of bytes, not {shown(count)}")
        left = max(0, self.size - self._place)
        wanted = left if count < 0 else min(count, left)
        found: list[bytes] = []
        while wanted:
            piece = (await self._piece())[:wanted]
            found.append(piece)
            wanted -= len(piece)
            self._place += len(piece)
        if not self.size:
            await self._chunk(0)
        return found[0] if len(found) == 1 else b"".join(found)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """What is left of the chunk at this place."""
        if self._place >= self.size:
            raise StopAsyncIteration
        piece = await self._piece()
        self._place += len(piece)
        return piece

    async def _piece(self) -> bytes:
        number, inside = divmod(self._place, CHUNK)
        chunk = await self._chunk(number)
        return chunk[inside:] if inside else chunk

    async def _chunk(self, number: int) -> bytes:
        if self._held[0] != number:
            chunk = await self._blobs.read(self._blob, number)
            self._prove(number, chunk)
            self._held = (number, chunk)
        return self._held[1]

    def _prove(self, number: int, chunk: bytes) -> None:
        if number == 0:
            self._hash, self._hashed = sha256(), 0
        if number != self._hashed:
            return  # read out of order: each chunk is proven by itself, the whole is not
        self._hash.update(chunk)
        self._hashed += 1
        if self._hashed == self._blob.chunks and self._hash.digest() != self._blob.sha256:
            raise Tampered(f"a blob is not what was put; {MEND}", sha256=self._blob.sha256.hex())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._held = (-1, b"")


def viewed(content: Any) -> memoryview:
    """Content as plain bytes, copied only where a view skips some or counts otherwise; `Invalid` for one let go."""
    try:
        view = memoryview(content)
        plain = view.c_contiguous and view.nbytes and view.format in _NATIVE
        return view.cast("B") if plain else memoryview(bytes(view))
    except ValueError as gone:
        raise Invalid(f"the bytes cannot be read: {gone}; put them before they are let go") from gone


async def chunked(source: Source) -> AsyncGenerator[bytes, None]:
    """The content in chunks; the last one has what is left, and there always is one."""
    held = bytearray()
    async with aclosing(source.pieces()) as pieces:
        async for piece in pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise Invalid(f"content comes in bytes, not {shown(piece)}; open files in binary mode")
            view = viewed(piece)
            for start in range(0, len(view), CHUNK):
                held += view[start : start + CHUNK]
                if len(held) > CHUNK:
                    yield bytes(held[:CHUNK])
                    del held[:CHUNK]
    yield bytes(held)
