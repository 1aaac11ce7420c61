"""The text index: which words occur in which record. A projection from the log by a stored cursor.

Appends do not pay for it; a search first catches up with the log, so its answer is never stale. Catching up does not
hold writers up: it holds the cursor's row, and only those wait for it who take content away.

Invariant: whoever rewrites or removes a record holds the cursor's row meanwhile; so no word of what is gone is indexed
after it went.
"""

from collections.abc import Sequence
from typing import Final

from perdure.core.errors import Shredded
from perdure.core.session.record import Record
from perdure.projections.text import text_of_record
from perdure.projections.text import words as split
from perdure.stores.packing import Packing
from perdure.stores.postgres.rows import place_from
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import indexed

BATCH: Final = 500


def content(packing: Packing, record: Record) -> list[str]:
    """The searchable words of a record."""
    return asked(packing, text_of_record(record))


def asked(packing: Packing, text: str) -> list[str]:
    """The words of a search as the index has them; none when it has no words."""
    return indexed(packing.words(split(text)))


def position(asks: Asks) -> int | None:
    """How far the index has come; None when there is none yet."""
    found = asks.execute(Q["words_cursor"]).fetchone()
    return None if found is None else int(found[0])


def behind(asks: Asks) -> bool:
    """Whether records wait to be indexed, or there is no index yet."""
    return bool(asks.execute(Q["words_behind"]).fetchone()[0])


def catch_up(packing: Packing, tx: Asks) -> None:
    """Index one batch of records."""
    tx.execute(Q["begin_words"])
    cursor = tx.execute(Q["hold_words"]).fetchone()[0]
    found = tx.execute(Q["records_after"], (cursor, BATCH)).fetchall()
    for number, body, first, digest, *whose in found:
        if whose[1] is not None:
            try:
                record = packing.unpack(place_from(*whose), body, first, digest)
            except Shredded:  # erased elsewhere: there is nothing to find in it
                continue
            tx.execute(Q["index_words"], (number, content(packing, record)))
    if found:
        tx.execute(Q["move_words_cursor"], (found[-1][0],))


def refresh(packing: Packing, tx: Asks, place: int, record: Record) -> None:
    """Index a rewritten record anew, if it was indexed. The cursor is held."""
    cursor = position(tx)
    if cursor is not None and place <= cursor:
        tx.execute(Q["index_words"], (place, content(packing, record)))


def hold(tx: Asks) -> None:
    """Let nobody catch up until this transaction ends."""
    tx.execute(Q["hold_words"])


def forget(tx: Asks, places: Sequence[int]) -> None:
    """Drop records from the index. The cursor is held."""
    if places:
        tx.execute(Q["forget_words"], (list(places),))
