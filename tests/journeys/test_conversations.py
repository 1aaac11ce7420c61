"""Sessions that talk to models, as callers see them: in both colours, and over HTTP just the same."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import (
    BranchRefused,
    Invalid,
    KeyReused,
    LimitReached,
    NotFound,
    Suspended,
    Terminal,
    TurnRefused,
    UnknownModel,
)
from perdure.models import Delta, PieceCame, Result, Text, Tool, TurnBegan, TurnEnded

LOOK = {
    "name": "look",
    "description": "Look at a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}


async def streamed(session: Any, *args: Any, **more: Any) -> list[Any]:
    """The events of a turn, in either colour."""
    found = session.stream(*args, **more)
    return [event async for event in found] if hasattr(found, "__aiter__") else list(await found)


async def test_what_is_said_is_answered_and_both_are_in_the_log(db: Any) -> None:
    session = await db.create("trip")
    outcome = await session.send("Is there a train?")
    assert (outcome.status, outcome.turn, outcome.session) == ("finished", 1, session.id)
    assert outcome.text.startswith("You said: “Is there a train?”")
    assert outcome.usage.output > 0
    [turn] = await session.turns()
    assert [message.content for message in turn.messages] == ["Is there a train?", outcome.text]
    assert (await session.info()).version == outcome.version


async def test_a_stream_says_all_that_the_answer_says(db: Any) -> None:
    session = await db.create("trip")
    events = await streamed(session, "Say it slowly")
    assert isinstance(events[0], TurnBegan)
    assert isinstance(events[-1], TurnEnded)
    deltas = [event.piece.text for event in events if isinstance(event, PieceCame) and isinstance(event.piece, Delta)]
    assert "".join(deltas) == events[-1].outcome.text
    assert len(deltas) > 3


async def test_tools_of_the_caller_s_are_asked_for_and_answered(db: Any) -> None:
    session = await db.create("trip")
    asked = await session.send("call look Lisbon", tools=[LOOK])
    assert asked.status == "tools"
    [call] = asked.waiting
    assert (call.name, call.arguments, call.approval) == ("look", {"place": "Lisbon"}, False)
    with pytest.raises(TurnRefused, match="waits for"):
        await session.send("and then?")
    done = await session.send(results={call.id: "a river"}, tools=[Tool(name="look")])
    assert (done.status, done.turn, done.text) == ("finished", 1, "look answered: a river.")


async def test_results_may_be_failures(db: Any) -> None:
    session = await db.create("trip")
    [call] = (await session.send("call look Lisbon", tools=[LOOK])).waiting
    failed = Result(call=call.id, content=(Text(text="too dark"),), failed=True)
    assert (await session.send(results=[failed])).text == "look failed: too dark."


async def test_the_same_key_is_one_turn(db: Any) -> None:
    session = await db.create("trip")
    first = await session.send("Hello", key="k")
    again = await session.send("Hello", key="k")
    assert (again.turn, again.text) == (first.turn, first.text)
    with pytest.raises(KeyReused):
        await session.send("Something else", key="k")
    assert len(await session.turns()) == 1


async def test_a_steer_and_a_follow_up_are_before_the_model_in_the_next_turn(db: Any) -> None:
    session = await db.create("trip")
    await session.send("Hello")
    version = (await session.info()).version
    assert await session.steer("Take the train") == version + 1
    assert await session.follow_up("Look at the prices") == version + 2
    context = await session.context("And now?")
    last = "".join(block.text for block in context.messages[-1].blocks)
    assert "Take the train" in last
    assert "Look at the prices" in last
    assert "And now?" in last
    await session.send("And now?")
    later = await session.context("Once more")
    assert "Look at the prices" not in "".join(block.text for block in later.messages[-1].blocks)


async def test_a_context_says_what_is_in_it_and_why(db: Any) -> None:
    session = await db.create("trip", config={"system_prompt": "Be brief."})
    await session.write_scratchpad("window seat")
    context = await session.context("Hello", model="offline")
    assert [portion.name for portion in context.portions][-1] == "scratchpad"
    assert all(portion.why for portion in context.portions)
    assert sum(portion.tokens for portion in context.portions) == context.tokens
    assert [block.text for block in context.system] == ["Be brief."]


async def test_nothing_runs_so_nothing_is_interrupted_and_nothing_waits(db: Any) -> None:
    session = await db.create("trip")
    assert await session.interrupt() is False
    assert await session.approvals() == ()
    with pytest.raises(TurnRefused, match="does not wait"):
        await session.approve("c1")


async def test_a_turn_that_waits_is_interrupted(db: Any) -> None:
    session = await db.create("trip")
    await session.send("call look Lisbon", tools=[LOOK])
    assert await session.interrupt("changed my mind") is True
    assert (await session.turns())[0].status == "interrupted"
    assert (await session.send("Hello")).status == "finished"


async def test_a_child_reports_to_its_parent(db: Any) -> None:
    session = await db.create("trip", owner="ana")
    child = await session.spawn("Find a hotel", context="In Lisbon", wait=True)
    assert (child.status, child.task) == ("finished", "Find a hotel")
    assert "Find a hotel" in child.result
    assert await session.children() == (child,)
    handle = await db.session(child.session)
    assert ((await handle.info()).phase, (await handle.info()).parent) == ("completed", session.id)
    with pytest.raises(BranchRefused, match="children cannot branch"):
        await handle.branch()
    assert "Find a hotel" in "".join(
        block.text for message in (await session.context("So?")).messages for block in message.blocks
    )


async def test_children_work_side_by_side_and_are_waited_for(db: Any) -> None:
    session = await db.create("trip", owner="ana")
    begun = [await session.spawn(f"task {number}", return_format="full", key=f"k{number}") for number in range(3)]
    assert (await session.spawn("task 0", return_format="full", key="k0")).session == begun[0].session
    done = await session.wait_for_children([child.session for child in begun], seconds=30)
    assert [(child.session, child.status) for child in done] == [(child.session, "finished") for child in begun]
    assert [item["role"] for item in done[0].result] == ["user", "assistant"]
    assert await session.wait_for_children() == ()
    with pytest.raises(NotFound, match="spawned no"):
        await session.wait_for_children(["nobody"], seconds=1)


async def test_a_child_that_has_ended_spawns_nothing(db: Any) -> None:
    session = await db.create("trip", owner="ana", config={"max_cost": 10_000_000})
    child = await session.spawn("Find a hotel", max_cost=1_000_000, wait=True)
    assert (child.max_cost, child.error) == (1_000_000, "")
    with pytest.raises(Terminal):
        await (await db.session(child.session)).spawn("more")


async def test_what_cannot_be_said_is_refused_and_the_session_goes_on(db: Any) -> None:
    session = await db.create("trip", config={"max_rounds": 2})
    for wrong in (
        session.steer(" "),
        session.follow_up(5),
        session.send("x", busy="later"),
        session.send("x", max_tokens=0),
        session.send("x", tools=["look"]),
        session.send("x", results=["none"]),
        session.spawn(""),
    ):
        with pytest.raises(Invalid):
            await wrong
    with pytest.raises(TypeError, match="speed"):
        await session.send("x", speed=3)
    with pytest.raises(UnknownModel):
        await session.send("x", model="nobody/knows")
    assert (await session.send("Hello")).status == "finished"
    assert (await session.send("Hello")).status == "finished"
    with pytest.raises(LimitReached) as refusal:
        await session.send("Hello")
    assert refusal.value.fields["limit"] == "rounds"
    await session.suspend("night")
    with pytest.raises(Suspended):
        await session.send("Hello")


async def test_many_sessions_talk_at_the_same_time(db: Any) -> None:
    sessions = [await db.create(f"trip {number}") for number in range(5)]
    outcomes = await asyncio.gather(*[session.send(f"Hello {session.id}") for session in sessions])
    assert [outcome.session for outcome in outcomes] == [session.id for session in sessions]
    assert all(outcome.session in outcome.text for outcome in outcomes)
