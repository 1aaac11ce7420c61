"""What is said over the socket of a surface: JSON messages, each with a `type`. docs/LIVE.md tells it to people."""

from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, TooDeep
from perdure.edge.http.live.channel import Who

MAX_STATE: Final = 4096
"""Bytes of what a surface tells about itself."""
MAX_ID: Final = 200
Fields = dict[str, msgspec.Raw]
Mark = str | int | None
"""What a client calls a message of its own; the answer to it has the same."""

_FIELDS: Final = msgspec.json.Decoder(Fields)
_MARK: Final = msgspec.json.Decoder(Mark)
_TEXT: Final = msgspec.json.Decoder(str)
_TEXT_OR_NONE: Final = msgspec.json.Decoder(str | None)
_NUMBER_OR_NONE: Final = msgspec.json.Decoder(int | None)
_FLAG: Final = msgspec.json.Decoder(bool)
_ANY: Final = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()
_READERS: Final[dict[str, Any]] = {
    "type": _TEXT,
    "id": _MARK,
    "key": _TEXT_OR_NONE,
    "expected": _NUMBER_OR_NONE,
    "on": _FLAG,
}


class Hello(msgspec.Struct, tag_field="type", tag="hello", kw_only=True):
    """The first message: who you are here, where the log stands, after which version events follow, who is here."""

    session_id: str
    you: Who
    version: int
    after: int
    attached: tuple[Who, ...]


class Attached(msgspec.Struct, tag_field="type", tag="attached", kw_only=True):
    """Somebody came."""

    who: Who


class Detached(msgspec.Struct, tag_field="type", tag="detached", kw_only=True):
    """Somebody left."""

    who: Who


class Surfaces(msgspec.Struct, tag_field="type", tag="surfaces", kw_only=True):
    """Who is here, anew: so much happened that it is not told one by one."""

    attached: tuple[Who, ...]


class Typing(msgspec.Struct, tag_field="type", tag="typing", kw_only=True):
    """Somebody writes, or stopped to."""

    surface: str
    on: bool


class Presence(msgspec.Struct, tag_field="type", tag="presence", kw_only=True):
    """What a surface says about itself."""

    surface: str
    state: msgspec.Raw


class Ack(msgspec.Struct, tag_field="type", tag="ack", kw_only=True):
    """What was written is durable; the version of its last event."""

    id: Mark
    version: int


class Pong(msgspec.Struct, tag_field="type", tag="pong", kw_only=True):
    """The answer to a ping."""

    id: Mark


class Heartbeat(msgspec.Struct, tag_field="type", tag="heartbeat", kw_only=True):
    """The server is still there; its time in microseconds."""

    at: int


class Trouble(msgspec.Struct, tag_field="type", tag="problem", kw_only=True):
    """A message was not served, and why; `id` is that message's if it had one."""

    id: Mark
    problem: msgspec.Raw


class Pruned(msgspec.Struct, tag_field="type", tag="pruned", kw_only=True):
    """The log before this was dropped for good; events go on after it."""

    upto: int


class Over(msgspec.Struct, tag_field="type", kw_only=True, tag="over"):
    """The last message: `erased`, `access` or `leaving`, or `problem` with one."""

    reason: str
    problem: msgspec.Raw | None = None


def encoded(message: msgspec.Struct) -> bytes:
    """A message as it is sent."""
    return _ENCODER.encode(message)


def fields_of(text: str | bytes) -> Fields:
    """The fields of a client's message, none of them read yet; `Invalid` when it is no JSON object."""
    try:
        return _FIELDS.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        raise Invalid("a message is a JSON object in UTF-8; correct it") from None
    except RecursionError:
        raise TooDeep("the JSON is nested too deep; nest less") from None


def taken(fields: Fields, name: str, otherwise: Any = None) -> Any:
    """A field of a message, taken out of it; `Invalid` when it is not what it should be."""
    raw = fields.pop(name, None)
    if raw is None:
        return otherwise
    try:
        found = _READERS[name].decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        raise Invalid(f"{name} is not what it should be; docs/LIVE.md says what", field=name) from None
    if name == "id" and len(str(found)) > MAX_ID:
        raise Invalid(f"an id has at most {MAX_ID} characters; shorten it", limit=MAX_ID)
    return found


def state_of(fields: Fields) -> msgspec.Raw:
    """What a surface tells about itself: any JSON, but little of it."""
    raw = fields.pop("state", None)
    if raw is None or len(bytes(raw)) > MAX_STATE:
        raise Invalid(f"presence has a state of at most {MAX_STATE} bytes of JSON", limit=MAX_STATE)
    try:
        return msgspec.Raw(_ENCODER.encode(_ANY.decode(raw)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid("the state is not JSON that could be passed on; correct it") from None


def must_be_empty(fields: Fields) -> None:
    """`Invalid` when a message has fields it should not have."""
    if fields:
        told = sorted(name[:80] for name in fields)[:20]
        raise Invalid(f"there is no {told[0]!r} in this message; leave it out", unknown=told)


def body_of(fields: Fields) -> bytes:
    """What is left of an append's fields, as the body that POST events takes."""
    return _ENCODER.encode(fields)
