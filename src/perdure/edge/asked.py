"""What callers ask of memory, checked at the door: what makes no request is `Invalid`, and says what there is."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import LETHE, Memory, Source, Space, vault
from perdure.core.memory.requests import CHOICES, Keeping, must_be_micros, must_keep
from perdure.core.session.shown import LONGEST, shown
from perdure.edge import given
from perdure.edge.given import Time

T = TypeVar("T")
Kept = str | Mapping[str, Any] | Keeping
"""What can be kept: words alone, a document with the options of `add`, or what `perdure.memory.Keeping` makes."""
_CHOICE: Final = re.compile(
    r"Invalid enum value (?P<value>.*) - at (?P<place>`\$(?:[^`]*\.)?(?P<field>\w*)(?:\[[^`]*\])?`)", re.DOTALL
)
"""How msgspec says that something is none of those there are."""


def space_of(agent: Any, clade: Any, lethe: Any, own: str, owner: Any = None) -> Space:
    """The space that these name; without a name, the vault of whoever asks. An owner's vault is the owner's own, or
    that of their agent.
    """
    wanted = given.flag_of(lethe, "lethe")
    if (agent is not None) + (clade is not None) + wanted > 1:
        raise Invalid("name one space: an agent's vault, a clade, or lethe")
    if owner is not None:
        if wanted or clade is not None:
            raise Invalid("only vaults have an owner; name an agent beside it, or nothing")
        whose = given.text_of(owner, "owner")
        return vault_of(whose) if agent is None else vault_of(whose, vault(given.text_of(agent, "agent")).name)
    if wanted:
        return LETHE
    if clade is not None:
        return Space("clade", given.text_of(clade, "clade"))
    return vault(own if agent is None else given.text_of(agent, "agent"))


def each_kept(memories: Iterable[Kept]) -> list[Keeping]:
    """Memories to be kept, all of them checked; what is wrong with one says which one it is."""
    found: list[Keeping] = []
    for index, one in enumerate(memories):
        try:
            found.append(keeping_of(one))
            must_keep(found[-1])
        except Invalid as wrong:
            raise type(wrong)(f"memories[{index}]: {wrong}", **{**wrong.fields, "index": index}) from wrong
    return found


def keeping_of(one: Kept) -> Keeping:
    """A memory to be kept, checked."""
    if isinstance(one, str):
        return request(Keeping, content=one)
    if not isinstance(one, Mapping | Keeping):
        raise Invalid(f"a memory to be kept is a text, or a document with content, not {shown(one)}")
    fields = msgspec.structs.asdict(one) if isinstance(one, Keeping) else dict(one)
    if "type" in fields:
        fields["memory_type"] = fields.pop("type")
    for name in ("valid_from", "valid_to"):
        if name in fields:
            fields[name] = _told(fields[name], name)
    source = fields.get("source")
    if isinstance(source, Source):  # msgspec takes it as it is, and Python does not look
        fields["source"] = msgspec.structs.asdict(source)
    unknown = [name for name in source if name not in Source.__struct_fields__] if isinstance(source, Mapping) else []
    if unknown:  # else it could not be erased by its source
        raise Invalid(f"a source has no {shown(unknown[0])}; there are {', '.join(Source.__struct_fields__)}")
    return request(Keeping, **fields)


def request(kind: type[T], **fields: Any) -> T:
    """The request that these fields make, or `Invalid`."""
    try:
        return msgspec.convert(fields, kind, from_attributes=True)
    except msgspec.ValidationError as wrong:
        raise Invalid(_explained(str(wrong), kind.__struct_fields__)) from wrong  # type: ignore[attr-defined]
    except UnicodeEncodeError as wrong:
        raise Invalid(f"{wrong}; correct it") from wrong


def several(values: Any, kind: type[T]) -> tuple[T, ...]:
    """Names of a kind, or `Invalid`."""
    try:
        return msgspec.convert(some(values), tuple[kind, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError as wrong:
        raise Invalid(_explained(str(wrong), (), tuple(kind))) from wrong  # type: ignore[arg-type]


def _explained(said: str, fields: tuple[str, ...], choices: tuple[str, ...] = ()) -> str:
    """What is wrong with a request; of what there is to choose from, the names."""
    found = _CHOICE.fullmatch(said)
    if found is not None:
        names = ", ".join(choices or CHOICES[found["field"]])
        return f"{found['value'][:LONGEST]} is not one of {names} - at {found['place']}"
    return f"{said}; there are {', '.join(fields)}" if "unknown field" in said else said


def some(values: Any) -> tuple[Any, ...]:
    """Several, or one by itself."""
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable):
        raise Invalid(f"types and statuses are a list of names, not {shown(values)}")
    return tuple(values)


def id_of(id: Any) -> str:
    """A memory's id, or `Invalid`."""
    hint = "" if isinstance(id, str) else _hint(id)
    if hint:
        raise Invalid(f"a memory's id is a text, not {shown(id)}; {hint}")
    return given.text_of(id, "a memory's id")


def _hint(id: Any) -> str:
    """What was probably meant by something that is no id."""
    from perdure.services.memories import Scored

    if isinstance(id, Memory):
        return "give its .id"
    if isinstance(id, Scored):
        return "give its .memory.id"
    return "give the ids one by one, as *ids" if isinstance(id, list | tuple | set | frozenset) else ""


def moment_of(value: Time, name: str) -> int | None:
    """When something began or ended to be true, in microseconds; `Invalid` where seconds are given."""
    return time_of(_told(value, name), name)


def _told(value: Any, name: str) -> Any:
    """A time as its writer gives it; what is no number is certain."""
    if isinstance(value, datetime):
        return time_of(value, name)
    must_be_micros(value, name, "give a datetime to be certain")
    return value


def time_of(value: Time, name: str) -> int | None:
    """A moment in microseconds, if one is given."""
    return None if value is None else given.micros_of(value, name)
