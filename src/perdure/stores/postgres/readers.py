"""Connections that only ask. Blocking callers ask on their own thread; tasks on a few threads of ours.

A question is one statement, so its answer is of one moment without a transaction around it. It has no effect, so one
whose connection is lost is asked again. Some operations that take long or stream are run here as well, each in a
transaction of its own, so that writers need not wait for them.

Invariant: whoever stands among the first in the queue has a connection. To leave is to take oneself off the queue and
to tell whoever is among the first now: two steps that may be repeated, however they are interrupted.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar

import psycopg

from perdure.core.errors import PerdureError
from perdure.ports.ambient import Ambient
from perdure.stores.postgres.connection import (
    Connection,
    Connections,
    ask,
    forbids_preparing,
    is_hopeless,
    is_lost,
    is_passing,
)
from perdure.stores.postgres.patience import Patience, failure
from perdure.stores.postgres.sql import Asks
from perdure.stores.refusals import closed
from perdure.waiting import Ticket, blocking

T = TypeVar("T")
THREADS: Final = 8
IDLE: Final = 4


class Session:
    """A connection as questions see it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Run a statement; its cursor."""
        return ask(self.connection, statement, values)


class Readers:
    """A pool of connections, of which no more than `THREADS` are in use at once."""

    def __init__(self, connections: Connections, ambient: Ambient, seconds: float) -> None:
        self._connections = connections
        self._ambient = ambient
        self.seconds = seconds
        self._idle: deque[Connection] = deque()
        self._queue: list[Ticket[None]] = []
        self._ending: Ticket[None] = Ticket()
        self._lock = Lock()
        self._threads: Any = None

    async def ask(self, question: Callable[[Asks], T]) -> T:
        """The answer, as of one moment of the database."""
        return await self.run(lambda connection: question(Session(connection)))

    async def run(self, work: Callable[[Connection], T], *, again: bool = True) -> T:
        """What the work comes to on a connection of its own; done again when that is lost, unless told not to."""
        if blocking():
            return self._in_turn(work, again)
        ticket: Ticket[T] = Ticket()
        self._pool().submit(self._deliver, work, again, ticket)
        return await ticket

    def _deliver(self, work: Callable[[Connection], T], again: bool, ticket: Ticket[T]) -> None:
        try:
            answer = self._in_turn(work, again)
        except BaseException as error:  # delivered, not swallowed: the asking task raises it
            ticket.fail(error)
        else:
            ticket.deliver(answer)

    def _in_turn(self, work: Callable[[Connection], T], again: bool) -> T:
        turn: Ticket[None] = Ticket()
        try:
            self._queue.append(turn)
            if turn not in self._queue[:THREADS]:
                turn.wait()
            return self._patiently(work, again)
        finally:
            self._leave(turn)

    def _leave(self, turn: Ticket[None]) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
        for first in self._queue[:THREADS]:
            first.deliver(None)

    def _patiently(self, work: Callable[[Connection], T], again: bool) -> T:
        patience = Patience(self.seconds, self._ambient, self._ending)
        while True:
            if self._ending.done:
                raise closed()
            connection: Connection | None = None
            try:
                connection = self._borrow() if again else self._connections.connect()
                answer = work(connection)
            except psycopg.Error as error:
                self._lost(connection, error)
                if (connection is None or again) and self._may_retry(error, connection, patience):
                    continue
                raise self._meaning(error) from error
            except PerdureError:
                self._give_back(connection)
                raise
            except BaseException:
                self._drop(connection)
                raise
            self._give_back(connection)
            return answer

    def _may_retry(self, error: psycopg.Error, connection: Connection | None, patience: Patience) -> bool:
        if connection is None and is_hopeless(error):
            return False
        return (is_lost(error, connection) or is_passing(error)) and patience.lasts(error)

    def _meaning(self, error: psycopg.Error) -> PerdureError:
        return failure(error, self._connections.address.shown)

    def _lost(self, connection: Connection | None, error: psycopg.Error) -> None:
        """An engine error spoils its connection; one that is lost, most likely every idle one as well."""
        if forbids_preparing(error):
            self._connections.prepares = False
        lost = is_lost(error, connection)
        self._drop(connection)
        while lost and self._idle:
            self._drop(self._idle.pop())

    def _borrow(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connections.connect()

    def _give_back(self, connection: Connection | None) -> None:
        if connection is None:
            return
        fit = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if len(self._idle) < IDLE and fit and not self._ending.done:
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: Connection | None) -> None:
        if connection is not None:
            self._connections.drop(connection)

    def _pool(self) -> Any:
        with self._lock:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(THREADS, "perdure-reader")
            return self._threads

    def close(self) -> None:
        """End all waiting, let what is under way finish, close the connections."""
        self._ending.deliver(None)
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        while self._idle:
            self._drop(self._idle.pop())
