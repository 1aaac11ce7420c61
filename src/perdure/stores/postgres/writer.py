"""One writer with group commit: whatever waits together is committed together, by one fsync of the server's.

Who commits `leading` says. A batch of touches is sent with its BEGIN and COMMIT in one go: one round trip. Other
operations are functions of a `Transaction`; each gets a savepoint, and all of a batch one commit. What refuses (a
conflict, an exhausted budget) fails alone.

A lost connection may have lost the answer to a commit, and then nobody knows whether it was made. Invariants: a touch
that is tried again says so, and its record, digest for digest, tells that the first try was made; that costs no second
round trip. Any other batch leaves a note in its transaction, and its outcomes are kept until the note has told whether
they hold. So nothing is done twice, after a crash or a failover neither, and what cannot be known is said. An interrupt
of the thread that leads counts as a lost connection: it may strike between any two steps, and whoever leads next
finishes what was left.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import psycopg

from perdure.core.errors import PerdureError
from perdure.ports.ambient import Ambient
from perdure.ports.store import KeyTaken
from perdure.stores.leading import MAX_BATCH, Leading
from perdure.stores.packing import Packing
from perdure.stores.postgres.connection import (
    Connection,
    Connections,
    ask,
    begin,
    concerns_one,
    forbids_preparing,
    is_lost,
    is_passing,
    say,
)
from perdure.stores.postgres.noting import note, was_made
from perdure.stores.postgres.patience import Patience, failure, outcome_unknown
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.touching import OutcomeUnknown, Touch
from perdure.waiting import Ticket, deliver_all

Operation = Callable[["Transaction"], Any]
Outcome = tuple[Ticket[Any], Any, BaseException | None]


class Transaction:
    """What an operation writes through. Statements wait to be sent until one's answer is looked at."""

    def __init__(self, connection: Connection, packing: Packing) -> None:
        self.connection = connection
        self.packing = packing

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Run a statement; its cursor."""
        return ask(self.connection, statement, values)


class Job:
    """A queued piece of work. `sent` until there is an answer; `again` when an earlier try never got one."""

    __slots__ = ("again", "quiet", "sent", "ticket", "work")

    def __init__(self, work: Touch | Operation, quiet: bool = False) -> None:
        self.work = work
        self.quiet = quiet
        self.ticket: Ticket[Any] = Ticket()
        self.again = False
        self.sent = False


class Doubt(NamedTuple):
    """A transaction whose commit has got no answer yet, and what it comes to if it was made."""

    number: int
    decided: list[Outcome]
    jobs: Sequence[Job]


class Writer(Leading[Job]):
    """Owns the connection that writes."""

    def __init__(
        self,
        connections: Connections,
        committed: Callable[[], None],
        packing: Packing,
        ambient: Ambient,
        seconds: float,
    ) -> None:
        super().__init__()
        self._connections = connections
        self._committed = committed
        self._packing = packing
        self._ambient = ambient
        self._seconds = seconds
        self._connection: Connection | None = None
        self._doubt: Doubt | None = None
        self._id = ambient.random(16)
        self._number = 0
        self._ending: Ticket[None] = Ticket()

    @property
    def _shown(self) -> str:
        return self._connections.address.shown

    def submit(self, work: Touch | Operation, *, quiet: bool = False) -> Ticket[Any]:
        """Queue a piece of work; its ticket is delivered once the server has it on disk. For `quiet` work alone nobody
        is woken who watches the feed: it does not tell of it.
        """
        return self._lead(Job(work, quiet))

    def _commit_batch(self) -> None:
        """Carry out what has queued up and tell everyone how it went.

        An interrupt of the thread that leads ends its own call only: others' work stays queued, and is finished by
        whoever leads next.
        """
        try:
            self._carry_out(list(islice(self._queue, MAX_BATCH)))
        except BaseException:
            self._call()
            self._disconnect()
            raise
        finally:
            while self._queue and self._queue[0].ticket.done:
                self._queue.popleft()

    def _carry_out(self, batch: Sequence[Job]) -> None:
        patience = Patience(self._seconds, self._ambient, self._ending)
        while jobs := [job for job in batch if not job.ticket.done]:
            try:
                connection = self._connected()
                if self._doubt is not None:
                    self._look_back(connection, self._doubt)
                else:
                    self._attempt(connection, jobs)
            except psycopg.Error as error:
                self._recover(error, jobs, patience)
            except PerdureError as refusal:
                self._tell([(job.ticket, None, refusal) for job in jobs])

    def _connected(self) -> Connection:
        self._must_be_open()
        if self._connection is None:
            self._connection = self._connections.connect()
        return self._connection

    def _attempt(self, connection: Connection, jobs: Sequence[Job]) -> None:
        if all(isinstance(job.work, Touch) for job in jobs):
            self._touch(connection, jobs)
        else:
            self._operate(connection, jobs)

    def _touch(self, connection: Connection, jobs: Sequence[Job]) -> None:
        if len(jobs) == 1:
            statement, values = _bound(jobs[0])
            answers = [(jobs[0], ask(connection, statement, values, prepare=self._connections.prepares).fetchone())]
        else:
            with connection.pipeline():
                begin(connection)
                answers = _touched(connection, jobs)
                say(connection, "COMMIT")
        self._tell([self._judged(job, answer) for job, answer in answers])

    def _judged(self, job: Job, answer: Any) -> Outcome:
        assert isinstance(job.work, Touch)
        try:
            return job.ticket, job.work.judge(answer), None
        except OutcomeUnknown:
            return job.ticket, None, outcome_unknown("the log was pruned or archived meanwhile", self._shown)
        except (PerdureError, KeyTaken) as refusal:
            return job.ticket, None, refusal

    def _operate(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """Note the outcomes, then commit them."""
        number = self._number = self._number + 1
        loud = not all(job.quiet for job in jobs)
        try:
            with connection.pipeline():
                transaction = Transaction(connection, self._packing)
                begin(connection)
                transaction.execute(Q["enter"])
                decided = [_run(transaction, job, job.work) for job in jobs if not isinstance(job.work, Touch)]
                touches = [job for job in jobs if isinstance(job.work, Touch)]
                decided += [self._judged(job, answer) for job, answer in _touched(connection, touches)]
                if loud:
                    transaction.execute(Q["tell"])
                note(transaction, self._id, number)
                self._doubt = Doubt(number, decided, jobs)
                say(connection, "COMMIT")
        except psycopg.Error as error:
            if not is_lost(error, connection):
                self._doubt = None  # the server said no: nothing of the batch is there
            raise
        self._tell(decided, loud=loud)
        self._doubt = None

    def _tell(self, decided: list[Outcome], *, loud: bool = True) -> None:
        if loud:
            self._committed()
        deliver_all(decided)

    def _look_back(self, connection: Connection, doubt: Doubt) -> None:
        """Bring a commit without an answer to its end. If it was not made, its jobs are still queued."""
        if was_made(connection, self._id, doubt.number):
            self._tell(doubt.decided)
        self._doubt = None

    def _recover(self, error: psycopg.Error, jobs: Sequence[Job], patience: Patience) -> None:
        """After an engine error: whether to try again, and if not, who is told what. It spoils the connection."""
        lost = is_lost(error, self._connection)
        self._disconnect()
        if forbids_preparing(error):
            self._connections.prepares = False
        if not lost and self._doubt is None:  # the server said no: nothing of the batch is there
            for job in jobs:
                job.sent = False
        if (lost or is_passing(error)) and patience.lasts(error):
            return
        if len(jobs) > 1 and self._doubt is None and concerns_one(error):
            for job in jobs:
                self._carry_out([job])
            return
        plain, unknown = failure(error, self._shown), outcome_unknown(str(error), self._shown)
        doubtful = () if self._doubt is None else self._doubt.jobs
        self._tell([(job.ticket, None, unknown if job.sent or job in doubtful else plain) for job in jobs])
        self._doubt = None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.drop(connection)

    def close(self) -> None:
        """Commit what is queued, stop the thread, close the connection. A server that is away is not waited for."""
        self._ending.deliver(None)
        super().close()


def _bound(job: Job) -> tuple[str, tuple[Any, ...]]:
    assert isinstance(job.work, Touch)
    job.again = job.again or job.sent
    job.sent = True
    return job.work.bound(job.again)


def _touched(connection: Connection, jobs: Sequence[Job]) -> list[tuple[Job, Any]]:
    """Send many touches together; their answers. They are sent by statement: that costs half the time of one by one."""
    groups: dict[str, list[tuple[Job, tuple[Any, ...]]]] = {}
    for job in jobs:
        statement, values = _bound(job)
        groups.setdefault(statement, []).append((job, values))
    answers = []
    for statement, group in groups.items():
        cursor = connection.cursor(binary=True)
        cursor.executemany(statement, [values for _, values in group], returning=True)
        for job, _ in group:
            answers.append((job, cursor.fetchone()))
            cursor.nextset()
    return answers


def _run(transaction: Transaction, job: Job, work: Operation) -> Outcome:
    say(transaction.connection, "SAVEPOINT operation")
    try:
        outcome = work(transaction)
    except (PerdureError, KeyTaken) as refusal:
        say(transaction.connection, "ROLLBACK TO operation")
        say(transaction.connection, "RELEASE operation")
        return job.ticket, None, refusal
    say(transaction.connection, "RELEASE operation")
    return job.ticket, outcome, None
