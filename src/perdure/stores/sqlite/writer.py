"""One writer with group commit: whatever waits together is committed together, by one fsync.

Every write is an operation, a function of the connection; who commits it `leading` says. An operation that
refuses (a conflict, an exhausted budget) fails alone; an engine error fails its whole batch, since none of it is on
disk. After a failed fsync nothing more is written until the file has been reopened and checkpointed (R3).

An interrupt may strike the thread that leads between any two steps. Invariant: the outcomes of a batch are noted before
its COMMIT; so whether the connection is still in its transaction tells whether they hold, and whoever leads next can
finish what was left.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw

from perdure.core.errors import PerdureError, StorePoisoned
from perdure.core.session.ids import SessionId
from perdure.ports.store import Commit, KeyTaken, Row
from perdure.stores.leading import MAX_BATCH, Leading
from perdure.stores.packing import PACKING, Packing
from perdure.stores.sqlite.connection import connect, translate
from perdure.stores.sqlite.haste import Haste
from perdure.stores.sqlite.sql import QUERIES, Asks
from perdure.waiting import Ticket, deliver_all, holding

MAX_REMEMBERED: Final = 100_000

Operation = Callable[["Transaction"], Any]
Outcome = tuple[Ticket[Any], Any, BaseException | None]


class Transaction:
    """What an operation writes through: the connection, and what the writer remembers between transactions."""

    def __init__(self, connection: apsw.Connection, packing: Packing) -> None:
        self.packing = packing
        asks: Asks = connection.cursor()  # one for all: each statement ends the one before, so fetch first
        self.execute = asks.execute
        self.changes = connection.changes
        self.position = connection.last_insert_rowid
        self.places: dict[SessionId, int] = {}
        """Numbers of sessions seen before, to be tried first; an erased session's may have become another's."""
        self._stirred: dict[int, int] = {}
        self._standing: dict[SessionId, tuple[bytes, int | None]] = {}
        """Where sessions stood when they were last written to: their digest and their open turn."""
        self.destroys = False
        """Set by operations that destroy content: the log must not keep it after the commit."""

    def stir(self, row: Row, no: int, activity: int) -> None:
        """Keep the coarse activity of a session in step; most appends find it unchanged and pay nothing."""
        if self._stirred.get(no) != activity:
            if len(self._stirred) > MAX_REMEMBERED:
                self.forget()
            self.execute(QUERIES["stir"], (activity, no))
            self._stirred[no] = activity
            self.places[row.session] = no
        self._standing[row.session] = row.digest, row.open_turn

    def stands(self, commit: Commit) -> bool:
        """Whether a commit goes on from what was written here, in the same turn: then what lists open turns stays."""
        return self._standing.get(commit.row.session) == (commit.expected_digest, commit.row.open_turn)

    def forget(self) -> None:
        """Remember nothing: what was written may have been undone."""
        self._stirred.clear()
        self._standing.clear()
        self.places.clear()


class Job(NamedTuple):
    """A queued operation."""

    operation: Operation
    ticket: Ticket[Any]
    guarded: bool
    quiet: bool = False
    brief: bool = False


class Writer(Leading[Job]):
    """Owns the connection that writes."""

    def __init__(
        self,
        path: str,
        committed: Callable[[], None],
        connection: apsw.Connection | None,
        packing: Packing = PACKING,
    ) -> None:
        super().__init__()
        self._path = path
        self._packing = packing
        self._committed = committed
        self._haste = Haste()
        self._connection: apsw.Connection | None = None
        self._transaction: Transaction | None = None
        if connection is not None:
            self._take(connection)
        self._poisoned: PerdureError | None = None
        self._hold = holding(self._lock)
        self._decided: list[Outcome] = []
        """What the batch under way comes to if its commit is made, until everyone has been told."""
        self._loud = True

    def submit(
        self, operation: Operation, *, guarded: bool = False, quiet: bool = False, brief: bool = False
    ) -> Ticket[Any]:
        """Queue an operation; its ticket is delivered once the disk has it.

        `guarded` operations may refuse after writing something: they get a savepoint of their own. For `quiet` ones
        alone nobody is woken who watches the feed: it does not tell of them. `brief` ones write a few rows and no more.
        """
        return self._lead(Job(operation, Ticket(), guarded, quiet, brief))

    def _commits_here(self) -> bool:
        queue, haste = self._queue, self._haste
        if len(queue) != 1 or not queue[0].brief or self._connection is None or self._lock.locked() or not haste.may():
            return False
        import asyncio

        clock = asyncio.get_running_loop().time
        began = clock()
        with self._lock:
            haste.on = True
            try:
                self._commit_batch()
            finally:
                haste.on = False
        haste.took(clock() - began)
        return not queue

    def _commit_batch(self) -> None:
        """Run what has queued up in one transaction and tell everyone how it went.

        An interrupt of the thread that leads ends its own call only: others' operations stay queued or, if the
        commit had been made, are told.
        """
        batch: list[Job] = []
        try:
            batch = [self._queue[place] for place in range(min(len(self._queue), MAX_BATCH))]
            self._settle()
            if batch:
                self._transact(batch)
        except apsw.Error as error:
            if self._haste.on and isinstance(error, apsw.BusyError):
                return  # another process writes just now: the thread waits for it
            failure = translate(error, self._path)
            if isinstance(failure, StorePoisoned):
                self._poison(failure)
            self._decided = [(job.ticket, None, failure) for job in batch if not job.ticket.done]
        except PerdureError as refusal:
            self._decided = [(job.ticket, None, refusal) for job in batch if not job.ticket.done]
        except BaseException:
            self._call()
            self._settle()
            raise
        try:
            self._settle()
        except BaseException:
            self._settle()
            raise

    def _settle(self) -> None:
        """Bring the batch that was under way to its end: undone, if its commit was not made; else everyone told.

        Only for who leads; doing it again does no harm.
        """
        connection = self._connection
        if connection is not None and connection.in_transaction:
            self._decided = []
            self._forget()
            connection.execute("ROLLBACK")
        if self._decided:
            if self._loud:
                self._committed()
            deliver_all(self._decided)
            self._decided = []
        while self._queue and self._queue[0].ticket.done:
            self._queue.popleft()

    def _transact(self, batch: list[Job]) -> None:
        """Note the outcomes, then commit them. An engine error leaves neither."""
        connection, transaction = self._open()
        try:
            transaction.execute("BEGIN IMMEDIATE")
            transaction.destroys = False
            self._loud = not all(job.quiet for job in batch)
            self._decided = [self._run(transaction, job) for job in batch if not job.ticket.done]
            transaction.execute("COMMIT")
            if transaction.destroys:
                self._empty_log(connection)
        except (apsw.Error, PerdureError):
            self._decided = []  # some errors end the transaction by themselves: it must not be taken for committed
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            transaction.forget()
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
                transaction.forget()
            return job.ticket, None, refusal
        if job.guarded:
            transaction.execute("RELEASE operation")
        return job.ticket, outcome, None

    def _open(self) -> tuple[apsw.Connection, Transaction]:
        self._must_be_open()
        if self._connection is None or self._transaction is None:
            connection = connect(self._path, writable=True)
            if self._poisoned is not None:
                self._heal(connection)
            return self._take(connection)
        return self._connection, self._transaction

    def _take(self, connection: apsw.Connection) -> tuple[apsw.Connection, Transaction]:
        """Write by this connection from now on."""
        self._haste.attach(connection)
        taken = self._connection, self._transaction = connection, Transaction(connection, self._packing)
        return taken

    def _empty_log(self, connection: apsw.Connection) -> None:
        """Fold the write-ahead log into the file and cut it, so that what was destroyed is not left in it. If somebody
        reads just now it stays until the next time: nobody is made to wait.
        """
        try:
            connection.set_busy_handler(None)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.set_busy_handler(self._haste.patient)

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
        self._disconnect(force=True)

    def _forget(self) -> None:
        if self._transaction is not None:
            self._transaction.forget()

    def _disconnect(self, *, force: bool = False) -> None:
        connection, self._connection, self._transaction = self._connection, None, None
        if connection is not None:
            connection.close(force)

    def pause(self) -> None:
        """Wait for the commit under way, hold further ones, and close the connection."""
        self._hold = holding(self._lock)
        next(self._hold)
        self._settle()
        self._disconnect()

    def go_on(self) -> None:
        """Commit again; harmless when that was never stopped."""
        self._hold.close()
