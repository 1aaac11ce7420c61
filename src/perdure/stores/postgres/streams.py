"""The streams of running turns in the database. They are no part of the log, go with the turn, and are in no backup."""

from collections.abc import Iterable
from typing import Any

from perdure.core.session.ids import SessionId
from perdure.ports.store import Kept
from perdure.stores.packing import Packing
from perdure.stores.postgres.connection import Connection, ask
from perdure.stores.postgres.rows import place_from
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept as held
from perdure.stores.postgres.texts import told
from perdure.stores.streams import unpack


def prepare(connection: Connection) -> None:
    """Make the tables if they are not there, under the lock that writers take."""
    if not ask(connection, Q["streams_there"]).fetchone()[0]:
        with connection.transaction():
            ask(connection, Q["migrating"])
            connection.execute(Q["stream_tables"])


def keep(
    tx: Asks, session: SessionId, salt: bytes | None, run_by: tuple[int, str, int], piece: tuple[int, int, bytes]
) -> Any:
    """Keep which turn is run by whom until when, and a piece of its stream (where it begins, where it ends, and the
    stored bytes), unless it is empty. The cursor: its count of rows tells, once the commit is made, whether the session
    was there with this salt. Nobody waits for it before.
    """
    turn, node, until = run_by
    return tx.execute(Q["stream_keep"], (session, salt, turn, held(node), until, *piece))


def kept(packing: Packing, asks: Asks, session: SessionId, turn: int, after: int, *, sure: bool) -> Kept | None:
    """The pieces of a turn's stream that end after an offset. Who is not `sure` that there are tables looks first."""
    if not sure and not asks.execute(Q["streams_there"]).fetchone()[0]:
        return None
    rows = asks.execute(Q["stream_kept"], (session, turn, after)).fetchall()
    if not rows:
        return None
    node, until, place = told(rows[0][0]), rows[0][1], place_from(*rows[0][2:5])
    pieces = tuple((row[5], unpack(packing, place, turn, row[5], row[6])) for row in rows if row[5] is not None)
    return Kept(turn=turn, node=node, until=until, pieces=pieces)


def let_go(tx: Asks, session: SessionId, turn: int) -> None:
    """Forget turns up to this one."""
    tx.execute(Q["stream_let_go"], (session, turn))


def forget(tx: Asks, no: int) -> None:
    """Forget all turns of a numbered session."""
    tx.execute(Q["stream_forget"], (no,))


def blank(tx: Asks, no: int, turns: Iterable[int]) -> None:
    """Forget what was streamed in these turns; who runs them stays."""
    tx.execute(Q["stream_blank"], (no, sorted(turns)))
