"""The portable form of a database as rows of a file, so that what is in it can be proven without a server.

Invariant: whatever a proof looks at (sessions, records, segments, snapshots, checkpoints, uses of blobs) comes over
byte for byte. The rest stays behind: hashes for looking things up, which a file computes in another way, and what no
chain speaks of.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from perdure.core.errors import Damaged
from perdure.ports.backup import Rows, Tables
from perdure.stores.postgres.texts import told

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
BATCH: Final = 1 << 18
"""Bytes of rows handed out at a time."""
_OPENING: Final = len(SIGNATURE) + 8
_NULL: Final = -1
_END: Final = -1


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big", signed=True)


def _text(field: bytes) -> str:
    return told(field.decode())


_KINDS: Final[dict[str, Callable[[bytes], Any]]] = {"n": _number, "t": _text, "b": bytes}
_SHAPES: Final = {
    "setting": "name:t value:t",
    "session": (
        "no:n session_id:b schema_version:t state_version:n digest:b lifecycle_phase:t tenant:t owner_id:t title:t "
        "created_at:n last_active_at:n activity:n expires_at:n due_at:n turns:n open_turn:n parent:b branch_kind:t "
        "branched_at:n account:t labels:t salt:b card:b cold:t anchor_version:n anchor_digest:b"
    ),
    "record": "position:n session:n first:n last:n digest:b body:b copied:n",
    "segment": "session:n ordinal:n source:n origin:b upto:n digest:b",
    "snapshot": "session:n version:n state_blob:b checksum:b",
    "checkpoint": (
        "id:t session:n seq:n version:n label:t trigger:t is_full:n base:n payload:b payload_sha:b state_sha:b at:n "
        "expires_at:n pinned:n metadata:t"
    ),
    "blob_use": "session:n version:n address:t",
}
"""The columns that come over, each with its kind: a number or a flag, text, bytes."""
_RENAMED: Final = {("session", "labels"): "metadata"}


def replayed(tables: Tables, rows: Iterable[Rows]) -> tuple[Tables, Iterator[Rows]]:
    """The tables and rows of a file for those of a database; `Damaged`, on the way, when a row is not one."""
    chosen = {table: _chosen(table, tables[table]) for table in _SHAPES if table in tables}
    announced = {
        table: tuple(_RENAMED.get((table, name), name) for name, _, _ in columns) for table, columns in chosen.items()
    }
    return announced, _batches(chosen, rows)


Column = tuple[str, int, Callable[[bytes], Any]]
"""Its name, where it stands in a row, and how it is read."""


def _chosen(table: str, columns: tuple[str, ...]) -> list[Column]:
    wanted = dict(item.split(":") for item in _SHAPES[table].split())
    return [(name, place, _KINDS[wanted[name]]) for place, name in enumerate(columns) if name in wanted]


def _batches(chosen: dict[str, list[Column]], rows: Iterable[Rows]) -> Iterator[Rows]:
    for table, pieces in groupby(rows, key=lambda batch: batch[0]):
        columns = chosen.get(table)
        if columns is None:
            continue
        batch: list[tuple[Any, ...]] = []
        size = 0
        for fields in _rows(piece for _, held in pieces for (piece,) in held):
            batch.append(_read(table, columns, fields))
            size += sum(len(field) for field in fields if field is not None)
            if size >= BATCH:
                yield table, batch
                batch, size = [], 0
        if batch:
            yield table, batch


def _read(table: str, columns: list[Column], fields: list[bytes | None]) -> tuple[Any, ...]:
    try:
        return tuple(None if (field := fields[place]) is None else read(field) for _, place, read in columns)
    except (IndexError, UnicodeDecodeError) as broken:
        raise _unreadable(f"a row of {table} has other columns than it announces") from broken


def _rows(pieces: Iterable[bytes]) -> Iterator[list[bytes | None]]:
    """The rows of one table's COPY stream in the binary form, from pieces of any size."""
    held, begun, ended = bytearray(), False, False
    for piece in pieces:
        held += piece
        if not begun:
            if len(held) < _OPENING:
                continue
            begun = _begin(held)
        while not ended and (found := _next(held)) is not None:
            if isinstance(found, int):
                ended = True
            else:
                yield found
    if not ended or held:
        raise _unreadable("the rows of a table do not end where they should")


def _begin(held: bytearray) -> bool:
    extension = int.from_bytes(held[_OPENING - 4 : _OPENING], "big")
    if not held.startswith(SIGNATURE) or extension:
        raise _unreadable("the rows of a table do not begin as PostgreSQL writes them")
    del held[:_OPENING]
    return True


def _next(held: bytearray) -> list[bytes | None] | int | None:
    """The fields of the next row, the sign that there is none, or None when the rest of it has not come yet."""
    if len(held) < 2:
        return None
    count, at = int.from_bytes(held[:2], "big", signed=True), 2
    fields: list[bytes | None] = []
    for _ in range(max(count, 0)):
        length = int.from_bytes(held[at : at + 4], "big", signed=True)
        if len(held) < at + 4 + max(length, 0):
            return None
        fields.append(None if length == _NULL else bytes(held[at + 4 : at + 4 + length]))
        at += 4 + max(length, 0)
    del held[:at]
    return _END if count == _END else fields


def _unreadable(what: str) -> Damaged:
    return Damaged(f"the backup cannot be read: {what}; take another copy")
