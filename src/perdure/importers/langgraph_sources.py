"""The tables of LangGraph's savers, opened to be read only. A damaged row is passed over, and why is told."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from perdure import errors
from perdure.adapters.parts.needing import Extra
from perdure.importers.fitting import why
from perdure.importers.report import DAMAGED
from perdure.importers.sqlite import UNREADABLE, reading

with Extra("langgraph"):
    from langchain_core.messages import BaseMessage

if TYPE_CHECKING:
    import psycopg

    from perdure.adapters.parts.langgraph_configs import Bytes

_SQLITE: Final = {
    "checkpoints": {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint", "metadata"},
    "writes": {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"},
}
_STORE: Final = {"prefix", "key", "value"}
"""The columns of the table in which `SqliteStore` keeps memories."""
_HEADER: Final = b"SQLite format 3\0"


class Row(msgspec.Struct, frozen=True):
    """One checkpoint as it was found."""

    ns: str
    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]


class Written(msgspec.Struct, frozen=True):
    """One pending write as it was found."""

    ns: str
    id: str
    task: str
    path: str
    idx: int
    channel: str
    kind: str
    data: bytes


class Source(Protocol):
    """The tables of a saver."""

    def threads(self) -> list[Any]:
        """The ids of the threads."""

    def rows(self, thread: str, codec: "Bytes", lost: Counter[str]) -> Iterator[Row]:
        """The checkpoints of a thread, oldest first; of those that cannot be read, why."""

    def writes(self, thread: str, lost: Counter[str]) -> Iterator[Written]:
        """The pending writes of a thread; of those that cannot be read, of which checkpoints they are."""


def opened(source: str) -> sqlite3.Connection:
    """The file, open for reading, if it is one that `SqliteSaver` made."""
    path = Path(source)
    if not path.is_file():
        raise errors.NotFound(f"there is no file {source}; name the file that SqliteSaver writes", source=source)
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            raise errors.Invalid(f"{source} is no SQLite file; name the file that SqliteSaver writes", source=source)
    connection = reading(path)
    try:
        _check(connection, source)
    except UNREADABLE as error:
        connection.close()
        raise errors.Invalid(f"cannot read {source}: {error}; restore it from a backup") from error
    except errors.Invalid:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, source: str) -> None:
    """Whether a file has the tables that `SqliteSaver` makes; `Invalid`, with what it is instead, if it has not."""

    def columns(table: str) -> set[str]:
        return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}

    for table, wanted in _SQLITE.items():
        found = columns(table)
        if not found:
            told = f"{source} is no checkpoint file of LangGraph's: it has no table {table}"
            if columns("store") >= _STORE:
                told += "; it is a file of SqliteStore, whose memories go into a PerdureStore by its put, not by import"
            else:
                told += "; name the file that SqliteSaver writes"
            raise errors.Invalid(told, source=source)
        if not wanted <= found:
            lack = ", ".join(sorted(wanted - found))
            raise errors.Invalid(f"{source} is not what SqliteSaver writes: table {table} lacks {lack}", source=source)


class SqliteTables:
    """The tables of `SqliteSaver`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        columns = {row[1] for row in connection.execute("PRAGMA table_info(writes)")}
        self._path = "task_path" if "task_path" in columns else "''"

    def threads(self) -> list[Any]:
        return [row[0] for row in self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def rows(self, thread: str, codec: "Bytes", lost: Counter[str]) -> Iterator[Row]:
        query = (
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints "
            "WHERE thread_id = ? ORDER BY checkpoint_id"
        )
        for ns, id, parent, kind, data, metadata in self._connection.execute(query, (thread,)):
            try:
                found = codec.load((kind, data))
                yield _row(ns, id, parent, found, json.loads(metadata) if metadata else {})
            except (errors.PerdureError, *DAMAGED) as error:
                lost[unread(error)] += 1

    def writes(self, thread: str, lost: Counter[str]) -> Iterator[Written]:
        query = {
            "task_path": "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value "
            "FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
            "''": "SELECT checkpoint_ns, checkpoint_id, task_id, '', idx, channel, type, value "
            "FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
        }[self._path]
        yield from _written(self._connection.execute(query, (thread,)), lost)


class PostgresTables:
    """The tables of `PostgresSaver`."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def threads(self) -> list[Any]:
        return [row[0] for row in self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def rows(self, thread: str, codec: "Bytes", lost: Counter[str]) -> Iterator[Row]:
        blobs = {
            (ns, channel, version): (kind, data)
            for ns, channel, version, kind, data in self._connection.execute(
                "SELECT checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %s",
                (thread,),
            )
        }
        query = (
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints "
            "WHERE thread_id = %s ORDER BY checkpoint_id"
        )
        for ns, id, parent, found, metadata in self._connection.execute(query, (thread,)):
            try:
                values = dict(found.get("channel_values") or {})
                for channel, version in found["channel_versions"].items():
                    kind, data = blobs.get((ns, channel, str(version)), ("empty", None))
                    if kind != "empty":
                        values[channel] = codec.load((kind, bytes(data)))
                yield _row(ns, id, parent, found | {"channel_values": values}, metadata or {})
            except (errors.PerdureError, *DAMAGED) as error:
                lost[unread(error)] += 1

    def writes(self, thread: str, lost: Counter[str]) -> Iterator[Written]:
        query = (
            "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob FROM checkpoint_writes "
            "WHERE thread_id = %s ORDER BY checkpoint_id, task_id, idx"
        )
        yield from _written(self._connection.execute(query, (thread,)), lost)


def _written(rows: Iterable[Any], lost: Counter[str]) -> Iterator[Written]:
    for ns, id, task, path, idx, channel, kind, data in rows:
        whole = all(isinstance(text, str) for text in (ns, id, task, path, channel)) and isinstance(kind, str | None)
        if whole and type(idx) is int and isinstance(data, bytes | None):
            yield Written(ns, id, task, path, idx, channel, str(kind), data or b"")
        else:
            lost[str(id)] += 1


def _row(ns: Any, id: Any, parent: Any, found: Any, metadata: Any) -> Row:
    """A checkpoint as it was found; `Invalid` if it is none."""
    if not isinstance(found, dict) or not {"id", "channel_values", "channel_versions"} <= found.keys():
        raise errors.Invalid("this is no checkpoint that this version of LangGraph writes")
    known = isinstance(ns, str) and isinstance(id, str) and isinstance(parent, str | None)
    if not known or found["id"] != id:
        raise errors.Invalid("the row does not say which checkpoint it is, or another one than the checkpoint itself")
    fields = (found["channel_values"], found["channel_versions"], metadata)
    if not all(isinstance(field, dict) for field in fields):
        raise errors.Invalid("its channels and its metadata are objects, and these are damaged")
    if any(_half(item) for value in fields[0].values() if isinstance(value, list) for item in value):
        raise errors.Invalid("a message in it is damaged")
    checkpoint = {"v": 1, "ts": "", "versions_seen": {}, "updated_channels": None} | found
    return Row(ns, id, parent, checkpoint, metadata)


def _half(item: Any) -> bool:
    """Whether something is a message of which a part is missing: LangGraph's reader makes what it can."""
    return isinstance(item, BaseMessage) and not type(item).model_fields.keys() <= vars(item).keys()


def unread(error: Exception) -> str:
    """Why a checkpoint cannot be brought over, in words that fit an import."""
    if isinstance(error, errors.TooLarge | errors.TooDeep):
        return why(error)
    if not isinstance(error, errors.Invalid) or "module" not in error.fields:
        return str(error).partition("\n")[0] or type(error).__name__
    module, name = error.fields["module"], error.fields["name"]
    return f"{module}.{name} is not on the allowlist; import again with --allow {module}:{name} (allow= in Python)"
