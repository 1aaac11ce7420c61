"""Taking what came from one source out of use, in a way that can be taken back.

Everything that is written for it carries the mark of the source as its run. So a log tells what was done, and releasing
the source undoes exactly that, as far as nobody changed it since.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.parts import Status
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.tracing import Meant, Told, freed
from perdure.core.session.event import Event, Payload
from perdure.core.session.memories import MemoryMoved

RELEASED: Final = "its source was released"
QUARANTINED: Final = "its source was quarantined"
_MOVABLE: Final = (Status.LIVE, Status.SUPERSEDED, Status.ARCHIVED)


class By(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source: a session, whoever wrote it down, or the address of a document. Exactly one is named."""

    session: str = ""
    writer: str = ""
    uri: str = ""

    @property
    def named(self) -> tuple[str, str]:
        """Which of them, and its name; `Invalid` unless it is exactly one."""
        found = [(name, value) for name in self.__struct_fields__ if (value := getattr(self, name))]
        if len(found) != 1:
            raise Invalid("name one source: a session, a writer, or a uri")
        return found[0]

    @property
    def mark(self) -> str:
        """The run of whatever is written because of this source."""
        name, value = self.named
        return f"source:{name}:{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"

    def meant(self) -> Meant:
        """Whether something comes from it."""
        name, value = self.named

        def comes(told: Told) -> bool:
            return bool(getattr(told, name) == value)

        return comes


def quarantining(shelf: Shelf, ids: set[str], mark: str, reason: str) -> Sequence[Payload]:
    """What takes these out of use; what only they had superseded counts again."""
    moved = [
        MemoryMoved(
            id=memory.id,
            was=memory.status,
            status=Status.QUARANTINED,
            by=memory.superseded_by,
            reason=reason,
            run=mark,
        )
        for memory in (shelf.memories[id] for id in sorted(ids) if id in shelf.memories)
        if memory.status in _MOVABLE
    ]
    back = [
        msgspec.structs.replace(one, run=mark, by=shelf.memories[one.id].superseded_by)
        for one in freed(shelf, ids, reason)
        if isinstance(one, MemoryMoved)
    ]
    return [*moved, *back]


def releasing(shelf: Shelf, events: Iterable[Event], mark: str) -> Sequence[Payload]:
    """What undoes a quarantine, by the log that tells of it. What was moved by others since stays as it is."""
    done: dict[str, MemoryMoved] = {}
    for event in events:
        data = event.data
        if not isinstance(data, MemoryMoved) or data.run != mark:
            continue
        if data.reason == RELEASED:
            done.pop(data.id, None)
        else:
            done[data.id] = data
    back = [
        MemoryMoved(id=id, was=data.status, status=data.was, by=data.by, reason=RELEASED, run=mark)
        for id, data in done.items()
        if id in shelf.memories and shelf.memories[id].status == data.status
    ]
    return sorted(back, key=lambda one: one.status == Status.SUPERSEDED)
