"""What a consolidation did, or would do, as people look at it: step by step, with what the memories say that it is
about. What was forgotten since says nothing any more.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.steps import Step
from perdure.core.session.event import Event
from perdure.core.session.memories import MemoryChanged, MemoryMoved

CHANGED: Final = "changed"
FORGOTTEN: Final = "forgotten"
_RANKED: Final = ["importance"]


class Did(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a run did to a memory, or would do (`version` is 0 then), for review. `content` is what the memory
    says, `by_content` what the one says that takes its place; None where that was forgotten since.
    """

    version: int
    at: int
    id: str
    did: str
    """A status it was given, `changed`, `kept`; or `forgotten`, where nothing is known any more of what was done."""
    by: str = ""
    reason: str = ""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    content: str | None = None
    by_content: str | None = None

    @property
    def decides(self) -> bool:
        """Whether it is a decision: a memory moves, or is of another importance; and not what follows from one."""
        return self.did != CHANGED or [*self.after] == _RANKED


def retold(did: Iterable[Event], memories: Mapping[str, Memory]) -> tuple[Did, ...]:
    """What events did, in their order, about memories as they are now."""
    return tuple(_with_words(_told(event), memories) for event in sorted(did, key=lambda event: event.version))


def intended(step: Step, memory: Memory, by: Memory | None, at: int) -> Did:
    """What a step would do to a memory as it stands before it."""
    told = Did(version=0, at=at, id=step.id, did=CHANGED, by=step.by, reason=step.reason, content=memory.content)
    if step.phase == "rank":
        return msgspec.structs.replace(
            told, before={"importance": memory.importance}, after={"importance": step.importance}
        )
    if step.phase == "prune":
        return msgspec.structs.replace(told, did=Status.ARCHIVED.value)
    said = None if by is None else by.content
    return msgspec.structs.replace(told, did=Status.SUPERSEDED.value, by_content=said)


def _told(event: Event) -> Did:
    data = event.data
    shared: dict[str, Any] = {"version": event.version, "at": event.at, "id": event.target or ""}
    if event.redacted:
        return Did(**shared, did=FORGOTTEN)
    if isinstance(data, MemoryMoved):
        return Did(**shared, did=data.status, by=data.by, reason=data.reason)
    if isinstance(data, MemoryChanged):
        return Did(**shared, did=CHANGED, reason=data.reason, before=data.before, after=data.after)
    return Did(**shared, did="kept")


def _with_words(did: Did, memories: Mapping[str, Memory]) -> Did:
    memory, by = memories.get(did.id), memories.get(did.by)
    return msgspec.structs.replace(
        did, content=None if memory is None else memory.content, by_content=None if by is None else by.content
    )
