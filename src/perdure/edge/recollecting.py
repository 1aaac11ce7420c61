"""Memories out of files: lines of an export, JSON objects that have content, or plain lines of text.

What comes from a file has ids, times and a standing of its own there. Here it gets fresh ids; what superseded what
stays so, and what was archived is archived. What was quarantined or withdrawn does not come along. What is there
already gives way only to a file that would be trusted with it. Whatever takes long is done beside the event loop.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from perdure.core.errors import BadExport, Invalid
from perdure.core.memory.parts import TRUST, Memory, Source, Status, Trust
from perdure.core.memory.requests import MAX_BATCH, Keeping, lesser, must_be_micros, must_keep
from perdure.core.session.shown import shown
from perdure.edge.given import Progress
from perdure.waiting import aside

MAX_WORDS: Final = 1 << 20
"""Characters that are kept at once, in one memory or several."""
OPENED: Final = b"{"
ORDERED: Final = ("\ufeff", b"\xef\xbb\xbf")
"""What some programs write before a file's first line: the mark of the order of its bytes."""
KNOWN: Final = frozenset(Keeping.__struct_fields__) - {"memory_type", "supersedes"}
"""Fields of a line that say something about a memory wherever it is kept."""
THERE: Final = frozenset(Memory.__struct_fields__) | {"memory_type"}
"""Fields of a line that mean something; any other is kept as metadata."""
EXPORTED: Final = frozenset({"id", "recorded_at"})
"""Fields that an export's lines have: its times are what they are, whatever they look like."""
LEFT_OUT: Final = (Status.QUARANTINED, Status.WITHDRAWN)

Keep = Callable[[Sequence[Keeping], str | None], Awaitable[tuple[Memory, ...]]]
Move = Callable[[Sequence[str], Status, str], Awaitable[int]]
Stay = Callable[[], None]
"""Asked between batches: raises when nobody waits for the import any more."""
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

    @property
    def trust(self) -> Trust:
        """How far it is trusted when it is kept."""
        most = TRUST[self.asked.source.kind]
        return lesser(self.asked.trust or most, most)

    def stands_for(self, memory: Memory) -> bool:
        """Whether what comes may take the place of a memory because of this line, which says the same: it is trusted as
        much as the memory is.
        """
        return lesser(memory.trust, self.trust) == memory.trust


Placed = tuple[Line, tuple[str, ...]]
"""A line, and the ids of those that it supersedes and that come before it."""


def there_of(memories: Iterable[Memory]) -> dict[Mark, Memory]:
    """What is there, by all that it is known by."""
    return {mark: memory for memory in memories for mark in marks_of(memory)}


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
            line = _line(_unordered(raw) if number == 1 else raw, trusted)
        except (msgspec.DecodeError, Invalid, UnicodeDecodeError, RecursionError) as wrong:
            raise BadExport(f"line {number} is no memory: {wrong}; correct it, or take it out", line=number) from wrong
        if line is not None:
            found.append(line)
    return found


def _unordered(raw: Any) -> Any:
    """The first line without the mark before it."""
    text, data = ORDERED
    if isinstance(raw, str):
        return raw.removeprefix(text)
    return raw.removeprefix(data) if isinstance(raw, bytes) else raw


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
    if not document.keys() & EXPORTED:
        for name in ("valid_from", "valid_to"):
            must_be_micros(fields.get(name), name, "correct it")
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


def waves(lines: list[Line]) -> Iterator[list[Placed]]:
    """The lines in an order in which they can be kept: those that are superseded come in an earlier wave. Those that go
    round in a circle, and what follows on them, come last; what cannot be linked is kept without.
    """
    over = _over(lines)
    wave_of = _wave_of(over)
    last = max(wave_of.values(), default=0) + 1
    found: list[list[Line]] = [[] for _ in range(last + 1)]
    for line in lines:
        found[wave_of.get(line.id, last) if line.id else 0].append(line)
    for number, wave in enumerate(found):
        if wave:
            yield [(line, tuple(sorted(_before(over.get(line.id, ()), wave_of, number)))) for line in wave]


def _over(lines: list[Line]) -> dict[str, set[str]]:
    """The ids that each id supersedes, as far as the file has them, whichever of the two says so."""
    known = {line.id: line for line in lines if line.id}
    over = {id: {old for old in line.supersedes if old in known} for id, line in known.items()}
    for line in lines:
        if line.id and line.superseded_by in known:
            over[line.superseded_by].add(line.id)
    return over


def _wave_of(over: dict[str, set[str]]) -> dict[str, int]:
    """In which wave each id comes: right after the last of those it supersedes. Circles come in none."""
    after: dict[str, list[str]] = {id: [] for id in over}
    for id, olds in over.items():
        for old in olds:
            after[old].append(id)
    waits = {id: len(olds) for id, olds in over.items()}
    found = {id: 0 for id, count in waits.items() if not count}
    ready = [*found]
    for id in ready:  # it grows meanwhile, and comes to each id once
        for later in after[id]:
            waits[later] -= 1
            if not waits[later]:
                found[later] = found[id] + 1  # the last of them comes in the latest wave
                ready.append(later)
    return found


def _before(olds: Iterable[str], wave_of: dict[str, int], number: int) -> Iterator[str]:
    return (old for old in olds if wave_of.get(old, number) < number)


def batches(lines: list[Line], most: int = MAX_BATCH, most_words: int = MAX_WORDS) -> Iterator[list[Placed]]:
    """The waves, each in parts of so many lines and characters at most; what is longer by itself is one by itself."""
    for wave in waves(lines):
        batch, words = list[Placed](), 0
        for placed in wave:
            more = len(placed[0].asked.content)
            if batch and (len(batch) == most or words + more > most_words):
                yield batch
                batch, words = [], 0
            batch.append(placed)
            words += more
        yield batch


class Bringing:
    """The lines of one file on their way into a space. `there` has what is there, by what it is known by; `most` and
    `most_words` say how many lines and characters are kept at once.
    """

    def __init__(
        self,
        keep: Keep,
        move: Move,
        there: dict[Mark, Memory],
        *,
        stay: Stay | None = None,
        most: int = MAX_BATCH,
        most_words: int = MAX_WORDS,
    ) -> None:
        self._keep = keep
        self._move = move
        self._there = there
        self._stay = stay
        self._most = most
        self._most_words = most_words
        self._here: dict[str, str] = {}
        """The ids of memories that may be superseded, by those they had."""
        self._followed: set[str] = set()
        """The ids, as the file has them, of lines whose place a later line takes."""
        self._open: set[str] = set()
        """Those that nothing has taken the place of yet, though it did in the file."""

    async def bring(self, lines: list[Line], told: Progress | None) -> Imported:
        """Keep those that are not there yet. The event loop has its turn before each batch."""
        wanted = [line for line in lines if line.status not in LEFT_OUT]
        kept, done = 0, len(lines) - len(wanted)
        for number, batch in enumerate(await aside(lambda: self._arranged(wanted))):
            fresh = await aside(partial(self._fresh, batch))
            if number and self._stay is not None:
                self._stay()
            await self._brought(batch, fresh)
            kept += len(fresh)
            done += len(batch)
            if told is not None:
                told(done, len(lines))
        if self._open:  # what takes their place was there before
            await self._archived([*self._open])
        return Imported(kept=kept, there=len(wanted) - kept, left_out=len(lines) - len(wanted))

    def _arranged(self, lines: list[Line]) -> list[list[Placed]]:
        """The lines in their batches, once it is known which of them are followed by others."""
        found = [*batches(lines, self._most, self._most_words)]
        self._followed = {old for batch in found for _, over in batch for old in over}
        return found

    def _fresh(self, batch: list[Placed]) -> dict[Mark, tuple[Line, Keeping]]:
        """Those of a batch that are not there, and what is asked to be kept of each."""
        fresh: dict[Mark, tuple[Line, Keeping]] = {}
        for line, over in batch:
            if line.mark not in self._there and line.mark not in fresh:
                old = dict.fromkeys(self._here[id] for id in over if id in self._here)
                fresh[line.mark] = line, msgspec.structs.replace(line.asked, supersedes=tuple(old))
        return fresh

    async def _brought(self, batch: list[Placed], fresh: dict[Mark, tuple[Line, Keeping]]) -> None:
        """Keep what is fresh of a batch, as it stood where it comes from."""
        if fresh:
            made = await self._keep([asked for _, asked in fresh.values()], None)
            self._there |= dict(zip(fresh, made, strict=True))
            await self._archived([self._there[mark].id for mark, (line, _) in fresh.items() if self._is_away(line)])
        for line, asked in fresh.values():
            self._open -= {*asked.supersedes}
            if line.status is Status.SUPERSEDED and not self._is_away(line):
                self._open.add(self._there[line.mark].id)
        for line, _ in batch:
            memory = self._there[line.mark]
            if line.stands_for(memory):
                self._here[line.id] = memory.id

    def _is_away(self, line: Line) -> bool:
        """Whether it does not count any more, and nothing in the file takes its place."""
        if line.status is Status.SUPERSEDED:
            return line.id not in self._followed
        return line.status is Status.ARCHIVED

    async def _archived(self, ids: list[str]) -> None:
        for start in range(0, len(ids), MAX_BATCH):
            await self._move(ids[start : start + MAX_BATCH], Status.ARCHIVED, "no longer live where it was exported")
