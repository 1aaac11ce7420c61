"""From drafts to a record: the one place where events are encoded, chained and folded.

A `Mark` among the drafts becomes a `checkpoint_taken` of the state reached at that point.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from perdure.core.errors import Damaged, Invalid, TooLarge
from perdure.core.session import checkpoints, codec, diff
from perdure.core.session import state as states
from perdure.core.session.chain import BLIND_BYTES, header_bytes, link
from perdure.core.session.checkpoints import CheckpointTaken, Trigger
from perdure.core.session.event import Draft, Entry, Event, Payload, Shared
from perdure.core.session.ids import Digest, SessionId, Version
from perdure.core.session.kinds import payload_of
from perdure.core.session.record import FORMAT, Record
from perdure.core.session.state import State
from perdure.core.session.values import STATE_LIMITS, check

MAX_BYTES: Final = 64 << 20
MAX_NAME: Final = 1024


class Base(msgspec.Struct, frozen=True):
    """The checkpoint a delta stands on: its number and the state it holds, as a document."""

    seq: int
    document: dict[str, Any]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Take a checkpoint here."""

    id: str
    trigger: Trigger
    label: str = ""
    metadata: dict[str, Any] = {}
    base: Base | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as it is kept beside the log. `payload` is the full state or a delta, as canonical bytes."""

    id: str
    seq: int
    version: int
    label: str
    trigger: str
    full: bool
    base: int | None
    payload: bytes
    payload_sha: bytes
    state_sha: bytes
    at: int
    expires_at: int | None
    pinned: bool = False
    metadata: dict[str, Any] = {}


class Stamp(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the envelope of every event of one append has in common, and the chance it needs."""

    tenant: str
    session: SessionId
    raw_session: bytes
    uid: bytes
    at: int
    actor: str
    blinds: bytes
    epoch: int = 0
    key: str | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome: what to store and what the session now is."""

    record: Record
    events: tuple[Event, ...]
    state: State
    digest: bytes
    checkpoints: tuple[Checkpoint, ...]
    size: int


def write(state: State, previous: bytes, drafts: Sequence[Draft | Mark], stamp: Stamp) -> Written:
    """Encode, chain and fold the drafts. Refuses values that cannot be stored; nothing else can fail."""
    entries: list[Entry] = []
    events: list[Event] = []
    partial: list[Event] = []
    taken: list[Checkpoint] = []
    first, size = state.version + 1, 0
    shared = Shared(
        stamp.tenant,
        stamp.session,
        stamp.raw_session,
        first,
        stamp.uid,
        stamp.at,
        stamp.actor,
        stamp.epoch,
        stamp.key,
        payload_of,
    )
    uid = int.from_bytes(stamp.uid, "big")
    folded = 0
    for index, item in enumerate(drafts):
        if isinstance(item, Mark):
            state, folded = states.fold(state, events[folded:]), index
            checkpoint = take(state, item, stamp.at)
            taken.append(checkpoint)
            item = Draft(_taken(checkpoint))
        blind = stamp.blinds[index * BLIND_BYTES : (index + 1) * BLIND_BYTES]
        event = _chained(item, blind, first + index, (uid + index).to_bytes(16, "big"), previous, shared)
        previous = event.digest
        entries.append(event.entry)
        events.append(event)
        if event.payload is not item.payload:
            partial.append(event)
        size += len(event.entry.data)
        if size > MAX_BYTES:
            raise TooLarge(f"an append takes {MAX_BYTES} bytes; split it", limit=MAX_BYTES)
    record = Record(
        FORMAT, stamp.raw_session, first, stamp.uid, stamp.at, stamp.actor, stamp.epoch, stamp.key, tuple(entries)
    )
    state = states.fold(state, events[folded:])
    for event in partial:
        force_setattr(event, "payload", None)  # it holds what folding needs; whoever looks reads the rest back
    return Written(
        record=record, events=tuple(events), state=state, digest=previous, checkpoints=tuple(taken), size=size
    )


def _chained(item: Draft, blind: bytes, version: int, uid: bytes, previous: bytes, shared: Shared) -> Event:
    entry, payload = _stored(item, blind)
    committed = sha256(blind + entry.data).digest()
    header = header_bytes(
        shared.tenant,
        shared.origin,
        version,
        uid,
        entry.kind,
        entry.kind_version,
        shared.at,
        shared.actor,
        entry.agent,
        entry.child_agent,
        entry.target,
        entry.turn,
        shared.epoch,
        shared.key,
    )
    return Event(shared, entry, Version(version), committed, Digest(link(previous, header, committed)), payload)


def _stored(item: Draft, blind: bytes) -> tuple[Entry, Payload]:
    """The draft as it is stored, and its payload as everyone will read it from there, or the essence of that: what is
    folded now is what will be folded again, and the state shares nothing with what the caller holds. `Invalid` when
    it could not be read.
    """
    payload, agent, child_agent, target = item.payload, item.agent, item.child_agent, item.target
    if agent is not None:
        _check_name("agent", agent)
    if child_agent is not None:
        _check_name("child_agent", child_agent)
    if target is not None:
        _check_name("target", target)
    data = codec.encode_struct(payload)
    entry = Entry(payload.kind, payload.kind_version, agent, child_agent, target, item.turn, blind, data)
    essence = payload.essence()
    if essence is not None:
        return entry, essence
    try:
        return entry, payload_of(entry)
    except Damaged as unreadable:
        reason: BaseException = unreadable
        while reason.__cause__ is not None:
            reason = reason.__cause__
        raise Invalid(f"{payload.kind}: {reason}; correct the field", kind=payload.kind) from unreadable


def _check_name(name: str, value: Any) -> None:
    if type(value) is not str or len(value) > MAX_NAME:
        raise Invalid(f"{name} is a text of at most {MAX_NAME} characters, not {value!r:.80}")
    if not value.isascii():
        check(value)


def take(state: State, mark: Mark, at: int) -> Checkpoint:
    """A checkpoint of this state: full, or a delta on the mark's base."""
    policy = state.config.checkpoints or checkpoints.DEFAULT_POLICY
    full = checkpoints.is_full(policy, state.checkpoints, mark.trigger, has_base=mark.base is not None)
    state_bytes = states.to_bytes(state)
    if full or mark.base is None:
        payload, base = state_bytes, None
    else:
        patch = diff.diff(mark.base.document, codec.decode(state_bytes, STATE_LIMITS))
        payload, base = codec.encode(diff.to_document(patch), STATE_LIMITS), mark.base.seq
    return Checkpoint(
        id=mark.id,
        seq=state.checkpoints.seq + 1,
        version=state.version,
        label=mark.label,
        trigger=mark.trigger.value,
        full=base is None,
        base=base,
        payload=payload,
        payload_sha=sha256(payload).digest(),
        state_sha=sha256(state_bytes).digest(),
        at=at,
        expires_at=checkpoints.expiry(policy, mark.trigger, at),
        metadata=mark.metadata,
    )


def restore(payload: bytes, base: dict[str, Any] | None) -> dict[str, Any]:
    """The state document behind a checkpoint's payload, given its base's document for a delta."""
    content: Any = codec.decode(payload, STATE_LIMITS)
    document: dict[str, Any] = content if base is None else diff.apply(base, diff.from_document(content))
    return document


def _taken(item: Checkpoint) -> CheckpointTaken:
    return CheckpointTaken(
        id=item.id,
        seq=item.seq,
        label=item.label,
        trigger=Trigger(item.trigger),
        full=item.full,
        base=item.base,
        state_version=item.version,
        state_sha=item.state_sha,
        payload_sha=item.payload_sha,
        expires_at=item.expires_at,
        metadata=item.metadata,
    )
