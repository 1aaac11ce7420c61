"""Structs whose fields hold values, to canonical MessagePack and back, by the same rules as plain values.

A Struct is written as the map (or array) it declares. Its declared types are trusted, because mypy has checked them;
what the types cannot promise is walked: fields of type `Value` (or Any), floats, datetimes, sets, durations, refs.
Invariant: equal Structs have equal encodings, also where `omit_defaults` alone would not give that (msgspec leaves a
field out if it *is* the default object; here it is left out if it equals the default).
"""

from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

import msgspec
from msgspec import NODEFAULT, UNSET, MsgspecError, Struct
from msgspec import inspect as kinds
from msgspec.msgpack import Decoder
from msgspec.structs import force_setattr

from perdure.core.errors import Invalid
from perdure.core.session.packing import ENCODER, GENERIC, explain, from_ext, lower, malformed, refuse_size
from perdure.core.session.values import (
    DEFAULT_LIMITS,
    PLAIN,
    UNSURE,
    Limits,
    Path,
    Ref,
    locate,
    path_text,
    same,
    survey,
)

T = TypeVar("T")

_SCALARS = (kinds.NoneType, kinds.BoolType, kinds.IntType, kinds.StrType, kinds.BytesType, kinds.LiteralType)
_TRUSTED = (*_SCALARS, kinds.EnumType)
_VALUES = (*_SCALARS, kinds.AnyType, kinds.FloatType, kinds.DateTimeType, kinds.TimeDeltaType)
_MISSING = object()


class _Attention(Struct, frozen=True):
    """One field that must be looked at, because it holds a value, a tree of rich types, or a default to recognise."""

    name: str
    value: bool
    tree: bool
    default: Any  # left out of the encoding when it equals this; `_MISSING` when it is always written
    fragile: bool  # an equal value may be another object, which msgspec would not recognise
    default_bytes: bytes | None = None  # of a Struct, which is recognised by its encoding


_plans: dict[type, tuple[_Attention, ...]] = {}


def encode_struct(struct: Struct, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Write a Struct canonically. The limits on shape hold for each value in it, `max_bytes` for the whole.

    Raises `Invalid`, `TooDeep` or `TooLarge`, naming the path, if a field holds something that is not storable.
    """
    try:
        data = ENCODER.encode(_ready(struct, (), limits))
    except (UnicodeEncodeError, OverflowError) as error:
        _blame(struct, (), limits)
        explain(error, None, limits)
    except (TypeError, RecursionError) as error:
        explain(error, None, limits)
    if len(data) > limits.max_bytes:
        refuse_size(len(data), limits)
    return data


def _ready(struct: Struct, path: Path, limits: Limits) -> Struct:
    """Give the Struct, or a copy of it in which everything rich is lowered and every default is the default object."""
    cls = type(struct)
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = _plan(cls)
    changed: list[tuple[str, Any]] = []
    for field in plan:
        held = getattr(struct, field.name)
        if held is field.default or held is UNSET:
            continue
        if field.default is set and type(held) is set and not held:
            continue
        if field.fragile and type(held) is type(field.default) and same(held, field.default):
            changed.append((field.name, field.default))
        elif field.value:
            if type(held) is str or (not held and type(held) is dict):
                continue
            verdict = survey(held, limits)
            if verdict != PLAIN:
                if verdict == UNSURE:
                    _locate_under(held, (*path, field.name), limits)
                changed.append((field.name, lower(held)))
        elif field.tree:
            ready = _ready_tree(held, (*path, field.name), limits)
            if field.default_bytes is not None and ENCODER.encode(ready) == field.default_bytes:
                ready = field.default
            if ready is not held:
                changed.append((field.name, ready))
    if not changed:
        return struct
    altered = copy(struct)
    for name, ready in changed:
        force_setattr(altered, name, ready)
    return altered


def _ready_tree(held: Any, path: Path, limits: Limits) -> Any:
    """Do for a declared tree (Structs in lists and maps, floats, sets …) what `_ready` does for one Struct."""
    kind = type(held)
    if kind is str or kind is int or kind is bool or held is None:
        return held
    if isinstance(held, Struct) and kind is not Ref:
        return _ready(held, path, limits)
    if kind is list or kind is tuple:
        ready = [_ready_tree(item, (*path, index), limits) for index, item in enumerate(held)]
        return held if all(map(_is, ready, held)) else ready
    if kind is dict:
        mapped = {key: _ready_tree(item, (*path, key), limits) for key, item in held.items()}
        return held if all(map(_is, mapped.values(), held.values())) else mapped
    if kind in _LEAVES:
        if survey(held, limits) == UNSURE:
            _locate_under(held, path, limits)
        return lower(held)
    return held


_LEAVES = frozenset({float, datetime, timedelta, Ref, set, frozenset})


def _is(a: object, b: object) -> bool:
    return a is b


def _blame(held: Any, path: Path, limits: Limits) -> None:
    """Raise the error that names the text or number the encoder stumbled over, if it is one of those."""
    if isinstance(held, Struct):
        for name in held.__struct_fields__:
            _blame(getattr(held, name), (*path, name), limits)
    elif type(held) is list or type(held) is tuple:
        for index, item in enumerate(held):
            _blame(item, (*path, index), limits)
    elif type(held) is dict:
        for key, item in held.items():
            _locate_under({key: None}, path, limits)
            _blame(item, (*path, key), limits)
    elif type(held) is str or type(held) is int:
        _locate_under(held, path, limits)


def _locate_under(held: Any, path: Path, limits: Limits) -> None:
    try:
        locate(held, limits)
    except Invalid as error:
        full = (*path, *error.fields.get("path", ()))
        message = error.message.split(": ", 1)[-1] if "path" in error.fields else error.message
        raise type(error)(f"at {path_text(full)}: {message}", **(error.fields | {"path": full})) from None


def _plan(cls: type[Struct]) -> tuple[_Attention, ...]:
    """List the fields of `cls` that cannot simply be handed to the encoder."""
    info = kinds.type_info(cls)
    assert isinstance(info, kinds.StructType)
    found = []
    for field in info.fields:
        trusted = _trusted(field.type, (cls,))
        value = not trusted and _is_value(field.type)
        tree = not trusted and not value
        default, fragile, default_bytes = _MISSING, False, None
        if cls.__struct_config__.omit_defaults:
            fragile = _fragile(field.default)
            given = field.default if field.default_factory is NODEFAULT else field.default_factory
            default = _MISSING if given is NODEFAULT else given
            if isinstance(given, Struct) and type(given) is not Ref:
                default_bytes, value, tree = encode_struct(given), False, True
        if value or tree or fragile:
            found.append(_Attention(field.name, value, tree, default, fragile, default_bytes))
    return tuple(found)


def _fragile(default: Any) -> bool:
    """Tell whether an equal value may be another object than this default."""
    if type(default) is int:
        return not -5 <= default <= 256
    if type(default) in (str, bytes, tuple) and not default:
        return False  # CPython has only one of each
    return type(default) in (str, bytes, float, tuple, frozenset, datetime, timedelta, Ref)


def _needs_recognition(default: Any) -> bool:
    return _fragile(default) or isinstance(default, Struct)


def _trusted(kind: kinds.Type, above: tuple[type, ...]) -> bool:
    """Tell whether everything of this declared type is encoded by msgspec just as our rules want it."""
    if isinstance(kind, _TRUSTED):
        return True
    if isinstance(kind, kinds.UnionType | kinds.ListType | kinds.VarTupleType | kinds.TupleType | kinds.DictType):
        return all(_trusted(member, above) for member in _inside(kind))
    if isinstance(kind, kinds.StructType) and kind.cls not in above:
        omits = kind.cls.__struct_config__.omit_defaults
        return all(
            _trusted(field.type, (*above, kind.cls)) and not (omits and _needs_recognition(field.default))
            for field in kind.fields
        )
    return False


def _is_value(kind: kinds.Type) -> bool:
    """Tell whether everything of this declared type is a value, so that `survey` can judge it whole."""
    if isinstance(kind, _VALUES):
        return True
    if isinstance(kind, kinds.StructType):
        return kind.cls is Ref
    return bool(_inside(kind)) and all(map(_is_value, _inside(kind)))


def _inside(kind: kinds.Type) -> tuple[kinds.Type, ...]:
    """Give the types that a container or union is made of."""
    if isinstance(kind, kinds.UnionType):
        return kind.types
    if isinstance(kind, kinds.ListType | kinds.VarTupleType | kinds.SetType | kinds.FrozenSetType):
        return (kind.item_type,)
    if isinstance(kind, kinds.TupleType):
        return kind.item_types
    if isinstance(kind, kinds.DictType):
        return (kind.key_type, kind.value_type)
    return ()


def learn(*kinds: Any) -> None:
    """Have msgspec learn types now, where they are defined: it learns one when it first meets it, and crashes when two
    threads have it learn the same one at a time.
    """
    for kind in kinds:
        Decoder(kind)


@overload
def decoder(kind: type[T], limits: Limits = ...) -> Callable[[bytes], T]: ...
@overload
def decoder(kind: Any, limits: Limits = ...) -> Callable[[bytes], Any]: ...
def decoder(kind: Any, limits: Limits = DEFAULT_LIMITS) -> Callable[[bytes], Any]:
    """Make a reader of `encode_struct`'s bytes for one type or union. Its bytes must have been authenticated:
    unlike `decode` it accepts fields it does not know and does not insist on canonical form.

    The reader raises `Invalid`, `TooDeep` or `TooLarge`, never anything else.
    """
    direct: Callable[[bytes], Any] = Decoder(kind, ext_hook=from_ext).decode
    stepwise = _holds_extension(kinds.type_info(kind), ())

    def read(data: bytes) -> Any:
        if len(data) > limits.max_bytes:
            refuse_size(len(data), limits)
        try:
            if not stepwise:
                return direct(data)
            # msgspec reads an extension type only into an untyped field: read plain data first, then fit it.
            return msgspec.convert(GENERIC.decode(data), kind, builtin_types=(bytes, datetime, timedelta))
        except (MsgspecError, ValueError, TypeError, RecursionError) as error:
            malformed(error, limits)

    return read


def _holds_extension(kind: kinds.Type, above: tuple[type, ...]) -> bool:
    """Tell whether this type declares a set, a duration or a ref anywhere."""
    if isinstance(kind, kinds.SetType | kinds.FrozenSetType | kinds.TimeDeltaType):
        return True
    if isinstance(kind, kinds.StructType):
        if kind.cls is Ref:
            return True
        if kind.cls in above:
            return False
        return any(_holds_extension(field.type, (*above, kind.cls)) for field in kind.fields)
    return any(_holds_extension(member, above) for member in _inside(kind))
