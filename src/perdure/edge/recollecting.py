"""Memories out of files: lines of an export, JSON objects that have content, or plain lines of text.

What comes from a file has ids, times and a standing of its own there. Here it gets fresh ids; what superseded what
stays so, and what was archived is archived. What was quarantined or withdrawn does not come along.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from perdure.core.errors import BadExport, Invalid
from perdure.core.memory.parts import Memory, Source, Status
from perdure.core.memory.requests import MAX_BATCH, Keeping, must_keep
from perdure.core.session.shown import shown
from perdure.edge.given import Progress

OPENED: Final = b"{"
KNOWN: Final = frozenset(Keeping.__struct_fields__) - {"memory_type", "supersedes"}
"""Fields of a line that say something about a memory wherever it is kept."""
THERE: Final = frozenset(Memory.__struct_fields__) | {"memory_type"}
"""Fields of a line that mean something; any other is kept as metadata."""
LEFT_OUT: Final = (Status.QUARANTINED, Status.WITHDRAWN)

Keep = Callable[[Sequence[Keeping], str | None], Awaitable[tuple[Memory, ...]]]
Move = Callable[[Sequence[str], Status, str], Awaitable[int]]
Mark = tuple[str, str, int | None]
"""What tells whether a memory is there already: its type, its words, and since when it is true."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an import: memories kept, those that were there already, and those that stay out because they were
    quarantined or withdrawn where they come from.
    """

    kept: int = 0
    there: int = 0
    left_out: int = 0


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a file. `id` is the one it has there, if it has one."""

    asked: Keeping
    id: str = ""
    status: Status = Status.LIVE
    superseded_by: str = ""
    supersedes: tuple[str, ...] = ()

    @property
    def mark(self) -> Mark:
        """What it is known by."""
        return (self.asked.memory_type.value, self.asked.content.strip(), self.asked.valid_from)


def marks_of(memory: Memory) -> tuple[Mark, Mark]:
    """What a memory that is there is known by: with its time, and for whoever names none."""
    since = memory.recorded_at if memory.valid_from is None else memory.valid_from
    return (memory.type.value, memory.content, since), (memory.type.value, memory.content, None)


def lines_of(source: Iterable[Any], *, trusted: bool = False) -> list[Line]:
    """The memories of a file's lines; `BadExport` names the first line that is none. Unless the file is `trusted`, its
    memories are an import's, whoever it says wrote them.
    """
    found = []
    for number, raw in enumerate(source, 1):
        try:
            line = _line(raw, trusted)
        except (msgspec.DecodeError, Invalid, UnicodeDecodeError, RecursionError) as wrong:
            raise BadExport(f"line {number} is no memory: {wrong}; correct it, or take it out", line=number) from wrong
        if line is not None:
            found.append(line)
    return found


def _line(raw: Any, trusted: bool) -> Line | None:
    """The memory of a line; None where nothing stands."""
    if isinstance(raw, dict):
        return _object(raw, trusted)
    if not isinstance(raw, bytes | str):
        raise Invalid(f"a line is text, bytes or a document, not {shown(raw)}")
    text = (raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw).strip()
    if not text:
        return None
    if text.startswith(OPENED):
        return _object(msgspec.json.decode(text, type=dict[str, Any]), trusted)
    asked = Keeping(content=text.decode(), source=Source(kind="import"))
    must_keep(asked)
    return Line(asked=asked)


def _object(document: dict[str, Any], trusted: bool) -> Line:
    fields = {name: value for name, value in document.items() if name in KNOWN and value is not None}
    fields["memory_type"] = document.get("memory_type") or document.get("type") or "fact"
    fields["metadata"] = {
        **{name: value for name, value in document.items() if name not in THERE},
        **msgspec.convert(fields.get("metadata") or {}, dict[str, Any]),
    }
    _date(fields, document)
    asked = msgspec.convert(fields, Keeping)
    if not trusted:
        asked = msgspec.structs.replace(asked, source=msgspec.structs.replace(asked.source, kind="import"), trust=None)
    must_keep(asked)
    return Line(
        asked=asked,
        id=str(document.get("id") or ""),
        status=msgspec.convert(document.get("status") or "live", Status),
        superseded_by=str(document.get("superseded_by") or ""),
        supersedes=msgspec.convert(document.get("supersedes") or (), tuple[str, ...]),
    )


def _date(fields: dict[str, Any], document: dict[str, Any]) -> None:
    """Since when it is true: since it was kept there, if it does not say. What had ended before that, by its own word,
    began nobody knows when; what ended because another took its place, does so here, too.
    """
    since, until = fields.get("valid_from", document.get("recorded_at")), fields.get("valid_to")
    ended = type(since) is int and type(until) is int and until <= since
    if ended and document.get("status") == Status.SUPERSEDED:
        del fields["valid_to"]
        ended = False
    if type(since) is int and not ended:
        fields["valid_from"] = since


def waves(lines: list[Line]) -> Iterator[list[tuple[Line, tuple[str, ...]]]]:
    """The lines in an order in which they can be kept, each with the ids it supersedes, as the file has them: those
    that are superseded come in an earlier wave.
    """
    known = {line.id: line for line in lines if line.id}
    over: dict[str, set[str]] = {id: {old for old in line.supersedes if old in known} for id, line in known.items()}
    for line in lines:
        if line.id and line.superseded_by in known:
            over[line.superseded_by].add(line.id)
    left, done = list(lines), set[str]()
    while left:
        ready = [line for line in left if over.get(line.id, set()) <= done]
        ready = ready or left  # they go round in a circle: what cannot be linked is kept without
        yield [(line, tuple(sorted(over.get(line.id, set()) & done))) for line in ready]
        taken = {id(line) for line in ready}
        left = [line for line in left if id(line) not in taken]
        done |= {line.id for line in ready if line.id}


class Bringing:
    """The lines of one file on their way into a space. `there` has the ids of what is there, by what it is known by."""

    def __init__(self, keep: Keep, move: Move, there: dict[Mark, str]) -> None:
        self._keep = keep
        self._move = move
        self._there = there
        self._here: dict[str, str] = {}
        """The ids that memories have here, by those they had."""
        self._open: set[str] = set()
        """Those that nothing has taken the place of yet, though it did in the file."""

    async def bring(self, lines: list[Line], told: Progress | None) -> Imported:
        """Keep those that are not there yet."""
        wanted = [line for line in lines if line.status not in LEFT_OUT]
        kept, done = 0, len(lines) - len(wanted)
        for wave in waves(wanted):
            for start in range(0, len(wave), MAX_BATCH):
                batch = wave[start : start + MAX_BATCH]
                kept += await self._brought(batch)
                done += len(batch)
                if told is not None:
                    told(done, len(lines))
        if self._open:  # what takes their place did not come along, or was there before
            await self._archived([*self._open])
        return Imported(kept=kept, there=len(wanted) - kept, left_out=len(lines) - len(wanted))

    async def _brought(self, batch: list[tuple[Line, tuple[str, ...]]]) -> int:
        """Keep those of a batch that are not there; how many."""
        fresh: dict[Mark, tuple[Line, Keeping]] = {}
        for line, over in batch:
            if line.mark not in self._there and line.mark not in fresh:
                old = dict.fromkeys(self._here[id] for id in over)
                fresh[line.mark] = line, msgspec.structs.replace(line.asked, supersedes=tuple(old))
        if fresh:
            made = await self._keep([asked for _, asked in fresh.values()], None)
            self._there |= {mark: memory.id for mark, memory in zip(fresh, made, strict=True)}
            await self._archived(
                [self._there[mark] for mark, (line, _) in fresh.items() if line.status is Status.ARCHIVED]
            )
        for line, asked in fresh.values():
            self._open -= {*asked.supersedes}
            if line.status is Status.SUPERSEDED:
                self._open.add(self._there[line.mark])
        for line, _ in batch:
            self._here[line.id] = self._there[line.mark]
        return len(fresh)

    async def _archived(self, ids: list[str]) -> None:
        for start in range(0, len(ids), MAX_BATCH):
            await self._move(ids[start : start + MAX_BATCH], Status.ARCHIVED, "no longer live where it was exported")
