"""Reading the application's models: msgspec Structs, dataclasses, pydantic models and plain dicts, by reflection.

Neither dataclasses nor pydantic is imported here: a model of theirs is recognised by what it carries, and whoever
has such a model has imported them already.
"""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct

from perdure.core.errors import Invalid, SchemaError
from perdure.core.session import structs
from perdure.core.session.packing import encode
from perdure.core.session.schema import Field
from perdure.core.session.values import Ref, check

_BUILTINS = (bytes, datetime, timedelta)
_EXACT = frozenset({NoneType, bool, int, float, str, bytes, timedelta, Ref})
_RECORD = "record"


class Member(Struct, frozen=True):
    """A field of a model: its name in the document, its annotation, and its default if it is plain."""

    name: str
    annotation: Any
    required: bool
    default: Any = UNSET


def is_struct(model: Any) -> bool:
    """Tell whether this is a msgspec Struct of the application's; a `Ref` is a value, not a record."""
    return isinstance(model, type) and issubclass(model, Struct) and model is not Ref


def is_pydantic(model: Any) -> bool:
    """Tell whether this is a pydantic model."""
    return isinstance(model, type) and hasattr(model, "model_validate") and hasattr(model, "model_fields")


def is_record(model: Any) -> bool:
    """Tell whether this class declares fields."""
    return is_struct(model) or is_pydantic(model) or _is_dataclass(model)


def _is_dataclass(model: Any) -> bool:
    return isinstance(model, type) and hasattr(model, "__dataclass_fields__")


def members(model: Any) -> list[Member]:
    """List the fields of a model as documents name them."""
    if is_struct(model):
        return [
            Member(field.encode_name, field.type, field.required, _plain_default(field.default))
            for field in msgspec.structs.fields(model)
        ]
    if is_pydantic(model):
        return [
            Member(field.alias or name, field.annotation, field.is_required(), _plain_default(field.default))
            for name, field in model.model_fields.items()
        ]
    if not is_record(model):
        return []
    hints = get_type_hints(model)
    missing = sys.modules["dataclasses"].MISSING
    return [
        Member(
            field.name,
            hints[field.name],
            field.default is missing and field.default_factory is missing,
            _plain_default(field.default),
        )
        for field in sys.modules["dataclasses"].fields(model)
        if field.init
    ]


def _plain_default(default: Any) -> Any:
    value = plain(default)
    try:
        check(value)
    except Invalid:
        return UNSET
    return value


def fields(model: Any, prefix: str = "", above: tuple[Any, ...] = ()) -> list[Field]:
    """Describe a model for `schema.compare`, nested records included."""
    found = []
    for member in members(model):
        name = prefix + member.name
        found.append(
            Field(
                name=name,
                type=type_text(member.annotation),
                required=member.required,
                default=member.default,
                variants=tuple(sorted(map(str, variants(member.annotation) or ()))),
            )
        )
        for record, mark in _records(member.annotation, ""):
            if record not in above and record is not model:
                found += fields(record, f"{name}{mark}.", (*above, model))
    return found


def _records(annotation: Any, mark: str) -> list[tuple[Any, str]]:
    """Find the records an annotation leads to, with `[]` for each list or map on the way."""
    if is_record(annotation):
        return [(annotation, mark)]
    origin = get_origin(annotation)
    if origin is None or origin is Literal:
        return []
    inner = mark if origin in (Union, UnionType, Annotated) else f"{mark}[]"
    return [found for part in get_args(annotation) for found in _records(part, inner)]


def type_text(annotation: Any) -> str:
    """Name a type so that equal types have equal names, whatever module they live in; variants are left out."""
    if annotation is None or annotation is NoneType:
        return "None"
    if annotation is Any:
        return "Any"
    if annotation is Ellipsis:
        return "..."
    if is_record(annotation):
        return _RECORD
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "enum"
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "enum"
    if origin is Annotated:
        return type_text(parts[0])
    if origin in (Union, UnionType):
        return " | ".join(sorted({type_text(part) for part in parts}))
    if origin is not None:
        return f"{getattr(origin, '__name__', origin)}[{', '.join(map(type_text, parts))}]"
    return str(getattr(annotation, "__name__", annotation))


def variants(annotation: Any) -> set[Any] | None:
    """Give the values a closed type admits, or None if the type is open."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {member.value for member in annotation}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {part.value if isinstance(part, Enum) else part for part in parts}
    if origin is Annotated:
        return variants(parts[0])
    if origin in (Union, UnionType):
        found: set[Any] = set()
        for part in parts:
            inner = {None} if part in (None, NoneType) else variants(part)
            if inner is None:
                return None
            found |= inner
        return found
    return None


def plain(obj: Any) -> Any:
    """Turn an object and all it holds into values. What cannot be turned stays, for `check` to name."""
    kind = type(obj)
    if kind in _EXACT:
        return obj
    if kind is datetime:
        return obj if obj.tzinfo is None else obj.astimezone(UTC)
    if isinstance(obj, Enum):
        return plain(obj.value)
    if isinstance(obj, Mapping):
        found = {_key(key): plain(item) for key, item in obj.items()}
        if len(found) != len(obj):
            raise Invalid("two keys of a map become the same text, like 1 and '1'; use keys of one type")
        return found
    if isinstance(obj, list | tuple) or kind.__name__ == "deque":
        return [plain(item) for item in obj]
    if isinstance(obj, set | frozenset):
        return _plain_set(obj)
    if isinstance(obj, bytearray | memoryview):
        return bytes(obj)
    if is_record(kind):
        return _plain_record(obj)
    return _plain_other(obj)


def _key(key: Any) -> Any:
    key = key.value if isinstance(key, Enum) else key
    return key if type(key) is str else str(_plain_other(key))


def _plain_set(held: Any) -> Any:
    elements = [_frozen(plain(item)) for item in held]
    try:
        return frozenset(elements)
    except TypeError:  # records in a set: a list in a fixed order says as much
        return sorted(elements, key=encode)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if type(value) is list else value


def _plain_record(obj: Any) -> Any:
    model = type(obj)
    if is_pydantic(model):
        return plain(obj.model_dump(mode="python", by_alias=True, round_trip=True))
    if not is_struct(model):
        return {member.name: plain(getattr(obj, member.name)) for member in members(model)}
    held = {name: getattr(obj, name) for name in model.__struct_fields__}
    config = model.__struct_config__
    if config.array_like:
        return ([config.tag] if config.tag is not None else []) + [plain(item) for item in held.values()]
    named = zip(model.__struct_encode_fields__, held.values(), strict=True)
    found = {name: plain(item) for name, item in named if item is not UNSET}
    return found if config.tag is None else {config.tag_field: config.tag} | found


def _plain_other(obj: Any) -> Any:
    """Turn dates, decimals, UUIDs and the like into text, the way msgspec or pydantic writes them."""
    for base in (int, float, str):
        if isinstance(obj, base):
            return base(obj)
    if hasattr(obj, "get_secret_value"):  # its text is a mask: storing that would lose the secret without a word
        return obj
    try:
        return msgspec.to_builtins(obj)
    except (TypeError, ValueError):
        core = sys.modules.get("pydantic_core")
        if core is None:
            return obj
        try:
            return core.to_jsonable_python(obj)
        except ValueError:
            return obj


def learn(model: Any) -> None:
    """Have msgspec learn a model where it is declared, before threads meet it; pydantic's are not its concern."""
    if is_struct(model) or _is_dataclass(model):
        structs.learn(model)


def build(model: Any, document: dict[str, Any]) -> Any:
    """Make an instance of the model. Raises `SchemaError`, with what the model says, if the document does not fit."""
    if model is dict:
        return document
    try:
        if is_pydantic(model):
            return model.model_validate(document)
        return msgspec.convert(document, model, builtin_types=_BUILTINS, str_keys=True)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise SchemaError(f"the document does not fit {model.__name__}: {error}", model=model.__name__) from error


def readable(model: Any, document: Any) -> Any:
    """Leave out of a newer document what this model cannot read and can do without: unknown variants of optional
    fields, and unknown fields where the model forbids them."""
    if not is_record(model) or type(document) is not dict:
        return document
    found = dict(document)
    known = members(model)
    for member in known:
        if member.name not in found:
            continue
        allowed = variants(member.annotation)
        held = found[member.name]
        if allowed is not None and not member.required and not _admitted(held, allowed):
            del found[member.name]
            continue
        records = [record for record, mark in _records(member.annotation, "") if not mark]
        if len(records) == 1:
            found[member.name] = readable(records[0], held)
    if _forbids_unknown(model):
        names = {member.name for member in known} | {getattr(_config(model), "tag_field", None)}
        found = {name: item for name, item in found.items() if name in names}
    return found


def _admitted(held: Any, allowed: set[Any]) -> bool:
    return any(type(held) is type(value) and held == value for value in allowed)


def _config(model: Any) -> Any:
    return getattr(model, "__struct_config__", None)


def _forbids_unknown(model: Any) -> bool:
    if is_pydantic(model):
        return bool(model.model_config.get("extra") == "forbid")
    return bool(getattr(_config(model), "forbid_unknown_fields", False))
