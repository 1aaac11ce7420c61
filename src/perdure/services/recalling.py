"""What came of a turn, read from its events."""

from collections.abc import Sequence

from perdure.core.session.asking import ModelAnswered
from perdure.core.session.event import Event
from perdure.core.session.state import State
from perdure.core.session.turns import (
    CallStatus,
    Message,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
)
from perdure.core.talk.content import arguments_of, blocks_of, call_of, without_rests
from perdure.core.talk.parts import Block, Text, Usage
from perdure.core.talk.turning import Status, TurnOutcome, Waiting, together


def outcome_in(session: str, turn: int, events: Sequence[Event], state: State) -> TurnOutcome:
    """The outcome of a turn whose events these are."""
    blocks: list[Block] = []
    asked: dict[str, ToolAsked] = {}
    usage, cost, rounds, estimated, cached, reason = Usage(), 0, 0, False, "", ""
    status: Status = "open"
    answered: ModelAnswered | None = None
    for event in events:
        match event.data:
            case ModelAnswered() as data:
                answered, blocks = data, []
                used = Usage(
                    input=data.tokens_in,
                    output=data.tokens_out,
                    cache_read=data.cache_read,
                    cache_write=data.cache_write,
                )
                usage, cost, rounds = together(usage, used), cost + data.cost, rounds + 1
                estimated, cached = estimated or data.estimated, data.cached
            case Message(role="assistant", content=content):
                blocks += without_rests(blocks_of(content))
            case ToolAsked() as data:
                asked[data.call] = data
                blocks.append(call_of(data.call, data.name, data.arguments))
            case ToolFinished(call=call):
                asked.pop(call, None)
            case TurnFinished():
                status = "finished"
            case TurnInterrupted(reason=why, text=text):
                status, reason = "interrupted", why
                blocks += [Text(text=text)] if text else []
            case TurnRolledBack(reason=why):
                status, reason = "rolled_back", why
    waiting = _waiting(turn, asked, state) if status == "open" else ()
    if waiting:
        status = "parked" if any(item.approval for item in waiting) else "tools"
    return TurnOutcome(
        session=session,
        turn=turn,
        version=events[-1].version if events else state.version,
        status=status,
        content=tuple(blocks),
        model=answered.model if answered else "",
        stop=answered.stop if answered else "",
        usage=usage,
        cost=cost,
        estimated=estimated,
        rounds=rounds,
        waiting=waiting,
        reason=reason,
        cached=cached,
    )


def _waiting(turn: int, asked: dict[str, ToolAsked], state: State) -> tuple[Waiting, ...]:
    open = state.turns.open
    if open is None or open.number != turn or state.budget.asked:
        return ()
    if any(item.status is CallStatus.STARTED for item in open.calls.values()):
        return ()
    return tuple(
        Waiting(
            id=call,
            name=item.name,
            arguments=arguments_of(call_of(call, item.name, asked[call].arguments)) if call in asked else None,
            approval=item.status is CallStatus.PARKED,
        )
        for call, item in open.calls.items()
    )
