"""One writer with group commit: whatever waits together is committed together, by one fsync.

Every write is an operation, a function of the connection. Threads that block become the writer in turn and commit
all that has queued up meanwhile; tasks hand their operation to a thread that does the same. An operation that
refuses (a conflict, an exhausted budget) fails alone; an engine error fails its whole batch, since none of it is on
disk. After a failed fsync nothing more is written until the file has been reopened and checkpointed (R3).
"""

from collections import deque
from collections.abc import Callable
from threading import Lock, Semaphore, Thread
from typing import Any, Final

import apsw

from perdure.core.errors import PerdureError, StoreClosed, StorePoisoned
from perdure.ports.store import KeyTaken
from perdure.stores.sqlite.connection import connect, translate
from perdure.stores.sqlite.sql import Asks
from perdure.waiting import Ticket, blocking, deliver_all

MAX_BATCH: Final = 256

Operation = Callable[["Transaction"], Any]


class Transaction:
    """What an operation writes through: the connection, and the feed positions of this transaction."""

    def __init__(self, connection: Asks, position: int) -> None:
        self.execute = connection.execute
        self.position = position

    def next_position(self) -> int:
        """The next place in the feed."""
        self.position += 1
        return self.position


class Writer:
    """Owns the connection that writes."""

    def __init__(self, path: str, position_sql: str, committed: Callable[[int], None]) -> None:
        self._path = path
        self._position_sql = position_sql
        self._committed = committed
        self._lock = Lock()
        self._queue: deque[tuple[Operation, Ticket[Any], bool]] = deque()
        self._connection: apsw.Connection | None = None
        self._poisoned: PerdureError | None = None
        self._closed = False
        self._thread: Thread | None = None
        self._work = Semaphore(0)

    def submit(self, operation: Operation, *, guarded: bool = False) -> Ticket[Any]:
        """Queue an operation; its ticket is delivered once the disk has it.

        `guarded` operations may refuse after writing something: they get a savepoint of their own.
        """
        if self._closed:
            raise StoreClosed("the store is closed; open it again")
        ticket: Ticket[Any] = Ticket()
        self._queue.append((operation, ticket, guarded))
        if blocking():
            with self._lock:
                while not ticket.done:
                    self._commit_batch()
        else:
            self._start()
            self._work.release()
        return ticket

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="perdure-writer", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            self._work.acquire()
            with self._lock:
                if self._closed:
                    return
                if self._queue:
                    self._commit_batch()

    def _take(self) -> list[tuple[Operation, Ticket[Any], bool]]:
        batch: list[tuple[Operation, Ticket[Any], bool]] = []
        while self._queue and len(batch) < MAX_BATCH:
            batch.append(self._queue.popleft())
        return batch

    def _commit_batch(self) -> None:
        """Run what has queued up in one transaction and tell everyone how it went."""
        batch = self._take()
        if not batch:
            return
        outcomes: list[tuple[Ticket[Any], Any, BaseException | None]]
        try:
            outcomes, position = self._transact(batch)
        except apsw.Error as error:
            failure = translate(error, self._path)
            if isinstance(failure, StorePoisoned):
                self._poison(failure)
            outcomes = [(ticket, None, failure) for _, ticket, _ in batch]
        except PerdureError as refusal:
            outcomes = [(ticket, None, refusal) for _, ticket, _ in batch]
        except BaseException as broken:
            deliver_all([(ticket, None, broken) for _, ticket, _ in batch])
            raise
        else:
            self._committed(position)
        deliver_all(outcomes)

    def _transact(
        self, batch: list[tuple[Operation, Ticket[Any], bool]]
    ) -> tuple[list[tuple[Ticket[Any], Any, BaseException | None]], int]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            asks: Asks = connection
            transaction = Transaction(asks, asks.execute(self._position_sql).fetchone()[0])
            outcomes = [self._run(transaction, operation, ticket, guarded) for operation, ticket, guarded in batch]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return outcomes, transaction.position

    def _run(
        self, transaction: Transaction, operation: Operation, ticket: Ticket[Any], guarded: bool
    ) -> tuple[Ticket[Any], Any, BaseException | None]:
        if guarded:
            transaction.execute("SAVEPOINT operation")
        position = transaction.position
        try:
            outcome = operation(transaction)
        except (PerdureError, KeyTaken) as refusal:
            if guarded:
                transaction.execute("ROLLBACK TO operation")
                transaction.execute("RELEASE operation")
                transaction.position = position
            return ticket, None, refusal
        if guarded:
            transaction.execute("RELEASE operation")
        return ticket, outcome, None

    def _open(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosed("the store is closed; open it again")
        if self._connection is None:
            connection = connect(self._path, writable=True)
            if self._poisoned is not None:
                self._heal(connection)
            self._connection = connection
        return self._connection

    def _heal(self, connection: apsw.Connection) -> None:
        """After a failed fsync the log in the page cache may not be on disk: rewrite all of it into the file first."""
        asks: Asks = connection
        busy, _, _ = asks.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            connection.close()
            raise StorePoisoned(f"{self._path} cannot be checkpointed while others read it; try again", path=self._path)
        self._poisoned = None

    def _poison(self, failure: PerdureError) -> None:
        self._poisoned = failure
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def close(self) -> None:
        """Commit what is queued, stop the thread, close the connection."""
        with self._lock:
            if self._closed:
                return
            while self._queue:
                self._commit_batch()
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if self._thread is not None:
            self._work.release()
            self._thread.join()

    def abandon(self) -> apsw.Connection | None:
        """The connection of a process that forked; the child keeps it unused and unclosed."""
        self._closed = True
        return self._connection
