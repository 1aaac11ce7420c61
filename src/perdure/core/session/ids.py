"""Identifiers: UUIDv7, sortable by the time they were made; UUIDv8 for sessions that go by a name.

The clock and the random bytes are parameters, so an id is a pure function of both. Ids travel as text
(`SessionId`) and are stored as 16 bytes. The events of one append carry consecutive ids: event i of a record has
the record's base id plus i, which RFC 9562 allows as a monotonic counter and which costs no bytes on disk.
"""

from functools import lru_cache
from hashlib import sha256
from typing import NewType

from perdure.core.errors import Invalid

SessionId = NewType("SessionId", str)
EventId = NewType("EventId", str)
CheckpointId = NewType("CheckpointId", str)
Version = NewType("Version", int)
Digest = NewType("Digest", bytes)

RANDOM_BYTES = 10
KNOWN = 16_384
"""So many spellings are remembered: those of a long list, when it is looked at again."""
_LOW_BITS = (1 << 62) - 1
_ALL_BITS = (1 << 128) - 1


def uuid7(unix_ms: int, random: bytes) -> bytes:
    """A UUIDv7 from a millisecond clock and ten random bytes (of which 74 bits are used).

    The lowest 16 bits start in their lower half, so that counting upwards inside one append never carries.
    """
    bits = int.from_bytes(random[:RANDOM_BYTES], "big")
    rand_a = bits >> 68
    rand_b = bits & _LOW_BITS & ~0x8000
    value = (unix_ms & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b
    return value.to_bytes(16, "big")


def step(base: bytes, count: int) -> bytes:
    """The id `count` places after `base`."""
    if count == 0:
        return base
    return ((int.from_bytes(base, "big") + count) & _ALL_BITS).to_bytes(16, "big")


@lru_cache(maxsize=KNOWN)
def text(raw: bytes) -> str:
    """The usual spelling: 8-4-4-4-12 hexadecimal digits."""
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


@lru_cache(maxsize=KNOWN)
def raw(spelled: str) -> bytes:
    """The 16 bytes behind a spelled id. Anything that is not one is `Invalid`."""
    try:
        value = bytes.fromhex(spelled.replace("-", ""))
    except (ValueError, AttributeError, TypeError):
        value = b""
    if len(value) != 16 or len(spelled) not in (32, 36):
        raise Invalid(f"{spelled!r} is not an id; ids look like 0192f0c4-7d1e-7abc-8def-0123456789ab", id=spelled)
    return value


def session_id(spelled: str) -> SessionId:
    """A caller's id in canonical spelling, or `Invalid`."""
    return SessionId(text(raw(spelled)))


def is_id(spelled: str) -> bool:
    """Whether a text is an id in any of its spellings."""
    try:
        raw(spelled)
    except Invalid:
        return False
    return True


@lru_cache(maxsize=4096)
def named(tenant: str, name: str) -> SessionId:
    """The id a name always leads to, for this tenant; a name that is an id leads to itself."""
    try:
        return session_id(name)
    except Invalid:
        pass
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (tenant.encode(), name.encode()))
    value = int.from_bytes(sha256(b"perdure name" + parts).digest()[:16], "big")
    value = value & ~(0xF << 76) & ~(0b11 << 62) | 0x8 << 76 | 0b10 << 62
    return SessionId(text(value.to_bytes(16, "big")))


def unix_ms(raw_id: bytes) -> int:
    """The millisecond a UUIDv7 was made in."""
    return int.from_bytes(raw_id[:6], "big")
