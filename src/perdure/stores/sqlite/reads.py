"""The questions asked of the file. Each runs on a reader's connection, inside one read transaction."""

import os
from typing import Any, Final

import apsw

from perdure.core.errors import Damaged, Tampered
from perdure.core.session.ids import SessionId, raw, text
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Change, Head, KeyUse, Remembered, Row, Run, Segment, Snapshot, Stored
from perdure.stores.packing import inflate_or_empty, unpack
from perdure.stores.sqlite import words
from perdure.stores.sqlite.rows import (
    BEFORE_SHAPE,
    HEAD_SHAPE,
    ROW_COLUMNS,
    SEGMENT_SHAPE,
    SNAPSHOT_SHAPE,
    checkpoint_from,
    fitting,
    row_from,
    spelled,
)
from perdure.stores.sqlite.sql import QUERIES as Q
from perdure.stores.sqlite.sql import Asks
from perdure.stores.sqlite.writes import remembered as _remembered

CUT: Final = "the file ends in the middle of a page: it was cut"
_HEAD = f"SELECT {ROW_COLUMNS}, anchor_version, anchor_digest, no FROM session WHERE session_id = ?"  # noqa: S608


def head(connection: Asks, session: SessionId) -> Head | None:
    """A session's row, segments and anchor."""
    found = connection.execute(_HEAD, (raw(session),)).fetchone()
    if found is None:
        return None
    if fitting(found, HEAD_SHAPE)[0] != raw(session):
        raise Damaged(f"the file finds another session under {session}; restore a backup", session=session)
    segments = tuple(
        Segment(source=spelled(source), origin=spelled(origin), upto=upto, digest=digest)
        for source, origin, upto, digest in (
            fitting(columns, SEGMENT_SHAPE) for columns in connection.execute(Q["segments"], (found[20],)).fetchall()
        )
    )
    return Head(row=row_from(found), segments=segments, anchor_version=found[18], anchor_digest=found[19])


def run(connection: Asks, source: SessionId, after: int, upto: int, limit: int, newest: bool) -> Run:
    """Records that hold versions in (after, upto], oldest first."""
    place = connection.execute(Q["place"], (raw(source),)).fetchone()
    if place is None:
        return Run(None, ())
    no = place[0]
    if newest:
        found = connection.execute(Q["run_newest"], (no, upto, after, limit)).fetchall()
        found.reverse()
    else:
        found = connection.execute(Q["run"], (no, no, after + 1, upto, after, limit)).fetchall()
    if not found:
        return Run(None, ())
    first = found[0][0]
    before = connection.execute(Q["digest_before"], (no, first)).fetchone()
    records = tuple(_stored(*columns) for columns in found)
    adjacent = before is not None and fitting(before, BEFORE_SHAPE)[1] == first - 1
    return Run(before[0] if adjacent else None, records)


def _stored(first: int, digest: bytes, body: bytes, last: int) -> Stored:
    if type(first) is not int or type(digest) is not bytes or type(body) is not bytes or type(last) is not int:
        raise Damaged("a row of the file has other types than were written; restore a backup")
    record = unpack(body)
    if record.first != first or record.last != last:
        raise Tampered(f"the record at version {first} belongs elsewhere; restore it from a backup", version=first)
    return Stored(record, digest)


def snapshot(connection: Asks, session: SessionId, upto: int) -> Snapshot | None:
    """The latest cached state at or before a version."""
    found = connection.execute(Q["snapshot"], (raw(session), upto)).fetchone()
    return _snapshot(found) if found is not None else None


def snapshots(connection: Asks, session: SessionId) -> tuple[Snapshot, ...]:
    """All cached states, oldest first."""
    found = connection.execute(Q["snapshots"], (raw(session),)).fetchall()
    return tuple(map(_snapshot, found))


def _snapshot(columns: tuple[Any, ...]) -> Snapshot:
    version, blob, sha = fitting(columns, SNAPSHOT_SHAPE)
    return Snapshot(version, inflate_or_empty(blob), sha)


def checkpoints(connection: Asks, session: SessionId) -> tuple[Checkpoint, ...]:
    """A session's checkpoints, oldest first."""
    return tuple(checkpoint_from(found) for found in connection.execute(Q["checkpoints"], (raw(session),)).fetchall())


def checkpoint(connection: Asks, wanted: str) -> tuple[SessionId, Checkpoint] | None:
    """One checkpoint, with its session."""
    found = connection.execute(Q["checkpoint"], (wanted,)).fetchone()
    return (SessionId(text(found[14])), checkpoint_from(found)) if found is not None else None


def remembered(connection: Asks, use: KeyUse) -> Remembered | None:
    """What a key was used for."""
    if use.session is None:
        return _remembered(connection, 0, use)
    place = connection.execute(Q["place"], (raw(use.session),)).fetchone()
    return _remembered(connection, place[0], use) if place is not None else None


def find(connection: Asks, statement: str, values: list[Any]) -> tuple[Row, ...]:
    """Rows of a page."""
    return tuple(row_from(found) for found in connection.execute(statement, values).fetchall())


def count(connection: Asks, statement: str, values: list[Any]) -> int:
    """A number of rows."""
    found = connection.execute(statement, values).fetchone()
    return int(found[0])


def words_behind(connection: Asks) -> bool:
    """Whether records wait to be indexed, or there is no index yet."""
    cursor = words.position(connection)
    waiting = "SELECT 1 FROM record WHERE position > ? LIMIT 1"
    return cursor is None or connection.execute(waiting, (cursor,)).fetchone() is not None


def dependents(connection: Asks, session: SessionId) -> tuple[Head, ...]:
    """Sessions whose log has a segment in this one's rows."""
    place = connection.execute(Q["place"], (raw(session),)).fetchone()
    if place is None:
        return ()
    ids = [found[0] for found in connection.execute(Q["dependents"], (place[0], place[0])).fetchall()]
    heads = (head(connection, SessionId(text(each))) for each in ids)
    return tuple(found for found in heads if found is not None)


def position(connection: Asks) -> int:
    """The feed's latest position."""
    found = connection.execute(Q["position"]).fetchone()
    return int(found[0])


def changes(connection: Asks, after: int, limit: int) -> tuple[Change, ...]:
    """Appends and erasures after a position, in order."""
    return tuple(_change(*columns) for columns in connection.execute(Q["changes"], (after, limit)).fetchall())


def _change(place: int, session: bytes | None, first: int, last: int, body: bytes, digest: bytes) -> Change:
    if session is None:
        gone, at = SessionId(text(digest)), int.from_bytes(body, "big")
        return Change(position=place, session=gone, first=0, last=last, at=at, erased=True)
    record = unpack(body)
    kinds = tuple(entry.kind for entry in record.entries)
    return Change(position=place, session=SessionId(text(session)), first=first, last=last, at=record.at, kinds=kinds)


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
