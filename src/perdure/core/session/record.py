"""One append is one record: its events side by side, sharing what they have in common.

A record carries everything the chain needs but the tenant and the previous digest, which its place supplies.
Stored bytes of event data are the bytes that were hashed: reading never encodes anything again.
"""

from typing import Final

import msgspec

from perdure.core.errors import Damaged, Invalid
from perdure.core.session import chain
from perdure.core.session.event import Entry, Event, Shared
from perdure.core.session.ids import SessionId, step, text
from perdure.core.session.kinds import KINDS, payload_of, unknown

FORMAT: Final = 1
_pack = msgspec.msgpack.Encoder().encode
_LAST_ID: Final = (1 << 128) - 1


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one append. `origin` is the session whose id was hashed: a branch's own copy of a shared prefix
    keeps its parent's.
    """

    format: int
    origin: bytes
    first: int
    uid: bytes
    at: int
    actor: str
    epoch: int
    key: str | None
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        """The version of the last event."""
        return self.first + len(self.entries) - 1


_decode = msgspec.msgpack.Decoder(Record).decode


def to_bytes(record: Record) -> bytes:
    """The record as it is stored, before compression."""
    return _pack(record)


def from_bytes(data: bytes) -> Record:
    """The record behind stored bytes, or `Damaged`."""
    try:
        record = _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as broken:  # ValueError: a text that is not UTF-8
        raise Damaged(f"a stored record does not decode: {broken}") from broken
    if record.format != FORMAT or not record.entries or len(record.origin) != 16 or len(record.uid) != 16:
        raise Damaged(f"a stored record has an unknown shape (format {record.format})", format=record.format)
    if int.from_bytes(record.uid, "big") + len(record.entries) > _LAST_ID:
        raise Damaged("a stored record counts its ids beyond the last one")
    return record


def digests(record: Record, tenant: str, previous: bytes) -> list[bytes]:
    """The chain's values through a record whose payloads need not be known."""
    found = []
    for index, entry in enumerate(record.entries):
        committed = entry.data if entry.blind is None else chain.commitment(entry.blind, entry.data)
        header = chain.header_bytes(
            tenant,
            record.origin,
            record.first + index,
            step(record.uid, index),
            entry.kind,
            entry.kind_version,
            record.at,
            record.actor,
            entry.agent,
            entry.child_agent,
            entry.target,
            entry.turn,
            record.epoch,
            record.key,
        )
        previous = chain.link(previous, header, committed)
        found.append(previous)
    return found


def read(record: Record, tenant: str, previous: bytes, upto: int | None = None) -> list[Event]:
    """The events of a record, each with the digest it gets when it follows `previous`.

    Digests are computed, not read: comparing the last one with the stored digest of the record's place proves
    every byte. With `upto`, events after that version are left out.
    """
    origin, first, base = record.origin, record.first, record.uid
    at, actor, epoch, key = record.at, record.actor, record.epoch, record.key
    shared = Shared(tenant, SessionId(text(origin)), origin, first, base, at, actor, epoch, key, payload_of)
    entries = record.entries if upto is None or upto >= record.last else record.entries[: max(0, upto - first + 1)]
    uid = int.from_bytes(base, "big")
    events = []
    version = first
    for entry in entries:
        kind, kind_version, agent, child_agent, target, turn, blind, data = msgspec.structs.astuple(entry)
        known = KINDS.get(kind)
        if known is None or kind_version > known.kind_version:
            raise unknown(kind, kind_version)
        committed = data if blind is None else chain.commitment(blind, data)
        header = chain.header_bytes(
            tenant,
            origin,
            version,
            uid.to_bytes(16, "big"),
            kind,
            kind_version,
            at,
            actor,
            agent,
            child_agent,
            target,
            turn,
            epoch,
            key,
        )
        previous = chain.link(previous, header, committed)
        events.append(Event(shared, entry, version, committed, previous))  # type: ignore[arg-type]
        version += 1
        uid += 1
    return events


def redact(record: Record, versions: frozenset[int]) -> Record:
    """The record without the data and blinds of these versions; the chain does not notice."""
    entries = tuple(
        msgspec.structs.replace(entry, blind=None, data=chain.commitment(entry.blind, entry.data))
        if entry.blind is not None and record.first + index in versions
        else entry
        for index, entry in enumerate(record.entries)
    )
    return msgspec.structs.replace(record, entries=entries)


def both_redacted(one: Record, other: Record) -> Record:
    """A record of which there are two copies, without whatever was redacted in either."""
    gone = frozenset(other.first + index for index, entry in enumerate(other.entries) if entry.blind is None)
    return redact(one, gone)


def cut(record: Record, upto: int) -> Record:
    """The record without events after `upto`: what a branch inside it sees."""
    if upto >= record.last:
        return record
    if upto < record.first:
        raise Invalid(f"record {record.first} does not reach down to {upto}")
    return msgspec.structs.replace(record, entries=record.entries[: upto - record.first + 1])
