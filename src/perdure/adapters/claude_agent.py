"""Sessions of the Claude Agent SDK, kept by perdure: `ClaudeAgentOptions(session_store=PerdureSessionStore(db))`.

>>> import perdure
>>> from perdure.adapters.claude_agent import PerdureSessionStore
>>> key = {"project_key": "demo", "session_id": "6f2c8a4e-3d1b-4c7f-9a05-1b2c3d4e5f60"}
>>> entry = {"type": "user", "uuid": "a", "message": {"role": "user", "content": "Find me a flight"}}
>>> with perdure.open(":memory:") as db:
...     store = PerdureSessionStore(db)
...     perdure.drive(store.append(key, [entry]))
...     perdure.drive(store.load(key)) == [entry]
True

Each transcript, a nested agent's too, is a session of its own, named after its key. Invariants: an append is one
durable append as far as that has room, the summary changes with it or not at all, and no entry with a uuid is there
twice, whoever appended it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

import perdure
from perdure import errors
from perdure.adapters.parts.conversations import is_conversation
from perdure.adapters.parts.following import Following
from perdure.adapters.parts.making import made
from perdure.adapters.parts.needing import Extra, store_of
from perdure.events import Event, Message, Noted, ToolAsked, ToolFinished

with Extra("claude-agent"):
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )

    from perdure.adapters.parts import claude_entries as entries_
    from perdure.adapters.parts.claude_chains import calls_of, forms_of, stand_in
    from perdure.adapters.parts.claude_entries import BY, Entry, Kept

PROJECT: Final = "claude_project"
SESSION: Final = "claude_session"
SUBPATH: Final = "claude_subpath"
SUMMARY: Final = "claude_summary"
MAX_EVENTS: Final = 2000
"""So many events of entries go into one append; turns begin and end between them, and an append takes 4096."""
MAX_BYTES: Final = 16 << 20
_PAGE: Final = 1000
_TITLE: Final = 200
_MILLISECOND: Final = 1000


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a transcript is kept: what its key says."""

    project: str
    session: str
    subpath: str = ""

    @property
    def name(self) -> str:
        """The name of its session: no two keys have the same."""
        parts = [part.replace("%", "%25").replace("/", "%2F") for part in (self.project, self.session)]
        return "/".join(["claude", *parts, self.subpath] if self.subpath else ["claude", *parts])

    @property
    def marks(self) -> dict[str, Any]:
        """How it is found again."""
        return {PROJECT: self.project, SESSION: self.session, SUBPATH: self.subpath}


def place_of(key: Mapping[str, Any]) -> Place:
    """The place a key names, or `Invalid`."""
    if not isinstance(key, Mapping):
        raise errors.Invalid("a session key is a dict with project_key and session_id", key=repr(key)[:_TITLE])
    project, session, subpath = key.get("project_key"), key.get("session_id"), key.get("subpath")
    if not (type(project) is str and project and type(session) is str and session):
        raise errors.Invalid("a session key needs a project_key and a session_id, both texts")
    if subpath is None:
        return Place(project=project, session=session)
    if type(subpath) is not str or not subpath:
        raise errors.Invalid("a subpath is a text that is not empty; leave it out for the main transcript")
    return Place(project=project, session=session, subpath=subpath)


class _Seen:
    """What is there already: the uuids of entries, and whether the transcript is a side chain as a whole."""

    def __init__(self) -> None:
        self.uuids: set[str] = set()
        self.side: bool | None = None
        self.any = False

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log."""
        for event in events:
            payload = event.data
            if isinstance(payload, Noted):
                if payload.by == BY:
                    self._entry(payload.data)
            elif isinstance(payload, Message | ToolAsked | ToolFinished):
                if calls_of(payload):
                    self.uuids.add(stand_in(event.id))
                mark = payload.metadata.get("native")
                if type(mark) is not dict or mark.get("by") != BY:
                    self.uuids.add(event.id)  # what others said goes by its event's id
                    self.any = True
                elif "item" in mark:
                    self._entry(mark["item"])

    def _entry(self, form: Any) -> None:
        self.any = True
        if (uuid := entries_.uuid_of(form)) is not None:
            self.uuids.add(uuid)
        if self.side is None and type(form) is dict and "isSidechain" in form:
            self.side = form["isSidechain"] is True


class PerdureSessionStore(SessionStore):
    """The Claude Agent SDK's session store on a perdure store, with every optional method.

    With `shared`, a `session_id` by which another framework's session goes opens that one: its conversation is read as
    transcript entries and goes on in Claude. Project keys keep apart what Claude began, not what others did.
    """

    def __init__(self, db: perdure.Perdure | perdure.AsyncPerdure, *, shared: bool = True) -> None:
        self._db = store_of(db, "PerdureSessionStore")
        self._shared = shared
        self._following: Following[_Seen] = Following(_Seen)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Make entries durable, in order; those whose uuid is there already are passed over."""
        await self.bring(key, entries)

    async def bring(
        self, key: SessionKey, entries: Sequence[Mapping[str, Any]], marks: Mapping[str, Any] | None = None
    ) -> int:
        """Append, and say how many entries were new; `marks` go into the session's metadata with the last of them."""
        place = place_of(key)
        stretches = list(_stretches([_kept(entry) for entry in entries]))
        added = 0
        for number, stretch in enumerate(stretches, 1):
            added += await self._write(place, stretch, dict(marks or {}) if number == len(stretches) else {})
        return added

    async def _write(self, place: Place, stretch: list[Kept], marks: dict[str, Any]) -> int:
        """One append of what is new in a stretch, on the log as it stands."""
        while True:
            session, seen, version = await self._ready(place)
            fresh = _fresh(seen, stretch)
            if not fresh and not marks:
                return 0
            fresh = [await self._put_beside(session, item) for item in fresh]
            row = await session.info()
            metadata, title = _listing(place, row, [item.entry for item in fresh])
            if row.name is None and row.session == self._db.named(place.name).id:
                metadata.setdefault("name", place.name)  # made before titles left the name in its place
            aside = list(_aside(fresh, seen, place))
            payloads = [one for item, off in zip(fresh, aside, strict=True) for one in entries_.payloads_of(item, off)]
            try:
                if payloads:
                    more = entries_.goes_on(item.entry for item, off in zip(fresh, aside, strict=True) if not off)
                    await session.record(
                        payloads, more=more, title=title, metadata={**metadata, **marks}, expected=version
                    )
                else:
                    await session.configure(metadata={**metadata, **marks}, expected=version)
            except (errors.VersionConflict, errors.NotFound):
                continue  # somebody was first: look at what is there now
            return len(fresh)

    async def _ready(self, place: Place) -> tuple[perdure.AsyncSession, _Seen, int]:
        """The session of a place, made if there is none."""
        while True:
            found = await self._find(place)
            if found is not None:
                return found
            await made(self._db, place.name, title=place.subpath[:_TITLE], metadata=place.marks)

    async def _find(self, place: Place) -> tuple[perdure.AsyncSession, _Seen, int] | None:
        """The session of a place as it stands, or the one that goes by its session_id elsewhere."""
        session = self._db.named(place.name)
        found = await self._following.at(session)
        if found is None and self._shared and not place.subpath:
            session = self._db.named(place.session)
            found = await self._following.at(session)
            if found is not None and not await self._opens(session, place):
                return None
        return None if found is None else (session, *found)

    async def _opens(self, session: perdure.AsyncSession, place: Place) -> bool:
        """Whether a session of others may be opened from a place: it is one to talk in, and nobody did yet, or this
        place did.
        """
        try:
            found = (await session.info()).metadata
        except errors.NotFound:
            return False
        marks = place.marks.items()
        return is_conversation(found) and all(name not in found or found[name] == mark for name, mark in marks)

    async def _put_beside(self, session: perdure.AsyncSession, found: Kept) -> Kept:
        if found.beside is None:
            return found
        ref = await session.attach(found.beside, media_type="application/json", name="entry.json")
        return entries_.beside(found, ref)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every entry, in order; None for a key that was never written."""
        place = place_of(key)
        found = await self._find(place)
        if found is None or not found[1].any:
            return None
        try:
            events = await found[0].events()
        except errors.NotFound:
            return None
        return [
            cast(SessionStoreEntry, entry)
            for form in forms_of(events, place.session)
            if (entry := await self._entry(form)) is not None
        ] or None

    async def _entry(self, form: Any) -> Entry | None:
        found = entries_.entry_of(form)
        if isinstance(found, perdure.Ref):
            loaded: Entry = json.loads(await self._db.blobs.get(found, limit=1 << 40))
            return loaded
        return found

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The main transcripts of a project, with the time of their last append."""
        return [
            {"session_id": row.metadata[SESSION], "mtime": row.active_at // _MILLISECOND}
            for row in await self._rows({PROJECT: project_key, SUBPATH: ""})
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of a project's main transcripts, from the listing alone."""
        return [_summary(row) for row in await self._rows({PROJECT: project_key, SUBPATH: ""})]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths under a session, oldest first."""
        place = place_of(cast(Mapping[str, Any], key))
        rows = await self._rows({PROJECT: place.project, SESSION: place.session})
        return [row.metadata[SUBPATH] for row in reversed(rows) if row.metadata[SUBPATH]]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript for good, and with a main one everything under it."""
        place = place_of(key)
        if not place.subpath:
            for row in await self._rows({PROJECT: place.project, SESSION: place.session}):
                if row.metadata[SUBPATH]:
                    await self._erase(self._db.named(row.session))
        found = await self._find(place)
        if found is not None:
            await self._erase(found[0])

    async def _erase(self, session: perdure.AsyncSession) -> None:
        try:
            await session.erase()
        except errors.NotFound:
            pass
        self._following.forget(session.id)

    async def _rows(self, metadata: dict[str, Any]) -> list[Any]:
        """The rows of sessions with these marks, newest first."""
        found: list[Any] = []
        cursor = None
        while True:
            page = await self._db.find(metadata=metadata, limit=_PAGE, cursor=cursor)
            found += [row for row in page.items if type(row.metadata.get(SUBPATH)) is str and SESSION in row.metadata]
            cursor = page.cursor
            if cursor is None:
                return found


# ── what goes into an append ──


def _kept(entry: Any) -> Kept:
    if type(entry) is not dict:
        raise errors.Invalid("an entry is a dict, one line of a transcript", entry=type(entry).__name__)
    if not isinstance(about := entry.get("type"), str | None):
        raise errors.Invalid("the type of an entry is a text, like 'user'", type=type(about).__name__)
    try:
        return entries_.kept(entry)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise errors.Invalid(f"an entry is what JSON can spell: {wrong}") from wrong


def _stretches(found: list[Kept]) -> Iterator[list[Kept]]:
    """The entries in appends that have room for them; nearly always one."""
    stretch: list[Kept] = []
    events = size = 0
    for item in found:
        count = len(entries_.payloads_of(item))
        if stretch and (events + count > MAX_EVENTS or size + item.size > MAX_BYTES):
            yield stretch
            stretch, events, size = [], 0, 0
        stretch.append(item)
        events, size = events + count, size + item.size
    if stretch:
        yield stretch


def _fresh(seen: _Seen, stretch: list[Kept]) -> list[Kept]:
    """What is not there yet, each uuid once."""
    found: list[Kept] = []
    known: set[str] = set()
    for item in stretch:
        uuid = entries_.uuid_of(item.form)
        if uuid is not None and (uuid in seen.uuids or uuid in known):
            continue
        if uuid is not None:
            known.add(uuid)
        found.append(item)
    return found


def _aside(fresh: list[Kept], seen: _Seen, place: Place) -> Iterator[bool]:
    """Which entries are a nested agent's among the main agent's own, and so no part of the conversation."""
    side = seen.side
    for item in fresh:
        marked = item.entry.get("isSidechain")
        side = marked is True if side is None and marked is not None else side
        yield marked is True and not side and not place.subpath


# ── summaries ──


def _key(place: Place) -> SessionKey:
    return {"project_key": place.project, "session_id": place.session}


def _summary(row: Any) -> SessionSummaryEntry:
    data = row.metadata.get(SUMMARY)
    return {
        "session_id": row.metadata[SESSION],
        "mtime": row.active_at // _MILLISECOND,
        "data": dict(data) if type(data) is dict else {},
    }


def _listing(place: Place, row: Any, entries: list[Entry]) -> tuple[dict[str, Any], str | None]:
    """The metadata after these entries, and the title if they give the session another one; what people or other
    frameworks called it stays.
    """
    metadata = {**row.metadata, **place.marks}
    if place.subpath:
        return metadata, None
    before = _summary(msgspec.structs.replace(row, metadata=metadata))
    after = fold_session_summary(before, _key(place), cast(list[SessionStoreEntry], entries))
    title = _title(after)
    metadata[SUMMARY] = _storable(after["data"])
    return metadata, title if title and row.title in ("", place.name, _title(before)) else None


def _title(summary: SessionSummaryEntry) -> str:
    """What people call the session."""
    titles = (summary["data"].get(name) for name in ("custom_title", "ai_title", "first_prompt"))
    found = next((title for title in titles if type(title) is str and title), "")
    return re.sub(r"\s+", " ", _storable(found))[:_TITLE]


def _storable(value: Any) -> Any:
    """A summary as the listing keeps it."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
