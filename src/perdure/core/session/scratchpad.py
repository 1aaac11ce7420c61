"""The scratchpad: one mutable document per session, and one per agent in a room. Put last in every model request."""

from typing import ClassVar

import msgspec

from perdure.core.errors import Invalid, TooLarge
from perdure.core.session.event import Event, Payload

MAX_BYTES = 1 << 20


class ScratchpadWritten(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The pad now reads so. Whose pad it is, the envelope's agent says."""

    kind: ClassVar[str] = "scratchpad_written"
    callers: ClassVar[bool] = True
    redactable: ClassVar[bool] = True
    mutates: ClassVar[bool] = True
    content: str = ""
    tokens: int = 0


class Pad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pad as it stands."""

    content: str = ""
    at: int = 0
    tokens: int = 0


class Scratchpads(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps; the session's own pad is under the empty name."""

    pads: dict[str, Pad] = {}


def write(content: str) -> ScratchpadWritten:
    """The event for a new content; tokens are estimated at four bytes each."""
    if type(content) is not str:
        raise Invalid(f"a scratchpad holds text, not {type(content).__name__}")
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise TooLarge(f"a scratchpad holds {MAX_BYTES} bytes, this one has {size}; shorten it", limit=MAX_BYTES)
    return ScratchpadWritten(content=content, tokens=-(-size // 4))


def evolve(part: Scratchpads, event: Event) -> Scratchpads:
    """Fold one event into the pads."""
    data = event.data
    if not isinstance(data, ScratchpadWritten):
        return part
    pad = Pad(content=data.content, at=event.at, tokens=data.tokens)
    return Scratchpads(pads={**part.pads, event.agent or "": pad})
