"""Sessions from the databases of Google's Agent Development Kit: of its SQLite service, and of its database service on
SQLite or PostgreSQL, in the layout that keeps events as JSON (1) and in the one before that, with pickled actions (0).

The source is only read. Pickles are opened by ADK's own restricted reader, which makes nothing but ADK's data types.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

import perdure
from perdure import errors
from perdure.adapters.parts.needing import Extra
from perdure.events import Draft
from perdure.importers.report import Imported, Progress, source_of
from perdure.importers.sqlite import reading

with Extra("google-adk"):
    from google.adk.events.event import Event as AdkEvent
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions import _restricted_pickle
    from pydantic import ValidationError

    from perdure.adapters.google_adk import (
        SHARED,
        app_state_name,
        card,
        rewound,
        session_name,
        user_state_name,
    )
    from perdure.adapters.parts.google_adk_events import drafts, history, kept, spelled

IMPORTING: Final = "adk import unfinished"
BATCH: Final = 500
BATCH_CHARACTERS: Final = 1 << 20
LATEST: Final = "1"
_TABLES: Final = frozenset({"app_states", "user_states", "sessions", "events"})
_EVENTS: Final = "SELECT * FROM events WHERE app_name = ? AND user_id = ? AND session_id = ? ORDER BY timestamp, "
_JSON: Final = (
    *("content", "grounding_metadata", "custom_metadata", "usage_metadata", "citation_metadata"),
    *("input_transcription", "output_transcription"),
)
_PLAIN: Final = (
    *("id", "invocation_id", "author", "branch", "partial", "turn_complete", "error_code", "error_message"),
    "interrupted",
)
UNREADABLE: Final = (
    _restricted_pickle.pickle.UnpicklingError,  # type: ignore[attr-defined]
    *(EOFError, AttributeError, ImportError, LookupError, ValueError, TypeError, ArithmeticError, RecursionError),
)
"""What comes of reading bytes that are no pickle of ADK's."""

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


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure, source: str, *, progress: Progress | None = None, dry_run: bool = False
) -> Imported:
    """Bring every session of an ADK database over, with what apps and users hold, for `PerdureSessionService`.

    `source` is the path of a SQLite file, or the URL that ADK was given. Sessions that are there already are left as
    they are; an import that was stopped goes on where it was.
    """
    source = source_of(source)
    report = Imported(source=_shown(source), dry_run=dry_run)
    with closing(_opened(source)) as found:
        layout = _layout(found, report.source)
        importing = _Importing(db.aio, found, layout, report)
        await importing.shared()
        sessions = list(
            found.rows("SELECT app_name, user_id, id, state FROM sessions ORDER BY update_time, user_id, id")
        )
        for done, session in enumerate(sessions, 1):
            await importing.session(session)
            if progress is not None:
                progress(done, len(sessions))
    return report


class _Importing:
    """One import under way."""

    def __init__(self, db: perdure.AsyncPerdure, source: Source, layout: str, report: Imported) -> None:
        self._db = db
        self._source = source
        self._read = _event_0 if layout == "0" else _event_1
        tied = "rowid" if isinstance(source, _Sqlite) else "id"
        self._query = _EVENTS + tied
        self._report = report

    async def shared(self) -> None:
        """What apps and users hold. Where something is held already, that stays."""
        held = [
            (app_state_name(row["app_name"]), "", row)
            for row in self._source.rows("SELECT app_name, state FROM app_states")
        ]
        held += [
            (user_state_name(row["app_name"], row["user_id"]), str(row["user_id"]), row)
            for row in self._source.rows("SELECT app_name, user_id, state FROM user_states")
        ]
        for name, owner, row in held:
            state = self._state(name, row["state"])
            if not state:
                continue
            try:
                if self._report.dry_run:
                    await self._db.named(name).info()
                    raise errors.AlreadyExists(name)
                metadata = {SHARED: row["app_name"]}
                await self._db.create(name=name, owner=owner, metadata=metadata, vars=kept(state))
            except errors.AlreadyExists:
                if await self._db.named(name).vars() != kept(state):
                    self._report.skip(name, "state is held under this name already; it was left as it is")
            except errors.NotFound:
                continue

    async def session(self, row: Fields) -> None:
        """One session with its events."""
        whose = row["app_name"], row["user_id"], row["id"]
        name = session_name(*whose)
        handle = self._db.named(name)
        state = kept(self._state(name, row["state"]))
        version, written = 0, 0
        try:
            known = await handle.info()
        except errors.NotFound:
            if not self._report.dry_run:
                tags = (IMPORTING,)
                await self._db.create(name=name, owner=whose[1], metadata=card(*whose, state), vars=state, tags=tags)
                version = await handle.version()
        else:
            if IMPORTING not in known.tags:
                self._report.skip(name, "a session of this name is there already")
                return
            version, written = known.version, len(history(await handle.events()))
        self._report.sessions += 1
        self._report.names.append(name)
        events = list(self._events(name, whose))
        self._report.items += len(events) - written
        if not self._report.dry_run:
            await self._write(handle, version, events[written:])
            await handle.configure(tags=())

    async def _write(self, handle: perdure.AsyncSession, version: int, events: list[AdkEvent]) -> None:
        """Append events, as many at once as go well together."""
        batch: list[Draft] = []
        size = 0
        for index, event in enumerate(events):
            text = spelled(event)
            invocation = event.actions.rewind_before_invocation_id
            if batch and (invocation or size + len(text) > BATCH_CHARACTERS or len(batch) >= BATCH):
                version = await handle.record(batch, more=not events[index - 1].is_final_response(), expected=version)
                batch, size = [], 0
            if invocation:
                since = await rewound(handle, version, invocation)
                version = await handle.record(drafts(event, text), replacing=since, expected=version)
            else:
                batch += drafts(event, text)
                size += len(text)
        if batch:
            await handle.record(batch, more=not events[-1].is_final_response(), expected=version)

    def _events(self, name: str, whose: tuple[str, str, str]) -> Iterator[AdkEvent]:
        found = self._source.rows(
            self._query,
            *whose,
        )
        for row in found:
            try:
                event, doubt = self._read(row)
            except (ValueError, KeyError, TypeError) as wrong:
                why = f"it cannot be read: {_first_line(wrong)}"
                self._report.skip(f"{name}: event {row.get('id')}", why, lacks=name)
                continue
            if doubt:
                self._report.skip(f"{name}: actions of event {row.get('id')}", doubt)
            yield event

    def _state(self, name: str, held: Any) -> Fields:
        try:
            found = _decoded(held)
        except ValueError as wrong:
            self._report.skip(f"{name}: state", f"it cannot be read: {_first_line(wrong)}", lacks=name)
            return {}
        return found or {}


def _event_1(row: Fields) -> tuple[AdkEvent, str]:
    """An event of the layouts that keep it as JSON."""
    data = _decoded(row["event_data"])
    if data is None:
        raise ValueError("there is nothing in event_data")
    named = {"id": row["id"], "invocation_id": row["invocation_id"]}
    return AdkEvent.model_validate_json(json.dumps({"timestamp": _seconds(row["timestamp"]), **data, **named})), ""


def _event_0(row: Fields) -> tuple[AdkEvent, str]:
    """An event of the first layout, and what could not be read of it."""
    data: Fields = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    for name in ("partial", "turn_complete", "interrupted"):
        if name in data:
            data[name] = bool(data[name])
    data |= {name: found for name in _JSON if (found := _decoded(row.get(name))) is not None}
    tools = row.get("long_running_tool_ids_json")
    if tools:
        data["long_running_tool_ids"] = json.loads(tools)
    data["timestamp"] = _seconds(row["timestamp"])
    event = AdkEvent.model_validate_json(json.dumps(data))
    if row.get("actions") is None:
        return event, ""
    try:
        actions = _restricted_pickle.loads(bytes(row["actions"]))
        event.actions = EventActions.model_validate(actions.model_dump() if hasattr(actions, "model_dump") else actions)
    except UNREADABLE as wrong:
        return event, f"they cannot be read, the event was kept without them: {_first_line(wrong)}"
    return event, ""


def _decoded(held: Any) -> Fields | None:
    """An object of JSON, as text or as a driver gives it; None for nothing."""
    found = json.loads(held) if isinstance(held, str | bytes) else held
    if found is not None and type(found) is not dict:
        raise ValueError(f"an object of JSON was expected, not {type(found).__name__}")
    return found


def _seconds(held: Any) -> float:
    """A time as the layouts keep it: seconds, or a date without zone, in UTC."""
    if isinstance(held, int | float):
        return float(held)
    moment = held if isinstance(held, datetime) else datetime.fromisoformat(held)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _first_line(wrong: Exception) -> str:
    """What went wrong, without the data itself."""
    if isinstance(wrong, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in wrong.errors(include_input=False)
        )
    return str(wrong).partition("\n")[0] or type(wrong).__name__


# ── databases ──


def _layout(source: Source, shown: str) -> str:
    """Which layout the tables have; `Invalid` when they are not ADK's, or of a newer one."""
    missing = sorted(table for table in _TABLES if not source.columns(table))
    if missing:
        raise errors.Invalid(
            f"{shown} is no database of ADK's sessions: it has no {', '.join(missing)}", missing=missing
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


def _opened(source: str) -> Source:
    if source.startswith(("postgresql:", "postgresql+", "postgres:")):
        return _Postgres(source)
    if "://" in source and not source.startswith(("sqlite:", "sqlite+")):
        raise errors.Invalid(
            f"{_shown(source)} is no address this importer reads; give the path of a SQLite file, sqlite:///… or "
            "postgresql://…",
            source=_shown(source),
        )
    return _Sqlite(source)


def _shown(source: str) -> str:
    """A source as reports name it: without passwords."""
    scheme, mark, rest = source.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if mark else source


class _Sqlite:
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
        except sqlite3.Error as wrong:
            raise errors.Invalid(
                f"{self._path} cannot be read as a SQLite database: {wrong}", path=self._path
            ) from wrong

    def close(self) -> None:
        self._connection.close()


class _Postgres:
    """A PostgreSQL database."""

    def __init__(self, source: str) -> None:
        import psycopg

        scheme, _, rest = source.partition("://")
        try:
            self._connection = psycopg.connect(f"{scheme.partition('+')[0]}://{rest}")
        except psycopg.Error as wrong:
            raise errors.Invalid(f"{_shown(source)} cannot be opened: {_first_line(wrong)}") from wrong
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
            raise errors.Invalid(f"the database cannot be read: {_first_line(wrong)}") from wrong

    def close(self) -> None:
        self._connection.close()
