"""What of a session's lessons a space keeps: what it does not know yet, once; and what is proposed when a correction
was made again and again.

Invariant: a space's log says up to which version it has learnt from a session, in the same append as what it learnt.
So learning again keeps nothing twice, whatever was killed, and nothing comes back that was forgotten since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from perdure.core.memory import gates, promoting
from perdure.core.memory.extracting import QUARANTINED, STEER, Candidate, Lessons, Refused, comparable
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.promoting import SESSIONS, Asking
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.whom import about
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryProposed

REPEATED: Final = 2
"""Sessions that make a heuristic of a correction."""
HEURISTIC: Final = 180 * DAY
"""How long a heuristic is believed."""
LISTED: Final = 20
"""Sessions that a memory lists."""
_COUNTING: Final = (Status.LIVE, Status.QUARANTINED)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept, what is refused, and what else changes: counts of corrections, proposals."""

    keep: tuple[Candidate, ...] = ()
    refused: tuple[Refused, ...] = ()
    payloads: tuple[Payload, ...] = ()
    proposals: tuple[MemoryProposed, ...] = ()


def fresh(lessons: Lessons, after: int) -> Lessons:
    """What was said after a version."""
    return msgspec.structs.replace(
        lessons,
        candidates=tuple(one for one in lessons.candidates if one.version > after),
        refused=tuple(one for one in lessons.refused if one.version > after),
    )


def decided(
    lessons: Lessons, shelf: Shelf, near: Mapping[str, Iterable[str]], *, space: str, by: str, now: int,
    name: Callable[[], str], since: int = 0,
) -> Decided:  # fmt: skip
    """What becomes of lessons on a shelf. `near` has, by content, the ids of memories that may say the same, as of the
    version `since` of its log; those that are newer are looked at here.
    """
    newer = [memory for memory in shelf if memory.version > since]
    keep, refused, counted = list[Candidate](), list(lessons.refused), dict[str, tuple[Memory, list[str]]]()
    for candidate in lessons.candidates:
        content = candidate.keeping.content
        likely = [shelf.memories[id] for id in near.get(content, ()) if id in shelf.memories]
        same = _same(candidate, [*likely, *newer])
        if same is None:
            keep.append(candidate)
            continue
        if candidate.steer and same.status is Status.LIVE:
            said = _said_in(same, counted)
            session = candidate.keeping.source.session
            if session not in said:
                counted[same.id] = (same, [*said, session][-LISTED:])
        reason = gates.KNOWN if same.status is Status.LIVE else QUARANTINED
        refused.append(Refused(content=content, reason=reason, version=candidate.version))
    changes, proposals = list[Payload](), list[MemoryProposed]()
    for memory, sessions in counted.values():
        changes.append(_counted(memory, sessions))
        if len(sessions) >= REPEATED and not _proposed(shelf, memory):
            proposals.append(_heuristic(memory, sessions, shelf, space=space, by=by, now=now, id=name()))
    return Decided(
        keep=tuple(keep), refused=tuple(refused), payloads=(*changes, *proposals), proposals=tuple(proposals)
    )


def _same(candidate: Candidate, memories: Sequence[Memory]) -> Memory | None:
    """The memory that says it already, or that was taken out of use for saying it."""
    asked = candidate.keeping
    likely = (one for one in memories if one.status in _COUNTING and comparable(one.type, asked.memory_type))
    return next((one for one in likely if gates.says_again(asked.content, one.content)), None)


def _said_in(memory: Memory, counted: Mapping[str, tuple[Memory, list[str]]]) -> list[str]:
    if memory.id in counted:
        return counted[memory.id][1]
    listed = memory.metadata.get(SESSIONS)
    found = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return found or ([memory.source.session] if memory.source.session else [])


def _counted(memory: Memory, sessions: list[str]) -> MemoryChanged:
    after: dict[str, Any] = {**memory.metadata, STEER: True, SESSIONS: sessions}
    return MemoryChanged(
        id=memory.id, before={"metadata": memory.metadata}, after={"metadata": after}, reason="the same steer again"
    )


def _proposed(shelf: Shelf, memory: Memory) -> bool:
    """Whether it was proposed before, whatever came of it."""
    return any(one.memory == memory.id for one in shelf.proposals.values())


def _heuristic(
    memory: Memory, sessions: list[str], shelf: Shelf, *, space: str, by: str, now: int, id: str
) -> MemoryProposed:
    """The proposal that a correction becomes a rule of this space."""
    sources = frozenset(f"session:{one}" for one in sessions)
    subjects = (*memory.subjects, *about(shelf).get(memory.id, ()))
    asked = Asking(content=memory.content, sources=sources, subjects=subjects, expires=now + HEURISTIC)
    others = [one for one in shelf if one.id != memory.id and one.metadata.get(STEER) is True]
    return MemoryProposed(
        id=id,
        origin=space,
        memory=memory.id,
        type=memory.type.value,
        content=memory.content,
        importance=min(1.0, round(memory.importance + 0.1, 2)),
        metadata={"heuristic": True},
        evidence=tuple(sorted(sources)),
        gates=promoting.judged(asked, others, now),
        expires=asked.expires,
        by=by,
        session=memory.source.session,
        subjects=memory.subjects,
    )
