"""Steers: each cuts a turn short once, whoever says it and whenever."""

import asyncio

import pytest

from perdure.core.talk.turning import TurnRequest
from tests.services.talkers import says, stage, words

PATIENCE = 20


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running turn looks often at what others have said."""
    monkeypatch.setattr("perdure.services.running.KEEP_AFTER", 0.01)


@pytest.mark.parametrize("key", [None, "k"], ids=["here", "as from elsewhere"])
async def test_a_steer_cuts_a_turn_short_once(key: str | None) -> None:
    async with stage() as there:
        session = await there.session()
        first, second, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
        there.provider.then([first.set, gate, *says("never")], [second.set, gate, *says("as you wish")])
        turn = asyncio.create_task(there.talking.run(session.id, TurnRequest(content="Go")))
        async with asyncio.timeout(PATIENCE):
            await first.wait()
            await there.talking.steer(session.id, "Turn around", key=key)  # before the turn has looked even once
            await second.wait()
            await asyncio.sleep(0.2)  # in which it looks a dozen times
            gate.set()
            outcome = await turn
        assert (outcome.status, outcome.text) == ("finished", "as you wish")
        assert len(there.provider.asked) == 2
        assert "Turn around" in words(there.provider.asked[1].messages[-1])
        assert (await there.kinds(session)).count("steered") == 1


async def test_a_steer_that_comes_when_the_turn_is_almost_over_is_said_once() -> None:
    async with stage() as there:
        session = await there.session()
        for number in range(20):
            turn = asyncio.create_task(there.talking.run(session.id, TurnRequest(content="Go")))
            for _ in range(number):
                await asyncio.sleep(0)
            await there.talking.steer(session.id, f"steer {number}")
            await turn
        assert (await there.kinds(session)).count("steered") == 20
