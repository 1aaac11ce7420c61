"""Work that many ask for at once and that is done once for all of them: a look at the store, a write of what is queued.

Invariant: whoever asks gets the result of work that began after they asked. Work under way may have passed by what they
know of already, so they join the next one. If whoever does the work gives up, those who joined ask again.
"""

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Generic, TypeVar

from perdure.core.errors import PerdureError
from perdure.forking import Forking, on_fork
from perdure.waiting import Ticket

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
            with self._lock:
                joined = self._next
            try:
                return await joined.result if joined is not None else await self._worked()
            except _Abandoned:
                continue

    async def _worked(self) -> T:
        """Do the work that begins next, unless somebody else is to do it by now: then its result."""
        mine: _Round[T] = _Round()
        try:
            joined = self._joined(mine)
            if joined is mine:
                await mine.turn
                mine.result.deliver(await self._work())
            return await joined.result
        except PerdureError as error:
            mine.result.fail(error)
            raise
        finally:
            self._end(mine)

    def _joined(self, offered: _Round[T]) -> _Round[T]:
        """The work that begins next: what is offered, unless others are to do it already."""
        with self._lock:
            if self._now is None:
                self._now = offered
                offered.turn.deliver(None)
                return offered
            if self._next is None:
                self._next = offered
            return self._next

    def _end(self, mine: _Round[T]) -> None:
        """Whatever became of the work, it is over: those who joined it are told, and the next one has its turn."""
        with self._lock:
            if self._next is mine:  # given up before its turn came
                self._next = None
            elif self._now is mine:
                self._now, self._next = self._next, None
                if self._now is not None:
                    self._now.turn.deliver(None)
        if not mine.result.done:
            mine.result.fail(_Abandoned())


def _unchanged(_: object) -> None:
    """A fork takes nothing from the parent."""
