"""The conversation item by item: what was said and done, each item as it was handed over.

A framework's item may be one event or several: an assistant's message with two tool calls is three. The first event
carries the item in the framework's own spelling, under `native` in its metadata; the others say which piece they are.
So whoever wrote an item reads it back exactly, and everybody else reads its events.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.event import Event, Payload
from perdure.core.session.transcript import standing
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, TurnFinished, TurnRolledBack, TurnStarted, said

Spoken = Message | ToolAsked | ToolFinished
NATIVE: Final = "native"
CALL: Final = "call"
_LONGEST: Final = 1024
_KEPT: Final = 200
_SPOKEN: Final = frozenset(item.kind for item in (Message, ToolAsked, ToolFinished, TurnStarted, TurnFinished))


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a conversation: its events' versions and payloads; `by` whom and `native` as what it was written."""

    first: int
    last: int
    at: int
    turn: int | None
    agent: str | None
    payloads: tuple[Spoken, ...]
    by: str = ""
    native: Any = None


def native(by: str, item: Any, payloads: Sequence[Spoken]) -> list[Spoken]:
    """The payloads of one item of a framework's, with the item itself beside them. A call whose id is longer than an
    event takes goes by a shorter one; `as_given` gives back the id.
    """
    if not payloads or not by:
        raise Invalid("an item needs the name of its framework and at least one message, call or result")
    marks: list[dict[str, Any]] = [{"by": by, "item": item}]
    marks += [{"by": by, "piece": number} for number in range(1, len(payloads))]
    return [
        msgspec.structs.replace(payload, metadata={**payload.metadata, NATIVE: mark})
        for payload, mark in zip(map(_shortened, payloads), marks, strict=True)
    ]


def _shortened(payload: Spoken) -> Spoken:
    """A payload whose call has an id that fits; equal ids stay equal, and the exact one is in the metadata."""
    if isinstance(payload, Message) or len(payload.call) <= _LONGEST:
        return payload
    digest = sha256(payload.call.encode("utf-8", "replace")).hexdigest()
    short = f"{payload.call[:_KEPT]}~{digest}"
    return msgspec.structs.replace(payload, call=short, metadata={**payload.metadata, CALL: payload.call})


def as_given(payload: Spoken) -> Spoken:
    """A payload with its call's id as the framework gave it."""
    exact = payload.metadata.get(CALL)
    if type(exact) is not str or len(exact) <= _LONGEST:
        return payload
    if not isinstance(payload, Message):
        return msgspec.structs.replace(payload, call=exact)
    if not isinstance(payload.content, list):
        return payload
    return msgspec.structs.replace(payload, content=[_renamed(block, exact) for block in payload.content])


def _renamed(block: Any, call: str) -> Any:
    """A call or a result that was kept as a block, under its exact id."""
    where = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block.get("type", "")) if type(block) is dict else None
    return block if where is None else {**block, where: call}


def items_of(events: Iterable[Event]) -> list[Item]:
    """The items in these events, oldest first, without what was retracted, rolled back or redacted. Pieces of an item
    whose beginning is not among the events are left out.
    """
    found: list[Item] = []
    known = list(events)
    undone = {event.turn for event in known if event.kind == TurnRolledBack.kind}
    broken = False
    for event in standing(known):
        if event.kind not in _SPOKEN or (event.turn in undone and event.turn is not None):
            continue
        payload = _spoken(event.data)
        if payload is None:
            continue
        payload = as_given(payload)
        mark = payload.metadata.get(NATIVE)
        mark = mark if type(mark) is dict else {}
        if "piece" not in mark:
            found.append(_item(event, payload, mark))
            broken = False
        elif not broken and found and found[-1].by == mark.get("by") and len(found[-1].payloads) == mark["piece"]:
            joined = (*found[-1].payloads, payload)
            found[-1] = msgspec.structs.replace(found[-1], last=event.version, payloads=joined)
        else:
            broken = True
    return found


def _spoken(payload: Payload) -> Spoken | None:
    """What was said or done; None for what was redacted, and for bare starts and ends of turns."""
    match payload:
        case ToolAsked(call=call) | ToolFinished(call=call):
            return payload if call else None
        case _:
            message = said(payload)
            return message if message is not None and message.role else None


def _item(event: Event, payload: Spoken, mark: dict[str, Any]) -> Item:
    return Item(
        first=event.version,
        last=event.version,
        at=event.at,
        turn=event.turn,
        agent=event.agent,
        payloads=(payload,),
        by=str(mark.get("by", "")),
        native=mark.get("item"),
    )
