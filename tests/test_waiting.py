"""Waiting: one code path for tasks and threads, nobody forgotten, nobody overtaken."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, Event, Thread
from types import FrameType
from typing import Any

import pytest

from perdure import waiting
from perdure.steady import unbroken
from perdure.waiting import Bell, Lane, Ticket, blocking, deliver_all, drive, wholly

PATIENCE = 30


def start(work: Callable[[], Any]) -> Thread:
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(*threads: Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


async def turns(count: int = 5) -> None:
    """Let every ready task run a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def finished(*tasks: asyncio.Future[None]) -> None:
    """Wait for all, however they end; a task that was forgotten fails the test instead of hanging it."""
    done, forgotten = await asyncio.wait(tasks, timeout=PATIENCE)
    assert not forgotten
    assert [task for task in done if not task.cancelled() and task.exception()] == []


# ── drive ─────────────────────────────────────────────────────────────────────────────────────────


def test_drive_runs_a_coroutine_to_its_value() -> None:
    async def work() -> int:
        return 42

    assert drive(work()) == 42


def test_drive_raises_what_the_coroutine_raises_and_leaves_blocking_mode() -> None:
    async def work() -> None:
        assert blocking()
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        drive(work())
    assert not blocking()


def test_blocking_mode_belongs_to_one_thread() -> None:
    seen: list[bool] = []

    async def work() -> None:
        join(start(lambda: seen.append(blocking())))
        seen.append(blocking())

    drive(work())
    assert seen == [False, True]


def test_drives_nest() -> None:
    async def inner() -> bool:
        return blocking()

    async def outer() -> tuple[bool, bool]:
        return drive(inner()), blocking()

    assert drive(outer()) == (True, True)
    assert not blocking()


# An interrupt may come before a coroutine's first step; that is no mistake of ours.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_interrupt_between_any_two_steps_leaves_no_thread_in_blocking_mode() -> None:
    left = 0

    def stepped(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        left -= event == "opcode"
        if event == "opcode" and left == 0:
            raise KeyboardInterrupt
        return stepped

    def entered(frame: FrameType, _: str, __: Any) -> Any:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return stepped if frame.f_code is drive.__code__ else None

    async def inner() -> bool:
        return blocking()

    async def outer() -> tuple[bool, bool]:
        return drive(inner()), blocking()

    steps = 0
    while left <= 0:
        left = steps = steps + 1
        work = outer()
        try:
            sys.settrace(entered)
            drive(work)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert not blocking()
        assert drive(outer()) == (True, True)
        assert not blocking()
    assert steps > 50, "hardly any step was tried"


def test_a_call_made_by_a_signal_handler_leaves_the_one_it_interrupts_blocking() -> None:
    async def work() -> bool:
        return blocking()

    class Driven(list[Any]):
        """As if a signal came just before the first step."""

        def append(self, item: Any) -> None:
            super().append(item)
            if len(self) == 1:
                assert drive(work())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting._mode, "driven", Driven())
        assert drive(work())


def test_drive_refuses_a_coroutine_that_needs_an_event_loop() -> None:
    closed: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="event loop"):
        drive(work())
    assert closed == [True]
    assert not blocking()


# ── tickets ───────────────────────────────────────────────────────────────────────────────────────


def test_a_delivered_ticket_is_had_at_once() -> None:
    ticket: Ticket[str] = Ticket()
    ticket.deliver("here")

    async def work() -> str:
        return await ticket

    assert drive(work()) == "here"
    assert asyncio.run(work()) == "here"
    assert ticket.wait() is True


def test_a_failed_ticket_raises_for_everyone() -> None:
    ticket: Ticket[str] = Ticket()
    ticket.fail(LookupError("broken"))

    async def work() -> str:
        return await ticket

    for _ in range(2):
        with pytest.raises(LookupError, match="broken"):
            drive(work())


def test_none_is_a_result_like_any_other() -> None:
    ticket: Ticket[None] = Ticket()
    ticket.deliver(None)
    assert ticket.done
    ticket.result()


def test_a_thread_waits_for_a_ticket_from_another_thread() -> None:
    ticket: Ticket[str] = Ticket()
    got: list[str] = []

    async def work() -> None:
        got.append(await ticket)

    waiting = [start(lambda: drive(work())) for _ in range(4)]
    ticket.deliver("here")
    join(*waiting)
    assert got == ["here"] * 4


def test_a_wait_that_times_out_says_so_and_a_later_delivery_is_harmless() -> None:
    ticket: Ticket[int] = Ticket()
    assert ticket.wait(0) is False
    ticket.deliver(1)
    assert ticket.wait(0) is True
    assert ticket.result() == 1


async def test_a_task_waits_for_a_ticket_from_a_thread() -> None:
    ticket: Ticket[str] = Ticket()

    async def work() -> str:
        return await ticket

    tasks = [asyncio.ensure_future(work()) for _ in range(3)]
    await turns()
    thread = start(lambda: ticket.deliver("here"))
    assert await asyncio.gather(*tasks) == ["here"] * 3
    join(thread)


async def test_a_cancelled_task_stops_waiting_and_the_others_still_get_theirs() -> None:
    ticket: Ticket[str] = Ticket()

    async def work() -> str:
        return await ticket

    leaving, staying = asyncio.ensure_future(work()), asyncio.ensure_future(work())
    await turns()
    leaving.cancel()
    ticket.deliver("here")
    assert await staying == "here"
    with pytest.raises(asyncio.CancelledError):
        await leaving


def test_one_ticket_serves_tasks_of_several_loops_and_plain_threads() -> None:
    ticket: Ticket[str] = Ticket()
    ready = Barrier(4, timeout=PATIENCE)
    got: list[str] = []

    async def on_a_loop() -> None:
        task = asyncio.ensure_future(take())
        await turns()
        ready.wait()
        got.append(await task)

    async def take() -> str:
        return await ticket

    def on_a_thread() -> None:
        ready.wait()
        got.append(drive(take()))

    threads = [start(lambda: asyncio.run(on_a_loop())) for _ in range(2)]
    threads.append(start(on_a_thread))
    ready.wait()
    ticket.deliver("here")
    join(*threads)
    assert got == ["here"] * 3


def test_delivering_to_a_loop_that_has_closed_is_harmless() -> None:
    ticket: Ticket[str] = Ticket()

    async def wait_in_vain() -> None:
        async def work() -> str:
            return await ticket

        task = asyncio.ensure_future(work())
        await turns()
        task.cancel()

    asyncio.run(wait_in_vain())
    ticket.deliver("late")
    assert ticket.result() == "late"


async def test_many_tickets_are_delivered_together() -> None:
    tickets: list[Ticket[int]] = [Ticket() for _ in range(5)]

    async def take(ticket: Ticket[int]) -> int:
        return await ticket

    tasks = [asyncio.ensure_future(take(ticket)) for ticket in tickets]
    await turns()
    refused = LookupError("third")
    results = [(ticket, index, refused if index == 2 else None) for index, ticket in enumerate(tickets)]
    join(start(lambda: deliver_all(results)))
    assert await asyncio.gather(*tasks, return_exceptions=True) == [0, 1, refused, 3, 4]


def test_what_was_delivered_may_be_delivered_again() -> None:
    ticket: Ticket[int] = Ticket()
    got: list[int] = []

    async def work() -> None:
        got.append(await ticket)

    waiting = [start(lambda: drive(work())) for _ in range(3)]
    for _ in range(3):
        deliver_all([(ticket, 1, None)])
        ticket.deliver(1)
    join(*waiting)
    assert got == [1, 1, 1]


async def test_a_loop_needs_no_waking_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, ticket, woken = asyncio.get_running_loop(), Ticket[int](), list[int]()

    async def work() -> None:
        woken.append(await ticket)

    task = asyncio.ensure_future(work())
    await turns()
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: pytest.fail("through the socket of the loop"))
    ticket.deliver(7)
    await task
    assert woken == [7]


# ── work that must not stop half-way ─────────────────────────────────────────────────────────────


async def test_a_cancellation_waits_for_unbroken_work_and_then_goes_on() -> None:
    ticket: Ticket[None] = Ticket()
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        await ticket
        steps.append("ended")

    task = asyncio.ensure_future(unbroken(work()))
    await turns()
    for _ in range(2):
        task.cancel()
        await turns()
    assert not task.done()
    ticket.deliver(None)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["begun", "ended"]


async def test_unbroken_work_gives_back_its_value_or_its_error() -> None:
    async def work(error: Exception | None) -> int:
        if error:
            raise error
        return 42

    assert await unbroken(work(None)) == 42
    with pytest.raises(LookupError, match="inside"):
        await unbroken(work(LookupError("inside")))


async def test_unbroken_work_may_wait_for_anything() -> None:
    steps: list[Any] = []

    async def work() -> str:
        await asyncio.sleep(0)
        steps.append(asyncio.current_task())
        steps.append(await asyncio.to_thread(lambda: 1))
        await asyncio.sleep(0.001)
        steps.append(await asyncio.gather(asyncio.sleep(0, 2), asyncio.sleep(0, 3)))
        return "done"

    assert await unbroken(work()) == "done"
    assert steps == [asyncio.current_task(), 1, [2, 3]]


async def test_a_cancellation_of_unbroken_work_that_fails_tells_why() -> None:
    ticket: Ticket[None] = Ticket()

    async def work() -> None:
        await asyncio.sleep(0)
        await ticket

    task = asyncio.ensure_future(unbroken(work()))
    await turns()
    task.cancel()
    await turns()
    ticket.fail(LookupError("inside"))
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, LookupError)


async def test_unbroken_work_is_told_what_became_of_what_it_waits_for() -> None:
    def fails() -> None:
        raise LookupError("inside")

    async def work() -> list[str]:
        seen = []
        try:
            await asyncio.to_thread(fails)
        except LookupError as error:
            seen.append(str(error))
        other = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(other.cancel)
        try:
            await other
        except asyncio.CancelledError:
            seen.append("the other was cancelled")
        return seen

    assert await unbroken(work()) == ["inside", "the other was cancelled"]


@pytest.mark.parametrize("fails", [False, True])
async def test_unbroken_work_that_is_cancelled_takes_all_its_steps(fails: bool) -> None:
    tickets: list[Ticket[None]] = [Ticket(), Ticket(), Ticket()]
    steps: list[int] = []

    async def work() -> None:
        for number, ticket in enumerate(tickets):
            with suppress(LookupError):
                await ticket
            steps.append(number)

    task = asyncio.ensure_future(unbroken(work()))
    for ticket in tickets:
        await turns()
        task.cancel()
        await turns()
        if fails:
            ticket.fail(LookupError("inside"))
        else:
            ticket.deliver(None)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == [0, 1, 2]


async def test_a_time_limit_strikes_after_unbroken_work() -> None:
    done: list[bool] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        done.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await unbroken(work())
    assert done == [True]


async def test_a_cancellation_is_not_lost_when_what_the_work_waits_for_is_cancelled_too() -> None:
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> int:
        try:
            await other
        except asyncio.CancelledError:
            return 1
        return 0

    task = asyncio.ensure_future(unbroken(work()))
    await turns()
    task.cancel()
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_unbroken_work_ends_with_its_loop() -> None:
    left: list[str] = []

    async def work() -> None:
        try:
            await Ticket[None]()
        finally:
            left.append("ended")

    waiting = unbroken(work())
    waiting.send(None)
    waiting.close()
    assert left == ["ended"]


def test_unbroken_work_of_a_blocking_call_runs_on_its_thread() -> None:
    async def work() -> bool:
        return blocking()

    assert drive(unbroken(work())) is True


# ── lanes ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lane_lets_one_in_at_a_time() -> None:
    lane = Lane()
    inside: list[int] = []
    most: list[int] = []

    async def work(number: int) -> None:
        async with lane:
            inside.append(number)
            most.append(len(inside))
            await turns(2)
            inside.remove(number)

    await asyncio.gather(*(work(number) for number in range(20)))
    assert max(most) == 1
    assert lane.idle


async def test_a_lane_serves_in_order_of_arrival() -> None:
    lane = Lane()
    served: list[int] = []

    async def work(number: int) -> None:
        async with lane:
            await turns(1)
            served.append(number)

    await asyncio.gather(*(work(number) for number in range(20)))
    assert served == list(range(20))


async def test_whoever_comes_back_queues_behind_those_who_wait() -> None:
    lane = Lane()
    served: list[str] = []

    async def work(name: str) -> None:
        for _ in range(3):
            async with lane:
                await turns(1)
                served.append(name)

    await asyncio.gather(work("a"), work("b"))
    assert served == ["a", "b"] * 3


async def test_a_lane_is_free_again_after_an_error() -> None:
    lane = Lane()
    with pytest.raises(LookupError):
        async with lane:
            raise LookupError("inside")
    assert lane.idle
    async with lane:
        assert not lane.idle


async def test_a_cancelled_waiter_gives_up_its_place() -> None:
    lane = Lane()
    served: list[str] = []

    async def work(name: str) -> None:
        async with lane:
            served.append(name)

    async with lane:
        tasks = {name: asyncio.ensure_future(work(name)) for name in ("first", "second", "third")}
        await turns()
        tasks["second"].cancel()
        await turns()
    await finished(*tasks.values())
    assert served == ["first", "third"]
    assert lane.idle


async def test_a_waiter_cancelled_just_as_it_was_let_in_passes_the_lane_on() -> None:
    lane = Lane()
    served: list[str] = []

    async def work(name: str) -> None:
        async with lane:
            served.append(name)

    await lane.__aenter__()
    first, second = asyncio.ensure_future(work("first")), asyncio.ensure_future(work("second"))
    await turns()
    await lane.__aexit__()
    first.cancel()
    await finished(first, second)
    assert served == ["second"]
    assert lane.idle


async def test_cancelling_everyone_leaves_the_lane_free() -> None:
    lane = Lane()

    async def work() -> None:
        async with lane:
            await asyncio.Event().wait()

    tasks = [asyncio.ensure_future(work()) for _ in range(10)]
    await turns()
    for task in tasks:
        task.cancel()
    await finished(*tasks)
    assert lane.idle


def test_a_lane_keeps_threads_apart() -> None:
    lane = Lane()
    counted = [0]

    async def work() -> None:
        for _ in range(200):
            async with lane:
                seen = counted[0]
                counted[0] = seen + 1

    join(*[start(lambda: drive(work())) for _ in range(4)])
    assert counted == [800]
    assert lane.idle


def test_threads_and_tasks_share_a_lane() -> None:
    lane = Lane()
    counted = [0]

    async def work() -> None:
        for _ in range(50):
            async with lane:
                seen = counted[0]
                if not blocking():
                    await asyncio.sleep(0)
                counted[0] = seen + 1

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(4)))

    join(start(lambda: asyncio.run(several())), *[start(lambda: drive(work())) for _ in range(3)])
    assert counted == [350]
    assert lane.idle


def test_a_thread_that_waits_is_let_in_by_a_task_that_leaves() -> None:
    lane = Lane()
    entered, waiting = Event(), Event()
    order: list[str] = []

    async def task_side() -> None:
        async with lane:
            entered.set()
            assert await asyncio.to_thread(waiting.wait, PATIENCE)
            order.append("task")

    async def thread_side() -> None:
        waiting.set()
        async with lane:
            order.append("thread")

    loop = start(lambda: asyncio.run(task_side()))
    assert entered.wait(PATIENCE)
    join(start(lambda: drive(thread_side())), loop)
    assert order == ["task", "thread"]


# ── bells ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_ring_between_listening_and_waiting_is_not_missed() -> None:
    bell = Bell()
    heard = bell.heard()
    bell.ring()
    await bell.wait(heard, PATIENCE)
    assert bell.heard() == heard + 1


async def test_a_ring_wakes_every_task_that_waits() -> None:
    bell = Bell()
    tasks = [asyncio.ensure_future(bell.wait(bell.heard(), 10 * PATIENCE)) for _ in range(3)]
    await turns()
    join(start(bell.ring))
    done, _ = await asyncio.wait(tasks, timeout=PATIENCE)
    assert done == set(tasks)


def test_a_ring_wakes_a_thread_that_waits() -> None:
    bell = Bell()
    heard = bell.heard()
    threads = [start(lambda: drive(bell.wait(heard, 10 * PATIENCE))) for _ in range(3)]
    bell.ring()
    join(*threads)
    assert bell.heard() == heard + 1


async def test_waiting_for_a_silent_bell_ends_quietly() -> None:
    bell = Bell()
    await bell.wait(bell.heard(), 0)
    join(start(lambda: drive(bell.wait(bell.heard(), 0))))
    assert bell.heard() == 0


async def test_work_that_must_be_done_wholly_is_done_though_nobody_waits_for_it_any_more() -> None:
    go, done = Event(), list[int]()
    with ThreadPoolExecutor(1) as crew:
        asyncio.get_running_loop().set_default_executor(crew)
        busy = crew.submit(go.wait, 30)
        working = asyncio.ensure_future(wholly(lambda: done.append(1)))
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.sleep(0)
        assert not working.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert busy.result()
        assert done == [1]


async def test_work_that_is_done_wholly_gives_what_it_finds_or_why_not() -> None:
    assert await wholly(lambda: 3) == drive(wholly(lambda: 3)) == 3
    with pytest.raises(ZeroDivisionError):
        await wholly(lambda: 1 // 0)
