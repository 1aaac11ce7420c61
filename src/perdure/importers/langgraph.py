"""Threads from LangGraph's own savers: the tables of `SqliteSaver` and `PostgresSaver`, read without changing them.

Checkpoints are put through the adapter, oldest first, so that the threads go on in LangGraph and read as turns.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from perdure import AsyncPerdure, AsyncSession, Perdure, errors
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.making import made
from perdure.adapters.parts.needing import Extra
from perdure.events import Noted
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.report import THERE, Imported, Progress, own_things, prefix_of, source_of
from perdure.importers.sqlite import reading

with Extra("langgraph"):
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from perdure.adapters.langgraph import PerdureSaver
    from perdure.adapters.parts.channels import BY
    from perdure.adapters.parts.checkpoints import WRITES, Thread
    from perdure.adapters.parts.deltas import Plan, Planning
    from perdure.adapters.parts.langgraph_configs import Bytes, Place, Told
    from perdure.adapters.parts.langgraph_upkeep import TAG, batches

if TYPE_CHECKING:
    import psycopg

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

    def threads(self) -> list[str]:
        """The names of the threads."""

    def rows(self, thread: str, codec: Bytes, lost: Counter[str]) -> Iterator[Row]:
        """The checkpoints of a thread, oldest first; of those that cannot be read, why."""

    def writes(self, thread: str) -> list[Written]:
        """The pending writes of a thread."""


async def import_from(
    db: Perdure | AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    serde: SerializerProtocol | None = None,
    allow: Iterable[str] = (),
    prefix: str = "",
) -> Imported:
    """Bring over the threads of a SQLite file or a PostgreSQL database (`postgresql://…`), each under its name with the
    `prefix` before it. To a thread that is there already, what is missing is added, unless it went its own way here:
    then the report says so. State with types of your own needs them allowed as `module:Type`, or a `serde` that does.
    """
    source, prefix = source_of(source), prefix_of(prefix)
    serde = serde or JsonPlusSerializer(allowed_msgpack_modules=[_allowed(word) for word in allow] or None)
    report = Imported(source=source, dry_run=dry_run)
    importing = _Importing(db.aio, report, serde, prefix)
    if source.startswith(("postgresql://", "postgres://")):
        import psycopg

        try:
            with psycopg.connect(source, options="-c default_transaction_read_only=on") as connection:
                await importing.run(_Postgres(connection), progress)
        except psycopg.errors.UndefinedTable as error:
            raise errors.Invalid("this database has no tables of LangGraph's PostgresSaver", source=source) from error
        except psycopg.OperationalError as error:
            raise errors.Invalid(f"cannot read the database: {error}", source=source) from error
    else:
        with closing(_sqlite(source)) as connection:
            try:
                await importing.run(_Sqlite(connection), progress)
            except sqlite3.DatabaseError as error:
                raise errors.Invalid(f"cannot read {source}: {error}; restore it from a backup") from error
    return report


class _Saver(PerdureSaver):
    """Says of each message when it was said: at the time of the first checkpoint that has it."""

    said_at: str | None = None

    async def _write(self, session: AsyncSession, upon: int | bytes, plan: Plan) -> None:
        plan.payloads = dated(plan.payloads, self.said_at)
        await super()._write(session, upon, plan)


class _Importing:
    """One import."""

    def __init__(self, db: AsyncPerdure, report: Imported, serde: SerializerProtocol, prefix: str) -> None:
        self._db = db
        self._report = report
        self._prefix = prefix
        self._codec = Bytes(serde)
        self._saver = _Saver(db, serde=serde)
        self._following = Following(Thread)

    async def run(self, source: Source, progress: Progress | None) -> None:
        """Bring over every thread."""
        names = source.threads()
        for done, name in enumerate(names):
            if progress is not None:
                progress(done, len(names))
            await self._thread(source, name)
        if progress is not None:
            progress(len(names), len(names))

    async def _thread(self, source: Source, thread: str) -> None:
        name = self._prefix + thread
        what = f"thread {name}"
        lost: Counter[str] = Counter()
        rows = list(source.rows(thread, self._codec, lost))
        known = {(row.ns, row.id) for row in rows}
        view = await self._following.present(self._db.named(name))
        there = {(ns, id) for ns, space in view.spaces.items() for id in space} if view is not None else set()
        missing = [row for row in rows if (row.ns, row.id) not in there]
        for why, count in lost.items():
            left_out = f"{count} of {len(rows) + lost.total()} checkpoints cannot be read: {why}"
            told = "nothing more than before was imported; " if there and not missing else ""
            self._report.skip(what, told + left_out, lacks=name)
        if not missing:
            return None if lost else self._report.skip(what, THERE if rows else "it has no checkpoint")
        latest = _latest(row for row in rows if (row.ns, row.id) in there)
        onward = any(row.id >= latest.get(row.ns, "") for row in missing)
        if view is not None and (there - known or (view.unseen and onward) or (view.said and not there)):
            newer = len(missing) if there & known else 0
            return self._report.skip(what, own_things(newer, "checkpoint", "checkpoints"), lacks=name)
        self._report.sessions += 1
        self._report.names.append(name)
        self._report.items += len(missing)
        if not self._report.dry_run:
            try:
                await self._bring(source, thread, missing, rows)
            except errors.CallerError as error:
                self._report.skip(what, f"only in part: {_why(error)}", lacks=name)
        return None

    async def _bring(self, source: Source, thread: str, missing: list[Row], rows: list[Row]) -> None:
        """Write what is missing: pending writes first, so that a thread that looks whole is whole."""
        name = self._prefix + thread
        began = beginning(moment(row.checkpoint["ts"]) for row in rows)
        await made(self._db, name, tags=[TAG], metadata=began)  # or it is there, of an import before
        for batch in batches(_noted(item) for item in source.writes(thread)):
            await self._db.named(name).record(batch)
        versions = {(row.ns, row.id): row.checkpoint["channel_versions"] for row in rows}
        absent = {(row.ns, row.id) for row in missing}
        latest = _latest(row for row in rows if (row.ns, row.id) not in absent)
        for row in missing:
            before = versions.get((row.ns, row.parent or ""), {})
            new = {key: item for key, item in row.checkpoint["channel_versions"].items() if before.get(key) != item}
            parent = {"checkpoint_id": Told(row.parent)} if row.parent else {}
            place: Any = {"configurable": {"thread_id": name, "checkpoint_ns": row.ns, **parent}}
            if row.id < latest.get(row.ns, ""):
                await self._fill(Place(place), row, new)
            else:
                self._saver.said_at = moment(row.checkpoint["ts"])
                await self._saver.aput(place, row.checkpoint, row.metadata, new)  # type: ignore[arg-type]

    async def _fill(self, place: Place, row: Row, new: dict[str, Any]) -> None:
        """Write a checkpoint that could not be read before; the latest and the conversation stay as they are."""
        session = self._db.named(place.thread)
        view = await self._following.present(session) or Thread()
        record = place.record(row.parent or None, row.checkpoint, row.metadata, self._codec) | {"older": True}
        planning = Planning(view, self._codec, (), view.find(row.ns, row.parent) if row.parent else None, {})
        values = row.checkpoint["channel_values"]
        plan = planning.put(record, row.checkpoint["channel_versions"], new, values)
        for batch in batches(plan.payloads):
            await session.record(batch)


def _latest(rows: Iterable[Row]) -> dict[str, str]:
    """The last of these checkpoints, oldest first, in each namespace."""
    return {row.ns: row.id for row in rows}


def _allowed(word: str) -> tuple[str, str]:
    """A type that may be loaded, which must be there: LangGraph would put nothing in the place of one that is not."""
    module, mark, name = word.partition(":")
    if not (module and mark and name):
        before, _, last = word.replace(":", ".").strip(".").rpartition(".")
        like = f", as in {before}:{last}" if before else ""
        raise errors.Invalid(f"{word!r} names no type; spell it module:Type, with a colon between{like}", allow=word)
    try:
        found = import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        told = f"there is no module {module}" if absent else f"module {module} cannot be imported: {error}"
        told += "; import from where that module is found, or set PYTHONPATH"
        raise errors.Invalid(told, allow=word) from error
    if not hasattr(found, name):
        near = get_close_matches(name, [item for item in vars(found) if isinstance(vars(found)[item], type)], 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; name a type that {module} defines"
        raise errors.Invalid(f"module {module} has no {name!r}{hint}", allow=word)
    if not isinstance(getattr(found, name), type):
        raise errors.Invalid(f"{module}.{name} is no type; allow types as module:Type", allow=word)
    return module, name


def _why(error: Exception) -> str:
    """Why a checkpoint cannot be read, in words that fit an import."""
    if not isinstance(error, errors.Invalid) or "module" not in error.fields:
        return str(error)
    module, name = error.fields["module"], error.fields["name"]
    return f"{module}.{name} is not on the allowlist; import again with --allow {module}:{name} (allow= in Python)"


def _noted(item: Written) -> Noted:
    data: dict[str, Any] = {"id": item.id, "task": item.task}
    data |= ({"ns": item.ns} if item.ns else {}) | ({"path": item.path} if item.path else {})
    return Noted(by=BY, about=WRITES, data=data | {"writes": [[item.idx, item.channel, item.kind, item.data]]})


def _sqlite(source: str) -> sqlite3.Connection:
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
    except sqlite3.DatabaseError as error:
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


class _Sqlite:
    """The tables of `SqliteSaver`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        columns = {row[1] for row in connection.execute("PRAGMA table_info(writes)")}
        self._path = "task_path" if "task_path" in columns else "''"

    def threads(self) -> list[str]:
        return [row[0] for row in self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def rows(self, thread: str, codec: Bytes, lost: Counter[str]) -> Iterator[Row]:
        query = (
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints "
            "WHERE thread_id = ? ORDER BY checkpoint_id"
        )
        for ns, id, parent, kind, data, metadata in self._connection.execute(query, (thread,)):
            try:
                checkpoint = _checkpoint(codec.load((kind, data)))
                yield Row(ns, id, parent, checkpoint, json.loads(metadata) if metadata else {})
            except (errors.PerdureError, ValueError, TypeError) as error:
                lost[_why(error)] += 1

    def writes(self, thread: str) -> list[Written]:
        query = {
            "task_path": "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value "
            "FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
            "''": "SELECT checkpoint_ns, checkpoint_id, task_id, '', idx, channel, type, value "
            "FROM writes WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
        }[self._path]
        return [_written(row) for row in self._connection.execute(query, (thread,))]


class _Postgres:
    """The tables of `PostgresSaver`."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def threads(self) -> list[str]:
        return [row[0] for row in self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def rows(self, thread: str, codec: Bytes, lost: Counter[str]) -> Iterator[Row]:
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
                yield Row(ns, id, parent, _checkpoint(found | {"channel_values": values}), metadata or {})
            except (errors.PerdureError, ValueError, TypeError, KeyError) as error:
                lost[_why(error)] += 1

    def writes(self, thread: str) -> list[Written]:
        query = (
            "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob FROM checkpoint_writes "
            "WHERE thread_id = %s ORDER BY checkpoint_id, task_id, idx"
        )
        return [_written(row) for row in self._connection.execute(query, (thread,))]


def _written(row: Any) -> Written:
    ns, id, task, path, idx, channel, kind, data = row
    return Written(ns, id, task, path, idx, channel, str(kind), bytes(data or b""))


def _checkpoint(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not {"id", "channel_values", "channel_versions"} <= found.keys():
        raise errors.Invalid("this is no checkpoint that this version of LangGraph writes")
    return {"v": 1, "ts": "", "versions_seen": {}, "updated_channels": None} | found
