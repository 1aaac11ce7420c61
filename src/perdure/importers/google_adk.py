"""Sessions from the databases of Google's Agent Development Kit: of its SQLite service, and of its database service on
SQLite or PostgreSQL, in the layout that keeps events as JSON (1) and in the one before that, with pickled actions (0).

The source is only read. Pickles are opened by ADK's own restricted reader, which makes nothing but ADK's data types.
"""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

import perdure
from perdure import errors
from perdure.adapters.parts.needing import Extra
from perdure.events import Draft, Noted
from perdure.importers.adk_sources import Fields, Source, SqliteFile, first_line, layout_of, opened
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.fitting import name_refusal, refusals, row_refusal
from perdure.importers.report import DAMAGED, THERE, Imported, Progress, own_things, prefix_of, shown_as, source_of

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
NAMED: Final = 10
"""So many of the things that are left out are named."""
BATCH: Final = 500
BATCH_CHARACTERS: Final = 1 << 20
_SHOWN: Final = 1000
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
    *DAMAGED,
)
"""What comes of reading bytes that are no pickle of ADK's."""


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure,
    source: str,
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    prefix: str = "",
) -> Imported:
    """Bring every session of an ADK database over, with what apps and users hold, for `PerdureSessionService`.

    `source` is the path of a SQLite file, or the URL that ADK was given. An import that was stopped goes on where it
    was. What the source has gained since, or could not be read the first time and can be now, is added where it
    belongs, unless the conversation has gone on here: then the report says what is left out. Names begin with the
    `prefix`; ADK finds a session that has one by the session's id.
    """
    source, prefix = source_of(source), prefix_of(prefix)
    report = Imported(source=shown_as(source), dry_run=dry_run)
    with closing(opened(source)) as found:
        layout = layout_of(found, report.source)
        importing = _Importing(db.aio, found, layout, report, prefix)
        await importing.shared()
        sessions = list(found.rows("SELECT * FROM sessions ORDER BY update_time, user_id, id"))
        for done, session in enumerate(sessions, 1):
            await importing.session(session)
            if progress is not None:
                progress(done, len(sessions))
    return report


class _Importing:
    """One import under way."""

    def __init__(
        self, db: perdure.AsyncPerdure, source: Source, layout: str, report: Imported, prefix: str = ""
    ) -> None:
        self._db = db
        self._prefix = prefix
        self._source = source
        self._read = _event_0 if layout == "0" else _event_1
        tied = "rowid" if isinstance(source, SqliteFile) else "id"
        self._query = _EVENTS + tied
        self._report = report

    async def shared(self) -> None:
        """What apps and users hold. Where something is held already, that stays."""
        try:
            for row in list(self._source.rows("SELECT app_name, state FROM app_states")):
                await self._share((row["app_name"],), row["state"])
            for row in list(self._source.rows("SELECT app_name, user_id, state FROM user_states")):
                await self._share((row["app_name"], row["user_id"]), row["state"])
        except errors.Invalid as wrong:
            self._report.skip("what apps and users hold", wrong.message, lacks="what apps and users hold")

    async def _share(self, whose: tuple[Any, ...], held: Any) -> None:
        """What one app, or one user of it, holds."""
        name = self._name(whose, app_state_name if len(whose) == 1 else user_state_name)
        state = self._state(name, held) if name is not None else {}
        if name is None or not state:
            return
        row: Fields = {"name": name, "owner": "".join(whose[1:]), "metadata": {SHARED: whose[0]}, "vars": state}
        if why := await row_refusal(**row):
            self._report.skip(name, why, lacks=name)
            return
        try:
            if self._report.dry_run:
                await self._db.named(name).info()
                raise errors.AlreadyExists(name)
            await self._db.create(**row)
        except errors.AlreadyExists:
            if await self._db.named(name).vars() != state:
                self._report.skip(name, "state is held under this name already; it was left as it is")
        except errors.NotFound:
            return

    def _name(self, whose: tuple[Any, ...], named: Callable[..., str], prefix: str = "") -> str | None:
        """The name of somebody's session; None, which is told, when there can be none."""
        what = "/".join(map(str, whose))[:_SHOWN]
        if not all(isinstance(part, str) for part in whose):
            self._report.skip(what, "whose it is must be texts, and is damaged", lacks=what)
            return None
        name = prefix + named(*whose)
        why = name_refusal(self._db, name)
        if why is not None:
            self._report.skip(what, why, lacks=what)
        return name if why is None else None

    async def session(self, row: Fields) -> None:
        """One session with its events; what is missing of one that is there. One that cannot be written is named, and
        keeps no other from coming.
        """
        whose = row["app_name"], row["user_id"], row["id"]
        name = self._name(whose, session_name, self._prefix)
        if name is None:
            return
        try:
            await self._bring(name, whose, row)
        except (errors.CallerError, errors.ConflictError) as wrong:
            self._report.skip(name, f"it could not be imported whole: {wrong}", lacks=name)

    async def _bring(self, name: str, whose: tuple[str, str, str], row: Fields) -> None:
        handle = self._db.named(name)
        remarks = len(self._report.skipped)
        state = self._state(name, row["state"])
        events = await self._events(name, whose)
        began = beginning([moment(row.get("create_time")), *[moment(event.timestamp) for event in events]])
        listed = handle.id if self._prefix else whose[2]
        metadata = card(*whose[:2], listed, state)
        why = await row_refusal(name=name, owner=whose[1], metadata=metadata | began, vars=state)
        if why is not None and state:
            self._report.skip(f"{name}: state", why, lacks=name)
            state, metadata = {}, card(*whose[:2], listed, {})
            why = await row_refusal(name=name, owner=whose[1], metadata=metadata | began)
        if why is not None:
            self._report.skip(name, why, lacks=name)
            return
        unread = len(self._report.skipped) > remarks
        try:
            await handle.version()
        except errors.NotFound:
            self._count(name, len(events))
            if not self._report.dry_run:
                row = {"metadata": metadata | began, "vars": state}
                await self._db.create(name=name, owner=whose[1], tags=(IMPORTING,), **row)
                await self._write(handle, await handle.version(), events)
                await handle.configure(tags=(INCOMPLETE,) if unread else ())
            return
        await self._fill(handle, name, (metadata, state), events, unread=unread)

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
        partial = IMPORTING in known.tags or INCOMPLETE in known.tags
        holds = await handle.vars()
        stateless = partial and bool(state) and not holds
        lacking = [f"event {id}" for id in found.missing] + ["its state"] * stateless
        behind = found.common < len(events) and (partial or bool(found.missing))
        if found.ordered and (stateless or behind or IMPORTING in known.tags):
            self._count(name, len(events) - found.held)
        elif lacking:
            why = _left_out(lacking) if partial else own_things(len(lacking) if found.common else 0)
            self._report.skip(name, why, lacks=name)
            return
        else:
            self._report.skip(name, THERE)
            behind = False
        if self._report.dry_run:
            return
        if stateless or behind:
            version = known.version
            if found.since is not None:
                version = await handle.retract(found.since, reason=FILLED, expected=version)
            note = Noted(by=BY, about=FILLED, data=len(lacking))  # or a rewind would take the retraction for its own
            changed = {key: value for key, value in state.items() if key not in holds or holds[key] != value}
            row, fields = ({**known.metadata, **metadata}, changed) if changed else (None, None)
            version = await handle.record(note, more=True, metadata=row, vars=fields, expected=version)
            await self._write(handle, version, events[found.common :])
        tags = tuple(tag for tag in known.tags if tag not in (IMPORTING, INCOMPLETE))
        tags = (*tags, INCOMPLETE) if unread and (partial or behind) else tags
        if tags != known.tags:
            await handle.configure(tags=tags)

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
                batch += dated(drafts(event, text), moment(event.timestamp))
                size += len(text)
        if batch:
            await handle.record(batch, more=not events[-1].is_final_response(), expected=version)

    async def _events(self, name: str, whose: tuple[str, str, str]) -> list[AdkEvent]:
        """The events that can be read, and fit."""
        found: list[tuple[AdkEvent, list[Draft]]] = []
        try:
            for row in self._source.rows(self._query, *whose):
                try:
                    event, doubt = self._read(row)
                    text = spelled(event)
                    AdkEvent.model_validate_json(text)  # as it will be read
                    found.append((event, drafts(event, text)))
                except (errors.Invalid, *DAMAGED) as wrong:
                    why = f"it cannot be read: {_first_line(wrong)}"
                    self._report.skip(f"{name}: event {row.get('id')}", why, lacks=name)
                    continue
                if doubt:
                    self._report.skip(f"{name}: actions of event {row.get('id')}", doubt)
        except errors.Invalid as wrong:
            self._report.skip(name, f"what follows cannot be read: {wrong.message}", lacks=name)
        fitting: list[AdkEvent] = []
        for (event, _), refused in zip(found, await refusals(said for _, said in found), strict=True):
            if refused is None:
                fitting.append(event)
            else:
                self._report.skip(f"{name}: event {event.id}", refused, lacks=name)
        return fitting

    def _state(self, name: str, held: Any) -> Fields:
        """State as vars hold it."""
        try:
            return kept(_decoded(held) or {})
        except DAMAGED as wrong:
            self._report.skip(f"{name}: state", f"it cannot be read: {_first_line(wrong)}", lacks=name)
            return {}


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
