"""The streams of running turns in the file. They are no part of the log, go with the turn, and are in no backup."""

from collections.abc import Iterable
from typing import Final

from perdure.core.session.ids import SessionId, raw
from perdure.ports.store import Kept
from perdure.stores.packing import Packing
from perdure.stores.sqlite.rows import PLACE_SHAPE, Shape, fitting, place_from
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction
from perdure.stores.streams import LAST, unpack

TABLES: Final = ("stream", "stream_piece")
_THERE: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'stream_piece'"
_BYTES, _TEXT, _WHOLE, _NONE = (frozenset({kind}) for kind in (bytes, str, int, type(None)))
_SHAPE: Final[Shape] = (_TEXT, _WHOLE, *PLACE_SHAPE, _WHOLE | _NONE, _BYTES | _NONE)


def there(asks: Asks) -> bool:
    """Whether the store has ever kept a stream: before that it has no tables for them."""
    return asks.execute(_THERE).fetchone() is not None


def keep(
    tx: Transaction, session: SessionId, salt: bytes | None, run_by: tuple[int, str, int], piece: tuple[int, int, bytes]
) -> bool:
    """Keep which turn is run by whom until when, and a piece of its stream (where it begins, where it ends, and the
    stored bytes), unless it is empty. False when the session is gone or has another salt.
    """
    found = tx.execute(Q["place"], (raw(session),)).fetchone()
    if found is None or found[4] != salt:
        return False
    no, (turn, node, until), (start, upto, body) = found[0], run_by, piece
    if not there(tx):
        tx.execute(Q["stream_tables"])
    tx.execute(Q["stream_run_by"], (no, turn, node, until))
    if upto > start:
        tx.execute(Q["stream_keep"], (no, turn, start, upto, body))
    return True


def kept(packing: Packing, asks: Asks, session: SessionId, turn: int, after: int) -> Kept | None:
    """The pieces of a turn's stream that end after an offset."""
    found = asks.execute(Q["stream_kept"], (raw(session), turn, after)).fetchall() if there(asks) else []
    if not found:
        return None
    rows = [fitting(columns, _SHAPE) for columns in found]
    node, until, place = rows[0][0], rows[0][1], place_from(rows[0][2:5])
    pieces = tuple((row[5], unpack(packing, place, turn, row[5], row[6] or b"")) for row in rows if row[5] is not None)
    return Kept(turn=turn, node=node, until=until, pieces=pieces)


def let_go(tx: Transaction, session: SessionId, turn: int) -> None:
    """Forget turns up to this one."""
    found = tx.execute(Q["place"], (raw(session),)).fetchone()
    if found is not None:
        forget(tx, found[0], turn)


def forget(tx: Transaction, no: int, turn: int = LAST) -> None:
    """Forget turns of a numbered session up to this one, or all."""
    if there(tx):
        tx.execute(Q["stream_let_go"], (no, turn))
        tx.execute(Q["stream_let_pieces_go"], (no, turn))


def blank(tx: Transaction, no: int, turns: Iterable[int]) -> None:
    """Forget what was streamed in these turns; who runs them stays."""
    if there(tx):
        for turn in turns:
            tx.execute(Q["stream_blank"], (no, turn))
