"""Files on the disk of this machine: `ports.files` with the system's calls, and the lines of a file to import.

Invariant: when a write returns, the bytes and the name of the file are on disk.
"""

import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from perdure.core.errors import BadExport
from perdure.services.disk import sync_folder, translated
from perdure.waiting import blocking

if TYPE_CHECKING:
    from perdure.compose import Services

T = TypeVar("T")
BATCH: Final = 1 << 20


class DiskFiles:
    """`perdure.ports.files.Files` on this machine's disk."""

    async def size(self, path: str) -> int | None:
        """How many bytes a file has, or None."""

        def ask() -> int | None:
            try:
                return os.stat(path).st_size
            except FileNotFoundError:
                return None

        return await _off_loop(path, ask)

    async def read(self, path: str, start: int, length: int) -> bytes:
        """Bytes from a place on."""

        def ask() -> bytes:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read(length)

        return await _off_loop(path, ask)

    async def append(self, path: str, at: int, data: bytes) -> None:
        """Cut the file to `at` bytes and write `data` behind them."""
        await _off_loop(path, lambda: _append(path, at, data))

    async def replace(self, path: str, chunks: AsyncIterator[bytes]) -> None:
        """Write a file beside the old one and let it take its name; errors speak of the name it would have had."""
        path = await _off_loop(path, lambda: os.path.realpath(path))
        draft = f"{path}.writing"
        try:
            await _off_loop(path, lambda: _append(draft, 0, b""))
            written = 0
            async for batch in _batches(chunks):
                await _off_loop(path, lambda at=written, data=batch: _write(draft, at, data))  # type: ignore[misc]
                written += len(batch)
            await _off_loop(path, lambda: _rename(draft, path))
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise


async def _batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in fewer pieces: each costs a call, and under an event loop a thread."""
    held: list[bytes] = []
    size = 0
    async for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= BATCH:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def lines(path: str) -> Iterator[bytes]:
    """The lines of a file; one that is longer than any line of an export comes in pieces, and is refused as such."""
    from perdure.core.session.jsonl import MAX_LINE

    with translated(path), open(path, "rb") as file:
        while line := file.readline(MAX_LINE + 2):
            yield line


async def pieces(path: str) -> AsyncGenerator[bytes, None]:
    """The bytes of a file, a batch at a time. It stays open in between: another that takes its name changes nothing."""
    with await _off_loop(path, lambda: open(path, "rb")) as file:
        while batch := await _off_loop(path, lambda: file.read(BATCH)):
            yield batch


async def names(folder: str, *, make: bool = False) -> list[str]:
    """What the files in a folder are called; with `make`, the folder is made if it is missing."""

    def ask() -> list[str]:
        if make:
            os.makedirs(folder, exist_ok=True)
        return sorted(os.listdir(folder))

    return await _off_loop(folder, ask)


async def _off_loop(path: str, work: Callable[[], T]) -> T:
    """Do blocking work: on this thread when it may block, on another one when an event loop runs here."""
    with translated(path):
        if blocking():
            return work()
        import asyncio

        return await asyncio.to_thread(work)


def _append(path: str, at: int, data: bytes) -> None:
    fresh = not os.path.exists(path)
    with open(path, "ab") as file:
        if os.fstat(file.fileno()).st_size < at:
            raise BadExport(f"{path} was cut while it was being written; let nobody else write to it", path=path)
        try:
            file.truncate(at)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            # What a failed sync left in memory may never reach the disk: it must not be taken for written.
            with suppress(OSError):
                os.truncate(path, at)
            raise
    if fresh:
        sync_folder(path)


def _write(path: str, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def _rename(draft: str, path: str) -> None:
    with suppress(FileNotFoundError):
        os.chmod(draft, stat.S_IMODE(os.stat(path).st_mode))
    with open(draft, "r+b") as file:
        os.fsync(file.fileno())
    os.replace(draft, path)
    sync_folder(path)


def refused_own(services: "Services", target: str) -> str:
    """The path to write to, unless the open store lives on what is there."""
    from perdure.services.manifests import refuse_own

    opened = services.opened
    given = () if opened is None else (opened.path, opened.keys.key, opened.keys.vault)
    refuse_own(target, [os.fspath(place) for place in given if isinstance(place, str | os.PathLike)])
    return target
