"""What happens to sessions over months: timers come up, logs go to cold storage; and whole logs come in.

A log that comes in may be long, and may come slowly. It is staged in a transaction of its own that holds no lock, under
positions below zero, where nobody looks; only at its end are writers held up while it gets its place in the feed.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import psycopg

from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Head, Snapshot, Stored
from perdure.stores.blobs import NotedUse, uses_of
from perdure.stores.postgres import blobs, rows, streams, words
from perdure.stores.postgres.connection import HOLD_SECONDS
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.texts import kept, told
from perdure.stores.postgres.writer import Transaction
from perdure.stores.postgres.writes import cache, insert_segments, keep_position, known, place_of
from perdure.stores.refusals import moved_on, taken

_TYPES: Final = ("int8", "int8", "int8", "int8", "bytea", "bytea", "bool")
_STAGE: Final = 1 << 32


class Thawed(Exception):
    """Somebody else has brought the log back meanwhile; what was staged here is to be undone."""


def claim(tx: Transaction, tenant: str | None, now: int, until: int, limit: int) -> list[SessionId]:
    """Take sessions with something due, so that nobody else is handed them before `until`."""
    found = tx.execute(Q["due"], (now, None if tenant is None else kept(tenant), until, limit)).fetchall()
    return [SessionId(text(session)) for _, session in sorted(found)]


def arm(tx: Transaction, session: SessionId, due_at: int | None, expected: bytes) -> bool:
    """When something is due, unless the log has gone on."""
    return tx.execute(Q["arm"], (session, due_at, expected)).fetchone() is not None


def freeze(tx: Transaction, session: SessionId, cold: str, expected: bytes, anchor: int) -> None:
    """The log lies elsewhere from now on; what is here goes."""
    no = known(tx, session)
    if tx.execute(Q["freeze"], (kept(cold), no, expected, anchor)).fetchone() is None:
        raise moved_on(session)
    words.hold(tx)
    latest = tx.execute(Q["position"]).fetchone()[0]
    words.forget(tx, [found[0] for found in tx.execute(Q["erase_records"], (no,)).fetchall()])
    tx.execute(Q["erase_snapshots"], (no,))
    tx.execute(Q["erase_checkpoints"], (no,))
    streams.forget(tx, no)
    keep_position(tx, latest)


def bring(tx: Transaction, place: Place, head: Head, brought: Iterable[Stored], snapshot: Snapshot | None) -> None:
    """A whole session from elsewhere. Inherited records are copies: the feed has told of them where they were made."""
    session = head.row.session
    if tx.execute(Q["place"], (session,)).fetchone() is not None:
        raise taken(session)
    no: int = tx.execute(Q["fresh_number"]).fetchone()[0]
    uses = _stage(tx, no, place, brought, raw(session))
    made = tx.execute(Q["create_numbered"], (*rows.create_values(tx.packing, place, head.row), no)).fetchone()
    if made is None:
        raise taken(session)
    tx.execute(Q["place_staged"], (no,))
    insert_segments(tx, no, head.segments)
    if head.anchor_digest is not None:
        tx.execute(Q["anchor"], (head.anchor_version, head.anchor_digest, no))
        blobs.note_anchor(tx, no, place, snapshot)
    blobs.note(tx, no, uses)
    if snapshot is not None:
        cache(tx, no, place, snapshot)
    tx.execute(Q["tell"])


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
    cold = tx.execute(Q["cold"], (no,)).fetchone()[0]
    if cold is None or expected not in (None, told(cold)):
        return
    try:
        uses = _stage(tx, no, place, brought, None)
    except psycopg.errors.UniqueViolation as raced:
        raise Thawed from raced
    found = tx.execute(Q["cold"], (no,)).fetchone()
    if found is None:
        raise moved_on(session)
    if found[0] != cold:
        raise Thawed
    tx.execute(Q["place_staged"], (no,))
    blobs.note(tx, no, uses)
    for item in checkpoints:
        tx.execute(Q["save_checkpoint"], rows.checkpoint_values(tx.packing, place, no, item))
    if snapshot is not None:
        cache(tx, no, place, snapshot)
    tx.execute(Q["thaw"], (no,))


def _stage(tx: Transaction, no: int, place: Place, brought: Iterable[Stored], own: bytes | None) -> list[NotedUse]:
    """Stream records in, then take the lock that all writers take; the blobs they point to."""
    uses: list[NotedUse] = []
    tx.execute(Q["be_patient"])
    with tx.connection.cursor().copy(Q["stage_records"]) as copy:
        copy.set_types(_TYPES)
        for count, stored in enumerate(brought, 1):
            record = stored.record
            body = tx.packing.pack(place, record, stored.digest)
            copied = None if record.origin == own else True
            copy.write_row((-(no * _STAGE + count), no, record.first, record.last, stored.digest, body, copied))
            uses += uses_of(tx.packing, place.tenant, record)
    tx.execute(Q["be_prompt"], (f"{HOLD_SECONDS}s",))
    tx.execute(Q["enter"])
    return uses
