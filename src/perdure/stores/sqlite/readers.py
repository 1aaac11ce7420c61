"""Connections that only read. Blocking callers read on their own thread; tasks on a few threads of ours."""

import os
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock
from typing import Any, Final, TypeVar

import apsw

from perdure.core.errors import Damaged
from perdure.stores.sqlite.connection import connect, translate
from perdure.stores.sqlite.finding import contains
from perdure.stores.sqlite.sql import Asks
from perdure.waiting import Ticket, blocking

T = TypeVar("T")
THREADS: Final = min(4, (os.cpu_count() or 1) + 1)
IDLE: Final = 8


class Readers:
    """A pool of read-only connections."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: deque[apsw.Connection] = deque()
        self._lock = Lock()
        self._gate = Condition()
        self._busy = 0
        self._paused = False
        self._threads: Any = None

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
        with self._gate:
            while self._paused:
                self._gate.wait()
            self._busy += 1
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
            with self._gate:
                self._busy -= 1
                self._gate.notify_all()

    def pause(self) -> None:
        """Let the questions under way finish, hold new ones, and close every connection."""
        with self._gate:
            self._paused = True
            while self._busy:
                self._gate.wait()
        while self._idle:
            self._idle.pop().close()

    def go_on(self) -> None:
        """Take questions again."""
        with self._gate:
            self._paused = False
            self._gate.notify_all()

    def _borrow(self) -> apsw.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            connection = connect(self._path, writable=False)
            connection.create_scalar_function("contains", contains, deterministic=True)
            return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        if len(self._idle) < IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _pool(self) -> Any:
        with self._lock:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(THREADS, "perdure-reader")
            return self._threads

    def close(self) -> None:
        """Close every idle connection and stop the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().close()
