"""A state in an envelope: versions, time and checksums around a document, for exports and for moving a session.

The checksum is the SHA-256 of the payload, which is the document's canonical MessagePack also when the envelope is
written as JSON: one document has one checksum, whatever it travels in, and JSON may be re-indented on the way. The
digest is the SHA-256 of everything else, the checksum included. Invariant: a changed byte that matters is found.
"""

from hashlib import sha256
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure.core.errors import Damaged, Invalid, Tampered, TooDeep, TooLarge
from perdure.core.session.codec import decode, encode, from_json, to_json
from perdure.core.session.schema import SemVer
from perdure.core.session.values import DEFAULT_LIMITS, Limits, Value

TYPE = "perdure.state"
FORMAT = 1

Form: TypeAlias = Literal["msgpack", "json"]


class Envelope(Struct, frozen=True, kw_only=True):
    """What was in a state file, verified. `serialized_at` is in microseconds since 1970, UTC."""

    schema_version: str
    state_version: int
    serialized_at: int
    checksum: bytes
    payload: bytes
    document: Any


def wrap(
    document: Value,
    schema_version: str,
    state_version: int,
    at: int,
    format: Form = "msgpack",  # noqa: A002 - the word that callers look for
    limits: Limits = DEFAULT_LIMITS,
) -> bytes:
    """Put a document in an envelope. Raises `Invalid`, `TooDeep` or `TooLarge` if it or its version is not storable."""
    SemVer.parse(schema_version)
    payload = encode(document, limits)
    header = _header(schema_version, state_version, at, sha256(payload).digest())
    digest = _digest(header)
    if format == "msgpack":
        return encode(header | {"digest": digest, "payload": payload}, _outer(limits))
    hexed = {"checksum": header["checksum"].hex(), "digest": digest.hex()}
    return to_json(header | hexed | {"payload": document}, limits=_outer(limits))


def unwrap(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Envelope:
    """Verify an envelope and give its content; the form is recognised by its first byte.

    Raises `Invalid` if it is no state file or one of a newer format, `TooLarge` or `TooDeep` if it is over the limits,
    `Damaged` if it cannot be read, `Tampered` if it can but does not match its checksums.
    """
    is_json = data[:64].lstrip()[:1] == b"{"
    try:
        fields = from_json(data, _outer(limits)) if is_json else decode(data, _outer(limits))
    except (TooLarge, TooDeep):
        raise
    except Invalid as error:
        raise Damaged(f"the state file cannot be read: {error.message}") from error
    _check_type(fields)
    payload, header = _read(fields, is_json, limits)
    if _digest(header) != _bytes(fields, "digest", is_json):
        raise Tampered("the state file's header does not match its digest; restore it from a copy")
    if sha256(payload).digest() != header["checksum"]:
        raise Tampered("the state file's payload does not match its checksum; restore it from a copy")
    return Envelope(
        schema_version=header["schema_version"],
        state_version=header["state_version"],
        serialized_at=header["serialized_at"],
        checksum=header["checksum"],
        payload=payload,
        document=fields["payload"] if is_json else _document(payload, limits),
    )


def _header(schema_version: str, state_version: int, at: int, checksum: bytes) -> dict[str, Any]:
    for name, number in (("state_version", state_version), ("at", at)):
        if type(number) is not int:
            raise Invalid(f"{name} is {type(number).__name__}; pass an int")
    return {
        "type": TYPE,
        "format": FORMAT,
        "schema_version": schema_version,
        "state_version": state_version,
        "serialized_at": at,
        "checksum": checksum,
    }


def _digest(header: dict[str, Any]) -> bytes:
    return sha256(encode(header)).digest()


def _outer(limits: Limits) -> Limits:
    """Give what an envelope may take: one level and a few fields more, and JSON spells bytes and escapes at length."""
    return Limits(
        max_bytes=8 * limits.max_bytes + 4096,
        max_depth=limits.max_depth + 1,
        max_items=limits.max_items + 16,
        max_key=limits.max_key,
    )


def _check_type(fields: Any) -> None:
    if type(fields) is not dict or fields.get("type") != TYPE:
        raise Invalid("this is not a state file; pass what wrap or an export wrote")
    if fields.get("format") != FORMAT:
        raise Invalid(
            f"the state file's format is {fields.get('format')!r}, this perdure reads {FORMAT}; upgrade perdure",
            format=fields.get("format"),
        )


def _read(fields: dict[str, Any], is_json: bool, limits: Limits) -> tuple[bytes, dict[str, Any]]:
    """Take payload and header out of the fields; raises `Damaged` if one is missing or of the wrong type."""
    try:
        SemVer.parse(fields["schema_version"])
        checksum = _bytes(fields, "checksum", is_json)
        header = _header(fields["schema_version"], fields["state_version"], fields["serialized_at"], checksum)
        extra = fields.keys() - header.keys() - {"digest", "payload"}
    except (KeyError, TypeError, Invalid) as error:
        raise Damaged(f"the state file's header is malformed ({error}); restore it from a copy") from error
    if extra:
        raise Damaged(f"the state file has fields of no meaning ({sorted(extra)[:3]}); restore it from a copy")
    if is_json:
        if "payload" not in fields:
            raise Damaged("the state file has no payload; restore it from a copy")
        return encode(fields["payload"], limits), header
    payload = fields.get("payload")
    if type(payload) is not bytes:
        raise Damaged("the state file has no payload; restore it from a copy")
    return payload, header


def _bytes(fields: dict[str, Any], name: str, is_json: bool) -> bytes:
    held = fields.get(name)
    if type(held) is str and is_json:
        try:
            return bytes.fromhex(held)
        except ValueError:
            held = None
    if type(held) is not bytes:
        raise Damaged(f"the state file's {name} is missing or malformed; restore it from a copy")
    return held


def _document(payload: bytes, limits: Limits) -> Any:
    try:
        return decode(payload, limits)
    except (TooLarge, TooDeep):
        raise
    except Invalid as error:
        raise Damaged(f"the state file's payload cannot be read: {error.message}") from error
