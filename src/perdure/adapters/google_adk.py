"""Sessions of Google's Agent Development Kit in a perdure store: `PerdureSessionService(db)`.

One append makes an event durable together with every change of state that it carries, in the session, its user and its
app: all of it or nothing. The object in the caller's hands carries the revision it stands at; an append from an older
one is refused, and only then. `perdure.adapters.parts.google_adk_events` does the translating.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from copy import deepcopy
from hashlib import sha256
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from perdure import AsyncPerdure, AsyncSession, Perdure, errors
from perdure.adapters.parts.conversations import is_conversation
from perdure.adapters.parts.needing import Extra, store_of
from perdure.events import Event

with Extra("google-adk"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event as AdkEvent
    from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
    from google.adk.sessions.session import Session
    from google.adk.sessions.state import State
    from typing_extensions import override

    from perdure.adapters.parts.google_adk_events import (
        MODEL,
        ROLES,
        TELLING,
        Document,
        drafts,
        given,
        history,
        kept,
        lasting,
        scopes,
        spelled,
    )
    from perdure.adapters.parts.google_adk_rows import (
        APP,
        LISTED,
        MARK,
        SESSION,
        SHARED,
        USER,
        SessionsPage,
        app_state_name,
        card,
        marker,
        session_name,
        session_of,
        user_state_name,
    )

PAGE: Final = 1000


__all__ = ["PerdureSessionService", "SessionsPage", "app_state_name", "rewound", "session_name", "user_state_name"]


class PerdureSessionService(BaseSessionService):
    """Keeps ADK's sessions in a perdure store. It holds nothing itself: several, in several processes, work as one.

    What an assistant said in another framework is by `agent`: with the name of the agent that runs it is that agent's
    own word, else ADK hands it on as a quotation. Unless sessions are `shared`, only those are opened that ADK made.
    """

    def __init__(self, db: Perdure | AsyncPerdure, *, agent: str = MODEL, shared: bool = True) -> None:
        if type(agent) is not str or agent in ("", *ROLES):
            raise errors.Invalid(f"agent is the name of an agent, not {agent!r}")
        self._agent = agent
        self._shared = shared
        self._db = store_of(db, "PerdureSessionService")
        self._made: set[str] = set()
        self._queues: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    # ── ADK's interface ──

    @override
    async def create_session(
        self, *, app_name: str, user_id: str, state: Document | None = None, session_id: str | None = None
    ) -> Session:
        """Begin a session; `AlreadyExistsError` when the id is taken."""
        wanted = (session_id or "").strip()
        if wanted and await self._found(app_name, user_id, wanted) is not None:
            raise AlreadyExistsError(f"Session with id {wanted} already exists; choose another, or get that one.")
        chosen = wanted or AdkEvent.new_id()
        own, app, user = scopes(state or {})
        for shared, fields in await self._others(app_name, user_id, app, user):
            await shared.patch_vars(**fields)
        document = kept(own)
        try:
            made = await self._db.create(
                name=session_name(app_name, user_id, chosen),
                owner=user_id,
                metadata=card(app_name, user_id, chosen, document),
                vars=document,
            )
        except errors.AlreadyExists:
            raise AlreadyExistsError(f"Session with id {chosen} already exists; choose another.") from None
        row = await made.info()
        merged = {**own, **await self._common(app_name, user_id)}
        return session_of(
            app_name, user_id, chosen, merged, [], row.created_at / 1_000_000, marker(made.id, row.version)
        )

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session as it stands, whole or its latest events; None when there is no such session."""
        found = await self._found(app_name, user_id, session_id)
        if found is None:
            return None
        handle, chosen = found
        now = await handle.state()
        events, updated = await self._read(handle, now.version, config or GetSessionConfig())
        merged = {**given(now.vars.document), **await self._common(app_name, user_id)}
        at = updated if updated is not None else now.origin.created_at / 1_000_000
        return session_of(app_name, user_id, chosen, merged, events, at, marker(handle.id, now.version))

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, or of one of its users, with state and without events; the one used last is last."""
        rows = await self._rows(_wanted(app_name, user_id))
        found = await self._listed(app_name, rows, await self._holding(app_name) if user_id is None else [user_id])
        found.sort(key=_used)
        return ListSessionsResponse(sessions=found)

    async def list_page(
        self, *, app_name: str, user_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> SessionsPage:
        """A page of what `list_sessions` gives whole, the latest sessions first. It costs what its rows cost, however
        many sessions there are.
        """
        page = await self._db.find(metadata=_wanted(app_name, user_id), limit=limit, cursor=cursor)
        users = {str(row.metadata.get(USER, "")) for row in page.items}
        return SessionsPage(sessions=await self._listed(app_name, page.items, users), cursor=page.cursor)

    async def _listed(self, app_name: str, rows: Sequence[Any], users: Iterable[str]) -> list[Session]:
        """The sessions of these rows, without events; the users are those who may hold something."""
        app = await self._vars(app_state_name(app_name), State.APP_PREFIX)
        common = {
            user: {**app, **await self._vars(user_state_name(app_name, user), State.USER_PREFIX)} for user in users
        }
        found: list[Session] = []
        for row in rows:
            meta = row.metadata
            user, listed = str(meta.get(USER, "")), meta.get(LISTED)
            # A branch goes by its own id: the session it was made from has the other one.
            chosen = row.session if row.parent is not None else str(meta.get(SESSION, row.session))
            if type(listed) is str:
                state = msgspec.json.decode(listed)
            elif (state := await self._document(self._db.named(row.session))) is None:
                continue  # erased meanwhile
            merged, more = given(state), common.get(user, app)
            if more:
                merged.update(deepcopy(more))
            at, mark = row.active_at / 1_000_000, marker(row.session, row.version)
            found.append(session_of(app_name, user, chosen, merged, [], at, mark))
        return found

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session for good; what its user and its app hold stays."""
        found = await self._found(app_name, user_id, session_id)
        with suppress(errors.NotFound):
            if found is not None:
                await found[0].erase()

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> Document:
        """What a user holds in an app, without the prefix."""
        return await self._vars(user_state_name(app_name, user_id))

    @override
    async def append_event(self, session: Session, event: AdkEvent) -> AdkEvent:
        """Make an event and all the state it changes durable in one append, and take it into the object.

        `StaleSessionError` when somebody else wrote to the session since the object was read, and only then. Handing in
        the same event again changes nothing.
        """
        if event.partial:
            return event
        async with self._queue(session_name(session.app_name, session.user_id, session.id)):
            try:
                handle, version = await self._seen(session)
                written = await self._appended(handle, version, session, lasting(event))
            except errors.NotFound:
                raise SessionNotFoundError(f"Session {session.id} not found; create it first.") from None
            if written > version:  # else it was there already, and the object has it
                await super().append_event(session, event)
                session.last_update_time = event.timestamp
                session._storage_update_marker = marker(handle.id, written)
        return event

    # ── writing ──

    def _queue(self, session: str) -> asyncio.Lock:
        """Appends to one session come one after the other, however many tasks share the object."""
        try:
            loop = id(asyncio.get_running_loop())
        except RuntimeError:  # driven by a blocking caller
            loop = 0
        return self._queues.setdefault((loop, session), asyncio.Lock())

    async def _appended(self, handle: AsyncSession, version: int, session: Session, event: AdkEvent) -> int:
        """As `_append`, also when what the app or the user shares was erased underneath."""
        try:
            return await self._append(handle, version, session, event)
        except errors.NotFound:
            self._made.clear()
            return await self._append(handle, version, session, event)

    async def _append(self, handle: AsyncSession, version: int, session: Session, event: AdkEvent) -> int:
        """Write an event on what the object stands for; the new version, or the old one when it was written before."""
        own, app, user = scopes(event.actions.state_delta)
        others = await self._others(session.app_name, session.user_id, app, user)
        text, changed = spelled(event), kept(own)
        while True:
            try:
                return await handle.record(
                    drafts(event, text),
                    more=not event.is_final_response(),
                    vars=changed,
                    others={other.id: fields for other, fields in others},
                    metadata=await self._card(handle, session, changed),
                    replacing=await rewound(handle, version, event.actions.rewind_before_invocation_id),
                    expected=version,
                    key=f"adk:{sha256(text.encode()).hexdigest()}",
                )
            except errors.KeyReused:  # the same event, from when the session held other things
                return version
            except errors.VersionConflict:
                version = await self._undisturbed(handle, version)

    async def _undisturbed(self, handle: AsyncSession, version: int) -> int:
        """The version a session has come to since, if that changed nothing ADK knows of; else `StaleSessionError`."""
        since = await handle.events(after=version)
        if not since or any(event.kind in TELLING for event in since) or history(since):
            raise StaleSessionError(
                "The session has been modified in storage since it was loaded; get it again before appending to it."
            )
        return since[-1].version

    async def _seen(self, session: Session) -> tuple[AsyncSession, int]:
        """The session that an object stands for, and the version it stands at."""
        named = self._db.named(session_name(session.app_name, session.user_id, session.id))
        mark, _, id = (session._storage_update_marker or "").removeprefix(MARK).partition(":")
        if mark.isdecimal() and id:
            if id == named.id:
                return named, int(mark)
            if session.id and (other := self._db.named(session.id)).id == id:
                return other, int(mark)
        found = await self._found(session.app_name, session.user_id, session.id)
        if found is None:
            raise errors.NotFound(f"no session {session.id} here; create it first")
        handle = found[0]
        version = await handle.version()
        latest, updated = await self._read(handle, version, GetSessionConfig(num_recent_events=1))
        behind = updated is not None and updated > session.last_update_time
        if behind and [event.id for event in session.events[-1:]] != [event.id for event in latest]:
            raise StaleSessionError("The session has been modified in storage since the object was made; get it again.")
        return handle, version

    async def _others(
        self, app_name: str, user_id: str, app: Document, user: Document
    ) -> list[tuple[AsyncSession, Document]]:
        """The sessions that hold what an app and a user share, made if need be, and what changes there."""
        found: list[tuple[AsyncSession, Document]] = []
        for name, owner, fields in (
            (app_state_name(app_name), "", app),
            (user_state_name(app_name, user_id), user_id, user),
        ):
            if fields:
                shared = self._db.named(name)
                if shared.id not in self._made:
                    with suppress(errors.AlreadyExists):
                        await self._db.create(name=name, owner=owner, metadata={SHARED: app_name})
                    self._made.add(shared.id)
                found.append((shared, kept(fields)))
        return found

    async def _card(self, handle: AsyncSession, session: Session, changed: Document) -> Document | None:
        """What the session's row shall say from now on; None when it says so already."""
        ours = handle.id == self._db.named(session_name(session.app_name, session.user_id, session.id)).id
        if ours and not changed:
            return None
        now = await handle.state()
        found = now.origin.metadata
        if not changed and APP in found:
            return None
        chosen = found.get(SESSION, session.id)
        return {**found, **card(session.app_name, session.user_id, chosen, {**now.vars.document, **changed})}

    # ── reading ──

    async def _found(self, app_name: str, user_id: str, session_id: str) -> tuple[AsyncSession, str] | None:
        """The session an id leads to, and how it is spelled: one of ADK's, or any that has this id and is nobody
        else's.
        """
        for spelling in dict.fromkeys((session_id, session_id.strip())):
            handle = self._db.named(session_name(app_name, user_id, spelling))
            with suppress(errors.NotFound):
                await handle.version()
                return handle, spelling
        with suppress(errors.NotFound, errors.Invalid):
            handle = await self._db.session(session_id.strip())
            row = await handle.info()
            theirs = row.metadata.get(APP, app_name), row.metadata.get(USER, user_id)
            ours = (self._shared or APP in row.metadata) and is_conversation(row.metadata)
            if theirs == (app_name, user_id) and row.owner in ("", user_id) and ours:
                return handle, session_id.strip()
        return None

    async def _read(
        self, handle: AsyncSession, version: int, config: GetSessionConfig
    ) -> tuple[list[AdkEvent], float | None]:
        """The events up to a version that are asked for, and the time of the latest there is. Reads no further back
        than it must.
        """
        count, after = config.num_recent_events, config.after_timestamp
        pairs: list[tuple[int, AdkEvent]] = []
        if count is None and not after:
            pairs = history(await handle.events(upto=version), self._agent)
        else:
            known: list[Event] = []
            looked, wanted = 0, max(1, count or 0)
            async with aclosing(handle.backwards(min(wanted + 4, PAGE))) as pages:
                async for page in pages:
                    known += [event for event in page if event.version <= version]
                    if len(known) < 2 * looked:
                        continue
                    looked, pairs = len(known), history(reversed(known), self._agent)
                    late = [event for _, event in pairs if not after or event.timestamp >= after]
                    if len(late) >= wanted and count is not None:
                        break
                    if after and pairs and len(late) < len(pairs) and known[-1].at < after * 1_000_000:
                        break
            if len(known) > looked:
                pairs = history(reversed(known), self._agent)
        events = [event for _, event in pairs if not after or event.timestamp >= after]
        events = events if count is None else events[len(events) - min(count, len(events)) :]
        return events, pairs[-1][1].timestamp if pairs else None

    async def _rows(self, metadata: Document) -> list[Any]:
        """The rows of all sessions with this metadata. Sessions that are used meanwhile keep their place."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            page = await self._db.find(metadata=metadata, limit=PAGE, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                return found

    async def _holding(self, app_name: str) -> list[str]:
        """The users who hold something in an app."""
        return [row.owner for row in await self._rows({SHARED: app_name}) if row.owner]

    async def _document(self, handle: AsyncSession) -> Document | None:
        try:
            return await handle.vars()
        except errors.NotFound:
            return None

    async def _vars(self, name: str, prefix: str = "") -> Document:
        document = await self._document(self._db.named(name))
        return {prefix + key: value for key, value in given(document or {}).items()}

    async def _common(self, app_name: str, user_id: str) -> Document:
        """What a session shares with others, with the prefixes."""
        app = await self._vars(app_state_name(app_name), State.APP_PREFIX)
        return {**app, **await self._vars(user_state_name(app_name, user_id), State.USER_PREFIX)}


def _wanted(app_name: str, user_id: str | None) -> Document:
    return {APP: app_name} if user_id is None else {APP: app_name, USER: user_id}


def _used(session: Session) -> tuple[float, str, str]:
    return session.last_update_time, session.user_id, session.id


async def rewound(handle: AsyncSession, version: int, invocation: str | None) -> int | None:
    """The version from which on a rewind takes words out of the conversation; None when there are none."""
    if not invocation:
        return None
    events = history(await handle.events(upto=version))
    return next((first for first, event in events if event.invocation_id == invocation), None)
