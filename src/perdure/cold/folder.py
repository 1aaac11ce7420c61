"""Cold storage in a folder of this machine. Invariant: when `put` returns, the bytes and the name are on disk."""

import errno
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from perdure.cold.names import checked, missing
from perdure.core.errors import ColdUnreachable, DiskFull, PerdureError, ReadOnly
from perdure.ports.cold import Kept
from perdure.waiting import aside

T = TypeVar("T")
PIECE: Final = 1 << 20
DRAFT: Final = ".writing"
FORGOTTEN: Final = 3600
"""Seconds after which a draft that nobody has written to belongs to a process that died."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class FolderCold:
    """`perdure.ports.cold.Cold` in a folder, which is made when something is first put there."""

    def __init__(self, folder: str) -> None:
        self.place = os.path.abspath(folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.place, *checked(name).split("/"))

    async def _do(self, work: Callable[[], T]) -> T:
        with self._translated():
            return await aside(work)

    async def put(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Write a draft beside the object and let it take the name."""
        path = self._path(name)
        try:
            draft = await self._do(lambda: _begin(path))
        except FileNotFoundError as error:  # a place where no folder can be made
            raise self._translate(error) from error
        written = 0
        try:
            async for chunk in chunks:
                await self._do(lambda data=chunk: draft.write(data))  # type: ignore[misc]
                written += len(chunk)
            try:
                await self._do(lambda: _finish(draft, path))
            except FileNotFoundError as error:  # the folder was taken away meanwhile
                raise self._translate(error) from error
        except BaseException:
            draft.close()
            with suppress(OSError):
                os.unlink(draft.name)
            raise
        return written

    async def get(self, name: str) -> AsyncIterator[bytes]:
        """Read the file in pieces."""
        path = self._path(name)
        try:
            file = await self._do(lambda: open(path, "rb"))  # noqa: SIM115 - closed below, when the reader is done
        except FileNotFoundError:
            raise missing(name, self.place) from None
        with file:
            while piece := await self._do(lambda: file.read(PIECE)):
                yield piece

    async def stat(self, name: str) -> Kept | None:
        """The size of the file."""
        path = self._path(name)
        try:
            return Kept(name, (await self._do(lambda: os.stat(path))).st_size)
        except FileNotFoundError:
            return None

    async def delete(self, name: str) -> bool:
        """Remove the file, and the folders it leaves empty."""
        path = self._path(name)
        return await self._do(lambda: _remove(path, self.place))

    async def reach(self) -> None:
        """The folder has to be there."""
        if not await self._do(lambda: os.path.isdir(self.place)):
            raise ColdUnreachable(f"{self.place} is not there; mount it, or name the right place", place=self.place)

    async def list(self, folder: str = "") -> AsyncIterator[Kept]:
        """Walk the folder."""
        top = self._path(folder) if folder else self.place
        for kept in await self._do(lambda: sorted(_walk(top, self.place))):
            yield Kept(*kept)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The system's errors as perdure's; a missing file is for the caller to judge."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._translate(error) from error

    def _translate(self, error: OSError) -> PerdureError:
        if error.errno in _FULL:
            return DiskFull(f"no space left in {self.place}; free some and try again", place=self.place)
        if error.errno in _FORBIDDEN:
            return ReadOnly(f"{self.place} cannot be written ({error.strerror}); check its permissions")
        return ColdUnreachable(f"{self.place}: {error}; check the disk and try again", place=self.place)


def _begin(path: str) -> Any:
    """A draft for an object, in its folder; drafts of processes that died are removed."""
    folder, name = os.path.split(path)
    draft = None
    while draft is None:
        _make(folder)
        with suppress(FileNotFoundError):  # somebody found the folder empty and removed it
            draft = tempfile.NamedTemporaryFile(  # noqa: SIM115 - whoever has begun it ends it
                prefix=f".{name}.", suffix=DRAFT, dir=folder, delete=False
            )
    now = os.fstat(draft.fileno()).st_mtime  # by the disk's own clock, as the times of the others
    for other in os.scandir(folder):
        if other.name.startswith(f".{name}.") and other.name.endswith(DRAFT):
            with suppress(OSError):
                if now - other.stat().st_mtime > FORGOTTEN:
                    os.unlink(other.path)
    return draft


def _finish(draft: Any, path: str) -> None:
    draft.flush()
    os.fsync(draft.fileno())
    draft.close()
    os.replace(draft.name, path)
    _sync(os.path.dirname(path))


def _make(folder: str) -> None:
    """Make a folder and those above it, their names on disk as well."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    _make(above)
    with suppress(FileExistsError):
        os.mkdir(folder)
    _sync(above)


def _sync(folder: str) -> None:
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(path: str, top: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    folder = os.path.dirname(path)
    _sync(folder)
    with suppress(OSError):  # another object is in it, or is about to be
        while folder != top:
            os.rmdir(folder)
            folder = os.path.dirname(folder)
    return True


def _walk(folder: str, top: str) -> Iterator[tuple[str, int]]:
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.startswith("."):
                path = os.path.join(base, name)
                with suppress(FileNotFoundError):
                    yield os.path.relpath(path, top).replace(os.sep, "/"), os.stat(path).st_size
