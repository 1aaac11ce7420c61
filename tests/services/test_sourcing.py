"""What came from one source, in all spaces: out of use, back again, or gone."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import Invalid
from perdure.core.memory.parts import LETHE, Memory, Source, Space, Status, vault
from perdure.core.memory.requests import Changing, Keeping, Seeking
from perdure.core.memory.sourcing import By
from perdure.services.acting import acting
from perdure.services.memories import Memories
from perdure.services.promoting import Promoting
from perdure.services.sourcing import Sourcing
from tests.services.shelved import everything, remembering
from tests.services.world import World

ANA, BEN, DESK = vault("ana"), vault("ben"), Space("clade", "desk")
BAD = By(session="bad")


@pytest.fixture
def memories(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


@pytest.fixture
def sourcing(memories: Memories, world: World) -> Sourcing:
    return Sourcing(memories, world.erasure)


async def kept(memories: Memories, content: str, space: Space = ANA, session: str = "bad", **more: Any) -> Memory:
    source = more.pop("source", Source(session=session))
    (made,) = await memories.keep(space, [Keeping(content=content, source=source, **more)])
    return made


async def found(memories: Memories, query: str, space: Space = ANA) -> list[str]:
    return sorted(one.memory.content for one in await memories.search(space, Seeking(query=query)))


async def test_a_session_is_quarantined_in_every_space_and_nothing_else_is(
    memories: Memories, sourcing: Sourcing
) -> None:
    for space in (ANA, BEN, DESK, LETHE):
        await kept(memories, "tea is poison", space)
        await kept(memories, "tea is fine", space, "good")
    done = await sourcing.quarantine(BAD, "it was attacked")
    assert done.spaces == {"vault/ana": 1, "vault/ben": 1, "clade/desk": 1, "lethe": 1}
    assert (done.action, done.source, done.value, done.memories, done.restored) == (
        "quarantine",
        "session",
        "bad",
        4,
        0,
    )
    for space in (ANA, BEN, DESK, LETHE):
        assert await found(memories, "tea", space) == ["tea is fine"]
    assert (await sourcing.quarantine(BAD)).spaces == {}


async def test_a_report_touches_nothing(memories: Memories, sourcing: Sourcing) -> None:
    await kept(memories, "tea is poison")
    assert (await sourcing.report(BAD)).spaces == {"vault/ana": 1}
    assert await found(memories, "tea") == ["tea is poison"]


async def test_by_writer_and_by_address(memories: Memories, sourcing: Sourcing) -> None:
    with acting("eve"):
        await kept(memories, "tea by eve", session="")
    await kept(memories, "tea by page", source=Source(kind="document", uri="https://evil.example"))
    await kept(memories, "tea about eve", session="", subjects=("eve",))
    assert (await sourcing.quarantine(By(writer="eve"))).spaces == {"vault/ana": 1}
    assert await found(memories, "tea") == ["tea about eve", "tea by page"]
    assert (await sourcing.quarantine(By(uri="https://evil.example"))).spaces == {"vault/ana": 1}
    assert await found(memories, "tea") == ["tea about eve"]


async def test_a_release_brings_back_what_was_quarantined_by_that_source_as_it_was(
    memories: Memories, sourcing: Sourcing
) -> None:
    live = await kept(memories, "tea is poison")
    archived = await kept(memories, "tea is old")
    await memories.move(ANA, [archived.id], Status.ARCHIVED)
    apart = await kept(memories, "tea is odd", session="good")
    await memories.move(ANA, [apart.id], Status.QUARANTINED)
    before = everything((await memories.shelves.look(ANA)).shelf)["memories"]
    await sourcing.quarantine(BAD)
    done = await sourcing.release(BAD)
    assert (done.action, done.spaces) == ("release", {"vault/ana": 2})
    assert everything((await memories.shelves.look(ANA)).shelf)["memories"] == before
    assert (await memories.get(ANA, live.id)).status is Status.LIVE
    assert (await sourcing.release(BAD)).spaces == {}


async def test_what_others_moved_since_stays_as_it_is(memories: Memories, sourcing: Sourcing) -> None:
    one, other = await kept(memories, "tea is poison"), await kept(memories, "tea is bad")
    await sourcing.quarantine(BAD)
    await memories.move(ANA, [one.id], Status.ARCHIVED)
    assert (await sourcing.release(BAD)).spaces == {"vault/ana": 1}
    assert (await memories.get(ANA, one.id)).status is Status.ARCHIVED
    assert (await memories.get(ANA, other.id)).status is Status.LIVE


async def test_quarantine_rolls_back_what_the_source_had_put_in_the_place_of_others(
    memories: Memories, sourcing: Sourcing
) -> None:
    good = await kept(memories, "tea is fine", session="good")
    await kept(memories, "tea is poison", supersedes=(good.id,))
    assert await found(memories, "tea") == ["tea is poison"]
    done = await sourcing.quarantine(BAD)
    assert (done.memories, done.restored) == (1, 1)
    assert await found(memories, "tea") == ["tea is fine"]
    await sourcing.release(BAD)
    assert await found(memories, "tea") == ["tea is poison"]
    again = await memories.get(ANA, good.id)
    assert again.status is Status.SUPERSEDED
    assert await sourcing.quarantine(BAD) == done
    assert await found(memories, "tea") == ["tea is fine"]


async def test_what_was_made_of_it_goes_along(memories: Memories, sourcing: Sourcing) -> None:
    first = await kept(memories, "tea is poison")
    merged = Keeping(content="tea is quite poisonous", source=Source(kind="consolidation"), supersedes=(first.id,))
    await memories.keep(ANA, [merged])
    assert (await sourcing.quarantine(BAD)).spaces == {"vault/ana": 2}
    assert await found(memories, "tea") == []


async def test_what_was_promoted_of_it_goes_along(memories: Memories, sourcing: Sourcing) -> None:
    promoting = Promoting(memories)
    memory = await kept(memories, "tea pools are slow")
    proposal = await promoting.propose(ANA, memory.id, to=LETHE, ttl=1_000_000)
    await promoting.review(LETHE, proposal.id, True)
    assert await found(memories, "tea", LETHE) == ["tea pools are slow"]
    done = await sourcing.quarantine(BAD)
    assert done.spaces == {"vault/ana": 1, "lethe": 1}
    assert await found(memories, "tea", LETHE) == []
    await sourcing.release(BAD)
    assert await found(memories, "tea", LETHE) == ["tea pools are slow"]


async def test_erasing_by_source_takes_the_content_out_of_every_log(
    world: World, memories: Memories, sourcing: Sourcing
) -> None:
    secret = "tea is sarsaparilla"
    for space in (ANA, DESK, LETHE):
        await kept(memories, secret, space)
        await kept(memories, "tea is fine", space, "good")
    memory = (await memories.list(ANA)).items[0]
    await memories.update(ANA, memory.id, Changing(content="tea is sarsaparilla, really"))
    await Promoting(memories).propose(ANA, (await memories.list(ANA, session="bad")).items[0].id, to=BEN, ttl=10)
    await sourcing.quarantine(BAD)
    done = await sourcing.erase(BAD)
    assert set(done.spaces) == {"vault/ana", "vault/ben", "clade/desk", "lethe"}
    for space in (ANA, BEN, DESK, LETHE):
        lines = b"".join(await world.lines(memories.shelves.session_of(space)))
        assert b"sarsaparilla" not in lines
    assert await found(memories, "tea") == ["tea is fine"]
    assert (await sourcing.report(BAD)).spaces == {}
    assert (await sourcing.release(BAD)).spaces == {}


async def test_other_tenants_are_left_alone(world: World, memories: Memories, sourcing: Sourcing) -> None:
    theirs = World(world.store, seed=b"theirs", tenant="theirs")
    others = remembering(theirs.sessions, theirs.erasure)
    await kept(memories, "tea is poison")
    await kept(others, "tea is poison")
    await sourcing.erase(BAD)
    assert await found(memories, "tea") == []
    assert await found(others, "tea") == ["tea is poison"]


async def test_several_nodes_at_once_quarantine_each_memory_once(world: World, memories: Memories) -> None:
    for number in range(5):
        await kept(memories, f"tea is poison {number}")
    nodes = [Sourcing(remembering(world.sessions, world.erasure), world.erasure) for _ in range(3)]
    done = await asyncio.gather(*(node.quarantine(BAD) for node in nodes))
    assert sum(one.memories for one in done) == 5


async def test_details_by_another_hand_go_with_whoever_wrote_them(memories: Memories, sourcing: Sourcing) -> None:
    before = await kept(memories, "tea is fine", metadata={"who": "Ana"})
    with acting("eve"):
        for again in (Changing(metadata={"who": "Ana"}), Changing(importance=0.9)):
            assert (await memories.update(ANA, before.id, again)).id == before.id
        after = await memories.update(ANA, before.id, Changing(metadata={"who": "Eve"}, subjects=("Eve",)))
    assert (after.content, after.writer, after.supersedes) == ("tea is fine", "eve", (before.id,))
    assert (await sourcing.quarantine(By(writer="eve"))).spaces == {"vault/ana": 1}
    assert (await memories.get(ANA, before.id)).status is Status.LIVE
    await sourcing.release(By(writer="eve"))
    assert (await sourcing.erase(By(writer="eve"))).spaces == {"vault/ana": 1}
    left = (await memories.list(ANA, statuses=list(Status))).items
    assert [(one.id, one.status, one.metadata) for one in left] == [(before.id, Status.LIVE, {"who": "Ana"})]


@pytest.mark.parametrize("by", [By(), By(session="a", writer="b"), By(session="a", uri="b")])
async def test_exactly_one_source_is_named(sourcing: Sourcing, by: By) -> None:
    for call in (sourcing.quarantine, sourcing.release, sourcing.erase, sourcing.report):
        with pytest.raises(Invalid):
            await call(by)
