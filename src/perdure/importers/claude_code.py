"""Transcripts of Claude Code and the Claude Agent SDK, as they lie in `~/.claude/projects`: one line of JSON an entry.

They are written through the session store's own translation, so that each goes on in Claude from here. Invariants: how
many lines of a file are in is kept in the append that brings them, so an import that was killed, or whose file has
grown since, goes on where it ended; and nothing is added to a session that holds anything else than the file.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

import perdure
from perdure import errors
from perdure.adapters.claude_agent import place_of
from perdure.adapters.parts.making import made
from perdure.importers.claude_bringing import Bringing
from perdure.importers.dating import beginning, moment
from perdure.importers.fitting import why
from perdure.importers.report import Imported, Progress, own_things, prefix_of, source_of

LINES: Final = "claude_lines"
"""How many lines of the file are in, among the session's metadata."""
BATCH: Final = 500
BATCH_BYTES: Final = 8 << 20
CUT_OFF: Final = (
    "the line is cut off: the file is still being written, as is normal in a running session, or was damaged; import "
    "again once the line is whole"
)
_HEAD: Final = 50
_TITLE: Final = 200
_SIDECAR: Final = "agent_metadata"


class _Transcript(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    key: dict[str, str]


class _Entry(msgspec.Struct, frozen=True):
    """An entry by what tells it from others, on which line it is, and when it was written."""

    mark: str
    line: int
    when: str | None


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    prefix: str = "",
) -> Imported:
    """Bring over a transcript, the transcripts of a project's folder, or those of all projects. What files have gained
    since is added, unless the conversation went its own way here: then the report says so. Names begin with the
    `prefix`; Claude finds a session that has one by the session's id.
    """
    report = Imported(source=source_of(source), dry_run=dry_run)
    store = Bringing(db, prefix_of(prefix))
    found = list(_transcripts(source, report))
    if not found and not report.skipped:
        raise errors.Invalid(
            "there are no transcripts here; give a .jsonl file, a project's folder or ~/.claude/projects",
            source=report.source,
        )
    for done, transcript in enumerate(found, 1):
        await _bring(db.aio, store, transcript, report)
        if progress is not None:
            progress(done, len(found))
    return report


async def _bring(db: perdure.AsyncPerdure, store: Bringing, transcript: _Transcript, report: Imported) -> None:
    """One transcript into its session; one that cannot be read or written is named, and keeps no other from coming."""
    path = str(transcript.path)
    try:
        place = place_of(transcript.key)
        db.named(store.prefix + place.name)
    except errors.Invalid as error:
        report.skip(path, why(error), lacks=path)
        return
    name = store.prefix + place.name
    try:
        await _add(db, store, transcript, report)
    except (errors.CallerError, errors.ConflictError) as error:
        report.skip(path, f"it could not be imported whole: {error}", lacks=name)
    except OSError as error:
        report.skip(path, f"it cannot be read: {error.strerror}", lacks=name)


async def _add(db: perdure.AsyncPerdure, store: Bringing, transcript: _Transcript, report: Imported) -> None:
    key: Any = transcript.key
    place, path = store.placed(place_of(key)), str(transcript.path)
    name = place.name
    entries = _entries(transcript.path, name, report)
    try:
        before = (await db.named(name).info()).metadata.get(LINES)
    except errors.NotFound:
        before = 0
        if entries and not report.dry_run:
            metadata = {**place.marks, LINES: 0, **beginning(entry.when for entry in entries)}
            await made(db, name, title=place.subpath[:_TITLE], metadata=metadata)
    lines = before if type(before) is int else 0
    newer = sum(entry.line > lines for entry in entries)
    if lines and not newer:
        return report.skip(path, f"{name} is there already")
    marks = [entry.mark for entry in entries]
    here = await _here(store, key)
    if here and type(before) is not int:
        common = set(here) & set(marks)
        told = f"{name} is there already, not from an import; nothing was added to it" if common else own_things()
        return report.skip(path, told, lacks=name if len(common) < len(set(marks)) else None)
    if here != marks[: len(here)] or any(entry.line <= lines for entry in entries[len(here) :]):
        return report.skip(path, own_things(newer, "entry", "entries"), lacks=name)
    if not entries:
        return report.skip(path, "there is no entry in it")
    if not report.dry_run:
        with transcript.path.open("rb") as file:
            for last, batch in _batches(file, entries[len(here) - 1].line if here else 0):
                await store.bring(key, batch, {LINES: last})
        await _add_sidecar(store, transcript)
    report.sessions += 1
    report.items += len(entries) - len(here)
    report.names.append(name)
    return None


async def _here(store: Bringing, key: Any) -> list[str]:
    """What tells the entries of a session from others, without what was noted beside the file."""
    return [_mark(entry) for entry in await store.load(key) or [] if entry.get("type") != _SIDECAR]


def _mark(entry: Any) -> str:
    """What tells an entry from others: its uuid, or all that it says."""
    uuid = entry.get("uuid")
    return uuid if type(uuid) is str and uuid else sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _entries(path: Path, name: str, report: Imported) -> list[_Entry]:
    """The entries of a file, each uuid once; lines that are none are told."""
    found: list[_Entry] = []
    uuids: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            entry = _entry(line)
            if entry is None and not line.endswith(b"\n"):
                report.skip(f"{path}:{number}", CUT_OFF, lacks=name)
            elif entry is None:
                told = "the line is no transcript entry: a JSON object with a type"
                report.skip(f"{path}:{number}", told, lacks=name)
            elif entry.get("type") != _SIDECAR and (mark := _mark(entry)) not in uuids:
                found.append(_Entry(mark, number, moment(entry.get("timestamp"))))
                if mark == entry.get("uuid"):
                    uuids.add(mark)
    return found


async def _add_sidecar(store: Bringing, transcript: _Transcript) -> None:
    """What Claude notes of a nested agent beside its transcript, in the form in which the SDK mirrors it."""
    beside = transcript.path.with_name(f"{transcript.path.stem}.meta.json")
    if "subpath" not in transcript.key or not beside.is_file():
        return
    found = _parsed(beside.read_bytes())
    if type(found) is dict:
        key: Any = transcript.key
        entry = {**found, "type": _SIDECAR}
        if entry not in [known for known in await store.load(key) or [] if known.get("type") == _SIDECAR]:
            await store.bring(key, [entry])


def _batches(file: Any, after: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The entries after a line, some at a time, each time with the number of the last line."""
    entries: list[dict[str, Any]] = []
    size = last = 0
    for number, line in enumerate(file, 1):
        entry = _entry(line) if number > after else None
        if entry is not None:
            entries.append(entry)
            size, last = size + len(line), number
        if len(entries) >= BATCH or size >= BATCH_BYTES:
            yield last, entries
            entries, size = [], 0
    if entries:
        yield last, entries


def _entry(line: bytes) -> dict[str, Any] | None:
    """The entry on a line; None when there is none."""
    found = _parsed(line)
    return found if type(found) is dict and type(found.get("type")) is str else None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# ── which files there are ──


def _transcripts(given: str | os.PathLike[str], report: Imported) -> Iterator[_Transcript]:
    """The transcripts at a place, each before those of its nested agents."""
    source = Path(given).expanduser()
    if source.is_file():
        if source.suffix != ".jsonl":
            raise errors.Invalid("a transcript is a .jsonl file", source=str(source))
        yield from _one(source, report)
        if not _below(source):
            yield from _agents(source, report)
        return
    if not source.is_dir():
        raise errors.NotFound(f"there is no {source}; give a transcript or a folder of them", source=str(source))
    projects = source / "projects"
    source = projects if projects.is_dir() else source
    folders = [source, *sorted(item for item in source.iterdir() if item.is_dir())]
    for folder in folders:
        mains = [item for item in sorted(folder.glob("*.jsonl")) if item.is_file()]
        for path in mains:
            yield from _one(path, report)
            yield from _agents(path, report)


def _agents(path: Path, report: Imported) -> Iterator[_Transcript]:
    """The transcripts of a session's nested agents."""
    for found in sorted((path.with_suffix("") / "subagents").rglob("*.jsonl")):
        if found.is_file():
            yield from _one(found, report)


def _one(path: Path, report: Imported) -> Iterator[_Transcript]:
    """A file as a transcript, by where it lies; a nested agent's beside its session's says inside whose it is."""
    path = path.resolve()
    below = _below(path)
    if below is not None:
        yield _Transcript(path=path, key=below)
    elif path.stem.startswith("agent-"):
        session = _session_in(path)
        if session is None:
            report.skip(str(path), "it does not say which session its nested agent belongs to", lacks=str(path))
        else:
            subpath = f"subagents/{path.stem}"
            yield _Transcript(
                path=path, key={"project_key": path.parent.name, "session_id": session, "subpath": subpath}
            )
    else:
        yield _Transcript(path=path, key={"project_key": path.parent.name, "session_id": path.stem})


def _below(path: Path) -> dict[str, str] | None:
    """The key of a nested agent's transcript that lies under its session's folder."""
    parts = path.resolve().with_suffix("").parts
    place = len(parts) - 1 - parts[::-1].index("subagents") if "subagents" in parts else 0
    if place < 2:
        return None
    return {
        "project_key": parts[place - 2],
        "session_id": parts[place - 1],
        "subpath": "/".join(parts[place:]),
    }


def _session_in(path: Path) -> str | None:
    """The session that the first entries name."""
    try:
        with path.open("rb") as file:
            head = [line for _, line in zip(range(_HEAD), file, strict=False)]
    except OSError:
        return None
    for line in head:
        entry = _parsed(line)
        if type(entry) is dict and type(entry.get("sessionId")) is str and entry["sessionId"]:
            session: str = entry["sessionId"]
            return session
    return None
