"""Threads from LangGraph's own savers: the tables of `SqliteSaver` and `PostgresSaver`, read without changing them.

Checkpoints are put through the adapter, oldest first, so that the threads go on in LangGraph and read as turns.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from difflib import get_close_matches
from importlib import import_module
from typing import TypeVar

import perdure
from perdure import AsyncPerdure, Perdure, errors
from perdure.adapters.parts.needing import Extra
from perdure.importers.fitting import name_refusal, refusals
from perdure.importers.langgraph_sources import PostgresTables, Row, Source, SqliteTables, Written, opened
from perdure.importers.report import THERE, Imported, Progress, own_things, prefix_of, shown_as, source_of
from perdure.importers.sqlite import UNREADABLE

with Extra("langgraph"):
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from perdure.adapters.parts.checkpoints import Thread
    from perdure.adapters.parts.langgraph_configs import Bytes
    from perdure.importers.langgraph_bringing import Bringing, latest_of, noted

T = TypeVar("T")


async def import_from(
    db: Perdure | AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    serde: SerializerProtocol | None = None,
    allow: Iterable[str] = (),
    prefix: str = "",
) -> Imported:
    """Bring over the threads of a SQLite file or a PostgreSQL database (`postgresql://…`), each under its name with the
    `prefix` before it. To a thread that is there already, what is missing is added, unless it went its own way here:
    then the report says so. State with types of your own needs them allowed as `module:Type`, or a `serde` that does.
    """
    source, prefix = source_of(source), prefix_of(prefix)
    serde = serde or JsonPlusSerializer(allowed_msgpack_modules=[_allowed(word) for word in allow] or None)
    report = Imported(source=shown_as(source), dry_run=dry_run)
    importing = _Importing(db.aio, report, serde, prefix)
    if source.startswith(("postgresql://", "postgres://")):
        import psycopg

        try:
            with psycopg.connect(source, options="-c default_transaction_read_only=on") as connection:
                await importing.run(PostgresTables(connection), progress)
        except psycopg.errors.UndefinedTable as error:
            raise errors.Invalid(
                "this database has no tables of LangGraph's PostgresSaver", source=report.source
            ) from error
        except psycopg.OperationalError as error:
            raise errors.Invalid(f"cannot read the database: {error}", source=report.source) from error
    else:
        with closing(opened(source)) as connection:
            try:
                await importing.run(SqliteTables(connection), progress)
            except UNREADABLE as error:
                raise errors.Invalid(f"cannot read {source}: {error}; restore it from a backup") from error
    return report


class _Importing:
    """One import."""

    def __init__(self, db: AsyncPerdure, report: Imported, serde: SerializerProtocol, prefix: str) -> None:
        self._db = db
        self._report = report
        self._prefix = prefix
        self._serde = serde
        self._codec = Bytes(serde)
        self._bringing = Bringing(db, serde)

    async def run(self, source: Source, progress: Progress | None) -> None:
        """Bring over every thread."""
        threads = list(dict.fromkeys(source.threads()))  # a damaged index tells some twice
        for done, thread in enumerate(threads):
            if progress is not None:
                progress(done, len(threads))
            name = f"{self._prefix}{thread}"
            if not isinstance(thread, str) or not thread:
                self._report.skip(f"thread {thread!r:.80}", "its id is no text that could be a name", lacks=name)
            elif why := name_refusal(self._db, name):
                self._report.skip(f"thread {name:.1000}", why, lacks=name[:1000])
            else:
                await self._thread(source, thread)
        if progress is not None:
            progress(len(threads), len(threads))

    async def _thread(self, source: Source, thread: str) -> None:
        name = self._prefix + thread
        what = f"thread {name}"
        lost: Counter[str] = Counter()
        remarks = len(self._report.skipped)
        rows = self._read(source.rows(thread, self._codec, lost), name)
        writes = await self._writes(source, thread)
        known = {(row.ns, row.id) for row in rows}
        view = await self._bringing.view(name)
        there = {(ns, id) for ns, space in view.spaces.items() for id in space} if view is not None else set()
        missing = [row for row in rows if (row.ns, row.id) not in there]
        for why, count in lost.items():
            left_out = f"{count} of {len(rows) + lost.total()} checkpoints cannot be read: {why}"
            told = "nothing more than before was imported; " if there and not missing else ""
            self._report.skip(what, told + left_out, lacks=name)
        if not missing:
            if len(self._report.skipped) == remarks:
                self._report.skip(what, THERE if rows else "it has no checkpoint")
            return
        if view is not None and _own(view, rows, missing):
            newer = len(missing) if there & known else 0
            self._report.skip(what, own_things(newer, "checkpoint", "checkpoints"), lacks=name)
            return
        try:
            failed = await self._bring(name, missing, rows, writes)
        except (errors.CallerError, errors.ConflictError) as error:
            self._report.skip(what, f"it could not be imported whole: {error}", lacks=name)
            return
        for why, count in Counter(failed.values()).items():
            left_out = f"{count} of {len(rows) + lost.total()} checkpoints cannot be imported: {why}"
            self._report.skip(what, left_out, lacks=name)
        if len(missing) > len(failed):
            self._report.sessions += 1
            self._report.names.append(name)
            self._report.items += len(missing) - len(failed)

    async def _bring(
        self, name: str, missing: list[Row], rows: list[Row], writes: list[Written]
    ) -> dict[tuple[str, str], str]:
        """Write what is missing, in a dry run to a store that is thrown away; of what cannot be written, why."""
        if not self._report.dry_run:
            return await self._bringing.bring(name, missing, rows, writes)
        with perdure.open(":memory:") as scratch:
            failed = await Bringing(scratch.aio, self._serde).bring(name, rows, rows, writes)
        return {(row.ns, row.id): failed[row.ns, row.id] for row in missing if (row.ns, row.id) in failed}

    async def _writes(self, source: Source, thread: str) -> list[Written]:
        """The pending writes that can be read, and fit."""
        name = self._prefix + thread
        lost: Counter[str] = Counter()
        found = self._read(source.writes(thread, lost), name)
        refused = await refusals([noted(item)] for item in found)
        whys = {f"{count} of the pending writes of checkpoint {id}": "they are damaged" for id, count in lost.items()}
        whys |= {
            f"a pending write of checkpoint {item.id}": why
            for item, why in zip(found, refused, strict=True)
            if why is not None
        }
        for what, why in whys.items():
            self._report.skip(f"thread {name}: {what}", why, lacks=name)
        return [item for item, why in zip(found, refused, strict=True) if why is None]

    def _read(self, rows: Iterator[T], name: str) -> list[T]:
        """What can be read up to where a file is damaged."""
        found: list[T] = []
        try:
            found.extend(rows)
        except UNREADABLE as error:
            self._report.skip(f"thread {name}", f"what follows cannot be read: {error}", lacks=name)
        return found


def _own(view: Thread, rows: list[Row], missing: list[Row]) -> bool:
    """Whether a thread went its own way here, so that what is missing has no place in it."""
    there = {(ns, id) for ns, space in view.spaces.items() for id in space}
    latest = latest_of(row for row in rows if (row.ns, row.id) in there)
    onward = any(row.id >= latest.get(row.ns, "") for row in missing)
    own = there - {(row.ns, row.id) for row in rows}
    return bool(own or (view.unseen and onward) or (view.said and not there))


def _allowed(word: str) -> tuple[str, str]:
    """A type that may be loaded, which must be there: LangGraph would put nothing in the place of one that is not."""
    module, mark, name = word.partition(":")
    if not (module and mark and name):
        before, _, last = word.replace(":", ".").strip(".").rpartition(".")
        like = f", as in {before}:{last}" if before else ""
        raise errors.Invalid(f"{word!r} names no type; spell it module:Type, with a colon between{like}", allow=word)
    try:
        found = import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        told = f"there is no module {module}" if absent else f"module {module} cannot be imported: {error}"
        told += "; import from where that module is found, or set PYTHONPATH"
        raise errors.Invalid(told, allow=word) from error
    if not hasattr(found, name):
        near = get_close_matches(name, [item for item in vars(found) if isinstance(vars(found)[item], type)], 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; name a type that {module} defines"
        raise errors.Invalid(f"module {module} has no {name!r}{hint}", allow=word)
    if not isinstance(getattr(found, name), type):
        raise errors.Invalid(f"{module}.{name} is no type; allow types as module:Type", allow=word)
    return module, name
