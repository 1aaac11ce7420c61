"""The operations that change the database. Each runs inside the writer's transaction, which holds the lock that all
writers take, and checks before it writes.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.record import Record, both_redacted
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Commit, KeyTaken, KeyUse, Remembered, Segment, Snapshot, Stored
from perdure.stores.blobs import NotedUse, uses_of
from perdure.stores.columns import remembered_from, segments_from
from perdure.stores.packing import Packing, deflate
from perdure.stores.postgres import blobs, rows, streams, words
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept, key_mark, mark
from perdure.stores.postgres.touching import Touch
from perdure.stores.postgres.writer import Transaction
from perdure.stores.refusals import (
    moved_on,
    no_record,
    no_source,
    not_erased,
    not_pruned,
    refuse_beyond,
    taken,
    unknown,
)
from perdure.stores.streams import redacted_turns

KEPT_SNAPSHOTS: Final = 16
"""Cached states kept per session; older ones go, the anchor of a pruned log never."""


class Packed(NamedTuple):
    """A commit, whose content it is, its record as it is stored, and the blobs it points to."""

    commit: Commit
    place: Place
    body: bytes
    uses: tuple[NotedUse, ...]


def pack(packing: Packing, commit: Commit, place: Place) -> Packed:
    """What an append needs to know of a commit; worked out before any lock is taken."""
    body = packing.pack(place, commit.record, commit.row.digest)
    return Packed(commit, place, body, uses_of(packing, place.tenant, commit.record))


def is_touch(packed: Sequence[Packed]) -> bool:
    """Whether an append is one session's, with nothing beside its record, its key and its money."""
    commit = packed[0].commit
    return len(packed) == 1 and not (
        commit.creates
        or packed[0].uses
        or commit.listing
        or commit.checkpoints
        or commit.dropped_checkpoints
        or commit.rewrites
        or commit.snapshot is not None
    )


def append(tx: Transaction, commits: Sequence[Packed]) -> int:
    """All commits, each checked first: key, blobs, version, accounts."""
    for commit, *_ in commits:
        if commit.key is not None and (found := remembered(tx.packing, tx, commit.key)) is not None:
            raise KeyTaken(found)
    for packed in commits:
        blobs.refuse_missing(tx, packed.uses)
    position = 0
    for commit, place, body, uses in commits:
        if commit.creates:
            position = _create(tx, commit, place, body)
            for move in commit.accounts:
                _move_account(tx, move)
        else:
            position = _advance(tx, commit, place, body)
        if uses:
            blobs.note(tx, known(tx, commit.row.session), uses)
        _beside(tx, commit, place)
    return position


def remembered(packing: Packing, tx: Asks, use: KeyUse) -> Remembered | None:
    """What a key stands for, seen from any connection."""
    found = tx.execute(Q["key"], (key_mark(packing, use.principal, use.key), use.session)).fetchone()
    return None if found is None else remembered_from(packing, use, found)


def _create(tx: Transaction, commit: Commit, place: Place, body: bytes) -> int:
    row, record, use = commit.row, commit.record, commit.key
    after = commit.anchor[0] if commit.anchor is not None else 0
    for segment in commit.segments:
        standing = tx.execute(Q["standing"], (segment.source,)).fetchone()
        if standing is None:
            raise no_source(segment.source)
        if standing[3] > after:
            raise moved_on(segment.source)
        after = segment.upto
    made = tx.execute(Q["create"], rows.create_values(tx.packing, place, row)).fetchone()
    if made is None:
        raise taken(row.session)
    no: int = made[0]
    insert_segments(tx, no, commit.segments)
    if commit.anchor is not None:
        tx.execute(Q["anchor"], (*commit.anchor, no))
        blobs.note_anchor(tx, no, place, commit.snapshot)
    values = (
        None if use is None else key_mark(tx.packing, use.principal, use.key),
        use is not None and use.session is not None,
        None if use is None else tx.packing.fingerprint(use.fingerprint),
    )
    found = tx.execute(Q["keep"], (no, record.first, record.last, row.digest, body, *values)).fetchone()
    return int(found[0])


def _advance(tx: Transaction, commit: Commit, place: Place, body: bytes) -> int:
    touch = Touch(tx.packing, commit, place, body)
    position = touch.judge(tx.execute(*touch.bound(again=False)).fetchone())
    if commit.listing:
        tx.execute(Q["relist"], rows.listing_values(tx.packing, place, commit.row))
    return position


def _beside(tx: Transaction, commit: Commit, place: Place) -> None:
    """What else comes with a commit."""
    if not (commit.checkpoints or commit.dropped_checkpoints or commit.rewrites or commit.snapshot is not None):
        return
    no = known(tx, commit.row.session)
    for item in commit.checkpoints:
        tx.execute(Q["save_checkpoint"], rows.checkpoint_values(tx.packing, place, no, item))
    for dropped in commit.dropped_checkpoints:
        tx.execute(Q["drop_checkpoint"], (no, kept(dropped)))
    if commit.rewrites:
        words.hold(tx)
        for changed in commit.rewrites:
            _rewrite(tx, no, place, changed)
        since = min(changed.first for changed in commit.rewrites)
        tx.execute(Q["forget_snapshots"], (no, since))
        tx.execute(Q["blank_checkpoints"], (deflate(b""), no, since))
        streams.blank(tx, no, redacted_turns(commit.rewrites))
    if commit.snapshot is not None:
        cache(tx, no, place, commit.snapshot)


def _rewrite(tx: Transaction, no: int, place: Place, record: Record) -> None:
    digest = tx.execute(Q["digest_at"], (no, record.first)).fetchone()
    if digest is None:
        raise no_record(record.first)
    _replace_record(tx, no, place, record, digest[0])
    for other, body, digest in tx.execute(Q["copies"], (record.first, no)).fetchall():
        whose = place_of(tx, other)
        copy = tx.packing.unpack(whose, body, record.first, digest)
        if copy.origin == record.origin:
            _replace_record(tx, other, whose, both_redacted(copy, record), digest)


def _replace_record(tx: Transaction, no: int, place: Place, record: Record, digest: bytes) -> None:
    body = tx.packing.pack(place, record, digest)
    found = tx.execute(Q["rewrite_record"], (body, no, record.first)).fetchone()
    words.refresh(tx.packing, tx, found[0], record)
    blobs.note_again(tx, no, place, record)


def place_of(tx: Asks, no: int) -> Place:
    """Whose content a numbered session's is."""
    return rows.place_from(*tx.execute(Q["place_of"], (no,)).fetchone())


def _move_account(tx: Transaction, move: AccountMove) -> None:
    changed = budget.apply(read_account(tx, move.account) or Account(), move)
    values: tuple[Any, ...] = (changed.cap, changed.spent, changed.reserved, changed.paused)
    tx.execute(Q["save_account"], (mark(move.account), kept(move.account), *values))


def read_account(tx: Asks, account: str) -> Account | None:
    """An account, seen from any connection."""
    found = tx.execute(Q["account"], (mark(account),)).fetchone()
    return Account(cap=found[0], spent=found[1], reserved=found[2], paused=found[3]) if found else None


def insert_segments(tx: Asks, no: int, segments: Sequence[Segment]) -> None:
    """Where the stretches of a session's log live."""
    for ordinal, item in enumerate(segments):
        tx.execute(Q["insert_segment"], (no, ordinal, item.source, item.origin, item.upto, item.digest))


def number(tx: Asks, session: SessionId) -> int | None:
    """A session's number, if it is there."""
    found = tx.execute(Q["place"], (session,)).fetchone()
    return found[0] if found else None


def known(tx: Asks, session: SessionId) -> int:
    """A session's number, or `NotFound`."""
    no = number(tx, session)
    if no is None:
        raise unknown(session)
    return no


def save_snapshot(tx: Transaction, session: SessionId, snapshot: Snapshot) -> None:
    """Cache a state, if its session is still there."""
    no = number(tx, session)
    if no is not None:
        cache(tx, no, place_of(tx, no), snapshot)


def cache(tx: Transaction, no: int, place: Place, item: Snapshot) -> None:
    """Cache a state of a numbered session."""
    tx.execute(Q["save_snapshot"], (no, item.version, *tx.packing.keep_snapshot(place, item)))
    tx.execute(Q["thin_snapshots"], (no, KEPT_SNAPSHOTS))


def save_checkpoints(tx: Transaction, session: SessionId, items: Sequence[Checkpoint]) -> None:
    """Rebuilt checkpoints in the place of their old selves."""
    no = number(tx, session)
    for item in items:
        if no is not None and tx.execute(Q["checkpoint_of"], (kept(item.id), no)).fetchone():
            tx.execute(Q["save_checkpoint"], rows.checkpoint_values(tx.packing, place_of(tx, no), no, item))


def drop_snapshots(tx: Transaction, session: SessionId, since: int) -> None:
    """Forget cached states, but never the anchor."""
    tx.execute(Q["drop_snapshots"], (session, since))


def adopt(tx: Transaction, session: SessionId, copies: Sequence[Stored]) -> None:
    """Copies of a shared prefix under the session's own rows; what is redacted in either copy stays so."""
    no = known(tx, session)
    place = place_of(tx, no)
    words.hold(tx)
    for stored in copies:
        record = stored.record
        there = tx.execute(Q["copy_there"], (no, record.first)).fetchone()
        if there is not None:
            record = both_redacted(record, tx.packing.unpack(place, there[0], record.first, there[1]))
        body = tx.packing.pack(place, record, stored.digest)
        tx.execute(Q["copy_record"], (no, record.first, record.last, stored.digest, body))
        blobs.note_again(tx, no, place, record)


def repoint(
    tx: Transaction, session: SessionId, segments: tuple[Segment, ...], expected: tuple[Segment, ...] | None
) -> None:
    """Where the stretches of a session's log live from now on."""
    no = known(tx, session)
    if expected is not None and _segments(tx, no) != expected:
        raise moved_on(session)
    if any(number(tx, item.source) is None for item in segments):
        raise moved_on(session)
    tx.execute(Q["drop_segments"], (no,))
    insert_segments(tx, no, segments)


def _segments(tx: Transaction, no: int) -> tuple[Segment, ...]:
    return segments_from(tx.execute(Q["segments"], (no,)).fetchall())


def prune(
    tx: Transaction, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, expected: bytes | None
) -> None:
    """Drop records up to `upto` behind an anchor; refused while another log lives on them."""
    no = known(tx, session)
    if tx.execute(Q["has_dependents"], (no,)).fetchone() is not None:
        raise not_pruned(session)
    _, version, head, anchor = tx.execute(Q["standing"], (session,)).fetchone()
    refuse_beyond(upto, version)
    if expected is not None and (head != expected or anchor >= upto):
        raise moved_on(session)
    words.hold(tx)
    latest = tx.execute(Q["position"]).fetchone()[0]
    tx.execute(Q["anchor"], (upto, digest, no))
    place = place_of(tx, no)
    cache(tx, no, place, snapshot)
    blobs.note_anchor(tx, no, place, snapshot)
    tx.execute(Q["drop_segments"], (no,))
    tx.execute(Q["drop_snapshots_before"], (no, upto))
    words.forget(tx, [found[0] for found in tx.execute(Q["prune_records"], (no, upto)).fetchall()])
    keep_position(tx, latest)


def keep_position(tx: Transaction, latest: int) -> None:
    """The feed's latest position never falls, not even when a copy goes."""
    if tx.execute(Q["position"]).fetchone()[0] < latest:
        tx.execute(Q["keep_position"], (latest,))


def erase(
    tx: Transaction,
    session: SessionId,
    at: int,
    accounts: Sequence[AccountMove],
    salt: bytes | None,
    expected: bytes | None,
) -> bool:
    """Everything of a session goes; a tombstone keeps the feed's positions growing."""
    found = tx.execute(Q["place"], (session,)).fetchone()
    if found is None:
        return False
    if found[4] not in (salt, None):  # the id was erased and used again meanwhile
        raise moved_on(session)
    if expected not in (None, tx.execute(Q["standing"], (session,)).fetchone()[2]):
        raise moved_on(session)
    no, version = found[0], found[1]
    if tx.execute(Q["has_dependents"], (no,)).fetchone() is not None:
        raise not_erased(session)
    words.hold(tx)
    tx.execute(Q["insert_tombstone"], (version, raw(session), at.to_bytes(8, "big")))
    words.forget(tx, [found[0] for found in tx.execute(Q["erase_records"], (no,)).fetchall()])
    for name in ("drop_segments", "erase_snapshots", "erase_checkpoints", "erase_keys", "blob_unuse_all"):
        tx.execute(Q[name], (no,))
    streams.forget(tx, no)
    tx.execute(Q["erase_session"], (no,))
    for move in accounts:
        _move_account(tx, move)
    return True
