"""Connections: where the server is, what every session with it is told, and what its errors mean to perdure.

psycopg's plain connections serve both worlds: a blocking caller uses one on its own thread, a task waits for one of our
threads. An async connection would cost three times the CPU and serve only tasks. A connection never crosses a fork.

Invariants: a commit is answered after its fsync, whatever the server's default (R1); no message shows a password; the
whole address is used for every connection, so that libpq finds the host that can be written to after a failover.
"""

import logging
import os
import re
from threading import Lock
from typing import Any, Final
from weakref import WeakSet

import psycopg
from psycopg import adapt, conninfo, pq
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from perdure.core.errors import (
    Damaged,
    DiskFull,
    Invalid,
    NotAStore,
    PerdureError,
    ReadOnly,
    StoreBusy,
    StoreClosed,
    StorePoisoned,
    WorldError,
)
from perdure.stores.postgres.sql import QUERIES as Q

Connection = psycopg.Connection[TupleRow]
# What psycopg logs of a lost connection the store deals with: it goes to whoever configured logging, not to stderr.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

OLDEST_SERVER: Final = 140_000
HOLD_SECONDS: Final = 60
"""How long another process may hold what we wait for, and how long a transaction of ours may stand idle."""
CONNECT_SECONDS: Final = 5
_DEFAULTS: Final = {
    "application_name": "perdure",
    "connect_timeout": str(CONNECT_SECONDS),
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_GONE: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
"""Shut down, crashed, starting, timed out: the server has ended the session, or not yet begun one."""
_AGAIN: Final = frozenset({"40001", "40P01"})
_UNPREPARED: Final = frozenset({"26000", "42P05"})
_OF_ALL: Final = (
    psycopg.OperationalError,  # also full disks and locks that are held for too long
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
)
_UNKNOWN_OPTION: Final = re.compile(r'invalid (?:URI query parameter|connection option):? "([\w.-]{1,64})"')
_NO_DATABASE: Final = re.compile('database "(.*?)" does not exist')
_STARTING: Final = ("starting up", "not yet accepting connections", "in recovery mode")
_HOPELESS: Final = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password supplied")


class _Raw(adapt.Loader):
    """A uuid as its 16 bytes."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> bytes:
        return bytes(data)


def _adapters() -> adapt.AdaptersMap:
    found = adapt.AdaptersMap(psycopg.adapters)
    found.register_dumper(int, Int8Dumper)
    found.register_dumper(int, Int8BinaryDumper)  # one type for every number: one prepared statement for every query
    found.register_loader("uuid", _Raw)
    return found


class Address:
    """Where a store is: a URL as libpq reads it, with what we ask for unless it says otherwise."""

    def __init__(self, dsn: str, *, read_only: bool) -> None:
        try:
            given = {name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items()}
        except UnicodeEncodeError:
            raise Invalid("the address of a PostgreSQL database is UTF-8; write other bytes as %XX") from None
        except psycopg.ProgrammingError as wrong:
            if (unknown := _UNKNOWN_OPTION.search(str(wrong))) is not None:
                known = "see the parameters of a connection in PostgreSQL's manual"
                raise Invalid(f"{unknown[1]} is not an option of PostgreSQL's; {known}", option=unknown[1]) from wrong
            raise Invalid("this is not an address of a PostgreSQL database; write postgresql://host/name") from wrong
        self.shown = _shown(given)
        wanted = {**_DEFAULTS, "target_session_attrs": "any" if read_only else "read-write"}
        self.full = conninfo.make_conninfo(dsn, **{**wanted, **given, "client_encoding": "utf8"})


def _shown(given: dict[str, str]) -> str:
    """The address without its secrets, for messages."""
    hosts = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST", "localhost")
    port = f":{given['port']}" if "port" in given else ""
    return f"postgresql://{hosts}{port}/{given.get('dbname', '')}"


class Connections:
    """Makes connections, and remembers the open ones so that a forked child can let go of them. It does not keep them:
    one that an interrupt took from whoever asked for it goes by itself.
    """

    def __init__(self, address: Address, *, read_only: bool) -> None:
        self.address = address
        self._read_only = read_only
        self._adapters = _adapters()
        self._open: WeakSet[Connection] = WeakSet()
        self._lock = Lock()
        self.prepares = True
        """Whether statements are prepared; not behind a pooler that hands each transaction to another session."""

    def connect(self) -> Connection:
        """A new connection, told how to behave."""
        connection = psycopg.connect(
            self.address.full,
            autocommit=True,
            context=self._adapters,
            cursor_factory=psycopg.RawCursor,
            prepare_threshold=5 if self.prepares else None,
        )
        try:
            with self._lock:
                self._open.add(connection)
            self._settle_in(connection)
        except BaseException:
            self.drop(connection)
            raise
        return connection

    def _settle_in(self, connection: Connection) -> None:
        encoding, version, *_ = ask(connection, Q["settle_in"], (f"{HOLD_SECONDS}s", self._read_only)).fetchone()
        if version < OLDEST_SERVER:
            raise NotAStore(
                f"{self.address.shown} runs PostgreSQL {version // 10_000}; perdure needs {OLDEST_SERVER // 10_000} or "
                "newer",
                found=version,
            )
        if encoding != "UTF8":
            raise NotAStore(
                f"{self.address.shown} keeps text as {encoding}; create a database with ENCODING 'UTF8'",
                encoding=encoding,
            )

    def drop(self, connection: Connection) -> None:
        """Close a connection, in whatever state it is."""
        connection.close()
        with self._lock:
            self._open.discard(connection)

    def leave_behind(self) -> None:
        """In a forked child: the parent goes on using these, so nothing is sent over them, not even a farewell. Only
        the child's share of each socket goes; the objects stay, since another thread may have been in the midst of
        using one.
        """
        nowhere = os.open(os.devnull, os.O_RDWR)
        for connection in self._open:
            if not connection.closed:
                os.dup2(nowhere, connection.pgconn.socket, inheritable=False)
            _LEFT_BEHIND.append(connection)
        os.close(nowhere)
        self._open = WeakSet()
        self._lock = Lock()


_LEFT_BEHIND: Final[list[Connection]] = []


def ask(connection: Connection, statement: str, values: Any = (), *, prepare: bool | None = None) -> Any:
    """Run a statement; its cursor, with values in PostgreSQL's binary form."""
    return connection.execute(statement, values, prepare=prepare, binary=True)


def begin(connection: Connection) -> None:
    """Begin a transaction in which every statement sees what was committed before it: also what was committed while
    the lock was waited for.
    """
    say(connection, "BEGIN ISOLATION LEVEL READ COMMITTED")


def say(connection: Connection, command: str) -> None:
    """Run a command about transactions, which is not worth preparing."""
    connection.execute(command, prepare=False)


def is_lost(error: psycopg.Error, connection: Connection | None) -> bool:
    """Whether the session is over, so that another connection may do better."""
    if connection is None or connection.closed or connection.broken:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return True  # not the server's word but the driver's, which lost its thread: an interrupt may do that
    return error.sqlstate in _GONE or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same may well succeed at once: somebody else was in the way."""
    return error.sqlstate in _AGAIN or error.sqlstate in _UNPREPARED


def concerns_one(error: psycopg.Error) -> bool:
    """Whether an error may be one operation's alone: the rest of its batch may do without it."""
    return not isinstance(error, _OF_ALL)


def forbids_preparing(error: psycopg.Error) -> bool:
    """Whether a pooler has mixed up prepared statements."""
    return error.sqlstate in _UNPREPARED


def is_starting(error: psycopg.Error) -> bool:
    """Whether the server is there, and not ready yet: it starts, or recovers from a crash."""
    return error.sqlstate == "57P03" or any(word in str(error) for word in _STARTING)


def is_hopeless(error: psycopg.Error) -> bool:
    """Whether a connection was refused for a reason that waiting does not change."""
    return any(reason in str(error) for reason in _HOPELESS)


def translate(error: psycopg.Error, shown: str) -> PerdureError:
    """What an engine error means to the caller."""
    code = error.sqlstate or ""
    reason = (error.diag.message_primary or str(error)).strip()
    match error:
        case psycopg.errors.DiskFull():
            return DiskFull(f"no space left for {shown}; free some and try again, reads still work", store=shown)
        case psycopg.errors.ReadOnlySqlTransaction():
            return ReadOnly(f"{shown} is a standby or read-only; give the address of the primary", store=shown)
        case psycopg.errors.InsufficientPrivilege():
            return ReadOnly(f"{shown} does not allow this: {reason}; grant it to this role", store=shown)
        case psycopg.errors.LockNotAvailable() | psycopg.errors.QueryCanceled() | psycopg.errors.DeadlockDetected():
            return StoreBusy(f"{shown} was held by another process for too long: {reason}; try again", store=shown)
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedFunction() | psycopg.errors.InvalidSchemaName():
            return NotAStore(f"{shown} has no perdure store any more: {reason}; open it anew", store=shown)
        case psycopg.errors.DataCorrupted() | psycopg.errors.IndexCorrupted():
            return Damaged(f"{shown} is damaged: {reason}; run perdure doctor, restore a backup", store=shown)
        case psycopg.errors.IoError():
            return StorePoisoned(f"the disk failed under {shown}: {reason}; look at the server", store=shown)
        case psycopg.InterfaceError():
            return StoreClosed("the store is closed; open it again")
        case psycopg.OperationalError():
            return unreachable(shown, reason)
        case _:
            return Damaged(f"{shown}: {reason}; run perdure doctor", store=shown, code=code)


def unreachable(shown: str, reason: str) -> PerdureError:
    """The refusal after too many tries to connect."""
    reason = " ".join(reason.split())
    if "is read-only" in reason or "in hot standby" in reason:
        return ReadOnly(f"{shown} can only be read: {reason}; give the address of the primary", store=shown)
    if (absent := _NO_DATABASE.search(reason)) is not None:
        name = absent[1]
        return NotAStore(f'the database "{name}" does not exist at {shown}; create it: createdb {name}', store=shown)
    if any(word in reason for word in _HOPELESS):
        return WorldError(f"{shown} does not let this role in: {reason}; check user and password", store=shown)
    return StoreBusy(f"{shown} cannot be reached: {reason}; start it or check the address, and try again", store=shown)
