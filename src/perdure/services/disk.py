"""The disk of this machine: the system's errors as perdure's, and names as durable as the bytes behind them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from perdure.core.errors import DiskFull, NotFound, PerdureError, ReadOnly, WorldError
from perdure.sealing.files import sync_folder

__all__ = ["sync_folder", "translated"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR})
_NOWHERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


@contextmanager
def translated(path: str) -> Iterator[None]:
    """The system's errors as perdure's."""
    try:
        yield
    except OSError as error:
        raise _translate(error, path) from error


def _translate(error: OSError, path: str) -> PerdureError:
    if error.errno in _FULL:
        return DiskFull(f"no space left for {path}; free some and try again", path=path)
    if error.errno in _FORBIDDEN:
        return ReadOnly(f"{path} cannot be opened or written ({error.strerror}); check its permissions", path=path)
    if error.errno in _NOWHERE:
        return NotFound(f"{path} or its folder does not exist; check the path", path=path)
    return WorldError(f"{path}: {error.strerror or error}; check the disk and try again", path=path)
