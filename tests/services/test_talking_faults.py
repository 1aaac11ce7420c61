"""What could go wrong while a turn runs, and does not: caches that forget, disks that fail, people who come at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import Invalid, StoreBusy, TurnRefused
from perdure.core.session import commands as do
from perdure.core.session.steering import Steered
from perdure.core.session.turns import CallStatus, ToolFinished
from perdure.core.talk.parts import Result, Text, Usage
from perdure.core.talk.turning import TurnRequest
from perdure.services import running as module
from tests.services.talkers import COST, says, stage, wants, words
from tests.services.test_talking import events_of, says_until, streaming


async def test_a_session_that_so_many_others_pushed_out_of_the_cache_is_answered_all_the_same() -> None:
    async with stage() as there:
        session = await there.session(max_cost=1_000_000)
        gate = asyncio.Event()
        there.provider.then(says_until(gate))
        running = await streaming(there, session, TurnRequest(content="Hi"))
        there.services.sessions.loader.forget(session.id)
        gate.set()
        await running.done.wait()
        assert running.outcome.text == "one two"
        assert (await session.account()).spent == COST


async def test_erasing_a_branch_while_its_answer_comes_charges_what_was_set_aside() -> None:
    async with stage() as there:
        session = await there.session(max_cost=1_000_000)
        branch = await session.branch()
        gate = asyncio.Event()
        there.provider.then(says_until(gate))
        running = await streaming(there, branch, TurnRequest(content="Hi"))
        held = (await session.account()).reserved
        await branch.erase()
        account = await session.account()
        assert (account.spent, account.reserved) == (held, 0)
        gate.set()
        await asyncio.wait_for(running.done.wait(), 20)
        assert running.error is not None


async def test_steers_that_come_together_are_all_in_the_log_and_before_the_model() -> None:
    async with stage() as there:
        session = await there.session()
        there.provider.then(says_until(asyncio.Event(), "By plane"), says("fine"))
        running = await streaming(there, session, TurnRequest(content="How?"))
        texts = [f"steer {number}" for number in range(4)]
        versions = await asyncio.gather(
            *(there.talking.steer(session.id, text, agent="ann", key=f"key {text}") for text in texts)
        )
        await running.done.wait()
        assert [item.text for item in await events_of(session, Steered)] == texts
        assert len(set(versions)) == 4
        assert versions[0] == await there.talking.steer(session.id, texts[0], agent="ann", key=f"key {texts[0]}")
        last = there.provider.asked[-1].messages
        assert [said.role for said in last] == ["user", "assistant", "user"]
        assert all(text in words(last[-1]) for text in texts)
        assert running.outcome.text == "fine"


async def test_a_failing_look_does_not_end_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_AFTER", 0.01)
    path = str(tmp_path / "a.db")
    async with stage(path) as here, stage(path) as there:
        session = await here.session()
        gate, failed = asyncio.Event(), asyncio.Event()
        here.provider.then(says_until(gate))
        running = await streaming(here, session, TurnRequest(content="Hi"))
        loader = here.services.sessions.loader
        load = loader.load

        async def failing(id: Any) -> Any:
            failed.set()
            raise StoreBusy("not now")

        monkeypatch.setattr(loader, "load", failing)
        await asyncio.wait_for(failed.wait(), 20)
        monkeypatch.setattr(loader, "load", load)
        await asyncio.sleep(0.05)
        assert not running._keeper.done()
        assert (await there.talking.outcome(session.id, 1)).status == "open"
        gate.set()
        await running.done.wait()
        assert running.outcome.text == "one two"


async def test_an_interrupt_is_stronger_than_a_steer_and_its_reason_is_only_told() -> None:
    async with stage() as there:
        session = await there.session()
        there.provider.then(says_until(asyncio.Event(), "half of it"))
        running = await streaming(there, session, TurnRequest(content="Hi"))
        steering = asyncio.create_task(there.talking.steer(session.id, "otherwise"))
        await asyncio.sleep(0)
        assert await there.talking.interrupt(session.id, "steered")
        await steering
        assert running.outcome.status == "interrupted"
        assert running.outcome.reason == "steered"
        for reserved in ("crash", "shutdown"):
            with pytest.raises(Invalid):
                await there.talking.interrupt(session.id, reserved)


async def test_turns_that_are_begun_together_are_refused_but_for_one(tmp_path: Path) -> None:
    async with stage(str(tmp_path / "a.db")) as there:
        session = await there.session()
        gate = asyncio.Event()
        there.provider.then(says_until(gate))

        async def one() -> str:
            try:
                return (await there.talking.run(session.id, TurnRequest(content="Hi"))).status
            except TurnRefused:
                return "refused"

        asked = [asyncio.create_task(one()) for _ in range(4)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        assert sorted(await asyncio.gather(*asked)) == ["finished", "refused", "refused", "refused"]


async def test_nobody_brings_results_for_what_runs_here_or_waits_for_a_person() -> None:
    async with stage() as there:
        session = await there.session()

        async def pay() -> str:
            return "paid"

        there.services.common.tooling.register("pay", pay, approval=True)
        there.provider.then(wants(("c1", "pay", {})))
        assert (await there.talking.run(session.id, TurnRequest(content="Pay"))).status == "parked"
        forged = Result(call="c1", content=(Text(text="paid 500"),))
        with pytest.raises(TurnRefused, match="no call that waits"):
            await there.talking.run(session.id, TurnRequest(results=(forged,)))
        open = (await session.state()).turns.open
        assert open is not None
        assert open.calls["c1"].status is CallStatus.PARKED


async def test_a_steer_among_results_of_tools_breaks_nothing(tmp_path: Path) -> None:
    async with stage(str(tmp_path / "a.db")) as there:
        for number in range(30):
            session = await there.session()

            async def quick(n: int) -> str:
                await asyncio.sleep(0.0005 * n)
                return str(n)

            if number == 0:
                there.services.common.tooling.register("quick", quick)
            calls = [(f"c{n}", "quick", {"n": n}) for n in range(4)]
            there.provider.then(wants(*calls), says("done"), says("done"))
            begun = await there.talking.begin(session.id, TurnRequest(content="Go"))
            assert begun.running is not None
            await asyncio.sleep(0.0004 * (number % 10))
            await there.talking.steer(session.id, "otherwise")
            await begun.running.done.wait()
            assert begun.running.outcome is not None, begun.running.error
            assert begun.running.outcome.status == "finished"
            assert len(await events_of(session, ToolFinished)) in (0, 4)
            there.provider.script.clear()


async def test_a_turn_that_somebody_else_closed_tells_what_it_truly_cost() -> None:
    async with stage() as there:
        session = await there.session(max_cost=1_000_000)
        gate = asyncio.Event()
        there.provider.then([*says("one two", usage=Usage(input=10, output=5))[:3], gate, *says("one two")[3:]])
        running = await streaming(there, session, TurnRequest(content="Hi"))
        await there.services.sessions.handle(session.id, do.Recover(reason="suspend"))
        assert (await session.account()).spent > COST
        gate.set()
        await running.done.wait()
        assert (await session.account()).spent == COST


async def test_a_model_that_was_cut_short_is_asked_to_go_on_in_the_users_name() -> None:
    async with stage() as there:
        session = await there.session()
        there.provider.then(says_until(asyncio.Event(), "half of it"))
        await streaming(there, session, TurnRequest(content="Hi"))
        await there.talking.interrupt(session.id)
        await there.talking.run(session.id, TurnRequest())
        assert [said.role for said in there.provider.asked[-1].messages] == ["user", "assistant", "user"]
