"""Sessions for the OpenAI Agents SDK.

>>> import asyncio, perdure
>>> from perdure.adapters.openai_agents import PerdureSession
>>> with perdure.open(":memory:") as db:
...     session = PerdureSession("lisbon", db)
...     asyncio.run(session.add_items([{"role": "user", "content": "Find me a flight"}]))
...     asyncio.run(session.get_items())
[{'role': 'user', 'content': 'Find me a flight'}]

The session's id is the name of a perdure session: `db.named("lisbon")` is the same one, and so is the thread or
session of that name in every other framework.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import msgspec

from perdure import AsyncPerdure, AsyncSession, Perdure, errors, unbroken
from perdure.adapters.parts import responses
from perdure.adapters.parts.histories import NOTHING, History, Place
from perdure.adapters.parts.making import made
from perdure.adapters.parts.needing import Extra, store_of
from perdure.adapters.parts.recent import Recent
from perdure.events import Spoken

with Extra("openai-agents"):
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

if TYPE_CHECKING:
    from agents import RunContextWrapper, TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs

Compact = Callable[
    [list["TResponseInputItem"]], "list[TResponseInputItem] | Awaitable[list[TResponseInputItem] | None] | None"
]
APPEND = 4096
"""How many events one append takes."""
KEPT: Final = 64
"""Of so many sessions of a store it is remembered what was read last."""
_seen: "WeakKeyDictionary[AsyncPerdure, Recent[str, History]]" = WeakKeyDictionary()


class Snapshot(msgspec.Struct, frozen=True):
    """The end of the history as the SDK's own compaction wants it, and the way to replace it."""

    items: "list[TResponseInputItem]"
    complete: bool
    replace_suffix: "Callable[[int, list[TResponseInputItem]], Awaitable[bool]]"


class PerdureSession:
    """A session of the OpenAI Agents SDK in a perdure store: `Runner.run(agent, "…", session=PerdureSession("a", db))`.

    It is made when something is first added. What is popped or cleared leaves the conversation, not the log;
    `db.named(session_id).erase()` destroys it. With `compact`, which is given the items and answers with those to
    keep in their place (or None), the runner offers a compaction after every run.
    """

    session_id: str
    session_settings: SessionSettings | None
    run_compaction: "Callable[..., Awaitable[None]] | None"

    def __init__(
        self,
        session_id: str,
        db: Perdure | AsyncPerdure,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        *,
        compact: Compact | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings if session_settings is not None else {})
        self.run_compaction = None if compact is None else self._run_compaction
        self._compact = compact
        self._db = store_of(db, "PerdureSession", session_id)
        self._seen = _seen.setdefault(self._db, Recent(KEPT))

    def __repr__(self) -> str:
        return f"PerdureSession({self.session_id!r})"

    @property
    def _session(self) -> AsyncSession:
        return self._db.named(self.session_id)

    # ── the four methods of a session ──

    async def get_items(
        self, limit: int | None = None, *, wrapper: "RunContextWrapper[Any] | None" = None
    ) -> "list[TResponseInputItem]":
        """The history, or its latest items, oldest first; a negative limit is none."""
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted == 0:
            return []
        history = await self._history(wanted if wanted is None or wanted > 0 else None)
        return cast("list[TResponseInputItem]", history.latest(wanted, whole=True))

    async def add_items(
        self, items: "list[TResponseInputItem]", *, wrapper: "RunContextWrapper[Any] | None" = None
    ) -> None:
        """Add to the history, as one durable append."""
        for payloads in appends(responses.written(items)):
            await unbroken(self._record(payloads))

    async def pop_item(self, *, wrapper: "RunContextWrapper[Any] | None" = None) -> "TResponseInputItem | None":
        """Take the latest item out of the conversation; of several who pop at once each gets another one."""
        return cast("TResponseInputItem | None", await unbroken(self._pop()))

    async def clear_session(self, *, wrapper: "RunContextWrapper[Any] | None" = None) -> None:
        """Take everything out of the conversation."""
        await unbroken(self._clear())

    # ── behind them ──

    async def _history(self, wanted: int | None) -> History:
        """The history as it stands, or as much of its end as is wanted: what was seen of it, and what came since."""
        session = self._session
        seen = self._seen.get(session.id)
        try:
            row = await session.info()
            place = Place(row.created_at, row.version, row.digest)
            if seen is None or not seen.serves(place, wanted):
                seen = None
            elif seen.place.version < place.version:
                seen = seen.after(place, await session.events(seen.place.version, place.version))
            if seen is None:
                seen = History.of(place, await session.conversation(wanted), wanted)
        except errors.NotFound:
            self._seen.pop(session.id, None)
            return NOTHING
        self._seen.keep(session.id, seen)
        return seen

    async def _record(self, payloads: Sequence[Spoken]) -> None:
        try:
            await self._session.record(payloads)
        except errors.NotFound:
            await made(self._db, self.session_id)
            await self._session.record(payloads)

    async def _pop(self) -> dict[str, Any] | None:
        session = self._session
        while True:
            try:
                version = await session.version()
                found = await session.conversation(1)
                if not found:
                    return None
                item, spelled = found[-1], responses.spelled(found[-1])
                if len(spelled) > 1:  # another framework's item, which is several here: all but the last stay
                    rest = [payload for group in responses.written(spelled[:-1]) for payload in group]
                    await session.record(rest, replacing=item.first, expected=version)
                else:
                    await session.retract(item.first, reason="popped", expected=version)
            except errors.VersionConflict:
                continue
            except errors.NotFound:
                return None
            if spelled:
                return spelled[-1]

    async def _clear(self) -> None:
        try:
            await self._session.retract(1, reason="cleared")
        except errors.NotFound:
            return

    # ── compaction ──

    async def _run_compaction(
        self,
        args: "OpenAIResponsesCompactionArgs | None" = None,
        *,
        wrapper: "RunContextWrapper[Any] | None" = None,
    ) -> None:
        """Offer the history to `compact`, and put what it answers in its place unless the history went on."""
        snapshot = await self._get_compaction_snapshot(None)
        if self._compact is None or not snapshot.items:
            return
        answer = self._compact(snapshot.items)
        kept = await answer if inspect.isawaitable(answer) else answer
        if kept is not None:
            await snapshot.replace_suffix(0, kept)

    async def _get_compaction_snapshot(
        self, limit: int | None, *, prune_prefix: "Callable[[TResponseInputItem], bool] | None" = None
    ) -> Snapshot:
        """What `OpenAIResponsesCompactionSession` asks of a store that replaces the end of a history in one step.
        Older items stay, also those `prune_prefix` would let go.
        """
        history = await self._history(None if limit is None else limit + 1)
        complete = limit is None or len(history.entries) <= limit
        seen = history.entries if limit is None else history.entries[-limit:]

        async def replace_suffix(start: int, output: "list[TResponseInputItem]") -> bool:
            return await unbroken(self._replace([entry.first for entry in seen], start, output))

        items = cast("list[TResponseInputItem]", history.latest(limit))
        return Snapshot(items, complete, replace_suffix)

    async def _atomic_replace_items(self, items: "list[TResponseInputItem]") -> bool:
        """What `OpenAIResponsesCompactionSession` asks of a store that replaces a whole history in one step."""
        return await unbroken(self._replace(None, 0, items))

    async def _replace(self, seen: list[int] | None, start: int, output: Sequence[Any]) -> bool:
        """Put items in the place of the latest ones; False if those are no longer the latest."""
        groups = appends(responses.written(output))
        if len(groups) > 1 or (seen is not None and start >= len(seen)):
            return False
        first = 1 if seen is None else seen[start]
        if seen is not None and start and seen[start - 1] == first:
            return False  # it would cut another framework's item in two
        session = self._session
        while True:
            try:
                version = await session.version()
                if seen is not None:
                    now = await self._history(len(seen))
                    if [entry.first for entry in now.entries[-len(seen) :]] != seen:
                        return False
                if groups:
                    await session.record(groups[0], replacing=first, expected=version)
                else:
                    await session.retract(first, reason="compacted", expected=version)
            except errors.VersionConflict:
                continue
            except errors.NotFound:
                return False
            return True


def appends(groups: Sequence[Sequence[Spoken]]) -> list[list[Spoken]]:
    """The payloads of items in as few appends as they take: one, unless there are thousands."""
    found: list[list[Spoken]] = []
    for group in groups:
        if not found or len(found[-1]) + len(group) > APPEND:
            found.append([])
        found[-1] += group
    return found
