"""Consolidation over a store: resumed, looked at, undone, on schedule, alone and together with others."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from perdure.compose.weights import weights
from perdure.core.errors import Damaged, NotFound, QuotaReached, Refused
from perdure.core.memory.parts import Status, vault
from perdure.core.memory.requests import Changing, Keeping
from perdure.core.memory.retelling import Did
from perdure.core.session.memories import MemoriesUsed, MemoryRun
from perdure.services.consolidating import Consolidating, Progress, Swept
from perdure.services.weighing import Weighing
from perdure.waiting import drive
from tests.services.consolidated import ANA, TOLD, Stop, live, memories_of, shelf, told
from tests.services.shelved import Hashing, remembering
from tests.services.world import World

DAY = 86_400


async def test_a_run_does_its_steps_and_says_so(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    consolidating = Consolidating(memories, batch=1)
    progress: list[Progress] = []
    run = await consolidating.run(ANA, told=progress.append)
    assert await live(memories) == [TOLD[3], TOLD[4], TOLD[5], TOLD[6]]
    assert (run.phase, run.trigger, run.found) == ("ended", "demand", {"newer": 2, "same": 1})
    assert [(one.phase, one.done, one.total) for one in progress] == [("newer", 1, 2), ("newer", 2, 2), ("same", 1, 1)]
    assert await consolidating.runs(ANA) == (run,)
    did = await consolidating.steps(ANA, run.id)
    assert [one.did for one in did].count("superseded") == 3
    assert all(one.reason for one in did)
    again = await consolidating.run(ANA)
    assert (again.phase, again.found) == ("ended", {})


async def test_each_batch_is_one_append_with_how_far_it_got(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    run = await Consolidating(memories, batch=2).run(ANA)
    session = memories.shelves.session_of(ANA)
    marks = [event.data for event in await world.events(session) if isinstance(event.data, MemoryRun)]
    assert [(mark.phase, mark.place) for mark in marks] == [
        ("began", ""), ("stepped", "newer:2"), ("stepped", "same:3"), ("ended", ""),
    ]  # fmt: skip
    assert {mark.id for mark in marks} == {run.id}


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_run_that_stopped_is_gone_on_with_by_whoever_comes(world: World, after: int) -> None:
    memories = memories_of(world)
    await told(world, memories)
    calls = 0

    def crash(_: Progress) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Stop

    with pytest.raises(Stop):
        await Consolidating(memories, batch=1).run(ANA, told=crash)
    elsewhere = memories_of(world)
    ended = await Consolidating(elsewhere, batch=1).run(ANA)
    runs = await Consolidating(elsewhere).runs(ANA)
    assert (len(runs), ended.phase, ended.found) == (1, "ended", {"newer": 2, "same": 1})
    assert await live(elsewhere) == [TOLD[3], TOLD[4], TOLD[5], TOLD[6]]


LEARNT = (
    "Mira Sato drinks sparkling water every day.",
    "Mira Sato gave up sparkling water.",
    "The customer behind Project Velvet Harbor is Oakmont Bank.",
    "Project Velvet Harbor is being done for Oakmont Bank.",
    "Ida Holm is employed as a lawyer.",
    "Ida Holm moved to Lima.",
    "Ida Holm lives in Rome.",
    "Ida Holm has quit her job as a lawyer.",
    "Ida Holm resides in Lima now.",
    "Omar Diaz plays chess on Mondays.",
    "Omar Diaz has visited Lisbon.",
)


@pytest.mark.parametrize("after", range(4))
async def test_a_run_that_was_killed_comes_to_the_same_as_one_that_was_not(world: World, after: int) -> None:
    memories = memories_of(world)
    await told(world, memories, *LEARNT)
    wanted = {step.id: step.by for step in await Consolidating(memories, weighing=Weighing(weights)).preview(ANA)}
    assert len(wanted) > 3
    calls = 0

    def crash(_: Progress) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Stop

    with pytest.raises(Stop):
        await Consolidating(memories, weighing=Weighing(weights), batch=1).run(ANA, told=crash)
    elsewhere = memories_of(world)
    await Consolidating(elsewhere, weighing=Weighing(weights), batch=1).run(ANA)
    found = {memory.id: memory.superseded_by for memory in (await shelf(elsewhere)).values() if memory.superseded_by}
    assert found == wanted


async def test_where_an_embedder_fails_words_alone_decide_and_steps_say_so(world: World) -> None:
    def broken(embedder: Any, texts: Any) -> Any:
        raise RuntimeError("no")

    memories = remembering(world.sessions, world.erasure, embedder=Hashing())
    await told(world, memories, *LEARNT)
    consolidating = Consolidating(memories, weighing=Weighing(weights, broken))
    alone = Consolidating(memories, weighing=Weighing(weights))
    found, wanted = await consolidating.preview(ANA), await alone.preview(ANA)
    assert [(step.id, step.by) for step in found] == [(step.id, step.by) for step in wanted] != []
    assert any(step.reason.endswith("sure, by words alone: the embedder failed)") for step in found)
    assert not any("embedder" in step.reason for step in wanted)


async def test_where_a_reader_fails_what_is_counted_decides_and_steps_say_so(world: World) -> None:
    def broken(pairs: Any) -> Any:
        raise RuntimeError("no")

    memories = memories_of(world)
    await told(world, memories, *LEARNT)
    wanted = await Consolidating(memories, weighing=Weighing(weights)).preview(ANA)
    for reader in (lambda: broken, lambda: broken(())):  # it fails, or cannot even be had
        found = await Consolidating(memories, weighing=Weighing(weights, reader=reader)).preview(ANA)
        assert [(step.id, step.by) for step in found] == [(step.id, step.by) for step in wanted] != []
        assert any(step.reason.endswith("sure, not read: the reader failed)") for step in found)


@pytest.mark.parametrize("wrong", [[(float("nan"), 0.0)], [(float("inf"), 0.0)], [], [None], None])
async def test_what_was_not_read_because_the_reader_failed_is_read_by_the_next_run(world: World, wrong: Any) -> None:
    heard = [wrong, [(12.0, -12.0)]]
    memories = memories_of(world)
    await told(world, memories, "Ana likes tea", "Ana likes coffee")
    consolidating = Consolidating(memories, weighing=Weighing(weights, reader=lambda: lambda pairs: heard.pop(0)))
    failed = await consolidating.run(ANA)
    assert (failed.found, failed.place) == ({}, "not read: the reader failed")
    assert (await consolidating.run(ANA)).found == {"same": 1}


async def test_what_was_looked_at_once_is_not_looked_at_again(world: World) -> None:
    read = list[tuple[str, str]]()
    memories = memories_of(world)
    await told(world, memories, "The parser has a bug in version 1.2", "The parser has a bug in version 1.3")
    against = Weighing(weights, reader=lambda: lambda pairs: read.extend(pairs) or [(-9.0, -9.0)] * len(pairs))
    for _ in range(3):
        world.ambient.advance(60)
        assert (await Consolidating(memories, weighing=against).run(ANA)).found == {}
    assert len(read) == 1


async def test_a_dry_run_writes_nothing_and_tells_what_a_run_would_find(world: World) -> None:
    memories = memories_of(world)
    ids = await told(world, memories)
    consolidating = Consolidating(memories)
    before = (await memories.shelves.look(ANA)).shelf.version
    dry = await consolidating.run(ANA, dry=True)
    steps = await consolidating.preview(ANA)
    assert (await memories.shelves.look(ANA)).shelf.version == before
    assert [(step.id, step.by) for step in steps] == [(ids[0], ids[4]), (ids[1], ids[5]), (ids[2], ids[6])]
    assert [(did.id, did.by, did.content, did.by_content) for did in dry.would] == [
        (ids[0], ids[4], TOLD[0], TOLD[4]), (ids[1], ids[5], TOLD[1], TOLD[5]), (ids[2], ids[6], TOLD[2], TOLD[6])
    ]  # fmt: skip
    run = await consolidating.run(ANA)
    assert (dry.phase, dry.found) == ("dry", run.found)
    decided = [did for did in await consolidating.steps(ANA, run.id) if did.decides]
    assert _bare(decided) == _bare(dry.would), "what is decided is what was told"


async def test_what_was_forgotten_since_is_told_as_that(world: World) -> None:
    memories = memories_of(world)
    ids = await told(world, memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    await memories.forget(ANA, [ids[0]])
    first, *others = (did for did in await consolidating.steps(ANA, run.id) if did.decides)
    assert (first.id, first.did, first.content, first.by, first.reason) == (ids[0], "forgotten", None, "", "")
    assert [(did.content, did.by_content) for did in others] == [(TOLD[1], TOLD[5]), (TOLD[2], TOLD[6])]
    await memories.forgetting.redact(ANA, [ids[5]], "its source was erased")
    second = [did for did in await consolidating.steps(ANA, run.id) if did.id == ids[1] and did.decides]
    assert [(did.did, did.content, did.by_content) for did in second] == [("superseded", TOLD[1], None)]


async def test_another_importance_and_what_is_put_away_are_decisions_as_well(world: World) -> None:
    memories = memories_of(world)
    (used,) = await told(world, memories, "Ana likes tea", importance=0.2)
    await told(world, memories, "The fair is in town", valid_to=1, valid_from=0)
    session = memories.shelves.session_of(ANA)
    await memories.shelves.write(ANA, lambda _: [MemoriesUsed(counts={used: (0, 8, 0)})])
    consolidating = Consolidating(memories)
    dry = await consolidating.run(ANA, dry=True)
    run = await consolidating.run(ANA)
    ranked, pruned = (did for did in await consolidating.steps(ANA, run.id) if did.decides)
    assert (ranked.did, ranked.before, ranked.after) == ("changed", {"importance": 0.2}, {"importance": 0.4})
    assert (pruned.did, pruned.by, pruned.content) == ("archived", "", "The fair is in town")
    assert _bare(dry.would) == _bare([ranked, pruned])
    await memories.forget(ANA, [used])
    assert [did.did for did in await consolidating.steps(ANA, run.id)] == ["forgotten", "archived"]
    await consolidating.undo(ANA, run.id)
    assert [did.did for did in await consolidating.steps(ANA, run.id)] == ["forgotten", "archived", "live"]
    assert session == memories.shelves.session_of(ANA)


def _bare(steps: Sequence[Did]) -> list[Did]:
    """Without where and when they were written."""
    return [msgspec.structs.replace(did, version=0, at=0) for did in steps]


async def test_undoing_restores_every_memory_exactly(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    await told(world, memories, "Offer is over", valid_to=1, valid_from=0)
    ids = await told(world, memories, "Ana likes tea", "Ana likes tea", subjects=("ana",))
    known = await memories.shelves.look(ANA)
    for id in ids:
        known.uses.note(id, found=2, cited=4)
    await memories.close()
    before = await shelf(memories)
    consolidating = Consolidating(memories, batch=2)
    run = await consolidating.run(ANA)
    assert run.found == {"newer": 2, "same": 2, "rank": 1, "prune": 1}
    touched = {id for id, memory in (await shelf(memories)).items() if memory != before[id]}
    world.ambient.advance(60)
    assert await consolidating.undo(ANA, run.id) == len(touched) == 9
    assert await shelf(memories) == before
    assert await shelf(memories_of(world)) == before
    assert (await consolidating.runs(ANA))[0].phase == "undone"
    assert await consolidating.undo(ANA, run.id) == 0


async def test_what_was_undone_is_not_done_again_by_the_next_run(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    consolidating = Consolidating(memories)
    before = await shelf(memories)
    await consolidating.undo(ANA, (await consolidating.run(ANA)).id)
    assert (await consolidating.run(ANA)).found == {}
    assert await shelf(memories) == before


@pytest.mark.parametrize("counts", [(0.3, 0.7), (0.3, 0.5, 0.7)])
async def test_what_was_merged_and_undone_is_not_merged_the_other_way_round(
    world: World, counts: tuple[float, ...]
) -> None:
    memories = memories_of(world)
    ids = [id for count in counts for id in await told(world, memories, "Ana likes tea", importance=count)]
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    assert {step.by for step in await consolidating.steps(ANA, run.id) if step.did == "superseded"} == {ids[-1]}
    await consolidating.undo(ANA, run.id)
    await memories.update(ANA, ids[-1], Changing(importance=0.1))
    before = await shelf(memories)
    assert await consolidating.preview(ANA) == ()
    assert (await consolidating.run(ANA)).found == {}
    assert await shelf(memories) == before


async def test_what_was_out_of_date_and_undone_may_still_be_merged_with_what_says_the_same(world: World) -> None:
    memories = memories_of(world)
    one, other, later = await told(world, memories, "Ana lives in Lisbon", "Ana lives in Lisbon", "Ana lives in Porto")
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    assert run.found == {"newer": 2}
    await consolidating.undo(ANA, run.id)
    assert [{step.id, step.by} for step in await consolidating.preview(ANA)] == [{one, other}]
    assert (await memories.get(ANA, later)).status is Status.LIVE


async def test_uses_since_the_run_stay_counted_when_it_is_undone(world: World) -> None:
    memories = memories_of(world)
    ids = await told(world, memories, "Ana likes tea", "Ana likes tea")
    known = await memories.shelves.look(ANA)
    known.uses.note(ids[0], found=3)
    await memories.close()
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    stays = next(memory.id for memory in (await shelf(memories)).values() if memory.status is Status.LIVE)
    assert (await shelf(memories))[stays].accesses == 3
    (await memories.shelves.look(ANA)).uses.note(stays, found=5)
    await memories.close()
    await consolidating.undo(ANA, run.id)
    found = {id: memory.accesses for id, memory in (await shelf(memories)).items()}
    assert found == {ids[0]: 3 + 5 * (stays == ids[0]), ids[1]: 5 * (stays == ids[1])}


async def test_undoing_refuses_what_others_changed_since_and_names_it(world: World) -> None:
    memories = memories_of(world)
    ids = await told(world, memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    await memories.move(ANA, [ids[0]], Status.ARCHIVED)
    after = await shelf(memories)
    with pytest.raises(Refused, match=ids[0]) as caught:
        await consolidating.undo(ANA, run.id)
    assert caught.value.fields["memories"] == [ids[0]]
    assert await shelf(memories) == after


async def test_what_nobody_else_touched_in_the_same_place_does_not_keep_a_run_from_being_undone(world: World) -> None:
    memories = memories_of(world)
    ids = await told(world, memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    await memories.update(ANA, ids[4], Changing(metadata={"seen": 1}))
    await consolidating.undo(ANA, run.id)
    found = await shelf(memories)
    assert (found[ids[0]].status, found[ids[4]].metadata) == (Status.LIVE, {"seen": 1})


async def test_undoing_a_run_that_is_not_over_ends_it(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    before = await shelf(memories)
    consolidating = Consolidating(memories, batch=1)

    def crash(_: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        await consolidating.run(ANA, told=crash)
    (run,) = await consolidating.runs(ANA)
    assert await consolidating.undo(ANA, run.id) == 2
    assert await shelf(memories) == before


async def test_a_run_that_is_undone_while_it_goes_on_stops(world: World) -> None:
    memories, elsewhere = memories_of(world), memories_of(world)
    await told(world, memories)
    before = await shelf(memories)
    tasks: list[asyncio.Task[int]] = []

    def undo(progress: Progress) -> None:
        if not tasks:
            tasks.append(asyncio.create_task(Consolidating(elsewhere).undo(ANA, progress.run)))

    consolidating = Consolidating(memories, batch=1)
    run = await consolidating.run(ANA, told=undo)
    await tasks[0]
    while run.phase != "undone":  # it had ended before; then undoing came after
        (run,) = await consolidating.runs(ANA)
    assert await shelf(memories) == before


async def test_a_run_or_space_that_is_not_there_is_not_found(world: World) -> None:
    consolidating = Consolidating(memories_of(world))
    with pytest.raises(NotFound, match="nothing is remembered"):
        await consolidating.run(ANA)
    with pytest.raises(NotFound, match="no run"):
        await consolidating.undo(ANA, "x")


# ── others meanwhile ──


async def test_two_runs_at_once_take_each_step_once(world: World) -> None:
    first, second = memories_of(world), memories_of(world)
    await told(world, first)
    both = await asyncio.gather(*(Consolidating(one, batch=1, fresh=1 << 60).run(ANA) for one in (first, second)))
    runs = await Consolidating(first).runs(ANA)
    assert {run.phase for run in (*both, *runs)} == {"ended"}
    assert sum(sum(run.found.values()) for run in runs) == 3
    did = [one for run in runs for one in await Consolidating(first).steps(ANA, run.id) if one.did == "superseded"]
    assert len(did) == len({one.id for one in did}) == 3
    assert await live(first) == [TOLD[3], TOLD[4], TOLD[5], TOLD[6]]


def meanwhile(work: Callable[[], Any]) -> Callable[[Progress], None]:
    """Something that somebody else does, once, after the first batch."""
    done: list[Any] = []

    def do(_: Progress) -> None:
        if not done:
            done.append(drive(work()))

    return do


def test_what_is_kept_meanwhile_is_neither_lost_nor_touched(world: World) -> None:
    memories, elsewhere = memories_of(world), memories_of(world)
    drive(told(world, memories))
    keep = meanwhile(lambda: elsewhere.keep(ANA, [Keeping(content="Bruno owns a boat")]))
    run = drive(Consolidating(memories, batch=1).run(ANA, told=keep))
    assert run.found == {"newer": 2, "same": 1}
    assert drive(live(memories))[-1] == "Bruno owns a boat"


def test_what_is_forgotten_meanwhile_stays_forgotten_and_the_rest_is_done(world: World) -> None:
    memories, elsewhere = memories_of(world), memories_of(world)
    ids = drive(told(world, memories))
    forget = meanwhile(lambda: elsewhere.forget(ANA, [ids[5], ids[2]]))
    consolidating = Consolidating(memories, batch=1)
    run = drive(consolidating.run(ANA, told=forget))
    found = drive(shelf(memories))
    assert {ids[2], ids[5]}.isdisjoint(found)
    assert (run.found, found[ids[1]].status) == ({"newer": 1}, Status.LIVE)
    drive(consolidating.undo(ANA, run.id))
    found = drive(shelf(memories))
    assert {ids[2], ids[5]}.isdisjoint(found)
    assert {memory.status for memory in found.values()} == {Status.LIVE}


def test_what_somebody_moves_meanwhile_is_left_as_they_put_it(world: World) -> None:
    memories, elsewhere = memories_of(world), memories_of(world)
    ids = drive(told(world, memories))
    move = meanwhile(lambda: elsewhere.move(ANA, [ids[1], ids[6]], Status.QUARANTINED))
    drive(Consolidating(memories, batch=1).run(ANA, told=move))
    found = drive(shelf(memories))
    assert [found[ids[number]].status for number in (0, 1, 2, 6)] == [
        Status.SUPERSEDED, Status.QUARANTINED, Status.LIVE, Status.QUARANTINED,
    ]  # fmt: skip


# ── plans and schedule ──


async def test_a_plan_without_it_has_no_run_on_demand_but_on_schedule(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    await memories.plan(ANA, "free")
    consolidating = Consolidating(memories)
    with pytest.raises(QuotaReached, match="weekly"):
        await consolidating.run(ANA)
    assert (await consolidating.run(ANA, dry=True)).found == {"newer": 2, "same": 1}
    world.ambient.advance(6 * DAY)
    assert await consolidating.due(world.ambient.now()) == []
    world.ambient.advance(1 * DAY)
    assert await consolidating.due(world.ambient.now()) == [ANA]
    swept = await consolidating.sweep()
    assert swept.ran[str(ANA)].found == {"newer": 2, "same": 1}
    assert (swept.ran[str(ANA)].trigger, swept.failed) == ("schedule", {})
    assert await consolidating.due(world.ambient.now()) == []


async def test_a_sweep_that_is_told_a_time_does_what_is_due_then(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    later = world.ambient.now() + 2 * DAY * 1_000_000
    assert (await Consolidating(memories).sweep()).ran == {}
    assert (await Consolidating(memories).sweep(later)).ran[str(ANA)].found == {"newer": 2, "same": 1}


async def test_where_runs_do_not_come_by_themselves_nothing_is_due(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    world.ambient.advance(30 * DAY)
    alone = Consolidating(memories, scheduled=False)
    assert (await alone.due(world.ambient.now()), await alone.sweep()) == ([], Swept())
    assert (await alone.run(ANA)).phase == "ended"


async def test_a_space_that_cannot_be_read_keeps_no_other_from_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = memories_of(world)
    await told(world, memories)
    await memories.keep(vault("bo"), [Keeping(content="x")])
    world.ambient.advance(2 * DAY)
    consolidating, broken = Consolidating(memories), memories.shelves.session_of(vault("bo"))
    steadily = world.sessions.log.steadily

    async def damaged(session: Any, read: Any) -> Any:
        if session == broken:
            raise Damaged("its log cannot be read")
        return await steadily(session, read)

    monkeypatch.setattr(world.sessions.log, "steadily", damaged)
    swept = await consolidating.sweep()
    assert ([*swept.ran], swept.failed) == ([str(ANA)], {"vault/bo": "its log cannot be read"})
    with pytest.raises(Damaged):
        await consolidating.due(world.ambient.now())


async def test_spaces_are_due_by_their_own_cadence(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)
    await memories.keep(vault("bo"), [Keeping(content="x")])
    await memories.plan(ANA, "free")
    await world.create(title="vault/mallory", tags=("memory",))
    consolidating = Consolidating(memories)
    world.ambient.advance(2 * DAY)
    assert await consolidating.due(world.ambient.now()) == [vault("bo")]
    world.ambient.advance(6 * DAY)
    assert {*await consolidating.due(world.ambient.now())} == {ANA, vault("bo")}


async def test_two_nodes_that_sweep_at_once_run_each_space_once(world: World) -> None:
    first, second = memories_of(world), memories_of(world)
    await told(world, first)
    world.ambient.advance(DAY)
    await asyncio.gather(Consolidating(first, batch=1).sweep(), Consolidating(second, batch=1).sweep())
    (run,) = await Consolidating(first).runs(ANA)
    assert (run.phase, run.found) == ("ended", {"newer": 2, "same": 1})


async def test_a_sweep_lets_a_fresh_run_be_and_takes_over_one_that_stopped(world: World) -> None:
    memories = memories_of(world)
    await told(world, memories)

    def crash(_: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        await Consolidating(memories, batch=1).run(ANA, told=crash)
    other = Consolidating(memories_of(world))
    assert await other.due(world.ambient.now()) == []
    assert (await other.run(ANA, trigger="schedule")).phase == "stepped"
    world.ambient.advance(181)
    assert (await other.sweep()).ran[str(ANA)].phase == "ended"


async def test_an_undoing_that_was_cut_short_is_finished_before_another_run_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = memories_of(world)
    await told(world, memories)
    before = await shelf(memories)
    consolidating = Consolidating(memories)
    run = await consolidating.run(ANA)
    writing, parts = memories.shelves.write, list[Any]()

    async def cut(*given: Any) -> Any:
        if parts:
            raise Stop
        parts.append(given)
        return await writing(*given)

    with monkeypatch.context() as patched:
        patched.setattr("perdure.services.consolidating.BACK", 2)
        patched.setattr(memories.shelves, "write", cut)
        with pytest.raises(Stop):
            await consolidating.undo(ANA, run.id)
    assert (await consolidating.runs(ANA))[0].phase == "undoing"
    again = await consolidating.run(ANA)
    first, second = await consolidating.runs(ANA)
    assert (first.phase, second.id, again.phase, again.found) == ("undone", again.id, "ended", {})
    assert {id: (one.status, one.valid_to) for id, one in (await shelf(memories)).items()} == {
        id: (one.status, one.valid_to) for id, one in before.items()
    }
