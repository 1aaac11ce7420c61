"""Waiting that works with and without an event loop.

perdure's shell is written once, as coroutines. Under asyncio they suspend; under the blocking façade `drive` runs
them to their end on the calling thread, and every wait inside them is a plain thread wait. So there is one code
path, no hidden loop thread, and nothing that a notebook's own loop or a fork could break.

Invariants: the only things perdure's coroutines wait on are a `Ticket`, a `Lane`, a `Bell` and `Ambient.sleep`.
An interrupt (Ctrl-C) may strike a blocking thread between any two steps, so whatever others wait for is made of
steps that are atomic and may be taken again: delivering a ticket, leaving a lane, ringing a bell.
"""

import contextlib
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock, local
from types import CoroutineType
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = "CoroutineType[Any, Any, Any]"
Waiter = tuple[Any, Callable[[], None]]
"""An event loop, or None for a thread, and what wakes the one who waits."""


class _Mode(local):
    """What this thread drives, and which lanes it holds while it blocks."""

    def __init__(self) -> None:
        self.driven: list[Steps] = []
        self.held: list[tuple[Lane, Ticket[None]]] = []


_mode = _Mode()


def blocking() -> bool:
    """Whether this thread is inside `drive`. What runs there is asked itself: a count could be left wrong."""
    for work in _mode.driven:  # noqa: SIM110 - half the time of any()
        if work.cr_running:
            return True
    return False


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on this thread, blocking wherever it waits.

    An interrupt (Ctrl-C, a stopped notebook cell) may leave it at any point; the lanes it held are passed on.
    """
    driven = _mode.driven
    steps: Steps = work if type(work) is CoroutineType else _plainly(work)  # type: ignore[assignment]  # either is one
    try:
        driven.append(steps)
        steps.send(None)
        steps.close()
    except StopIteration as finished:
        value: T = finished.value
        return value
    finally:
        try:
            driven.remove(steps)  # one step, and the first: an interrupt comes before it or after it
        except ValueError:
            pass
        if driven:
            _forget_ended(driven)
        if _mode.held and not blocking():
            _leave_held()
    raise RuntimeError("a coroutine waited on an event loop inside a blocking call; use perdure.aopen for async code")


def _forget_ended(driven: list[Steps]) -> None:
    """What an interrupted call could not forget. A call made by a signal's handler may have done so meanwhile."""
    for work in tuple(driven):
        if work.cr_frame is None:
            with contextlib.suppress(ValueError):
                driven.remove(work)


def _leave_held() -> None:
    """An interrupted call left these places in lanes. A second interrupt leaves the rest to the next call."""
    while _mode.held:
        lane, place = _mode.held[-1]
        lane.leave(place)
        _mode.held.pop()


def tell(told: Any) -> None:
    """Give a future its result, which is nothing, unless it is done."""
    if not told.done():
        told.set_result(None)


async def aside(work: Callable[[], T]) -> T:
    """Do work that blocks: on this thread when it may block, on another one when an event loop runs here."""
    if blocking():
        return work()
    import asyncio

    return await asyncio.to_thread(work)


async def wholly(work: Callable[[], T]) -> T:
    """Do work that blocks as `aside` does, to its end: whoever is cancelled meanwhile goes when it is done. For work on
    what a lane guards, which nobody else may enter before.
    """
    if blocking():
        return work()
    import asyncio

    doing = asyncio.get_running_loop().run_in_executor(None, work)
    given_up: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait((doing,))
        except asyncio.CancelledError as cancelled:
            given_up = cancelled
    if given_up is None:
        return doing.result()
    doing.exception()  # nobody is left to be told
    raise given_up


class Ticket(Generic[T]):
    """A result that will come, once; awaited from a task or a thread, delivered from any thread."""

    __slots__ = ("_error", "_value", "_waiters", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[Waiter] = []

    def deliver(self, value: T) -> None:
        """Hand over the result and wake whoever waits. Doing it again does no harm."""
        self._value = value
        _wake(self._finish())

    def fail(self, error: BaseException) -> None:
        """Hand over an error instead."""
        self._error = error
        _wake(self._finish())

    def _finish(self) -> tuple[Waiter, ...]:
        self.done = True
        return tuple(self._waiters)

    def _enlist(self, waiter: Waiter) -> bool:
        """Whether there is something to wait for. Enlisted first: whoever delivers then sees the waiter or is seen."""
        self._waiters.append(waiter)
        return not self.done

    def _delist(self, waiter: Waiter) -> None:
        """Forget a waiter that gave up, so that waiting in vain leaves nothing behind."""
        with contextlib.suppress(ValueError):
            self._waiters.remove(waiter)

    def wait(self, timeout: float = -1) -> bool:
        """Block this thread until the result is there, or for `timeout` seconds."""
        gate = Lock()
        gate.acquire()
        waiter = (None, gate.release)
        try:
            if not self._enlist(waiter) or gate.acquire(timeout=timeout):
                return True
        except BaseException:
            self._delist(waiter)
            raise
        self._delist(waiter)
        return self.done

    def result(self) -> T:
        """The delivered result, or its error raised."""
        if self._error is not None:
            raise self._error
        value: T = self._value  # type: ignore[assignment]  # delivered before done is set
        return value

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            if blocking():
                self.wait()
            else:
                import asyncio

                loop = asyncio.get_running_loop()
                future: asyncio.Future[None] = loop.create_future()

                waiter = (loop, partial(tell, future))
                if self._enlist(waiter):
                    try:
                        yield from future.__await__()
                    except BaseException:
                        self._delist(waiter)
                        raise
        return self.result()


def deliver_all(results: Iterable[tuple[Ticket[Any], Any, BaseException | None]]) -> None:
    """Deliver many tickets, waking each event loop only once. Doing it again does no harm."""
    waiters: list[Waiter] = []
    for ticket, value, error in results:
        ticket._value, ticket._error = value, error
        waiters += ticket._finish()
    if waiters:
        _wake(waiters)


def _wake(waiters: Iterable[Waiter]) -> None:
    loops: dict[int, tuple[Any, list[Callable[[], None]]]] = {}
    for loop, wake in waiters:
        if loop is None:
            try:
                wake()
            except RuntimeError:  # it was woken before
                continue
        else:
            loops.setdefault(id(loop), (loop, []))[1].append(wake)
    here = _loop_here() if loops else None
    for loop, wakes in loops.values():
        if loop is here:
            _run_all(wakes)
            continue
        with contextlib.suppress(RuntimeError):  # a loop that closed meanwhile has nobody left to wake
            loop.call_soon_threadsafe(_run_all, wakes)


def _loop_here() -> Any:
    """The event loop that runs on this thread, if one does."""
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None


def _run_all(wakes: list[Callable[[], None]]) -> None:
    for wake in wakes:
        wake()


class Lane:
    """A fair mutual exclusion for tasks and threads alike: one command on a session at a time, in order of arrival.

    Whoever stands first in the queue is inside. To leave is to take oneself off the queue and to tell whoever is
    first now: two steps that may be repeated, so an interrupted call is made to leave by doing both again.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[Ticket[None]] = deque()

    @property
    def idle(self) -> bool:
        """Nobody is inside and nobody waits."""
        return not self._queue

    async def __aenter__(self) -> None:
        place: Ticket[None] = Ticket()
        if blocking():
            _mode.held.append((self, place))
        try:
            self._queue.append(place)
            if self._queue[0] is not place:
                await place
        except BaseException:
            self.leave(place)
            raise

    async def __aexit__(self, *_: object) -> None:
        place = self._queue[0]
        self.leave(place)
        if blocking() and (self, place) in _mode.held:
            _mode.held.remove((self, place))

    def leave(self, place: Ticket[None]) -> None:
        """Give up a place, inside or waiting; again, if that was interrupted."""
        try:
            self._queue.remove(place)
        except ValueError:  # taken off before: what may be missing is the word to the next
            pass
        try:
            following = self._queue[0]
        except IndexError:
            return
        following.deliver(None)


class Bell:
    """Rings for everyone who waits, now and later: nobody who remembers the count misses a ring."""

    __slots__ = ("_count", "_lock", "_ticket")

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._ticket: Ticket[None] | None = None

    def heard(self) -> int:
        """How often it has rung."""
        return self._count

    def ring(self) -> None:
        """Wake all who wait."""
        with self._lock:
            self._count += 1
            if self._ticket is not None:
                self._ticket.deliver(None)
                self._ticket = None

    async def wait(self, heard: int, seconds: float) -> None:
        """Return when it has rung since `heard`, or after `seconds`."""
        with self._lock:
            if self._count != heard:
                return
            ticket = self._ticket = self._ticket or Ticket()
        if blocking():
            ticket.wait(seconds)
            return
        import asyncio

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_plainly(ticket), seconds)


async def _plainly(awaited: Awaitable[T]) -> T:
    """Anything that can be awaited, as a coroutine."""
    return await awaited


def holding(lock: AbstractContextManager[Any]) -> Generator[None, None, None]:
    """Holds a lock from `next` to `close`: nothing can come between having it and knowing so."""
    with lock:
        yield


def _hold_nothing() -> None:
    """A child of a fork stands in no lane."""
    _mode.held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hold_nothing)
