"""Turns with a model: every step in the log, charged, resumable, and usable afterwards whatever happened."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.errors import (
    BudgetExhausted,
    Invalid,
    KeyReused,
    PromptTooLong,
    ProviderBusy,
    ProviderCut,
    ProviderDown,
    ProviderRefused,
    TurnRefused,
    UnknownModel,
)
from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.budget import Settled
from perdure.core.session.event import Draft
from perdure.core.session.turns import Message, ToolFinished, TurnInterrupted, TurnStarted
from perdure.core.talk.parts import Began, Delta, Result, Text, Tool, Usage
from perdure.core.talk.turning import PieceCame, TurnBroke, TurnEnded, TurnRequest
from perdure.edge.session import AsyncSession
from perdure.services.calling import Calling
from perdure.services.pricing import Pricing
from tests.services.talkers import COST, DEARER, Stage, says, stage, wants, words


def says_until(gate: asyncio.Event, text: str = "one two") -> list[Any]:
    """An answer that stops in the middle until the gate is open."""
    pieces = says(text)
    return [*pieces[:3], gate, *pieces[3:]]


async def streaming(there: Stage, session: AsyncSession, request: TurnRequest) -> Any:
    """A turn whose first word is there."""
    begun = await there.talking.begin(session.id, request)
    assert begun.running is not None
    async for line in begun.running.follow():
        if isinstance(line.event, PieceCame) and isinstance(line.event.piece, Delta):
            return begun.running
    raise AssertionError("it said nothing")


async def events_of(session: AsyncSession, kind: type) -> list[Any]:
    return [event.data for event in await session.events() if isinstance(event.data, kind)]


# ── plain turns ──


async def test_a_turn_is_asked_charged_and_answered() -> None:
    async with stage() as there:
        session = await there.session(max_cost=100_000)
        there.provider.then(says("Hello there"))
        outcome = await there.talking.run(session.id, TurnRequest(content="Hi", strategy="polite", agent="ann"))
        assert (outcome.text, outcome.status, outcome.cost, outcome.rounds) == ("Hello there", "finished", COST, 1)
        assert outcome.usage == Usage(input=10, output=5)
        assert await there.kinds(session) == [
            *("turn_started", "model_asked", "reserved"),
            *("settled", "model_answered", "message", "turn_finished"),
        ]
        state = await session.state()
        assert (state.budget.spent, state.budget.open, state.budget.asked) == (COST, {}, {})
        assert state.budget.shares == {"model:small": COST, "agent:ann": COST, "strategy:polite": COST}
        account = await session.account()
        assert (account.spent, account.reserved) == (COST, 0)
        assert await there.talking.outcome(session.id, 1) == outcome


async def test_the_prefix_stays_the_same_from_turn_to_turn() -> None:
    """Byte for byte, but for the marks of the caches, which move to the end."""
    async with stage() as there:
        session = await there.session(system_prompt="Be brief.")
        for number in range(4):
            await there.talking.run(session.id, TurnRequest(content=f"question {number}"))
            await session.write_scratchpad(f"plan {number}")
        asks = there.provider.asked
        for before, after in pairwise(asks):
            old = [[words(said), said.role] for said in before.messages[:-1]]
            assert old == [[words(said), said.role] for said in after.messages[: len(old)]]
            assert before.system == after.system
        last = asks[-1].messages[-1]
        assert [block.text for block in last.blocks if isinstance(block, Text)] == [
            "question 3",
            "<working_memory>\nplan 2\n</working_memory>",
        ]


async def test_what_cannot_be_said_writes_nothing() -> None:
    async with stage() as there:
        session = await there.session()
        for request, error in (
            (TurnRequest(content="x", model="nobody/else"), UnknownModel),
            (TurnRequest(content="x " * 50_000), PromptTooLong),
            (TurnRequest(content=[{"type": "tool_result", "tool_use_id": "a", "content": "b"}]), Invalid),
            (TurnRequest(content="x", max_tokens=100_000), PromptTooLong),
        ):
            with pytest.raises(error):
                await there.talking.run(session.id, request)
        assert await there.kinds(session) == []
        assert (await there.talking.run(session.id, TurnRequest(content="Hi"))).text == "ok"


async def test_a_turn_that_does_not_fit_the_budget_writes_nothing() -> None:
    async with stage() as there:
        session = await there.session(max_cost=100)
        with pytest.raises(BudgetExhausted):
            await there.talking.run(session.id, TurnRequest(content="Hi"))
        assert await there.kinds(session) == []
        await session.configure(config={"max_cost": 100_000})
        assert (await there.talking.run(session.id, TurnRequest(content="Hi"))).status == "finished"


async def test_the_same_key_asks_once() -> None:
    async with stage() as there:
        session = await there.session()
        request = TurnRequest(content="Hi", key="one")
        first = await there.talking.run(session.id, request)
        assert await there.talking.run(session.id, request) == first
        assert len(there.provider.asked) == 1


async def test_the_same_call_joins_the_turn_it_began() -> None:
    async with stage() as there:
        session = await there.session()
        gate = asyncio.Event()
        there.provider.then(says_until(gate))
        request = TurnRequest(content="Hi", key="one")
        await streaming(there, session, request)
        again = asyncio.create_task(there.talking.run(session.id, request))
        with pytest.raises(KeyReused):
            await there.talking.run(session.id, TurnRequest(content="Else", key="one"))
        gate.set()
        assert (await again).text == "one two"
        assert len(there.provider.asked) == 1


async def test_a_session_made_anew_under_the_same_id_knows_nothing_of_the_old_one() -> None:
    async with stage() as there:
        old = await there.db.create(name="trip")
        await there.talking.run(old.id, TurnRequest(content="the secret"))
        await old.erase()
        new = await there.db.create(name="trip")
        assert new.id == old.id
        for _ in range(4):
            await there.talking.run(new.id, TurnRequest(content="hello"))
        assert not any("secret" in words(said) for ask in there.provider.asked[1:] for said in ask.messages)


async def test_what_was_redacted_is_in_no_context_any_more() -> None:
    async with stage() as there:
        session = await there.session()
        await there.talking.run(session.id, TurnRequest(content="the secret"))
        (start,) = [event.version for event in await session.events() if event.kind == "turn_started"]
        await session.redact([start])
        await there.talking.run(session.id, TurnRequest(content="hello"))
        assert not any("secret" in words(said) for said in there.provider.asked[-1].messages)


async def test_an_answer_from_the_cache_costs_nothing() -> None:
    async with stage() as there:
        one, two = await there.session(max_cost=100_000), await there.session(max_cost=100_000)
        request = TurnRequest(content="What is it?", cache="exact")
        first = await there.talking.run(one.id, request)
        again = await there.talking.run(two.id, request)
        assert (again.text, again.cached, again.cost, again.status) == (first.text, "exact", 0, "finished")
        assert len(there.provider.asked) == 1
        assert (await two.account()).spent == 0
        assert (await there.talking.run(two.id, TurnRequest(content="And now?"))).cached == ""


# ── tools ──


async def test_tools_run_inside_the_turn() -> None:
    async with stage() as there:
        session = await there.session()
        keys: list[str] = []

        async def add(a: int, b: int, *, key: str) -> int:
            keys.append(key)
            return a + b

        there.services.common.tooling.register("add", add)
        there.provider.then(wants(("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 3, "b": 4})), says("3 and 7"))
        outcome = await there.talking.run(session.id, TurnRequest(content="Add"))
        assert (outcome.text, outcome.rounds, outcome.cost) == ("3 and 7", 2, 2 * COST)
        results = await events_of(session, ToolFinished)
        assert sorted((item.call, item.result) for item in results) == [("c1", "3"), ("c2", "7")]
        assert sorted(keys) == [f"{session.id}:c1", f"{session.id}:c2"]
        assert await there.talking.outcome(session.id, 1) == outcome


async def test_a_tool_that_raises_or_is_denied_is_told_to_the_model() -> None:
    async with stage() as there:
        rules = [{"tool": "rm", "do": "deny", "reason": "never"}]
        session = await there.session(extra={"tools": rules})

        async def fails() -> None:
            raise ValueError("no luck")

        there.services.common.tooling.register("fails", fails)
        there.services.common.tooling.register("rm", fails)
        there.provider.then(wants(("c1", "fails", {}), ("c2", "rm", {})), says("sorry"))
        outcome = await there.talking.run(session.id, TurnRequest(content="Go"))
        assert outcome.text == "sorry"
        errors = {item.call: item.error for item in await events_of(session, ToolFinished)}
        assert "no luck" in errors["c1"]
        assert "never" in errors["c2"]


async def test_tools_of_the_caller_are_returned_and_their_results_go_on() -> None:
    async with stage() as there:
        session = await there.session()
        tool = Tool(name="look", schema={"type": "object"})
        there.provider.then(wants(("c1", "look", {"at": "x"}), ("c2", "look", {})), says("seen"))
        parted = await there.talking.run(session.id, TurnRequest(content="Look", tools=(tool,)))
        assert parted.status == "tools"
        assert [(item.id, item.arguments, item.approval) for item in parted.waiting] == [
            ("c1", {"at": "x"}, False),
            ("c2", {}, False),
        ]
        with pytest.raises(TurnRefused, match="waits for c1, c2"):
            await there.talking.run(session.id, TurnRequest(content="Something else"))
        one = Result(call="c1", content=(Text(text="a cat"),))
        half = await there.talking.run(session.id, TurnRequest(results=(one,), tools=(tool,)))
        assert (half.status, [item.id for item in half.waiting]) == ("tools", ["c2"])
        two = Result(call="c2", content=(Text(text="gone"),), failed=True)
        done = await there.talking.run(session.id, TurnRequest(results=(two,), tools=(tool,)))
        assert (done.status, done.text, done.turn) == ("finished", "seen", 1)
        assert len(there.provider.asked) == 2


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_tool_that_needs_a_person_parks_the_turn(allowed: bool) -> None:
    async with stage() as there:
        session = await there.session()
        ran: list[str] = []

        async def pay(amount: int) -> str:
            ran.append(f"paid {amount}")
            return "done"

        there.services.common.tooling.register("pay", pay, approval=True)
        there.provider.then(wants(("c1", "pay", {"amount": 5})), says("as you say"))
        parked = await there.talking.run(session.id, TurnRequest(content="Pay"))
        assert (parked.status, [item.approval for item in parked.waiting]) == ("parked", [True])
        begun = await there.talking.approve(session.id, "c1", allowed=allowed, note="hm")
        assert begun.running is not None
        await begun.running.done.wait()
        outcome = await there.talking.outcome(session.id, 1)
        assert (outcome.status, outcome.text) == ("finished", "as you say")
        assert ran == (["paid 5"] if allowed else [])
        with pytest.raises(TurnRefused, match="nothing waits"):
            await there.talking.approve(session.id, "c1", allowed=True)


async def test_a_budget_that_ends_between_two_rounds_interrupts_the_turn() -> None:
    async with stage() as there:
        session = await there.session()

        async def noop() -> str:
            return "x"

        there.services.common.tooling.register("noop", noop)
        reserved = 0

        def note() -> None:
            nonlocal reserved
            reserved += 1

        await session.configure(config={"max_cost": 10_000})
        there.provider.then([note, *wants(("c1", "noop", {}))])
        big = Usage(input=9_900, output=40)
        there.provider.script[0][-1] = type(there.provider.script[0][-1])(stop="tools", usage=big)  # type: ignore[call-arg]
        with pytest.raises(BudgetExhausted):
            await there.talking.run(session.id, TurnRequest(content="Go", max_tokens=100))
        state = await session.state()
        assert state.turns.open is None
        assert state.budget.open == {}
        (interrupted,) = await events_of(session, TurnInterrupted)
        assert interrupted.reason == "budget_exhausted"
        await session.configure(config={"max_cost": 1_000_000})
        assert (await there.talking.run(session.id, TurnRequest())).text == "ok"


# ── two at once, stepping in ──


async def test_a_second_turn_is_refused_queued_or_takes_over() -> None:
    async with stage() as there:
        session = await there.session()
        gate = asyncio.Event()
        there.provider.then(says_until(gate))
        running = await streaming(there, session, TurnRequest(content="first"))
        with pytest.raises(TurnRefused, match="still running"):
            await there.talking.run(session.id, TurnRequest(content="second"))
        queued = asyncio.create_task(there.talking.run(session.id, TurnRequest(content="second", busy="enqueue")))
        gate.set()
        assert (await queued).turn == 2
        assert running.outcome.text == "one two"


@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
async def test_a_second_turn_may_take_over(busy: Any) -> None:
    async with stage() as there:
        session = await there.session(max_cost=100_000)
        there.provider.then(says_until(asyncio.Event(), "half of it"))
        running = await streaming(there, session, TurnRequest(content="first"))
        outcome = await there.talking.run(session.id, TurnRequest(content="second", busy=busy))
        assert (outcome.turn, outcome.text) == (2, "ok")
        assert running.outcome.status == ("interrupted" if busy == "interrupt" else "rolled_back")
        assert there.provider.hung_up == 1
        said = [words(said) for said in there.provider.asked[-1].messages]
        assert said == (["first", "half", "second"] if busy == "interrupt" else ["second"])
        state = await session.state()
        assert (state.budget.open, state.budget.asked) == ({}, {})
        assert state.budget.spent > COST


async def test_a_steer_is_before_the_model_at_once() -> None:
    async with stage() as there:
        session = await there.session()
        there.provider.then(says_until(asyncio.Event(), "By plane"), says("By train"))
        running = await streaming(there, session, TurnRequest(content="How?"))
        await there.talking.steer(session.id, "No flights")
        await running.done.wait()
        assert (running.outcome.text, running.outcome.turn, running.outcome.status) == ("By train", 1, "finished")
        said = [words(said) for said in there.provider.asked[-1].messages]
        assert said == ["How?", "By", "<steer>\nNo flights\n</steer>"]


async def test_a_steer_cancels_tools() -> None:
    async with stage() as there:
        session = await there.session()
        began, cancelled = asyncio.Event(), []

        async def slow() -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            return "never"

        there.services.common.tooling.register("slow", slow)
        there.provider.then(wants(("c1", "slow", {})), says("fine"))
        begun = await there.talking.begin(session.id, TurnRequest(content="Go"))
        await began.wait()
        await there.talking.steer(session.id, "Stop that")
        assert begun.running is not None
        await begun.running.done.wait()
        assert begun.running.outcome is not None
        assert (begun.running.outcome.text, cancelled) == ("fine", [True])
        (result,) = await events_of(session, ToolFinished)
        assert "cancelled" in result.error


async def test_a_follow_up_waits_for_the_next_turn_and_is_no_history() -> None:
    async with stage() as there:
        session = await there.session()
        await there.talking.follow_up(session.id, "Mind the budget")
        await there.talking.run(session.id, TurnRequest(content="one"))
        await there.talking.run(session.id, TurnRequest(content="two"))
        first, second = there.provider.asked
        assert "Mind the budget" in words(first.messages[-1])
        assert not any("Mind the budget" in words(said) for said in second.messages)
        assert (await session.state()).steering.waiting == ()


# ── what goes wrong ──


async def test_every_failure_of_a_provider_leaves_a_session_that_can_be_used() -> None:
    async with stage() as there:
        session = await there.session(max_cost=1_000_000)
        began = Began(id="m", model="small", usage=Usage(input=10))
        for steps, error, charged in (
            ([ProviderRefused("bad")], ProviderRefused, 0),
            ([ProviderBusy("busy", retry_after=1)], ProviderBusy, 0),
            ([ProviderDown("down")], ProviderDown, 0),
            ([began, ProviderCut("cut")], ProviderCut, 10),
            (says("so far")[:4], ProviderCut, 10 + 2 * 2),
        ):
            before = (await session.state()).budget.spent
            there.provider.then(list(steps))
            with pytest.raises(error):
                await there.talking.run(session.id, TurnRequest(content="Hi"))
            state = await session.state()
            assert (state.turns.open, state.budget.open, state.budget.asked) == (None, {}, {})
            assert state.budget.spent - before == charged
        assert (await there.talking.run(session.id, TurnRequest(content="Hi"))).text == "ok"
        assert (await events_of(session, TurnInterrupted))[-1].text == "so far"


async def test_a_client_that_goes_away_leaves_a_turn_that_goes_on() -> None:
    async with stage() as there:
        session = await there.session()
        gate = asyncio.Event()
        there.provider.then(says_until(gate))
        waiting = asyncio.create_task(there.talking.run(session.id, TurnRequest(content="Hi")))
        while there.talking.runners.of(session.id) is None:  # noqa: ASYNC110 - until it runs
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        gate.set()
        running = there.talking.runners.of(session.id)
        assert running is not None
        await running.done.wait()
        assert (await there.talking.outcome(session.id, 1)).text == "one two"


async def test_whoever_goes_away_while_a_turn_begins_leaves_none_behind_that_nobody_carries_on() -> None:
    """At whichever step of the loop they are cut off."""
    async with stage() as there:
        for steps in range(40):
            session = await there.session(max_cost=1_000_000)
            waiting = asyncio.create_task(there.talking.run(session.id, TurnRequest(content="Hi")))
            for _ in range(steps):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            if (running := there.talking.runners.of(session.id)) is not None:
                await running.done.wait()
            state = await session.state()
            assert (state.turns.open, state.budget.asked, state.budget.open) == (None, {}, {})
            assert state.turns.count == 0 or (await there.talking.outcome(session.id, 1)).status == "finished"


async def test_a_turn_of_a_process_that_is_gone_is_closed_and_charged_and_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with stage(path) as there:
        session = await there.session(max_cost=1_000_000)
        dead = ".".join((there.services.desk.node.split(".")[0], "999999", "gone"))
        asked = ModelAsked(ask="lost", provider="acme", model="small", node=dead)
        begun = (Draft(TurnStarted(role="user", content="Hi")), Draft(asked, target="lost"))
        reserve = do.Reserve(reservation="lost", amount=500)
        await there.services.sessions.handle(session.id, do.Advance(drafts=begun, reserves=(reserve,)))
        outcome = await there.talking.outcome(session.id, 1)
        assert (outcome.status, outcome.reason, outcome.cost, outcome.estimated) == ("interrupted", "crash", 500, True)
        assert (await session.account()).spent == 500
        assert (await there.talking.run(session.id, TurnRequest())).text == "ok"
        assert [words(said) for said in there.provider.asked[-1].messages] == ["Hi"]
        await session.correct("lost", 40)
        assert (await session.account()).spent == 40 + COST


async def test_a_turn_that_runs_elsewhere_is_left_alone(tmp_path: Path) -> None:
    async with stage(str(tmp_path / "a.db")) as there:
        session = await there.session()
        begun = (
            Draft(TurnStarted(role="user", content="Hi")),
            Draft(ModelAsked(ask="theirs", provider="acme", model="small", node="elsewhere.1.x"), target="theirs"),
        )
        await there.services.sessions.handle(session.id, do.Advance(drafts=begun))
        with pytest.raises(TurnRefused, match="still running"):
            await there.talking.run(session.id, TurnRequest(content="me too"))
        assert (await there.talking.run(session.id, TurnRequest(content="me", busy="interrupt"))).turn == 2


async def test_closing_interrupts_what_runs_and_keeps_what_was_said(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with stage(path) as there:
        session = await there.session()
        there.provider.then(says_until(asyncio.Event(), "half of it"))
        await streaming(there, session, TurnRequest(content="Hi"))
    async with stage(path) as there:
        outcome = await there.talking.outcome(session.id, 1)
        assert (outcome.status, outcome.reason, outcome.text) == ("interrupted", "shutdown", "half")


async def test_ending_a_turn_from_another_node_stops_it_here(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with stage(path) as here, stage(path) as there:
        session = await here.session()
        here.provider.then(says_until(asyncio.Event(), "half of it"))
        running = await streaming(here, session, TurnRequest(content="Hi"))
        assert await there.talking.interrupt(session.id)
        await asyncio.wait_for(running.done.wait(), 20)
        assert here.provider.hung_up == 1
        assert (await there.talking.outcome(session.id, 1)).status == "interrupted"


# ── following ──


async def test_a_turn_can_be_followed_from_any_place_on_any_node(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with stage(path) as here, stage(path) as there:
        session = await here.session()
        gate = asyncio.Event()
        here.provider.then(says_until(gate, "one two three"))
        running = await streaming(here, session, TurnRequest(content="Hi"))
        elsewhere = asyncio.create_task(_lines(there, session, 0))
        await running.keep()
        await asyncio.sleep(0.3)
        gate.set()
        await running.done.wait()
        whole = [line async for line in running.follow()]
        places = [line.place for line in whole]
        assert places == sorted(set(places))
        for start in range(len(whole)):
            rest = [line async for line in running.follow(places[start])]
            assert rest == whole[start + 1 :]
        other = await asyncio.wait_for(elsewhere, 20)
        assert other[: len(other) - 1] == whole[: len(other) - 1]
        assert isinstance(other[-1].event, TurnEnded)
        assert other[-1].event.outcome.text == "one two three"


async def _lines(there: Stage, session: AsyncSession, after: int) -> list[Any]:
    return [line async for line in there.talking.follow(session.id, 1, after)]


async def test_a_turn_that_broke_says_so_to_who_comes_later() -> None:
    async with stage() as there:
        session = await there.session()
        there.provider.then([ProviderDown("down")])
        with pytest.raises(ProviderDown):
            await there.talking.run(session.id, TurnRequest(content="Hi"))
        (line,) = await _lines(there, session, 0)
        assert isinstance(line.event, TurnBroke)
        assert line.event.fields == {"reason": "provider_down"}


async def test_two_hundred_turns_against_one_cap_never_spend_more() -> None:
    async with stage() as there:
        first = await there.session(max_cost=200_000)
        branches = [await first.branch(name=f"b{number}") for number in range(9)]
        sessions = [first, *branches]

        async def one(number: int) -> bool:
            session = sessions[number % len(sessions)]
            try:
                request = TurnRequest(content=f"question {number}", busy="enqueue", max_tokens=400)
                await there.talking.run(session.id, request)
            except BudgetExhausted:
                return False
            return True

        done = await asyncio.gather(*map(one, range(200)))
        account = await first.account()
        assert account.spent == COST * sum(done)
        assert account.spent <= 200_000
        assert account.reserved == 0


async def test_settled_and_answered_are_one_append() -> None:
    async with stage() as there:
        session = await there.session(max_cost=100_000)
        await there.talking.run(session.id, TurnRequest(content="Hi"))
        events = await session.events()
        ids = {event.kind: event.shared.first for event in events if event.kind in ("settled", "model_answered")}
        assert ids["settled"] == ids["model_answered"]
        kinds = (ModelAnswered, Settled, Message)
        assert [type(event.data) for event in events if isinstance(event.data, kinds)] == [
            Settled,
            ModelAnswered,
            Message,
        ]


async def test_a_cap_is_used_to_its_end_and_no_further() -> None:
    """Two hundred turns at a time, over branches, until nothing fits any more."""
    async with stage() as there:
        first = await there.session(max_cost=1)
        request = TurnRequest(content="a question", busy="enqueue", max_tokens=400)
        most = (await there.talking.context(first.id, request)).tokens + 2_000
        cap = 100 * most
        await first.configure(config={"max_cost": cap})
        sessions = [first, *[await first.branch(name=f"b{number}") for number in range(19)]]
        there.provider.usage = Usage(input=400, output=200)

        async def until_exhausted(session: AsyncSession) -> None:
            while True:
                try:
                    await there.talking.run(session.id, request)
                except BudgetExhausted:
                    return

        await asyncio.gather(*(until_exhausted(sessions[number % len(sessions)]) for number in range(200)))
        account = await first.account()
        assert account.reserved == 0
        assert 0.95 * cap <= account.spent <= cap


async def test_auto_takes_the_cheap_model_for_what_is_easy() -> None:
    async with stage() as there:
        common = there.services.common
        models = msgspec.structs.replace(common.calling.models, default="acme/large", cheap="acme/small")
        common.calling = Calling(models, common.ambient, {"acme": there.provider}, prices=DEARER)
        common.pricing = Pricing(DEARER)
        session = await there.session(model="auto")
        await there.talking.run(session.id, TurnRequest(content="Hi"))
        hard = "1. Why? 2. How? 3. When?\n```\nx = f(y);\nz = g(x);\n```\n" + "Consider every case. " * 200
        await there.talking.run(session.id, TurnRequest(content=hard))
        assert [ask.model for ask in there.provider.asked] == ["small", "large"]


async def test_erasing_a_session_forgets_its_answers() -> None:
    async with stage() as there:
        one, two = await there.session(), await there.session()
        request = TurnRequest(content="What is it?", cache="exact")
        await there.talking.run(one.id, request)
        await one.erase()
        assert (await there.talking.run(two.id, request)).cached == ""
