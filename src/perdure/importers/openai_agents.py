"""SQLite files of the OpenAI Agents SDK, as `SQLiteSession` and `AdvancedSQLiteSession` write them. Each session
becomes one of the same name, and goes on in the SDK through `perdure.adapters.openai_agents`.

A branch of an `AdvancedSQLiteSession` becomes a session named `session@branch`. Tables of other names are found by
their columns. The file is only read. Invariant: every append has a key, and the last one says that the import is
whole, so one that was killed goes on and a repeated one adds nothing.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from perdure import AsyncPerdure, AsyncSession, Perdure, errors
from perdure.adapters.parts import responses
from perdure.adapters.parts.making import made
from perdure.events import Spoken
from perdure.importers.report import Imported, Progress, source_of
from perdure.importers.sqlite import reading

MARK: Final = "openai_agents_import"
BEGUN: Final = "begun"
WHOLE: Final = "whole"
BATCH: Final = 500
_COLUMNS: Final = {"id", "session_id", "message_data"}
_STRUCTURE: Final = "message_structure"
_MAIN: Final = "main"


class _Source(msgspec.Struct, frozen=True):
    """One conversation in the file: whose, in which table, and of which branch if there are any."""

    table: str
    session: str
    branch: str | None

    @property
    def name(self) -> str:
        """What its session is called here."""
        return self.session if self.branch in (None, _MAIN) else f"{self.session}@{self.branch}"


async def import_from(
    db: Perdure | AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Imported:
    """Bring over every session of a file. One that is there already is left alone."""
    report = Imported(source=source_of(source), dry_run=dry_run)
    try:
        with closing(_opened(source)) as file:
            found = list(_sources(file, report))
            for done, item in enumerate(found, 1):
                await _bring(db.aio, file, item, report)
                if progress is not None:
                    progress(done, len(found))
    except sqlite3.Error as error:
        raise errors.Invalid(
            f"{report.source} is no whole SQLite file of the OpenAI Agents SDK: {error}", source=report.source
        ) from error
    return report


def _opened(source: str | os.PathLike[str]) -> sqlite3.Connection:
    path = Path(source)
    if not path.is_file():
        raise errors.Invalid(f"there is no file {path}; name the SQLite file of a SQLiteSession", source=str(path))
    file = reading(path)
    file.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return file


def _sources(file: sqlite3.Connection, report: Imported) -> Iterator[_Source]:
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
            if not isinstance(session, str) or not session:
                report.skip(f"a session of {table}", "it has no id")
                continue
            branches = _branches(file, session) if table == owner else []
            yield from (_Source(table, session, branch) for branch in branches or [None])
            if branches:
                _count_unused(file, table, session, report)


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


def _rows(file: sqlite3.Connection, item: _Source) -> Iterator[tuple[int, Any]]:
    table = _quoted(item.table)
    if item.branch is None:
        listed = f"SELECT id, message_data FROM {table} WHERE session_id = ? ORDER BY id"  # noqa: S608
        yield from file.execute(listed, (item.session,))
        return
    listed = (
        f"SELECT m.id, m.message_data FROM {table} m JOIN message_structure s ON m.id = s.message_id "  # noqa: S608
        "WHERE s.session_id = ? AND s.branch_id = ? ORDER BY s.sequence_number"
    )
    yield from file.execute(listed, (item.session, item.branch))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _items(file: sqlite3.Connection, item: _Source, report: Imported) -> Iterator[list[Spoken]]:
    """What is recorded for each row that can be read."""
    for number, data in _rows(file, item):
        try:
            found = json.loads(data)
        except (ValueError, TypeError, RecursionError):
            found = None
        try:
            if not isinstance(found, dict):
                raise errors.Invalid("it holds no JSON object")
            yield responses.recorded(responses.as_json(found))
        except errors.Invalid as error:
            report.skip(f"row {number} of {item.name}", str(error), lacks=item.name)


async def _bring(db: AsyncPerdure, file: sqlite3.Connection, item: _Source, report: Imported) -> None:
    session = db.named(item.name)
    metadata: dict[str, Any] = {MARK: BEGUN, **({} if item.branch in (None, _MAIN) else {"branch_of": item.session})}
    try:
        metadata = (await session.info()).metadata
        if metadata.get(MARK) != BEGUN:
            report.skip(item.name, "it is there already")
            return
    except errors.NotFound:
        if not report.dry_run:
            try:
                await made(db, item.name, metadata=metadata)
            except errors.Invalid as error:
                report.skip(item.name, str(error), lacks=item.name)
                return
    count = number = 0
    batch: list[Spoken] = []
    for one in _items(file, item, report):
        if count and count % BATCH == 0:  # the last batch waits, since it says that all is there
            await _record(session, batch, f"{MARK}/{number}", None, report)
            batch, number = [], number + 1
        batch += one
        count += 1
    await _record(session, batch, f"{MARK}/{number}", {**metadata, MARK: WHOLE}, report)
    report.sessions += 1
    report.items += count
    report.names.append(item.name)


async def _record(
    session: AsyncSession, batch: list[Spoken], key: str, metadata: dict[str, Any] | None, report: Imported
) -> None:
    if report.dry_run:
        return
    if batch:
        await session.record(batch, metadata=metadata, key=key)
    else:
        await session.configure(metadata=metadata)
