"""The databases that ADK keeps its sessions in: opened to be read only, and known by the layout of their tables."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

from perdure import errors
from perdure.importers.report import shown_as
from perdure.importers.sqlite import UNREADABLE, reading

LATEST: Final = "1"
_SESSION: Final = frozenset({"app_name", "user_id", "id", "state", "update_time"})
_TABLES: Final = frozenset({"app_states", "user_states", "sessions", "events"})

Fields = dict[str, Any]


class Source(Protocol):
    """A database that is only read."""

    def columns(self, table: str) -> set[str]:
        """The columns of a table; none when there is no such table."""
        ...

    def rows(self, query: str, *values: str) -> Iterator[Fields]:
        """The rows a query finds, by column. A value is a `?`."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def first_line(wrong: Exception) -> str:
    """What went wrong, in one line."""
    return str(wrong).partition("\n")[0] or type(wrong).__name__


def layout_of(source: Source, shown: str) -> str:
    """Which layout the tables have; `Invalid` when they are not ADK's, or of a newer one."""
    missing = sorted(table for table in _TABLES if not source.columns(table))
    if missing:
        raise errors.Invalid(
            f"{shown} is no database of ADK's sessions: it has no {', '.join(missing)}", missing=missing
        )
    lacking = sorted(_SESSION - source.columns("sessions"))
    if lacking:
        raise errors.Invalid(
            f"{shown} is no database of ADK's sessions: its sessions have no {', '.join(lacking)}", missing=lacking
        )
    columns = source.columns("events")
    if source.columns("adk_internal_metadata"):
        found = list(source.rows("SELECT value FROM adk_internal_metadata WHERE key = ?", "schema_version"))
        version = found[0]["value"] if found else ""
        if version != LATEST:
            raise errors.Invalid(
                f"{shown} has ADK's layout {version!r}, this importer knows 0 and {LATEST}; use a newer perdure",
                layout=version,
            )
    if "event_data" in columns:
        return LATEST
    if "actions" in columns:
        return "0"
    raise errors.Invalid(f"{shown} is no database of ADK's sessions: its events have neither event_data nor actions")


def opened(source: str) -> Source:
    """The database at a path or an address, to be read only; `Invalid` or `NotFound` when there is none to read."""
    if source.startswith(("postgresql:", "postgresql+", "postgres:")):
        return PostgresDatabase(source)
    if "://" in source and not source.startswith(("sqlite:", "sqlite+")):
        raise errors.Invalid(
            f"{shown_as(source)} is no address this importer reads; give the path of a SQLite file, sqlite:///… or "
            "postgresql://…",
            source=shown_as(source),
        )
    return SqliteFile(source)


class SqliteFile:
    """A SQLite file."""

    def __init__(self, source: str) -> None:
        path = source
        if source.startswith(("sqlite:", "sqlite+")):
            path = unquote(source.partition("://")[2].partition("?")[0]).removeprefix("/")
        if not os.path.isfile(path):
            raise errors.NotFound(f"there is no file {path}; give the path of ADK's database", path=path)
        self._connection = reading(Path(path))
        self._connection.row_factory = sqlite3.Row
        self._path = path

    def columns(self, table: str) -> set[str]:
        return {row["name"] for row in self.rows("SELECT name FROM pragma_table_info(?)", table)}

    def rows(self, query: str, *values: str) -> Iterator[Fields]:
        try:
            for row in self._connection.execute(query, values):
                yield dict(row)
        except UNREADABLE as wrong:
            raise errors.Invalid(
                f"{self._path} cannot be read as a SQLite database: {wrong}", path=self._path
            ) from wrong

    def close(self) -> None:
        self._connection.close()


class PostgresDatabase:
    """A PostgreSQL database."""

    def __init__(self, source: str) -> None:
        import psycopg

        scheme, _, rest = source.partition("://")
        try:
            self._connection = psycopg.connect(f"{scheme.partition('+')[0]}://{rest}")
        except psycopg.Error as wrong:
            raise errors.Invalid(f"{shown_as(source)} cannot be opened: {first_line(wrong)}") from wrong
        self._connection.read_only = True

    def columns(self, table: str) -> set[str]:
        query = "SELECT attname AS name FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0"
        return {row["name"] for row in self.rows(query, table)}

    def rows(self, query: str, *values: str) -> Iterator[Fields]:
        import psycopg
        from psycopg.rows import dict_row

        try:
            with self._connection.cursor(row_factory=dict_row) as cursor:
                yield from cursor.execute(query.replace("?", "%s").encode(), values)
        except psycopg.Error as wrong:
            raise errors.Invalid(f"the database cannot be read: {first_line(wrong)}") from wrong

    def close(self) -> None:
        self._connection.close()
