"""Idempotency keys in the file: what each was used for. An append remembers its own together with what it writes."""

from collections.abc import Iterable

from perdure.core.session.ids import raw
from perdure.core.session.record import Record
from perdure.ports.store import Commit, KeyTaken, KeyUse, Remembered
from perdure.stores.columns import remembered_from
from perdure.stores.packing import Packing
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction


def remembered(packing: Packing, asks: Asks, use: KeyUse) -> Remembered | None:
    """What a key was used for, seen from any connection."""
    scope = 0
    if use.session is not None:
        place = asks.execute(Q["place"], (raw(use.session),)).fetchone()
        if place is None:
            return None
        scope = place[0]
    found = asks.execute(Q["key"], (scope, use.principal, packing.key(use.principal, use.key))).fetchone()
    return None if found is None else remembered_from(packing, use, found)


def refuse_known(tx: Transaction, commits: Iterable[Commit]) -> None:
    """`KeyTaken` if one of the commits has a key that was used before."""
    for use in [commit.key for commit in commits if commit.key is not None]:
        found = remembered(tx.packing, tx, use)
        if found is not None:
            raise KeyTaken(found)


def note(tx: Transaction, no: int, use: KeyUse, record: Record) -> None:
    """Remember a key for what it is used for; `KeyTaken` if it was used before."""
    scope = 0 if use.session is None else no
    kept, fingerprint = tx.packing.key(use.principal, use.key), tx.packing.fingerprint(use.fingerprint)
    tx.execute(Q["insert_key"], (scope, use.principal, kept, fingerprint, no, record.first, record.last))
    if tx.changes() == 0 and (found := remembered(tx.packing, tx, use)) is not None:
        raise KeyTaken(found)
