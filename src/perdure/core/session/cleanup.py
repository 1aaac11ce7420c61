"""Cleaning up before time ends a session: the steps, in order, and what the log notes of them.

A step is the built-in one (its name alone) or a hook somebody registered under it (`step/hook`). Invariant: within
one stay in a phase each is noted as done once, in the log, and is not run again after that.
"""

from enum import Enum
from hashlib import sha256
from typing import ClassVar, Final

import msgspec

from perdure.core.errors import VersionConflict
from perdure.core.session.children import ChildFinished
from perdure.core.session.event import Event, Payload
from perdure.core.session.lifecycle import Life, Noted, Phase
from perdure.core.session.tools import ToolBound, Tools

MAX_ERROR: Final = 500


class Step(Enum):
    """What is done before time ends a session, in this order."""

    FLUSH = "flush"
    RELEASE = "release"
    NOTIFY = "notify"
    ANALYTICS = "analytics"
    PROMOTE = "promote"
    SCRUB = "scrub"


ORDER: Final = tuple(Step)


class Cleaned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A step is done, or given up for good with its last error. `counts` says how much there was to do."""

    kind: ClassVar[str] = "cleaned"
    step: str = ""
    hook: str = ""
    error: str | None = None
    counts: dict[str, int] = {}


class CleanupFailed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A step failed for the first time; it is tried again until it is done or given up."""

    kind: ClassVar[str] = "cleanup_failed"
    step: str = ""
    hook: str = ""
    error: str | None = None


class OtherEnded(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Time ended a session that is linked to this one, or is its parent, branch or child."""

    kind: ClassVar[str] = "other_ended"
    other: str = ""
    reason: str = ""

    def aim(self) -> str | None:
        return self.other or None


def named(step: str, hook: str = "") -> str:
    """How the state calls a step, or a hook of it."""
    return f"{step}/{hook}" if hook else step


def done(part: Life, step: str, hook: str = "") -> bool:
    """Whether the log says so, for this stay."""
    noted = part.cleanup.get(named(step, hook))
    return noted is not None and noted.done


def key_of(session: str, part: Life, step: str, hook: str = "") -> str:
    """The same for every attempt at a step in one stay, and for no other: what a hook tells repetitions by."""
    place = f"{session}:{part.since}:{named(step, hook)}"
    return f"{step}-{sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def admit(part: Life, session: str, since: int, version: int) -> None:
    """Refuse to note what was done for a stay that is over, or that is none to clean up in."""
    if part.since != since or part.phase is Phase.ACTIVE:
        raise VersionConflict(
            f"session {session} moved on to {part.phase.value} while it was cleaned up; look at it again",
            session=session,
            found=version,
        )


def released(part: Tools) -> tuple[ToolBound, ...]:
    """What lets go of every tool that is bound; what the session needs stays known."""
    return tuple(
        ToolBound(name=name, constraint=item.constraint, required=item.required, reason="released")
        for name, item in part.bindings.items()
        if item.version is not None or item.substitute is not None
    )


def told(others: dict[str, int], other: str, reason: str, spent: int) -> Payload:
    """What a session notes when another one ends: a child of its own has finished, anything else has ended."""
    if other in others:
        return ChildFinished(child=other, phase=Phase.TERMINATED.value, spent=spent)
    return OtherEnded(other=other, reason=reason)


def evolve(part: Life, event: Event) -> Life:
    """Fold one event into the life."""
    data = event.data
    match data:
        case Cleaned():
            noted = Noted(at=event.at, done=True, error=data.error)
        case CleanupFailed():
            noted = Noted(at=event.at, error=data.error)
        case _:
            return part
    name = named(data.step, data.hook)
    if name in part.cleanup and part.cleanup[name].done:
        return part
    return msgspec.structs.replace(part, cleanup={**part.cleanup, name: noted})
