"""Between rows of the tables and the plain data of the port."""

from typing import Any

from perdure.core.errors import Damaged
from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Row
from perdure.stores.packing import Packing, labels_from

_I, _T, _B = frozenset({int}), frozenset({str}), frozenset({bytes})
_NONE = frozenset({type(None)})
Shape = tuple[frozenset[type], ...]

ROW_SHAPE: Shape = (
    *(_B, _T, _T, _T, _T, _I, _I, _I | _NONE, _I, _B, _T, _I, _I | _NONE, _B | _NONE, _T | _NONE, _I | _NONE),
    *(_T | _NONE, _T, _B | _NONE, _B | _NONE, _I | _NONE, _T | _NONE),
)
HEAD_SHAPE: Shape = (*ROW_SHAPE, _I, _B | _NONE, _I)
BEFORE_SHAPE: Shape = (_B, _I)
PLACE_SHAPE: Shape = (_T, _B, _B | _NONE)
SEGMENT_SHAPE: Shape = (_B, _B, _I, _B)
SNAPSHOT_SHAPE: Shape = (_I, _B, _B, _T, _B, _B | _NONE)
CHECKPOINT_SHAPE: Shape = (
    *(_T, _I, _I, _T, _T, _I, _I | _NONE, _B, _B, _B, _I, _I | _NONE, _I, _T),
    *(_T, _B, _B | _NONE),
)


def fitting(columns: tuple[Any, ...], shape: Shape) -> tuple[Any, ...]:
    """The columns, if they have the types they were written with; or `Damaged`.

    The tables are strict, but only when they are written to: a damaged page hands out whatever its bytes look like.
    """
    if any(type(value) not in kinds for value, kinds in zip(columns, shape, strict=False)):
        raise Damaged("a row of the file has other types than were written; restore a backup")
    return columns


ROW_COLUMNS = (
    "session_id, tenant, owner_id, title, lifecycle_phase, created_at, last_active_at, expires_at, state_version, "
    "digest, schema_version, turns, open_turn, parent, branch_kind, branched_at, account, metadata, salt, card, "
    "due_at, cold"
)


def spelled(id: bytes) -> SessionId:
    """An id from a column, or `Damaged`."""
    if len(id) != 16:
        raise Damaged("a stored id has not 16 bytes; restore a backup")
    return SessionId(text(id))


def row_from(packing: Packing, columns: tuple[Any, ...]) -> Row:
    """A row of the session table, selected by `ROW_COLUMNS`."""
    fitting(columns, ROW_SHAPE)
    place = Place(columns[1], columns[0], columns[18])
    title, labels = packing.card(place, columns[3], columns[17], columns[19])
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


def create_values(packing: Packing, place: Place, row: Row) -> tuple[Any, ...]:
    """The bindings of the `create` statement."""
    title, labels, card = packing.keep_card(place, row)
    return (
        raw(row.session),
        row.tenant,
        row.owner,
        title,
        row.phase,
        row.schema_version,
        row.version,
        row.digest,
        row.created_at,
        row.active_at,
        row.expires_at,
        row.turns,
        row.open_turn,
        raw(row.parent) if row.parent is not None else None,
        row.branch_kind,
        row.branched_at,
        row.account,
        labels,
        place.salt,
        card,
        row.due_at,
        row.cold,
    )


def checkpoint_values(packing: Packing, place: Place, no: int, item: Checkpoint) -> tuple[Any, ...]:
    """The bindings of the `save_checkpoint` statement."""
    payload, payload_sha, state_sha, label, metadata = packing.keep_checkpoint(place, item)
    return (
        item.id,
        no,
        item.seq,
        item.version,
        label,
        item.trigger,
        int(item.full),
        item.base,
        payload,
        payload_sha,
        state_sha,
        item.at,
        item.expires_at,
        int(item.pinned),
        metadata,
    )


def checkpoint_from(packing: Packing, columns: tuple[Any, ...]) -> Checkpoint:
    """A row of the checkpoint table, followed by the place of its session."""
    fitting(columns, CHECKPOINT_SHAPE)
    kept = Checkpoint(
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
    return packing.checkpoint(Place(*columns[14:17]), kept, columns[13])
