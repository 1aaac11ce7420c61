"""Plain files, for what lives outside a store. Every method may raise the world's errors of `perdure.core.errors`."""

from collections.abc import AsyncIterator
from typing import Protocol


class Files(Protocol):
    """What mirroring needs of a disk. The real one is `perdure.edge.files`."""

    async def size(self, path: str) -> int | None:
        """How many bytes a file has, or None when there is none."""
        ...

    async def read(self, path: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from a place on; fewer at the end of the file."""
        ...

    async def append(self, path: str, at: int, data: bytes) -> None:
        """Make `data` what follows on the first `at` bytes, on disk before this returns. What was there after them is
        cut off; a file that is not there is made."""
        ...

    async def replace(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        """Put these chunks in the place of a file, whole and on disk, or leave it as it was."""
        ...
