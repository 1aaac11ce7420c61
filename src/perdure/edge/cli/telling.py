"""Turns as they are told: each result beside its call though it came after the turn had ended, and each time that of
the saying where something was written down only later.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.steering import Steered
from perdure.core.session.transcript import ToolCall, Turn
from perdure.core.session.turns import Message, ToolAsked, ToolFinished
from perdure.edge.cli.text import micros

SAID_AT = "said_at"
"""In the metadata of an item that was imported: when it was said."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, its calls with all their results, and the events left to tell: those told as a result are not."""

    turn: Turn
    calls: tuple[ToolCall, ...]
    events: tuple[Event, ...]

    @property
    def at(self) -> int:
        """When it began: when its first item that knows was said, else when it was written."""
        return next((said for event in self.turn.events if (said := said_at(event)) is not None), self.turn.at)


def said_at(event: Event) -> int | None:
    """When an item was said, if it knows that apart from the time of its writing."""
    data = event.data
    if not isinstance(data, Message | ToolAsked | ToolFinished) or type(data.metadata) is not dict:
        return None
    return micros(data.metadata.get(SAID_AT))


def told(turns: Iterable[Turn]) -> list[Told]:
    """The turns, without those in which nothing but late results was said."""
    found: list[Told] = []
    waiting: dict[str, int] = {}
    for turn in turns:
        calls, left = turn.calls, list[Event]()
        for event in turn.events:
            late = _late(event)
            if late is None or late["tool_use_id"] not in waiting:
                left.append(event)
                continue
            place = waiting.pop(late["tool_use_id"])
            found[place] = _answered(found[place], late)
        if turn.number is not None or any(isinstance(event.data, Message | Steered) for event in left):
            for call in calls:
                if call.done:  # an id that is used again leaves nothing to wait for
                    waiting.pop(call.call, None)
                else:
                    waiting[call.call] = len(found)
            found.append(Told(turn=turn, calls=calls, events=tuple(left)))
    return found


def _late(event: Event) -> dict[str, Any] | None:
    """The result that is all a message says: one that belonged to no open call when it came."""
    match event.data:
        case Message(role="tool", content=[{"type": "tool_result", "tool_use_id": str()} as block]):
            return dict(block)
        case _:
            return None


def _answered(item: Told, late: dict[str, Any]) -> Told:
    """The turn with this result beside its call."""
    call, result = late["tool_use_id"], late.get("content")
    failed = late.get("is_error") is True and isinstance(result, str)
    answer = {"error": result, "done": True} if failed else {"result": result, "done": True}
    calls = (msgspec.structs.replace(each, **answer) if each.call == call else each for each in item.calls)
    return msgspec.structs.replace(item, calls=tuple(calls))
