"""Evidence on how good the work is: retrievals, verification results, repairs. Counted here, judged by insight."""

from typing import Any, ClassVar

import msgspec

from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable


class Retrieval(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A query and what it brought; pending while there is no result."""

    kind: ClassVar[str] = "retrieval"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    query: str = ""
    source: str = ""
    results: Any = None
    pending: bool = False


class VerificationResult(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A check of what the agent produced."""

    kind: ClassVar[str] = "verification_result"
    callers: ClassVar[bool] = True
    passed: bool = False
    checked: int = 0
    unsupported: int = 0
    note: str = ""


class Repair(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The agent tried to mend its work."""

    kind: ClassVar[str] = "repair"
    callers: ClassVar[bool] = True
    note: str = ""


class Quality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    retrievals: int = 0
    passed: int = 0
    failed: int = 0
    checked: int = 0
    unsupported: int = 0
    repairs: int = 0


def evolve(part: Quality, event: Event) -> Quality:
    """Fold one event into the counts."""
    replace = msgspec.structs.replace
    match event.data:
        case Retrieval():
            return replace(part, retrievals=part.retrievals + 1)
        case VerificationResult(passed=passed, checked=checked, unsupported=unsupported):
            return replace(
                part,
                passed=part.passed + passed,
                failed=part.failed + (not passed),
                checked=storable(part.checked + checked),
                unsupported=storable(part.unsupported + unsupported),
            )
        case Repair():
            return replace(part, repairs=part.repairs + 1)
        case _:
            return part
