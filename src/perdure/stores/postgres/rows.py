"""Between rows of the tables and the plain data of the port."""

from typing import Any, Final

from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Change, Head, Row, Snapshot
from perdure.stores import columns as shared
from perdure.stores.columns import Columns, segments_from
from perdure.stores.packing import Packing
from perdure.stores.postgres.texts import card_values, kept, told

ROW_COLUMNS: Final = (
    "s.session_id, s.tenant, s.owner_id, s.title, s.lifecycle_phase, s.created_at, s.last_active_at, s.expires_at, "
    "s.state_version, s.digest, s.schema_version, s.turns, s.open_turn, s.parent, s.branch_kind, s.branched_at, "
    "s.account, s.labels, s.salt, s.card, s.due_at, s.cold"
)
HEAD: Final = (
    f"SELECT {ROW_COLUMNS}, s.anchor_version, s.anchor_digest, g.sources, g.origins, g.uptos, g.digests "  # noqa: S608
    "FROM perdure.session AS s CROSS JOIN LATERAL ("
    "SELECT array_agg(o.session_id ORDER BY ordinal) AS sources, array_agg(i.origin ORDER BY ordinal) AS origins, "
    "array_agg(i.upto ORDER BY ordinal) AS uptos, array_agg(i.digest ORDER BY ordinal) AS digests "
    "FROM perdure.segment AS i JOIN perdure.session AS o ON o.no = i.source WHERE i.session = s.no) AS g "
)


def place_from(tenant: str, session: bytes, salt: bytes | None) -> Place:
    """Whose content it is, from its columns."""
    return Place(told(tenant), session, salt)


def row_from(packing: Packing, columns: Columns) -> Row:
    """A row of the session table, selected by `ROW_COLUMNS`."""
    return shared.row_from(packing, _told(columns, (1, 2, 3, 16, 21)))


def _told(columns: Columns, texts: tuple[int, ...]) -> list[Any]:
    """The columns with callers' text as it was given."""
    given = list(columns)
    for place in texts:
        if given[place] is not None:
            given[place] = told(given[place])
    return given


def head_from(packing: Packing, columns: Columns) -> Head:
    """What `HEAD` selects."""
    segments = segments_from(list(zip(*(each or () for each in columns[24:28]), strict=True)))
    row = row_from(packing, columns)
    return Head(row=row, segments=segments, anchor_version=columns[22], anchor_digest=columns[23])


def create_values(packing: Packing, place: Place, row: Row) -> tuple[Any, ...]:
    """The bindings of the `create` statement."""
    title, folded, metadata, labels, marks, card = card_values(packing, place, row)
    return (
        row.session,
        kept(row.tenant),
        kept(row.owner),
        title,
        folded,
        row.phase,
        row.schema_version,
        row.version,
        row.digest,
        row.created_at,
        row.active_at,
        row.expires_at,
        row.turns,
        row.open_turn,
        row.parent,
        row.branch_kind,
        row.branched_at,
        None if row.account is None else kept(row.account),
        metadata,
        labels,
        marks,
        place.salt,
        card,
        row.due_at,
        None if row.cold is None else kept(row.cold),
    )


def listing_values(packing: Packing, place: Place, row: Row) -> tuple[Any, ...]:
    """The bindings of the `relist` statement."""
    title, folded, metadata, labels, marks, card = card_values(packing, place, row)
    return (
        row.session,
        kept(row.owner),
        title,
        folded,
        row.phase,
        row.schema_version,
        row.expires_at,
        None if row.account is None else kept(row.account),
        metadata,
        labels,
        marks,
        card,
        row.due_at,
    )


def snapshot_from(packing: Packing, columns: Columns) -> Snapshot:
    """A row of the snapshot table, followed by the place of its session."""
    return shared.snapshot_from(packing, _told(columns, (3,)))


def checkpoint_values(packing: Packing, place: Place, no: int, item: Checkpoint) -> tuple[Any, ...]:
    """The bindings of the `save_checkpoint` statement."""
    id, no, seq, version, label, *rest = shared.checkpoint_values(packing, place, no, item)
    return kept(id), no, seq, version, kept(label), *rest


def checkpoint_from(packing: Packing, columns: Columns) -> Checkpoint:
    """A row of the checkpoint table, followed by the place of its session."""
    return shared.checkpoint_from(packing, _told(columns, (0, 3, 14)))


def change_from(packing: Packing, columns: Columns) -> Change:
    """A row of the feed."""
    return shared.change_from(packing, _told(columns, (6,)))
