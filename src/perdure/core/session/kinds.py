"""The closed union of session events, assembled from the aspects, and how stored bytes become payloads.

Kinds carry a version of their own; upcasters lift older ones to today's shape before they are typed.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from perdure.core.errors import Damaged, Invalid, UnknownKind
from perdure.core.session import (
    agents,
    approval,
    asking,
    budget,
    checkpoints,
    children,
    cleanup,
    codec,
    lifecycle,
    links,
    memories,
    origin,
    quality,
    recording,
    redaction,
    scratchpad,
    steering,
    tools,
    turns,
    vars,
)
from perdure.core.session.event import Entry, Payload, payloads_of
from perdure.core.session.values import Limits

_ASPECTS = (
    agents,
    approval,
    asking,
    budget,
    checkpoints,
    children,
    cleanup,
    lifecycle,
    links,
    memories,
    origin,
    quality,
    recording,
    redaction,
    scratchpad,
    steering,
    tools,
    turns,
    vars,
)


def _collect() -> dict[str, type[Payload]]:
    found: dict[str, type[Payload]] = {}
    for aspect in _ASPECTS:
        for item in payloads_of(aspect):
            if item.kind in found:
                raise TypeError(f"two payloads claim the kind {item.kind!r}")
            found[item.kind] = item
    return found


KINDS: Final[dict[str, type[Payload]]] = _collect()
BLANKS: Final[dict[str, Payload]] = {kind: cls() for kind, cls in KINDS.items()}


_DECODERS: Final[dict[str, Callable[[bytes], Payload]]] = {kind: codec.decoder(cls) for kind, cls in KINDS.items()}
"""Made here and not when a kind is first read: msgspec crashes when two threads have it learn one type at a time."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""(kind, version it lifts from) → the document in the next version's shape."""
_WHOLE: Final = Limits(max_depth=128, max_items=1 << 24, max_key=1 << 24)
"""For a whole payload; the codec's usual limits hold for each value in it."""


def decode(
    kind: str, kind_version: int, data: bytes, upcasters: dict[tuple[str, int], Upcaster] = UPCASTERS
) -> Payload:
    """The payload behind stored bytes.

    `UnknownKind` when a newer perdure wrote it; `Damaged` when the bytes do not fit their kind.
    """
    cls = KINDS.get(kind)
    if cls is None or kind_version > cls.kind_version:
        raise unknown(kind, kind_version)
    try:
        if kind_version == cls.kind_version:
            return _DECODERS[kind](data)
        document = codec.decode(data, _WHOLE)
        for step in range(kind_version, cls.kind_version):
            document = upcasters[kind, step](document)
        return _DECODERS[kind](codec.encode(document, _WHOLE))
    except (Invalid, LookupError, TypeError, ValueError) as broken:  # the last three: an upcaster met other data
        raise Damaged(f"event data of kind {kind!r} does not decode: {broken}", kind=kind) from broken


def payload_of(entry: Entry) -> Payload:
    """The payload of a stored entry; a blank one when it was redacted."""
    if entry.blind is None:
        return blank(entry.kind)
    return decode(entry.kind, entry.kind_version, entry.data)


def blank(kind: str) -> Payload:
    """What a redacted event of this kind folds as; `UnknownKind` when a newer perdure wrote it."""
    found = BLANKS.get(kind)
    if found is None:
        raise unknown(kind, 0)
    return found


def unknown(kind: str, kind_version: int) -> UnknownKind:
    """The refusal of what a newer perdure wrote."""
    return UnknownKind(
        f"this perdure does not know {kind!r} version {kind_version}; upgrade it to read this session",
        kind=kind,
        kind_version=kind_version,
    )


def from_document(kind: str, document: dict[str, Any]) -> Payload:
    """A payload from a caller's plain document, checked field by field."""
    cls = KINDS.get(kind)
    if cls is None:
        raise UnknownKind(f"{kind!r} is not an event kind; known are {', '.join(sorted(KINDS))}", kind=kind)
    unknown = set(document) - set(cls.__struct_fields__)
    if unknown:
        raise Invalid(
            f"{kind} has no field {', '.join(sorted(unknown))}; it has {', '.join(cls.__struct_fields__)}",
            kind=kind,
            fields=tuple(sorted(unknown)),
        )
    try:
        return msgspec.convert(document, cls)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"{kind}: {wrong}", kind=kind) from wrong
