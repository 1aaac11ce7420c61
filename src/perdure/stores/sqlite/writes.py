"""The operations that change the file. Each runs inside the writer's transaction and checks before it writes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from perdure.core.errors import PerdureError
from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.record import Record, both_redacted
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Commit, Head, Row, Segment, Snapshot, Stored
from perdure.stores.blobs import uses_of
from perdure.stores.columns import checkpoint_values
from perdure.stores.packing import deflate, label_pairs
from perdure.stores.refusals import (
    moved_on,
    no_record,
    no_source,
    not_erased,
    not_pruned,
    refuse_beyond,
    stale,
    taken,
    unknown,
)
from perdure.stores.sqlite import blobs, keys, rows, streams, words
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writer import Transaction
from perdure.stores.streams import redacted_turns

ACTIVITY_SHIFT: Final = 26
KEPT_SNAPSHOTS: Final = 16
"""Cached states kept per session; older ones go, the anchor of a pruned log never."""


Packed = tuple[Commit, Place, bytes]
"""A commit, whose content it is, and its record as it is stored."""


def append(tx: Transaction, commits: Sequence[Packed]) -> int:
    """All commits, each checked first: key, blobs, version, accounts. The bodies were packed before the lock was
    taken. Of one commit alone the key is looked for when it is noted, or when something else is in the way.
    """
    if len(commits) > 1:
        keys.refuse_known(tx, [commit for commit, _, _ in commits])
        return _append(tx, commits)
    try:
        return _append(tx, commits)
    except PerdureError:
        keys.refuse_known(tx, [commits[0][0]])
        raise


def _append(tx: Transaction, commits: Sequence[Packed]) -> int:
    uses = [uses_of(tx.packing, place.tenant, commit.record) for commit, place, _ in commits]
    for pointed in uses:
        if pointed:
            blobs.refuse_missing(tx, pointed)
    position = 0
    for (commit, place, body), pointed in zip(commits, uses, strict=True):
        no = _create(tx, commit, place) if commit.creates else _advance(tx, commit, place)
        for move in commit.accounts:
            _move_account(tx, move)
        position = _store_record(tx, no, commit, place, body)
        if pointed:
            blobs.note(tx, no, pointed)
    return position


def _create(tx: Transaction, commit: Commit, place: Place) -> int:
    row = commit.row
    _refuse_taken(tx, row.session)
    after = commit.anchor[0] if commit.anchor is not None else 0
    for segment in commit.segments:
        standing = tx.execute(Q["standing"], (raw(segment.source),)).fetchone()
        if standing is None:
            raise no_source(segment.source)
        if standing[3] > after:
            raise moved_on(segment.source)
        after = segment.upto
    no: int = tx.execute(Q["create"], rows.create_values(tx.packing, place, row)).fetchone()[0]
    _insert_segments(tx, no, commit.segments)
    _insert_labels(tx, no, row)
    if commit.anchor is not None:
        tx.execute(Q["anchor"], (*commit.anchor, no))
        blobs.note_anchor(tx, no, place, commit.snapshot)
    return no


def _refuse_taken(tx: Transaction, session: SessionId) -> None:
    if _no(tx, session) is not None:
        raise taken(session)


def _advance(tx: Transaction, commit: Commit, place: Place) -> int:
    row = commit.row
    values: tuple[Any, ...] = (row.version, row.digest, row.active_at, row.turns)
    statement = Q["go_on"]
    if commit.listing or not tx.stands(commit):
        values += (row.open_turn,)
        statement = Q["touch"]
    if commit.listing:
        statement = Q["relist"]
        title, labels, card = tx.packing.keep_card(place, row)
        values += (
            row.owner,
            title,
            row.phase,
            row.schema_version,
            row.expires_at,
            row.account,
            labels,
            card,
            row.due_at,
        )
    no = _advanced(tx, commit, place, statement, values)
    tx.stir(row, no, row.active_at >> ACTIVITY_SHIFT)
    if commit.listing:
        tx.execute(Q["drop_labels"], (no,))
        _insert_labels(tx, no, row)
    return no


def _advanced(tx: Transaction, commit: Commit, whose: Place, statement: str, values: tuple[Any, ...]) -> int:
    """Change the row of a session that stands where the commit expects it, and give its number; else say why not."""
    session = commit.row.session
    where = (whose.owner, commit.expected, commit.expected_digest, whose.salt)
    no = tx.places.get(session)
    if no is not None:
        tx.execute(statement, (*values, no, *where))
        if tx.changes() == 1:
            return no
    place = tx.execute(Q["place"], (raw(session),)).fetchone()
    if place is not None and place[0] != no:
        found: int = place[0]
        tx.execute(statement, (*values, found, *where))
        if tx.changes() == 1:
            return found
    raise unknown(session) if place is None else stale(session, commit.expected, place[1])


def _store_record(tx: Transaction, no: int, commit: Commit, place: Place, body: bytes) -> int:
    """The record and what comes with it; its position."""
    record = commit.record
    tx.execute(Q["insert_record"], (no, record.first, record.last, commit.row.digest, body))
    position: int = tx.position()
    if commit.key is not None:
        keys.note(tx, no, commit.key, record)
    for item in commit.checkpoints:
        tx.execute(Q["save_checkpoint"], checkpoint_values(tx.packing, place, no, item))
    for dropped in commit.dropped_checkpoints:
        tx.execute(Q["drop_checkpoint"], (no, dropped))
    for changed in commit.rewrites:
        _rewrite(tx, no, place, changed)
    if commit.rewrites:
        tx.destroys = True
        since = min(changed.first for changed in commit.rewrites)
        tx.execute(Q["forget_snapshots"], (no, no, since))
        tx.execute(Q["blank_checkpoints"], (deflate(b""), no, no, since))
        streams.blank(tx, no, redacted_turns(commit.rewrites))
    if commit.snapshot is not None:
        cache(tx, no, place, commit.snapshot)
    return position


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


def place_of(tx: Transaction, no: int) -> Place:
    """Whose content that of a session is."""
    return Place(*tx.execute(Q["place_of"], (no,)).fetchone())


def _move_account(tx: Transaction, move: AccountMove) -> None:
    changed = budget.apply(read_account(tx, move.account) or Account(), move)
    tx.execute(Q["save_account"], (move.account, changed.cap, changed.spent, changed.reserved, int(changed.paused)))


def read_account(tx: Asks, account: str) -> Account | None:
    """An account, seen from any connection."""
    found = tx.execute(Q["account"], (account,)).fetchone()
    return Account(cap=found[0], spent=found[1], reserved=found[2], paused=bool(found[3])) if found else None


def _insert_segments(tx: Transaction, no: int, segments: Sequence[Segment]) -> None:
    for ordinal, item in enumerate(segments):
        values = (no, ordinal, raw(item.source), raw(item.origin), item.upto, item.digest)
        tx.execute(Q["insert_segment"], values)


def _insert_labels(tx: Transaction, no: int, row: Row) -> None:
    for name, value in label_pairs(row):
        tx.execute(Q["insert_label"], (*tx.packing.label(name, value), no))


def _no(tx: Transaction, session: SessionId) -> int | None:
    found = tx.execute(Q["place"], (raw(session),)).fetchone()
    return found[0] if found else None


def known(tx: Transaction, session: SessionId) -> int:
    """The number of a session, or `NotFound`."""
    no = _no(tx, session)
    if no is None:
        raise unknown(session)
    return no


def save_snapshot(tx: Transaction, session: SessionId, snapshot: Snapshot) -> None:
    """Cache a state, if its session is still there."""
    no = _no(tx, session)
    if no is not None:
        cache(tx, no, place_of(tx, no), snapshot)


def cache(tx: Transaction, no: int, place: Place, item: Snapshot) -> None:
    """Cache a state, and thin out the older ones."""
    tx.execute(Q["save_snapshot"], (no, item.version, *tx.packing.keep_snapshot(place, item)))
    anchor = tx.execute("SELECT anchor_version FROM session WHERE no = ?", (no,)).fetchone()[0]
    tx.execute(Q["thin_snapshots"], (no, no, anchor, KEPT_SNAPSHOTS))


def save_checkpoints(tx: Transaction, session: SessionId, items: Sequence[Checkpoint]) -> None:
    """Rebuilt checkpoints in the place of their old selves."""
    no = _no(tx, session)
    for item in items:
        if no is not None and tx.execute(Q["checkpoint_of"], (item.id, no)).fetchone():
            tx.execute(Q["save_checkpoint"], checkpoint_values(tx.packing, place_of(tx, no), no, item))


def drop_snapshots(tx: Transaction, session: SessionId, since: int) -> None:
    """Forget cached states, but never the anchor."""
    found = tx.execute(Q["anchor_version"], (raw(session),)).fetchone()
    if found is not None:
        tx.execute(Q["drop_snapshots"], (found[0], since, found[1] or -1))


def adopt(tx: Transaction, session: SessionId, copies: Sequence[Stored]) -> None:
    """Copies of a shared prefix under the session's own rows; what is redacted in either copy stays so."""
    no = known(tx, session)
    place = place_of(tx, no)
    for stored in copies:
        record = stored.record
        there = tx.execute(Q["copy_there"], (no, record.first)).fetchone()
        if there is not None:
            record = both_redacted(record, tx.packing.unpack(place, there[0], record.first, there[1]))
        insert_copy(tx, no, place, Stored(record, stored.digest))


def insert_copy(tx: Transaction, no: int, place: Place, stored: Stored) -> None:
    """A record of which the feed has told before."""
    record = stored.record
    body = tx.packing.pack(place, record, stored.digest)
    tx.execute(Q["copy_record"], (no, record.first, record.last, stored.digest, body))
    blobs.note_again(tx, no, place, record)


def bring(tx: Transaction, place: Place, head: Head, brought: Iterable[Stored], snapshot: Snapshot | None) -> None:
    """A whole session from elsewhere. Inherited records are copies: the feed has told of them where they were made."""
    row = head.row
    _refuse_taken(tx, row.session)
    no: int = tx.execute(Q["create"], rows.create_values(tx.packing, place, row)).fetchone()[0]
    _insert_segments(tx, no, head.segments)
    _insert_labels(tx, no, row)
    if head.anchor_digest is not None:
        tx.execute(Q["anchor"], (head.anchor_version, head.anchor_digest, no))
        blobs.note_anchor(tx, no, place, snapshot)
    own = raw(row.session)
    for stored in brought:
        record = stored.record
        if record.origin != own:
            insert_copy(tx, no, place, stored)
            continue
        body = tx.packing.pack(place, record, stored.digest)
        tx.execute(Q["insert_record"], (no, record.first, record.last, stored.digest, body))
        blobs.note(tx, no, uses_of(tx.packing, place.tenant, record))
    if snapshot is not None:
        cache(tx, no, place, snapshot)


def repoint(
    tx: Transaction, session: SessionId, segments: tuple[Segment, ...], expected: tuple[Segment, ...] | None
) -> None:
    """Where the stretches of a session's log live from now on."""
    no = known(tx, session)
    if expected is not None and _segments(tx, no) != expected:
        raise moved_on(session)
    if any(_no(tx, item.source) is None for item in segments):
        raise moved_on(session)
    tx.execute(Q["drop_segments"], (no,))
    _insert_segments(tx, no, segments)


def _segments(tx: Transaction, no: int) -> tuple[Segment, ...]:
    return rows.segments_from(tx.execute(Q["segments"], (no,)).fetchall())


def prune(
    tx: Transaction, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, expected: bytes | None
) -> None:
    """Drop records up to `upto` behind an anchor; refused while another log lives on them."""
    no = known(tx, session)
    tx.destroys = True
    if tx.execute(Q["dependents"], (no, no)).fetchone() is not None:
        raise not_pruned(session)
    _, version, head, anchor = tx.execute(Q["standing"], (raw(session),)).fetchone()
    refuse_beyond(upto, version)
    if expected is not None and (head != expected or anchor >= upto):
        raise moved_on(session)
    latest = tx.execute(Q["position"]).fetchone()[0]
    place = place_of(tx, no)
    tx.execute(Q["anchor"], (upto, digest, no))  # first: of many newer snapshots this one alone must not be thinned out
    cache(tx, no, place, snapshot)
    blobs.note_anchor(tx, no, place, snapshot)
    tx.execute(Q["drop_segments"], (no,))
    tx.execute(Q["drop_snapshots_before"], (no, upto))
    words.forget(tx, [found[0] for found in tx.execute(Q["prune_records"], (no, upto)).fetchall()])
    keep_position(tx, latest)


def keep_position(tx: Transaction, latest: int) -> None:
    """A position is never given twice, not even one of a copy."""
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
    found = tx.execute(Q["place"], (raw(session),)).fetchone()
    if found is None:
        return False
    if found[4] not in (salt, None):  # the id was erased and used again meanwhile
        raise moved_on(session)
    no, version = found[0], found[1]
    if tx.execute(Q["dependents"], (no, no)).fetchone() is not None:
        raise not_erased(session)
    if expected not in (None, tx.execute(Q["standing"], (raw(session),)).fetchone()[2]):
        raise moved_on(session)
    tx.destroys = True
    # The tombstone comes first: it takes a position above all that are about to go.
    tx.execute(Q["insert_tombstone"], (version, raw(session), at.to_bytes(8, "big")))
    words.forget(tx, [found[0] for found in tx.execute(Q["erase_records"], (no,)).fetchall()])
    for name in ("drop_segments", "drop_labels", "erase_snapshots", "erase_checkpoints", "erase_keys"):
        tx.execute(Q[name], (no,))
    blobs.forget(tx, no)
    streams.forget(tx, no)
    tx.execute(Q["erase_session"], (no,))
    for move in accounts:
        _move_account(tx, move)
    return True
