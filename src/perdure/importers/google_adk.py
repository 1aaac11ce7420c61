"""Sessions from the databases of Google's Agent Development Kit: of its SQLite service, and of its database service on
SQLite or PostgreSQL, in the layout that keeps events as JSON (1) and in the one before that, with pickled actions (0).

The source is only read. Pickles are opened by ADK's own restricted reader, which makes nothing but ADK's data types.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

import perdure
from perdure import errors
from perdure.adapters.parts.needing import Extra
from perdure.events import Draft, Noted
from perdure.importers.adk_sources import Fields, Source, SqliteFile, first_line, layout_of, opened, shown_as
from perdure.importers.report import Imported, Progress, source_of

with Extra("google-adk"):
    from google.adk.events.event import Event as AdkEvent
    from google.adk.events.event_actions import EventActions
    from google.adk.sessions import _restricted_pickle
    from pydantic import ValidationError

    from perdure.adapters.google_adk import rewound
    from perdure.adapters.parts.google_adk_events import BY, drafts, kept, spelled
    from perdure.adapters.parts.google_adk_rows import SHARED, app_state_name, card, session_name, user_state_name
    from perdure.importers.adk_gaps import FILLED, compared

IMPORTING: Final = "adk import unfinished"
INCOMPLETE: Final = "adk import incomplete"
"""The tag of a session of which something could not be read; importing again looks for it."""
THERE: Final = "a session of this name is there already"
NAMED: Final = 10
"""So many of the things that are left out are named."""
BATCH: Final = 500
BATCH_CHARACTERS: Final = 1 << 20
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


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure, source: str, *, progress: Progress | None = None, dry_run: bool = False
) -> Imported:
    """Bring every session of an ADK database over, with what apps and users hold, for `PerdureSessionService`.

    `source` is the path of a SQLite file, or the URL that ADK was given. Sessions that are there already are left as
    they are; an import that was stopped goes on where it was. What could not be read the first time and can be now is
    filled in where it belongs, unless the conversation has gone on here: then the report says what is left out.
    """
    source = source_of(source)
    report = Imported(source=shown_as(source), dry_run=dry_run)
    with closing(opened(source)) as found:
        layout = layout_of(found, report.source)
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
        tied = "rowid" if isinstance(source, SqliteFile) else "id"
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
        """One session with its events; what is missing of one that was brought over in part."""
        whose = row["app_name"], row["user_id"], row["id"]
        name = session_name(*whose)
        handle = self._db.named(name)
        remarks = len(self._report.skipped)
        state = kept(self._state(name, row["state"]))
        try:
            tags = (await handle.info()).tags
        except errors.NotFound:
            events = list(self._events(name, whose))
            self._count(name, len(events))
            if not self._report.dry_run:
                metadata = card(*whose, state)
                await self._db.create(name=name, owner=whose[1], metadata=metadata, vars=state, tags=(IMPORTING,))
                await self._write(handle, await handle.version(), events)
                await handle.configure(tags=(INCOMPLETE,) if len(self._report.skipped) > remarks else ())
            return
        if IMPORTING not in tags and INCOMPLETE not in tags:
            self._report.skip(name, THERE)
            return
        events = list(self._events(name, whose))
        await self._fill(handle, name, (card(*whose, state), state), events, unread=len(self._report.skipped) > remarks)

    async def _fill(
        self,
        handle: perdure.AsyncSession,
        name: str,
        held: tuple[Fields, Fields],
        events: list[AdkEvent],
        *,
        unread: bool,
    ) -> None:
        """Bring over what is missing of a session, if that keeps the order; say what is left out if it does not."""
        metadata, state = held
        known = await handle.info()
        found = compared(await handle.events(upto=known.version), events)
        stateless = bool(state) and not await handle.vars()
        lacking = [f"event {id}" for id in found.missing] + ["its state"] * stateless
        if found.ordered and (stateless or found.common < len(events) or IMPORTING in known.tags):
            self._count(name, len(events) - found.held)
        elif lacking:
            self._report.skip(name, _left_out(lacking), lacks=name)
            return
        else:
            self._report.skip(name, THERE)
        if self._report.dry_run:
            return
        if found.ordered:
            version = known.version
            if found.since is not None:
                version = await handle.retract(found.since, reason=FILLED, expected=version)
            if stateless or found.common < len(events):  # or a rewind would take the retraction before it for its own
                note = Noted(by=BY, about=FILLED, data=len(lacking))
                row, fields = ({**known.metadata, **metadata}, state) if stateless else (None, None)
                version = await handle.record(note, more=True, metadata=row, vars=fields, expected=version)
            await self._write(handle, version, events[found.common :])
        others = tuple(tag for tag in known.tags if tag not in (IMPORTING, INCOMPLETE))
        await handle.configure(tags=(*others, INCOMPLETE) if unread else others)

    def _count(self, name: str, items: int) -> None:
        self._report.sessions += 1
        self._report.names.append(name)
        self._report.items += items

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


def _left_out(lacking: list[str]) -> str:
    more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
    return (
        f"{', '.join(lacking[:NAMED])}{more} can be read now but cannot be filled in, since something was said or "
        "taken away here after it was imported; to have the session as the source has it, erase it and import again"
    )


def _first_line(wrong: Exception) -> str:
    """What went wrong, without the data itself."""
    if isinstance(wrong, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in wrong.errors(include_input=False)
        )
    return first_line(wrong)
