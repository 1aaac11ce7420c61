"""The questions asked of the file. Each runs on a reader's connection, inside one read transaction."""

import os
from typing import Any, Final

import apsw

from perdure.core.errors import Damaged
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Change, Head, Row, Run, Snapshot
from perdure.stores.columns import change_from, spelled
from perdure.stores.packing import Packing
from perdure.stores.sqlite import blobs, words
from perdure.stores.sqlite.rows import (
    BEFORE_SHAPE,
    HEAD_SHAPE,
    ROW_COLUMNS,
    ROW_SHAPE,
    checkpoint_from,
    fitting,
    place_from,
    row_from,
    segments_from,
    snapshot_from,
    stored_from,
)
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks

CUT: Final = "the file ends in the middle of a page: it was cut"
_HEAD = f"""SELECT {ROW_COLUMNS}, anchor_version, anchor_digest, no,
EXISTS (SELECT 1 FROM segment WHERE segment.session = no) FROM session WHERE session_id = ?"""  # noqa: S608


Glimpse = tuple[Any, ...]
"""What lies in the file of a session's head, byte for byte."""


def glimpse(connection: Asks, session: SessionId) -> Glimpse:
    """A session's row and segments as they lie in the file; nothing when there is none."""
    found = connection.execute(_HEAD, (raw(session),)).fetchall()
    if not found or not found[0][25]:
        return tuple(found)
    return found[0], *connection.execute(Q["segments"], (found[0][24],)).fetchall()


def seen(packing: Packing, connection: Asks, session: SessionId) -> tuple[Glimpse, Head | None]:
    """What lies in the file of a session's head, and what it is."""
    found = glimpse(connection, session)
    return found, head(packing, found, session)


def head(packing: Packing, glimpsed: Glimpse, session: SessionId) -> Head | None:
    """A session's row, segments and anchor, of what was seen of it in the file."""
    if not glimpsed:
        return None
    found, *segments = glimpsed
    if fitting(found, HEAD_SHAPE)[0] != raw(session):
        raise Damaged(f"the file finds another session under {session}; restore a backup", session=session)
    return Head(
        row=row_from(packing, found),
        segments=segments_from(segments),
        anchor_version=found[22],
        anchor_digest=found[23],
    )


def place(connection: Asks, session: SessionId) -> Place | None:
    """Whose content a session's is."""
    found = connection.execute(Q["place"], (raw(session),)).fetchone()
    return None if found is None else place_from(found[2:])


def salts(connection: Asks, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
    """Which salt each session names, in the order of their ids."""
    found = connection.execute(Q["salts"], (b"" if after is None else raw(after), limit)).fetchall()
    return tuple((spelled(session), salt) for session, salt in found)


def used_salts(connection: Asks) -> frozenset[bytes]:
    """Every salt that something in the file is sealed under."""
    found = connection.execute(Q["used_salts"]).fetchall()
    if blobs.there(connection):
        found += connection.execute(Q["blob_salts"]).fetchall()
    return frozenset(salt for (salt,) in found)


def run(packing: Packing, connection: Asks, source: SessionId, after: int, upto: int, limit: int, newest: bool) -> Run:
    """Records that hold versions in (after, upto], oldest first."""
    found = connection.execute(Q["place"], (raw(source),)).fetchone()
    if found is None:
        return Run(None, ())
    no, place = found[0], place_from(found[2:])
    if newest:
        found = connection.execute(Q["run_newest"], (no, upto, after, limit)).fetchall()
        found.reverse()
    else:
        found = connection.execute(Q["run"], (no, no, after + 1, upto, after, limit)).fetchall()
    if not found:
        return Run(None, ())
    first = found[0][0]
    before = connection.execute(Q["digest_before"], (no, first)).fetchone()
    records = tuple(stored_from(packing, place, columns) for columns in found)
    adjacent = before is not None and fitting(before, BEFORE_SHAPE)[1] == first - 1
    return Run(before[0] if adjacent else None, records)


def snapshot(packing: Packing, connection: Asks, session: SessionId, upto: int) -> Snapshot | None:
    """The latest cached state at or before a version."""
    found = connection.execute(Q["snapshot"], (raw(session), upto)).fetchone()
    return snapshot_from(packing, found) if found is not None else None


def snapshots(packing: Packing, connection: Asks, session: SessionId) -> tuple[Snapshot, ...]:
    """All cached states, oldest first."""
    found = connection.execute(Q["snapshots"], (raw(session),)).fetchall()
    return tuple(snapshot_from(packing, columns) for columns in found)


def checkpoints(packing: Packing, connection: Asks, session: SessionId) -> tuple[Checkpoint, ...]:
    """A session's checkpoints, oldest first."""
    found = connection.execute(Q["checkpoints"], (raw(session),)).fetchall()
    return tuple(checkpoint_from(packing, columns) for columns in found)


def checkpoint(packing: Packing, connection: Asks, wanted: str) -> tuple[SessionId, Checkpoint] | None:
    """One checkpoint, with its session."""
    found = connection.execute(Q["checkpoint"], (wanted,)).fetchone()
    return (spelled(found[15]), checkpoint_from(packing, found)) if found is not None else None


def find(packing: Packing, connection: Asks, statement: str, values: list[Any]) -> tuple[Row, ...]:
    """Rows of a page."""
    found = [fitting(columns, ROW_SHAPE) for columns in connection.execute(statement, values).fetchall()]
    packing.expect(Place(columns[1], columns[0], columns[18]) for columns in found)
    return tuple([row_from(packing, columns) for columns in found])


def count(connection: Asks, statement: str, values: list[Any]) -> int:
    """A number of rows."""
    found = connection.execute(statement, values).fetchone()
    return int(found[0])


def words_behind(connection: Asks) -> bool:
    """Whether records wait to be indexed, or there is no index yet."""
    cursor = words.position(connection)
    waiting = "SELECT 1 FROM record WHERE position > ? LIMIT 1"
    return cursor is None or connection.execute(waiting, (cursor,)).fetchone() is not None


def dependents(packing: Packing, connection: Asks, session: SessionId) -> tuple[Head, ...]:
    """Sessions whose log has a segment in this one's rows."""
    found = connection.execute(Q["place"], (raw(session),)).fetchone()
    if found is None:
        return ()
    ids = [columns[0] for columns in connection.execute(Q["dependents"], (found[0], found[0])).fetchall()]
    heads = (seen(packing, connection, spelled(each))[1] for each in ids)
    return tuple(found for found in heads if found is not None)


def position(connection: Asks) -> int:
    """The feed's latest position."""
    found = connection.execute(Q["position"]).fetchone()
    return int(found[0])


def changes(packing: Packing, connection: Asks, after: int, limit: int) -> tuple[Change, ...]:
    """Appends and erasures after a position, in order."""
    found = connection.execute(Q["changes"], (after, limit)).fetchall()
    return tuple(change_from(packing, columns) for columns in found)


def setting(connection: Asks, name: str) -> str | None:
    """A setting of the store."""
    found = connection.execute(Q["setting"], (name,)).fetchone()
    return None if found is None else str(found[0])


def inspect(connection: Asks, path: str) -> dict[str, Any]:
    """What `doctor` shows of the file."""

    def one(statement: str) -> Any:
        return connection.execute(statement).fetchone()[0]

    words.look(connection)
    return {
        "sqlite": apsw.sqlite_lib_version(),
        "format": one("PRAGMA user_version"),
        "journal_mode": one("PRAGMA journal_mode"),
        "page_size": one("PRAGMA page_size"),
        "bytes": one("PRAGMA page_size") * one("PRAGMA page_count"),
        "sessions": one("SELECT count(*) FROM session"),
        "records": one("SELECT count(*) FROM record"),
        "orphans": one(Q["orphans"]),
        "integrity": one("PRAGMA quick_check") if os.path.getsize(path) % one("PRAGMA page_size") == 0 else CUT,
    }
