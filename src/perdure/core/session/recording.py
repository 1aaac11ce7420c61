"""Recording what something else carried on: a framework hands over messages, tool calls and results in its own order,
and turns are opened and closed around them here. What fits no turn is kept as a message, so nothing is refused that a
framework has already let happen.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from perdure.core.session.event import Draft, Payload
from perdure.core.session.turns import (
    CallStatus,
    Message,
    OpenCall,
    OpenTurn,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnInterrupted,
    TurnStarted,
    Unfinished,
)


class Noted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Something that `by` keeps in the log for itself, under a word of its own; perdure does not look inside."""

    kind: ClassVar[str] = "noted"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    by: str = ""
    about: str = ""
    data: Any = None


def arranged(open: OpenTurn | None, drafts: Iterable[Draft], *, more: bool) -> tuple[Draft, ...]:
    """The drafts with the starts and ends of turns between them.

    Whoever speaks to the agent begins a turn, unless one is open that was not answered yet; the agent's words end it,
    unless tools are awaited or `more` follows. A turn whose tools were never answered ends interrupted.
    """
    return tuple(_Arranging(open, more).arrange(drafts))


class _Arranging:
    """The turn in flight while drafts are arranged."""

    def __init__(self, open: OpenTurn | None, more: bool) -> None:
        self.inside = open is not None
        self.calls = dict(open.calls) if open is not None else {}
        self.answered = False
        self.more = more

    def arrange(self, drafts: Iterable[Draft]) -> Iterator[Draft]:
        for item in drafts:
            payload = self.fitting(item.payload)
            yield from (Draft(mark, agent=item.agent) for mark in self.before(payload))
            self.follow(payload)
            yield item if payload is item.payload else Draft(payload, item.agent, item.child_agent)
        if self.inside and self.answered and not self.calls and not self.more:
            yield Draft(TurnFinished())

    def fitting(self, payload: Payload) -> Payload:
        """The payload, or a message in its place when it belongs to no call that is open, or to one that already is."""
        match payload:
            case ToolAsked(call=call) if not call or call in self.calls:
                block = {"type": "tool_use", "id": call, "name": payload.name, "input": payload.arguments}
                return Message(role="assistant", content=[block], metadata=payload.metadata)
            case ToolFinished(call=call) if call not in self.calls:
                found: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": payload.result}
                if payload.error is not None:
                    found |= {"content": payload.error, "is_error": True}
                return Message(role="tool", content=[found], metadata=payload.metadata)
            case _:
                return payload

    def before(self, payload: Payload) -> Iterator[Payload]:
        """The ends and starts of turns that come first."""
        match payload:
            case Message(role="user") | TurnStarted():
                if self.inside and (self.answered or self.calls or isinstance(payload, TurnStarted)):
                    yield self.end()
                if not self.inside and isinstance(payload, Message):
                    yield TurnStarted()
            case Message(role="assistant") | ToolAsked() if not self.inside:
                yield TurnStarted()

    def end(self) -> Payload:
        """What ends the turn in flight."""
        waiting = tuple(
            Unfinished(call, item.name, item.key, item.status is CallStatus.STARTED)
            for call, item in self.calls.items()
        )
        self.inside, self.answered, self.calls = False, False, {}
        return TurnInterrupted(reason="next turn", unfinished=waiting) if waiting else TurnFinished()

    def follow(self, payload: Payload) -> None:
        """Take note of what comes next."""
        match payload:
            case Message(role="user" | "assistant" as role):
                self.inside, self.answered = True, role == "assistant"
            case Message(role="tool"):
                self.answered = False
            case TurnStarted():
                self.inside, self.answered, self.calls = True, False, {}
            case TurnFinished():
                self.inside = False
            case ToolAsked(call=call, name=name):
                self.inside, self.answered = True, False
                self.calls[call] = OpenCall(name, CallStatus.ASKED)
            case ToolStarted(call=call, key=key) if call in self.calls:
                self.calls[call] = OpenCall(self.calls[call].name, CallStatus.STARTED, key)
            case ToolFinished(call=call):
                self.answered = False
                del self.calls[call]
            case _:
                return
