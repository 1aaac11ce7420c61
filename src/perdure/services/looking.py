"""Work that many ask for at once and that is done once for all of them: a look at the store, a write of what is queued.

Invariant: whoever asks gets the result of work that began after they asked. Work under way may have passed by what they
know of already, so they join the next one. If whoever does the work gives up, those who joined ask again.
"""

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Generic, TypeVar

from perdure.core.errors import PerdureError
from perdure.forking import Forking, on_fork
from perdure.waiting import Ticket, blocking

T = TypeVar("T")


class _Abandoned(Exception):
    """Whoever was to do the work gave up."""


class _Round(Generic[T]):
    """One piece of work: its turn, which one of those who asked waits for, and its result, for all the others."""

    __slots__ = ("result", "turn")

    def __init__(self) -> None:
        self.turn: Ticket[None] = Ticket()
        self.result: Ticket[T] = Ticket()


class Shared(Generic[T]):
    """Shares work among tasks and threads."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._lock = Lock()
        self._now: _Round[T] | None = None
        self._next: _Round[T] | None = None
        on_fork(self, Forking(_unchanged, _unchanged, Shared._forked))

    def _forked(self) -> None:
        """In the child of a fork nobody works."""
        self._lock = Lock()
        self._now = self._next = None

    async def __call__(self) -> T:
        """The result of the next work that begins."""
        while True:
            mine: _Round[T] | None = None
            with self._lock:
                joined = self._next
                if joined is None:
                    joined = mine = self._next = _Round()
                    if self._now is None:
                        _soon(mine.turn)
            try:
                if mine is not None:
                    await self._lead(mine)
                return await joined.result
            except _Abandoned:
                continue

    async def _lead(self, mine: _Round[T]) -> None:
        """Do the work when its turn has come."""
        try:
            await mine.turn
            with self._lock:
                self._now, self._next = mine, None
            mine.result.deliver(await self._work())
        except PerdureError as error:
            mine.result.fail(error)
            raise
        finally:
            self._end(mine)

    def _end(self, mine: _Round[T]) -> None:
        """Whatever became of the work, it is over: those who joined it are told, and the next one has its turn."""
        with self._lock:
            if self._next is mine:  # given up before its turn came
                self._next = None
            elif self._now is mine:
                self._now = None
                if self._next is not None:
                    self._next.turn.deliver(None)
        if not mine.result.done:
            mine.result.fail(_Abandoned())


def _soon(turn: Ticket[None]) -> None:
    """Let work begin: after this turn of the event loop, so that those who ask within it join; at once without one."""
    if blocking():
        turn.deliver(None)
        return
    import asyncio

    asyncio.get_running_loop().call_soon(turn.deliver, None)


def _unchanged(_: object) -> None:
    """A fork takes nothing from the parent."""
