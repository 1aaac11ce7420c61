"""What happens to sessions over months: timers come up, logs go to cold storage and back."""

from collections.abc import Iterable, Sequence

from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Snapshot, Stored
from perdure.stores.columns import checkpoint_values
from perdure.stores.refusals import moved_on
from perdure.stores.sqlite import streams, words
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.writer import Transaction
from perdure.stores.sqlite.writes import cache, insert_copy, keep_position, known, place_of


def claim(tx: Transaction, tenant: str | None, now: int, until: int, limit: int) -> list[SessionId]:
    """Take sessions with something due, so that nobody else is handed them before `until`."""
    found = tx.execute(Q["due"], (now, tenant, limit)).fetchall()
    for no, _ in found:
        tx.execute(Q["lend"], (until, no))
    return [SessionId(text(session)) for _, session in found]


def arm(tx: Transaction, session: SessionId, due_at: int | None, expected: bytes) -> bool:
    """When something is due, unless the log has gone on."""
    tx.execute(Q["arm"], (due_at, raw(session), expected))
    return tx.changes() == 1


def freeze(tx: Transaction, session: SessionId, cold: str, expected: bytes, anchor: int) -> None:
    """The log lies elsewhere from now on; what is here goes."""
    no = known(tx, session)
    tx.execute(Q["freeze"], (cold, no, expected, anchor))
    if tx.changes() != 1:
        raise moved_on(session)
    tx.destroys = True
    latest = tx.execute(Q["position"]).fetchone()[0]
    words.forget(tx, [found[0] for found in tx.execute(Q["erase_records"], (no,)).fetchall()])
    tx.execute(Q["erase_snapshots"], (no,))
    tx.execute(Q["erase_checkpoints"], (no,))
    streams.forget(tx, no)
    keep_position(tx, latest)


def thaw(
    tx: Transaction,
    session: SessionId,
    expected: str | None,
    brought: Iterable[Stored],
    checkpoints: Sequence[Checkpoint],
    snapshot: Snapshot | None,
) -> None:
    """The log is back. The feed has told of it before, so its records come as copies."""
    no = known(tx, session)
    place = place_of(tx, no)
    cold = tx.execute("SELECT cold FROM session WHERE no = ?", (no,)).fetchone()[0]
    if cold is None or expected not in (None, cold):
        return
    for stored in brought:
        insert_copy(tx, no, place, stored)
    for item in checkpoints:
        tx.execute(Q["save_checkpoint"], checkpoint_values(tx.packing, place, no, item))
    if snapshot is not None:
        cache(tx, no, place, snapshot)
    tx.execute(Q["thaw"], (no,))
