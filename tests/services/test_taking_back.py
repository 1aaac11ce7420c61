"""What consolidation did is taken back, and what it stood on forgotten, in whatever order: the rest is as it was."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import Invalid, QuotaReached, Refused
from perdure.core.memory.parts import Memory, Source, Space, Status, Trust, person, vault
from perdure.core.memory.requests import Changing, Keeping
from perdure.core.memory.sourcing import By
from perdure.core.session.memories import MemoryChanged, MemoryMoved, MemoryRun
from perdure.services.consolidating import BACK, Consolidating
from perdure.services.memories import Memories
from perdure.services.sourcing import Sourcing
from tests.services.consolidated import ANA, live, shelf, told
from tests.services.shelved import everything, remembering
from tests.services.world import World

OLD, NEW, TRAIN = "Vault APY: 2.3%", "The APY of the vault is 3.1%", "The night train leaves at ten"
BEN = vault("ben")


@pytest.fixture
def memories(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


async def kept(memories: Memories, content: str, space: Space = ANA, uri: str = "", **fields: Any) -> Memory:
    fields = {"source": Source(uri=uri)} | fields
    return (await memories.keep(space, [Keeping(content=content, **fields)]))[0]


def about(name: str) -> Any:
    """What is meant by a person's name."""
    return lambda one: person(name) in {person(each) for each in one.people}


async def log_of(world: World, memories: Memories) -> bytes:
    return b"".join(event.entry.data for event in await world.events(memories.shelves.session_of(ANA)))


# ── forgetting, and then undoing ──


@pytest.mark.parametrize("quarantined", [False, True])
async def test_a_run_is_undone_though_forgetting_freed_what_it_had_changed(
    world: World, memories: Memories, quarantined: bool
) -> None:
    sourcing, by = Sourcing(memories, world.erasure), By(uri="u")
    old = await kept(memories, OLD)
    await kept(memories, NEW, uri="u")
    await told(world, memories, TRAIN, TRAIN)
    before = await shelf(memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    assert run.found == {"newer": 1, "same": 1}
    if quarantined:
        await sourcing.quarantine(by)
    await sourcing.erase(by)
    assert await live(memories) == [OLD, TRAIN]
    assert await consolidating.undo(ANA, run.id) == 2
    assert await shelf(memories) == {id: one for id, one in before.items() if one.content != NEW}
    assert (await shelf(remembering(world.sessions, world.erasure)))[old.id] == before[old.id]


async def test_what_was_brought_back_by_hand_as_it_was_is_in_nobodys_way(world: World, memories: Memories) -> None:
    ids = await told(world, memories, OLD, NEW, TRAIN, TRAIN)
    before = await shelf(memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    await memories.move(ANA, [ids[0]], Status.LIVE)
    await consolidating.undo(ANA, run.id)
    assert await shelf(memories) == before


async def test_a_source_that_was_quarantined_and_released_leaves_everything_exactly_as_it_was(
    world: World, memories: Memories
) -> None:
    sourcing, by = Sourcing(memories, world.erasure), By(uri="u")
    old, early = await kept(memories, OLD), await kept(memories, "The fair is on", valid_to=1 << 61)
    await kept(memories, NEW, uri="u")
    await kept(memories, "The fair is over", uri="u", valid_from=1 << 60, supersedes=(early.id,))
    await told(world, memories, TRAIN, TRAIN)
    before = await shelf(memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    assert run.found == {"newer": 1, "same": 1}
    after = await shelf(memories)
    assert after[old.id].status is after[early.id].status is Status.SUPERSEDED
    for _ in range(2):
        world.ambient.advance(60)
        await sourcing.quarantine(by)
        assert (await shelf(memories))[old.id] == before[old.id]
        assert (await shelf(memories))[early.id].valid_to == 1 << 61
        world.ambient.advance(60)
        assert (await sourcing.release(by)).memories == 4
        assert await shelf(memories) == after
    world.ambient.advance(60)
    await consolidating.undo(ANA, run.id)
    assert await shelf(memories) == before
    assert await shelf(remembering(world.sessions, world.erasure)) == before


async def test_what_was_freed_and_then_changed_by_others_is_still_theirs(world: World, memories: Memories) -> None:
    old = await kept(memories, OLD)
    await kept(memories, NEW, uri="u")
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    await Sourcing(memories, world.erasure).erase(By(uri="u"))
    await kept(memories, "no more vaults", supersedes=(old.id,))
    with pytest.raises(Refused, match=old.id):
        await consolidating.undo(ANA, run.id)


# ── names ──


async def test_no_name_of_what_is_forgotten_stays_with_what_took_its_place(world: World, memories: Memories) -> None:
    old = await kept(memories, OLD, subjects=("Zebediah",))
    new = await kept(memories, NEW)
    await Consolidating(memories).run(ANA)
    assert (await memories.get(ANA, old.id)).superseded_by == new.id
    assert (await memories.get(ANA, new.id)).subjects == ()
    assert await memories.forget(ANA, [old.id]) == 1
    assert (await memories.get(ANA, new.id)).status is Status.LIVE
    assert b"Zebediah" not in await log_of(world, memories)


async def test_what_stands_for_what_is_said_of_somebody_goes_with_them(world: World, memories: Memories) -> None:
    await told(world, memories, TRAIN, subjects=("Zebediah",))
    await told(world, memories, TRAIN)
    await Consolidating(memories).run(ANA)
    assert await memories.forgetting.forget_all(about("zebediah"), "erased") == {ANA: 2}
    assert await shelf(memories) == {}


async def test_the_copy_of_a_stranger_neither_changes_nor_takes_along_what_is_trusted_more(
    world: World, memories: Memories
) -> None:
    mine = await kept(memories, TRAIN, source=Source(kind="user"), importance=0.4)
    await kept(memories, f"{TRAIN}.", source=Source(kind="import"), importance=1.0, subjects=("mallory",))
    await Consolidating(memories).run(ANA)
    after = await memories.get(ANA, mine.id)
    trusted: Trust = "high"
    assert (after.status, after.trust, after.subjects, after.importance) == (Status.LIVE, trusted, (), 0.4)
    assert await memories.forgetting.forget_all(about("mallory"), "erased") == {ANA: 1}
    assert await live(memories) == [TRAIN]
    assert b"mallory" not in await log_of(world, memories)


async def test_nothing_is_left_of_a_person_whose_name_a_run_or_an_update_was_about(
    world: World, memories: Memories
) -> None:
    await kept(memories, OLD, subjects=("Zebediah",))
    await kept(memories, NEW)
    moved = await kept(memories, "The meeting was moved", subjects=("Zebediah", "Bo"))
    added = await kept(memories, "The baker came")
    assert (await memories.update(ANA, added.id, Changing(subjects=("Zebediah",)))).id == added.id
    other = await memories.update(ANA, moved.id, Changing(subjects=("Bo",)))
    assert (other.content, other.supersedes, other.subjects) == (moved.content, (moved.id,), ("Bo",))
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    assert run.found == {"newer": 1}
    await consolidating.undo(ANA, run.id)
    assert await memories.forgetting.forget_all(about("Zebediah"), "erased") == {ANA: 3}
    assert await live(memories) == [NEW, "The meeting was moved"]
    assert b"Zebediah" not in await log_of(world, memories)


async def test_who_is_taken_off_changes_nothing_of_when_it_is_true(memories: Memories) -> None:
    old = await kept(memories, "The fair is on", valid_from=10, valid_to=1 << 61, subjects=("Zebediah", "Bo"))
    new = await memories.update(ANA, old.id, Changing(subjects=("Bo",)))
    assert (new.id != old.id, new.valid_from, new.valid_to) == (True, 10, 1 << 61)
    with pytest.raises(Invalid):
        await memories.update(ANA, new.id, Changing(subjects=(), valid_to=5))
    other = await memories.update(ANA, new.id, Changing(content="The fair is over"))
    assert (other.valid_from, other.valid_to) == (None, None)


async def test_names_that_older_versions_wrote_onto_others_go_from_the_log_and_nothing_else(
    world: World, memories: Memories
) -> None:
    ids = await told(world, memories, TRAIN, TRAIN, "The baker came")
    known = (await memories.shelves.look(ANA)).shelf.version
    before = await shelf(memories)
    payloads: list[Any] = []
    for was, subjects in (((), ("Zebediah",)), (("Zebediah",), ())):
        there = {"subjects": [*was], "supersedes": [ids[0]] if was else [], "accesses": 2 if was else 0}
        then = {"subjects": [*subjects], "supersedes": [] if was else [ids[0]], "accesses": 0 if was else 2}
        payloads += [MemoryChanged(id=ids[1], before=there, after=then, run="r")]
    for was, subjects in (((), ("Zebediah",)), (("Zebediah",), ("Bo",))):
        payloads += [MemoryChanged(id=ids[2], before={"subjects": [*was]}, after={"subjects": [*subjects]})]
    await memories.shelves.write(ANA, lambda shelf: payloads if shelf.version == known else [])
    assert await memories.forgetting.forget_all(about("zebediah"), "erased") == {}
    assert b"Zebediah" not in await log_of(world, memories)
    for each in (memories, remembering(world.sessions, world.erasure)):
        after = await shelf(each)
        assert after.pop(ids[2]).subjects == ("Bo",)
        assert after == {id: before[id] for id in ids[:2]}
    versions = (await memories.shelves.look(ANA)).shelf.version
    assert await memories.forgetting.forget_all(about("zebediah"), "erased") == {}
    assert (await memories.shelves.look(ANA)).shelf.version == versions
    assert (await world.verifying.verify(memories.shelves.session_of(ANA))).ok


async def test_a_log_in_which_names_were_carried_is_undone_and_erased(world: World, memories: Memories) -> None:
    old, new = await told(world, memories, OLD, NEW)
    before = await shelf(memories)
    carried = MemoryChanged(
        id=new,
        before={"subjects": [], "supersedes": []},
        after={"subjects": ["Zebediah"], "supersedes": [old]},
        run="r",
    )
    moved = MemoryMoved(id=old, was="live", status="superseded", by=new, run="r")
    marks = [MemoryRun(id="r", phase="began"), carried, moved, MemoryRun(id="r", phase="ended")]
    await memories.shelves.write(ANA, lambda _: marks)
    assert (await memories.get(ANA, new)).subjects == ("Zebediah",)
    await Consolidating(memories).undo(ANA, "r")
    assert await shelf(memories) == before
    await memories.forgetting.forget_all(about("Zebediah"), "erased")
    assert b"Zebediah" not in await log_of(world, memories)
    assert await shelf(memories) == before


@pytest.mark.parametrize("erased", ["person", "source"])
async def test_a_run_that_steps_while_somebody_is_erased_keeps_nothing_of_them_nor_loses_what_is_others(
    world: World, memories: Memories, erased: str
) -> None:
    older = await kept(memories, OLD, uri="v")
    await kept(memories, NEW, uri="u", subjects=("Zebediah",))
    await told(world, memories, TRAIN, subjects=("Zebediah",))
    await told(world, memories, TRAIN)
    write, redact, steps = memories.shelves.write, world.erasure.redact, 0

    async def ran() -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            await Consolidating(remembering(world.sessions, world.erasure)).run(ANA)

    async def redacting(*words: Any, **more: Any) -> Any:
        await ran()
        return await redact(*words, **more)

    async def writing(*words: Any, **more: Any) -> Any:
        if erased == "source":
            await ran()
        return await write(*words, **more)

    world.erasure.redact = redacting  # type: ignore[method-assign]
    memories.shelves.write = writing  # type: ignore[method-assign]
    meant = about("Zebediah") if erased == "person" else By(uri="u").meant()
    await memories.forgetting.forget_all(meant, "erased")
    assert steps
    found = await shelf(remembering(world.sessions, world.erasure))
    assert (found[older.id].status, found[older.id].superseded_by) == (Status.LIVE, "")
    assert NEW not in [one.content for one in found.values()]
    assert TRAIN in [one.content for one in found.values() if one.status is Status.LIVE]
    if erased == "person":
        assert b"Zebediah" not in await log_of(world, memories)


async def test_what_somebody_keeps_of_a_person_while_they_are_erased_is_erased_too(
    world: World, memories: Memories
) -> None:
    await kept(memories, "one", subjects=("Zebediah",))
    redact, late = world.erasure.redact, False

    async def redacting(*words: Any, **more: Any) -> Any:
        nonlocal late
        if not late:
            late = True
            await kept(remembering(world.sessions, world.erasure), "other", subjects=("Zebediah",))
        return await redact(*words, **more)

    world.erasure.redact = redacting  # type: ignore[method-assign]
    assert await memories.forgetting.forget_all(about("Zebediah"), "erased") == {ANA: 2}
    assert await shelf(memories) == {}


# ── many ──


async def test_one_that_stands_for_thousands_is_undone_exactly_and_exported(world: World, memories: Memories) -> None:
    many = 3_000
    for start in range(0, many, 1_000):
        await memories.keep(ANA, [Keeping(content=TRAIN, subjects=(f"p{start}",))] * 1_000)
    before = await shelf(memories)
    consolidating = Consolidating(memories, batch=500)
    run = await consolidating.run(ANA)
    stays = [one for one in (await shelf(memories)).values() if one.status is Status.LIVE]
    assert len(stays) == 3
    assert sorted(len(one.supersedes) for one in stays) == [999, 999, 999]
    lines = {line["id"]: line async for line in memories.exported(ANA)}
    assert [*lines[stays[0].id]["supersedes"]] == [*stays[0].supersedes]
    assert len(lines) == many
    assert many > BACK
    assert await consolidating.undo(ANA, run.id) == many
    assert await shelf(memories) == before


# ── plans ──


async def paired(memories: Memories, pairs: int) -> str:
    """A run that made one of each of these pairs."""
    await memories.keep(ANA, [Keeping(content=f"Guest {number % pairs} likes tea") for number in range(2 * pairs)])
    return (await Consolidating(memories).run(ANA)).id


async def test_an_undo_that_brings_back_more_than_the_plan_has_room_for_changes_nothing(
    world: World, memories: Memories
) -> None:
    run = await paired(memories, 50)
    await memories.plan(ANA, "free")
    others = await memories.keep(ANA, [Keeping(content=f"Fact {number}") for number in range(50)])
    before = everything((await memories.shelves.look(ANA)).shelf)
    consolidating = Consolidating(memories)
    with pytest.raises(
        QuotaReached, match=r"50 memories would come back, and vault/ana hold 150: plan free .* 100; no"
    ):
        await consolidating.undo(ANA, run)
    assert everything((await memories.shelves.look(ANA)).shelf) == before
    await memories.move(ANA, [one.id for one in others], Status.ARCHIVED)
    assert await consolidating.undo(ANA, run) == 100
    assert (await memories.shelves.look(ANA)).shelf.count() == 100


async def test_the_plan_of_spaces_that_are_on_none_holds_for_what_comes_back(world: World) -> None:
    memories = remembering(world.sessions, world.erasure)
    run = await paired(memories, 60)
    limited = remembering(world.sessions, world.erasure, plan="free")
    with pytest.raises(QuotaReached):
        await Consolidating(limited).undo(ANA, run)


async def test_an_undo_in_pieces_is_refused_before_the_first_and_comes_to_its_end_once_begun(
    world: World, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.services.consolidating.BACK", 10)
    run = await paired(memories, 60)
    await memories.plan(ANA, "free")
    consolidating = Consolidating(memories)
    with pytest.raises(QuotaReached):
        await consolidating.undo(ANA, run)
    assert (await consolidating.runs(ANA))[0].phase == "ended"
    archived = [one.id for one in (await shelf(memories)).values() if one.status is Status.LIVE]
    await memories.plan(ANA, "unlimited")
    write = memories.shelves.write

    async def writing(*words: Any, **more: Any) -> Any:
        done = await write(*words, **more)
        if (await memories.shelves.look(ANA)).shelf.runs[run].phase == "undoing":
            memories.shelves.write = write  # type: ignore[method-assign]
            await memories.plan(ANA, "free")
        return done

    memories.shelves.write = writing  # type: ignore[method-assign]
    assert await consolidating.undo(ANA, run) == 120
    assert (await memories.shelves.look(ANA)).shelf.count() == 2 * len(archived)


async def test_a_release_that_brings_back_more_than_a_plan_has_room_for_changes_nothing_anywhere(
    world: World, memories: Memories
) -> None:
    sourcing, by = Sourcing(memories, world.erasure), By(uri="u")
    await kept(memories, "Walk", BEN, uri="u")
    world.ambient.advance(1)
    walks = [Keeping(content=f"Walk {number}", source=Source(uri="u")) for number in range(100)]
    await memories.keep(ANA, walks)
    await sourcing.quarantine(by)
    await memories.plan(ANA, "free")
    (other,) = await memories.keep(ANA, [Keeping(content="Other")])
    with pytest.raises(QuotaReached, match="vault/ana hold 101: plan free"):
        await sourcing.release(by)
    assert await memories.shelves.spaces() == (BEN, ANA)
    assert [(await memories.shelves.look(space)).shelf.count() for space in (BEN, ANA)] == [0, 1]
    await memories.move(ANA, [other.id], Status.ARCHIVED)
    assert (await sourcing.release(by)).spaces == {"vault/ben": 1, "vault/ana": 100}


async def test_a_release_that_puts_away_as_many_as_it_brings_back_is_never_too_many(
    world: World, memories: Memories
) -> None:
    sourcing, by = Sourcing(memories, world.erasure), By(uri="u")
    for number in range(100):
        old = await kept(memories, f"Walk {number}")
        await kept(memories, f"Walk {number} is long", uri="u", supersedes=(old.id,))
    await memories.plan(ANA, "free")
    await sourcing.quarantine(by)
    done = await asyncio.gather(sourcing.release(by), sourcing.release(by))
    assert sum(one.memories for one in done) == 200
