"""Values to canonical MessagePack and back. Invariant: one value has one encoding, and only that one is read.

The rules are written down in `perdure.core.session.codec`, which is also where callers import from.
"""

from datetime import timedelta
from typing import Any, NoReturn

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder, Ext

from perdure.core.errors import Invalid, TooDeep, TooLarge
from perdure.core.session.values import DEFAULT_LIMITS, PLAIN, UNSURE, Limits, Ref, Value, locate, survey

EXT_DURATION = 1
EXT_SET = 2
EXT_REF = 3

ENCODER = Encoder(order="sorted")
MICROSECOND = timedelta(microseconds=1)


def encode(value: Value, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Write `value` canonically. Raises `Invalid`, `TooDeep` or `TooLarge`, naming the path, if it is not storable."""
    verdict = survey(value, limits)
    if verdict == UNSURE:
        locate(value, limits)
    try:
        data = ENCODER.encode(value if verdict == PLAIN else lower(value))
    except (UnicodeEncodeError, RecursionError) as error:
        explain(error, value, limits)
    if len(data) > limits.max_bytes:
        refuse_size(len(data), limits)
    return data


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read what `encode` wrote. Raises `Invalid`, `TooDeep` or `TooLarge` on anything else, canonical form included."""
    if len(data) > limits.max_bytes:
        refuse_size(len(data), limits)
    try:
        value = GENERIC.decode(data)
    except _DECODING as error:
        malformed(error, limits)
    verdict = survey(value, limits)
    if verdict == UNSURE:
        locate(value, limits)
    # Writing it again finds duplicate or unsorted keys, long forms of numbers and lengths, and 32-bit floats at once.
    if ENCODER.encode(value if verdict == PLAIN else lower(value)) != data:
        raise Invalid("the bytes are not the canonical encoding of their value; write them with perdure's codec")
    return value


def lower(value: Any) -> Any:
    """Replace sets, durations and refs of a checked value by extension types, which msgspec writes as they are."""
    kind = type(value)
    if kind is dict:
        return {key: lower(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [lower(item) for item in value]
    if kind is set or kind is frozenset:
        return Ext(EXT_SET, array([ENCODER.encode(lower(item)) for item in value]))
    if kind is timedelta:
        return Ext(EXT_DURATION, (value // MICROSECOND).to_bytes(8, "big", signed=True))
    if kind is Ref:
        return Ext(EXT_REF, value.sha256 + value.uri.encode())
    return value


def array(elements: list[bytes]) -> bytes:
    """Join encoded elements to the encoding of an array, ordered by their bytes."""
    count = len(elements)
    if count < 16:
        head = bytes([0x90 | count])
    elif count < 0x10000:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(sorted(elements))


def from_ext(code: int, data: memoryview) -> Any:
    """Read an extension type; the hook of every decoder. Unknown ones are refused: nothing stored can name a class."""
    if code == EXT_DURATION:
        if len(data) != 8:
            raise Invalid("a duration has 8 bytes; the data is malformed")
        return timedelta(microseconds=int.from_bytes(data, "big", signed=True))
    if code == EXT_SET:
        elements = GENERIC.decode(data)
        if type(elements) is not list:
            raise Invalid("a set holds an array; the data is malformed")
        return freeze(elements)
    if code == EXT_REF:
        return Ref(uri=str(data[32:], "utf-8"), sha256=bytes(data[:32]))
    raise Invalid(f"extension type {code} is unknown; the data is not ours or comes from a newer perdure", code=code)


GENERIC: Decoder[Any] = Decoder(ext_hook=from_ext)

# TypeError: a map key that is itself a map. ValueError: bytes that are not UTF-8.
_DECODING = (MsgspecError, ValueError, TypeError, RecursionError)


def freeze(elements: list[Any]) -> frozenset[Any]:
    """Make a set of read elements. Raises `Invalid` if one is a map, or if Python cannot tell two of them apart."""
    found = frozenset(map(_hashable, elements))
    if len(found) != len(elements):
        raise Invalid("a set holds the same element twice; the data is malformed")
    return found


def _hashable(element: Any) -> Any:
    if type(element) is list:
        return tuple(map(_hashable, element))
    if type(element) is dict:
        raise Invalid("a set holds a map; use a list of maps instead")
    return element


def explain(error: Exception, value: object, limits: Limits) -> NoReturn:
    """Turn a failure of the encoder into the typed error that names the path."""
    if isinstance(error, RecursionError):
        raise TooDeep("the value is nested too deep for this interpreter; nest less", limit=limits.max_depth) from error
    locate(value, limits)
    raise Invalid(f"the value cannot be encoded ({error}); convert it to plain data") from error


def malformed(error: Exception, limits: Limits) -> NoReturn:
    """Turn a failure of a decoder into a typed error."""
    if isinstance(error, RecursionError):
        raise TooDeep(
            f"the data is nested deeper than {limits.max_depth} levels; nest less", limit=limits.max_depth
        ) from error
    raise Invalid(f"the bytes do not decode ({error}); they are damaged or not ours") from error


def refuse_size(size: int, limits: Limits) -> NoReturn:
    """Raise `TooLarge` for an encoding of `size` bytes."""
    raise TooLarge(
        f"{size} bytes, the limit is {limits.max_bytes}; store it as a blob and keep a Ref",
        size=size,
        limit=limits.max_bytes,
    )
