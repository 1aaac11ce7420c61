"""The text index: which words occur in which record. A projection from the log by a stored cursor.

Appends do not pay for it; a search first catches up with the log, so its answer is never stale. A store nobody
searches has no index at all.
"""

from collections.abc import Sequence
from typing import Final

from perdure.core.errors import Shredded
from perdure.core.session import kinds
from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.projections.text import text_of
from perdure.projections.text import words as split
from perdure.stores.packing import Packing
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks

BATCH: Final = 500


def content(packing: Packing, record: Record) -> str:
    """The searchable words of a record."""
    texts = [
        text_of(kinds.decode(entry.kind, entry.kind_version, entry.data))
        for entry in record.entries
        if entry.blind is not None
    ]
    return " ".join(packing.words(split(" ".join(texts))))


def position(asks: Asks) -> int | None:
    """How far the index has come; None when there is none yet."""
    found = asks.execute(Q["words_cursor"]).fetchone()
    return None if found is None else int(found[0])


def look(asks: Asks) -> None:
    """Have a connection see the index as it is now. A check of the file would compare with how it last saw it, and call
    what another connection has merged since then damage.
    """
    if position(asks) is not None:
        asks.execute(Q["look_at_words"]).fetchall()


def catch_up(packing: Packing, tx: Asks) -> bool:
    """Index one batch of records; whether more are waiting."""
    cursor = position(tx)
    if cursor is None:
        tx.execute(Q["create_words"])
        tx.execute(Q["begin_words"])
        cursor = 0
    found = tx.execute(Q["records_after"], (cursor, BATCH)).fetchall()
    for number, body, first, digest, *whose in found:
        if whose[1] is not None:
            try:
                record = packing.unpack(Place(*whose), body, first, digest)
            except Shredded:  # erased elsewhere: there is nothing to find in it
                continue
            tx.execute(Q["index_words"], (number, content(packing, record)))
    if found:
        tx.execute(Q["move_words_cursor"], (found[-1][0],))
    return len(found) == BATCH


def refresh(packing: Packing, tx: Asks, place: int, record: Record) -> None:
    """Index a rewritten record anew, if it was indexed."""
    cursor = position(tx)
    if cursor is not None and place <= cursor:
        forget(tx, [place])
        tx.execute(Q["index_words"], (place, content(packing, record)))


def forget(tx: Asks, places: Sequence[int]) -> None:
    """Drop records from the index, and every word that occurred in them alone from the file."""
    if places and position(tx) is not None:
        for place in places:
            tx.execute(Q["forget_words"], (place,))
        tx.execute(Q["scrub_words"])  # deleting alone only marks; merging the whole index leaves nothing behind


def match_expression(packing: Packing, text: str) -> str | None:
    """The words of a search as the index wants them, or None when there are none."""
    found = packing.words(split(text))
    return " ".join(f'"{word}"' for word in found) if found else None
