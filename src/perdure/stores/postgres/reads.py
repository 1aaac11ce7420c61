"""The questions asked of the database. Each is one statement, so its answer is of one moment."""

from typing import Any

from perdure.core.session.ids import SessionId
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Change, Head, Run, Snapshot
from perdure.stores.columns import spelled, stored_from
from perdure.stores.packing import Packing
from perdure.stores.postgres.preparing import FORMAT
from perdure.stores.postgres.rows import HEAD, change_from, checkpoint_from, head_from, place_from, snapshot_from
from perdure.stores.postgres.sql import QUERIES as Q
from perdure.stores.postgres.sql import Asks
from perdure.stores.postgres.texts import kept

_HEAD = HEAD + "WHERE s.session_id = $1"
_HEADS = HEAD + "WHERE s.session_id = ANY ($1::uuid[])"
_DEPENDENTS = HEAD + (  # noqa: S608 - fixed fragments
    "WHERE s.no IN (SELECT d.session FROM perdure.segment AS d JOIN perdure.session AS t ON t.no = d.source "
    "WHERE t.session_id = $1) AND s.session_id <> $1 ORDER BY s.no"
)


def head(packing: Packing, asks: Asks, session: SessionId) -> Head | None:
    """A session's row, segments and anchor."""
    found = asks.execute(_HEAD, (session,)).fetchone()
    return None if found is None else head_from(packing, found)


def heads(packing: Packing, asks: Asks, sessions: list[SessionId]) -> list[Head]:
    """Those of these sessions that are there, in the same order."""
    found = [head_from(packing, columns) for columns in asks.execute(_HEADS, (sessions,)).fetchall()]
    return sorted(found, key=lambda each: sessions.index(each.row.session))


def dependents(packing: Packing, asks: Asks, session: SessionId) -> tuple[Head, ...]:
    """Sessions whose log has a segment in this one's rows."""
    return tuple(head_from(packing, columns) for columns in asks.execute(_DEPENDENTS, (session,)).fetchall())


def place(asks: Asks, session: SessionId) -> Place | None:
    """Whose content a session's is."""
    found = asks.execute(Q["place"], (session,)).fetchone()
    return None if found is None else place_from(*found[2:])


def used_salts(asks: Asks) -> frozenset[bytes]:
    """Every salt that something in the database is sealed under."""
    return frozenset(salt for (salt,) in asks.execute(Q["used_salts"]).fetchall())


def salts(asks: Asks, after: SessionId | None, limit: int) -> tuple[tuple[SessionId, bytes | None], ...]:
    """Sessions in the order of their ids, each with the salt it names."""
    found = asks.execute(Q["salts"], (after, limit)).fetchall()
    return tuple((spelled(session), salt) for session, salt in found)


def run(packing: Packing, asks: Asks, source: SessionId, after: int, upto: int, limit: int, newest: bool) -> Run:
    """Records that hold versions in (after, upto], oldest first."""
    found = asks.execute(Q["run_newest" if newest else "run"], (source, after, upto, limit)).fetchall()
    if not found:
        return Run(None, ())
    whose = place_from(*found[0][4:7])
    records = tuple(stored_from(packing, whose, *columns[:4]) for columns in found)
    before, last = found[0][7:]
    return Run(before if last == found[0][0] - 1 else None, records)


def snapshot(packing: Packing, asks: Asks, session: SessionId, upto: int) -> Snapshot | None:
    """The latest cached state at or before a version."""
    found = asks.execute(Q["snapshot"], (session, upto)).fetchone()
    return snapshot_from(packing, found) if found is not None else None


def snapshots(packing: Packing, asks: Asks, session: SessionId) -> tuple[Snapshot, ...]:
    """All cached states, oldest first."""
    return tuple(snapshot_from(packing, columns) for columns in asks.execute(Q["snapshots"], (session,)).fetchall())


def checkpoints(packing: Packing, asks: Asks, session: SessionId) -> tuple[Checkpoint, ...]:
    """A session's checkpoints, oldest first."""
    return tuple(checkpoint_from(packing, columns) for columns in asks.execute(Q["checkpoints"], (session,)).fetchall())


def checkpoint(packing: Packing, asks: Asks, wanted: str) -> tuple[SessionId, Checkpoint] | None:
    """One checkpoint, with its session."""
    found = asks.execute(Q["checkpoint"], (kept(wanted),)).fetchone()
    return (spelled(found[15]), checkpoint_from(packing, found)) if found is not None else None


def position(asks: Asks) -> int:
    """The feed's latest position."""
    return int(asks.execute(Q["position"]).fetchone()[0])


def changes(packing: Packing, asks: Asks, after: int, limit: int) -> tuple[Change, ...]:
    """Appends and erasures after a position, in order."""
    return tuple(change_from(packing, columns) for columns in asks.execute(Q["changes"], (after, limit)).fetchall())


def inspect(asks: Asks) -> dict[str, Any]:
    """What `doctor` shows of the database."""
    names = (
        *("postgres", "fsync", "synchronous_commit", "synchronous_standby_names", "standby"),
        *("synchronous_standbys", "bytes", "sessions", "records", "orphans"),
    )
    return {"format": FORMAT, **dict(zip(names, asks.execute(Q["facts"]).fetchone(), strict=True))}
