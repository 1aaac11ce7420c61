"""Turns that perdure itself carries on: one step of them, and their end when somebody or something stops them."""

from collections.abc import Iterable, Iterator

from perdure.core.errors import Invalid, TurnRefused
from perdure.core.session import approval, asking, budget, caps, lifecycle, recording, turns
from perdure.core.session import commands as do
from perdure.core.session.budget import Budget
from perdure.core.session.event import Draft, Payload, draft
from perdure.core.session.state import State
from perdure.core.session.turns import ToolFinished


def advanced(state: State, command: do.Advance) -> tuple[list[Draft], tuple[Draft, ...], list[Draft]]:
    """What is paid, what is said and done, and what is set aside: in this order, in one append."""
    lifecycle.must_be_awake(state.life, state.session)
    open = state.turns.open
    if command.turn is not None and (open is None or open.number != command.turn):
        raise TurnRefused(f"turn {command.turn} is over; nothing can be added to it", turn=command.turn)
    part, paid = state.budget, list[Draft]()
    for item in command.settles:
        settled = budget.settle(
            part, item.reservation, item.cost, estimated=item.estimated, tokens=item.tokens, rounds=item.rounds
        )
        part, paid = _followed(part, settled), [*paid, *map(draft, settled)]
    aside = list[Draft]()
    for wanted in command.reserves:
        reserved = budget.reserve(
            part, wanted.reservation, wanted.amount, wanted.purpose, tokens=wanted.tokens, rounds=wanted.rounds
        )
        budget.must_fit(part, reserved, caps.caps_of(state.config))
        part, aside = _followed(part, (reserved,)), [*aside, draft(reserved)]
    said = recording.arranged(open, command.drafts, more=command.more) if command.arranged else command.drafts
    _admit_asks(state.budget, said)
    return paid, tuple(said), aside


def _followed(part: Budget, payloads: Iterable[Payload]) -> Budget:
    for payload in payloads:
        part = budget.follow(part, payload)
    return part


def _admit_asks(part: Budget, drafts: Iterable[Draft]) -> None:
    """Refuse a request that is open already, and an answer to one that is not."""
    asked = set(part.asked)
    for item in drafts:
        match item.payload:
            case asking.ModelAsked(ask=name):
                if not name or name in asked:
                    raise Invalid(f"request {name!r} is open already; use a fresh name", ask=name)
                asked.add(name)
            case asking.ModelAnswered(ask=name):
                if name not in asked:
                    raise TurnRefused(f"request {name!r} is closed; its answer came too late", ask=name)
                asked.discard(name)


def interruption(state: State, reason: str, text: str = "") -> Iterator[Draft]:
    """What closes the turn in flight and the requests nobody will hear the answer of. They are charged what was
    reserved for them, which may be corrected.
    """
    number = state.turns.open.number if state.turns.open is not None else None
    yield from given_up(state, reason, number)
    closed = turns.interrupt(state.turns, reason, text)
    if closed is not None:
        yield draft(closed, turn=number)


def given_up(state: State, reason: str, turn: int | None, asks: tuple[str, ...] | None = None) -> Iterator[Draft]:
    """What settles the requests that are open, or those of them that are named."""
    part = state.budget
    for item in asking.given_up(part, reason):
        if asks is not None and item.ask not in asks:
            continue
        if item.ask in part.open:
            tokens, cost = part.held.get(item.ask, 0), part.open[item.ask]
            for settled in budget.settle(part, item.ask, cost, estimated=True, tokens=tokens, rounds=1):
                yield draft(settled, turn=turn)
        yield draft(item, turn=turn)


def approved(state: State, command: do.Approve) -> tuple[Draft, ...]:
    """The answer of a person; a call that is denied has failed with it."""
    lifecycle.must_be_awake(state.life, state.session)
    given = approval.give(state.turns.open, command.call, allowed=command.allowed, note=command.note)
    if command.allowed:
        return (draft(given),)
    told = f"denied: {command.note}" if command.note else "denied"
    return (draft(given), draft(ToolFinished(call=command.call, error=told)))
