"""What people say to a running session: a steer preempts, a follow-up waits for the next turn, an outcome is learnt."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload


class Steered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Change what you are doing right now."""

    kind: ClassVar[str] = "steered"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    text: str = ""


class FollowedUp(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Consider this next time."""

    kind: ClassVar[str] = "followed_up"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    text: str = ""


class TakenUp(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """These follow-ups, named by their versions, are before the model now; their outcome is yet to be known."""

    kind: ClassVar[str] = "taken_up"
    versions: tuple[int, ...] = ()


class OutcomeKnown(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """How a steer or follow-up, named by its version, turned out."""

    kind: ClassVar[str] = "outcome_known"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    of: int = 0
    good: bool | None = None
    note: str = ""


class Feedback(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What a person thought of it. Welcome even after the session has ended."""

    kind: ClassVar[str] = "feedback"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    rating: int | None = None
    comment: str = ""
    metadata: dict[str, Any] = {}


class Steering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps. `waiting` are the versions of follow-ups not yet taken up."""

    waiting: tuple[int, ...] = ()
    steers: int = 0
    outcomes: int = 0
    ratings: int = 0


def evolve(part: Steering, event: Event) -> Steering:
    """Fold one event into the steering."""
    match event.data:
        case Steered():
            return msgspec.structs.replace(part, steers=part.steers + 1)
        case FollowedUp():
            return msgspec.structs.replace(part, waiting=(*part.waiting, event.version))
        case TakenUp(versions=versions):
            left = tuple(version for version in part.waiting if version not in versions)
            return msgspec.structs.replace(part, waiting=left)
        case OutcomeKnown(of=of):
            left = tuple(version for version in part.waiting if version != of)
            return msgspec.structs.replace(part, outcomes=part.outcomes + 1, waiting=left)
        case Feedback():
            return msgspec.structs.replace(part, ratings=part.ratings + 1)
        case _:
            return part
