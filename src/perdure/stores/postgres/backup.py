"""A database in the portable form: every table as PostgreSQL itself copies it, from one snapshot, and back.

The rows of a table are pieces of its COPY stream in the binary form, to be put back in order. Invariant: positions and
the numbers of sessions are never given twice, so where the sequences stood comes along.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final

import psycopg

from perdure.core.errors import AlreadyExists, Damaged, NewerStore, NotAStore, ReadOnly
from perdure.ports.backup import Facts, Rows, Tables
from perdure.stores.postgres import preparing
from perdure.stores.postgres.connection import Address, Connection, Connections, ask, translate
from perdure.stores.postgres.preparing import FORMAT
from perdure.stores.postgres.texts import told

SEQUENCES: Final = "sequence"
"""A table of this form alone: the name of each sequence, and where it stands."""
_SELECTED: Final = {"cursor": " WHERE name <> 'words'"}
_LEFT_OUT: Final = ("word", "writer", "stream", "stream_piece")
"""An index that is made again, notes that mean something to the server they were left on alone, and what turns that are
running just then have streamed so far.
"""
_TABLES: Final = (
    "SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class AS c"
    " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.relnamespace = 'perdure'::regnamespace AND c.relkind = 'r' GROUP BY c.relname ORDER BY c.relname"
)
_STANDING: Final = (
    "SELECT sequencename::text, coalesce(last_value, 0)::bigint FROM pg_sequences WHERE schemaname = 'perdure'"
)
_FACTS: Final = (
    "SELECT (SELECT coalesce(max(position), 0)::bigint FROM perdure.record),"
    " (SELECT count(*) FROM perdure.session), (SELECT count(*) FROM perdure.record WHERE session <> 0),"
    " (SELECT count(cold) FROM perdure.session)"
)


class PostgresEngine:
    """`perdure.ports.backup.Engine` for a database."""

    latest = FORMAT

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.place = Address(dsn, read_only=True).shown

    @contextmanager
    def _connected(self, *, read_only: bool) -> Iterator[Connection]:
        connections = Connections(Address(self._dsn, read_only=read_only), read_only=read_only)
        try:
            connection = connections.connect()
            try:
                yield connection
            finally:
                connections.drop(connection)
        except psycopg.Error as error:
            raise translate(error, self.place) from error

    @contextmanager
    def _looking(self) -> Iterator[Connection]:
        """A connection that sees one moment."""
        with self._connected(read_only=True) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def facts(self) -> Facts:
        """What the store holds."""
        with self._looking() as connection:
            return self._facts(connection)

    def _facts(self, connection: Connection) -> Facts:
        found = self._format(connection)
        position, sessions, records, cold = ask(connection, _FACTS).fetchone()
        return Facts(
            engine="postgres",
            format=found,
            position=position,
            sessions=sessions,
            records=records,
            cold=cold,
            sealed=bool(preparing.mark(connection)),
        )

    def _format(self, connection: Connection) -> int:
        if preparing.mark(connection) is None:
            raise NotAStore(f"there is no store at {self.place}; check the address", store=self.place)
        try:
            preparing.check(connection, self.place, lambda mark: mark or "")
        except ReadOnly as older:
            found: int = older.fields["found"]
            return found
        return FORMAT

    def tenants(self) -> tuple[str, ...]:
        """Who has sessions in it."""
        with self._looking() as connection:
            found = ask(connection, "SELECT DISTINCT tenant FROM perdure.session ORDER BY tenant").fetchall()
            return tuple(told(columns[0]) for columns in found)

    @contextmanager
    def dump(self) -> Iterator["PostgresDump"]:
        """Its rows as of one moment."""
        with self._looking() as connection:
            yield PostgresDump(connection, self._facts(connection))

    def load(self, facts: Facts, tables: Tables, rows: Iterable[Rows]) -> None:
        """A new store in the database, in one transaction."""
        if facts.engine != "postgres":
            raise Damaged(f"the backup is of a store in {facts.engine}; restore it to a file", engine=facts.engine)
        if facts.format > FORMAT:
            raise NewerStore(
                f"the backup has format {facts.format}, this perdure reads up to {FORMAT}; upgrade perdure",
                found=facts.format,
                supported=FORMAT,
            )
        with self._connected(read_only=False) as connection, connection.transaction():
            if preparing.mark(connection) is not None:
                raise AlreadyExists(f"{self.place} has a store already; load into an empty database", store=self.place)
            preparing.prepare(connection, self.place)
            _fill(connection, tables, rows)
            ask(connection, "UPDATE perdure.setting SET value = $1 WHERE name = 'format'", (str(FORMAT),))


class PostgresDump:
    """Every table of a connection's transaction."""

    def __init__(self, connection: Connection, facts: Facts) -> None:
        self._connection = connection
        self.facts = facts
        listed = {name: tuple(columns) for name, columns in ask(connection, _TABLES).fetchall()}
        self.tables: Tables = {name: columns for name, columns in listed.items() if name not in _LEFT_OUT} | {
            SEQUENCES: ("name", "value")
        }
        self.total = facts.records

    def rows(self) -> Iterator[Rows]:
        """Table by table."""
        for table, columns in self.tables.items():
            if table == SEQUENCES:
                yield table, [tuple(row) for row in ask(self._connection, _STANDING).fetchall()]
                continue
            chosen = f"SELECT {_names(columns)} FROM perdure.{_quoted(table)}{_SELECTED.get(table, '')}"  # noqa: S608
            with (
                self._connection.cursor() as cursor,
                cursor.copy(f"COPY ({chosen}) TO STDOUT (FORMAT BINARY)") as pieces,
            ):
                for piece in pieces:
                    yield table, [(bytes(piece),)]


def _fill(connection: Connection, tables: Tables, rows: Iterable[Rows]) -> None:
    known = {name: set(columns) for name, columns in ask(connection, _TABLES).fetchall()}
    for table, batches in groupby(rows, key=lambda batch: batch[0]):
        if table == SEQUENCES:
            for _, batch in batches:
                for name, value in batch:
                    _stand(connection, str(name), value)
            continue
        if table not in known or set(tables[table]) - known[table]:
            raise Damaged(f"the backup has a table {table!r:.40} that this format does not know; take another copy")
        connection.execute(f"TRUNCATE perdure.{_quoted(table)}")  # a new store has a few rows of its own
        target = f"perdure.{_quoted(table)} ({_names(tables[table])})"
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {target} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            for _, batch in batches:
                for (piece,) in batch:
                    copy.write(piece)


def _stand(connection: Connection, name: str, value: Any) -> None:
    if type(value) is not int or value < 0:
        raise Damaged(f"the backup says that sequence {name!r:.40} stands nowhere; take another copy")
    if value:
        ask(connection, "SELECT setval(format('perdure.%I', $1::text)::regclass, $2)", (name, value))


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(map(_quoted, columns))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
