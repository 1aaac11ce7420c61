"""Between rows of the tables and the plain data of the port."""

from typing import Any, Final

from perdure.core.session.ids import SessionId, text
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Head, Row, Segment, Snapshot
from perdure.stores.packing import Packing, labels_from
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


def row_from(packing: Packing, columns: tuple[Any, ...]) -> Row:
    """A row of the session table, selected by `ROW_COLUMNS`."""
    tenant = told(columns[1])
    title, labels = packing.card(Place(tenant, columns[0], columns[18]), told(columns[3]), columns[17], columns[19])
    tags, metadata = labels_from(labels)
    return Row(
        session=SessionId(text(columns[0])),
        tenant=tenant,
        owner=told(columns[2]),
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
        parent=SessionId(text(columns[13])) if columns[13] is not None else None,
        branch_kind=columns[14],
        branched_at=columns[15],
        account=None if columns[16] is None else told(columns[16]),
        tags=tags,
        metadata=metadata,
        due_at=columns[20],
        cold=None if columns[21] is None else told(columns[21]),
    )


def head_from(packing: Packing, columns: tuple[Any, ...]) -> Head:
    """What `HEAD` selects."""
    segments = tuple(
        Segment(source=SessionId(text(source)), origin=SessionId(text(origin)), upto=upto, digest=digest)
        for source, origin, upto, digest in zip(*(each or () for each in columns[24:28]), strict=True)
    )
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


def snapshot_from(packing: Packing, columns: tuple[Any, ...]) -> Snapshot:
    """A row of the snapshot table, followed by the place of its session."""
    version, blob, sha, *place = columns
    return packing.snapshot(place_from(*place), version, blob, sha)


def checkpoint_values(packing: Packing, place: Place, no: int, item: Checkpoint) -> tuple[Any, ...]:
    """The bindings of the `save_checkpoint` statement."""
    payload, payload_sha, state_sha, label, metadata = packing.keep_checkpoint(place, item)
    return (
        kept(item.id),
        no,
        item.seq,
        item.version,
        kept(label),
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


def checkpoint_from(packing: Packing, columns: tuple[Any, ...]) -> Checkpoint:
    """A row of the checkpoint table, followed by the place of its session."""
    found = Checkpoint(
        id=told(columns[0]),
        seq=columns[1],
        version=columns[2],
        label=told(columns[3]),
        trigger=columns[4],
        full=columns[5],
        base=columns[6],
        payload=columns[7],
        payload_sha=columns[8],
        state_sha=columns[9],
        at=columns[10],
        expires_at=columns[11],
        pinned=columns[12],
    )
    return packing.checkpoint(place_from(*columns[14:17]), found, columns[13])
