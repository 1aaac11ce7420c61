"""Vectors of memories made and put into events.

A memory's vectors tell of its own words, and of them with what was said before in its thread. So an event with vectors
names every memory whose words went in, and is redacted with any of them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from perdure.core.masking import masked_draft
from perdure.core.memory.parts import Memory
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.told import PLACE
from perdure.core.session.event import Draft, Payload
from perdure.core.session.memories import MemoriesEmbedded, MemoryChanged, MemoryKept
from perdure.ports.memory import UNMADE, Embedder, Item, MemoryIndex

BEFORE: Final = 2
"""As many of those before a memory in its thread have a part in its vectors."""
GROUP: Final = 32
"""Memories whose vectors stand in one event: so many lose theirs when one of them is forgotten."""
MakeIndex: TypeAlias = Callable[[Embedder | None], MemoryIndex]


class Planned(msgspec.Struct, frozen=True):
    """What vectors are made of: items in the order of their threads, those `wanted` among them, and for each of these
    the ids of those before it that have a part in its vectors.
    """

    items: tuple[Item, ...]
    wanted: dict[str, tuple[str, ...]]


def planned(shelf: Shelf, wanted: Iterable[Item]) -> Planned:
    """What vectors of these are made of: memories as they will be, which may be on the shelf or not yet."""
    named = {item.id: item for item in wanted}
    threads: dict[str, list[str]] = {}
    for item in named.values():
        threads.setdefault(item.thread, []).append(item.id)
    alone = threads.pop("", [])
    items, before = [named[id] for id in alone], dict[str, tuple[str, ...]](dict.fromkeys(alone, ()))
    for thread, ids in threads.items():
        known = shelf.threads.get(thread, [])
        fresh = [id for id in ids if id not in shelf.memories or shelf.memories[id].thread != thread]
        line = [*(known if len(fresh) < len(ids) else known[-BEFORE:]), *fresh]
        places = {id: place for place, id in enumerate(line)}
        needed = set[int]()
        for place in (places[id] for id in ids):
            since = max(place - BEFORE, 0)
            before[line[place]] = tuple(line[since:place])
            needed.update(range(since, place + 1))
        items += [named.get(line[place]) or item_of(shelf.memories[line[place]]) for place in sorted(needed)]
    return Planned(tuple(items), before)


def made(plan: Planned, embedder: Embedder, index: MemoryIndex) -> list[MemoriesEmbedded]:
    """The events that hold the vectors of what is wanted. The index is empty: it knows nothing but what is planned."""
    found = index.add(plan.items, [b"" if item.id in plan.wanted else UNMADE for item in plan.items])
    vectors = [(item.id, each) for item, each in zip(plan.items, found, strict=True) if item.id in plan.wanted and each]
    events = []
    for start in range(0, len(vectors), GROUP):
        group = dict(vectors[start : start + GROUP])
        beside = dict.fromkeys(other for id in group for other in plan.wanted[id] if other not in group)
        events.append(MemoriesEmbedded(embedder=embedder.name, vectors=group, beside=tuple(beside)))
    return events


def holds(shelf: Shelf, event: MemoriesEmbedded, plan: Planned) -> bool:
    """Whether what vectors were made of stands on the shelf as it did, and nobody else has made them."""
    items = {item.id: item for item in plan.items}
    return all(
        id in shelf.memories and item_of(shelf.memories[id]) == items[id] for id in (*event.vectors, *event.beside)
    ) and not any(shelf.has_vectors(id) for id in event.vectors)


def told(shelf: Shelf, payloads: Sequence[Payload], masks: str | None) -> tuple[Planned, Planned]:
    """What the vectors are made of that are written along: of memories that are kept, and of those that an index takes
    in anew because they change.
    """
    kept = {one.id: _item_to_be(one, masks) for one in payloads if isinstance(one, MemoryKept)}
    changed: dict[str, Memory] = {}
    for one in payloads:
        if isinstance(one, MemoryChanged) and one.id in shelf.memories:
            place = {name: one.after[name] for name in PLACE if name in one.after}
            if place:
                memory = changed.get(one.id, shelf.memories[one.id])
                changed[one.id] = msgspec.structs.replace(memory, **place)
    return planned(shelf, kept.values()), planned(shelf, map(item_of, changed.values()))


def _item_to_be(payload: MemoryKept, masks: str | None) -> Item:
    """What an index will know of a memory: what is masked in the log has no part in its vectors."""
    told = payload if masks is None else masked_draft(Draft(payload), masks).payload
    shown = told if isinstance(told, MemoryKept) else payload
    return Item(id=payload.id, text=shown.content, author=shown.author, thread=shown.thread)


def item_of(memory: Memory) -> Item:
    """A memory as an index knows it."""
    return Item(id=memory.id, text=memory.content, author=memory.author, at=memory.since, thread=memory.thread)
