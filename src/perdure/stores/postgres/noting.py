"""What became of a commit whose answer was lost: the transaction's own note tells, since it is there or not with the
rest of it.

The server's transaction ids are no help: after a crash or a failover an id that never became durable is given again
(seen with PostgreSQL 18), and `pg_xact_status` would tell of somebody else's transaction.
"""

from perdure.stores.postgres.connection import Connection, begin, say
from perdure.stores.postgres.readers import Session
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks


def note(tx: Asks, writer: bytes, number: int) -> None:
    """Have a transaction leave a note: this writer's, with this number."""
    tx.execute(Q["note"], (writer, number))


def was_made(connection: Connection, writer: bytes, number: int) -> bool:
    """Whether the transaction with this note was committed. If it is still under way, its end is waited for: it holds
    the lock that all writers take.
    """
    asks = Session(connection)
    begin(connection)
    asks.execute(Q["enter"])
    found = asks.execute(Q["noted"], (writer,)).fetchone()
    say(connection, "COMMIT")
    return found is not None and found[0] >= number


def forget_old(asks: Asks) -> None:
    """Drop the notes of writers that have long been gone."""
    asks.execute(Q["forget_notes"])
