"""The fixed ambient repeats itself, and its time passes only when told to."""

import asyncio

import pytest

from perdure.testing import FixedAmbient
from perdure.waiting import drive


def test_time_stands_still_until_it_is_advanced() -> None:
    ambient = FixedAmbient(now=1_000_000)
    assert ambient.now() == ambient.now() == 1_000_000
    assert ambient.advance(1.5) == ambient.now() == 2_500_000


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        FixedAmbient().advance(-1)


def test_chance_repeats_itself_and_depends_on_the_seed() -> None:
    drawn = [[FixedAmbient(seed=seed).random(10) for seed in (b"a", b"a", b"b")] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][1] != drawn[0][2]


@pytest.mark.parametrize("count", [0, 1, 10, 32, 33, 1000])
def test_chance_gives_as_many_bytes_as_asked_and_never_the_same(count: int) -> None:
    ambient = FixedAmbient()
    first, second = ambient.random(count), ambient.random(count)
    assert len(first) == len(second) == count
    assert count < 10 or first != second


def test_a_blocking_sleep_only_moves_the_clock() -> None:
    ambient = FixedAmbient()
    before = ambient.now()
    drive(ambient.sleep(3600))
    assert ambient.now() - before == 3_600_000_000


async def test_a_sleeping_task_lets_others_work() -> None:
    ambient = FixedAmbient()
    done: list[str] = []

    async def work() -> None:
        done.append("worked")

    task = asyncio.ensure_future(work())
    while not done:
        await ambient.sleep(1)
    await task
    assert done == ["worked"]
