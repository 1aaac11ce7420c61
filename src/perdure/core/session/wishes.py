"""What deciding asks for beside events: checkpoints, where a command wants one or the session's policy does."""

from typing import Any, Final

import msgspec

from perdure.core.session import checkpoints, cleanup
from perdure.core.session.checkpoints import CheckpointExpired, CheckpointPinned, Trigger
from perdure.core.session.event import Draft
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import State

HOUSEKEEPING: Final = frozenset(
    {
        CheckpointPinned.kind,
        CheckpointExpired.kind,
        Redacted.kind,
        cleanup.Cleaned.kind,
        cleanup.CleanupFailed.kind,
        cleanup.OtherEnded.kind,
    }
)
"""Kinds that call for no checkpoint: it would stand on one that goes, or hold content that is being destroyed."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint is wanted here."""

    trigger: Trigger
    label: str = ""
    metadata: dict[str, Any] = {}


Decided = tuple[Draft | Wish, ...]


def with_automatic_checkpoints(state: State, decided: Decided, at: int) -> Decided:
    """The same events with the checkpoints the session's policy asks for around them."""
    policy = state.config.checkpoints
    if policy is None:
        return decided
    kinds = {item.payload.kind for item in decided if isinstance(item, Draft)}
    if kinds <= HOUSEKEEPING or Redacted.kind in kinds or any(isinstance(item, Wish) for item in decided):
        return decided
    if policy.pre_mutation and any(isinstance(item, Draft) and item.payload.mutates for item in decided):
        return (Wish(trigger=Trigger.PRE_MUTATION), *decided)
    trigger = checkpoints.due(policy, state.checkpoints, at, kinds)
    return decided if trigger is None else (*decided, Wish(trigger=trigger))
