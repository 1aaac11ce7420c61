"""Affairs of the server's own, kept as notes in the log of a session and folded as the log grows.

Every node looks at the store before it believes what it has folded, so what one node wrote counts on all others at
their next request. Callers share looks: whoever comes while one is under way takes part in the next, because that one
may have missed what was written just now.

Every so often the notes are summed up in one of them; whoever starts reads backwards to the latest sum and no further.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

import msgspec

from perdure.core.errors import AlreadyExists, Damaged, NotFound, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Event
from perdure.core.session.ids import SessionId, named
from perdure.core.session.origin import Config, Timeouts
from perdure.core.session.recording import Noted
from perdure.ports.store import Head
from perdure.services.acting import acting
from perdure.services.sessions import Sessions
from perdure.waiting import Lane

BY: Final = "perdure"
"""Who keeps these notes, in the log's words."""
EVERY: Final = 500
"""Notes after which they are summed up."""
RETRIES: Final = 100
"""How often something is decided anew before giving up; each time somebody else won."""
_PAGE: Final = 64
_NEVER: Final = Config(timeouts=Timeouts(idle=0, absolute=0, max_active=0, grace=0, expiry=0))

B = TypeVar("B")
E = TypeVar("E", bound=msgspec.Struct)


class Kept(msgspec.Struct, Generic[B, E], frozen=True):
    """What a log of notes is about: the empty book, how an entry changes it, its entries, and the book as one entry
    (of type `sum`) as it stands at a time.
    """

    blank: B
    fold: Callable[[B, E], B]
    read: Callable[[Any], E]
    sum: type[msgspec.Struct]
    summed: Callable[[B, int], E]


class Seen(msgspec.Struct, Generic[B], frozen=True):
    """The book at a version of its log; version 0 before there is one."""

    book: B
    version: int = 0
    digest: bytes = b""
    summed: int = 0


class Notes(Generic[B, E]):
    """One log of notes, and the book they make."""

    def __init__(self, sessions: Sessions, name: str, kept: Kept[B, E]) -> None:
        self._sessions = sessions
        self._name = name
        self._kept = kept
        self._session: SessionId = named(sessions.identity.tenant, name)
        self._seen: Seen[B] = Seen(kept.blank)
        self._lane = Lane()
        self._started = 0
        self._looked = 0

    async def fresh(self) -> Seen[B]:
        """The book as it stands in the store, no older than this call."""
        before = self._started
        async with self._lane:
            if self._looked <= before:  # no look began since this call did
                self._started += 1
                self._seen = await self._look()
                self._looked = self._started
            return self._seen

    async def decided(self, decide: Callable[[B], Sequence[E]]) -> B:
        """Write what is decided on the book as it stands, decided again whenever somebody else was first. The book
        after it; when nothing is to be written, as it stands.
        """
        for _ in range(RETRIES):
            seen = await self.fresh()
            entries = decide(seen.book)
            try:
                if entries:
                    await self.add(entries, seen)
            except VersionConflict:
                continue
            book = seen.book
            for entry in entries:
                book = self._kept.fold(book, entry)
            return book
        raise VersionConflict(f"the notes {self._name!r} keep changing; try again", session=self._session)

    async def add(self, entries: Sequence[E], seen: Seen[B]) -> None:
        """Write entries that were decided on what was seen; `VersionConflict` when somebody wrote meanwhile."""
        with acting(BY):
            version = seen.version or await self._begin()
            drafts = [_draft(entry) for entry in entries]
            if version - seen.summed >= EVERY:
                book = seen.book
                for entry in entries:
                    book = self._kept.fold(book, entry)
                drafts.append(_draft(self._kept.summed(book, self._sessions.ambient.now())))
            await self._sessions.handle(self._session, do.Append(drafts=tuple(drafts)), expected=version)

    async def _begin(self) -> int:
        command = do.Create(title=self._name, config=_NEVER, activate=True)
        try:
            return (await self._sessions.create(command, session=self._session)).version
        except AlreadyExists:
            told = f"the notes {self._name!r} were begun by somebody else just now; decide again"
            raise VersionConflict(told, session=self._session) from None

    async def _look(self) -> Seen[B]:
        try:
            return await self._sessions.log.steadily(self._session, self._caught_up)
        except NotFound:
            return Seen(self._kept.blank)

    async def _caught_up(self, head: Head) -> Seen[B]:
        seen, row = self._seen, head.row
        if (row.version, row.digest) == (seen.version, seen.digest):
            return seen
        log = self._sessions.log
        if seen.version and seen.version < row.version <= seen.version + EVERY:
            events = await log.events(head, seen.version)
        else:
            seen, events = Seen(self._kept.blank), await self._since_sum(head)
        book, summed = seen.book, seen.summed
        for event in events:
            entry = self._entry(event)
            if entry is not None:
                book = self._kept.fold(book, entry)
                summed = event.version if isinstance(entry, self._kept.sum) else summed
        return Seen(book, row.version, row.digest, summed or head.anchor_version)

    async def _since_sum(self, head: Head) -> list[Event]:
        """The notes from the latest sum on, oldest first."""
        found: list[Event] = []
        async with aclosing(self._sessions.log.backwards(head, _PAGE)) as pages:
            async for page in pages:
                for event in page:
                    found.append(event)
                    if isinstance(self._entry(event), self._kept.sum):
                        return found[::-1]
        return found[::-1]

    def _entry(self, event: Event) -> E | None:
        """What an event notes, if it is a note of ours."""
        note = event.data
        if not isinstance(note, Noted) or note.by != BY or note.data is None:
            return None
        try:
            return self._kept.read(note.data)
        except msgspec.ValidationError:
            told = f"version {event.version} of the notes {self._name!r} cannot be read; update perdure on this node"
            raise Damaged(told, session=self._session, version=event.version) from None


def _draft(entry: msgspec.Struct) -> Draft:
    data = msgspec.to_builtins(entry)
    return Draft(Noted(by=BY, about=data["type"], data=data))
