"""Values to JSON and back without loss. Invariant: no user data can be taken for a marker.

The rules are written down in `perdure.core.session.codec`, which is also where callers import from.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from msgspec import json as msgspec_json

from perdure.core.errors import Invalid, TooDeep
from perdure.core.session.packing import ENCODER, MICROSECOND, explain, freeze, lower, refuse_size
from perdure.core.session.values import DEFAULT_LIMITS, Limits, Ref, Value, check

_ENCODER = msgspec_json.Encoder(order="sorted")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")


def to_json(value: Value, *, indent: int | None = None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Write `value` as JSON, keys sorted, in one line or indented. Raises as `encode` does."""
    check(value, limits)
    try:
        text = _ENCODER.encode(_mark(value))
    except RecursionError as error:
        explain(error, value, limits)
    if len(text) > limits.max_bytes:
        refuse_size(len(text), limits)
    return text if indent is None else msgspec_json.format(text, indent=indent)


def _mark(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {f"${key}" if key[:1] == "$" else key: _mark(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_mark(item) for item in value]
    if kind is bytes:
        return {"$bytes": b2a_base64(value, newline=False).decode()}
    if kind is datetime:
        return {"$time": value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"}
    if kind is timedelta:
        return {"$duration": value // MICROSECOND}
    if kind is set or kind is frozenset:
        return {"$set": [_mark(item) for item in sorted(value, key=_canonical)]}
    if kind is Ref:
        return {"$ref": {"sha256": value.sha256.hex(), "uri": value.uri}}
    return value


def _canonical(element: Any) -> bytes:
    return ENCODER.encode(lower(element))


def from_json(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read JSON that `to_json` or a person wrote. Raises `Invalid` (also for a key given twice, and for a key with a
    single `$` that is no marker), `TooDeep` or `TooLarge`."""
    import json  # only here: it costs start-up time that most processes never need to spend

    if len(data) > limits.max_bytes:
        refuse_size(len(data), limits)
    try:
        value = json.loads(str(data, "utf-8"), object_pairs_hook=_unmark, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise TooDeep(
            f"the JSON is nested deeper than {limits.max_depth} levels; nest less", limit=limits.max_depth
        ) from error
    except ValueError as error:
        raise Invalid(f"the text is not JSON in UTF-8 ({error}); correct it") from error
    check(value, limits)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise Invalid(f"{name} is not JSON; use null or a string")


def _unmark(pairs: list[tuple[str, Any]]) -> Any:
    """Read one object: a marker's value, or a map whose keys have their escape taken off."""
    if len(pairs) == 1:
        name, held = pairs[0]
        if name[:1] == "$" and name[:2] != "$$":
            if name not in _MARKERS:
                _refuse_key(name)
            return _MARKERS[name](held)
    found = {}
    for key, item in pairs:
        if key[:1] == "$":
            if key[:2] != "$$":
                _refuse_key(key)
            key = key[1:]
        found[key] = item
    if len(found) != len(pairs):
        raise Invalid("an object has the same key twice; keep one")
    return found


def _refuse_key(key: str) -> NoReturn:
    raise Invalid(
        f"the key {key[:64]!r} begins with a single $ and is no marker; write ${key[:64]} for a key of that name"
    )


def _bytes(held: Any) -> bytes:
    if type(held) is str:
        try:
            found = a2b_base64(held.encode(), strict_mode=True)
        except (Base64Error, UnicodeEncodeError):
            found = b""
        if b2a_base64(found, newline=False).decode() == held:
            return found
    raise Invalid("$bytes holds padded base64; correct it")


def _time(held: Any) -> datetime:
    # The pattern stops digits below a microsecond, which Python would drop without a word.
    if type(held) is str and _TIME.fullmatch(held):
        try:
            return datetime.fromisoformat(held).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise Invalid("$time holds an ISO 8601 time with a zone, like 2024-01-31T12:00:00.000001Z; correct it")


def _duration(held: Any) -> timedelta:
    if type(held) is not int or not -(2**63) <= held < 2**63:
        raise Invalid("$duration holds int64 microseconds; correct it")
    return timedelta(microseconds=held)


def _set(held: Any) -> frozenset[Any]:
    if type(held) is not list:
        raise Invalid("$set holds an array; correct it")
    return freeze(held)


def _ref(held: Any) -> Ref:
    if type(held) is dict and held.keys() == {"uri", "sha256"} and _is_digest(held["sha256"]):
        return Ref(uri=held["uri"], sha256=bytes.fromhex(held["sha256"]))
    raise Invalid("$ref holds a uri and a sha256 in hexadecimal; correct it")


def _is_digest(text: Any) -> bool:
    return type(text) is str and len(text) == 64 and not set(text) - set("0123456789abcdef")


_MARKERS: dict[str, Callable[[Any], Any]] = {
    "$bytes": _bytes,
    "$time": _time,
    "$duration": _duration,
    "$set": _set,
    "$ref": _ref,
}
