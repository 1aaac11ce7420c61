"""Destroying content while the chain stays whole.

A redacted event keeps its header and commitment; data and blind are gone. `verify` calls it redacted, not broken.
"""

from typing import ClassVar

from perdure.core.errors import RedactionRefused
from perdure.core.session.event import Event, Payload


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
