"""Calling code that is not ours, from a blocking program and from an event loop."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from perdure.services.foreign import Late, asked, settled
from perdure.waiting import drive

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def plain(given: int) -> tuple[int, str, int]:
    return given, WHO.get(), threading.get_ident()


async def later(given: int) -> tuple[int, str, int]:
    await asyncio.sleep(0)
    return plain(given)


def promising(given: int) -> Any:
    return later(given)


@pytest.mark.parametrize("function", [plain, later, promising])
@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_blocking_program_gets_the_answer_of_any_function_with_its_context(function: Any, seconds: Any) -> None:
    token = WHO.set("ana")
    assert drive(asked(function, 7, seconds=seconds))[:2] == (7, "ana")
    WHO.reset(token)


@pytest.mark.parametrize("function", [plain, later, promising])
@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_so_does_a_task_and_what_is_async_stays_on_its_loop(function: Any, seconds: Any) -> None:
    token = WHO.set("ana")
    number, who, thread = await asked(function, 7, seconds=seconds)
    assert (number, who) == (7, "ana")
    assert (thread == threading.get_ident()) == (function is not plain)
    WHO.reset(token)


class Odd(BaseException):
    """Nothing that anybody expects."""


@pytest.mark.parametrize("error", [OSError, Odd, TimeoutError])
async def test_what_it_raises_is_raised(error: type[BaseException]) -> None:
    def fails() -> None:
        raise error("so")

    async def fails_later() -> None:
        fails()

    for function in (fails, fails_later):
        with pytest.raises(error, match="so"):
            await asked(function, seconds=60.0)
        work = asyncio.to_thread(drive, asked(function, seconds=60.0))
        with pytest.raises(error, match="so"):
            await work


async def test_a_task_that_is_late_is_cancelled_and_a_thread_left_behind() -> None:
    release, cancelled = threading.Event(), asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Late):
        await asked(never, seconds=0.01)
    assert cancelled.is_set()
    try:
        with pytest.raises(Late):
            await asked(release.wait, seconds=0.01)
        with pytest.raises(Late):
            await asyncio.to_thread(drive, asked(release.wait, seconds=0.01))
    finally:
        release.set()


async def test_an_answer_is_awaited_only_if_it_can_be() -> None:
    assert await settled(5) == 5
    assert (await settled(later(5)))[0] == 5


def test_a_blocking_program_can_await_too() -> None:
    assert drive(settled(5)) == 5
    assert drive(settled(later(5)))[0] == 5
