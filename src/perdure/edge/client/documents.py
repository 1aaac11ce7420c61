"""What callers hand in, as the documents a server takes; exact to the last type."""

from typing import Any

import msgspec

from perdure.core.session import codec
from perdure.core.session.event import Draft
from perdure.core.session.origin import Config
from perdure.core.session.values import Limits

_WHOLE = Limits(max_depth=128, max_items=1 << 24, max_key=1 << 24)


def plain(struct: msgspec.Struct) -> dict[str, Any]:
    """A struct as a plain document; `Invalid` when it holds what cannot be stored."""
    found: dict[str, Any] = codec.decode(codec.encode_struct(struct), _WHOLE)
    return found


def draft_of(draft: Draft) -> dict[str, Any]:
    """An event to append."""
    found: dict[str, Any] = {"kind": draft.payload.kind, "data": plain(draft.payload)}
    if draft.agent is not None:
        found["agent"] = draft.agent
    if draft.child_agent is not None:
        found["child_agent"] = draft.child_agent
    return found


def config_of(config: Config, fields: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A configuration: these fields of it, or those that are not as they are by default."""
    known = plain(config)
    if fields is None:
        return known
    blank = dict.fromkeys(Config.__struct_fields__) | {"extra": {}}
    return {name: known.get(name, blank[name]) for name in fields}


def given(**fields: Any) -> dict[str, Any]:
    """A body of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
