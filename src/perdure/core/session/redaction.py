"""Destroying content while the chain stays whole.

A redacted event keeps its header and commitment; data and blind are gone. `verify` calls it redacted, not broken.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from perdure.core.errors import RedactionRefused
from perdure.core.session.event import Event, Payload
from perdure.core.session.memories import MemoryKept


class Redacted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """These versions of the log lost their content, and why."""

    kind: ClassVar[str] = "redacted"
    versions: tuple[int, ...] = ()
    reason: str = ""


def admit(event: Event) -> None:
    """Refuse to blank an event whose structure the session stands on."""
    if not event.data.redactable:
        raise RedactionRefused(
            f"event {event.version} ({event.kind}) carries structure, not content; redact the messages around it, "
            "or erase the session",
            version=event.version,
            kind=event.kind,
        )


def lone(events: Sequence[Event]) -> dict[str, Event]:
    """Of what is to be blanked, by memory, what says what became of one that is not among it."""
    bound = [event for event in events if event.data.bound and event.data.aim()]
    if not bound:
        return {}
    kept = {event.data.id for event in events if isinstance(event.data, MemoryKept)}
    return {id: event for event in bound if (id := event.data.aim()) is not None and id not in kept}


def must_be_gone(alone: Mapping[str, Event], events: Iterable[Event]) -> None:
    """Refuse to blank what became of memories that these events of the log still tell of."""
    for each in events:
        if isinstance(each.data, MemoryKept) and each.data.id in alone:
            event = alone[each.data.id]
            raise RedactionRefused(
                f"event {event.version} ({event.kind}) says what became of memory {each.data.id}, which would be as it "
                "was before; forget the memory, and this goes with it",
                version=event.version,
                kind=event.kind,
                memory=each.data.id,
            )
