"""What a session that was brought over from ADK lacks of its source, and whether it can be filled in. Pure.

A log only grows. So a gap is filled by taking back what follows it and saying that again behind it, which keeps the
order if all that follows is the source's: nothing may have been said, taken back or destroyed here meanwhile.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from google.adk.events.event import Event as AdkEvent

from perdure.adapters.parts.google_adk_events import history, spelled
from perdure.events import Event, Redacted, Retracted

FILLED: Final = "filled in by importing again"
"""Why something is taken back that is said again."""
_TAKING: Final = frozenset({Retracted.kind, "turn_rolled_back"})


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A log beside its source."""

    held: int
    """How many events the log holds."""
    common: int
    """How many of them begin the source as they begin the log."""
    since: int | None
    """The version from which on the log says something else than the source; None when the source just goes on."""
    missing: tuple[str, ...]
    """The ids of the source's events that the log never had."""
    ordered: bool
    """Whether the log can be made to say what the source says, in its order."""


def compared(log: Iterable[Event], source: Sequence[AdkEvent]) -> Compared:
    """How a session's whole log stands to the events that its source holds."""
    known = list(log)
    standing = _said(known)
    ever = {event.id for _, event in _said(_without_filling(known))}
    here = [event.id for _, event in standing]
    common = 0
    for (_, one), other in zip(standing, source, strict=False):
        if not _same(one, other):
            break
        common += 1
    whole = not known or (known[0].version == 1 and not any(event.kind == Redacted.kind for event in known))
    ahead = iter([event.id for event in source[common:]])
    return Compared(
        held=len(standing),
        common=common,
        since=standing[common][0] if common < len(standing) else None,
        missing=tuple(event.id for event in source if event.id not in ever),
        ordered=whole and ever == set(here) and all(id in ahead for id in here[common:]),
    )


def _without_filling(log: Sequence[Event]) -> list[Event]:
    """The log as if nobody had taken anything back, except who filled gaps: what they take back is said again."""
    ours = [event.data for event in log if isinstance(event.data, Retracted) and event.data.reason == FILLED]
    gone = {event.version for event in log for data in ours if data.first <= event.version <= data.upto}
    return [event for event in log if event.kind not in _TAKING and event.version not in gone]


def _said(log: Sequence[Event]) -> list[tuple[int, AdkEvent]]:
    """The events in a log with their first versions, without those that stand for a result that is missing: they
    follow under the version of another one.
    """
    found: dict[int, AdkEvent] = {}
    for version, event in history(log):
        found.setdefault(version, event)
    return list(found.items())


def _same(one: AdkEvent, other: AdkEvent) -> bool:
    return one == other or spelled(one) == spelled(other)
