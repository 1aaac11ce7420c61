"""Calls that are given up, or break, while an index grows: what the log tells is found all the same."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Keeping
from perdure.ports.memory import Item
from perdure.services.memories import Memories
from perdure.services.shelves import FEW, Shelves
from tests.services.shelved import WordIndex, much, no_flags
from tests.services.world import World

ANA = vault("ana")
MANY = FEW + 1


def many() -> list[Keeping]:
    return [Keeping(content=f"tea {number}") for number in range(MANY)]


async def all_is_found(memories: Memories) -> None:
    known = await memories.shelves.look(ANA)
    assert len(known.shelf) == len(known.index) == MANY
    assert all(len(known.shelf.versions_of(memory.id)) == 1 for memory in known.shelf)


async def test_what_a_call_kept_that_was_given_up_is_found(world: World) -> None:
    memories = Memories(Shelves(world.sessions, lambda: None, WordIndex, much()), world.erasure, no_flags)
    await memories.shelves.begin(ANA)
    go, crew = Event(), ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(crew)
    busy = crew.submit(go.wait, 30)  # so the index must wait for its turn
    keeping = asyncio.ensure_future(memories.keep(ANA, many()))
    while not crew._work_queue.qsize():
        assert not keeping.done()
        await asyncio.sleep(0)
    keeping.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert busy.result()
    await all_is_found(memories)


class Failing(WordIndex):
    """Breaks once, in the middle."""

    left = 1

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        made = super().add(items[:3], vectors[:3])
        if Failing.left:
            Failing.left -= 1
            raise MemoryError
        return [*made, *super().add(items[3:], vectors[3:])]


async def test_an_index_that_broke_is_made_anew(world: World) -> None:
    Failing.left = 1
    memories = Memories(Shelves(world.sessions, lambda: None, Failing, much()), world.erasure, no_flags)
    with pytest.raises(MemoryError):
        await memories.keep(ANA, many())
    await all_is_found(memories)
