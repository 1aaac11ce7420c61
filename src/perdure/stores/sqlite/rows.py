"""Between rows of the tables and the plain data of the port."""

from typing import Any

from perdure.core.errors import Damaged, Invalid
from perdure.core.session import codec
from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Row
from perdure.stores.packing import deflate, inflate_or_empty

_I, _T, _B = frozenset({int}), frozenset({str}), frozenset({bytes})
_NONE = frozenset({type(None)})
Shape = tuple[frozenset[type], ...]

ROW_SHAPE: Shape = (
    *(_B, _T, _T, _T, _T, _I, _I, _I | _NONE, _I, _B, _T, _I, _I | _NONE, _B | _NONE, _T | _NONE, _I | _NONE),
    *(_T | _NONE, _T),
)
HEAD_SHAPE: Shape = (*ROW_SHAPE, _I, _B | _NONE, _I)
BEFORE_SHAPE: Shape = (_B, _I)
SEGMENT_SHAPE: Shape = (_B, _B, _I, _B)
SNAPSHOT_SHAPE: Shape = (_I, _B, _B)
CHECKPOINT_SHAPE: Shape = (_T, _I, _I, _T, _T, _I, _I | _NONE, _B, _B, _B, _I, _I | _NONE, _I, _T)


def fitting(columns: tuple[Any, ...], shape: Shape) -> tuple[Any, ...]:
    """The columns, if they have the types they were written with; or `Damaged`.

    The tables are strict, but only when they are written to: a damaged page hands out whatever its bytes look like.
    """
    if any(type(value) not in kinds for value, kinds in zip(columns, shape, strict=False)):
        raise Damaged("a row of the file has other types than were written; restore a backup")
    return columns


ROW_COLUMNS = (
    "session_id, tenant, owner_id, title, lifecycle_phase, created_at, last_active_at, expires_at, state_version, "
    "digest, schema_version, turns, open_turn, parent, branch_kind, branched_at, account, metadata"
)


def labels_json(row: Row) -> str:
    """Tags and metadata as the metadata column keeps them."""
    if not row.tags and not row.metadata:
        return "{}"
    return codec.to_json({"tags": list(row.tags), "metadata": row.metadata}).decode()


def spelled(id: bytes) -> SessionId:
    """An id from a column, or `Damaged`."""
    if len(id) != 16:
        raise Damaged("a stored id has not 16 bytes; restore a backup")
    return SessionId(text(id))


def labels_from(text: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Tags and metadata from the metadata column, or `Damaged`."""
    if text == "{}":
        return (), {}
    labels = _object(text)
    tags, metadata = labels.get("tags", []), labels.get("metadata", {})
    if type(tags) is not list or type(metadata) is not dict or any(type(tag) is not str for tag in tags):
        raise Damaged("the tags and metadata of a session are not what was written; restore a backup")
    return tuple(tags), metadata


def _object(text: str) -> dict[str, Any]:
    """A map from a column of JSON, or `Damaged`."""
    try:
        found = codec.from_json(text.encode())
    except Invalid as broken:
        raise Damaged(f"stored metadata does not decode: {broken.message}; restore a backup") from broken
    if type(found) is not dict:
        raise Damaged("stored metadata is not a map; restore a backup")
    return found


def label_pairs(row: Row) -> list[tuple[str, str]]:
    """Tags and metadata as `find` matches them: by name and canonical value."""
    pairs = [("tag", tag) for tag in row.tags]
    return pairs + [metadata_label(name, value) for name, value in row.metadata.items()]


def metadata_label(name: str, value: Any) -> tuple[str, str]:
    """One metadata entry as a label."""
    return f"metadata.{name}", codec.encode(value).hex()


def row_from(columns: tuple[Any, ...]) -> Row:
    """A row of the session table, selected by `ROW_COLUMNS`."""
    tags, metadata = labels_from(fitting(columns, ROW_SHAPE)[17])
    return Row(
        session=spelled(columns[0]),
        tenant=columns[1],
        owner=columns[2],
        title=columns[3],
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
    )


def create_values(row: Row) -> tuple[Any, ...]:
    """The bindings of the `create` statement."""
    return (
        raw(row.session),
        row.tenant,
        row.owner,
        row.title,
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
        labels_json(row),
    )


def checkpoint_values(no: int, item: Checkpoint) -> tuple[Any, ...]:
    """The bindings of the `save_checkpoint` statement."""
    return (
        item.id,
        no,
        item.seq,
        item.version,
        item.label,
        item.trigger,
        int(item.full),
        item.base,
        deflate(item.payload),
        item.payload_sha,
        item.state_sha,
        item.at,
        item.expires_at,
        int(item.pinned),
        codec.to_json(item.metadata).decode(),
    )


def checkpoint_from(columns: tuple[Any, ...]) -> Checkpoint:
    """A row of the checkpoint table. A payload that does not decompress comes back empty: its digest will not fit."""
    fitting(columns, CHECKPOINT_SHAPE)
    return Checkpoint(
        id=columns[0],
        seq=columns[1],
        version=columns[2],
        label=columns[3],
        trigger=columns[4],
        full=bool(columns[5]),
        base=columns[6],
        payload=inflate_or_empty(columns[7]),
        payload_sha=columns[8],
        state_sha=columns[9],
        at=columns[10],
        expires_at=columns[11],
        pinned=bool(columns[12]),
        metadata=_object(columns[13]),
    )
