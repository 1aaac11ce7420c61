"""How values travel: plain JSON for everyone, exact JSON for those who want back what was stored to the last type.

Plain JSON (`application/json`) is taken literally, whatever its keys are called; bytes, times and sets of a stored
document are shown in the nearest form JSON has. Exact JSON (`application/vnd.perdure+json`) is the codec's own, in
which `{"$bytes": …}` and its like carry what JSON lacks; perdure's client speaks it.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from perdure.core.errors import Invalid, TooDeep
from perdure.core.session import codec
from perdure.core.session.values import STATE_LIMITS, Limits

T = TypeVar("T")
PLAIN: Final = "application/json"
EXACT: Final = "application/vnd.perdure+json"
_ENCODER: Final = msgspec.json.Encoder()
MOST_NAMES: Final = 20
"""So many names are told of what there is to choose from."""
LONGEST: Final = 80
"""So much is told back of what was sent."""
_AT: Final = " - at "
_STEP: Final = re.compile(r"\.([^.\[\]`]+)|\[([^\]]*)\]")
_CHOICE: Final = "Invalid enum value "
_UNKNOWN: Final = "Object contains unknown field "
_MISSING: Final = "Object missing required field "
_TOO_DEEP: Final = "the JSON is nested too deep; nest less"
_DEEP: Final = Limits(max_bytes=1 << 30, max_depth=128, max_items=1 << 24, max_key=1 << 24)


class Voice:
    """One of the two ways to speak."""

    __slots__ = ("exact", "media")

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.media = (EXACT if exact else PLAIN).encode()

    def content(self, value: Any) -> Any:
        """A stored value as an answer holds it."""
        return msgspec.Raw(codec.to_json(value, limits=STATE_LIMITS)) if self.exact else value

    def encode(self, answer: Any) -> bytes:
        """An answer as bytes. What it holds of stored values went through `content`."""
        return _ENCODER.encode(answer)


PLAINLY: Final = Voice(False)
EXACTLY: Final = Voice(True)


def voice_of(media: str | None) -> Voice:
    """How to speak to someone who accepts this."""
    return EXACTLY if media is not None and EXACT in media else PLAINLY


def loose(body: bytes, voice: Voice) -> Any:
    """Any JSON document; `Invalid` when the bytes are none."""
    if voice.exact and b'"$' in body:
        return codec.from_json(body, _DEEP)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Invalid("the body is not JSON in UTF-8; correct it") from None
    except RecursionError:
        raise TooDeep(_TOO_DEEP) from None


def typed(body: bytes, kind: type[T], voice: Voice, decoder: "msgspec.json.Decoder[T]") -> T:
    """The document a request must have; `Invalid` says where it has not."""
    if not (voice.exact and b'"$' in body):
        try:
            return decoder.decode(body)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # said below, after a number written as 3.0 was taken for the 3 it is
    return fitted(loose(body, voice), kind)


def fitted(document: Any, kind: type[T], *, texts: bool = False) -> T:
    """A plain document as the kind it must be; `texts` for what comes as words, such as a query."""
    try:
        return _converted(document, kind, strict=not texts)
    except RecursionError:
        raise TooDeep(_TOO_DEEP) from None


def _converted(document: Any, kind: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(document, kind, strict=strict)
    except msgspec.ValidationError as first:
        try:
            return msgspec.convert(_whole(document), kind, strict=strict)
        except msgspec.ValidationError:
            raise Invalid(explained(first, kind), at=_place(str(first))) from None


def explained(wrong: msgspec.ValidationError, kind: Any) -> str:
    """What is wrong with a document that should be of this kind; of what there is to choose from, the names."""
    said, at, place = str(wrong).rpartition(_AT)
    if not at:
        said, place = place, ""
    if said.startswith(_CHOICE):
        told = f"{said.removeprefix(_CHOICE)[:LONGEST]} is not one of {_listed(_words(kind, place))}"
    elif said.startswith(_UNKNOWN):
        name = said.removeprefix(_UNKNOWN).strip("`")[:LONGEST]
        told = f"there is no `{name}`; there are {_listed(_fields(kind, place))}"
    elif said.startswith(_MISSING):
        told = f"{said.removeprefix(_MISSING)} is missing; give it"
    else:
        told = said
    return told + at + place


def _listed(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    shown = [name for name in found if name][:MOST_NAMES]
    rest = ["…"] if len(found) > MOST_NAMES else ["or empty"] if "" in found else []
    return ", ".join(shown + rest) or "none"


def _words(kind: Any, place: str) -> Iterable[str]:
    for each in _kinds(kind, place):
        if isinstance(each, inspect.LiteralType):
            yield from map(str, each.values)
        elif isinstance(each, inspect.EnumType):
            yield from (str(item.value) for item in each.cls)


def _fields(kind: Any, place: str) -> Iterable[str]:
    for each in _kinds(kind, place):
        if isinstance(each, inspect.StructType):
            yield from (field.encode_name for field in each.fields)


def _kinds(kind: Any, place: str) -> list[inspect.Type]:
    """What may stand at a place, written as msgspec writes places, in a document of this kind."""
    found = _each(_info(kind))
    for name, _ in _STEP.findall(place):
        found = [below for each in found for below in _below(each, name)]
    if place.startswith("`key`"):
        found = [below for each in found if isinstance(each, inspect.DictType) for below in _each(each.key_type)]
    return found


@lru_cache(256)
def _info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _each(kind: inspect.Type) -> list[inspect.Type]:
    """The kinds that one of several, or one with something said about it, stands for."""
    if isinstance(kind, inspect.Metadata):
        return _each(kind.type)
    return [below for one in kind.types for below in _each(one)] if isinstance(kind, inspect.UnionType) else [kind]


def _below(kind: inspect.Type, name: str) -> list[inspect.Type]:
    """What may stand one step further in: in the field of that name, or, without a name, in an item."""
    if isinstance(kind, inspect.StructType):
        return [below for field in kind.fields if field.encode_name == name for below in _each(field.type)]
    inner = getattr(kind, "value_type", None) or getattr(kind, "item_type", None)
    return [] if inner is None else _each(inner)


def _place(message: str) -> str:
    """Where in a document something is wrong, as msgspec says it."""
    _, found, place = message.rpartition(" - at `")
    return place.rstrip("`") if found else "$"


def _whole(value: Any, depth: int = 0) -> Any:
    """The same document with whole numbers where floats stand for such: to JSON they are the same. `TooDeep` for what
    is nested deeper than any document may be, however much room this interpreter has left.
    """
    if depth > _DEEP.max_depth:
        raise TooDeep(_TOO_DEEP)
    if type(value) is float and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if type(value) is list:
        return [_whole(item, depth + 1) for item in value]
    if type(value) is dict:
        return {name: _whole(item, depth + 1) for name, item in value.items()}
    return value
