"""What callers ask of memory, checked at the door: what makes no request is `Invalid`, and says what there is."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.parts import LETHE, Source, Space, vault
from perdure.core.memory.requests import Keeping
from perdure.core.session.shown import shown
from perdure.edge import given
from perdure.edge.given import Time

T = TypeVar("T")
Kept = str | Mapping[str, Any] | Keeping
"""What can be kept: words alone, a document with the options of `add`, or what `perdure.memory.Keeping` makes."""


def space_of(agent: Any, clade: Any, lethe: Any, own: str) -> Space:
    """The space that these name; without a name, the vault of whoever asks."""
    wanted = given.flag_of(lethe, "lethe")
    if (agent is not None) + (clade is not None) + wanted > 1:
        raise Invalid("name one space: an agent's vault, a clade, or lethe")
    if wanted:
        return LETHE
    if clade is not None:
        return Space("clade", given.text_of(clade, "clade"))
    return vault(own if agent is None else given.text_of(agent, "agent"))


def keeping_of(one: Kept) -> Keeping:
    """A memory to be kept, checked."""
    if isinstance(one, Keeping):
        return one
    if isinstance(one, str):
        return request(Keeping, content=one)
    if not isinstance(one, Mapping):
        raise Invalid(f"a memory to be kept is a text, or a document with content, not {shown(one)}")
    fields = dict(one)
    if "type" in fields:
        fields["memory_type"] = fields.pop("type")
    for name in ("valid_from", "valid_to"):
        if isinstance(fields.get(name), datetime):
            fields[name] = time_of(fields[name], name)
    source = fields.get("source")
    unknown = [name for name in source if name not in Source.__struct_fields__] if isinstance(source, Mapping) else []
    if unknown:  # else it could not be erased by its source
        raise Invalid(f"a source has no {shown(unknown[0])}; there are {', '.join(Source.__struct_fields__)}")
    return request(Keeping, **fields)


def request(kind: type[T], **fields: Any) -> T:
    """The request that these fields make, or `Invalid`."""
    try:
        return msgspec.convert(fields, kind, from_attributes=True)
    except (msgspec.ValidationError, UnicodeEncodeError) as wrong:
        fields = kind.__struct_fields__  # type: ignore[attr-defined]
        raise Invalid(f"{wrong}; there are {', '.join(fields)}") from wrong


def several(values: Any, kind: type[T]) -> tuple[T, ...]:
    """Names of a kind, or `Invalid`."""
    try:
        return msgspec.convert(some(values), tuple[kind, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError as wrong:
        raise Invalid(f"{wrong}; there are {', '.join(kind)}") from wrong  # type: ignore[arg-type]


def some(values: Any) -> tuple[Any, ...]:
    """Several, or one by itself."""
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable):
        raise Invalid(f"types and statuses are a list of names, not {shown(values)}")
    return tuple(values)


def id_of(id: Any) -> str:
    """A memory's id, or `Invalid`."""
    return given.text_of(id, "a memory's id")


def time_of(value: Time, name: str) -> int | None:
    """A moment in microseconds, if one is given."""
    return None if value is None else given.micros_of(value, name)
