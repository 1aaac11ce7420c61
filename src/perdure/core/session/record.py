"""One append is one record: its events side by side, sharing what they have in common.

A record carries everything the chain needs but the tenant and the previous digest, which its place supplies.
Stored bytes of event data are the bytes that were hashed: reading never encodes anything again.
"""

from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import Damaged, Invalid
from perdure.core.session import chain, kinds
from perdure.core.session.event import Event
from perdure.core.session.ids import Digest, SessionId, Version, step, text

FORMAT: Final = 1
_pack = msgspec.msgpack.Encoder().encode
_EVENT = b"perdure/1/event"


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One event in a record. Redacted: no blind, and the commitment where the data was."""

    kind: str
    kind_version: int
    agent: str | None
    child_agent: str | None
    target: str | None
    turn: int | None
    blind: bytes | None
    data: bytes


class Record(msgspec.Struct, array_like=True, frozen=True):
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
    except msgspec.MsgspecError as broken:
        raise Damaged(f"a stored record does not decode: {broken}") from broken
    if record.format != FORMAT or not record.entries or len(record.origin) != 16 or len(record.uid) != 16:
        raise Damaged(f"a stored record has an unknown shape (format {record.format})", format=record.format)
    return record


def read(record: Record, tenant: str, previous: bytes, upto: int | None = None) -> list[Event]:
    """The events of a record, each with the digest it gets when it follows `previous`.

    Digests are computed, not read: comparing the last one with the stored digest of the record's place proves
    every byte. With `upto`, events after that version are left out.
    """
    session = SessionId(text(record.origin))
    origin, at, actor, epoch, key = record.origin, record.at, record.actor, record.epoch, record.key
    events = []
    version = record.first
    for entry in record.entries:
        if upto is not None and version > upto:
            break
        kind, kind_version, blind = entry.kind, entry.kind_version, entry.blind
        agent, child_agent, target, turn = entry.agent, entry.child_agent, entry.target, entry.turn
        if blind is None:
            committed, data = entry.data, kinds.blank(kind)
        else:
            committed = sha256(blind + entry.data).digest()
            data = kinds.decode(kind, kind_version, entry.data)
        uid = step(record.uid, version - record.first)
        header = _pack(
            (tenant, origin, version, uid, kind, kind_version, at, actor, agent, child_agent, target, turn, epoch, key)
        )
        previous = sha256(_EVENT + previous + header + committed).digest()
        events.append(
            Event(
                tenant=tenant,
                session=session,
                version=Version(version),
                uid=uid,
                kind=kind,
                kind_version=kind_version,
                at=at,
                actor=actor,
                agent=agent,
                child_agent=child_agent,
                target=target,
                turn=turn,
                epoch=epoch,
                key=key,
                commitment=committed,
                digest=Digest(previous),
                redacted=blind is None,
                data=data,
            )
        )
        version += 1
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


def cut(record: Record, upto: int) -> Record:
    """The record without events after `upto`: what a branch inside it sees."""
    if upto >= record.last:
        return record
    if upto < record.first:
        raise Invalid(f"record {record.first} does not reach down to {upto}")
    return msgspec.structs.replace(record, entries=record.entries[: upto - record.first + 1])
