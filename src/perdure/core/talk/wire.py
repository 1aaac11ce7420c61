"""What the three wire forms have in common: reading fields with care, keeping what has no place, writing frames.

What a block has beyond the common form is its *rest*: a `Foreign` right behind it that holds nothing else. A rest
belongs to what stands before it: the block, or, at the start of a message, the message. So the common form stays
common, a round trip loses nothing, and another provider passes over what is not for it.
"""

import base64
import binascii
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Ask, Block, Call, Foreign, Media, Text

_REST: Final = "rest"
_NAMES: Final = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a truth value",
    int: "an integer",
    float: "a number",
    type(None): "null",
}
T = TypeVar("T", bound=Block)


# ── reading ──


def wrong(where: str, wanted: str, value: object) -> Invalid:
    """The error that says where a document is wrong, and what belongs there."""
    found = _NAMES.get(type(value), type(value).__name__)
    return Invalid(f"{where} must be {wanted}, and is {found}; send {wanted} there", where=where)


def missing(where: str) -> Invalid:
    """The error that says which field is not there."""
    return Invalid(f"{where} is missing; send it", where=where)


def fields(value: object, where: str) -> dict[str, Any]:
    """The value as an object."""
    if not isinstance(value, dict):
        raise wrong(where, "an object", value)
    return value


def listed(value: object, where: str) -> list[Any]:
    """The value as a list."""
    if not isinstance(value, list):
        raise wrong(where, "a list", value)
    return value


def within(document: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """An object that must be there."""
    if key not in document:
        raise missing(f"{where}.{key}")
    return fields(document[key], f"{where}.{key}")


def word(document: dict[str, Any], key: str, where: str, default: str | None = None) -> str:
    """A string that must be there, unless there is a default; null counts as absent then."""
    value = document.get(key)
    if value is None and default is not None:
        return default
    if key not in document:
        raise missing(f"{where}.{key}")
    if not isinstance(value, str):
        raise wrong(f"{where}.{key}", "a string", value)
    return value


def whole(document: dict[str, Any], key: str, where: str) -> int | None:
    """An integer from 0 on, or None where there is none."""
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{where}.{key}", "an integer", value)
    if value < 0:
        raise Invalid(f"{where}.{key} must not be negative, and is {value}; send 0 or more", where=f"{where}.{key}")
    return value


def real(document: dict[str, Any], key: str, where: str) -> float | None:
    """A number, or None where there is none."""
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{where}.{key}", "a number", value)
    return value


def flag(document: dict[str, Any], key: str, where: str) -> bool:
    """A truth value; absent and null are False."""
    value = document.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise wrong(f"{where}.{key}", "a truth value", value)
    return value


def optional(document: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    """An object; absent and null are empty."""
    value = document.get(key)
    return {} if value is None else fields(value, f"{where}.{key}")


def strings(value: object, where: str) -> tuple[str, ...]:
    """The value as a list of strings; null is empty."""
    items = [] if value is None else listed(value, where)
    for at, item in enumerate(items):
        if not isinstance(item, str):
            raise wrong(f"{where}[{at}]", "a string", item)
    return tuple(items)


def arguments(call: str, name: str, text: str) -> Call:
    """A call from the text of its arguments: an object if that is what it says, else the text as it is."""
    if not text.strip():
        return Call(id=call, name=name)
    try:
        value = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = None
    if isinstance(value, dict):
        return Call(id=call, name=name, arguments=value)
    return Call(id=call, name=name, raw=text)


def written(call: Call) -> str:
    """The text of a call's arguments."""
    return call.raw or compact(call.arguments)


def data_url(url: str, where: str) -> tuple[str, bytes] | None:
    """Media type and bytes of a `data:` URL in base64; None for any other URL."""
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        return None
    return head[len("data:") : -len(";base64")], unpacked(data, where)


def url_of(media: Media) -> str:
    """Where the bytes are, or the bytes themselves as a `data:` URL."""
    return media.url or f"data:{media.media_type};base64,{packed(media.data)}"


def packed(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode()


def unpacked(text: str, where: str) -> bytes:
    """Bytes from base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{where} is not base64 ({error}); send the bytes as base64", where=where) from error


# ── what has no place ──


class Held(NamedTuple):
    """A block with its rest; `home` is the provider that left one, if any."""

    block: Block
    rest: dict[str, Any]
    home: str


def left(document: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """The fields that have no place in the common form."""
    return {key: value for key, value in document.items() if key not in known}


def rest(provider: str, found: dict[str, Any]) -> tuple[Foreign, ...]:
    """The block that keeps them, or nothing where nothing is left."""
    return (Foreign(provider=provider, block={_REST: found}),) if found else ()


def rest_in(block: object) -> dict[str, Any] | None:
    """What a rest keeps; None for any other block."""
    if isinstance(block, Foreign) and set(block.block) == {_REST}:
        kept = block.block[_REST]
        return kept if isinstance(kept, dict) else None
    return None


def held(blocks: Iterable[Block], provider: str) -> tuple[dict[str, Any], list[Held]]:
    """The rest of the message, and each block with its own; of what other providers left only the name is told."""
    message: dict[str, Any] = {}
    found: list[Held] = []
    for block in blocks:
        kept = rest_in(block)
        if kept is None or not isinstance(block, Foreign):
            found.append(Held(block, {}, ""))
        elif found:
            mine = kept if block.provider == provider else {}
            found[-1] = Held(found[-1].block, merged(found[-1].rest, mine), block.provider)
        elif block.provider == provider:
            message = merged(message, kept)
    return message, found


def merged(document: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both; where both have an object, both of its fields; else what is more decides."""
    both = dict(document)
    for key, value in more.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def nearest(block: Foreign, *, spoken: bool) -> Text | None:
    """A block that only another provider understands, as words. What a model said beyond words is passed over."""
    words = block.block.get("text", block.block.get("refusal"))
    if isinstance(words, str):
        return Text(text=words)
    return None if spoken else Text(text=compact(block.block))


def origin(ask: Ask) -> str:
    """The provider whose wire form the ask was read from, or "" for one that was made here."""
    return next(iter(ask.extra), "")


def texts(blocks: Sequence[Block]) -> str:
    """All words, one part below the other."""
    return "\n\n".join(block.text for block in blocks if isinstance(block, Text))


# ── writing ──


def compact(value: object) -> str:
    """JSON without spaces."""
    return msgspec.json.encode(value).decode()


def frame(data: dict[str, Any], event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
