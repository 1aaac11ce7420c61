"""Small files that must be written whole and durably, readable by their owner alone."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from perdure.core.errors import AlreadyExists, DiskFull, PerdureError, ReadOnly, WorldError

PRIVATE = 0o600
_OTHERS = 0o077


def readable_by_others(path: str) -> bool:
    """Whether anyone but the owner may read or write a file; never where files have no such modes."""
    return os.name == "posix" and bool(os.stat(path).st_mode & _OTHERS)


def refuse_existing(path: str) -> None:
    """Nothing is written over a file that is there."""
    if os.path.lexists(path):
        raise AlreadyExists(f"{path} is there already; choose another name, nothing was changed", path=path)


def write_new(path: str, content: bytes, unique: str) -> bool:
    """Make a file, whole and on the disk when this returns; False when somebody else has made it before."""
    made = _draft(path, content, unique)
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links: then the name is taken a moment after it was found free
        if os.path.exists(path):
            return False
        os.replace(made, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(made)
    sync_folder(path)
    return True


def rewrite(path: str, content: bytes, unique: str) -> None:
    """Put other content in a file's place: whoever reads it, at whatever moment, finds the one or the other."""
    made = _draft(path, content, unique)
    try:
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
    sync_folder(path)


def _draft(path: str, content: bytes, unique: str) -> str:
    made = f"{path}.{unique}.tmp"
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return made


def sync_folder(path: str) -> None:
    """Make a file's name as durable as its bytes."""
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Hold other processes of ours off a file that is read, changed and put back."""
    try:
        import fcntl
    except ImportError:  # where there are no such locks, two changes at the same moment are not kept apart
        yield
        return
    while True:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.exists(path) and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield
                return


@contextmanager
def spoken(path: str) -> Iterator[None]:
    """The system's errors as perdure's, with what to do next."""
    try:
        yield
    except OSError as error:
        raise _said(error, path) from error


def _said(error: OSError, path: str) -> PerdureError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return DiskFull(f"no space left for {path}; free some and try again", path=path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ReadOnly(f"{path} cannot be read or written; check its permissions", path=path)
        case _:
            return WorldError(f"{path}: {error.strerror}; look at the disk and the path", path=path)
