"""Which tools a session needs and what they are bound to."""

from typing import ClassVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.constraints import constraint_of
from perdure.core.session.event import Event, Payload


class ToolBound(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A tool the session needs, and the version it is bound to; unbound while `version` is None.

    With a `substitute`, that is the tool which stands in, and the version is its own. `reason` says why.
    """

    kind: ClassVar[str] = "tool_bound"
    callers: ClassVar[bool] = True
    name: str = ""
    constraint: str = ""
    required: bool = False
    version: str | None = None
    substitute: str | None = None
    reason: str = ""


class Binding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool as it stands."""

    constraint: str = ""
    required: bool = False
    version: str | None = None
    substitute: str | None = None


class Tools(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    bindings: dict[str, Binding] = {}


def admit(payload: ToolBound) -> None:
    """Refuse a tool without a name, or with a constraint that nobody could look it up by."""
    if not payload.name:
        raise Invalid("a tool needs a name; set name=")
    try:
        constraint_of(payload.constraint)
    except Invalid as wrong:
        raise Invalid(f"tool {payload.name!s:.80}: {wrong.message}", tool=payload.name, **wrong.fields) from wrong


def unbound(part: Tools) -> tuple[str, ...]:
    """Required tools that are not bound to anything."""
    return tuple(
        name for name, item in part.bindings.items() if item.required and not (item.version or item.substitute)
    )


def binding_of(data: ToolBound) -> Binding:
    """The tool as it stands after this event."""
    return Binding(constraint=data.constraint, required=data.required, version=data.version, substitute=data.substitute)


def evolve(part: Tools, event: Event) -> Tools:
    """Fold one event into the bindings."""
    data = event.data
    if not isinstance(data, ToolBound):
        return part
    return Tools(bindings={**part.bindings, data.name: binding_of(data)})
