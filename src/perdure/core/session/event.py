"""What an event is made of: a payload (what happened) inside an envelope (where, when, by whom).

A `Draft` is an event that has been decided but not yet written; writing gives it version, id and digest.
Payload classes are the closed set of kinds; each belongs to the module of its aspect.
"""

from typing import ClassVar

import msgspec

from perdure.core.session.ids import Digest, EventId, SessionId, Version, text



class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened. Every field has a default, so a redacted event still folds as a blank one.

    Defaults are singletons (None, False, 0, "", (), {}) because encoding omits them by identity.
    """

    kind: ClassVar[str] = ""
    kind_version: ClassVar[int] = 1
    redactable: ClassVar[bool] = False
    """Carries content that may be destroyed; structure may not."""
    callers: ClassVar[bool] = False
    """Callers may append it themselves; the others come from commands."""
    mutates: ClassVar[bool] = False
    """Changes state that a pre-mutation checkpoint wants saved first."""

    def aim(self) -> str | None:
        """What the envelope's `target` names; kept when the data is redacted."""
        return None


class Draft(msgspec.Struct, frozen=True):
    """A decided event before it is written."""

    payload: Payload
    agent: str | None = None
    child_agent: str | None = None
    target: str | None = None
    turn: int | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One immutable fact of a session's log."""

    tenant: str
    session: SessionId
    version: Version
    uid: bytes
    kind: str
    kind_version: int
    at: int
    actor: str
    agent: str | None
    child_agent: str | None
    target: str | None
    turn: int | None
    epoch: int
    key: str | None
    commitment: bytes
    digest: Digest
    redacted: bool
    data: Payload

    @property
    def id(self) -> EventId:
        """The event's id as text; spelled on demand, since most readers never ask."""
        return EventId(text(self.uid))


def draft(payload: Payload, turn: int | None = None) -> Draft:
    """A draft whose target is what the payload aims at."""
    return Draft(payload, target=payload.aim(), turn=turn)
