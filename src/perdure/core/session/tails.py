"""The tail of a transcript as one agent lived it.

An event belongs to an agent's tail when the agent did it, when it was done through the agent as a child, or when
it is a delegation to the agent. Nothing else leaks in.
"""

from collections.abc import Iterable

from perdure.core.session.agents import Delegation
from perdure.core.session.event import Event

DEFAULT_DEPTH = 50


def concerns(event: Event, agent: str) -> bool:
    """Whether the event is part of this agent's own history."""
    return (
        event.agent == agent or event.child_agent == agent or (event.kind == Delegation.kind and event.target == agent)
    )


def tail(newest_first: Iterable[Event], agent: str, depth: int = DEFAULT_DEPTH) -> tuple[Event, ...]:
    """The last `depth` events that concern the agent, oldest first; reads no further back than needed."""
    found: list[Event] = []
    for event in newest_first:
        if len(found) >= depth:
            break
        if concerns(event, agent):
            found.append(event)
    return tuple(reversed(found))
