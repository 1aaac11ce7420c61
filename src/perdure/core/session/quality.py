"""Evidence on how good the work is: retrievals, verification results, repairs. Counted here, judged by insight.

Retrievals that have an id are also kept in mind while their evidence is wanted, so that waking can bring it up to date.
"""

from typing import Any, ClassVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.event import Event, Payload
from perdure.core.session.values import storable


class Retrieval(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A query to a kind of source and what it brought; pending while there is no result.

    One with an id is kept in mind while it is pending, and as long as the latest event of that id says `keep`. What
    the first one said of query and source need not be said again. `fetched_at` is for evidence older than the event.
    """

    kind: ClassVar[str] = "retrieval"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    id: str = ""
    query: str = ""
    source: str = ""
    results: Any = None
    pending: bool = False
    keep: bool = False
    required: bool = False
    fetched_at: int | None = None

    def aim(self) -> str | None:
        return self.id or None


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


class Wanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Evidence the session's context needs: what to ask for, since when, and when it was last answered, by the event
    of which version.
    """

    query: str
    source: str = ""
    required: bool = False
    asked: int = 0
    answered: int | None = None
    version: int | None = None


class Quality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    retrievals: int = 0
    passed: int = 0
    failed: int = 0
    checked: int = 0
    unsupported: int = 0
    repairs: int = 0
    wanted: dict[str, Wanted] = {}


def admit(payload: Retrieval) -> None:
    """Refuse a retrieval that is to be kept in mind without a name to keep it by."""
    if (payload.pending or payload.keep) and not payload.id:
        raise Invalid("a retrieval that is pending or kept needs an id, by which its answer is known; set id=")


def inherited(part: Quality) -> Quality:
    """What a branch takes over: the evidence that is wanted, none of the counts."""
    return Quality(wanted=part.wanted)


def evolve(part: Quality, event: Event) -> Quality:
    """Fold one event into the counts."""
    replace = msgspec.structs.replace
    match event.data:
        case Retrieval() as data:
            return replace(part, retrievals=part.retrievals + 1, wanted=_wanted(part.wanted, data, event))
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


def _wanted(wanted: dict[str, Wanted], data: Retrieval, event: Event) -> dict[str, Wanted]:
    """The evidence wanted after this retrieval. One whose content was destroyed is wanted no more."""
    name = (event.target or "") if event.redacted else data.id
    known = wanted.get(name)
    query = data.query or (known.query if known else "")
    if not name or not query or not (data.pending or data.keep):
        return wanted if known is None else {other: item for other, item in wanted.items() if other != name}
    return {
        **wanted,
        name: Wanted(
            query=query,
            source=data.source or (known.source if known else ""),
            required=data.required or (known is not None and known.required),
            asked=event.at if known is None or data.pending else known.asked,
            answered=None if data.pending else event.at if data.fetched_at is None else data.fetched_at,
            version=None if data.pending else event.version,
        ),
    }
