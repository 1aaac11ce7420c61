"""Whom memories are about, beside those they name themselves: whoever was named by what gave way to them.

No name is ever written from one memory onto another, so nothing is left of it where that one is forgotten, or the run
undone that put the other in its place.
"""

from perdure.core.memory.parts import Memory, Status, people
from perdure.core.memory.requests import lesser
from perdure.core.memory.shelf import Shelf


def about(shelf: Shelf) -> dict[str, set[str]]:
    """Of each memory that stands for others the people these are about, as they are known (`parts.person`)."""
    found: dict[str, set[str]] = {}
    for memory in shelf:
        one, names = memory, people(memory.subjects) if memory.superseded_by else frozenset[str]()
        while names and (newer := _stands_for(shelf, one)) is not None:
            had = found.setdefault(newer.id, set())
            names -= had  # whoever brought those has gone on with them
            had |= names
            one = newer
    return found


def _stands_for(shelf: Shelf, older: Memory) -> Memory | None:
    """The memory that is about the same people as the one that gave way to it: unless it is trusted more, so that
    nobody takes it along by what they said; or its writer put it there and named others.
    """
    newer = shelf.memories.get(older.superseded_by)
    if newer is None or older.status is Status.LIVE or lesser(newer.trust, older.trust) != newer.trust:
        return None
    own = (newer.id, older.id) in shelf.replaced
    return None if own and not people(older.subjects) <= people(newer.subjects) else newer
