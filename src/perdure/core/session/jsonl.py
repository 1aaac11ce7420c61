"""A session as lines of JSON: a header, one event a line, a footer. What a line holds, and how it is read back.

Format 1
--------
======  =========================================================================================================
line    fields
======  =========================================================================================================
first   `perdure` "session", `format` 1, `session`, `tenant`, `version` and `digest` (where the session stood when the
        file was begun), `anchor` (of a pruned log: `version`, `digest`, `state` and its `sha`), `segments` (stretches
        that were hashed under other ids: `origin`, `upto`, `digest`)
events  `version`, `record` (first version of the append it came with), `id`, `session` (whose id was hashed),
        `tenant`, `kind`, `kind_version`, `at`, `actor`, `agent`, `child_agent`, `target`, `turn`, `epoch`, `key`,
        `blind`, `data`, `digest`; what is null is left out. Redacted: `redacted` true and `commitment` in place of
        `blind` and `data`
last    `perdure` "end", `events` (how many lines there are between) and `digest`
======  =========================================================================================================

Digests are hexadecimal, other bytes base64; `data` is the lossless JSON of the codec, so that encoding it again gives
the very bytes that were hashed. Bytes that are not canonical would stand as base64 under `raw` instead.
Invariant: a line that is read has every field its kind of line needs and no other. Whatever is wrong is `BadExport`.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Annotated, Any, Final, Literal, NoReturn

import msgspec
from msgspec import UNSET, Meta

from perdure.core.errors import BadExport, Invalid, TooLarge
from perdure.core.session import codec, ids
from perdure.core.session.chain import BLIND_BYTES
from perdure.core.session.event import Entry, Event
from perdure.core.session.structs import learn
from perdure.core.session.values import Limits

FORMAT: Final = 1
MAX_LINE: Final = 128 << 20
"""An event's data has at most 16 MiB; as JSON, control characters take six bytes each."""
DIGEST_BYTES: Final = 32

# The codec's limits hold for each value of an event; these hold for the event around them.
_DATA: Final = Limits(max_depth=128, max_items=1 << 24, max_key=1 << 24)
_LINE: Final = Limits(max_bytes=MAX_LINE, max_depth=129, max_items=1 << 24, max_key=1 << 24)

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Version = Annotated[int, Meta(ge=1, lt=1 << 62)]
Number = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Anchor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pruned log stands on: the chain's value at a version and the canonical bytes of the state there."""

    version: Version
    digest: str
    state: str
    sha: str


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch up to and with `upto` that was hashed under another session's id."""

    origin: str
    upto: Version
    digest: str


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line."""

    perdure: Literal["session"] = "session"
    format: int = FORMAT
    session: str
    tenant: str
    version: Version
    digest: str
    anchor: Anchor | None = None
    segments: tuple[Part, ...] = ()


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One event."""

    version: Version
    record: Version
    id: str
    session: str
    tenant: str
    kind: str
    kind_version: Version
    at: Number
    actor: str
    agent: str | None = None
    child_agent: str | None = None
    target: str | None = None
    turn: Number | None = None
    epoch: Number
    key: str | None = None
    redacted: bool = False
    commitment: str | None = None
    blind: str | None = None
    data: Any = UNSET
    raw: str | None = None
    digest: str


class Footer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last line."""

    perdure: Literal["end"] = "end"
    events: Count
    digest: str


learn(Header, Line, Footer)
_ENCODER: Final = msgspec.json.Encoder()


def written(line: Header | Line | Footer) -> bytes:
    """The bytes of a line, its newline included; `TooLarge` for one that could not be read back."""
    text = _ENCODER.encode(line) + b"\n"
    if len(text) > MAX_LINE:
        raise TooLarge(f"a line of {len(text)} bytes, the limit is {MAX_LINE}; redact the event", limit=MAX_LINE)
    return text


def event_line(event: Event) -> Line:
    """An event as a line, its data from the bytes that were hashed: fields this perdure does not know come along."""
    held: dict[str, Any] = {}
    if event.entry.blind is None:
        held = {"redacted": True, "commitment": event.commitment.hex()}
    else:
        held = {"blind": base64(event.entry.blind), **_data(event.entry.data)}
    return Line(
        version=event.version,
        record=event.shared.first,
        id=event.id,
        session=event.session,
        tenant=event.tenant,
        kind=event.kind,
        kind_version=event.kind_version,
        at=event.at,
        actor=event.actor,
        agent=event.agent,
        child_agent=event.child_agent,
        target=event.target,
        turn=event.turn,
        epoch=event.epoch,
        key=event.key,
        digest=event.digest.hex(),
        **held,
    )


def _data(canonical: bytes) -> dict[str, Any]:
    try:
        value = codec.decode(canonical, _DATA)
    except Invalid:
        return {"raw": base64(canonical)}
    return {"data": msgspec.Raw(codec.to_json(value, limits=_LINE))}


def read(text: bytes, number: int) -> Header | Line | Footer:
    """The line behind bytes, or `BadExport` naming its number. What the fields mean together is not asked here."""
    if len(text) > MAX_LINE:
        refuse(number, f"it is longer than {MAX_LINE} bytes")
    try:
        found = codec.from_json(text, _LINE)
    except Invalid as wrong:
        refuse(number, wrong.message, wrong)
    if type(found) is not dict:
        refuse(number, "it is not a JSON object")
    kind: Any = Line
    if "perdure" in found:
        kind = {"session": Header, "end": Footer}.get(found["perdure"] if type(found["perdure"]) is str else "")
        if kind is None:
            refuse(number, "its `perdure` is neither session nor end")
    if kind is Header and found.get("format") != FORMAT:
        refuse(number, f"it has format {found.get('format')!r}, this perdure reads {FORMAT}; a newer one may read it")
    try:
        line: Header | Line | Footer = msgspec.convert(found, kind)
    except msgspec.ValidationError as wrong:
        refuse(number, str(wrong), wrong)
    return line


def entry_of(line: Line, number: int) -> Entry:
    """The stored form of a line's event; the data encoded canonically again."""
    if line.redacted:
        if line.commitment is None or line.blind is not None or line.raw is not None or line.data is not UNSET:
            refuse(number, "a redacted event has a commitment, and neither blind nor data")
        blind, data = None, from_hex(line.commitment, number, "commitment")
    else:
        if line.blind is None or line.commitment is not None or (line.data is UNSET) == (line.raw is None):
            refuse(number, "an event has a blind and its data, and no commitment unless it is redacted")
        blind = from_base64(line.blind, number, "blind")
        if len(blind) != BLIND_BYTES:
            refuse(number, f"its blind has {len(blind)} bytes, not {BLIND_BYTES}")
        data = _canonical(line, number)
    return Entry(line.kind, line.kind_version, line.agent, line.child_agent, line.target, line.turn, blind, data)


def _canonical(line: Line, number: int) -> bytes:
    if line.raw is not None:
        return from_base64(line.raw, number, "raw")
    try:
        return codec.encode(line.data, _DATA)
    except Invalid as wrong:
        refuse(number, wrong.message, wrong)


def base64(data: bytes) -> str:
    """Bytes as a line shows them."""
    return b2a_base64(data, newline=False).decode()


def from_base64(held: str, number: int, name: str) -> bytes:
    """The bytes behind padded base64 in its one spelling."""
    try:
        found = a2b_base64(held.encode(), strict_mode=True)
    except Base64Error as wrong:
        refuse(number, f"its {name} is not base64", wrong)
    if base64(found) != held:
        refuse(number, f"its {name} is not base64 in its usual spelling")
    return found


def from_hex(held: str, number: int, name: str) -> bytes:
    """The 32 bytes behind a digest."""
    if len(held) != 2 * DIGEST_BYTES or set(held) - set("0123456789abcdef"):
        refuse(number, f"its {name} is not {2 * DIGEST_BYTES} hexadecimal digits")
    return bytes.fromhex(held)


def from_id(held: str, number: int, name: str) -> bytes:
    """The 16 bytes behind an id in its usual spelling."""
    try:
        found = ids.raw(held)
    except Invalid as wrong:
        refuse(number, f"its {name} is not an id", wrong)
    if ids.text(found) != held:
        refuse(number, f"its {name} is not an id in its usual spelling")
    return found


def refuse(number: int, what: str, cause: Exception | None = None) -> NoReturn:
    """Say which line is wrong and what about it."""
    raise BadExport(f"line {number}: {what}; export the session again", line=number) from cause
