"""Spaces at hand under pressure: too little room, many at once, cancellations, forks."""

import asyncio
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.compose.memory import MemorySettings
from perdure.compose.tenants import KEPT, tenants
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Keeping, Seeking
from perdure.sealing.given import Given
from perdure.services.allowance import Allowance
from perdure.services.memories import Memories
from tests.services.shelved import remembering
from tests.services.world import World

TINY = {"embedder": "none", "room": 1}
SPACES = [vault(name) for name in "abcd"]


def accesses(path: Path, agent: str) -> int:
    with perdure.open(path) as db:
        return sum(memory.accesses for memory in db.memory(agent).list())


async def at_hand(memories: Memories) -> int:
    return sum(known.measured() for known in memories.shelves._known.values())


async def test_a_space_whose_reader_gave_up_is_counted(world: World) -> None:
    allowance = Allowance(1)
    memories = remembering(world.sessions, world.erasure, allowance=allowance)
    for space in SPACES:
        await memories.keep(space, [Keeping(content=f"night train {number}") for number in range(200)])
    memories.shelves.forget()
    for space in SPACES:
        task = asyncio.ensure_future(memories.search(space, Seeking(query="night train")))
        while (known := memories.shelves.known(space)) is None or not known.shelf.version:  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for space in SPACES:
        await memories.search(space, Seeking(query="night train"))
    assert [*memories.shelves._known] == [SPACES[-1]]
    assert allowance.taken == await at_hand(memories)


async def test_what_is_found_is_counted_however_often_a_space_is_let_go(world: World) -> None:
    memories = remembering(world.sessions, world.erasure, allowance=Allowance(1))
    for space in SPACES:
        await memories.keep(space, [Keeping(content="the night train")])

    async def use(number: int) -> None:
        space = SPACES[number % len(SPACES)]
        for turn in range(12):
            await memories.search(space, Seeking(query="train", top_k=1))
            if turn % 3 == 0:
                await memories.keep(space, [Keeping(content=f"word {number} {turn}")])

    await asyncio.gather(*map(use, range(12)))
    await memories.close()
    fresh = remembering(world.sessions, world.erasure)
    for space in SPACES:
        found = await fresh.list(space)
        assert sum(memory.accesses for memory in found.items) == 3 * 12


def test_threads_that_share_too_little_room_lose_nothing(tmp_path: Path) -> None:
    failures: Counter[str] = Counter()
    with perdure.open(tmp_path / "store.db", memory=TINY) as db:
        spaces = [db.memory(name) for name in "abcd"]

        def work(number: int) -> None:
            for turn in range(15):
                try:
                    spaces[number % 4].search("night train")
                    spaces[number % 4].add(f"night train {number} {turn}")
                except Exception as error:
                    failures[repr(error)] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == Counter()
        assert [len(list(space.list())) for space in spaces] == [30] * 4


async def test_long_texts_and_metadata_take_room(world: World) -> None:
    allowance = Allowance(1 << 20)
    memories = remembering(world.sessions, world.erasure, allowance=allowance)
    for space in SPACES:
        said = [Keeping(content=f"{n} " + "word " * 4_000, metadata={"note": "y" * 8_000}) for n in range(10)]
        await memories.keep(space, said)
    assert len(memories.shelves._known) < len(SPACES)
    before = allowance.taken
    (first, *_) = (await memories.list(SPACES[-1])).items
    await memories.forget(SPACES[-1], [first.id])
    await memories.shelves.look(SPACES[-1])
    assert before - allowance.taken > 20_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_of_a_fork_waits_for_nobody_and_writes_down_nothing_of_its_parents(tmp_path: Path) -> None:
    path, stop = tmp_path / "store.db", threading.Event()
    with perdure.open(path, memory={"embedder": "none"}) as db:
        ana = db.memory("ana")
        ana.add_many([f"night train {number}" for number in range(300)])

        def search() -> None:
            while not stop.is_set():
                ana.search("night train", top_k=5, count=False)

        ana.search("train 7", top_k=1)
        thread = threading.Thread(target=search)
        thread.start()
        for _ in range(5):
            assert _in_child(lambda: len(ana.search("night train", top_k=5, count=False)) == 5)
        stop.set()
        thread.join()
        assert _in_child(db.close)
    assert accesses(path, "ana") == 1


def _in_child(work: Any) -> bool:
    """Whether it did not fail in a child, nor hang."""
    child = os.fork()
    if not child:
        code = 1
        try:
            import signal

            signal.alarm(60)
            code = 0 if work() in (None, True) else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


async def test_what_was_counted_for_very_many_tenants_is_written_down(tmp_path: Path) -> None:
    many = KEPT + 20
    house = tenants(tmp_path / "store.db", keys=Given(seal=False))
    house.memory = MemorySettings(embedder="none")
    try:
        for number in range(many):
            memories = house.services(f"t{number}").memories
            await memories.keep(vault("ana"), [Keeping(content="night train")])
            if number < 30:
                await memories.search(vault("ana"), Seeking(query="train"))
        assert len(house._made) <= KEPT + 1
        assert len(house.allowance._guests) <= KEPT + 1
    finally:
        await house.close()
    house = tenants(tmp_path / "store.db")
    try:
        found = [await house.services(f"t{number}").memories.list(vault("ana")) for number in range(30)]
        assert [page.items[0].accesses for page in found] == [1] * 30
    finally:
        await house.close()
