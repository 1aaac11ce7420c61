"""What may be appended, and when: by callers at all, in the session's phase, in the turn that is in flight."""

from collections.abc import Callable
from typing import Any, Final

from perdure.core.errors import Invalid, TooLarge, TurnRefused
from perdure.core.session import lifecycle, quality, scratchpad, tools
from perdure.core.session.event import Draft, Payload
from perdure.core.session.lifecycle import Phase
from perdure.core.session.links import Linked
from perdure.core.session.state import State
from perdure.core.session.steering import Feedback
from perdure.core.session.turns import (
    Compacted,
    Message,
    OpenTurn,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
)

MAX_EVENTS: Final = 4096
ALWAYS_WELCOME: Final = frozenset({Feedback.kind, Linked.kind})
"""Kinds that even an ended session takes."""


def admit(state: State, drafts: tuple[Draft, ...]) -> None:
    """Refuse what callers may not append, or not now."""
    if not drafts:
        raise Invalid("an append needs at least one event")
    if len(drafts) > MAX_EVENTS:
        raise TooLarge(f"an append takes {MAX_EVENTS} events, this one has {len(drafts)}; split it", limit=MAX_EVENTS)
    awake = state.phase is Phase.ACTIVE
    for item in drafts:
        _admit_one(state, item.payload, awake)


def _admit_one(state: State, payload: Payload, awake: bool) -> None:
    if not payload.callers:
        raise Invalid(f"{payload.kind} is written by perdure itself; use the call made for it", kind=payload.kind)
    if not awake and payload.kind not in ALWAYS_WELCOME:
        lifecycle.must_be_awake(state.life, state.session)
    rule = _ADMIT.get(type(payload))
    if rule is not None:
        rule(payload)


_ADMIT: Final[dict[type[Payload], Callable[[Any], object]]] = {
    quality.Retrieval: quality.admit,
    tools.ToolBound: tools.admit,
    scratchpad.ScratchpadWritten: lambda payload: scratchpad.write(payload.content),
}


def admit_turn(open: OpenTurn | None, payload: Payload) -> None:
    """Refuse a turn event that does not fit the turn in flight."""
    rule = _TURNS.get(type(payload))
    if rule is not None:
        rule(open, payload)


def _admit_start(open: OpenTurn | None, _: Payload) -> None:
    if open is not None:
        raise TurnRefused(
            f"turn {open.number} is still open; finish it, or recover the session if its writer died",
            turn=open.number,
        )


def _admit_asked(open: OpenTurn | None, payload: ToolAsked) -> None:
    calls = _open(open).calls
    _named(payload.call)
    if payload.call in calls:
        raise Invalid(f"tool call {payload.call!r} was already asked; use a fresh id", call=payload.call)


def _admit_call(open: OpenTurn | None, payload: ToolStarted | ToolFinished) -> None:
    _named(payload.call)
    if payload.call not in _open(open).calls:
        raise TurnRefused(
            f"no tool call {payload.call!r} is open in this turn; append tool_asked first", call=payload.call
        )


def _admit_finish(open: OpenTurn | None, payload: TurnFinished) -> None:
    waiting = _open(open).calls
    if waiting:
        raise TurnRefused(
            f"tool calls without a result: {', '.join(waiting)}; append tool_finished for each first",
            calls=tuple(waiting),
        )
    _counted(payload.tokens_in, "tokens_in")
    _counted(payload.tokens_out, "tokens_out")


def _admit_compaction(_: OpenTurn | None, payload: Compacted) -> None:
    _counted(payload.upto, "upto")


def _counted(count: int, name: str) -> None:
    if type(count) is not int or count < 0:
        raise Invalid(f"{name} is a whole number and cannot be negative; send zero or more")


def _admit_end(open: OpenTurn | None, _: Payload) -> None:
    if open is None:
        raise TurnRefused("no turn is open; there is nothing to end or to roll back")


def _admit_message(_: OpenTurn | None, payload: Message) -> None:
    if not payload.role:
        raise Invalid("a message needs a role such as user or assistant", role=payload.role)


_TURNS: Final[dict[type[Payload], Callable[[OpenTurn | None, Any], None]]] = {
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


def _open(open: OpenTurn | None) -> OpenTurn:
    if open is None:
        raise TurnRefused("no turn is open; append turn_started first")
    return open


def _named(call: str) -> None:
    if type(call) is not str or not call:
        raise Invalid("a tool event needs the id of its call; set call= to a text")
