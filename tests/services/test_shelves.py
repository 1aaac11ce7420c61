"""Spaces at hand: as the log tells them, however many nodes write, whatever is let go, and nothing counted is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import NotFound, VersionConflict, WorldError
from perdure.core.memory.parts import LETHE, Space, Status, vault
from perdure.core.memory.requests import Keeping, Seeking
from perdure.core.session import commands as do
from perdure.core.session.event import Draft
from perdure.core.session.memories import MemoriesEmbedded, MemoryKept, MemoryPlanned
from perdure.core.session.turns import Message
from perdure.ports.memory import UNMADE
from perdure.services.allowance import Allowance
from perdure.services.memories import Memories
from perdure.services.shelves import RETRIES, Known
from tests.services.conftest import open_store
from tests.services.shelved import Hashing, WordIndex, everything, remembering
from tests.services.world import World

ANA = vault("ana")


def node(world: World, **options: Any) -> Memories:
    return remembering(world.sessions, world.erasure, **options)


def index_of(known: Known) -> WordIndex:
    assert isinstance(known.index, WordIndex)
    return known.index


async def keep(memories: Memories, *texts: str, space: Space = ANA) -> list[str]:
    return [memory.id for memory in await memories.keep(space, [Keeping(content=text) for text in texts])]


async def found(memories: Memories, query: str, space: Space = ANA) -> list[str]:
    return [one.memory.content for one in await memories.search(space, Seeking(query=query))]


async def test_what_one_node_keeps_all_others_find(world: World) -> None:
    one, other = node(world), node(world)
    assert await found(other, "tea") == []
    await keep(one, "tea at five")
    assert await found(other, "tea") == ["tea at five"]
    await keep(other, "tea at six")
    assert await found(one, "six") == ["tea at six"]


async def test_who_asks_for_what_was_never_begun_leaves_nothing_behind(world: World) -> None:
    memories = node(world)
    await keep(memories, "tea at five")
    for number in range(20):
        assert await found(memories, "tea", vault(f"nobody {number}")) == []
        with pytest.raises(NotFound):
            await memories.get(vault(f"nobody {number}"), "01a1e446-cea0-7000-8000-000000000000")
        assert await memories.forget(vault(f"nobody {number}"), ["01a1e446-cea0-7000-8000-000000000000"]) == 0
    assert [*memories.shelves._known] == [ANA]
    assert [*memories.shelves._uses] == [ANA]


async def test_two_nodes_that_write_at_once_lose_nothing_and_see_everything(engine: str, tmp_path: Path) -> None:
    first = open_store(engine, tmp_path)
    second = first if engine == "volatile" else open_store(engine, tmp_path)
    worlds = [World(first, seed=b"one"), World(second, seed=b"other")]
    nodes = [node(world, embedder=Hashing()) for world in worlds]
    texts = {f"{number} of node {place}" for place in range(2) for number in range(20)}
    await asyncio.gather(
        *[keep(memories, f"{number} of node {place}") for place, memories in enumerate(nodes) for number in range(20)]
    )
    shelves = [(await memories.shelves.look(ANA)).shelf for memories in nodes]
    assert {memory.content for memory in shelves[0]} == texts
    assert len(shelves[0]) == 40
    assert everything(shelves[0]) == everything(shelves[1])
    assert everything((await node(worlds[0]).shelves.look(ANA)).shelf) == everything(shelves[0])
    for world in worlds:
        await world.store.close()


async def test_who_loses_a_race_decides_again_on_what_is_there_then(world: World) -> None:
    one, other = node(world), node(world)
    await keep(one, "tea")
    seen: list[int] = []

    def decide(shelf: Any) -> list[MemoryPlanned]:
        seen.append(len(shelf))
        return [MemoryPlanned(plan="free")]

    whole = one.shelves._append
    meddled = False

    async def append(*words: Any) -> Any:
        nonlocal meddled
        if not meddled:
            meddled = True
            await keep(other, "rain")
        return await whole(*words)

    one.shelves._append = append  # type: ignore[method-assign]
    await one.shelves.write(ANA, decide)  # type: ignore[arg-type]
    assert seen == [1, 2]


async def test_who_loses_every_race_is_told_so(world: World) -> None:
    memories = node(world)
    await keep(memories, "tea")
    tries = 0

    async def append(*_: Any) -> Any:
        nonlocal tries
        tries += 1
        raise VersionConflict("somebody was first")

    memories.shelves._append = append  # type: ignore[method-assign]
    with pytest.raises(VersionConflict, match="keep changing"):
        await keep(memories, "rain")
    assert tries == RETRIES


async def test_counts_survive_a_lost_race_and_a_failed_write(world: World) -> None:
    memories = node(world)
    (id,) = await keep(memories, "tea")
    await found(memories, "tea")
    whole = memories.shelves._append
    troubles: list[Exception] = [VersionConflict("somebody was first"), WorldError("the disk is full")]

    async def append(*words: Any) -> Any:
        if troubles:
            raise troubles.pop(0)
        return await whole(*words)

    memories.shelves._append = append  # type: ignore[method-assign]
    with pytest.raises(WorldError):
        await memories.close()
    assert not troubles
    await memories.close()
    await memories.close()
    assert (await node(world).get(ANA, id)).accesses == 1
    assert (await node(world).stats(ANA)).queries_today == 1


async def test_a_search_is_answered_though_its_count_cannot_be_written(world: World) -> None:
    memories = node(world)
    (id,) = await keep(memories, "tea")
    whole = memories.shelves._append
    full = True

    async def append(*words: Any) -> Any:
        if full:
            raise WorldError("the disk is full")
        return await whole(*words)

    memories.shelves._append = append  # type: ignore[method-assign]
    for _ in range(3):
        world.ambient.advance(120)
        assert await found(memories, "tea") == ["tea"]
    full = False
    await memories.close()
    assert (await node(world).get(ANA, id)).accesses == 3


async def test_what_was_counted_outlives_a_space_that_is_let_go(world: World) -> None:
    memories = node(world, allowance=Allowance(1))
    (id,) = await keep(memories, "tea")
    await found(memories, "tea")
    await keep(memories, "rain", space=vault("ben"))
    assert [*memories.shelves._known] == [vault("ben")]
    await memories.close()
    assert (await node(world).get(ANA, id)).accesses == 1


async def test_the_spaces_that_were_not_used_for_longest_are_let_go_and_made_anew(world: World) -> None:
    allowance = Allowance(2_000)
    memories = node(world, allowance=allowance)
    spaces = [vault(name) for name in ("ana", "ben", "cleo")]
    for space in spaces:
        await keep(memories, f"tea of {space.name}", space=space)
    assert len(memories.shelves._known) == 2
    await found(memories, "tea", spaces[1])
    assert await found(memories, "tea", spaces[0]) == ["tea of ana"]
    assert {*memories.shelves._known} == {spaces[1], spaces[0]}
    assert allowance.taken == sum(known.measured() for known in memories.shelves._known.values())
    memories.shelves.forget()
    assert allowance.taken == 0


async def test_nothing_is_embedded_twice_nor_taken_in_twice(world: World) -> None:
    embedder = Hashing()
    memories = node(world, embedder=embedder)
    await keep(memories, "tea", "rain")
    await keep(memories, "pool")
    known = await memories.shelves.look(ANA)
    assert index_of(known).added == 3
    other = Hashing()
    cold = await node(world, embedder=other).shelves.look(ANA)
    assert sorted(embedder.given) == ["pool", "rain", "tea"]
    assert other.given == []
    assert index_of(cold).items == index_of(known).items


async def test_vectors_of_another_embedder_are_not_used(world: World) -> None:
    await keep(node(world, embedder=Hashing()), "tea")
    other = Hashing()
    other.name = "another"
    cold = await node(world, embedder=other).shelves.look(ANA)
    assert ([vector for _, vector in index_of(cold).items.values()], other.given) == ([UNMADE], [])


async def test_what_is_masked_has_no_part_in_the_vectors(world: World) -> None:
    world.sessions.masks = "pii"
    embedder = Hashing()
    (memory,) = await node(world, embedder=embedder).keep(ANA, [Keeping(content="write to ana@example.com")])
    assert "ana@example.com" not in memory.content
    assert embedder.given == [memory.content]


async def test_a_change_that_no_index_cares_for_is_not_indexed(world: World) -> None:
    from perdure.core.memory.requests import Changing

    embedder = Hashing()
    memories = node(world, embedder=embedder)
    (id,) = await keep(memories, "tea")
    await memories.update(ANA, id, Changing(importance=0.9))
    assert index_of(await memories.shelves.look(ANA)).added == 1
    await memories.update(ANA, id, Changing(valid_from=1))
    assert index_of(await memories.shelves.look(ANA)).items[id][0].at == 1


async def test_asking_begins_no_space(world: World) -> None:
    for memories in (node(world), node(world, plan="free")):
        assert await found(memories, "tea") == []
        world.ambient.advance(120)
        assert await found(memories, "tea") == []
        await memories.close()
        with pytest.raises(NotFound):
            await world.sessions.log.head(memories.shelves.session_of(ANA))


async def test_a_space_that_was_erased_is_empty_and_begins_again(world: World) -> None:
    memories = node(world)
    await keep(memories, "tea")
    await found(memories, "tea")
    await world.erasure.erase(memories.shelves.session_of(ANA))
    assert await found(memories, "tea") == []
    await memories.close()
    await keep(memories, "rain")
    assert await found(memories, "tea rain") == ["rain"]


async def test_the_spaces_of_a_tenant_are_known_and_nobodys_sessions_are_among_them(world: World) -> None:
    memories = node(world)
    spaces = [vault("ana"), Space("clade", "desk"), LETHE, *[vault(f"number {number}") for number in range(120)]]
    for space in spaces:
        world.ambient.advance(1)
        await keep(memories, "tea", space=space)
    await world.create(title="vault/eve", tags=("memory",))
    await world.create(title="anything", tags=("memory",))
    assert await memories.shelves.spaces() == tuple(spaces)


async def test_a_key_keeps_once_though_the_answer_was_lost(world: World) -> None:
    """The process dies between the append and the answer; the call is made again, on another node."""
    one = node(world)

    async def dies(*_: Any) -> bool:
        raise KeyboardInterrupt

    one.shelves._took = dies  # type: ignore[method-assign]
    asked = [Keeping(content="tea"), Keeping(content="rain")]
    with pytest.raises(KeyboardInterrupt):
        await one.keep(ANA, asked, key="k")
    other = node(world)
    again = await other.keep(ANA, asked, key="k")
    assert [memory.content for memory in again] == ["tea", "rain"]
    assert len((await node(world).shelves.look(ANA)).shelf) == 2


async def test_a_key_is_no_refusal_though_the_space_is_full_by_now(world: World) -> None:
    memories = node(world)
    await memories.plan(ANA, "free")
    asked = [Keeping(content=f"tea {number}") for number in range(100)]
    first = await memories.keep(ANA, asked, key="k")
    assert await node(world).keep(ANA, asked, key="k") == first
    assert (await memories.stats(ANA)).counts == {"live": 100}


async def test_a_key_that_another_node_uses_at_the_same_time_keeps_once(world: World) -> None:
    one, other = node(world), node(world)
    await keep(one, "rain")
    whole = one.shelves._append
    first: list[Any] = []

    async def append(*words: Any) -> Any:
        if not first:
            first.extend(await other.keep(ANA, [Keeping(content="tea")], key="k"))
        return await whole(*words)

    one.shelves._append = append  # type: ignore[method-assign]
    assert [*await one.keep(ANA, [Keeping(content="tea")], key="k")] == first
    assert await found(one, "tea") == ["tea"]


async def test_what_stands_in_the_log_beside_memories_does_no_harm(world: World) -> None:
    memories = node(world)
    await keep(memories, "tea")
    session = memories.shelves.session_of(ANA)
    await world.sessions.handle(session, do.Append(drafts=(Draft(Message(role="user", content="tea?")),)))
    await world.checkpoints.take(session, "full")
    await keep(memories, "more tea")
    for reader in (memories, node(world)):
        assert sorted(await found(reader, "tea")) == ["more tea", "tea"]


async def test_a_redaction_behind_our_back_is_seen(world: World) -> None:
    memories = node(world)
    ids = await keep(memories, "tea", "rain")
    known = await memories.shelves.look(ANA)
    await world.erasure.redact(known.session, known.shelf.versions_of(ids[0]), "asked for")
    assert await found(memories, "tea rain") == ["rain"]
    with pytest.raises(NotFound):
        await memories.get(ANA, ids[0])


async def test_forgetting_who_superseded_another_on_their_own_word_brings_that_back_on_all_nodes(world: World) -> None:
    one, other = node(world), node(world)
    (old,) = await keep(one, "tea")
    (new,) = await one.keep(ANA, [Keeping(content="coffee", supersedes=(old,))])
    assert (await other.get(ANA, old)).status is Status.SUPERSEDED
    await one.forgetting.redact(ANA, [new.id], "asked for")
    for memories in (one, other, node(world)):
        known = await memories.shelves.look(ANA)
        assert [(memory.id, memory.status, memory.valid_to) for memory in known.shelf] == [(old, Status.LIVE, None)]
        assert [*index_of(known).items] == [old]


async def test_the_owner_of_what_is_everybodys_is_nobody(world: World) -> None:
    from perdure.services.acting import acting

    memories = node(world)
    with acting("ada"):
        await memories.keep(LETHE, [Keeping(content="tea")])
        await memories.keep(ANA, [Keeping(content="tea")])
    rows = [(await world.sessions.log.head(memories.shelves.session_of(space))).row for space in (LETHE, ANA)]
    assert [row.owner for row in rows] == ["someone", "ada"]


async def test_a_kept_memory_reads_back_as_it_was_given(world: World) -> None:
    metadata = {"tokens": ["ETH", "USDC"], "chains": [1, 10], "deep": {"a": [None, True, 1.5]}}
    (memory,) = await node(world, embedder=Hashing()).keep(ANA, [Keeping(content=" tea ", metadata=metadata)])
    head = await world.sessions.log.head(node(world).shelves.session_of(ANA))
    made, last = (event.data for event in (await world.sessions.log.events(head))[-2:])
    assert isinstance(made, MemoriesEmbedded)
    assert (made.embedder, {id: len(vectors) for id, vectors in made.vectors.items()}) == ("hashing", {memory.id: 4})
    assert isinstance(last, MemoryKept)
    assert (last.content, last.metadata) == ("tea", metadata)
    assert memory.metadata == metadata
