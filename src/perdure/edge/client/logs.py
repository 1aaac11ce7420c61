"""A session's log at a server: read a page at a time and proven, written as a framework hands it over."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from perdure.core.errors import ConflictError, Invalid, Unreachable
from perdure.core.session.conversation import Item
from perdure.core.session.decide import drafts_of
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.tails import DEFAULT_DEPTH, tail
from perdure.edge import given
from perdure.edge.client import documents, reading
from perdure.edge.client.transport import Transport
from perdure.edge.conversing import MAX_PAGE, Conversing

PAGE: Final = 1000
"""Events, turns or items in one answer."""
BEGINNINGS: Final = 8
"""How often a list is read from its beginning because it changed just where two pages meet."""


class Logs(Conversing):
    """The part of a handle that reads and writes the log."""

    _transport: Transport
    _path: str

    async def events(self, after: int = 0, upto: int | None = None) -> list[Event]:
        """The log after a version, every byte checked against the chain."""
        place, end = max(0, given.number_of(after, "after")), given.maybe_number(upto, "upto")
        found: list[Event] = []
        if end is not None and end < 1:
            await self._transport.get(self._path)
            return found
        while True:
            asked = {"after": place, "upto": end, "limit": PAGE}
            page = await self._transport.get(f"{self._path}/events", asked)
            found += reading.events_of(page["items"], found[-1] if found else None)
            if page["after"] is None:
                return found
            place, end = page["after"], page["version"] if end is None else end

    async def backwards(self, page: int = 256) -> AsyncGenerator[list[Event], None]:
        """The log newest first, a page of appends at a time, for readers that stop early."""
        wanted = given.number_of(page, "page")
        if not 1 <= wanted <= MAX_PAGE:
            raise Invalid(f"a page has 1 to {MAX_PAGE} appends", page=page)
        upto: int | None = None
        while True:
            asked = {"upto": upto, "last": min(wanted, PAGE)}
            found = await self._transport.get(f"{self._path}/events", asked)
            events = reading.events_of(found["items"])
            if not events:
                return
            first = events[0].shared.first
            if events[0].version > first:  # an append is not cut: what the page lacks of it is read as well
                events = [*await self.events(first - 1, events[0].version - 1), *events]
            yield events[::-1]
            upto = events[0].version - 1
            if upto < 1:
                return

    async def tail(self, agent: str, depth: int = DEFAULT_DEPTH) -> tuple[Event, ...]:
        """The last events that concern one agent; reads no further back than it must."""
        wanted, name = given.number_of(depth, "depth"), given.text_of(agent, "agent")
        found: list[Event] = []
        async with aclosing(self.backwards()) as pages:
            async for page in pages:
                found += reversed(tail(page, name, wanted - len(found)))
                if len(found) >= wanted:
                    break
        return tuple(reversed(found))

    async def conversation(self, last: int | None = None) -> list[Item]:
        """What was said and done, item by item as it was handed over, whole or the last items."""
        wanted = given.maybe_number(last, "last")
        if wanted is not None and wanted < 1:
            raise Invalid("ask for at least one item", last=last)
        return [reading.item_of(item) for item in await self._pages("conversation", wanted)]

    async def _pages(self, what: str, last: int | None) -> list[Any]:
        """Everything of a list that comes in pages, oldest first, or the last of it.

        The pages are read one after the other, and others may write meanwhile. What is appended comes with the later
        pages, also on top of the last ones that were asked for. What is retracted may still be there if its page had
        been read. Nothing comes twice, and nothing is left out that stood all the while: each page begins with the
        last item of the one before, as it is by then, and where that has gone, everything is read anew.
        `ConflictError` when that happens again and again.
        """
        for _ in range(BEGINNINGS):
            found = await self._read_through(what, last)
            if found is not None:
                return found
        told = f"the {what} of {self._path} changed whenever they were read; ask again in a while"
        raise ConflictError(told, url=self._transport.place.url)

    async def _read_through(self, what: str, last: int | None) -> list[Any] | None:
        """Every page once; None when one does not fit the page before, as what that ended with was retracted."""
        found: list[Any] = []
        asked: dict[str, Any] = {"last": last, "limit": PAGE}
        place = 0
        while True:
            page = await self._transport.get(f"{self._path}/{what}", asked)
            items, after = page["items"], page["after"]
            if found and (not items or items[0]["first"] != found.pop()["first"]):
                return None
            found += items
            if after is None:
                return found
            if after <= place:
                url = self._transport.place.url
                raise Unreachable(f"{url} gives the same page again; look at what is in between", url=url)
            place, asked = after, {"after": after - 1, "limit": PAGE}

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
        """Write what was said and done elsewhere, in whatever order it comes, as one append; the new version."""
        body = _arranged(events, more) | documents.given(
            title=given.maybe_text(title, "title"),
            metadata=None if metadata is None else given.document_of(metadata, "metadata"),
            replacing=given.maybe_number(replacing, "replacing"),
            vars=given.document_of(vars, "vars") or None,
            others={given.id_of(name): given.document_of(fields, "vars") for name, fields in (others or {}).items()}
            or None,
        )
        seen = given.maybe_number(expected, "expected")
        found = await self._transport.send("POST", f"{self._path}/events", body, expected=seen, key=key, keyed=True)
        version: int = found["version"]
        return version

    async def recorded(
        self,
        events: Sequence[Payload | Draft] | Payload | Draft,
        *,
        more: bool = False,
        retracting: Sequence[tuple[int, int]] = (),
        reason: str = "",
        expected: int | bytes | None = None,
    ) -> tuple[Event, ...]:
        """As `record`; the events it wrote, for those who follow the log and need not read them again."""
        why = given.text_of(reason, "reason")
        gone = [
            {"first": given.number_of(first, "first"), "upto": given.number_of(upto, "upto"), "reason": why}
            for first, upto in retracting
        ]
        seen: int | None = None
        body = _arranged(events, more) | {"echo": True, "retracting": gone}
        if isinstance(expected, bytes):
            body["digest"] = expected.hex()
        else:
            seen = given.maybe_number(expected, "expected")
        found = await self._transport.send("POST", f"{self._path}/events", body, expected=seen, keyed=True)
        if found["events"]:
            return tuple(reading.events_of(found["events"]))
        if found["turn"] is None and not body["events"] and not gone:
            return ()
        return await self._append_at(found["version"])

    async def _append_at(self, version: int) -> tuple[Event, ...]:
        """The events of the append that ends at a version: the answer that held them was lost."""
        (last,) = await self.events(version - 1, version)
        return tuple(await self.events(last.shared.first - 1, version))

    async def retract(
        self,
        first: int,
        upto: int | None = None,
        *,
        reason: str = "",
        expected: int | None = None,
        key: str | None = None,
    ) -> int:
        """Take what these versions say out of the conversation, from `first` to the end or `upto`; the new version."""
        body = {
            "first": given.number_of(first, "first"),
            "upto": given.maybe_number(upto, "upto"),
            "reason": given.text_of(reason, "reason"),
        }
        seen = given.maybe_number(expected, "expected")
        found = await self._transport.send("POST", f"{self._path}/retract", body, expected=seen, key=key, keyed=True)
        version: int = found["version"]
        return version


def _arranged(events: Any, more: bool) -> dict[str, Any]:
    items = [events] if isinstance(events, (Payload, Draft)) else events
    drafts = [documents.draft_of(item) for item in drafts_of(items)]
    return {"events": drafts, "arrange": True, "more": given.flag_of(more, "more")}
