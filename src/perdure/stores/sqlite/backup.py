"""Copying a store file while it is in use, looking into a copy, and its rows in the portable form.

Invariant: a copy is of one moment. The connection that is copied from holds a read transaction from the first page to
the last, so writers neither wait nor make the copy start over.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import apsw

from perdure.core.errors import AlreadyExists, Damaged, NewerStore, NotAStore, WorldError
from perdure.ports.backup import Facts, Progress, Rows, Tables
from perdure.stores.sqlite import connection as connections
from perdure.stores.sqlite.connection import APPLICATION_ID, FORMAT, not_ours, sync_folder, translated
from perdure.stores.sqlite.sql import QUERIES, Asks
from perdure.stores.sqlite.streams import TABLES as STREAMS
from perdure.stores.sqlite.streams import there as has_tables

_BLOBS: Final = frozenset({"blob", "blob_chunk", "blob_use"})
STEP: Final = 128
"""Pages copied at a time: 2 MB."""
_UNREAD: Final = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ})
BATCH: Final = 1 << 18
"""Bytes of rows handed out at a time."""
COLD_SINCE: Final = 2
_WORDS: Final = "words"
_BESIDE: Final = ("-wal", "-shm", "-journal")


class SqliteEngine:
    """`perdure.ports.backup.Engine` and `Copies` for a file."""

    latest = FORMAT

    def __init__(self, path: str) -> None:
        self.place = os.path.abspath(path)

    @contextmanager
    def _looking(self, *, as_it_is: bool = False) -> Iterator[Any]:
        """A connection that sees one moment of the file; `as_it_is` leaves no trace beside it."""
        connections.check_sqlite()
        connections.refuse_folder(self.place)
        if not os.path.exists(self.place):
            raise NotAStore(f"there is no store at {self.place}; check the path", path=self.place)
        with translated(self.place):
            connection = _immutable(self.place) if as_it_is else connections.connect(self.place, writable=False)
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()

    def facts(self) -> Facts:
        """What the store holds."""
        with self._looking() as connection:
            return _facts(connection, self.place)

    def tenants(self) -> tuple[str, ...]:
        """Who has sessions in it."""
        with self._looking() as connection:
            found = connection.execute("SELECT DISTINCT tenant FROM session ORDER BY tenant").fetchall()
            return tuple(columns[0] for columns in found)

    def copy(self, target: str, progress: Progress | None = None) -> Facts:
        """Copy the pages of one moment into a new file."""
        for name in (target, *(target + suffix for suffix in _BESIDE)):
            with suppress(FileNotFoundError):
                os.unlink(name)
        with self._looking() as source:
            facts = _facts(source, self.place)
            with translated(target), _writing(target):
                copy = apsw.Connection(target)
                try:
                    copy.execute("PRAGMA journal_mode = OFF")  # a copy that is cut short is made anew, not recovered
                    copy.execute("PRAGMA synchronous = OFF")  # synced below, once
                    _copy(source, copy, progress)
                finally:
                    copy.close()
                if _has_streams(source):
                    _drop_streams(target)
        _sync(target)
        return facts

    def examine(self) -> Facts:
        """Have SQLite look at every page, without a trace beside the file."""
        with self._looking(as_it_is=True) as connection:
            facts = _facts(connection, self.place)
            page_size = _one(connection, "PRAGMA page_size")
            said = _one(connection, "PRAGMA quick_check")
            if said != "ok" or os.path.getsize(self.place) != page_size * _one(connection, "PRAGMA page_count"):
                raise Damaged(f"{self.place} is damaged: {said}; take another copy", path=self.place)
            return facts

    def release(self) -> bool:
        """Open and close it: whoever closes last folds the log into the file and removes it."""
        if os.path.exists(self.place):
            with translated(self.place):
                connection = connections.connect(self.place, writable=True)
                try:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    connection.close()
        return not os.path.exists(self.place + "-wal")

    # ── the portable form ──

    @contextmanager
    def dump(self) -> Iterator["SqliteDump"]:
        """Its rows as of one moment."""
        with self._looking() as connection:
            yield SqliteDump(connection, _facts(connection, self.place))

    def load(self, facts: Facts, tables: Tables, rows: Iterable[Rows]) -> None:
        """A new file with these rows."""
        if os.path.exists(self.place):
            raise AlreadyExists(f"{self.place} exists already; load into a new file", path=self.place)
        if facts.format > FORMAT:
            raise NewerStore(
                f"the backup has format {facts.format}, this perdure reads up to {FORMAT}; upgrade perdure",
                found=facts.format,
                supported=FORMAT,
            )
        try:
            self._load(tables, rows)
        except BaseException:
            for name in (self.place, *(self.place + suffix for suffix in _BESIDE)):
                with suppress(FileNotFoundError):
                    os.unlink(name)
            raise
        _sync(self.place)

    def _load(self, tables: Tables, rows: Iterable[Rows]) -> None:
        with translated(self.place):
            connection = connections.prepare(self.place)
            try:
                statements = {table: _insert(connection, table, columns) for table, columns in tables.items()}
                connection.execute("BEGIN IMMEDIATE")
                for table, batch in rows:
                    connection.executemany(statements[table], batch)
                connection.execute("COMMIT")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()


class SqliteDump:
    """All rows of a connection's transaction, but for what can be made again, the index of words, and streams of turns
    that are running just then.
    """

    def __init__(self, connection: Any, facts: Facts) -> None:
        self._connection = connection
        self.facts = facts
        self.tables: Tables = {
            table: _columns(connection, table) for table in _ordinary(connection) if table not in STREAMS
        }
        self.total = sum(_one(connection, f'SELECT count(*) FROM "{table}"') for table in self.tables)  # noqa: S608

    def rows(self) -> Iterator[Rows]:
        """Table by table."""
        for table, columns in self.tables.items():
            names = ", ".join(f'"{column}"' for column in columns)
            batch: list[tuple[Any, ...]] = []
            size = 0
            for row in self._connection.execute(f'SELECT {names} FROM "{table}"'):  # noqa: S608
                if table == "cursor" and row[0] == _WORDS:
                    continue
                batch.append(row)
                size += sum(len(value) for value in row if isinstance(value, str | bytes)) + 8 * len(row)
                if size >= BATCH:
                    yield table, batch
                    batch, size = [], 0
            if batch:
                yield table, batch


def _immutable(path: str) -> apsw.Connection:
    """A connection that takes the file as it is: no locks, no log, nothing beside it."""
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
    return apsw.Connection(f"file:{escaped}?immutable=1", flags=flags)


def _copy(source: apsw.Connection, copy: apsw.Connection, progress: Progress | None) -> None:
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(STEP)
            if progress is not None:
                progress(backup.page_count - backup.remaining, backup.page_count)


def _has_streams(connection: Asks) -> bool:
    asked = [f'SELECT 1 FROM "{table}" LIMIT 1' for table in STREAMS if has_tables(connection)]  # noqa: S608
    return any(connection.execute(statement).fetchone() for statement in asked)


def _drop_streams(target: str) -> None:
    """Take the streams of turns that were running out of a copy: they tell of a moment, not of a session."""
    copy = apsw.Connection(target)
    try:
        copy.execute("PRAGMA locking_mode = EXCLUSIVE")  # no memory shared beside the file, which not every disk offers
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("PRAGMA secure_delete = ON")
        for table in STREAMS:
            copy.execute(f'DELETE FROM "{table}"')  # noqa: S608
    finally:
        copy.close()


@contextmanager
def _writing(target: str) -> Iterator[None]:
    """A target that takes nothing more is no fault of the store that is copied."""
    try:
        yield
    except apsw.IOError as error:
        code = getattr(error, "extendedresult", 0)
        if code not in _UNREAD:
            raise WorldError(
                f"{target} cannot be written: error {code} of SQLite; look at its disk and at the limits of "
                "this process, the store is as it was",
                path=target,
            ) from error
        raise


def _facts(connection: Any, path: str) -> Facts:
    if _one(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise not_ours(path)
    connections.refuse_newer(connection, path)
    found = _one(connection, "PRAGMA user_version")
    return Facts(
        engine="sqlite",
        format=found,
        position=_one(connection, "SELECT coalesce(max(position), 0) FROM record"),
        sessions=_one(connection, "SELECT count(*) FROM session"),
        records=_one(connection, "SELECT count(*) FROM record WHERE session <> 0"),
        cold=_one(connection, "SELECT count(cold) FROM session") if found >= COLD_SINCE else 0,
        sealed=bool(connections.mark_in(connection)),
    )


def _ordinary(connection: Any) -> list[str]:
    """The tables that hold rows of ours; not SQLite's own, and none of an index."""
    found = connection.execute("PRAGMA table_list").fetchall()
    return sorted(
        row[1] for row in found if row[2] == "table" and row[0] == "main" and not row[1].startswith("sqlite_")
    )


def _columns(connection: Any, table: str) -> tuple[str, ...]:
    return tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{table}")'))


def _insert(connection: Any, table: str, columns: tuple[str, ...]) -> str:
    """The statement that takes in rows of a table, if this format has the table and the columns."""
    if table in _BLOBS:
        connection.execute(QUERIES["blob_tables"])  # they are made when they are needed
    if table not in _ordinary(connection) or set(columns) - set(_columns(connection, table)):
        raise Damaged(f"the backup has a table {table!r:.40} that this format does not know; take another copy")
    names = ", ".join(f'"{column}"' for column in columns)
    marks = ", ".join("?" * len(columns))
    return f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608


def _one(connection: Asks, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


def _sync(path: str) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
    sync_folder(path)
