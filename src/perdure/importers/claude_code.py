"""Transcripts of Claude Code and the Claude Agent SDK, as they lie in `~/.claude/projects`: one line of JSON an entry.

They are written through the session store's own translation, so that each goes on in Claude from here. Invariant: how
many lines of a file are in is kept in the append that brings them, so an import that was killed, or whose file has
grown since, goes on where it ended.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

import perdure
from perdure import errors
from perdure.adapters.claude_agent import PerdureSessionStore, place_of
from perdure.importers.report import Imported, Progress, source_of

LINES: Final = "claude_lines"
"""How many lines of the file are in, among the session's metadata."""
BATCH: Final = 500
BATCH_BYTES: Final = 8 << 20
_HEAD: Final = 50


class _Transcript(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    key: dict[str, str]


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Imported:
    """Bring over a transcript, the transcripts of a project's folder, or those of all projects."""
    report = Imported(source=source_of(source), dry_run=dry_run)
    found = list(_transcripts(source, report))
    if not found and not report.skipped:
        raise errors.Invalid(
            "there are no transcripts here; give a .jsonl file, a project's folder or ~/.claude/projects",
            source=report.source,
        )
    store = PerdureSessionStore(db, shared=False)
    for done, transcript in enumerate(found, 1):
        await _bring(db.aio, store, transcript, report)
        if progress is not None:
            progress(done, len(found))
    return report


async def _bring(
    db: perdure.AsyncPerdure, store: PerdureSessionStore, transcript: _Transcript, report: Imported
) -> None:
    """One transcript into its session."""
    key: Any = transcript.key
    name = place_of(key).name
    try:
        metadata = (await db.named(name).info()).metadata
        before = metadata.get(LINES)
    except errors.NotFound:
        before = 0
    if type(before) is not int:
        report.skip(str(transcript.path), f"{name} is there already, not from an import; nothing was added to it")
        return
    lines, items = before, 0
    with transcript.path.open("rb") as file:
        for last, entries in _batches(file, transcript.path, before, report):
            lines, items = last, items + len(entries)
            if not report.dry_run:
                items -= len(entries) - await store.bring(key, entries, {LINES: last})
    if lines == before and before:
        report.skip(str(transcript.path), f"{name} is there already")
    elif not items and not before:
        report.skip(str(transcript.path), "there is no entry in it")
    else:
        if not report.dry_run:
            await _add_sidecar(store, transcript)
        report.sessions += 1
        report.items += items
        report.names.append(name)


async def _add_sidecar(store: PerdureSessionStore, transcript: _Transcript) -> None:
    """What Claude notes of a nested agent beside its transcript, in the form in which the SDK mirrors it."""
    beside = transcript.path.with_name(f"{transcript.path.stem}.meta.json")
    if "subpath" not in transcript.key or not beside.is_file():
        return
    found = _parsed(beside.read_bytes())
    if type(found) is dict:
        key: Any = transcript.key
        entry = {**found, "type": "agent_metadata"}
        if entry not in [known for known in await store.load(key) or [] if known.get("type") == "agent_metadata"]:
            await store.bring(key, [entry])


def _batches(file: Any, path: Path, after: int, report: Imported) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The entries after a line, some at a time, each time with the number of the last line."""
    entries: list[dict[str, Any]] = []
    size = number = 0
    for number, line in enumerate(file, 1):
        if number <= after or not line.strip():
            continue
        entry = _parsed(line)
        if type(entry) is dict and type(entry.get("type")) is str:
            entries.append(entry)
            size += len(line)
        elif not line.endswith(b"\n"):
            report.skip(f"{path}:{number}", "the line is cut off; import again once it is whole")
            number -= 1
            break
        else:
            report.skip(f"{path}:{number}", "the line is no transcript entry: a JSON object with a type")
        if len(entries) >= BATCH or size >= BATCH_BYTES:
            yield number, entries
            entries, size = [], 0
    if entries:
        yield number, entries


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
            report.skip(str(path), "it does not say which session its nested agent belongs to")
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
    with path.open("rb") as file:
        for _, line in zip(range(_HEAD), file, strict=False):
            entry = _parsed(line)
            if type(entry) is dict and type(entry.get("sessionId")) is str and entry["sessionId"]:
                session: str = entry["sessionId"]
                return session
    return None
