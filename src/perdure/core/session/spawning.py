"""Having children: who may, how many at once, and what is written down of one.

Children are a single level: a child has none of its own, and cannot be branched (`origin.must_branch`). So what a
session may cost is bounded by what it begins itself.
"""

from typing import Final

from perdure.core.errors import Invalid, SpawnRefused
from perdure.core.session import budget, caps, lifecycle
from perdure.core.session import commands as do
from perdure.core.session.children import ChildFinished, Spawned
from perdure.core.session.event import Draft, Payload
from perdure.core.session.state import State

MAX_OPEN: Final = 256
"""Children that a session has at work at the same time."""
RETURNS: Final = ("summary", "full")


def spawned(state: State, command: do.Spawn) -> tuple[Draft, ...]:
    """The child, and before it what is set aside for it."""
    lifecycle.must_be_awake(state.life, state.session)
    if (parent := state.origin.spawner) is not None:
        told = f"session {state.session} is a child, and children have none of their own; have {parent} spawn it"
        raise SpawnRefused(told, session=state.session, parent=parent)
    if len(state.children.open) >= MAX_OPEN:
        told = f"{len(state.children.open)} children of session {state.session} are at work; wait for some of them"
        raise SpawnRefused(told, session=state.session, open=len(state.children.open), limit=MAX_OPEN)
    if not command.task.strip():
        raise Invalid("a child needs a task; say what it shall do")
    if command.returns not in RETURNS:
        raise Invalid(f"a child returns {' or '.join(RETURNS)}, not {command.returns!r}", returns=command.returns)
    born = Spawned(
        child=command.child,
        task=command.task,
        slice=0 if command.slice is None else command.slice.amount,
        returns=command.returns,
        context=command.context,
        model=command.model,
        max_tokens=command.max_tokens,
        tools=command.tools,
        strategy=command.strategy,
        node=command.node,
    )
    aside = () if command.slice is None else (_drafted(command, _set_aside(state, command.slice)),)
    return (*aside, _drafted(command, born))


def _drafted(command: do.Spawn, payload: Payload) -> Draft:
    return Draft(payload, agent=command.agent, target=payload.aim())


def _set_aside(state: State, wanted: do.Reserve) -> budget.Reserved:
    reserved = budget.reserve(
        state.budget, wanted.reservation, wanted.amount, wanted.purpose, tokens=wanted.tokens, rounds=wanted.rounds
    )
    budget.must_fit(state.budget, reserved, caps.caps_of(state.config))
    return reserved


def child_finished(state: State, command: do.FinishChild) -> tuple[Draft, ...]:
    """What came of a child, whatever became of its parent meanwhile; nothing when that is known."""
    if command.child not in state.children.open:
        return ()
    over = ChildFinished(
        child=command.child, phase=command.phase, result=command.result, error=command.error, spent=command.spent
    )
    return (Draft(over, target=command.child),)
