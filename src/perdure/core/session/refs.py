"""Which blobs content points to: a `Ref` whose URI is `perdure:blob/` and the SHA-256 of what it stands for.

Content is searched as it is stored. Most of it holds no such Ref, and then one look for the URI's beginning is all
it costs; a text that only mentions the URI is not taken for a Ref.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.event import Entry
from perdure.core.session.packing import GENERIC
from perdure.core.session.record import Record
from perdure.core.session.shown import shown
from perdure.core.session.values import Ref

SCHEME: Final = "perdure:blob/"
_MARK: Final = SCHEME.encode()
_EXT: Final = b"\xc7"
"""Every Ref to a blob begins with this byte, hardly any text has it, and one byte is looked for ten times as fast."""
_UNREADABLE: Final = (Invalid, msgspec.MsgspecError, ValueError, TypeError, RecursionError)
_DIGITS: Final = 64

Use = tuple[int, bytes]
"""The version of an event, and the SHA-256 of a blob it points to."""


def blob_ref(sha256: bytes) -> Ref:
    """The Ref to the blob with this content."""
    return Ref(uri=f"{SCHEME}{sha256.hex()}", sha256=sha256)


def blob_of(ref: Any) -> bytes:
    """The SHA-256 of the blob behind a Ref or its URI; `Invalid` when it points to something else."""
    uri = ref.uri if type(ref) is Ref else ref
    digits = uri[len(SCHEME) :] if type(uri) is str and uri.startswith(SCHEME) else ""
    if len(digits) == _DIGITS and not digits.strip("0123456789abcdef"):
        found = bytes.fromhex(digits)
        if type(ref) is not Ref or ref.sha256 == found:
            return found
    raise Invalid(f"{shown(uri)} points to no blob; pass the Ref that putting the blob gave, or its uri")


def in_record(record: Record) -> tuple[Use, ...]:
    """The blobs that the events of a record point to, with the version of each event."""
    found: list[Use] = []
    for offset, entry in enumerate(record.entries):
        if _EXT in entry.data and _MARK in entry.data:
            found += _in_entry(entry, record.first + offset)
    return tuple(found)


def _in_entry(entry: Entry, version: int) -> list[Use]:
    if entry.blind is None:  # redacted: what is there is a commitment
        return []
    return [(version, blob) for blob in sorted(in_bytes(entry.data))]


def in_bytes(data: bytes) -> frozenset[bytes]:
    """The blobs that encoded content points to: a payload, or a state. What cannot be read points nowhere."""
    if _MARK not in data:
        return frozenset()
    try:
        value = GENERIC.decode(data)
    except _UNREADABLE:
        return frozenset()
    return frozenset(ref.sha256 for ref in _refs(value) if ref.uri.startswith(SCHEME))


def _refs(value: Any) -> Iterator[Ref]:
    """Every Ref in a value that was read."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is Ref:
            yield item
        elif kind is dict:
            waiting += item.values()
        elif kind is list or kind is tuple or kind is frozenset:
            waiting += item
