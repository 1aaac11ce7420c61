"""`vars`: the application's own document inside the session, patched structurally.

The document is plain data; its type, version and migrations belong to the application (`declared`). A patch that
no longer fits, because an earlier one was redacted, is applied as far as it goes: folding never fails.
"""

from typing import Any, ClassVar

import msgspec

from perdure.core.session import changes
from perdure.core.session.diff import diff
from perdure.core.session.event import Event, Payload
from perdure.core.session.packing import encode
from perdure.core.session.values import DOCUMENT_LIMITS


class VarsPatched(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The document changed by these operations; name and version say which schema it now follows."""

    kind: ClassVar[str] = "vars_patched"
    redactable: ClassVar[bool] = True
    mutates: ClassVar[bool] = True
    patch: Any = ()
    schema: str = ""
    schema_version: str = ""


class Vars(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the state this module keeps."""

    document: dict[str, Any] = {}
    schema: str = ""
    schema_version: str = ""


def change(part: Vars, document: dict[str, Any], schema: str = "", version: str = "") -> VarsPatched | None:
    """The event that makes `document` the new one, or None when nothing differs.

    `Invalid`, `TooDeep` or `TooLarge` when it cannot be stored: its limits leave room for the state around it.
    """
    encode(document, DOCUMENT_LIMITS)
    schema = schema or part.schema
    version = version or part.schema_version
    patch = diff(part.document, document)
    if not patch and (schema, version) == (part.schema, part.schema_version):
        return None
    return VarsPatched(patch=changes.changes(patch), schema=schema, schema_version=version)


def evolve(part: Vars, event: Event) -> Vars:
    """Fold one event into the document."""
    data = event.data
    if not isinstance(data, VarsPatched):
        return part
    return Vars(
        document=changes.apply(part.document, data.patch),
        schema=data.schema or part.schema,
        schema_version=data.schema_version or part.schema_version,
    )
