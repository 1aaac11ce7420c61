"""Conversations of Pydantic AI, in a perdure store.

>>> import asyncio, perdure
>>> from pydantic_ai import Agent
>>> from pydantic_ai.conversation import Conversation
>>> from pydantic_ai.models.test import TestModel
>>> from perdure.adapters.pydantic_ai import PerdureConversationStore
>>> async def talk(store):
...     before = await store.load("lisbon") or Conversation(conversation_id="lisbon")
...     answer = await Agent(TestModel(custom_output_text="TP 123")).run("Find me a flight", conversation=before)
...     return len(await store.save(answer))
>>> with perdure.open(":memory:") as db:
...     asyncio.run(talk(PerdureConversationStore(db)))
...     [message.content for turn in db.named("lisbon").turns() for message in turn.messages]
2
['Find me a flight', 'TP 123']

A conversation's id is the name of a perdure session: `db.named("lisbon")` is the same one, and so is the thread or
session of that name in every other framework.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from perdure import AsyncPerdure, AsyncSession, Perdure, errors
from perdure.adapters.parts.conversations import is_conversation
from perdure.adapters.parts.making import made
from perdure.adapters.parts.needing import Extra, store_of
from perdure.events import Noted, Payload, Spoken, native

with Extra("pydantic-ai"):
    import pydantic
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )

    from perdure.adapters.parts import pydantic_messages as messages
    from perdure.adapters.parts.pydantic_entries import BY, arranged, enough, kept, written
    from perdure.adapters.parts.pydantic_lines import ASIDE, MOVED, RECORD, Reading, Trail, Unit
    from perdure.adapters.parts.pydantic_reading import LISTED, MARK, Lines

SCOPE: Final = "pydantic_ai_scope"
ROUNDS: Final = 1000
"""How often a write is tried again while others write to the same session."""
_RECORDS: Final = pydantic.TypeAdapter(
    list[ConversationRecord], config=pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class Present(msgspec.Struct, frozen=True):
    """A session as it stands, and the conversation's record if there is one; `fresh` if nobody has written to it."""

    session: AsyncSession
    version: int
    metadata: dict[str, Any]
    record: ConversationRecord | None
    fresh: bool


class PerdureConversationStore(ConversationStore):
    """A `ConversationStore` of Pydantic AI: every conversation is a session, every save one durable append.

    A conversation begun in another framework loads under its session's name or id, and what others add to one of ours
    is part of it. Deleting a conversation erases its session; what its forks share with it stays theirs.
    """

    def __init__(self, db: Perdure | AsyncPerdure) -> None:
        self._db = store_of(db, "PerdureConversationStore")
        self._lines = Lines(self._db)

    # ── reading ──

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; one of a session that only others have written to covers what they wrote."""
        present = await self._present(self._db.named(conversation_id), conversation_id)
        return None if present is None else present.record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records of the conversations saved here, newest first. With a limit, sessions that nobody has written
        to for a day longer than that are not looked at.
        """
        if limit == 0:
            return []
        wanted = {BY: MARK} | ({} if scope is None else {SCOPE: scope})
        found: list[ConversationRecord] = []
        cursor: str | None = None
        while True:
            page = await self._db.find(metadata=wanted, order="active", limit=LISTED, cursor=cursor)
            for row in page.items:
                present = await self._present(self._db.named(row.session), None)
                record = None if present is None else present.record
                if record is not None and (scope is None or record.scope == scope):
                    found.append(record)
            found.sort(key=lambda record: record.updated_at, reverse=True)
            cursor = page.cursor
            if cursor is None or (limit is not None and enough(found, limit, page.items[-1].active_at)):
                return found[:limit]

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry of this id; `KeyError` if no conversation has it."""
        found = await self.read_history(entry_id, limit=1)
        if not found or found[0].id != entry_id:  # it was there, and was taken out
            raise KeyError(entry_id)
        return found[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, or the last of them; reads no further back than they lie."""
        if head_id is None or (limit is not None and limit < 1):
            return []
        found = await self._lines.history(head_id, limit)
        if found is None:
            raise KeyError(head_id)
        return found

    async def _present(self, session: AsyncSession, name: str | None) -> Present | None:
        """A session as it stands; None if there is none. Reads back to the record that was noted last."""
        while True:
            try:
                row = await session.info()
            except errors.NotFound:
                return None
            shown = await self._lines.newest(session, marked=row.metadata.get(BY) == MARK)
            reading = shown.reading
            if reading.version == row.version:  # else somebody wrote in between: look again
                talked = is_conversation(row.metadata)
                record = self._record(session, shown, row.branched_at or 0, name) if talked else None
                fresh = reading.change is not None and reading.change.kind == "created"
                return Present(session, row.version, row.metadata, record, fresh)

    def _record(
        self, session: AsyncSession, shown: Trail, branched_at: int, name: str | None
    ) -> ConversationRecord | None:
        """The record that was noted, brought up to what others did since then; None if there is nothing at all."""
        note, change = shown.reading.note, shown.reading.change
        head = shown.found[0] if shown.found else None
        noted = None if note is None else _RECORDS.validate_json(f"[{note.record}]")[0]
        own = note is not None and note.version > branched_at
        if noted is not None and own and change is None:
            noted.conversation_id = name or noted.conversation_id
            noted.head_id = None if noted.head_id is None else self._lines.place(noted.head_id, session)
            noted.branches = [self._lines.place(tip, session) for tip in noted.branches]
            return noted
        if noted is None and head is None:
            return None
        assert change is not None  # a session begins with one
        at = None if head is None else self._lines.place(head.id, session)
        made = noted or ConversationRecord(conversation_id=session.id, head_id=at, updated_at=messages.time_of(0))
        origin = made.conversation_id
        made.conversation_id = name or (origin if own else session.id)
        if noted is not None and not own:  # a branch that was made elsewhere is a fork
            made.forked_from, made.forked_at = origin, at
        made.deferred_tool_requests = made.deferred_tool_requests if at == made.head_id else None
        made.head_id = at
        made.branches = [self._lines.place(tip, session) for tip in made.branches]
        made.revision = f"perdure-{change.id}"
        made.updated_at = max(messages.time_of(change.at), made.updated_at)
        return made

    # ── writing ──

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries in one durable append, or raise `ConversationConflict`."""
        name = record.conversation_id
        line, base, rest = arranged(record.head_id, new_entries)
        for _ in range(ROUNDS):
            session = self._db.named(name)
            present = await self._present(session, name)
            if present is not None and not is_conversation(present.metadata):
                raise errors.Invalid(f"session {name!r} is no conversation; choose another conversation_id", name=name)
            revision = None if present is None or present.record is None else present.record.revision
            if revision != expected_revision:
                break
            try:
                present = present or await self._begun(session, name, base)
                if present is not None:
                    await self._append(present, record, base, line, rest)
                    for entry in new_entries:
                        self._lines.place(entry.id, session)
                    return
            except (errors.VersionConflict, errors.AlreadyExists, errors.NotFound):
                pass  # somebody was first: see what the revision is now
        raise ConversationConflict(name)

    async def _begun(self, session: AsyncSession, name: str, base: str | None) -> Present | None:
        """Make the session of a new conversation: a fork is a branch of the session that has what it goes on from.
        None if others have written to it already.
        """
        if base is None:
            await made(self._db, name)
        else:
            source, at = await self._source(name, base)
            await source.branch(at, id=session.id, title=name)
        present = await self._present(session, name)
        return present if present is not None and present.fresh else None

    async def _source(self, name: str, base: str) -> tuple[AsyncSession, int | None]:
        """The session that has an entry, and the version at which it was the last one shown, if it still reads so."""
        async for place in self._lines.candidates(base):
            source = self._db.named(place)
            trail = await self._lines.follow(source, base)
            if not trail.missing:
                return source, None if trail.broken or not trail.found else trail.found[0].last
        raise ConversationConflict(name)

    async def _append(
        self,
        present: Present,
        record: ConversationRecord,
        base: str | None,
        line: Sequence[ConversationEntry],
        rest: Sequence[ConversationEntry],
    ) -> None:
        """Write a record with its entries, moving to the line of `base` first if another one is shown."""
        head = None if present.record is None else present.record.head_id
        replacing: int | None = None
        again: list[str] = []
        events: list[Payload] = []
        new = [payload for entry in line for payload in written(entry)]
        if base != head:
            replacing, again, events = await self._move(present, record, base, new)
        events += new
        events += [Noted(by=BY, about=ASIDE, data=kept(entry)) for entry in rest]
        noted = _RECORDS.dump_json([record]).decode()[1:-1]
        events.append(Noted(by=BY, about=RECORD, data={"record": noted}))
        if replacing is not None or again:
            events.insert(0, Noted(by=BY, about=MOVED, data={"first": replacing, "shows": again}))
        metadata = {**present.metadata, BY: MARK, SCOPE: record.scope}
        if record.scope is None:
            del metadata[SCOPE]
        await present.session.record(
            events,
            replacing=replacing,
            metadata=None if metadata == present.metadata else metadata,
            expected=present.version,
        )

    async def _move(
        self, present: Present, record: ConversationRecord, base: str | None, new: Sequence[Spoken]
    ) -> tuple[int | None, list[str], list[Payload]]:
        """From which version on the log is no longer shown, which entries are shown again in its place, and how, to be
        on the line of `base`, which goes on with what is `new`. Both lines are cut between turns, so that each stays
        whole.
        """
        reading = Reading()
        trail = Trail(reading, base)
        shown: list[Unit] = []
        async for units in self._lines.units(present.session, reading):
            for unit in units:
                trail.take(unit)
                if reading.shown(unit) and not unit.lost:
                    shown.append(unit)
        if trail.missing:
            return await self._borrow(record, base, shown)
        kept = {unit.id for unit in trail.found}
        old = shown[::-1]
        same = next((index for index, unit in enumerate(old) if unit.id not in kept), len(old))
        staying = {unit.id for unit in old[:same]}
        while same:
            inside = same < len(old) and old[same].turn is not None and old[same - 1].turn == old[same].turn
            after = next((unit.told for unit in reversed(trail.found) if unit.id not in staying), new)
            if not inside and messages.begins(after):
                break
            same -= 1
            staying.discard(old[same].id)
        again = [unit for unit in reversed(trail.found) if unit.id not in staying]
        events = [payload for unit in again for payload in native(BY, {"shows": unit.id}, unit.told)]
        return old[same].first if same < len(old) else None, [unit.id for unit in again], [*events]

    async def _borrow(
        self, record: ConversationRecord, base: str | None, shown: Sequence[Unit]
    ) -> tuple[int | None, list[str], list[Payload]]:
        """Show a line that only another session has: its entries are written here, too."""
        try:
            line = await self.read_history(base)
        except KeyError:
            raise ConversationConflict(record.conversation_id) from None
        return shown[-1].first if shown else None, [], [payload for entry in line for payload in written(entry)]

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation's session, or raise `ConversationConflict`. Forks keep what they share with it."""
        for _ in range(ROUNDS):
            session = self._db.named(conversation_id)
            present = await self._present(session, conversation_id)
            if present is None or present.record is None or present.record.revision != expected_revision:
                break
            try:
                await session.erase(expected=present.version)
                return
            except (errors.VersionConflict, errors.NotFound):
                pass  # somebody was first: see what the revision is now
        raise ConversationConflict(conversation_id)
