"""Opening the file: which SQLite, whose file, which format; and what the engine's errors mean to perdure.

Invariants: SQLite is newer than the WAL-reset corruption bug (R2); every connection runs with synchronous=FULL, so
a commit returns only after its fsync (R1); a connection never crosses a fork.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import apsw

from perdure.core.errors import (
    Damaged,
    DiskFull,
    NewerStore,
    NotAStore,
    OldSqlite,
    PerdureError,
    ReadOnly,
    StoreBusy,
    StoreClosed,
    StorePoisoned,
)
from perdure.ports.seal import CLEAR
from perdure.stores.sqlite import sql

APPLICATION_ID: Final = 0x70657264
OLDEST_SQLITE: Final = (3, 51, 3)
PAGE_SIZE: Final = 16384
BUSY_SECONDS: Final = 60
FIRST_WAIT: Final = 0.0001
LONGEST_WAIT: Final = 0.005
MAX_TRIES: Final = int(BUSY_SECONDS / LONGEST_WAIT)
CACHE_KIB: Final = 16_384
READ_CACHE_KIB: Final = 4_096
"""For each connection that only reads, of which there are several."""
WAL_PAGES: Final = 256
"""Pages of the log at which it is folded into the file and begun anew: 4 MiB. As long as the log still grows, a commit
takes a third longer than one that writes over what was there before.
"""
FORMAT: Final = sql.migrations()[-1][0]
SEAL: Final = "seal"
"""The setting that holds the mark of how the store is sealed."""

Joins = Callable[[str | None], str]
"""What a seal does with a store's mark, see `perdure.ports.seal.Seal.join`."""

_CLOSED_GATE: Final = Lock()
_CLOSED_GATE.acquire()
_FSYNC_FAILED: Final = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})


def check_sqlite(version: str | None = None) -> None:
    """Refuse a SQLite in which concurrent checkpoints can lose committed data."""
    found = tuple(int(part) for part in (version or apsw.sqlite_lib_version()).split("."))
    if found < OLDEST_SQLITE:
        raise OldSqlite(
            f"SQLite {'.'.join(map(str, found))} can lose committed data; install apsw 3.51.3 or newer from a wheel",
            found=found,
            needed=OLDEST_SQLITE,
        )


def patience(tries: int) -> bool:
    """Wait for another process to let go of the file: a commit takes a fraction of a millisecond, so look again soon,
    less often the longer it takes. False when it has taken too long.
    """
    if tries >= MAX_TRIES:
        return False
    _CLOSED_GATE.acquire(timeout=min(FIRST_WAIT * (1 + tries), LONGEST_WAIT))
    return True


def connect(path: str, *, writable: bool, reads: bool = True) -> apsw.Connection:
    """A connection with the settings every one of ours has. The file must exist unless writable. One that `reads` no
    rows is spared looking at the tables, which takes longer than all the rest.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE if writable else apsw.SQLITE_OPEN_READONLY
    name = path
    if not writable and _sealed_off(path):
        escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        name, flags = f"file:{escaped}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_NOMUTEX, statementcachesize=200)
    connection.set_busy_handler(patience)
    if reads:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB if writable else READ_CACHE_KIB}")
    if writable:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # what a statement may have to undo never leaves the process
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = 1")
            connection.execute("PRAGMA checkpoint_fullfsync = 1")
    return connection


def _sealed_off(path: str) -> bool:
    """Whether a store lies where nothing can be written and was closed in order: then it may be read as it is."""
    return not os.access(os.path.dirname(path), os.W_OK) and not os.path.exists(path + "-wal")


def prepare(path: str, join: Joins = CLEAR.join) -> apsw.Connection:
    """Make the file a perdure store of today's format, or say why it cannot be one; the connection that did it.

    Safe to race with others who open the same path. A new store is born with its mark, an old one has to show it.
    """
    check_sqlite()
    refuse_folder(path)
    fresh = not os.path.exists(path)
    if fresh and not os.path.isdir(os.path.dirname(path)):
        raise NotAStore(f"the folder of {path} does not exist; create it first", path=path)
    with translated(path):
        connection = connect(path, writable=True)
        try:
            _adopt(connection, path)
            _migrate(connection, path, join)
        except BaseException:
            connection.close()
            raise
    if fresh:
        sync_folder(path)
    return connection


def check(path: str, join: Joins = CLEAR.join) -> None:
    """Refuse a file that is not a store of today's format, or sealed otherwise, without writing to it."""
    check_sqlite()
    refuse_folder(path)
    if not os.path.exists(path):
        raise NotAStore(f"{path} does not exist; open it writable once to create it", path=path)
    with translated(path):
        connection = connect(path, writable=False)
        try:
            if _pragma(connection, "application_id") != APPLICATION_ID:
                raise not_ours(path)
            refuse_newer(connection, path)
            if (found := _pragma(connection, "user_version")) < FORMAT:
                raise ReadOnly(
                    f"{path} has format {found}, this perdure reads {FORMAT}; bring it there with perdure upgrade "
                    f"--store {path}, which backs it up first, or by opening it writable once",
                    path=path,
                    found=found,
                )
            join(mark_in(connection))
        finally:
            connection.close()


def absent(path: str) -> bool:
    """Whether a store would be made at this path."""
    if os.path.exists(path):
        return os.path.isfile(path) and os.path.getsize(path) == 0
    return os.path.isdir(os.path.dirname(os.path.abspath(path)))


def mark(path: str) -> str | None:
    """How the store at a path is sealed: its mark, "" when it is not, None when there is no store yet.

    A file that is no store at all counts as not sealed: whoever opens it will be told what it is. One that cannot be
    looked into now, as on a full disk, is an error: nobody knows what it is.
    """
    if not os.path.exists(path):
        return None if os.path.isdir(os.path.dirname(path)) else ""
    if not os.path.isfile(path):
        return ""
    if os.path.getsize(path) == 0:
        return None
    with translated(path):
        connection = connect(path, writable=False)
        try:
            if _pragma(connection, "user_version"):
                return mark_in(connection)
            blank = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            return None if blank and not _pragma(connection, "application_id") else ""
        except apsw.NotADBError:
            return ""
        finally:
            connection.close()


def mark_in(connection: sql.Asks) -> str:
    """The mark of a store; one from before there were settings is not sealed."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'setting'").fetchone():
        return ""
    found = connection.execute(sql.QUERIES["setting"], (SEAL,)).fetchone()
    return "" if found is None else str(found[0])


def refuse_folder(path: str) -> None:
    """A folder is no store, nor a pipe, and the engine's word for it would be misleading."""
    if os.path.isdir(path):
        raise NotAStore(f"{path} is a folder; give the path of a file in it", path=path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise NotAStore(f"{path} is not a file; give the path of one", path=path)


def _adopt(connection: apsw.Connection, path: str) -> None:
    """Mark an empty file as ours; refuse one that belongs to something else before changing a byte of it."""
    found = _pragma(connection, "application_id")
    if found == APPLICATION_ID:
        return
    if found or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise not_ours(path)
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")  # it was counted in pages of another size
    connection.execute("PRAGMA journal_mode = WAL")


def _migrate(connection: apsw.Connection, path: str, join: Joins) -> None:
    refuse_newer(connection, path)
    if _pragma(connection, "user_version"):
        join(mark_in(connection))
    if _pragma(connection, "user_version") == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _pragma(connection, "user_version")
        for number, text in sql.migrations():
            if number > found:
                connection.execute(text)
        if found:
            join(mark_in(connection))
        else:
            connection.execute(sql.QUERIES["save_setting"], (SEAL, join(None)))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_newer(connection: sql.Asks, path: str) -> None:
    """Refuse a file of a format to come, without writing to it."""
    found = _pragma(connection, "user_version")
    if found > FORMAT:
        raise NewerStore(
            f"{path} has format {found}, this perdure reads up to {FORMAT}; upgrade perdure to open it",
            path=path,
            found=found,
            supported=FORMAT,
        )


def not_ours(path: str) -> NotAStore:
    """The refusal for a file that is something else."""
    return NotAStore(f"{path} is not a perdure store; choose another path, nothing was changed", path=path)


def _pragma(connection: sql.Asks, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def sync_folder(path: str) -> None:
    """Make a new file's name as durable as its bytes."""
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """The engine's errors as perdure's, with what to do next."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def _left_beside(path: str) -> str:
    """Which file that a read-only opening left beside a store is in the way of writing, and the remedy."""
    for beside in (f"{path}-shm", f"{path}-wal"):
        if os.path.exists(beside) and os.access(path, os.W_OK) and not os.access(beside, os.W_OK):
            return f"{beside} was left read-only beside {path}, which cannot be written so; run: chmod 600 {beside}"
    return ""


def translate(error: apsw.Error, path: str) -> PerdureError:
    """What an engine error means to the caller."""
    code = getattr(error, "extendedresult", 0)
    match error:
        case apsw.FullError():
            return DiskFull(f"no space left for {path}; free some and try again, reads still work", path=path)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"{path} was held by another process for {BUSY_SECONDS} s; try again", path=path)
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnly(_left_beside(path) or f"{path} cannot be written; check its permissions", path=path)
        case apsw.CantOpenError():
            said = _left_beside(path) or f"{path} cannot be opened; check the path and its permissions"
            return ReadOnly(said, path=path)
        case apsw.NotADBError():
            return not_ours(path)
        case apsw.CorruptError():
            return Damaged(f"{path} is damaged: {error}; run perdure doctor, restore a backup", path=path)
        case apsw.ConnectionClosedError():
            return StoreClosed("the store is closed; open it again")
        case apsw.IOError() if code == apsw.SQLITE_IOERR_SHMSIZE:  # the log's index is made anew at every first opening
            return DiskFull(f"no space left beside {path}; free some and try again", path=path)
        case apsw.IOError() if code in _FSYNC_FAILED:
            return StorePoisoned(f"the disk refused to sync {path}; reopen the store before writing", path=path)
        case apsw.IOError():
            return StorePoisoned(f"the disk failed under {path}: {error}; reopen the store", path=path, code=code)
        case _:
            return Damaged(f"{path}: {error}; run perdure doctor", path=path, code=code)
