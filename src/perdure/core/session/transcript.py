"""Events grouped as people read them: turns, with each tool call beside its result."""

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.core.session.event import Event, Payload
from perdure.core.session.origin import Created
from perdure.core.session.steering import Steered
from perdure.core.session.turns import (
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
    said,
)


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and, once it is there, its result."""

    call: str
    name: str
    arguments: Any
    result: Any = None
    error: str | None = None
    done: bool = False


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange. `number` is None for what was said outside any turn."""

    number: int | None
    status: str
    events: tuple[Event, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said, in order, also by those who stepped in, and the words of an answer that was cut short;
        redacted messages are blank.
        """
        found = (heard(event.data) for event in self.events if event.kind in _HEARD)
        return tuple(message for message in found if message is not None)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, each with its result."""
        found: dict[str, ToolCall] = {}
        for event in self.events:
            if event.kind not in _CALLS:
                continue
            call, data = event.target or "", event.data
            if isinstance(data, ToolAsked):
                found[call] = ToolCall(call=call, name=data.name, arguments=data.arguments)
            elif isinstance(data, ToolFinished) and call in found:
                found[call] = msgspec.structs.replace(found[call], result=data.result, error=data.error, done=True)
        return tuple(found.values())

    @property
    def at(self) -> int:
        """When it began."""
        return self.events[0].at

    @property
    def first(self) -> int:
        """The version of its first event."""
        return self.events[0].version

    @property
    def last(self) -> int:
        """The version of its last event."""
        return self.events[-1].version


_SPEAKING = frozenset({Message.kind, TurnStarted.kind, TurnFinished.kind})
_HEARD = _SPEAKING | {Steered.kind, TurnInterrupted.kind}
_CALLS = frozenset({ToolAsked.kind, ToolFinished.kind})
_CONTENT = _CALLS | {Message.kind}
_ENDINGS = {TurnFinished.kind: "finished", TurnInterrupted.kind: "interrupted", TurnRolledBack.kind: "rolled_back"}


STEER = "steer"
INTERRUPTED = "interrupted"
"""In the metadata of a message that is told: that it is a steer; why an answer was cut short."""


def heard(payload: Payload) -> Message | None:
    """What people read of a payload as a message: all that is said, steers, and the words of an interrupted answer."""
    match payload:
        case Steered(text=text):
            return Message(role="user", content=text or None, metadata={STEER: True})
        case TurnInterrupted(text=text, reason=reason) if text:
            return Message(role="assistant", content=text, metadata={INTERRUPTED: reason})
        case _:
            return said(payload)


def turns_of(events: Iterable[Event], *, rolled_back: bool = False) -> list[Turn]:
    """The turns in these events, oldest first; rolled-back ones only when asked for.

    Stretches outside any turn that say something come as turns without a number.
    """
    groups: list[tuple[int | None, list[Event]]] = []
    begun = 0
    for event in standing(events):
        if event.kind == Created.kind:
            begun = event.version
        if not groups or groups[-1][0] != event.turn or event.kind == TurnStarted.kind:
            groups.append((event.turn, []))
        groups[-1][1].append(event)
    merged: dict[int, list[Event]] = {}
    ordered: list[tuple[int | None, list[Event]]] = []
    for number, group in groups:
        if number is not None and number in merged:
            merged[number] += group
            continue
        if number is not None:
            merged[number] = group
        elif not any(event.kind in (Message.kind, Steered.kind) for event in group):
            continue
        ordered.append((number, group))
    found = [
        Turn(number=number, status=_status(number, group, begun), events=tuple(group)) for number, group in ordered
    ]
    return found if rolled_back else [turn for turn in found if turn.status != "rolled_back"]


def standing(events: Iterable[Event]) -> list[Event]:
    """The events without those that later ones retract, and without the shells of turns that have lost everything."""
    found = list(events)
    told = [event.data for event in found if event.kind == Retracted.kind]  # the others need not be decoded for this
    gone = _merged((data.first, data.upto) for data in told if isinstance(data, Retracted))
    if not gone:
        return found
    lost = _within({event.version for event in found}, gone)
    left = {event.turn for event in found if event.version not in lost and _says_something(event)}
    emptied = {event.turn for event in found if event.version in lost} - left - {None}
    return [event for event in found if event.version not in lost and event.turn not in emptied]


def _says_something(event: Event) -> bool:
    return event.kind in _CONTENT or (event.kind in _SPEAKING and said(event.data) is not None)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same versions in ranges that ascend and do not touch; those that hold nothing are left out."""
    merged: list[tuple[int, int]] = []
    for first, upto in sorted(item for item in ranges if item[0] <= item[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(upto, merged[-1][1]))
        else:
            merged.append((first, upto))
    return merged


def _within(versions: Iterable[int], ranges: Iterable[tuple[int, int]]) -> set[int]:
    """The versions that lie in one of the ranges, which are as `_merged` makes them. One sweep over both."""
    within: set[int] = set()
    ahead = iter(ranges)
    first, upto = next(ahead, (0, -1))
    for version in sorted(versions):
        while upto < version and first <= upto:
            first, upto = next(ahead, (0, -1))
        if first <= version <= upto:
            within.add(version)
    return within


def _status(number: int | None, group: list[Event], begun: int) -> str:
    """How a turn stands. One that was open where a branch begins is not open in the branch."""
    if number is None:
        return "aside"
    ending = next((_ENDINGS[event.kind] for event in reversed(group) if event.kind in _ENDINGS), None)
    return ending or ("interrupted" if group[-1].version < begun else "open")
