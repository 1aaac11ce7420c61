"""Vectors over time: made anew for another embedder beside whoever works, and never of what was forgotten."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.core.errors import ProviderDown
from perdure.core.memory.parts import vault
from perdure.core.memory.requests import Changing, Keeping, Seeking
from perdure.core.session.memories import MemoriesEmbedded
from perdure.ports.memory import UNMADE, Embedder, Item
from perdure.services.embedding import BEFORE, GROUP
from perdure.services.memories import Memories
from perdure.services.reembedding import BATCH, lacking
from perdure.services.shelves import Shelves
from perdure.stores.volatile import VolatileStore
from perdure.waiting import drive
from tests.services.shelved import Hashing, WordIndex, much, no_flags
from tests.services.world import World

ANA = vault("ana")


class Telling(WordIndex):
    """Vectors that tell the texts they were made of: the item's own and those before it in its thread."""

    def add(self, items: Sequence[Item], vectors: Sequence[bytes] = ()) -> list[bytes]:
        given, made = list(vectors) or [b""] * len(items), []
        for item, each in zip(items, given, strict=True):
            said = [one.text for one, _ in self.items.values() if item.thread and one.thread == item.thread]
            if not each and self.embedder is not None:
                self.embedder.embed([item.text])
            vector = each or msgspec.json.encode([*said[-BEFORE:], item.text])
            self.items[item.id] = (item, vector)
            made.append(vector if self.embedder is not None else b"")
        return made


def node(world: World, embedder: Embedder | None) -> Memories:
    return Memories(Shelves(world.sessions, lambda: embedder, Telling, much()), world.erasure, no_flags)


def named(name: str) -> Hashing:
    embedder = Hashing()
    embedder.name = name
    return embedder


async def keep(memories: Memories, *texts: str, thread: str = "") -> list[str]:
    asked = [Keeping(content=text, thread=thread) for text in texts]
    return [memory.id for memory in await memories.keep(ANA, asked)]


async def vectors(world: World, memories: Memories) -> list[MemoriesEmbedded]:
    """What the log has of vectors."""
    events = await world.events(memories.shelves.session_of(ANA))
    return [event.data for event in events if isinstance(event.data, MemoriesEmbedded) and event.data.vectors]


async def texts(world: World, memories: Memories) -> dict[str, list[str]]:
    """What the vectors in the log were made of, the newest of each memory."""
    told = [each for event in await vectors(world, memories) for each in event.vectors.items()]
    return {id: msgspec.json.decode(vector) for id, vector in told}


async def test_another_embedder_embeds_nothing_when_a_space_is_read(world: World) -> None:
    ids = await keep(node(world, named("old")), "tea at five", "rain at six")
    fresh = named("new")
    memories = node(world, fresh)
    (found,) = await memories.search(ANA, Seeking(query="tea"))
    assert (found.memory.id, fresh.given) == (ids[0], [])
    index = (await memories.shelves.look(ANA)).index
    assert isinstance(index, WordIndex)
    assert {vector for _, vector in index.items.values()} == {UNMADE}


async def test_vectors_are_made_anew_batch_by_batch_with_progress_and_only_once(world: World) -> None:
    total = 2 * BATCH + 10
    old, fresh = node(world, named("old")), named("new")
    for start in range(0, total, 500):
        await keep(old, *[f"fact {number}" for number in range(start, min(start + 500, total))])
    memories, heard = node(world, fresh), list[tuple[int, int]]()
    assert (await memories.stats(ANA)).embedded == 0
    done = await memories.reembedding.run(ANA, told=lambda *far: heard.append(far))
    assert (done.embedder, done.made, done.memories) == ("new", total, total)
    assert heard == [(0, total), (BATCH, total), (2 * BATCH, total), (total, total)]
    assert sorted(fresh.given) == sorted(f"fact {number}" for number in range(total))
    assert (await memories.stats(ANA)).embedded == total
    assert (await memories.reembedding.run(ANA)).made == 0
    cold = node(world, named("new"))
    index = (await cold.shelves.look(ANA)).index
    assert isinstance(index, WordIndex)
    assert UNMADE not in {vector for _, vector in index.items.values()}
    assert (await old.stats(ANA)).embedded == total  # the vectors of the one before are still there


async def test_without_an_embedder_there_is_nothing_to_do(world: World) -> None:
    memories = node(world, None)
    await keep(memories, "tea")
    done = await memories.reembedding.run(ANA)
    assert (done.embedder, done.made, done.memories) == ("", 0, 1)
    assert (await memories.reembedding.sweep()).made == {}
    later = node(world, named("new"))
    assert (await later.reembedding.sweep()).made == {"vault/ana": 1}


async def test_what_was_cut_short_is_gone_on_with(world: World) -> None:
    class Failing(Hashing):
        def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if len(self.given) >= BATCH:
                raise ProviderDown("the embedder is away")
            return super().embed(texts)

    total = BATCH + 20
    await keep(node(world, named("old")), *[f"fact {number}" for number in range(total)])
    failing = Failing()
    failing.name = "new"
    memories = node(world, failing)
    with pytest.raises(ProviderDown):
        await memories.reembedding.run(ANA)
    assert (await memories.stats(ANA)).embedded == BATCH
    swept = await memories.reembedding.sweep()
    assert (swept.made, [*swept.failed]) == ({}, ["vault/ana"])
    fresh = named("new")
    assert (await node(world, fresh).reembedding.run(ANA)).made == 20
    assert len(fresh.given) == 20


async def test_nodes_that_make_them_at_once_beside_writers_leave_none_out_and_none_twice(world: World) -> None:
    old = node(world, named("old"))
    ids = await keep(old, *[f"fact {number}" for number in range(BATCH + 50)], thread="t")
    one, other = node(world, named("new")), node(world, named("new"))
    await asyncio.gather(
        one.reembedding.run(ANA),
        other.reembedding.run(ANA),
        keep(one, "meanwhile", thread="t"),
        old.update(ANA, ids[3], Changing(valid_from=5)),
        old.forget(ANA, [ids[60]]),
    )
    await one.reembedding.run(ANA)
    shelf = (await other.shelves.look(ANA)).shelf
    assert lacking(shelf) == []
    made = [event for event in await vectors(world, one) if event.embedder == "new"]
    told = [id for event in made for id in event.vectors]
    assert (
        len(told) - len(set(told)) <= GROUP + 1
    )  # the one that changed, and its neighbours, if they were there before
    assert not any("fact 60" in said for said in (await texts(world, one)).values())


async def test_two_embedders_beside_each_other_do_not_undo_each_others_work(world: World) -> None:
    one, other = node(world, named("one")), node(world, named("other"))
    await keep(one, "tea")
    await keep(other, "rain")
    assert len(await one.search(ANA, Seeking(query="rain"))) == 1
    assert ((await one.reembedding.sweep()).made, (await other.reembedding.sweep()).made) == (
        {"vault/ana": 1},
        {"vault/ana": 1},
    )
    before = len(await vectors(world, one))
    assert ((await one.reembedding.sweep()).made, (await other.reembedding.sweep()).made) == ({}, {})
    assert len(await vectors(world, one)) == before


async def test_a_space_that_lacks_nothing_is_not_read_again_by_sweeps(world: World) -> None:
    await keep(node(world, named("new")), "tea")
    memories = node(world, named("new"))
    assert (await memories.reembedding.sweep()).made == {}
    assert memories.shelves.known(ANA) is None
    read = list[Any]()
    memories.shelves.sessions.log.pages = lambda *asked: read.append(asked)  # type: ignore[assignment,method-assign]
    assert (await memories.reembedding.sweep()).made == {}
    assert read == []


# ── what was forgotten has no part in them ──


async def test_what_is_forgotten_leaves_the_vectors_of_its_neighbours(world: World) -> None:
    memories = node(world, named("new"))
    ids = await keep(memories, "one", "two", "three", "four", thread="t")
    await keep(memories, "five", thread="t")
    assert (await texts(world, memories))[ids[2]] == ["one", "two", "three"]
    await memories.forget(ANA, [ids[1]])
    said = await texts(world, memories)
    assert sorted(said.values()) == [["one"], ["one", "three"], ["one", "three", "four"], ["three", "four", "five"]]
    assert (await memories.stats(ANA)).embedded == 4
    cold = (await node(world, named("new")).shelves.look(ANA)).index
    warm = (await memories.shelves.look(ANA)).index
    assert isinstance(cold, WordIndex)
    assert isinstance(warm, WordIndex)
    assert cold.items == warm.items


async def test_what_cannot_be_embedded_again_at_once_is_forgotten_all_the_same(world: World) -> None:
    class Failing(Hashing):
        away = False

        def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            if self.away:
                raise ProviderDown("the embedder is away")
            return super().embed(texts)

    embedder = Failing()
    memories = node(world, embedder)
    ids = await keep(memories, "one", "two", thread="t")
    embedder.away = True
    assert await memories.forget(ANA, [ids[0]]) == 1
    assert await texts(world, memories) == {}
    embedder.away = False
    assert (await memories.reembedding.sweep()).made == {"vault/ana": 1}
    assert await texts(world, memories) == {ids[1]: ["two"]}


async def test_what_an_index_knows_otherwise_is_embedded_in_the_same_append(world: World) -> None:
    memories = node(world, named("new"))
    ids = await keep(memories, "one", "two", thread="t")
    await memories.update(ANA, ids[0], Changing(valid_from=7))
    assert (await memories.stats(ANA)).embedded == 2
    index = (await memories.shelves.look(ANA)).index
    assert isinstance(index, WordIndex)
    assert index.items[ids[0]][1] == b'["one"]'


steps = st.one_of(
    st.tuples(st.just("keep"), st.integers(1, 5), st.sampled_from(["t", "u", ""])),
    st.tuples(st.just("update"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("move"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("forget"), st.integers(0, 30), st.just("")),
    st.tuples(st.just("other"), st.integers(0, 1), st.just("")),
    st.tuples(st.just("reembed"), st.integers(0, 1), st.just("")),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=14))
def test_no_vector_in_the_log_was_ever_made_with_what_is_forgotten(told: list[tuple[str, int, str]]) -> None:
    """Whatever happens before and after, on nodes with the same or another embedder."""
    world = World(VolatileStore())
    nodes = [node(world, named("one")), node(world, named("other")), node(world, named("one"))]
    alive, gone, said, at = dict[str, str](), set[str](), 0, 0
    for what, number, thread in told:
        memories = nodes[at]
        if what == "other":
            at = (at + 1 + number) % len(nodes)
        elif what == "keep":
            fresh = [f"said{said + more}" for more in range(number)]
            said += number
            alive |= dict(zip(drive(keep(memories, *fresh, thread=thread)), fresh, strict=True))
        elif what == "reembed":
            drive(memories.reembedding.run(ANA))
        elif alive:
            id = [*alive][number % len(alive)]
            if what == "update":
                if drive(memories.get(ANA, id)).status == "live":
                    said += 1
                    made = drive(memories.update(ANA, id, Changing(content=f"said{said - 1}")))
                    alive[made.id] = made.content
            elif what == "move":
                if drive(memories.get(ANA, id)).status == "live":
                    drive(memories.update(ANA, id, Changing(valid_from=number)))
            else:
                drive(memories.forget(ANA, [id]))
                left = (drive(memories.shelves.look(ANA))).shelf.memories
                gone |= {alive.pop(id) for id in [*alive] if id not in left}
        if said:
            for made_of in drive(texts(world, memories)).values():
                assert gone.isdisjoint(made_of)
    if alive:
        last = nodes[0]
        drive(last.reembedding.run(ANA))
        assert lacking(drive(last.shelves.look(ANA)).shelf) == []
