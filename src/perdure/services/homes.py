"""Where a library's turns live: on one event loop, whoever calls.

A turn goes on when nobody waits for it, and everything it touches (connections, locks, tools) belongs to one loop. For
async callers that is their own. Blocking callers have none: the first of them starts a thread with a loop, which ends
when the library is closed. Whoever calls from elsewhere, a thread or another loop, has the work done at home and waits
for it. A loop that is gone, and every loop in the child of a fork, is left behind: turns begin anew on another one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from contextvars import copy_context
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from perdure.core.errors import Refused
from perdure.forking import Forking, on_fork
from perdure.waiting import Ticket, aside, blocking

T = TypeVar("T")
_END: Final = object()


class Home:
    """The event loop of one library's turns, and the way there. `moved` is called when it is another one."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pid = os.getpid()
        on_fork(self, Forking(_nothing, _nothing, Home._forked))

    def _forked(self) -> None:
        self._lock, self._thread = Lock(), None

    async def do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have this done at home. Whoever stops waiting has it cancelled; a turn that it began goes on."""
        loop = self._at()
        if _running() is not loop:
            return await _done_at(loop, work)
        if blocking():
            raise Refused("this would wait for the event loop that calls it; await it: use the async library here")
        return await work()

    async def each(self, make: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """What a generator gives that is run at home."""
        loop = self._at()
        if _running() is loop and not blocking():
            async with aclosing(make()) as items:
                async for item in items:
                    yield item
            return
        items = make()
        try:
            while (found := await self.do(lambda: _next(items))) is not _END:
                yield found
        finally:
            if loop.is_running():
                await self.do(lambda: _closed(items))

    def _at(self) -> asyncio.AbstractEventLoop:
        """The loop, made or found if there is none, or none that runs."""
        with self._lock:
            loop = self._loop
            if loop is not None and loop.is_running() and self._pid == os.getpid():
                return loop
            if loop is not None:
                self._moved()
            self._pid, self._thread = os.getpid(), None
            if blocking():
                self._loop, self._thread = _started()
            else:
                self._loop = asyncio.get_running_loop()
            return self._loop

    async def close(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have this done at home, and give it up; harmless when repeated."""
        with self._lock:
            loop, thread, self._thread = self._loop, self._thread, None
            self._loop = None
        if loop is None or not loop.is_running() or self._pid != os.getpid():
            return
        if _running() is loop:
            await leave()
        else:
            await _done_at(loop, leave)
        if thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            await aside(thread.join)


async def _done_at(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Have work done on another thread's loop, as the caller's own."""
    ticket: Ticket[T] = Ticket()
    begun: list[asyncio.Task[T]] = []

    def begin() -> None:
        begun.append(asyncio.get_running_loop().create_task(_made(work)))
        begun[0].add_done_callback(over)

    def over(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            ticket.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            ticket.fail(error)
        else:
            ticket.deliver(task.result())

    loop.call_soon_threadsafe(begin, context=copy_context())
    try:
        return await ticket
    except BaseException:
        if not ticket.done:
            loop.call_soon_threadsafe(lambda: begun and begun[0].cancel())
        raise


async def _made(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Work that is made where it is done: what goes wrong with that is told to who waits as well."""
    return await work()


def _started() -> tuple[asyncio.AbstractEventLoop, Thread]:
    """A thread with a loop that runs."""
    loop, ready = asyncio.new_event_loop(), Ticket[None]()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(ready.deliver, None)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = Thread(target=run, name="perdure-turns", daemon=True)
    thread.start()
    ready.wait()
    return loop, thread


def _running() -> asyncio.AbstractEventLoop | None:
    """The loop of this very thread, if it is inside one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _next(items: AsyncGenerator[Any, None]) -> Any:
    return await anext(items, _END)


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


def _nothing(_: Home) -> None:
    """A fork takes nothing from the parent."""
