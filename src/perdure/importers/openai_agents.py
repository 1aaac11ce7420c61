"""SQLite files of the OpenAI Agents SDK, as `SQLiteSession` and `AdvancedSQLiteSession` write them. Each session
becomes one of the same name, and goes on in the SDK through `perdure.adapters.openai_agents`.

A branch of an `AdvancedSQLiteSession` becomes a session named `session@branch`. Tables of other names are found by
their columns. The file is only read. Invariant: something is added to a session only while it is a beginning of the
source and nothing else, so an import that was killed goes on, one of a file that grew brings what is new, and a
repeated one adds nothing.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from perdure import AsyncPerdure, Perdure, errors
from perdure.adapters.parts import responses
from perdure.adapters.parts.making import made
from perdure.events import Event, Noted, Redacted, Retracted, Spoken, items_of
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.fitting import batches, name_refusal, refusals
from perdure.importers.report import THERE, Imported, Progress, own_things, prefix_of, source_of
from perdure.importers.sqlite import UNREADABLE, reading

BATCH: Final = 500
_COLUMNS: Final = {"id", "session_id", "message_data"}
_STRUCTURE: Final = "message_structure"
_MAIN: Final = "main"
_SHOWN: Final = 1000
_TAKING: Final = frozenset({Retracted.kind, "turn_rolled_back"})
_OWN: Final = _TAKING | {Redacted.kind, Noted.kind}
"""Kinds by which a session goes its own way, besides what is said."""


class _Source(msgspec.Struct, frozen=True):
    """One conversation in the file: whose, in which table, and of which branch if there are any."""

    table: str
    session: str
    branch: str | None

    @property
    def name(self) -> str:
        """What its session is called here."""
        return self.session if self.branch in (None, _MAIN) else f"{self.session}@{self.branch}"


class _Row(msgspec.Struct, frozen=True):
    """One item: word for word, as it is recorded, and when it was said."""

    text: str
    payloads: list[Spoken]
    said_at: str | None


async def import_from(
    db: Perdure | AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    prefix: str = "",
) -> Imported:
    """Bring over every session of a file, under its name with the `prefix` before it. To one that is there already,
    what the file has gained since is added, unless it went its own way here: then the report says so.
    """
    prefix = prefix_of(prefix)
    report = Imported(source=source_of(source), dry_run=dry_run)
    try:
        with closing(_opened(source)) as file:
            found = list(dict.fromkeys(_sources(file, prefix, report)))  # a damaged index tells some twice
            names: set[str] = set()
            for done, item in enumerate(found, 1):
                if item.name in names:
                    what = f"{prefix}{item.name} in {item.table}"
                    report.skip(what, "the file has another conversation of this name", lacks=prefix + item.name)
                else:
                    await _bring(db.aio, file, item, prefix, report)
                names.add(item.name)
                if progress is not None:
                    progress(done, len(found))
    except UNREADABLE as error:
        raise errors.Invalid(
            f"{report.source} is no whole SQLite file of the OpenAI Agents SDK: {error}", source=report.source
        ) from error
    return report


def _opened(source: str | os.PathLike[str]) -> sqlite3.Connection:
    path = Path(source)
    if not path.is_file():
        raise errors.NotFound(f"there is no file {path}; name the SQLite file of a SQLiteSession", source=str(path))
    return reading(path)


def _sources(file: sqlite3.Connection, prefix: str, report: Imported) -> Iterator[_Source]:
    """The conversations in the file, oldest first."""
    names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    tables = [name for name in names if _columns(file, name) >= _COLUMNS]
    if not tables:
        raise errors.Invalid(
            f"{report.source} has no table with the columns id, session_id and message_data, as SQLiteSession makes "
            "them; it is another file, or of a version this one does not know",
            source=report.source,
        )
    owner = _owner(file) if _STRUCTURE in names else None
    for table in tables:
        listed = f"SELECT session_id FROM {_quoted(table)} GROUP BY session_id ORDER BY min(id)"  # noqa: S608
        for (session,) in file.execute(listed).fetchall():
            if not isinstance(session, str) or not session or not _sound(session):
                what = f"session {session!r:.80} of {table}"
                report.skip(what, "its id is no text that could be a name", lacks=f"{prefix}{session}"[:_SHOWN])
                continue
            branches = _branches(file, session) if table == owner else []
            yield from (_Source(table, session, branch) for branch in branches or [None])
            if branches:
                _count_unused(file, table, session, report)


def _sound(text: str) -> bool:
    """Whether it was UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _columns(file: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in file.execute(f"PRAGMA table_info({_quoted(table)})")}


def _owner(file: sqlite3.Connection) -> str | None:
    """The table whose messages the structure of branches speaks of."""
    rows = file.execute(f"PRAGMA foreign_key_list({_STRUCTURE})")
    return next((row[2] for row in rows if row[3] == "message_id"), None)


def _branches(file: sqlite3.Connection, session: str) -> list[str | None]:
    listed = "SELECT branch_id FROM message_structure WHERE session_id = ? GROUP BY branch_id ORDER BY min(id)"
    return [branch for (branch,) in file.execute(listed, (session,))]


def _count_unused(file: sqlite3.Connection, table: str, session: str, report: Imported) -> None:
    counted = (
        f"SELECT count(*) FROM {_quoted(table)} WHERE session_id = ? AND id NOT IN "  # noqa: S608
        "(SELECT message_id FROM message_structure WHERE session_id = ?)"
    )
    (count,) = file.execute(counted, (session, session)).fetchone()
    if count:
        report.skip(f"{count} rows of {session}", "they belong to no branch")


def _rows(file: sqlite3.Connection, item: _Source) -> Iterator[tuple[int, Any, Any]]:
    table = _quoted(item.table)
    when = "m.created_at" if "created_at" in _columns(file, item.table) else "NULL"
    if item.branch is None:
        listed = f"SELECT m.id, m.message_data, {when} FROM {table} m WHERE m.session_id = ? ORDER BY m.id"  # noqa: S608
        yield from file.execute(listed, (item.session,))
        return
    listed = (
        f"SELECT m.id, m.message_data, {when} FROM {table} m "  # noqa: S608
        "JOIN message_structure s ON m.id = s.message_id "
        "WHERE s.session_id = ? AND s.branch_id = ? ORDER BY s.sequence_number"
    )
    yield from file.execute(listed, (item.session, item.branch))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def _items(file: sqlite3.Connection, item: _Source, name: str, report: Imported) -> list[_Row]:
    """The rows that can be read, and fit."""
    found: list[tuple[int, _Row]] = []
    try:
        for number, data, when in _rows(file, item):
            try:
                found.append((number, _row(data, moment(when))))
            except errors.Invalid as error:
                report.skip(f"row {number} of {name}", str(error), lacks=name)
    except UNREADABLE as error:
        report.skip(name, f"what follows cannot be read: {error}", lacks=name)
    refused = await refusals(row.payloads for _, row in found)
    for (number, _), why in zip(found, refused, strict=True):
        if why is not None:
            report.skip(f"row {number} of {name}", why, lacks=name)
    return [row for (_, row), why in zip(found, refused, strict=True) if why is None]


def _row(data: Any, said_at: str | None) -> _Row:
    """What a row holds; `Invalid` if that is no item."""
    try:
        found = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise errors.Invalid("it holds no JSON object")
    text = responses.as_json(found)
    (payloads,) = responses.written([found])
    return _Row(text, dated(payloads, said_at), said_at)


async def _bring(db: AsyncPerdure, file: sqlite3.Connection, item: _Source, prefix: str, report: Imported) -> None:
    """One conversation into its session; one that cannot be written is named, and keeps no other from coming."""
    name = prefix + item.name
    if why := name_refusal(db, name):
        report.skip(name[:_SHOWN], why, lacks=name[:_SHOWN])
        return
    try:
        await _add(db, item, prefix, await _items(file, item, name, report), report)
    except (errors.CallerError, errors.ConflictError) as error:
        report.skip(name, f"it could not be imported whole: {error}", lacks=name)


async def _add(db: AsyncPerdure, item: _Source, prefix: str, rows: list[_Row], report: Imported) -> None:
    name = prefix + item.name
    session = db.named(name)
    try:
        version = await session.version()
        log = await session.events(upto=version)
        here, ever = _held(log), _held([event for event in log if event.kind not in _TAKING])
        common = _common(ever, rows)
        if max(common, _common(here, rows)) == len(rows):
            report.skip(name, THERE)
            return
        if _common(here, rows) < len(here) or any(event.kind in _OWN for event in log) or log[0].version > 1:
            report.skip(name, own_things(len(rows) - common if common else 0), lacks=name)
            return
    except errors.NotFound:
        here, version = [], 1
        branch = {} if item.branch in (None, _MAIN) else {"branch_of": prefix + item.session}
        metadata = {**branch, **beginning(row.said_at for row in rows)}
        if not rows:
            return  # none could be read, as was told
        if not report.dry_run:
            await made(db, name, metadata=metadata)
            version = await session.version()
    for batch in batches([row.payloads for row in rows[len(here) :]] if not report.dry_run else [], BATCH):
        version = await session.record([payload for said in batch for payload in said], expected=version)
    report.sessions += 1
    report.items += len(rows) - len(here)
    report.names.append(name)


def _held(log: Sequence[Event]) -> list[str | None]:
    """The items in a log, word for word; None for each that others wrote."""
    return [
        responses.as_json(responses.spelled(item)[0]) if item.by == responses.BY and type(item.native) is str else None
        for item in items_of(log)
    ]


def _common(held: Sequence[str | None], rows: Sequence[_Row]) -> int:
    """With how many of the rows a log begins."""
    for number, (one, row) in enumerate(zip(held, rows, strict=False)):
        if one != row.text:
            return number
    return min(len(held), len(rows))
