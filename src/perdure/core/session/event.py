"""What an event is made of: a payload (what happened) inside an envelope (where, when, by whom).

A `Draft` is an event that has been decided but not yet written; writing gives it version, id and digest.
Payload classes are the closed set of kinds; each belongs to the module of its aspect.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import force_setattr

from perdure.core.session.ids import Digest, EventId, SessionId, Version, step, text


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened. Every field has a default, so a redacted event still folds as a blank one.

    Defaults are singletons (None, False, 0, "", (), {}) because encoding omits them by identity.
    """

    kind: ClassVar[str] = ""
    kind_version: ClassVar[int] = 1
    redactable: ClassVar[bool] = False
    """Carries content that may be destroyed; structure may not."""
    bound: ClassVar[bool] = False
    """Of what carries content: others stand on it, so it goes only together with what it is about."""
    callers: ClassVar[bool] = False
    """Callers may append it themselves; the others come from commands."""
    mutates: ClassVar[bool] = False
    """Changes state that a pre-mutation checkpoint wants saved first."""

    def essence(self) -> "Payload | None":
        """What folding needs of it, if it surely reads back and that much holds nothing mutable: a shortcut for the
        kinds that make up most of a log. The others are read back to find out.
        """
        return None

    def aim(self) -> str | None:
        """What the envelope's `target` names; kept when the data is redacted."""
        return None


class Draft(msgspec.Struct, frozen=True, gc=False):
    """A decided event before it is written."""

    payload: Payload
    agent: str | None = None
    child_agent: str | None = None
    target: str | None = None
    turn: int | None = None


class Shared(msgspec.Struct, frozen=True, gc=False):
    """The part of the envelope that all events of one append have in common. `uid` is the first one's id."""

    tenant: str
    session: SessionId
    origin: bytes
    first: int
    uid: bytes
    at: int
    actor: str
    epoch: int
    key: str | None
    decode: "Callable[[Entry], Payload]"


Blind = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
"""Its length is fixed: the commitment is taken over blind and data together, and nothing else says where one ends."""


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The part of the envelope that is an event's own, as stored. Redacted: no blind, and the commitment is where the
    data was.
    """

    kind: str
    kind_version: int
    agent: str | None
    child_agent: str | None
    target: str | None
    turn: int | None
    blind: Blind | None
    data: bytes


class Event(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One immutable fact of a session's log: the envelope, and the payload as `data`.

    An event keeps what its append shares in one object and decodes its payload when someone looks, so a history of
    many thousand is cheap to make and to hold. Two events are equal when the chain says so.
    """

    shared: Shared
    entry: Entry
    version: Version
    commitment: bytes
    digest: Digest
    payload: Payload | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.digest == other.digest and self.redacted == other.redacted

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def data(self) -> Payload:
        """What happened; of a redacted event, a blank of its kind."""
        found = self.payload
        if found is None:
            found = self.shared.decode(self.entry)
            force_setattr(self, "payload", found)
        return found

    @property
    def tenant(self) -> str:
        """Whose store it is in."""
        return self.shared.tenant

    @property
    def session(self) -> SessionId:
        """The session whose log it was written to; for a shared prefix, the parent's."""
        return self.shared.session

    @property
    def uid(self) -> bytes:
        """The event's id as 16 bytes."""
        return step(self.shared.uid, self.version - self.shared.first)

    @property
    def id(self) -> EventId:
        """The event's id as text."""
        return EventId(text(self.uid))

    @property
    def kind(self) -> str:
        """What kind of fact it is."""
        return self.entry.kind

    @property
    def kind_version(self) -> int:
        """Which shape of that kind it was written in."""
        return self.entry.kind_version

    @property
    def at(self) -> int:
        """When, in microseconds since 1970, UTC."""
        return self.shared.at

    @property
    def actor(self) -> str:
        """Who acted."""
        return self.shared.actor

    @property
    def agent(self) -> str | None:
        """The agent that did it."""
        return self.entry.agent

    @property
    def child_agent(self) -> str | None:
        """The child agent through which it was done."""
        return self.entry.child_agent

    @property
    def target(self) -> str | None:
        """What it is aimed at: a tool call, an agent, another session."""
        return self.entry.target

    @property
    def turn(self) -> int | None:
        """The turn it belongs to."""
        return self.entry.turn

    @property
    def epoch(self) -> int:
        """The fencing number of its writer; 0 when embedded."""
        return self.shared.epoch

    @property
    def key(self) -> str | None:
        """The idempotency key of its append."""
        return self.shared.key

    @property
    def redacted(self) -> bool:
        """Whether its content was destroyed."""
        return self.entry.blind is None


def draft(payload: Payload, turn: int | None = None) -> Draft:
    """A draft whose target is what the payload aims at."""
    return Draft(payload, target=payload.aim(), turn=turn)


def payloads_of(aspect: ModuleType) -> list[type[Payload]]:
    """The payload classes a module defines itself: the kinds of its aspect."""
    return [
        item
        for item in vars(aspect).values()
        if isinstance(item, type) and issubclass(item, Payload) and item.__module__ == aspect.__name__
    ]
