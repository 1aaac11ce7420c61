"""One writer with group commit: whatever waits together is committed together, by one fsync.

Every write is an operation, a function of the connection. Threads that block become the writer in turn and commit
all that has queued up meanwhile; tasks hand their operation to a thread that does the same, once every task that
could run in this turn of their event loop has run. An operation that
refuses (a conflict, an exhausted budget) fails alone; an engine error fails its whole batch, since none of it is on
disk. After a failed fsync nothing more is written until the file has been reopened and checkpointed (R3).
"""

from collections import deque
from collections.abc import Callable
from threading import Lock, Semaphore, Thread
from typing import Any, Final, NamedTuple

import apsw

from perdure.core.errors import PerdureError, StoreClosed, StorePoisoned
from perdure.ports.store import KeyTaken
from perdure.stores.sqlite.connection import connect, patience, translate
from perdure.stores.sqlite.sql import QUERIES, Asks
from perdure.waiting import Gathering, Ticket, blocking, deliver_all

MAX_BATCH: Final = 256
MAX_STIRRED: Final = 100_000

Operation = Callable[["Transaction"], Any]
Outcome = tuple[Ticket[Any], Any, BaseException | None]


class Transaction:
    """What an operation writes through: the connection, and what the writer remembers between transactions."""

    def __init__(self, connection: apsw.Connection, stirred: dict[int, int]) -> None:
        asks: Asks = connection
        self.execute = asks.execute
        self.position = connection.last_insert_rowid
        self._stirred = stirred
        self.destroys = False
        """Set by operations that destroy content: the log must not keep it after the commit."""

    def stir(self, no: int, activity: int) -> None:
        """Keep the coarse activity of a session in step; most appends find it unchanged and pay nothing."""
        if self._stirred.get(no) != activity:
            if len(self._stirred) > MAX_STIRRED:
                self._stirred.clear()
            self.execute(QUERIES["stir"], (activity, no))
            self._stirred[no] = activity


class Job(NamedTuple):
    """A queued operation."""

    operation: Operation
    ticket: Ticket[Any]
    guarded: bool


def _empty_log(connection: apsw.Connection) -> None:
    """Fold the write-ahead log into the file and cut it, so that what was destroyed is not left in it. If somebody
    reads just now it stays until the next time: nobody is made to wait.
    """
    connection.set_busy_handler(None)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.set_busy_handler(patience)


class Writer:
    """Owns the connection that writes."""

    def __init__(self, path: str, committed: Callable[[], None], connection: apsw.Connection | None) -> None:
        self._path = path
        self._committed = committed
        self._stirred: dict[int, int] = {}
        self._lock = Lock()
        self._queue: deque[Job] = deque()
        self._connection = connection
        self._poisoned: PerdureError | None = None
        self._closed = False
        self._thread: Thread | None = None
        self._work = Semaphore(0)
        self._gathering = Gathering()

    def submit(self, operation: Operation, *, guarded: bool = False) -> Ticket[Any]:
        """Queue an operation; its ticket is delivered once the disk has it.

        `guarded` operations may refuse after writing something: they get a savepoint of their own.
        """
        if self._closed:
            raise StoreClosed("the store is closed; open it again")
        ticket: Ticket[Any] = Ticket()
        self._queue.append(Job(operation, ticket, guarded))
        if blocking():
            with self._lock:
                while not ticket.done:
                    self._commit_batch(ticket)
        else:
            self._start()
            self._gathering(self._work.release)
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

    def _commit_batch(self, own: Ticket[Any] | None = None) -> None:
        """Run what has queued up in one transaction and tell everyone how it went.

        An interrupt of the thread that leads ends its own call only: others' operations are put back or, if the
        commit had been made, delivered.
        """
        batch: list[Job] = []
        outcomes: list[Outcome] = []
        try:
            while self._queue and len(batch) < MAX_BATCH:
                batch.append(self._queue.popleft())
            if batch:
                self._transact(batch, outcomes)
        except apsw.Error as error:
            failure = translate(error, self._path)
            if isinstance(failure, StorePoisoned):
                self._poison(failure)
            outcomes = [(job.ticket, None, failure) for job in batch]
        except PerdureError as refusal:
            outcomes = [(job.ticket, None, refusal) for job in batch]
        except BaseException:
            if not outcomes:
                self._queue.extendleft(job for job in reversed(batch) if job.ticket is not own)
                self._work.release()
            raise
        finally:
            if outcomes:
                self._committed()
            deliver_all(outcomes)

    def _transact(self, batch: list[Job], outcomes: list[Outcome]) -> None:
        """Fill in the outcomes once, and only once, the disk has them."""
        connection = self._open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            transaction = Transaction(connection, self._stirred)
            decided = [self._run(transaction, job) for job in batch]
            connection.execute("COMMIT")
            outcomes.extend(decided)
            if transaction.destroys:
                _empty_log(connection)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._stirred.clear()
            raise

    def _run(self, transaction: Transaction, job: Job) -> Outcome:
        if job.guarded:
            transaction.execute("SAVEPOINT operation")
        try:
            outcome = job.operation(transaction)
        except (PerdureError, KeyTaken) as refusal:
            if job.guarded:
                transaction.execute("ROLLBACK TO operation")
                transaction.execute("RELEASE operation")
                self._stirred.clear()
            return job.ticket, None, refusal
        if job.guarded:
            transaction.execute("RELEASE operation")
        return job.ticket, outcome, None

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

    def pause(self) -> None:
        """Wait for the commit under way, hold further ones, and close the connection."""
        self._lock.acquire()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def go_on(self) -> None:
        """Commit again."""
        self._lock.release()
