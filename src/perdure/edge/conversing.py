"""Conversations that a framework carries on, as async callers hand them over and read them back."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session.conversation import Item, items_of
from perdure.core.session.decide import drafts_of
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.ids import SessionId
from perdure.edge import given
from perdure.ports.store import Head

MAX_PAGE = 4096


class Conversing:
    """The part of a session's handle that records what happens elsewhere."""

    _services: Services
    id: SessionId

    async def record(
        self,
        events: Sequence[Payload | Draft] | Payload | Draft,
        *,
        more: bool = False,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        replacing: int | None = None,
        vars: dict[str, Any] | None = None,
        others: Mapping[str, dict[str, Any]] | None = None,
        expected: int | None = None,
        key: str | None = None,
    ) -> int:
        """Write what was said and done elsewhere, in whatever order it comes, as one durable append; the new version.

        Turns are opened and closed around it: a user's message begins one, the assistant's last word ends it, unless
        `more` of the turn follows. A result without its call is kept as a message. Title and metadata change in the
        same append if they are given; with `replacing`, what was said from that version on is taken out of the
        conversation by it. So do the fields of `vars` that are named, and of `others`, sessions by their ids: all or
        nothing. `append` is the strict sister.
        """
        items = [events] if isinstance(events, (Payload, Draft)) else events
        command = do.Record(
            drafts=drafts_of(items),
            more=given.flag_of(more, "more"),
            replacing=given.maybe_number(replacing, "replacing"),
            title=given.maybe_text(title, "title"),
            metadata=None if metadata is None else given.document_of(metadata, "metadata"),
            vars=given.document_of(vars, "vars"),
        )
        outcome = await self._services.recording.record(
            self.id,
            command,
            expected=given.maybe_number(expected, "expected"),
            key=key,
            others={given.id_of(other): given.document_of(vars, "vars") for other, vars in (others or {}).items()},
        )
        return outcome.version

    async def recorded(
        self,
        events: Sequence[Payload | Draft] | Payload | Draft,
        *,
        more: bool = False,
        retracting: Sequence[tuple[int, int]] = (),
        reason: str = "",
        expected: int | bytes | None = None,
    ) -> tuple[Event, ...]:
        """As `record`; the events it wrote, for those who follow the log and need not read them again. They may expect
        a digest, that of the latest event they have seen: no other log has it at any version. What the ranges of
        versions in `retracting` say is taken out of the conversation first, in the same append.
        """
        items = [events] if isinstance(events, (Payload, Draft)) else events
        why = given.text_of(reason, "reason")
        retracted = tuple(
            do.Retract(first=given.number_of(first, "first"), upto=given.number_of(upto, "upto"), reason=why)
            for first, upto in retracting
        )
        command = do.Record(drafts=drafts_of(items), more=given.flag_of(more, "more"), retracted=retracted)
        seen = expected if isinstance(expected, bytes) else given.maybe_number(expected, "expected")
        return (await self._services.recording.record(self.id, command, expected=seen, key=None)).events

    async def retract(
        self,
        first: int,
        upto: int | None = None,
        *,
        reason: str = "",
        expected: int | None = None,
        key: str | None = None,
    ) -> int:
        """Take what these versions say out of the conversation, from `first` to the end or `upto`; the new version.
        The log keeps it: `redact` destroys.
        """
        outcome = await self._services.recording.retract(
            self.id,
            given.number_of(first, "first"),
            given.maybe_number(upto, "upto"),
            given.text_of(reason, "reason"),
            expected=given.maybe_number(expected, "expected"),
            key=key,
        )
        return outcome.version

    async def conversation(self, last: int | None = None) -> list[Item]:
        """What was said and done, item by item as it was handed over, whole or the last items."""
        log = self._services.sessions.log
        if last is None:
            return items_of(await log.steadily(self.id, lambda head: log.events(head, head.anchor_version)))
        wanted = given.number_of(last, "last")
        if wanted < 1:
            raise Invalid("ask for at least one item", last=last)
        return (await log.steadily(self.id, lambda head: self._latest(head, wanted)))[-wanted:]

    async def _latest(self, head: Head, wanted: int) -> list[Item]:
        """At least so many items, if there are. Looks again each time twice as much was read; at first as much as
        they take where an append holds a turn.
        """
        found: list[Event] = []
        enough = wanted
        async with aclosing(self._services.sessions.log.standing(head, wanted // 4 + 1)) as pages:
            async for page in pages:
                found += page
                if len(found) >= enough:
                    items = items_of(reversed(found))
                    if len(items) >= wanted:
                        return items
                    enough = 2 * len(found)
        return items_of(reversed(found))

    async def backwards(self, page: int = 256) -> AsyncGenerator[list[Event], None]:
        """The log newest first, a page of appends at a time, for readers that stop early: `contextlib.aclosing` ends it
        for those who do.
        """
        wanted = given.number_of(page, "page")
        if not 1 <= wanted <= MAX_PAGE:
            raise Invalid(f"a page has 1 to {MAX_PAGE} appends", page=page)
        log = self._services.sessions.log
        async with aclosing(log.backwards(await log.head(self.id), wanted)) as pages:
            async for events in pages:
                yield events
