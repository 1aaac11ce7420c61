"""Children: a task each, apart from their parent's conversation, on its account, and back to it whatever happens."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import (
    BranchRefused,
    BudgetExhausted,
    GuardFailed,
    Invalid,
    NotFound,
    ProviderRefused,
    SpawnRefused,
    UnknownModel,
)
from perdure.core.session import commands as do
from perdure.core.session.children import ChildFinished, Spawned
from perdure.core.session.ids import SessionId
from perdure.core.talk.children import Child, SpawnRequest, opening
from perdure.core.talk.turning import TurnRequest
from perdure.services.branches import BranchRequest
from perdure.services.spawning import Spawning
from tests.services.talkers import COST, Scripted, Stage, says, stage, wants, words

PATIENCE = 20.0


async def spawned(there: Stage, parent: SessionId, task: str = "count the ducks", **more: Any) -> Child:
    """A child that has ended."""
    child = await there.services.spawning.spawn(parent, SpawnRequest(task=task, **more))
    return (await there.services.spawning.wait(parent, [child.session], PATIENCE))[0]


async def last(there: Stage, session: str, kind: type) -> Any:
    events = await (await there.db.session(session)).events()
    return next(event.data for event in reversed(events) if isinstance(event.data, kind))


async def test_a_child_does_its_task_and_its_parent_hears_of_it() -> None:
    async with stage() as there:
        parent = await there.session(max_cost=100_000)
        there.provider.then(says("seven ducks"))
        child = await spawned(there, parent.id, agent="ann", strategy="pond")
        assert (child.status, child.result, child.spent, child.error) == ("finished", "seven ducks", COST, "")
        assert await there.kinds(parent) == ["spawned", "child_finished"]
        made = await there.db.session(child.session)
        row, state = await made.info(), await made.state()
        assert (row.phase, row.parent, row.branch_kind, row.branched_at) == ("completed", parent.id, "child", None)
        assert (row.title, row.account, row.owner) == ("count the ducks", parent.id, "")
        assert state.budget.shares == {"model:small": COST, "agent:ann": COST, "strategy:pond": COST}
        assert (state.origin.isolation.model, state.origin.isolation.task) == ("nested", child.session)  # type: ignore[union-attr]
        account = await parent.account()
        assert (account.spent, account.reserved) == (COST, 0)
        family = (await parent.state()).children
        assert (family.open, family.finished, family.spent) == ({}, 1, COST)


async def test_a_child_sees_its_context_and_task_and_nothing_of_the_conversation() -> None:
    async with stage() as there:
        parent = await there.session(system_prompt="secret of the parent")
        await there.talking.run(parent.id, TurnRequest(content="secret of the user"))
        await spawned(there, parent.id, context="There is a pond.", max_tokens=77)
        ask = there.provider.asked[-1]
        assert [words(said) for said in ask.messages] == ["There is a pond.count the ducks"]
        assert (ask.system, ask.max_tokens) == ((), 77)


async def test_the_parent_s_model_reads_what_came_of_a_child() -> None:
    async with stage() as there:
        parent = await there.session()
        there.provider.then(says("seven ducks"))
        child = await spawned(there, parent.id)
        await there.talking.run(parent.id, TurnRequest(content="How many?"))
        said = words(there.provider.asked[-1].messages[0])
        assert "seven ducks" in said
        assert child.session in said
        assert said.endswith("How many?")


async def test_a_child_has_the_cheap_model_unless_another_is_named() -> None:
    async with stage() as there:
        parent = await there.session(model="acme/large")
        await spawned(there, parent.id)
        await spawned(there, parent.id, model="acme/large")
        assert [ask.model for ask in there.provider.asked] == ["small", "large"]
        with pytest.raises(UnknownModel):
            await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", model="nobody/knows/it"))
        assert await there.kinds(parent) == ["spawned", "child_finished"] * 2


async def test_all_of_the_conversation_comes_back_if_it_is_asked_for() -> None:
    async with stage() as there:
        parent = await there.session()
        there.services.desk.tooling.register("look", lambda: "a pond")
        there.provider.then(wants(("c1", "look", {})), says("seven ducks"))
        child = await spawned(there, parent.id, return_format="full", context="ctx")
        assert [item["role"] for item in child.result] == ["user", "assistant", "tool", "assistant"]
        assert (child.result[1]["name"], child.result[2]["result"]) == ("look", "a pond")
        assert child.result[3]["content"] == "seven ducks"


async def test_a_conversation_too_large_for_the_parent_comes_back_as_its_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage() as there:
        parent = await there.session()
        monkeypatch.setattr("perdure.services.spawning.conversation", lambda _: ["x" * (17 << 20)])
        there.provider.then(says("seven ducks"))
        child = await spawned(there, parent.id, return_format="full")
        assert child.result[-1]["content"] == "seven ducks"
        assert child.session in child.result[0]["content"]


# ── single level ──


async def test_a_child_can_neither_spawn_nor_branch() -> None:
    async with stage() as there:
        parent, gate = await there.session(), asyncio.Event()
        there.provider.then([gate, *says("late")])
        child = SessionId((await there.services.spawning.spawn(parent.id, SpawnRequest(task="x"))).session)
        with pytest.raises(SpawnRefused, match="children have none of their own"):
            await there.services.spawning.spawn(child, SpawnRequest(task="y"))
        with pytest.raises(BranchRefused, match="children cannot branch"):
            await there.services.branches.branch(child, None, BranchRequest())
        gate.set()
        await there.services.spawning.wait(parent.id, None, PATIENCE)
        with pytest.raises(BranchRefused):
            await there.services.branches.branch(child, None, BranchRequest())


async def test_children_are_not_listed_among_branches_but_found_by_their_parent() -> None:
    async with stage() as there:
        parent = await there.session()
        child = await spawned(there, parent.id)
        branch = await parent.branch()
        assert [row.session for row in await parent.branches()] == [branch.id]
        assert {row.session for row in (await there.db.find(parent=parent.id)).items} == {branch.id, child.session}


async def test_a_branch_does_not_have_the_children_of_its_parent() -> None:
    async with stage() as there:
        parent, gate = await there.session(), asyncio.Event()
        there.provider.then([gate, *says("late")])
        await there.services.spawning.spawn(parent.id, SpawnRequest(task="x"))
        branch = await parent.branch()
        assert await there.services.spawning.children(branch.id) == ()
        await branch.complete()
        with pytest.raises(GuardFailed, match="children have not ended"):
            await parent.complete()
        gate.set()
        await there.services.spawning.wait(parent.id, None, PATIENCE)
        await parent.complete()


# ── side by side ──


async def test_children_work_side_by_side() -> None:
    async with stage() as there:
        parent, gates = await there.session(), [asyncio.Event() for _ in range(5)]
        for number, gate in enumerate(gates):
            following = gates[number - 1].set if number else lambda: None
            there.provider.then([gate, following, *says(f"answer {number}")])  # the last one opens the one before
        requests = [SpawnRequest(task=f"task {number}") for number in range(5)]
        for request in requests:
            await there.services.spawning.spawn(parent.id, request)
        gates[-1].set()
        children = await there.services.spawning.wait(parent.id, None, PATIENCE)
        assert [child.task for child in children] == [f"task {number}" for number in range(5)]
        assert {child.result for child in children} == {f"answer {number}" for number in range(5)}


async def test_waiting_gives_up_after_its_time_and_names_what_there_is_not() -> None:
    async with stage() as there:
        parent, gate = await there.session(), asyncio.Event()
        there.provider.then([gate, *says("late")])
        child = await there.services.spawning.spawn(parent.id, SpawnRequest(task="x"))
        waited = await there.services.spawning.wait(parent.id, None, 0.05)
        assert [item.status for item in waited] == ["running"]
        with pytest.raises(NotFound, match="spawned no somebody, nobody;"):  # as they were asked for
            await there.services.spawning.wait(parent.id, ["somebody", "nobody", child.session, "somebody"], 0.05)
        gate.set()
        assert (await there.services.spawning.wait(parent.id, [child.session], PATIENCE))[0].result == "late"
        assert [item.status for item in await there.services.spawning.children(parent.id)] == ["finished"]


async def test_the_same_key_spawns_one_child() -> None:
    async with stage() as there:
        parent, request = await there.session(), SpawnRequest(task="x")
        first = await there.services.spawning.spawn(parent.id, request, key="k")
        await there.services.spawning.wait(parent.id, None, PATIENCE)
        again = await there.services.spawning.spawn(parent.id, request, key="k")
        assert (again.session, again.status) == (first.session, "finished")
        assert await there.kinds(parent) == ["spawned", "child_finished"]


# ── money ──


async def test_a_slice_bounds_a_child_and_what_is_left_returns() -> None:
    async with stage() as there:
        parent = await there.session(max_cost=100_000)
        gate = asyncio.Event()
        there.provider.then([gate, *says("seven ducks")])
        child = await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", max_cost=50_000, max_tokens=10))
        account = await parent.account()
        assert (account.spent, account.reserved) == (0, 50_000)
        gate.set()
        done = (await there.services.spawning.wait(parent.id, None, PATIENCE))[0]
        assert (done.spent, done.max_cost, done.status) == (COST, 50_000, "finished")
        account = await parent.account()
        assert (account.spent, account.reserved) == (COST, 0)
        assert (await there.db.session(child.session)).id != parent.id
        assert await there.kinds(parent) == ["reserved", "spawned", "settled", "child_finished"]


async def test_a_slice_that_cannot_be_had_leaves_nothing_behind() -> None:
    async with stage() as there:
        parent = await there.session(max_cost=100)
        with pytest.raises(BudgetExhausted):
            await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", max_cost=101))
        with pytest.raises(Invalid, match="go with max_cost"):
            await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", tokens=5))
        assert await there.kinds(parent) == []
        assert await there.db.count() == 1


async def test_a_child_that_outgrows_its_slice_ends_and_says_why() -> None:
    async with stage() as there:
        parent = await there.session(max_cost=100_000)
        child = await spawned(there, parent.id, max_cost=10)
        assert child.status == "failed"
        assert child.error.startswith("budget_exhausted")
        assert (await parent.account()).reserved == 0
        assert (await (await there.db.session(child.session)).info()).phase == "terminated"


async def test_a_branch_with_a_tighter_cap_gives_children_a_part_of_it() -> None:
    async with stage() as there:
        parent = await there.session(max_cost=100_000)
        tight = await parent.branch(config={"max_cost": 1_000})
        with pytest.raises(Invalid, match="its part as max_cost"):
            await there.services.spawning.spawn(tight.id, SpawnRequest(task="x"))
        assert (await spawned(there, (await parent.branch()).id)).status == "finished"
        with pytest.raises(BudgetExhausted):
            await there.services.spawning.spawn(tight.id, SpawnRequest(task="x", max_cost=1_001))


async def test_many_children_and_their_parent_stay_within_one_cap() -> None:
    """Those that find too little left fail, and say so; nothing stays set aside, and the cap is used to its end."""
    async with stage() as there:
        parent = await there.session(max_cost=60_000)
        requests = [
            SpawnRequest(task=f"task {number}", max_tokens=100, max_cost=2_000 if number % 3 == 0 else None)
            for number in range(60)
        ]
        begun: list[Child] = []
        refused = 0
        for request in requests:
            try:
                begun.append(await there.services.spawning.spawn(parent.id, request))
            except BudgetExhausted:
                refused += 1
        said = TurnRequest(content="x", busy="enqueue", max_tokens=50)
        turn = asyncio.create_task(there.talking.run(parent.id, said))
        done = await there.services.spawning.wait(parent.id, [child.session for child in begun], PATIENCE)
        await asyncio.wait([turn])
        account = await parent.account()
        assert account.spent <= 60_000
        assert (account.reserved, account.paused) == (0, False)
        finished = [child for child in done if child.status == "finished"]
        assert len(finished) + refused + sum(child.error.startswith("budget_exhausted") for child in done) == 60
        shared = sum(child.spent for child in done if child.max_cost is None)
        assert shared + (await parent.state()).budget.spent == account.spent
        assert len(finished) > 10


# ── tools ──


async def test_a_child_has_the_tools_it_is_given_and_no_others() -> None:
    async with stage() as there:
        tooling = there.services.desk.tooling
        for name in ("look", "feed", "sell"):
            tooling.register(name, lambda: "done")
        rules = [{"tool": "sell", "do": "deny"}]
        parent = await there.session(extra={"tools": rules})
        await spawned(there, parent.id, tools=("look", "sell"))
        await spawned(there, parent.id, tools=())
        await spawned(there, parent.id)
        offered = [[tool.name for tool in ask.tools] for ask in there.provider.asked]
        assert offered == [["look"], [], ["feed", "look"]]
        with pytest.raises(Invalid, match="no tool 'fly'"):
            await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", tools=("fly",)))


async def test_a_child_that_waits_for_a_person_is_parked_and_goes_on_when_allowed() -> None:
    async with stage() as there:
        there.services.desk.tooling.register("feed", lambda: "fed", approval=True)
        parent = await there.session()
        there.provider.then(wants(("c1", "feed", {})), says("all fed"))
        child = await there.services.spawning.spawn(parent.id, SpawnRequest(task="feed them"))
        for _ in range(200):
            standing = (await there.services.spawning.children(parent.id))[0].status
            if standing == "parked":
                break
            await asyncio.sleep(0.02)
        assert standing == "parked"
        await there.talking.approve(SessionId(child.session), "c1", allowed=True)
        assert (await there.services.spawning.wait(parent.id, None, PATIENCE))[0].result == "all fed"


# ── what goes wrong ──


async def test_a_child_whose_provider_refuses_fails_and_its_parent_goes_on() -> None:
    async with stage() as there:
        parent = await there.session()
        there.provider.then([ProviderRefused("no ducks")])
        child = await spawned(there, parent.id)
        assert (child.status, child.error) == ("failed", "provider_refused: no ducks")
        assert (await there.talking.run(parent.id, TurnRequest(content="and now?"))).status == "finished"


async def test_a_child_that_is_interrupted_or_ended_by_a_person_is_over() -> None:
    async with stage() as there:
        parent, gate = await there.session(), asyncio.Event()
        asked = [asyncio.Event(), asyncio.Event()]
        there.provider.then(*[[each.set, gate, *says("never")] for each in asked])
        first = await there.services.spawning.spawn(parent.id, SpawnRequest(task="one"))
        second = await there.services.spawning.spawn(parent.id, SpawnRequest(task="two"))
        for each in asked:
            await each.wait()
        assert await there.talking.interrupt(SessionId(first.session))
        await (await there.db.session(second.session)).terminate("enough")
        done = await there.services.spawning.wait(parent.id, [first.session, second.session], PATIENCE)
        assert [child.status for child in done] == ["failed", "failed"]
        assert "interrupted" in done[0].error


async def test_children_stop_when_their_parent_is_terminated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.services.spawning.WATCH", 0.02)
    async with stage() as there:
        there.services.desk.tooling.register("feed", lambda: "fed", approval=True)
        parent, gate, asked = await there.session(), asyncio.Event(), asyncio.Event()
        there.provider.then([asked.set, gate, *says("never")], wants(("c1", "feed", {})))
        works = await there.services.spawning.spawn(parent.id, SpawnRequest(task="work"))
        await asked.wait()
        waits = await there.services.spawning.spawn(parent.id, SpawnRequest(task="wait"))
        await parent.terminate("enough")
        done = await there.services.spawning.wait(parent.id, [works.session, waits.session], PATIENCE)
        assert [child.status for child in done] == ["failed", "failed"]
        assert "its parent ended" in done[0].error
        for child in done:
            assert (await (await there.db.session(child.session)).info()).phase == "terminated"


async def test_what_a_redacted_task_came_to_is_still_told() -> None:
    async with stage() as there:
        parent = await there.session()
        child = await spawned(there, parent.id)
        event = next(event for event in await parent.events() if event.kind == Spawned.kind)
        await parent.redact(event.version)
        told = (await there.services.spawning.children(parent.id))[0]
        assert (told.session, told.task, told.result) == (child.session, "", "ok")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not been heard of for a moment is taken for dead."""
    monkeypatch.setattr("perdure.services.spawning.LEASE", 0)
    monkeypatch.setattr("perdure.services.leases.LEASE", 0)


@pytest.mark.usefixtures("soon")
async def test_children_of_a_process_that_died_are_carried_on(tmp_path: Path) -> None:
    """At each of the three places where a crash can leave them: not made, not begun, not told."""
    path, provider = str(tmp_path / "store.db"), Scripted()
    async with stage(path, provider) as there:
        parent = (await there.session()).id
        spawning = there.services.spawning
        spawning._carry = lambda *_: None  # type: ignore[method-assign]
        made, spawning._made = spawning._made, _nothing  # type: ignore[method-assign]
        await spawning.spawn(parent, SpawnRequest(task="not made"))
        spawning._made = made  # type: ignore[method-assign]
        await spawning.spawn(parent, SpawnRequest(task="not begun"))
        last = await spawning.spawn(parent, SpawnRequest(task="not told", max_cost=None))
        provider.then(says("told late"))
        event = next(event for event in reversed(await (await there.db.session(parent)).events()))
        assert isinstance(event.data, Spawned)
        await there.talking.run(SessionId(last.session), opening(event.data, key=f"spawned-{last.session}"))
        await (await there.db.session(last.session)).complete()
    provider.script.clear()
    async with stage(path, provider) as there:
        assert len(await there.services.spawning.recover(parent)) == 3
        assert await there.services.spawning.recover(parent) == ()
        done = await there.services.spawning.wait(parent, None, PATIENCE)
        told = await there.services.spawning.children(parent)
        assert {child.session for child in done} <= {child.session for child in told}
        assert [(child.task, child.status, child.result) for child in told] == [
            ("not made", "finished", "ok"),
            ("not begun", "finished", "ok"),
            ("not told", "finished", "told late"),
        ]
        assert len(provider.asked) == 3


@pytest.mark.usefixtures("soon")
async def test_a_child_whose_process_died_in_the_middle_of_its_turn_goes_on(tmp_path: Path) -> None:
    path, gate = str(tmp_path / "store.db"), asyncio.Event()
    async with stage(path) as there:
        parent, asked = (await there.session(max_cost=100_000)).id, asyncio.Event()
        there.provider.then([asked.set, gate, *says("never")])
        await there.services.spawning.spawn(parent, SpawnRequest(task="x", max_cost=50_000, max_tokens=10))
        await asked.wait()
    async with stage(path) as there:
        done = await there.services.spawning.wait(parent, None, PATIENCE)
        assert [(child.status, child.result) for child in done] == [("finished", "ok")]
        account = await (await there.db.session(parent)).account()
        assert (account.reserved, account.spent) == (0, done[0].spent)


async def test_the_slice_of_a_child_that_time_ended_returns() -> None:
    async with stage() as there:
        parent, gate = await there.session(max_cost=100_000), asyncio.Event()
        there.provider.then([gate, *says("never")])
        child = await there.services.spawning.spawn(parent.id, SpawnRequest(task="x", max_cost=50_000, max_tokens=10))
        await there.services.spawning.close()
        await there.talking.interrupt(SessionId(child.session))
        await (await there.db.session(child.session)).terminate("time")
        await there.services.sessions.handle(parent.id, do.NoteEnded(other=child.session, reason="time"))
        assert (await last(there, parent.id, ChildFinished)).phase == "terminated"
        again = Spawning(there.services.desk, there.talking)
        assert await again.recover(parent.id) == ()
        assert (await parent.account()).reserved == 0


async def _nothing(*_: Any) -> None:
    """A crash before the child is made."""
