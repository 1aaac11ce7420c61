"""Agents in a session: who is there, who is paused, which delegations are in flight, how many rounds are done."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload


class AgentJoined(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An agent takes part from here on."""

    kind: ClassVar[str] = "agent_joined"
    callers: ClassVar[bool] = True
    name: str = ""
    parent: str | None = None
    depth: int = 0


class AgentPaused(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An agent sleeps."""

    kind: ClassVar[str] = "agent_paused"
    callers: ClassVar[bool] = True
    name: str = ""


class AgentResumed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An agent is awake again."""

    kind: ClassVar[str] = "agent_resumed"
    callers: ClassVar[bool] = True
    name: str = ""


class RoomMessage(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A message on the room's bus; an empty audience means everyone."""

    kind: ClassVar[str] = "room_message"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    sender: str = ""
    text: str = ""
    audience: tuple[str, ...] = ()
    reply_to: int | None = None


class Delegation(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """One agent hands work to another, who is the envelope's target; done when the same id comes back finished."""

    kind: ClassVar[str] = "delegation"
    callers: ClassVar[bool] = True
    id: str = ""
    to: str = ""
    task: Any = None
    finished: bool = False

    def aim(self) -> str | None:
        return self.to or None


class Round(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A round of deliberation is complete."""

    kind: ClassVar[str] = "round"
    callers: ClassVar[bool] = True


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent as it stands."""

    parent: str | None = None
    depth: int = 0
    paused: bool = False


class Agents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    members: dict[str, Agent] = {}
    delegations: dict[str, str] = {}
    rounds: int = 0


def evolve(part: Agents, event: Event) -> Agents:
    """Fold one event into the agents."""
    replace = msgspec.structs.replace
    data = event.data
    match data:
        case AgentJoined():
            member = Agent(parent=data.parent, depth=data.depth)
            return replace(part, members={**part.members, data.name: member})
        case AgentPaused() | AgentResumed():
            before = part.members.get(data.name)
            if before is None:
                return part
            after = replace(before, paused=isinstance(data, AgentPaused))
            return replace(part, members={**part.members, data.name: after})
        case Delegation():
            left = {name: to for name, to in part.delegations.items() if name != data.id}
            return replace(part, delegations=left if data.finished else {**left, data.id: data.to})
        case Round():
            return replace(part, rounds=part.rounds + 1)
        case _:
            return part
