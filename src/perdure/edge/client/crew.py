"""Threads that do what would block an event loop. Blocking callers need none: they do it themselves."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from perdure.waiting import Ticket, blocking

T = TypeVar("T")
_Job = tuple[Callable[[], Any], Ticket[Any]]


class Crew:
    """So many threads at most, started as they are needed; work beyond that waits in line."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self.renew()

    def renew(self) -> None:
        """Begin with nobody: at first, and in the child of a fork, where no thread but one lives."""
        self._lock = Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0

    async def aside(self, work: Callable[[], T]) -> T:
        """Do work that blocks: on this thread when it may block, on one of the crew when an event loop runs here."""
        if blocking():
            return work()
        ticket: Ticket[T] = Ticket()
        with self._lock:
            self._busy += 1
            if self._busy > self._threads < self._most:
                self._threads += 1
                Thread(target=self._serve, args=(self._jobs,), name=self._name, daemon=True).start()
        self._jobs.put((work, ticket))
        return await ticket

    def dismiss(self) -> None:
        """Let the threads end once they have done what they were given."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
            self._threads = 0

    def _serve(self, jobs: "SimpleQueue[_Job | None]") -> None:
        while (job := jobs.get()) is not None:
            work, ticket = job
            try:
                found = work()
            except BaseException as error:  # whatever it is, it is for the task that waits
                self._done()
                ticket.fail(error)
            else:
                self._done()
                ticket.deliver(found)
            del job, work, ticket

    def _done(self) -> None:
        with self._lock:
            self._busy -= 1
