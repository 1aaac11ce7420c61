"""Memories as events tell them."""

from sys import intern
from typing import Any, Final, get_args

import msgspec

from perdure.core.memory.parts import Memory, MemoryType, Source, SourceKind, Status
from perdure.core.session.event import Event
from perdure.core.session.memories import MemoryKept

CHANGEABLE: Final = frozenset(
    {"type", "importance", "metadata", "trust", "flags", "subjects", "valid_from", "valid_to", "thread", "author"}
    | {"supersedes", "superseded_at", "superseded_by", "accesses", "cited", "unused"}
)
"""Fields of a memory that can change without another memory taking its place."""
PLACE: Final = ("author", "thread", "valid_from")
"""Those of them that an index knows."""
_TYPES: Final = {kind.value: kind for kind in MemoryType}
_NOWHERE: Final = {kind: Source(kind=kind) for kind in get_args(SourceKind)}
_STATUSES: Final = {status.value: status for status in Status}


def memory_of(event: Event, data: MemoryKept) -> Memory:
    """The memory that was kept. What many have in common is there once."""
    return Memory(
        id=data.id,
        type=_TYPES[data.type],
        content=data.content,
        importance=data.importance,
        metadata=data.metadata,
        author=intern(data.author),
        agent=intern(data.agent),
        writer=intern(data.writer),
        source=_source(data),
        trust=intern(data.trust or "medium"),  # type: ignore[arg-type]
        flags=data.flags,
        subjects=data.subjects,
        thread=intern(data.thread),
        status=status_of(data.status),
        supersedes=data.supersedes,
        recorded_at=event.at,
        valid_from=data.valid_from,
        valid_to=data.valid_to,
        run=data.run,
        version=event.version,
    )


def _source(data: MemoryKept) -> Source:
    kind = data.source or "agent"
    if kind in _NOWHERE and not (data.session or data.version or data.checkpoint or data.uri):
        return _NOWHERE[kind]
    return Source(
        kind=intern(kind),  # type: ignore[arg-type]  # what perdure wrote
        session=intern(data.session),
        version=data.version,
        checkpoint=data.checkpoint,
        uri=data.uri,
    )


def place(memory: Memory) -> tuple[str | int | None, ...]:
    """What an index knows of a memory beside its words."""
    return tuple(getattr(memory, name) for name in PLACE)


def status_of(told: str) -> Status:
    """The status of a name; without one, live."""
    return _STATUSES[told] if told else Status.LIVE


def changed(memory: Memory, after: dict[str, Any]) -> Memory:
    """A memory after its fields changed."""
    fields = {name: value for name, value in after.items() if name in CHANGEABLE}
    if "type" in fields:
        fields["type"] = MemoryType(fields["type"])
    for name in ("flags", "subjects", "supersedes"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return msgspec.structs.replace(memory, **fields)


def weight(memory: Memory) -> int:
    """Bytes of what it says, about."""
    said = len(memory.content) * (1 if memory.content.isascii() else 4)
    return said + 4 * len(msgspec.msgpack.encode(memory.metadata)) if memory.metadata else said
