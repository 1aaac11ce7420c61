"""Connections that only read. Blocking callers read on their own thread; tasks on a few threads of ours.

Invariant: a question under way is a mark in a set, made and taken away by steps an interrupt cannot split; so however
questions are interrupted, a fork waits for those under way and for no other.
"""

import os
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar

import apsw

from perdure.core.errors import Damaged, PerdureError
from perdure.stores.packing import PACKING, Packing
from perdure.stores.refusals import closed
from perdure.stores.sqlite.connection import connect, translate
from perdure.stores.sqlite.finding import contains
from perdure.stores.sqlite.sql import Asks
from perdure.waiting import Ticket, blocking

T = TypeVar("T")
THREADS: Final = min(4, (os.cpu_count() or 1) + 1)
IDLE: Final = 8
GLANCE: Final = 0.05
"""Seconds after which a pause looks for itself: a reader may be interrupted just as it was to tell that it left."""


class Readers:
    """A pool of read-only connections."""

    def __init__(self, path: str, packing: Packing = PACKING) -> None:
        self._path = path
        self._contains = contains(packing)
        self._idle: deque[apsw.Connection] = deque()
        self._lock = Lock()
        self._busy: set[object] = set()
        self._left: Ticket[None] = Ticket()
        self._paused: Ticket[None] | None = None
        self._threads: Any = None
        self._watch: apsw.Connection | None = None
        self._watches = 0
        self._watching = Lock()
        self._closed = False

    def moment(self) -> tuple[int, int] | None:
        """A mark of the file as it stands, another one after every commit by anyone; None when there is none to be had.
        It is a look at shared memory, so quick that tasks take it on their own thread.
        """
        with self._watching:
            if self._paused is not None or self._closed:
                return None
            try:
                if self._watch is None:
                    self._watch = connect(self._path, writable=False, reads=False)
                    self._watch.set_busy_timeout(0)
                    self._watches += 1
                return self._watches, self._watch.pragma("data_version")
            except (apsw.Error, PerdureError):
                self._unwatch()
                return None

    def glance(self, question: Callable[[Asks], T]) -> T | None:
        """The answer to a question about a row or two that was read before, so quick that tasks ask it on their own
        thread; None when it is not to be had so.
        """
        with self._watching:
            answer: T | None = None
            if self._paused is None and not self._closed and self._watch is not None:
                try:
                    answer = question(self._watch)  # kept first: between a call and a return nothing undoes the lock
                except (apsw.Error, UnicodeDecodeError):
                    self._unwatch()
        return answer

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close(True)
            self._watch = None

    async def ask(self, question: Callable[[Asks], T]) -> T:
        """The answer as of one consistent moment of the file."""
        if blocking():
            return self._answer(question)
        ticket: Ticket[T] = Ticket()
        self._pool().submit(self._deliver, question, ticket)
        return await ticket

    def _deliver(self, question: Callable[[Asks], T], ticket: Ticket[T]) -> None:
        try:
            answer = self._answer(question)
        except BaseException as error:  # delivered, not swallowed: the asking task raises it
            ticket.fail(error)
        else:
            ticket.deliver(answer)

    def _answer(self, question: Callable[[Asks], T]) -> T:
        mark = object()
        try:
            self._busy.add(mark)
            while (paused := self._paused) is not None:
                self._leave(mark)
                paused.wait(GLANCE)
                if self._closed:
                    raise closed()
                self._busy.add(mark)
            answer = self._look(question)
        finally:
            self._busy.discard(mark)
            if self._paused is not None:
                self._leave(mark)
        return answer

    def _leave(self, mark: object) -> None:
        self._busy.discard(mark)
        self._left.deliver(None)

    def _look(self, question: Callable[[Asks], T]) -> T:
        connection: apsw.Connection | None = None
        try:
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                return question(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except apsw.Error as error:
            if connection is not None:
                connection.close(True)
                connection = None
            raise translate(error, self._path) from error
        except UnicodeDecodeError as error:
            raise Damaged(f"{self._path} holds text that is not UTF-8; restore a backup", path=self._path) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def pause(self) -> None:
        """Let the questions under way finish, hold new ones, and close every connection."""
        self._paused = self._paused or Ticket()  # two threads may fork at once: whoever waits, waits for one ticket
        while self._busy:
            left: Ticket[None] = Ticket()
            self._left = left
            if self._busy:
                left.wait(GLANCE)
        while self._idle:
            self._idle.pop().close()
        with self._watching:
            self._unwatch()

    def go_on(self) -> None:
        """Take questions again."""
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.deliver(None)

    def _borrow(self) -> apsw.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            connection = connect(self._path, writable=False)
            connection.create_scalar_function("contains", self._contains, deterministic=True)
            return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        if len(self._idle) < IDLE and not connection.in_transaction:
            self._idle.append(connection)
        else:
            connection.close(True)

    def _pool(self) -> Any:
        with self._lock:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(THREADS, "perdure-reader")
            return self._threads

    def close(self) -> None:
        """Close every idle connection and stop the threads."""
        with self._watching:
            self._closed = True
            self._unwatch()
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().close()
