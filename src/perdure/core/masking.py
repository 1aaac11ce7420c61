"""Masking before anything is written: drafts whose content has lost what must not reach the disk.

What an event needs to be what it is (ids of calls, roles, names of tools, paths in a patch) is left alone; all else
that people, models and tools said is searched.
"""

from typing import Any, Final

import msgspec

from perdure.core.scrub import masked
from perdure.core.session.event import Draft, Payload
from perdure.core.session.origin import Configured, Created
from perdure.core.session.vars import VarsPatched

STRUCTURE: Final = frozenset(
    {"about", "by", "call", "id", "key", "model", "name", "role", "run", "schema", "schema_version", "stop_reason"}
)
"""Fields that say what an event is about, not what was said."""
_LISTED: Final = ("title", "metadata")
_VALUED: Final = 3
"""A change with a value: sign, path, value."""


def masked_draft(draft: Draft, what: str) -> Draft:
    """The draft with what is to be masked (`pii`, `credentials` or `all`) masked in its content."""
    payload = draft.payload
    if isinstance(payload, VarsPatched):
        patch = [_change(item, what) for item in payload.patch]
        changed: Payload = (
            msgspec.structs.replace(payload, patch=patch) if patch != payload.patch and patch else payload
        )
    elif isinstance(payload, Created | Configured):
        changed = _replaced(payload, _LISTED, what)
    elif payload.redactable:
        changed = _replaced(payload, tuple(set(payload.__struct_fields__) - STRUCTURE), what)
    else:
        return draft
    return draft if changed is payload else msgspec.structs.replace(draft, payload=changed)


def _replaced(payload: Payload, names: tuple[str, ...], what: str) -> Payload:
    found: dict[str, Any] = {}
    for name in names:
        value = getattr(payload, name)
        if isinstance(value, str | dict | list | tuple) and value and (changed := masked(value, what)) != value:
            found[name] = changed
    return msgspec.structs.replace(payload, **found) if found else payload


def _change(change: Any, what: str) -> Any:
    if len(change) < _VALUED:
        return change
    sign, path, value = change
    return [sign, path, masked(value, what)]
