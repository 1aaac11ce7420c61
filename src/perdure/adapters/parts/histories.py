"""The history of a session of the OpenAI Agents SDK as it was read, kept to go on from. Pure: nothing here reads or
writes.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from perdure.adapters.parts.pairing import INTERRUPTED, Step, with_results
from perdure.adapters.parts.responses import BY, as_json, filled, output, spelled
from perdure.events import Event, Item, Redacted, Retracted, items_of

_CHANGING: Final = frozenset({Redacted.kind, Retracted.kind, "turn_rolled_back"})
"""Events that change what was said before them."""


class Entry(NamedTuple):
    """One item of a history, as JSON: the version it begins at, and whether another framework wrote it."""

    first: int
    foreign: bool
    text: str


class Place(NamedTuple):
    """Where a session stands, and when it began."""

    born: int
    version: int
    digest: bytes


class History(NamedTuple):
    """The items of a session up to a place, all or the end of them."""

    place: Place
    whole: bool
    entries: list[Entry]

    @staticmethod
    def of(place: Place, conversation: Sequence[Item], wanted: int | None) -> "History":
        """A conversation read after its session was seen at a place. What came in between is left for later."""
        entries = [entry for item in conversation if item.last <= place.version for entry in entries_of(item)]
        return History(place, wanted is None or len(conversation) < wanted, entries)

    def serves(self, place: Place, wanted: int | None) -> bool:
        """Whether this is the beginning of what a session holds now, and as much as is wanted."""
        if place.born != self.place.born or place.version < self.place.version:
            return False
        if place.version == self.place.version and place.digest != self.place.digest:
            return False
        return self.whole or (wanted is not None and wanted <= len(self.entries))

    def after(self, place: Place, events: Sequence[Event]) -> "History | None":
        """The history after the events that follow; None when they change what was said before."""
        if not events or events[0].version != self.place.version + 1:
            return None
        if any(event.kind in _CHANGING for event in events):
            return None
        return History(
            place, self.whole, [*self.entries, *(one for item in items_of(events) for one in entries_of(item))]
        )

    def latest(self, wanted: int | None, *, whole: bool = False) -> list[dict[str, Any]]:
        """The items, or the latest ones; no limit if it is negative.

        A result that another framework recorded and whose call is not among them becomes words, since a model refuses
        a result to nothing. The SDK's own items are as they were given. To be `whole`, calls that were interrupted get
        a result that says so.
        """
        entries = self.entries if wanted is None or wanted < 0 else self.entries[-wanted:] if wanted else []
        found: list[dict[str, Any]] = _parsed(f"[{','.join([entry.text for entry in entries])}]")
        asked: set[Any] = set()
        lacking: set[Any] = set()
        for index, (entry, item) in enumerate(zip(entries, found, strict=True)):
            kind, call = item.get("type"), item.get("call_id")
            if kind == "function_call":
                asked.add(call)
                lacking.add(call)
            elif kind == "function_call_output":
                lacking.discard(call)
                if entry.foreign and call not in asked:
                    found[index] = {"role": "assistant", "content": f"(result of a tool) {item['output']}"}
        if not whole or not lacking:
            return found
        steps = [_step(entry, item) for entry, item in zip(entries, found, strict=True)]
        return with_results(found, steps, lambda call: output(call, INTERRUPTED))


NOTHING: Final = History(Place(0, 0, b""), True, [])


def _step(entry: Entry, item: dict[str, Any]) -> Step:
    kind, call = item.get("type"), (str(item.get("call_id")),)
    answered = call if kind == "function_call_output" else ()
    return Step(call if kind == "function_call" else (), answered, own=not entry.foreign)


def entries_of(item: Item) -> list[Entry]:
    """One item of a conversation as entries of a history."""
    if item.by == BY and isinstance(item.native, str):
        return [Entry(item.first, False, filled(item.native, item.payloads[0]))]
    return [Entry(item.first, True, as_json(one)) for one in spelled(item)]


def _parsed(text: str) -> Any:
    """JSON as Python reads it, which also reads what is not quite JSON: NaN, half a surrogate pair."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return json.loads(text)
