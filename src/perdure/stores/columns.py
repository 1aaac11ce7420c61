"""Between the columns of a table and the plain data of the port, as every SQL engine has them.

An engine first makes the columns what was written: SQLite looks at their types, PostgreSQL takes back what its text
cannot hold. From there on they are read alike.
"""

from collections.abc import Sequence
from typing import Any

from perdure.core.errors import Damaged, Shredded, Tampered
from perdure.core.session.ids import SessionId, text
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Change, KeyUse, Remembered, Row, Segment, Snapshot, Stored
from perdure.stores.packing import Packing, labels_from

Columns = Sequence[Any]


def spelled(id: bytes) -> SessionId:
    """An id from a column, or `Damaged`."""
    if len(id) != 16:
        raise Damaged("a stored id has not 16 bytes; restore a backup")
    return SessionId(text(id))


def row_from(packing: Packing, columns: Columns) -> Row:
    """A row of the session table: session, tenant, owner, title, phase, created, active, expires, version, digest,
    schema, turns, open turn, parent, kind and place of branching, account, labels, salt, card, due, cold.
    """
    title, labels = packing.card(Place(columns[1], columns[0], columns[18]), columns[3], columns[17], columns[19])
    tags, metadata = labels_from(labels)
    return Row(
        session=spelled(columns[0]),
        tenant=columns[1],
        owner=columns[2],
        title=title,
        phase=columns[4],
        created_at=columns[5],
        active_at=columns[6],
        expires_at=columns[7],
        version=columns[8],
        digest=columns[9],
        schema_version=columns[10],
        turns=columns[11],
        open_turn=columns[12],
        parent=spelled(columns[13]) if columns[13] is not None else None,
        branch_kind=columns[14],
        branched_at=columns[15],
        account=columns[16],
        tags=tags,
        metadata=metadata,
        due_at=columns[20],
        cold=columns[21],
    )


def segments_from(found: Sequence[Columns]) -> tuple[Segment, ...]:
    """Rows of the segment table: source, origin, upto, digest."""
    return tuple(
        Segment(source=spelled(source), origin=spelled(origin), upto=upto, digest=digest)
        for source, origin, upto, digest in found
    )


def snapshot_from(packing: Packing, columns: Columns) -> Snapshot:
    """A row of the snapshot table, followed by the place of its session."""
    version, blob, sha, *place = columns
    return packing.snapshot(Place(*place), version, blob, sha)


def checkpoint_values(packing: Packing, place: Place, no: int, item: Checkpoint) -> tuple[Any, ...]:
    """What is written of a checkpoint: id, session and all that `checkpoint_from` reads again."""
    payload, payload_sha, state_sha, label, metadata = packing.keep_checkpoint(place, item)
    return (
        item.id,
        no,
        item.seq,
        item.version,
        label,
        item.trigger,
        item.full,
        item.base,
        payload,
        payload_sha,
        state_sha,
        item.at,
        item.expires_at,
        item.pinned,
        metadata,
    )


def checkpoint_from(packing: Packing, columns: Columns) -> Checkpoint:
    """A row of the checkpoint table, followed by the place of its session."""
    found = Checkpoint(
        id=columns[0],
        seq=columns[1],
        version=columns[2],
        label=columns[3],
        trigger=columns[4],
        full=bool(columns[5]),
        base=columns[6],
        payload=columns[7],
        payload_sha=columns[8],
        state_sha=columns[9],
        at=columns[10],
        expires_at=columns[11],
        pinned=bool(columns[12]),
    )
    return packing.checkpoint(Place(*columns[14:17]), found, columns[13])


def stored_from(packing: Packing, place: Place, first: int, digest: bytes, body: bytes, last: int) -> Stored:
    """A record that must be the one of its row, or `Tampered`."""
    record = packing.unpack(place, body, first, digest)
    if record.first != first or record.last != last:
        raise Tampered(f"the record at version {first} belongs elsewhere; restore it from a backup", version=first)
    return Stored(record, digest)


def change_from(packing: Packing, columns: Columns) -> Change:
    """A row of the feed: position, session, first, last, body, digest, tenant, salt; an erased session's has none."""
    position, session, first, last, body, digest, tenant, salt = columns
    if session is None:
        gone, at = spelled(digest), int.from_bytes(body, "big")
        return Change(position=position, session=gone, first=0, last=last, at=at, erased=True)
    told = spelled(session)
    try:
        record = packing.unpack(Place(tenant, session, salt), body, first, digest)
    except Shredded:  # erased elsewhere: the feed goes on, with what the row alone can tell
        return Change(position=position, session=told, first=first, last=last, at=0)
    kinds = tuple(entry.kind for entry in record.entries)
    return Change(position=position, session=told, first=first, last=last, at=record.at, kinds=kinds)


def remembered_from(packing: Packing, use: KeyUse, columns: Columns) -> Remembered:
    """What a key stands for: fingerprint, session, first, last. The fingerprint of the same request is told as it was
    given.
    """
    fingerprint, session, first, last = columns
    if fingerprint == packing.fingerprint(use.fingerprint):
        fingerprint = use.fingerprint
    return Remembered(fingerprint=fingerprint, session=spelled(session), first=first, last=last)
