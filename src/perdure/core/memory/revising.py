"""What a change makes of a memory: another one in its place, or the same with other fields."""

from collections.abc import Container
from typing import Any

import msgspec

from perdure.core.memory.parts import Memory, Status, Trust, people
from perdure.core.memory.requests import Changing, Keeping, kept, lesser, must_be_span
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryKept


def revised(
    memory: Memory,
    asked: Changing,
    id: str,
    *,
    agent: str,
    writer: str,
    flags: tuple[str, ...],
    trust: Trust | None = None,
) -> MemoryKept:
    """The memory that takes the place of another, trusted as that was, and no more than whoever changes it. The same
    words are true for as long as they were.
    """
    same = asked.content is None or asked.content.strip() == memory.content
    since = memory.valid_from if same and asked.valid_from is None else asked.valid_from
    until = memory.valid_to if same and asked.valid_to is None else asked.valid_to
    must_be_span(since, until)
    again = Keeping(
        content=asked.content or memory.content,
        memory_type=asked.memory_type or memory.type,
        importance=memory.importance if asked.importance is None else asked.importance,
        metadata=memory.metadata if asked.metadata is None else asked.metadata,
        author=memory.author,
        source=memory.source,
        trust=memory.trust if trust is None else lesser(memory.trust, trust),
        subjects=memory.subjects if asked.subjects is None else asked.subjects,
        thread=memory.thread,
        valid_from=since,
        valid_to=until,
        supersedes=(memory.id,),
    )
    return kept(again, id, agent=agent, writer=writer, flags=flags)


def is_another(memory: Memory, asked: Changing, writer: str) -> bool:
    """Whether a change makes another memory: other words, or details by another hand, so that each goes with whoever
    wrote it; or it is not about somebody any more, whose name goes with the former one.
    """
    if asked.content is not None and asked.content.strip() != memory.content:
        return True
    if asked.subjects is not None and not people(memory.subjects) <= people(asked.subjects):
        return True
    details = ((asked.metadata, memory.metadata), (asked.subjects, memory.subjects))
    return memory.writer not in ("", writer) and any(new is not None and new != old for new, old in details)


def changes(memory: Memory, asked: Changing) -> list[Payload]:
    """What makes of a memory what is asked for, if it is not so already."""
    wanted: dict[str, Any] = {
        "type": asked.memory_type,
        "importance": asked.importance,
        "metadata": asked.metadata,
        "subjects": asked.subjects,
        "valid_from": asked.valid_from,
        "valid_to": asked.valid_to,
    }
    after = {name: value for name, value in wanted.items() if value is not None and value != getattr(memory, name)}
    if not after:
        return []
    must_be_span(after.get("valid_from", memory.valid_from), after.get("valid_to", memory.valid_to))
    before = {name: getattr(memory, name) for name in after}
    plain = [
        {name: value if name == "metadata" else msgspec.to_builtins(value) for name, value in fields.items()}
        for fields in (before, after)
    ]
    return [MemoryChanged(id=memory.id, before=plain[0], after=plain[1], reason=asked.reason)]


def moved_to(memory: Memory, status: Status, there: Container[str]) -> Status:
    """What becomes of a memory that is moved: one that had been superseded before it was put away is so again when it
    is brought back, if what took its place is still there.
    """
    away = memory.status not in (Status.LIVE, Status.SUPERSEDED)
    return Status.SUPERSEDED if status is Status.LIVE and away and memory.superseded_by in there else status
