"""Group commit by leadership: who commits what has queued up, and when.

Threads that block lead in turn and commit all that waits; tasks call a thread that does the same, once every task that
could run in this turn of their event loop has run. Where one task came alone, the loop's own thread may do it. How a
batch is committed, the engine's writer knows.

Invariants: a job stays in the queue until its ticket is done, and only who holds the lock takes it off. One call to the
thread stands for everything that was queued before it, however many batches that is. An interrupt may strike a blocking
thread between any two steps, so calling is one step that nothing can split; no other lock is taken for it.
"""

from abc import ABC, abstractmethod
from collections import deque
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Generic, Protocol, TypeVar

from perdure.stores.gathering import Gathering
from perdure.stores.refusals import closed
from perdure.waiting import Ticket, blocking

MAX_BATCH: Final = 256


class Queued(Protocol):
    """A piece of work with a ticket for its outcome."""

    @property
    def ticket(self) -> Ticket[Any]:
        """Done once everyone may know how it went."""
        ...


J = TypeVar("J", bound=Queued)


class Leading(ABC, Generic[J]):
    """The queue of a writer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queue: deque[J] = deque()
        self._closed = False
        self._thread: Thread | None = None
        self._calls: SimpleQueue[None] = SimpleQueue()
        self._gathering = Gathering()

    @abstractmethod
    def _commit_batch(self) -> None:
        """Carry out up to `MAX_BATCH` jobs, tell everyone how it went and take them off the queue; when closed, refuse
        them. Only for who holds the lock.
        """

    @abstractmethod
    def _disconnect(self) -> None:
        """Let go of the connection; harmless when there is none."""

    def _lead(self, job: J) -> Ticket[Any]:
        """Queue a job, and lead until it is done if this thread may block. `StoreClosed` when it is too late."""
        self._must_be_open()
        ticket = job.ticket
        if not blocking():
            self._queue.append(job)
            self._start()
            if not (self._gathering.alone() and self._commits_here()):
                self._gathering(self._see_to)
            if self._closed:  # by another thread, just now: its own thread may not see the job any more
                with self._lock:
                    self._commit_batch()
            return ticket
        try:
            self._queue.append(job)
            with self._lock:
                while not ticket.done:
                    self._commit_batch()
        except BaseException:
            ticket.deliver(None)  # nobody waits any more: whoever leads next passes over the job
            raise
        return ticket

    def _must_be_open(self) -> None:
        if self._closed:
            raise closed()

    def _see_to(self, asked: int) -> None:
        """Have what is queued committed: at once if one task came alone and that is soon done, else by the thread."""
        if asked > 1 or not self._commits_here():
            self._call()

    def _commits_here(self) -> bool:
        """Commit what is queued on the thread of this event loop, if that takes no time to speak of; whether all of it
        is done. An engine that has to wait for others, as over a network, never does.
        """
        return False

    def _call(self) -> None:
        """Have the thread see to what is queued."""
        self._calls.put(None)

    def _start(self) -> None:
        if self._thread is None:
            thread = Thread(target=self._serve, name="perdure-writer", daemon=True)
            thread.start()
            self._thread = thread  # now: if an interrupt comes first there are two, which does no harm

    def _serve(self) -> None:
        while True:
            self._calls.get()
            for _ in range(0, len(self._queue), MAX_BATCH):
                with self._lock:
                    self._commit_batch()
            if self._closed:
                self._call()  # there may be another one
                return

    def close(self) -> None:
        """Commit what is queued, stop the thread, close the connection; harmless when repeated."""
        with self._lock:
            while self._queue:
                self._commit_batch()
            self._closed = True
            self._disconnect()
        if self._thread is not None:
            self._call()
            self._thread.join()
