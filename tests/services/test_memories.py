"""Memories: kept, changed, moved, found, forgotten; quotas that hold for all nodes together."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import Invalid, KeyReused, NotFound, QuotaReached, TooLarge, WorldError
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import LETHE, MemoryType, Source, Space, Status, vault
from perdure.core.memory.requests import MAX_BATCH, Changing, Keeping, Seeking
from perdure.core.session.memories import MemoryProposed, MemoryReviewed
from perdure.services.memories import Memories
from tests.services.shelved import remembering
from tests.services.world import World

ANA, BEN = vault("ana"), vault("ben")


@pytest.fixture
def memories(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


def node(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


async def found(memories: Memories, query: str, space: Space = ANA, **asked: Any) -> list[str]:
    return [one.memory.content for one in await memories.search(space, Seeking(query=query, **asked))]


async def test_a_batch_is_kept_in_its_order_or_not_at_all(memories: Memories) -> None:
    made = await memories.keep(ANA, [Keeping(content=f"tea {number}") for number in range(5)])
    assert [memory.content for memory in made] == [f"tea {number}" for number in range(5)]
    assert (await memories.list(ANA)).items == made
    for wrong in ([], [Keeping(content="x")] * (MAX_BATCH + 1), [Keeping(content="fine"), Keeping(content=" ")]):
        with pytest.raises(Invalid):
            await memories.keep(ANA, wrong)
    with pytest.raises(TooLarge):
        await memories.keep(ANA, [Keeping(content="fine"), Keeping(content="x" * 40_000)])
    with pytest.raises(NotFound):
        await memories.keep(ANA, [Keeping(content="fine", supersedes=("nobody",))])
    assert len((await memories.list(ANA)).items) == 5


async def test_a_key_that_was_used_for_something_else_is_refused(memories: Memories) -> None:
    await memories.keep(ANA, [Keeping(content="tea")], key="k")
    with pytest.raises(KeyReused):
        await memories.keep(ANA, [Keeping(content="rain")], key="k")
    assert await found(memories, "tea rain") == ["tea"]


async def test_who_writes_and_for_which_agent_is_known(memories: Memories) -> None:
    (own,) = await memories.keep(ANA, [Keeping(content="tea")])
    (others,) = await memories.keep(LETHE, [Keeping(content="tea")], agent="ben")
    assert (own.agent, own.writer, others.agent) == ("ana", "someone", "ben")


async def test_other_content_is_another_memory_and_the_former_one_stays_known(world: World, memories: Memories) -> None:
    source = Source(kind="user", session="s", version=4)
    (old,) = await memories.keep(ANA, [Keeping(content="APY is 2 %", metadata={"pool": "x"}, source=source)])
    then = world.ambient.now()
    world.ambient.advance(60)
    new = await memories.update(ANA, old.id, Changing(content="APY is 3 %", importance=0.9))
    assert (new.supersedes, new.metadata, new.source, new.importance) == ((old.id,), {"pool": "x"}, source, 0.9)
    assert await found(memories, "APY") == ["APY is 3 %"]
    assert await found(memories, "APY", at=then) == ["APY is 2 %"]
    assert [memory.id for memory in await memories.history(ANA, old.id)] == [old.id, new.id]
    assert await memories.history(ANA, new.id) == await memories.history(ANA, old.id)
    with pytest.raises(Invalid, match="superseded"):
        await memories.update(ANA, old.id, Changing(importance=0.1))


async def test_what_begins_later_is_found_from_then_on_and_what_gives_way_to_it_until_then(
    world: World, memories: Memories
) -> None:
    (old,) = await memories.keep(ANA, [Keeping(content="lives in Lisbon")])
    moves = world.ambient.now() + DAY
    new = await memories.update(ANA, old.id, Changing(content="lives in Porto", valid_from=moves))
    assert await found(memories, "lives") == ["lives in Lisbon"]
    assert await found(memories, "lives", at=moves) == ["lives in Porto"]
    assert [memory.id for memory in (await memories.list(ANA)).items] == [new.id]
    assert [memory.id for memory in await memories.history(ANA, old.id)] == [old.id, new.id]
    world.ambient.advance(86_400)
    assert await found(memories, "lives") == ["lives in Porto"]


async def test_what_had_ended_before_it_was_kept_or_changed_is_found_before_its_end(
    world: World, memories: Memories
) -> None:
    world.ambient.advance(9 * 86_400)
    end = world.ambient.now() - DAY
    _, tea, _ = await memories.keep(ANA, [Keeping(content=f"{what} fair", valid_to=end) for what in ("a", "b", "c")])
    assert (await found(memories, "fair"), len(await found(memories, "fair", at=end - 1))) == ([], 3)
    await memories.update(ANA, tea.id, Changing(valid_to=end - DAY))
    assert len(await found(memories, "fair", at=end - 1)) == 2
    (one,) = await memories.keep(ANA, [Keeping(content="a bazaar")])
    await memories.update(ANA, one.id, Changing(content="the bazaar was there", valid_to=end))
    assert await found(memories, "bazaar", at=end - 1) == ["the bazaar was there"]
    assert await found(memories, "bazaar") == []


async def test_what_was_over_by_itself_was_so_before_it_was_superseded_too(world: World, memories: Memories) -> None:
    world.ambient.advance(90 * 86_400)
    now = world.ambient.now()
    asked = Keeping(content="parks in the north yard", valid_from=now - 80 * DAY, valid_to=now - 50 * DAY)
    (old,) = await memories.keep(ANA, [asked])
    known = world.ambient.now()
    world.ambient.advance(86_400)
    await memories.keep(ANA, [Keeping(content="walks", supersedes=(old.id,))])
    assert await found(memories, "parks", at=now - 20 * DAY, known_at=known) == []
    assert await found(memories, "parks", at=now - 60 * DAY, known_at=known) == ["parks in the north yard"]


async def test_the_same_content_and_what_is_so_already_change_nothing(memories: Memories) -> None:
    (one,) = await memories.keep(ANA, [Keeping(content="tea", importance=0.5)])
    for asked in (Changing(content=" tea "), Changing(importance=0.5)):
        assert await memories.update(ANA, one.id, asked) == one
    assert (await memories.stats(ANA)).version == one.version


async def test_what_is_moved_away_is_not_found_until_it_is_back(memories: Memories) -> None:
    one, other = await memories.keep(ANA, [Keeping(content="tea"), Keeping(content="more tea")])
    for status in (Status.ARCHIVED, Status.QUARANTINED):
        assert await memories.move(ANA, [one.id, one.id], status) == 1
        assert await memories.move(ANA, [one.id], status) == 0
        assert await found(memories, "tea") == ["more tea"]
        assert sorted(await found(memories, "tea", statuses=(Status.LIVE, status))) == ["more tea", "tea"]
    assert await memories.move(ANA, [one.id, other.id], Status.LIVE) == 1
    assert len(await found(memories, "tea")) == 2
    with pytest.raises(NotFound):
        await memories.move(ANA, [one.id, "nobody"], Status.ARCHIVED)


async def test_a_superseded_memory_that_is_brought_back_is_found_again(memories: Memories) -> None:
    (old,) = await memories.keep(ANA, [Keeping(content="tea")])
    await memories.update(ANA, old.id, Changing(content="coffee"))
    await memories.move(ANA, [old.id], Status.LIVE)
    assert await found(memories, "tea") == ["tea"]


async def test_what_is_forgotten_is_nowhere_and_so_are_its_earlier_forms(world: World, memories: Memories) -> None:
    (first,) = await memories.keep(ANA, [Keeping(content="Ada lives in Rome", metadata={"who": "Ada"})])
    await memories.update(ANA, first.id, Changing(metadata={"who": "Ada L."}))
    second = await memories.update(ANA, first.id, Changing(content="Ada lives in Oslo"))
    (other,) = await memories.keep(ANA, [Keeping(content="rain")])
    assert await memories.forget(ANA, [second.id, "nobody"]) == 2  # with what it was before
    assert await memories.forget(ANA, [second.id]) == 0
    for each in (memories, node(world)):
        assert [memory.id for memory in (await each.list(ANA, statuses=list(Status))).items] == [other.id]
        with pytest.raises(NotFound):
            await each.history(ANA, first.id)
    session = memories.shelves.session_of(ANA)
    told = b"".join(event.entry.data for event in await world.events(session))
    assert b"Ada" not in told
    assert b"rain" in told
    assert (await world.verifying.verify(session)).ok


async def test_what_is_changed_while_it_is_forgotten_is_forgotten_too(world: World, memories: Memories) -> None:
    (one,) = await memories.keep(ANA, [Keeping(content="tea")])
    other, whole, meddled = node(world), world.erasure.redact, False

    async def redact(*words: Any, **more: Any) -> Any:
        nonlocal meddled
        if not meddled:
            meddled = True
            await other.update(ANA, one.id, Changing(metadata={"who": "Ada"}))
        return await whole(*words, **more)

    world.erasure.redact = redact  # type: ignore[method-assign]
    await memories.forget(ANA, [one.id])
    told = b"".join(event.entry.data for event in await world.events(memories.shelves.session_of(ANA)))
    assert meddled
    assert b"Ada" not in told


async def test_what_was_learnt_from_a_session_is_forgotten_in_every_space(world: World, memories: Memories) -> None:
    learnt, seen = Source(session="s"), Source(session="t")
    (one,) = await memories.keep(ANA, [Keeping(content="tea", source=learnt)])
    (other,) = await memories.keep(ANA, [Keeping(content="tea too", source=seen)])
    merged = Keeping(content="tea twice", source=Source(kind="consolidation"), supersedes=(one.id, other.id))
    await memories.keep(ANA, [merged])
    await memories.keep(BEN, [Keeping(content="rain", source=learnt), Keeping(content="pool")])
    (promoted,) = await memories.keep(LETHE, [Keeping(content="tea for all", source=Source(kind="promotion"))])
    proposed = MemoryProposed(id="p", memory=one.id, content="tea for all", by="x")
    reviewed = MemoryReviewed(id="p", accepted=True, memory=promoted.id)
    await memories.shelves.write(LETHE, lambda _: [proposed, reviewed])
    assert await memories.forgetting.forget_source("s") == {ANA: 2, BEN: 1, LETHE: 2}
    assert await memories.forgetting.forget_source("s") == {}
    for each in (memories, node(world)):
        assert [memory.content for memory in (await each.list(ANA)).items] == ["tea too"]
        assert [memory.content for memory in (await each.list(BEN)).items] == ["pool"]
        assert (await each.list(LETHE)).items == ()
        assert (await each.shelves.look(LETHE)).shelf.proposals == {}
    assert await found(memories, "tea") == ["tea too"]


async def test_being_found_counts_unless_it_shall_not(world: World, memories: Memories) -> None:
    (one,) = await memories.keep(ANA, [Keeping(content="tea")])
    await found(memories, "tea")
    await found(memories, "tea", count=False)
    await memories.close()
    assert (await node(world).get(ANA, one.id)).accesses == 1
    assert (await node(world).stats(ANA)).queries_today == 2


async def test_counts_are_written_down_after_a_while(world: World, memories: Memories) -> None:
    (one,) = await memories.keep(ANA, [Keeping(content="tea")])
    await found(memories, "tea")
    assert (await node(world).get(ANA, one.id)).accesses == 0
    world.ambient.advance(61)
    await found(memories, "tea")
    assert (await node(world).get(ANA, one.id)).accesses == 2


async def test_all_nodes_together_answer_no_more_often_than_the_plan_allows(world: World) -> None:
    nodes = [node(world) for _ in range(3)]
    await nodes[0].keep(ANA, [Keeping(content="tea")])
    await nodes[0].plan(ANA, "free")
    asked = [each.search(ANA, Seeking(query="tea")) for _ in range(20) for each in nodes]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [one for one in answers if isinstance(one, QuotaReached)]
    assert (len(answers) - len(refused), len(refused)) == (50, 10)
    assert refused[0].fields["retry_after"] == 12 * 3600
    world.ambient.advance(12 * 3600)
    assert await found(nodes[1], "tea") == ["tea"]
    assert (await nodes[2].stats(ANA)).queries_today == 1


async def test_a_full_disk_does_not_keep_a_limited_space_from_answering(world: World, memories: Memories) -> None:
    await memories.keep(ANA, [Keeping(content="tea")])
    await memories.plan(ANA, "free")

    async def full(*_: Any) -> Any:
        raise WorldError("the disk is full")

    memories.shelves._append = full  # type: ignore[method-assign]
    assert await found(memories, "tea") == ["tea"]


async def test_a_space_holds_as_many_as_its_plan_allows(world: World, memories: Memories) -> None:
    await memories.plan(ANA, "free")
    made = await memories.keep(ANA, [Keeping(content=f"tea {number}") for number in range(100)])
    with pytest.raises(QuotaReached):
        await memories.keep(ANA, [Keeping(content="rain")])
    await memories.keep(ANA, [Keeping(content="rain", supersedes=(made[0].id,))])
    await memories.update(ANA, made[1].id, Changing(content="pool"))
    assert (await memories.stats(ANA)).counts == {"live": 100, "superseded": 2}
    await memories.move(ANA, [made[2].id], Status.ARCHIVED)
    await memories.keep(ANA, [Keeping(content="rain again")])
    with pytest.raises(QuotaReached):
        await memories.move(ANA, [made[2].id], Status.LIVE)
    await memories.forget(ANA, [made[3].id])
    await memories.move(ANA, [made[2].id], Status.LIVE)
    with pytest.raises(Invalid, match="no plan"):
        await memories.plan(ANA, "golden")


async def test_pages_together_are_the_whole(memories: Memories) -> None:
    kinds = [MemoryType.FACT, MemoryType.EPISODE]
    asked = [
        Keeping(content=f"tea {number}", memory_type=kinds[number % 2], source=Source(session=f"s{number % 3}"))
        for number in range(23)
    ]
    made = await memories.keep(ANA, asked)
    seen, after = [], ""
    while True:
        page = await memories.list(ANA, limit=5, after=after)
        seen += page.items
        after = page.next
        if not after:
            break
    assert tuple(seen) == made
    assert (await memories.list(ANA, after=made[20].id)).items == made[21:]
    assert (await memories.list(ANA, types=["episode"], session="s1")).items == made[1::6]
    for wrong in ({"limit": 0}, {"limit": MAX_BATCH + 1}, {"after": "x"}, {"after": "1" * 30}):
        with pytest.raises(Invalid):
            await memories.list(ANA, **wrong)  # type: ignore[arg-type]


async def test_spaces_know_nothing_of_each_other(world: World, memories: Memories) -> None:
    (one,) = await memories.keep(ANA, [Keeping(content="tea")])
    for space in (BEN, Space("clade", "ana"), LETHE):
        assert await found(memories, "tea", space) == []
        with pytest.raises(NotFound):
            await memories.get(space, one.id)
        assert await memories.forget(space, [one.id]) == 0
    elsewhere = World(world.store, tenant="rival")
    assert await found(node(elsewhere), "tea") == []
    assert await node(elsewhere).shelves.spaces() == ()


async def test_stats_and_exports_tell_all(world: World, memories: Memories) -> None:
    asked = [Keeping(content="tea"), Keeping(content="rain", memory_type=MemoryType.EPISODE)]
    one, other = await memories.keep(ANA, asked)
    await memories.move(ANA, [other.id], Status.ARCHIVED)
    stats = await memories.stats(ANA)
    assert (stats.space, stats.plan, stats.counts) == ("vault/ana", "unlimited", {"live": 1, "archived": 1})
    assert (stats.types, stats.embedder, stats.queries_today) == ({"fact": 1}, "", 0)
    told = [each async for each in memories.exported(ANA)]
    assert [(each["id"], each["content"]) for each in told] == [(one.id, "tea"), (other.id, "rain")]
    assert told[1]["status"] == "archived"
    assert world.ambient.now() // DAY
