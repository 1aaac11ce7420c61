"""Lines of entries, read from the sessions of a store: newest first, and no further back than they lie."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from pydantic_ai.conversation_store import ConversationEntry

from perdure import AsyncPerdure, AsyncSession, errors
from perdure.adapters.parts import pydantic_messages as messages
from perdure.adapters.parts.pydantic_entries import BY, DAY, EntryId, made_at, session_of
from perdure.adapters.parts.pydantic_lines import NOW, Reading, Trail, Unit

MARK: Final = "conversation"
"""What a session's metadata says under `pydantic_ai` once a record was noted in its log."""
KNOWN: Final = 65_536  # entries whose places are remembered
PAGE, LISTED = 256, 100


class Lines:
    """Reads lines of entries, and remembers in which session each entry was found."""

    def __init__(self, db: AsyncPerdure) -> None:
        self._db = db
        self._places: OrderedDict[str, str] = OrderedDict()

    async def history(self, head: str, limit: int | None) -> list[ConversationEntry] | None:
        """The entries up to one, or the last of them; None if no session has it."""
        async for place in self.candidates(head):
            session = self._db.named(place)
            trail = await self.follow(session, head, None if limit is None else limit + 1)
            if not trail.missing:
                return self._entries(session, trail, limit)
        return None

    async def follow(self, session: AsyncSession, want: str, limit: int | None = None) -> Trail:
        """Follow entries back from one of them."""
        trail = Trail(Reading(), want, limit)
        async for units in self.units(session, trail.reading, PAGE if limit is None else min(limit + 4, PAGE)):
            for unit in units:
                trail.take(unit)
            if trail.ended:
                return trail
        trail.exhausted = True
        return trail

    async def newest(self, session: AsyncSession, *, marked: bool) -> Trail:
        """Look for what was shown last, and for the note of a record if there is one; mostly both are right there."""
        page = 2
        while True:
            shown = Trail(reading := Reading(), NOW, 1)
            async for units in self.units(session, reading, page):
                for unit in units:
                    shown.take(unit)
                noted = reading.note is not None
                if (noted and reading.change is None) or (shown.ended and (noted or not marked)):
                    return shown
                if page != PAGE:
                    break
            if page == PAGE:
                return shown
            page = PAGE

    async def units(self, session: AsyncSession, reading: Reading, page: int = PAGE) -> AsyncIterator[list[Unit]]:
        """The units of a session's log, newest first, a page of appends at a time; none if there is no such session."""
        try:
            async for events in session.backwards(page):
                yield [unit for event in events for unit in reading.units(event)]
        except errors.NotFound:
            return

    async def candidates(self, entry: str) -> AsyncIterator[str]:
        """The sessions that may have an entry: where it was seen, where it says, then all that lived in its time."""
        tried: list[str] = []
        seen = entry.session if isinstance(entry, EntryId) else None
        for place in (seen, self._places.get(entry), session_of(entry)):
            if place is not None and place not in tried:
                tried.append(place)
                yield place
        cursor: str | None = None
        made = made_at(entry)
        while True:
            page = await self._db.find(
                metadata={BY: MARK},
                active_after=None if made is None else made - DAY,
                created_before=None if made is None else made + DAY,
                order="active",
                limit=LISTED,
                cursor=cursor,
            )
            for row in page.items:
                if row.session not in tried:
                    yield row.session
            cursor = page.cursor
            if cursor is None:
                return

    def place(self, entry: str, session: AsyncSession) -> EntryId:
        """An entry's id, and a note of where it is."""
        self._places[entry] = session.id
        self._places.move_to_end(entry)
        while len(self._places) > KNOWN:
            self._places.popitem(last=False)
        return EntryId(entry, session.id)

    def _entries(self, session: AsyncSession, trail: Trail, limit: int | None) -> list[ConversationEntry]:
        """What was found, as entries in their order, each linked to the one before it."""
        line = list(zip(reversed(trail.found), trail.left_open(), trail.uncalled(), strict=True))
        kept = line if limit is None else line[-limit:]
        before = line[-len(kept) - 1][0].id if len(line) > len(kept) else None
        own = iter(messages.as_messages(unit.text for unit, _, _ in kept if unit.text is not None))
        entries: list[ConversationEntry] = []
        for unit, lacking, uncalled in kept:
            spoken = next(own) if unit.text is not None else None
            payloads = messages.results_in_words(unit.payloads, uncalled)
            told = spoken or messages.heard(payloads, unit.at, trail.reading.names)
            parent = None if before is None else self.place(before, session)
            message = messages.in_words(told, lacking)
            entries.append(ConversationEntry(id=self.place(unit.id, session), parent_id=parent, message=message))
            before = unit.id
        return entries
