"""How values travel: plain JSON for everyone, exact JSON for those who want back what was stored to the last type.

Plain JSON (`application/json`) is taken literally, whatever its keys are called; bytes, times and sets of a stored
document are shown in the nearest form JSON has. Exact JSON (`application/vnd.perdure+json`) is the codec's own, in
which `{"$bytes": …}` and its like carry what JSON lacks; perdure's client speaks it.
"""

from typing import Any, Final, TypeVar

import msgspec

from perdure.core.errors import Invalid, TooDeep
from perdure.core.session import codec
from perdure.core.session.values import STATE_LIMITS, Limits

T = TypeVar("T")
PLAIN: Final = "application/json"
EXACT: Final = "application/vnd.perdure+json"
_ENCODER: Final = msgspec.json.Encoder()
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
        raise TooDeep("the JSON is nested too deep; nest less") from None


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
        return msgspec.convert(document, kind, strict=not texts)
    except msgspec.ValidationError as first:
        try:
            return msgspec.convert(_whole(document), kind, strict=not texts)
        except msgspec.ValidationError:
            raise Invalid(f"{first}", at=_place(str(first))) from None
    except RecursionError:
        raise TooDeep("the JSON is nested too deep; nest less") from None


def _place(message: str) -> str:
    """Where in a document something is wrong, as msgspec says it."""
    _, found, place = message.rpartition(" - at `")
    return place.rstrip("`") if found else "$"


def _whole(value: Any) -> Any:
    """The same document with whole numbers where floats stand for such: to JSON they are the same."""
    if type(value) is float and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if type(value) is list:
        return [_whole(item) for item in value]
    if type(value) is dict:
        return {name: _whole(item) for name, item in value.items()}
    return value
