"""Turns: one exchange each, from a message in to the answer out, with the tool calls between.

At most one turn is open. A tool call belongs to the turn that asked it; its id is the envelope's target, so the
pair of call and result survives redaction.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec

from perdure.core.errors import Invalid, TurnRefused
from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable


class TurnStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A turn is open from here on. It may carry the message that began it."""

    kind: ClassVar[str] = "turn_started"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    role: str = ""
    content: Any = None
    model: str | None = None

    def plain(self) -> bool:
        return type(self.role) is str and self.model is None and type(self.content) is str


class Message(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Something said: text, or a list of content blocks."""

    kind: ClassVar[str] = "message"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    role: str = ""
    content: Any = None
    name: str | None = None
    metadata: dict[str, Any] = {}

    def plain(self) -> bool:
        return type(self.role) is str and type(self.content) is str and self.name is None and self.metadata == {}


class ToolAsked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The model wants a tool run."""

    kind: ClassVar[str] = "tool_asked"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    call: str = ""
    name: str = ""
    arguments: Any = None

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

    def plain(self) -> bool:
        return (
            type(self.content) is str
            and self.stop_reason is None
            and type(self.tokens_in) is int
            and type(self.tokens_out) is int
        )


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
    STARTED = "started"


class OpenCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call without its result."""

    name: str
    status: CallStatus
    key: str | None = None


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn in flight."""

    number: int
    since: int
    version: int
    calls: dict[str, OpenCall] = {}


class Turns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


def admit(part: Turns, payload: Payload) -> None:
    """Refuse a turn event that does not fit the turn in flight."""
    rule = _ADMIT.get(type(payload))
    if rule is not None:
        rule(part, payload)


def _admit_start(part: Turns, _: Payload) -> None:
    if part.open is not None:
        raise TurnRefused(
            f"turn {part.open.number} is still open; finish it, or recover the session if its writer died",
            turn=part.open.number,
        )


def _admit_asked(part: Turns, payload: ToolAsked) -> None:
    calls = _open(part).calls
    _named(payload.call)
    if payload.call in calls:
        raise Invalid(f"tool call {payload.call!r} was already asked; use a fresh id", call=payload.call)


def _admit_call(part: Turns, payload: ToolStarted | ToolFinished) -> None:
    _named(payload.call)
    if payload.call not in _open(part).calls:
        raise TurnRefused(
            f"no tool call {payload.call!r} is open in this turn; append tool_asked first", call=payload.call
        )


def _admit_finish(part: Turns, payload: TurnFinished) -> None:
    waiting = _open(part).calls
    if waiting:
        raise TurnRefused(
            f"tool calls without a result: {', '.join(waiting)}; append tool_finished for each first",
            calls=tuple(waiting),
        )
    _counted(payload.tokens_in, "tokens_in")
    _counted(payload.tokens_out, "tokens_out")


def _admit_compaction(_: Turns, payload: Compacted) -> None:
    _counted(payload.upto, "upto")


def _counted(count: int, name: str) -> None:
    if type(count) is not int or count < 0:
        raise Invalid(f"{name} is a whole number and cannot be negative; send zero or more")


def _admit_end(part: Turns, _: Payload) -> None:
    _open(part)


def _admit_message(_: Turns, payload: Message) -> None:
    if not payload.role:
        raise Invalid("a message needs a role such as user or assistant", role=payload.role)


_ADMIT: Final[dict[type[Payload], Callable[[Turns, Any], None]]] = {
    TurnStarted: _admit_start,
    ToolAsked: _admit_asked,
    ToolStarted: _admit_call,
    ToolFinished: _admit_call,
    TurnFinished: _admit_finish,
    TurnInterrupted: _admit_end,
    TurnRolledBack: _admit_end,
    Message: _admit_message,
    Compacted: _admit_compaction,
}


def _open(part: Turns) -> OpenTurn:
    if part.open is None:
        raise TurnRefused("no turn is open; append turn_started first")
    return part.open


def _named(call: str) -> None:
    if type(call) is not str or not call:
        raise Invalid("a tool event needs the id of its call; set call= to a text")


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
    """The turns after this payload; deciding uses it to look ahead before there are events."""
    replace = msgspec.structs.replace
    call = _FOLLOW_CALL.get(type(data))
    if call is not None:
        if part.open is None or target is None:
            return part
        calls = call(part.open.calls, data, target)
        return replace(part, open=replace(part.open, calls=calls), tools=part.tools + (type(data) is ToolFinished))
    match data:
        case Message():
            return replace(part, messages=part.messages + 1, last_at=at)
        case TurnStarted():
            return replace(
                part,
                count=part.count + 1,
                open=OpenTurn(number=part.count + 1, since=at, version=version),
                messages=part.messages + (data.content is not None),
                last_at=at,
            )
        case TurnFinished():
            return replace(
                part,
                open=None,
                messages=part.messages + (data.content is not None),
                tokens_in=storable(part.tokens_in + data.tokens_in),
                tokens_out=storable(part.tokens_out + data.tokens_out),
                last_at=at,
            )
        case TurnInterrupted():
            return replace(part, open=None, interrupted=part.interrupted + 1)
        case TurnRolledBack():
            return replace(part, open=None)
        case Compacted():
            return replace(part, compactions=part.compactions + 1, compacted_to=max(part.compacted_to, data.upto))
        case _:
            return part


Calls = dict[str, OpenCall]


def _asked(calls: Calls, data: ToolAsked, call: str) -> Calls:
    return {**calls, call: OpenCall(data.name, CallStatus.ASKED)}


def _started(calls: Calls, data: ToolStarted, call: str) -> Calls:
    before = calls.get(call)
    return {**calls, call: OpenCall(before.name if before else "", CallStatus.STARTED, data.key)}


def _finished(calls: Calls, _: ToolFinished, call: str) -> Calls:
    return {name: item for name, item in calls.items() if name != call}


_FOLLOW_CALL: Final[dict[type[Payload], Callable[[Calls, Any, str], Calls]]] = {
    ToolAsked: _asked,
    ToolStarted: _started,
    ToolFinished: _finished,
}
