"""Calling code that is not ours, from a blocking program and from an event loop."""

import asyncio
import os
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from perdure.services import foreign
from perdure.services.foreign import Attempts, GaveUp, Late, asked, called, fault, settled
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


@pytest.mark.parametrize("error", [OSError, TimeoutError, KeyboardInterrupt])
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


@pytest.mark.parametrize("error", [SystemExit, Odd, GeneratorExit])
async def test_what_would_end_more_than_itself_is_a_failure(error: type[BaseException]) -> None:
    def fails() -> None:
        raise error("so")

    async def fails_later() -> None:
        fails()

    said = f"it raised {error.__name__}: so"
    for ask in (called, asked):
        with pytest.raises(GaveUp, match=said):
            await ask(fails)
        for function in (fails, fails_later):
            with pytest.raises(GaveUp, match=said):
                await asyncio.to_thread(drive, ask(function))
    if error is not GeneratorExit:  # which whoever gives up waiting raises in the same place
        with pytest.raises(GaveUp, match=said):
            await called(fails_later)
        with pytest.raises(GaveUp, match=said):
            await asked(fails_later, seconds=60.0)


def test_whoever_gives_up_waiting_may() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        waiting = called(waits)
        waiting.send(None)
        waiting.close()

    asyncio.run(main())


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


# ── cancellations ─────────────────────────────────────────────────────────────────────────────────


def gives_up() -> None:
    raise asyncio.CancelledError


async def gives_up_later() -> None:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [gives_up, gives_up_later])
@pytest.mark.parametrize("ask", [called, asked, lambda function: asked(function, seconds=60.0)])
async def test_a_cancellation_that_nobody_asked_for_is_a_failure(function: Any, ask: Any) -> None:
    with pytest.raises(GaveUp) as failure:
        await ask(function)
    assert fault(failure.value) == "it was cancelled from within, and nobody had asked for that"
    with pytest.raises(GaveUp):
        await asyncio.to_thread(lambda: drive(ask(function)))


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("colour", ["plain", "async"])
async def test_a_cancellation_from_outside_is_one(seconds: Any, colour: str) -> None:
    begun, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def plain() -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(asked(plain if colour == "plain" else waits, seconds=seconds))
    await begun.wait()
    task.cancel()
    try:
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        release.set()
    assert task.cancelled()


async def test_whoever_cancels_the_task_from_within_the_call_cancels_it() -> None:
    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    task = asyncio.ensure_future(asked(cancels))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


# ── calls that are made again ─────────────────────────────────────────────────────────────────────


class Slow:
    """A plain function that takes until it is released, and counts how often it is called."""

    def __init__(self) -> None:
        self.release, self.ended = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        self.release.wait()
        self.ended.set()
        return "done"


def blockingly(attempts: Attempts, key: str, function: Any, seconds: float) -> Any:
    return drive(attempts.asked(key, function, seconds=seconds))


async def as_a_task(attempts: Attempts, key: str, function: Any, seconds: float) -> Any:
    return await attempts.asked(key, function, seconds=seconds)


@pytest.mark.parametrize("ask", [as_a_task, lambda *given: asyncio.to_thread(blockingly, *given)])
async def test_a_late_call_is_not_made_twice_at_once_and_its_end_is_the_answer(ask: Any) -> None:
    attempts, slow = Attempts(), Slow()
    try:
        with pytest.raises(Late):
            await ask(attempts, "k", slow, 0.01)
        with pytest.raises(Late):
            await ask(attempts, "k", slow, 3600.0)  # not waited for again
        assert slow.calls == 1
    finally:
        slow.release.set()
    late = attempts._late["k"]
    await asyncio.to_thread(late.wait)
    assert await ask(attempts, "k", slow, 3600.0) == "done"
    assert slow.calls == 1
    assert await ask(attempts, "k", slow, 3600.0) == "done"
    assert slow.calls == 2


async def test_late_calls_are_known_by_their_keys_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "REMEMBERED", 2)
    attempts, slow = Attempts(), Slow()
    try:
        for key in "abc":
            with pytest.raises(Late):
                await attempts.asked(key, slow, seconds=0.01)
        assert slow.calls == 3
        assert list(attempts._late) == ["b", "c"]
    finally:
        slow.release.set()


async def test_a_task_that_is_late_is_cancelled_and_made_again() -> None:
    calls = []

    async def never() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    attempts = Attempts()
    for _ in range(2):
        with pytest.raises(Late):
            await attempts.asked("k", never, seconds=0.01)
    assert len(calls) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer Pythons warn of threads: they are the point
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_does_not_wait_for_threads_of_its_parent() -> None:
    attempts, slow = Attempts(), Slow()
    with pytest.raises(Late):
        blockingly(attempts, "k", slow, 0.01)
    child = os.fork()
    if not child:
        os._exit(0 if blockingly(attempts, "k", lambda: "anew", 60.0) == "anew" else 1)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        slow.release.set()
