"""Waiting that works with and without an event loop.

perdure's shell is written once, as coroutines. Under asyncio they suspend; under the blocking façade `drive` runs
them to their end on the calling thread, and every wait inside them is a plain thread wait. So there is one code
path, no hidden loop thread, and nothing that a notebook's own loop or a fork could break.

Invariant: the only things perdure's coroutines wait on are a `Ticket`, a `Lane`, a `Bell` and `Ambient.sleep`.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from threading import Lock, get_ident, local
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

T = TypeVar("T")


class _Mode(local):
    """How this thread waits, and which lanes it holds while it blocks."""

    def __init__(self) -> None:
        self.blocking = 0
        self.held: list[Lane] = []


_mode = _Mode()


def blocking() -> bool:
    """Whether this thread is inside `drive`."""
    return _mode.blocking > 0


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on this thread, blocking wherever it waits.

    An interrupt (Ctrl-C, a stopped notebook cell) may leave it at any point; the lanes it held are passed on.
    """
    _mode.blocking += 1
    try:
        work.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    finally:
        _mode.blocking -= 1
        if not _mode.blocking and _mode.held:
            _pass_on_held()
    work.close()
    raise RuntimeError("a coroutine waited on an event loop inside a blocking call; use perdure.aopen for async code")


def _pass_on_held() -> None:
    held, _mode.held = _mode.held, []
    for lane in held:
        lane.abandon()


class Ticket(Generic[T]):
    """A result that will come, once; awaited from a task or a thread, delivered from any thread."""

    __slots__ = ("_error", "_lock", "_value", "_waiters", "done")

    def __init__(self) -> None:
        self.done = False
        self._lock = Lock()
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[tuple[Any, Callable[[], None]]] = []

    def deliver(self, value: T) -> None:
        """Hand over the result and wake whoever waits."""
        self._value = value
        _wake(self._finish())

    def fail(self, error: BaseException) -> None:
        """Hand over an error instead."""
        self._error = error
        _wake(self._finish())

    def _finish(self) -> list[tuple[Any, Callable[[], None]]]:
        with self._lock:
            self.done = True
            waiters, self._waiters = self._waiters, []
        return waiters

    def _enlist(self, loop: Any, wake: Callable[[], None]) -> bool:
        with self._lock:
            if self.done:
                return False
            self._waiters.append((loop, wake))
            return True

    def _delist(self, wake: Callable[[], None]) -> None:
        """Forget a waiter that gave up, so that waiting in vain leaves nothing behind."""
        with self._lock:
            self._waiters = [waiter for waiter in self._waiters if waiter[1] != wake]

    def wait(self, timeout: float = -1) -> bool:
        """Block this thread until the result is there, or for `timeout` seconds."""
        gate = Lock()
        gate.acquire()
        if not self._enlist(None, gate.release) or gate.acquire(timeout=timeout):
            return True
        self._delist(gate.release)
        return self.done

    def result(self) -> T:
        """The delivered result, or its error raised."""
        if self._error is not None:
            raise self._error
        value: T = self._value  # type: ignore[assignment]  # delivered before done is set
        return value

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            if _mode.blocking:
                self.wait()
            else:
                import asyncio

                loop = asyncio.get_running_loop()
                future: asyncio.Future[None] = loop.create_future()

                def wake() -> None:
                    if not future.done():
                        future.set_result(None)

                if self._enlist(loop, wake):
                    try:
                        yield from future.__await__()
                    except BaseException:
                        self._delist(wake)
                        raise
        return self.result()


def deliver_all(results: Iterable[tuple[Ticket[Any], Any, BaseException | None]]) -> None:
    """Deliver many tickets, waking each event loop only once."""
    waiters: list[tuple[Any, Callable[[], None]]] = []
    for ticket, value, error in results:
        ticket._value, ticket._error = value, error
        waiters += ticket._finish()
    _wake(waiters)


def _wake(waiters: list[tuple[Any, Callable[[], None]]]) -> None:
    loops: dict[int, tuple[Any, list[Callable[[], None]]]] = {}
    for loop, wake in waiters:
        if loop is None:
            wake()
        else:
            loops.setdefault(id(loop), (loop, []))[1].append(wake)
    for loop, wakes in loops.values():
        with contextlib.suppress(RuntimeError):  # a loop that closed meanwhile has nobody left to wake
            loop.call_soon_threadsafe(_run_all, wakes)


def _run_all(wakes: list[Callable[[], None]]) -> None:
    for wake in wakes:
        wake()


class Lane:
    """A fair mutual exclusion for tasks and threads alike: one command on a session at a time, in order of arrival."""

    __slots__ = ("_busy", "_lock", "_owner", "_queue")

    def __init__(self) -> None:
        self._lock = Lock()
        self._busy = False
        self._owner = 0
        self._queue: deque[Ticket[None]] = deque()

    @property
    def idle(self) -> bool:
        """Nobody is inside and nobody waits."""
        return not self._busy

    async def __aenter__(self) -> None:
        me = get_ident() if _mode.blocking else 0
        if me:
            _mode.held.append(self)
        with self._lock:
            if not self._busy:
                self._owner = me
                self._busy = True
                return
            ticket: Ticket[None] = Ticket()
            self._queue.append(ticket)
        try:
            await ticket
            self._owner = me
        except BaseException:
            self._leave_queue(ticket)
            raise

    def _leave_queue(self, ticket: Ticket[None]) -> None:
        """A cancelled waiter gives up its place, or passes the lane on if it was just handed to it."""
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
                return
        self._pass_on()

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()
        if _mode.blocking and self in _mode.held:
            _mode.held.remove(self)

    def abandon(self) -> None:
        """Pass the lane on if this thread still holds it: the call that entered it was interrupted."""
        if self._busy and self._owner == get_ident():
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            self._owner = 0
            if not self._queue:
                self._busy = False
                return
            following = self._queue.popleft()
        following.deliver(None)


class Gathering:
    """Calls once, after this turn of the event loop, however often it is asked to within the turn.

    So the tasks that one commit woke come back with their next operations together, and one commit takes them all.
    """

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: WeakSet[Any] = WeakSet()

    def __call__(self, callback: Callable[[], None]) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._asked:
            self._asked.add(loop)
            loop.call_soon(self._call, loop, callback)

    def _call(self, loop: Any, callback: Callable[[], None]) -> None:
        self._asked.discard(loop)
        callback()


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
            ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.deliver(None)

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


async def _plainly(ticket: Ticket[T]) -> T:
    return await ticket


class Forking(NamedTuple):
    """What an object does when its process forks. Before: let go of everything a child must not share. In the parent:
    go on. In the child: start anew.
    """

    before: Callable[[Any], None]
    parent: Callable[[Any], None]
    child: Callable[[Any], None]


_FORKING: WeakKeyDictionary[Any, Forking] = WeakKeyDictionary()
_paused: list[tuple[Any, Forking]] = []


def on_fork(owner: Any, forking: Forking) -> None:
    """Have the owner take part in every fork of this process, for as long as it lives."""
    _FORKING[owner] = forking


def _before() -> None:
    for owner, forking in list(_FORKING.items()):
        forking.before(owner)
        _paused.append((owner, forking))


def _in_parent() -> None:
    while _paused:
        owner, forking = _paused.pop()
        forking.parent(owner)


def _in_child() -> None:
    _mode.held.clear()
    while _paused:
        owner, forking = _paused.pop()
        forking.child(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
