"""Turns: one exchange each, from a message in to the answer out, with the tool calls between.

At most one turn is open. A tool call belongs to the turn that asked it; its id is the envelope's target, so the
pair of call and result survives redaction.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec

from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable

_replace = msgspec.structs.replace


class TurnStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A turn is open from here on. It may carry the message that began it."""

    kind: ClassVar[str] = "turn_started"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    role: str = ""
    content: Any = None
    model: str | None = None

    def essence(self) -> Payload | None:
        told = self.content is None or type(self.content) is str
        return self if told and type(self.role) is str and self.model is None else None


class Message(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Something said: text, or a list of content blocks."""

    kind: ClassVar[str] = "message"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    role: str = ""
    content: Any = None
    name: str | None = None
    metadata: dict[str, Any] = {}

    def essence(self) -> Payload | None:
        if type(self.role) is not str or type(self.content) is not str or self.name is not None:
            return None
        if not self.metadata:
            return self if self.metadata == {} else None
        return Message(role=self.role) if type(self.metadata) is dict else None


class ToolAsked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The model wants a tool run."""

    kind: ClassVar[str] = "tool_asked"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    call: str = ""
    name: str = ""
    arguments: Any = None
    metadata: dict[str, Any] = {}

    def essence(self) -> Payload | None:
        plain = type(self.call) is str and type(self.name) is str and type(self.metadata) is dict
        return ToolAsked(call=self.call, name=self.name) if plain else None

    def aim(self) -> str | None:
        return self.call or None


class ToolStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The tool is running; `key` makes a retry harmless."""

    kind: ClassVar[str] = "tool_started"
    callers: ClassVar[bool] = True
    mutates: ClassVar[bool] = True
    call: str = ""
    key: str | None = None

    def aim(self) -> str | None:
        return self.call or None


class ToolFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The tool's result, or its error."""

    kind: ClassVar[str] = "tool_finished"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    call: str = ""
    result: Any = None
    error: str | None = None
    metadata: dict[str, Any] = {}

    def essence(self) -> Payload | None:
        plain = type(self.call) is str and (self.error is None or type(self.error) is str)
        plain = plain and type(self.metadata) is dict
        return ToolFinished(call=self.call) if plain else None

    def aim(self) -> str | None:
        return self.call or None


class TurnFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The turn ended well. It may carry the answer."""

    kind: ClassVar[str] = "turn_finished"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    content: Any = None
    stop_reason: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0

    def essence(self) -> Payload | None:
        plain = (
            (self.content is None or type(self.content) is str)
            and self.stop_reason is None
            and type(self.tokens_in) is int
            and type(self.tokens_out) is int
        )
        return self if plain else None


class Unfinished(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call to retry, under the key it was started with."""

    call: str
    name: str
    key: str | None = None
    started: bool = False


class TurnInterrupted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The turn ended before its time: a crash, a suspension, a steer."""

    kind: ClassVar[str] = "turn_interrupted"
    redactable: ClassVar[bool] = True
    reason: str = ""
    text: str = ""
    unfinished: tuple[Unfinished, ...] = ()


class TurnRolledBack(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The open turn is as if never said; its money stays spent."""

    kind: ClassVar[str] = "turn_rolled_back"
    reason: str = ""


class Retracted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What these versions say is taken out of the conversation, `calls` from the turn in flight; the log keeps it."""

    kind: ClassVar[str] = "retracted"
    first: int = 0
    upto: int = 0
    calls: tuple[str, ...] = ()
    reason: str = ""


class Compacted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Old turns are summed up in the model's context; the log keeps them."""

    kind: ClassVar[str] = "compacted"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    upto: int = 0
    summary: str = ""
    preserved: Any = None


class CallStatus(Enum):
    """How far a tool call has come."""

    ASKED = "asked"
    PARKED = "parked"
    ALLOWED = "allowed"
    STARTED = "started"


class OpenCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A tool call without its result."""

    name: str
    status: CallStatus
    key: str | None = None


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The turn in flight."""

    number: int
    since: int
    version: int
    calls: dict[str, OpenCall] = {}


class Turns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The part of the state this module keeps. The messages themselves are the log, not state."""

    count: int = 0
    open: OpenTurn | None = None
    messages: int = 0
    tools: int = 0
    interrupted: int = 0
    compactions: int = 0
    compacted_to: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    last_at: int = 0


def said(payload: Payload) -> Message | None:
    """What the payload says to the other side: a message, or the one that begins or ends a turn."""
    match payload:
        case Message():
            return payload
        case TurnStarted(content=content) if content is not None:
            return Message(role=payload.role or "user", content=content)
        case TurnFinished(content=content) if content is not None:
            return Message(role="assistant", content=content)
        case _:
            return None


def interrupt(part: Turns, reason: str, text: str = "") -> TurnInterrupted | None:
    """The event that closes the turn in flight, naming the tools to retry; None when none is open."""
    if part.open is None:
        return None
    unfinished = tuple(
        Unfinished(call, item.name, item.key, item.status is CallStatus.STARTED)
        for call, item in part.open.calls.items()
    )
    return TurnInterrupted(reason=reason, text=text, unfinished=unfinished)


def evolve(part: Turns, event: Event) -> Turns:
    """Fold one event into the turns."""
    return follow(part, event.data, event.entry.target, event.shared.at, event.version)


def follow(part: Turns, data: Payload, target: str | None, at: int, version: int) -> Turns:
    """The turns after this payload."""
    rule = _FOLLOW.get(type(data))
    if rule is None:
        return part
    return rule(part, data, at, flight(part.open, part.count + 1, data, target, at, version))


def _follow_message(part: Turns, _: Message, at: int, __: OpenTurn | None) -> Turns:
    return _replace(part, messages=part.messages + 1, last_at=at)


def _follow_start(part: Turns, data: TurnStarted, at: int, open: OpenTurn | None) -> Turns:
    said = data.content is not None
    return _replace(part, count=part.count + 1, open=open, messages=part.messages + said, last_at=at)


def _follow_call(part: Turns, data: ToolAsked | ToolStarted | ToolFinished, _: int, open: OpenTurn | None) -> Turns:
    finished = type(data) is ToolFinished
    return part if open is part.open else _replace(part, open=open, tools=part.tools + finished)


def _follow_finish(part: Turns, data: TurnFinished, at: int, _: OpenTurn | None) -> Turns:
    return _replace(
        part,
        open=None,
        messages=part.messages + (data.content is not None),
        tokens_in=storable(part.tokens_in + data.tokens_in),
        tokens_out=storable(part.tokens_out + data.tokens_out),
        last_at=at,
    )


def _follow_stop(part: Turns, data: TurnInterrupted | TurnRolledBack, _: int, __: OpenTurn | None) -> Turns:
    return _replace(part, open=None, interrupted=part.interrupted + (type(data) is TurnInterrupted))


def _follow_retraction(part: Turns, _: Retracted, __: int, open: OpenTurn | None) -> Turns:
    return part if open is part.open else _replace(part, open=open)


def _follow_compaction(part: Turns, data: Compacted, _: int, __: OpenTurn | None) -> Turns:
    return _replace(part, compactions=part.compactions + 1, compacted_to=max(part.compacted_to, data.upto))


_FOLLOW: Final[dict[type[Payload], Callable[[Turns, Any, int, OpenTurn | None], Turns]]] = {
    Message: _follow_message,
    TurnStarted: _follow_start,
    ToolAsked: _follow_call,
    ToolStarted: _follow_call,
    ToolFinished: _follow_call,
    TurnFinished: _follow_finish,
    TurnInterrupted: _follow_stop,
    TurnRolledBack: _follow_stop,
    Retracted: _follow_retraction,
    Compacted: _follow_compaction,
}


def flight(
    open: OpenTurn | None, number: int, data: Payload, target: str | None, at: int, version: int
) -> OpenTurn | None:
    """The turn in flight after this payload; one that begins gets this number. Deciding looks ahead with it."""
    kind = type(data)
    call = _CALLS.get(kind)
    if call is not None:
        return open if open is None or target is None else _replace(open, calls=call(open.calls, data, target))
    if kind is TurnStarted:
        return OpenTurn(number=number, since=at, version=version)
    if isinstance(data, Retracted):
        return _without(open, data)
    return None if kind in _ENDS else open


def _without(open: OpenTurn | None, data: Retracted) -> OpenTurn | None:
    """The turn in flight when its start, or some of its calls, are retracted."""
    if open is None or data.first <= open.version <= data.upto:
        return None
    if not any(call in open.calls for call in data.calls):
        return open
    return _replace(open, calls={name: item for name, item in open.calls.items() if name not in data.calls})


_ENDS: Final = frozenset({TurnFinished, TurnInterrupted, TurnRolledBack})
Calls = dict[str, OpenCall]


def _asked(calls: Calls, data: ToolAsked, call: str) -> Calls:
    return {**calls, call: OpenCall(data.name, CallStatus.ASKED)}


def _started(calls: Calls, data: ToolStarted, call: str) -> Calls:
    before = calls.get(call)
    return {**calls, call: OpenCall(before.name if before else "", CallStatus.STARTED, data.key)}


def _finished(calls: Calls, _: ToolFinished, call: str) -> Calls:
    return {name: item for name, item in calls.items() if name != call}


_CALLS: Final[dict[type[Payload], Callable[[Calls, Any, str], Calls]]] = {
    ToolAsked: _asked,
    ToolStarted: _started,
    ToolFinished: _finished,
}
