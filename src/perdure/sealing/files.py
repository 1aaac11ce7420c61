"""Small files that must be written whole and durably, readable by their owner alone."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from perdure.core.errors import AlreadyExists, DiskFull, Invalid, PerdureError, ReadOnly, WorldError

PRIVATE: Final = 0o600
_OTHERS: Final = 0o077
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_VAULT: Final = (b"SQLite format 3\0", slice(68, 72), b"perk")
"""How the file of a vault begins, and what stands where in it: its kind, as SQLite keeps it."""
_KEYS: Final = (b"{", b'"perdure.keys"')
_BEGINNING: Final = 100
_DRAFT: Final = re.compile(r"[0-9a-f]{16}\.tmp")


def must_be_private(path: str, holds: str) -> None:
    """Refuse what is no file, and a file that anyone but its owner may read or write. Nothing there is no harm."""
    with suppress(FileNotFoundError):
        _check_private(os.stat(path), path, holds)


def read_private(path: str, holds: str, limit: int) -> bytes:
    """The beginning of a file that only its owner may read. What is no file is refused at once, not waited for."""
    with open(os.open(path, os.O_RDONLY | _AT_ONCE), "rb") as file:
        _check_private(os.fstat(file.fileno()), path, holds)
        return file.read(limit)


def _check_private(found: os.stat_result, path: str, holds: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{path} is not a file; give the path of one", path=path)
    if os.name == "posix" and found.st_mode & _OTHERS:
        raise WorldError(f"{path} holds {holds} and may be read by others; run: chmod 600 {path}", path=path)


def holds_keys(path: str) -> bool:
    """Whether a file begins as a vault or a file of master keys does."""
    try:
        with open(os.open(path, os.O_RDONLY | _AT_ONCE), "rb") as file:
            found = file.read(_BEGINNING)
    except OSError:
        return False
    begins, where, kind = _VAULT
    if found.startswith(begins):
        return found[where] == kind
    return found.startswith(_KEYS[0]) and _KEYS[1] in found


def refuse_existing(path: str) -> None:
    """Nothing is written over a file that is there."""
    if os.path.lexists(path):
        raise AlreadyExists(f"{path} is there already; choose another name, nothing was changed", path=path)


def left_beside(path: str) -> str:
    """Which file that an engine left beside a database cannot be written although the database can, and the remedy."""
    for beside in (f"{path}-shm", f"{path}-wal"):
        if os.path.exists(beside) and os.access(path, os.W_OK) and not os.access(beside, os.W_OK):
            return f"{beside} was left read-only beside {path}, which cannot be written so; run: chmod 600 {beside}"
    return ""


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
    """Put other content in a file's place: whoever reads it, at whatever moment, finds the one or the other.

    To be called while the file is held `alone`. Drafts of processes that died go as well: they may hold what is to be
    forgotten.
    """
    _drop_drafts(path)  # before the replacement, which lets the next one in
    made = _draft(path, content, unique)
    with _gone_unless_done(made):
        os.replace(made, path)
    sync_folder(path)


def _drop_drafts(path: str) -> None:
    folder, name = os.path.split(path)
    for other in os.listdir(folder):
        if other.startswith(f"{name}.") and _DRAFT.fullmatch(other, len(name) + 1):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, other))


def _draft(path: str, content: bytes, unique: str) -> str:
    made = f"{path}.{unique}.tmp"
    draft = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with _gone_unless_done(made), open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return made


@contextmanager
def _gone_unless_done(made: str) -> Iterator[None]:
    """Whatever comes in between, an interrupt too, leaves no draft."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise


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
