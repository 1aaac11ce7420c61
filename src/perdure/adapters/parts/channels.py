"""What a channel of a LangGraph checkpoint holds, and how a list shares what it begins with.

Invariant: a value, once made, does not change, so that readers need no lock. A list says how much of another it keeps
and what follows, so a chain of lists is read in one walk, however long.
"""

from collections.abc import Sequence
from typing import Any, Final

from perdure.events import Event, Spoken

BY: Final = "langgraph"
Typed = tuple[str, bytes]


class Said:
    """An item of the conversation that LangGraph wrote, in its bytes (`typed`), or a piece of one that others wrote,
    `seen` once a checkpoint refers to it; that item begins at version `item`. It is `standing` until it is taken out;
    `gone` is the version at which others did that.
    """

    __slots__ = ("gone", "id", "item", "payloads", "seen", "standing", "turn", "typed", "versions")

    def __init__(self, event: Event, payload: Spoken, native: dict[str, Any], item: int) -> None:
        kept = native.get("item") if native.get("by") == BY else None
        mine = kept if isinstance(kept, dict) and isinstance(kept.get("data"), bytes) else None
        self.item = item
        self.versions = [event.version]
        self.turn = event.turn
        self.typed: Typed | None = (str(mine.get("type")), mine["data"]) if mine is not None else None
        self.id: str | None = mine.get("id") if mine is not None else None
        self.payloads: list[Spoken] = [payload] if mine is None else []
        self.seen = mine is not None
        self.standing = True
        self.gone = 0

    @property
    def first(self) -> int:
        """The version of its first event."""
        return self.versions[0]

    @property
    def last(self) -> int:
        """The version of its last event."""
        return self.versions[-1]


Ref = Said | tuple[Said, ...]
"""A message of a list: one that LangGraph wrote, or those of others that it stands for."""


class Part:
    """A stretch of a list: messages that lie in the conversation, or items in LangGraph's bytes."""

    __slots__ = ("count", "messages", "typed")

    def __init__(self, count: int, messages: list[Ref | None] | None = None, typed: Typed | None = None) -> None:
        self.count = count
        self.messages = messages
        self.typed = typed


class Value:
    """What a channel held: nothing, a value in LangGraph's bytes, or a list.

    `base` is the list whose first `keep` items it begins with; `parts` follow.
    """

    __slots__ = ("base", "keep", "length", "parts", "typed", "version", "weight")

    def __init__(self, version: Any, typed: Typed | None = None) -> None:
        self.version = version
        self.typed = typed
        self.parts: list[Part] | None = None
        self.base: Value | None = None
        self.keep = self.length = self.weight = 0

    @property
    def empty(self) -> bool:
        """Whether the channel held nothing."""
        return self.typed is None and self.parts is None

    def added(self, limit: int) -> list[tuple[Part, int]]:
        """The parts that follow what is kept of the base, each with how many of its items are among the first ones of
        the whole list.
        """
        found: list[tuple[Part, int]] = []
        left = limit - self.keep
        for part in self.parts or ():
            if left <= 0:
                break
            found.append((part, min(part.count, left)))
            left -= part.count
        return found

    def stretches(self) -> list[tuple[Part, int]]:
        """The parts of the whole list in order, each with how many of its items count."""
        found: list[tuple[Part, int]] = []
        value: Value | None = self
        limit = self.length
        while value is not None and limit > 0:
            found += reversed(value.added(limit))
            limit, value = min(limit, value.keep), value.base
        found.reverse()
        return found

    def refs(self) -> list[Ref | None]:
        """The items of the list that lie in the conversation; None for one that does not, or was redacted."""
        found: list[Ref | None] = []
        for part, count in self.stretches():
            found += [None] * count if part.messages is None else part.messages[:count]
        return found


def saids(ref: Ref | None) -> tuple[Said, ...]:
    """The items a message stands for."""
    return () if ref is None else ref if isinstance(ref, tuple) else (ref,)


def stood(ref: Ref | None, at: int) -> Ref | None:
    """What of a message others had not taken out at a version; None if nothing is left."""
    if ref is None or isinstance(ref, Said):
        return None if ref is None or 0 < ref.gone <= at else ref
    return tuple(said for said in ref if not 0 < said.gone <= at) or None


def weight(refs: Sequence[Ref | None]) -> int:
    """How many items messages stand for."""
    return sum(len(saids(ref)) for ref in refs)
