"""Tasks that come together are served together, and one that comes alone waits for nobody."""

import asyncio

import pytest

from perdure.stores.gathering import Gathering


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_who_comes_alone_is_served_after_this_turn() -> None:
    gathering, calls = Gathering(), [0]

    def call(_: int) -> None:
        calls[0] += 1

    for done in range(1, 5):
        gathering(call)
        assert calls[0] == done - 1
        await turns(1)
        assert calls[0] == done


async def test_those_who_come_within_one_turn_are_served_once() -> None:
    gathering, calls = Gathering(), list[int]()
    for _ in range(9):
        gathering(calls.append)
    await turns(1)
    assert calls == [9]


async def test_after_a_crowd_those_of_the_next_turns_are_waited_for() -> None:
    gathering, calls = Gathering(), list[int]()

    def ask() -> None:
        gathering(calls.append)

    ask()
    ask()
    await turns(1)
    assert calls == [2]
    for _ in range(5):  # one after the other, a turn apart
        ask()
        await turns(2)
        assert calls == [2]
    await turns(gathering.QUIET + 1)
    assert calls == [2, 5]
    ask()
    await turns(2 * gathering.QUIET)
    ask()
    await turns(1)
    assert len(calls) == 4, "alone again, and waiting for nobody"


async def test_nobody_waits_for_ever_for_others_who_keep_coming() -> None:
    gathering, calls = Gathering(), list[int]()
    gathering(calls.append)
    gathering(calls.append)
    await turns(1)
    loop = asyncio.get_running_loop()
    until = loop.time() + 20 * gathering.LONGEST
    while loop.time() < until and len(calls) < 3:
        gathering(calls.append)
        await turns(1)
    assert len(calls) >= 3


async def test_nobody_waits_for_the_end_of_a_turn_in_which_nobody_else_can_come() -> None:
    gathering = Gathering()
    assert gathering.alone()
    asyncio.get_running_loop().call_soon(print)
    assert not gathering.alone(), "somebody else has work to do in this turn"
    await turns(1)
    assert gathering.alone()
    gathering(print)
    assert not gathering.alone(), "another one has come in this turn"


async def test_one_who_comes_alone_again_and_again_lets_a_turn_end_now_and_then() -> None:
    gathering = Gathering()
    found = [gathering.alone() for _ in range(3 * (gathering.IN_A_ROW + 1))]
    assert found == 3 * [*gathering.IN_A_ROW * [True], False]


async def test_one_who_is_alone_holds_up_a_turn_for_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    gathering, now = Gathering(), [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    found = []
    for _ in range(4):
        found.append(gathering.alone())
        now[0] += 0.6 * gathering.LONGEST
    assert found == [True, True, False, True]


async def test_after_a_crowd_nobody_is_alone_until_one_was() -> None:
    gathering = Gathering()
    for _ in range(2):
        gathering(lambda _: None)
    await turns(1)
    assert not gathering.alone()
    gathering(lambda _: None)
    await turns(gathering.QUIET + 2)
    assert gathering.alone()


def test_of_a_loop_that_tells_nothing_the_end_of_the_turn_is_waited_for() -> None:
    class Silent:
        def time(self) -> float:
            return 0.0

    gathering, loop = Gathering(), Silent()
    asyncio._set_running_loop(loop)  # type: ignore[arg-type]  # what another kind of loop does
    try:
        assert not gathering.alone()
    finally:
        asyncio._set_running_loop(None)
