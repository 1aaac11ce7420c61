"""What callers hand in, checked at the door: a wrong type or a text that cannot be stored is `Invalid`, by name."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session.declared import Declared
from perdure.core.session.ids import SessionId, is_id, session_id
from perdure.core.session.origin import Config, Recall
from perdure.core.session.shown import shown
from perdure.core.session.timeouts import admit_names
from perdure.core.session.values import check
from perdure.core.session.vars import Vars
from perdure.sealing.given import path_text

if TYPE_CHECKING:
    from perdure.compose.memory import MemorySettings

MAX_TEXT = 1000
FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""The times that stores compare, in microseconds since 1970."""
_CAPS = ("max_cost", "max_tokens", "max_rounds")
_CONFIG = frozenset(Config.__struct_fields__)
Time = datetime | int | None
Progress = Callable[[int, int], None]


class Conditions(TypedDict, total=False):
    """What `find` can ask for. Times are datetimes, or microseconds; texts match whole words in one append. The logs in
    which memories are kept are found with `memories` alone.
    """

    owner: str | None
    phase: str | Iterable[str] | None
    tags: Iterable[str] | None
    metadata: dict[str, Any] | None
    title: str | None
    text: str | None
    parent: str | None
    open_turn: bool | None
    created_after: Time
    created_before: Time
    active_after: Time
    active_before: Time
    order: Literal["created", "active"]
    memories: bool


def text_of(value: Any, what: str) -> str:
    """A short text, or `Invalid`."""
    if type(value) is not str or len(value) > MAX_TEXT:
        raise Invalid(f"{what} is a text of at most {MAX_TEXT} characters, not {shown(value)}")
    check(value)
    return value


def maybe_text(value: Any, what: str) -> str | None:
    """A short text or nothing, or `Invalid`."""
    return None if value is None else text_of(value, what)


def texts_of(values: Any, what: str) -> tuple[str, ...]:
    """Short texts, or `Invalid`; one text alone is a mistake, not a list of its letters."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise Invalid(f"{what}s are a list of texts, not {shown(values)}")
    return tuple(text_of(value, what) for value in values)


def number_of(value: Any, what: str) -> int:
    """A whole number, or `Invalid`."""
    if type(value) is not int:
        raise Invalid(f"{what} is a whole number, not {shown(value)}")
    return value


def maybe_number(value: Any, what: str) -> int | None:
    """A whole number or nothing, or `Invalid`."""
    return None if value is None else number_of(value, what)


def id_of(value: Any) -> SessionId:
    """A session's id in its canonical spelling, or `Invalid`."""
    if type(value) is not str:
        raise Invalid(f"a session's id is a text, not {shown(value)}")
    return session_id(text_of(value, "a session's id"))


def path_of(value: Any) -> str:
    """A path that a file can have, or `Invalid`."""
    return path_text(value, "a path is a text without NUL, or a Path")


def progress_of(value: Any) -> Progress | None:
    """Something to call with how much is done of how much, or nothing; else `Invalid`."""
    if value is not None and not callable(value):
        raise Invalid(f"progress is something to call, not {shown(value)}")
    found: Progress | None = value
    return found


def flag_of(value: Any, what: str) -> bool:
    """True or False, or `Invalid`."""
    if type(value) is not bool:
        raise Invalid(f"{what} is True or False, not {shown(value)}")
    return value


def declared_of(value: Any) -> Declared[Any]:
    """What `perdure.declare` made, or `Invalid`."""
    if not isinstance(value, Declared):
        raise Invalid(f"declared= takes what perdure.declare made of your model, not {shown(value)}")
    return value


def document_of(value: dict[str, Any] | None, what: str) -> dict[str, Any]:
    """A plain document, or `Invalid`."""
    if value is not None and type(value) is not dict:
        raise Invalid(f"{what} is a dict, not {type(value).__name__}")
    return value or {}


def naming(title: str, metadata: dict[str, Any], name: str | None, id: str) -> tuple[str, dict[str, Any]]:
    """Title and metadata of a session that goes by a name, which is kept in one of them: nothing else tells it."""
    if name is None or name.replace("-", "").lower() == id.replace("-", ""):
        return title, metadata
    if not title or title == name:
        return name, metadata
    return title, {"name": name, **metadata}


def must_be_a_name(name: str | None) -> None:
    """`Invalid` for a name that is an id: whether it is taken would tell of sessions that are somebody else's."""
    if name is not None and is_id(name):
        raise Invalid("a name that is an id leads to that session; choose another name")


def config_of(config: Config | dict[str, Any] | None) -> Config | None:
    """A configuration from its fields, checked."""
    if config is None or isinstance(config, Config):
        return config
    fields_of(config)
    recall = config.get("memory")
    unknown = [name for name in recall if name not in Recall.__struct_fields__] if isinstance(recall, dict) else []
    if unknown:
        told = f"config.memory has no field {shown(unknown[0])}; there are {', '.join(Recall.__struct_fields__)}"
        raise Invalid(told, field="config.memory")
    try:
        return msgspec.convert(config, Config)
    except (msgspec.ValidationError, UnicodeEncodeError) as wrong:
        there = f"; there are {', '.join(Config.__struct_fields__)}" if config.keys() - _CONFIG else ""
        raise Invalid(f"config: {wrong}{there}") from wrong


def fields_of(config: Config | dict[str, Any] | None) -> tuple[str, ...]:
    """The fields a change of configuration names. A whole one names all, but a cap goes only when told to by name."""
    if config is None:
        return ()
    if isinstance(config, Config):
        return tuple(
            name for name in Config.__struct_fields__ if name not in _CAPS or getattr(config, name) is not None
        )
    if type(config) is not dict:
        raise Invalid(f"config is a Config or a dict of its fields, not {shown(config)}")
    admit_names(config.get("timeouts"))
    return tuple(sorted(text_of(name, "a field of config") for name in config))


def memory_of(memory: Any) -> "MemorySettings | None":
    """How a store remembers: settings, their fields, or the name of an embedder; else `Invalid`."""
    if memory is None:
        return None
    from perdure.compose.memory import MemorySettings, checked

    fields = {"embedder": memory} if isinstance(memory, str) else memory
    if isinstance(memory, MemorySettings):
        fields = msgspec.structs.asdict(memory)
    try:
        found = msgspec.convert(fields, MemorySettings)
    except msgspec.ValidationError as wrong:
        there = ", ".join(MemorySettings.__struct_fields__)
        told = f"memory: {wrong}; it is a perdure.memory.MemorySettings, a dict of its fields ({there}), or an embedder"
        raise Invalid(told) from wrong
    return checked(found)


def overrides_of(config: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of the configuration a branch replaces, by name."""
    fields_of(found := document_of(config, "config"))
    return found


def vars_of(value: Any, declared: Declared[Any] | None) -> dict[str, Any]:
    """The first `vars` of a session as the command wants them."""
    if declared is not None:
        declared = declared_of(declared)
        document = declared.dump(declared.initial() if value is None else value)
        return {"vars": document, "schema": declared.name, "schema_version": declared.version}
    if value is None:
        return {}
    if type(value) is Vars:  # what somebody declared elsewhere, as it came over a connection
        return {"vars": value.document, "schema": value.schema, "schema_version": value.schema_version}
    if type(value) is not dict:
        raise Invalid("vars are a dict, or an instance of a model you declare; pass declared=")
    return {"vars": value}


def set_vars_of(found: Vars, value: Any, declared: Declared[Any] | None) -> do.SetVars:
    """The command that replaces `vars`; fields of a newer minor are carried along."""
    if declared is None:
        if type(value) is not dict:
            raise Invalid("vars are a dict, or an instance of a model you declare; pass declared=")
        return do.SetVars(document=value)
    declared, stored = declared_of(declared), found.schema_version or None
    document = declared.carry(found.document, value, stored) if found.document else declared.dump(value)
    return do.SetVars(document=document, schema=declared.name, schema_version=declared.stamp(stored))


def query_of(conditions: Conditions) -> dict[str, Any]:
    """The conditions of `find` as the query wants them; an unknown one is `Invalid`."""
    found: dict[str, Any] = {name: value for name, value in conditions.items() if value is not None}
    known = Conditions.__annotations__
    for name in found:
        if name not in known:
            raise Invalid(f"find knows no condition {name}; it knows {', '.join(known)}", condition=name)
    flag_of(found.pop("memories", False), "memories")
    phase = found.pop("phase", ())
    found["phases"] = (phase,) if isinstance(phase, str) else texts_of(phase, "phase")
    found["tags"] = texts_of(found.get("tags", ()), "tag")
    order = found.pop("order", "created")
    if type(order) is not str or order not in ("created", "active"):
        raise Invalid(f"{shown(order)} is not an order; use created or active")
    found["by_activity"] = order == "active"
    if "parent" in found:
        found["parent"] = id_of(found["parent"])
    for name in ("created_after", "created_before", "active_after", "active_before"):
        if name in found:
            found[name] = micros_of(found[name], name)
    return found


def micros_of(time: Any, name: str) -> int:
    """A moment in microseconds since 1970, or `Invalid`."""
    if not isinstance(time, datetime):
        if not FIRST <= number_of(time, name) <= LAST:
            raise Invalid(f"{name}: that time is too far away; give microseconds since 1970 in 64 bits")
        return int(time)
    try:
        return int(time.timestamp() * 1_000_000)
    except (ValueError, OverflowError, OSError):
        raise Invalid(f"{name}: that time is too far away; use one of the years 2 to 9998") from None
