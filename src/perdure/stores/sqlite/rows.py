"""Between rows of the tables and the plain data of the port."""

from collections.abc import Sequence
from typing import Any

from perdure.core.errors import Damaged
from perdure.core.session.ids import raw
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Row, Segment, Snapshot, Stored
from perdure.stores import columns as shared
from perdure.stores.columns import Columns
from perdure.stores.packing import Packing

_I, _T, _B = frozenset({int}), frozenset({str}), frozenset({bytes})
_NONE = frozenset({type(None)})
Shape = tuple[frozenset[type], ...]

ROW_SHAPE: Shape = (
    *(_B, _T, _T, _T, _T, _I, _I, _I | _NONE, _I, _B, _T, _I, _I | _NONE, _B | _NONE, _T | _NONE, _I | _NONE),
    *(_T | _NONE, _T, _B | _NONE, _B | _NONE, _I | _NONE, _T | _NONE),
)
HEAD_SHAPE: Shape = (*ROW_SHAPE, _I, _B | _NONE, _I, _I)
BEFORE_SHAPE: Shape = (_B, _I)
PLACE_SHAPE: Shape = (_T, _B, _B | _NONE)
SEGMENT_SHAPE: Shape = (_B, _B, _I, _B)
SNAPSHOT_SHAPE: Shape = (_I, _B, _B, _T, _B, _B | _NONE)
CHECKPOINT_SHAPE: Shape = (
    *(_T, _I, _I, _T, _T, _I, _I | _NONE, _B, _B, _B, _I, _I | _NONE, _I, _T),
    *(_T, _B, _B | _NONE),
)


_fit: set[tuple[Any, ...]] = set()
"""What was found to fit: a shape, and the types of columns."""


def fitting(columns: Columns, shape: Shape) -> Columns:
    """The columns, if they have the types they were written with; or `Damaged`.

    The tables are strict, but only when they are written to: a damaged page hands out whatever its bytes look like.
    """
    found = (shape, *map(type, columns))
    if found not in _fit:
        if any(type(value) not in kinds for value, kinds in zip(columns, shape, strict=False)):
            raise _unfit()
        _fit.add(found)
    return columns


def _unfit() -> Damaged:
    return Damaged("a row of the file has other types than were written; restore a backup")


ROW_COLUMNS = (
    "session_id, tenant, owner_id, title, lifecycle_phase, created_at, last_active_at, expires_at, state_version, "
    "digest, schema_version, turns, open_turn, parent, branch_kind, branched_at, account, metadata, salt, card, "
    "due_at, cold"
)


def row_from(packing: Packing, columns: Columns) -> Row:
    """A row of the session table, selected by `ROW_COLUMNS`."""
    return shared.row_from(packing, fitting(columns, ROW_SHAPE))


def segments_from(found: Sequence[Columns]) -> tuple[Segment, ...]:
    """Rows of the segment table."""
    return shared.segments_from([fitting(columns, SEGMENT_SHAPE) for columns in found])


def place_from(columns: Columns) -> Place:
    """Whose content it is, from its columns."""
    return Place(*fitting(columns, PLACE_SHAPE))


def snapshot_from(packing: Packing, columns: Columns) -> Snapshot:
    """A row of the snapshot table, followed by the place of its session."""
    return shared.snapshot_from(packing, fitting(columns, SNAPSHOT_SHAPE))


def stored_from(packing: Packing, place: Place, columns: Columns) -> Stored:
    """A row of the record table."""
    first, digest, body, last = columns
    if type(first) is not int or type(digest) is not bytes or type(body) is not bytes or type(last) is not int:
        raise _unfit()  # spelled out: these are the rows that are read by the thousand
    return shared.stored_from(packing, place, first, digest, body, last)


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


def checkpoint_from(packing: Packing, columns: Columns) -> Checkpoint:
    """A row of the checkpoint table, followed by the place of its session."""
    return shared.checkpoint_from(packing, fitting(columns, CHECKPOINT_SHAPE))
