"""What a list of LangGraph's looked like when it was stored, so that the next one is stored as what differs.

Invariant: comparing costs next to nothing for items that are the very same objects, however many there are. What such
an object holds is looked at only near the end of the list, so a change in place is noticed there and nowhere else.
"""

from collections.abc import Sequence
from copy import deepcopy
from itertools import compress
from operator import is_not
from typing import Any, Final, Protocol

from langchain_core.messages import BaseMessage

RECENT: Final = 32
"""At so many items at the end of a list a change in place is noticed."""
_SCALARS: Final = frozenset({str, int, bool, bytes, type(None)})
_HOLDERS: Final = frozenset({dict, list})


class Codec(Protocol):
    """LangGraph's serializer, failing with typed errors."""

    def dump(self, value: Any) -> tuple[str, bytes]:
        """The value as LangGraph's bytes, with their type."""

    def load(self, typed: tuple[str, bytes]) -> Any:
        """The value of LangGraph's bytes."""


class Snapshot:
    """The items of a list as it was stored, and what the last of them looked like then. Items that are other objects
    than before are compared by what they hold; only those that are neither messages nor scalars are serialised for it.
    """

    __slots__ = ("_codec", "_faces", "_items", "speaks")

    def __init__(self, items: Sequence[Any], codec: Codec) -> None:
        self._codec = codec
        self._items = list(items)
        self._faces = [_apart(self._face(item)) for item in self._items[-RECENT:]]
        self.speaks = speaking(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def _face(self, item: Any) -> Any:
        if isinstance(item, BaseMessage):
            extra = item.__pydantic_extra__
            return {**item.__dict__, **extra} if extra else item.__dict__
        return item if type(item) in _SCALARS else self._codec.dump(item)

    def shared(self, items: Sequence[Any]) -> int:
        """How many items at the beginning are the same."""
        limit = min(len(items), len(self._items))
        try:
            limit = self._alike(self._items[:limit], items[:limit])
            first = len(self._items) - len(self._faces)
            recent = zip(range(first, limit), items[first:limit], self._faces, strict=False)
            return next((index for index, item, face in recent if self._face(item) != face), limit)
        except ValueError:  # arrays within a message do not say whether they are equal
            return 0

    def _alike(self, mine: Sequence[Any], others: Sequence[Any]) -> int:
        """How many at the beginning are the same objects, or hold the same."""
        if self.speaks and mine and mine[-1] is others[-1] and mine == others:
            return len(mine)  # the usual case: a list looks at what an object is before it looks into it
        unlike = compress(range(len(mine)), map(is_not, mine, others))
        return next((index for index in unlike if not self._same(mine[index], others[index])), len(mine))

    def _same(self, one: Any, other: Any) -> bool:
        return type(one) is type(other) and bool(self._face(one) == self._face(other))

    def followed(self, keep: int, items: Sequence[Any]) -> "Snapshot":
        """The snapshot of a list of which so many items were found to be the same."""
        made = Snapshot(items[keep:], self._codec)
        first = len(self._items) - len(self._faces)
        made._items = list(items)
        made._faces = (self._faces[: max(0, keep - first)] + made._faces)[-RECENT:]
        made.speaks = made.speaks and (self.speaks or speaking(items[:keep]))
        return made


def _apart(face: Any) -> Any:
    """A copy of what an item looks like that does not change with it."""
    if type(face) is not dict:
        return face
    return {name: item if type(item) in _SCALARS else _copied(item) for name, item in face.items()}


def _copied(item: Any) -> Any:
    return type(item)() if not item and type(item) in _HOLDERS else deepcopy(item)


def speaking(items: Sequence[Any]) -> bool:
    """Whether a list holds messages and nothing else."""
    return all(issubclass(kind, BaseMessage) for kind in set(map(type, items)))
