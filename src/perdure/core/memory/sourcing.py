"""Taking what came from one source out of use, in a way that can be taken back.

Everything that is written for it carries the mark of the source as its run. So a log tells what was done, and releasing
the source undoes exactly that, times included, as far as nobody changed it since.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.tracing import Meant, Told, freed
from perdure.core.session.event import Event, Payload
from perdure.core.session.memories import MemoryChanged, MemoryMoved

RELEASED: Final = "its source was released"
QUARANTINED: Final = "its source was quarantined"
_ENDING: Final = ("superseded_at", "superseded_by", "valid_to")
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


class Put:
    """Reads what was done because of a source and not undone since, and how each memory was before."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._shelf = Shelf()
        self._done: dict[str, tuple[MemoryMoved, Memory | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._done)

    def take(self, events: Iterable[Event]) -> None:
        """Read on."""
        for event in events:
            data = event.data
            if isinstance(data, MemoryMoved) and data.run == self._mark:
                if data.reason == RELEASED:
                    self._done.pop(data.id, None)
                else:
                    self._done[data.id] = data, self._shelf.memories.get(data.id)
            self._shelf.take((event,))

    def releasing(self, shelf: Shelf) -> Sequence[Payload]:
        """What undoes it all on a shelf as it stands. What was moved by others since stays as it is."""
        back = list[tuple[bool, Payload]]()
        for id, (done, before) in self._done.items():
            now = shelf.memories.get(id)
            if now is None or now.status != done.status:
                continue
            again = done.was == Status.SUPERSEDED
            if again and now.status is Status.LIVE and before is not None:
                back.append((again, self._ended(now, before)))
            moved = MemoryMoved(id=id, was=done.status, status=done.was, by=done.by, reason=RELEASED, run=self._mark)
            back.append((again, moved))
        return [payload for _, payload in sorted(back, key=lambda one: one[0])]

    def _ended(self, now: Memory, before: Memory) -> MemoryChanged:
        """When it had been superseded, and how long it was true because of that."""
        plain = [{name: getattr(one, name) for name in _ENDING} for one in (now, before)]
        return MemoryChanged(id=now.id, before=plain[0], after=plain[1], reason=RELEASED, run=self._mark)
