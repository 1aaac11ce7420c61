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
from perdure.core.memory.arriving import Arriving, Batch, Others
from perdure.core.memory.lines import Line, together
from perdure.core.memory.parts import Memory, Source, Status
from perdure.core.memory.requests import MAX_BATCH, Keeping, must_be_micros, must_be_span, must_keep
from perdure.core.session.shown import shown
from perdure.edge.given import Progress
from perdure.waiting import aside

MAX_WORDS: Final = 1 << 20
"""Characters that are kept at once, in one memory or several."""
MAX_SENT: Final = 5_000
MAX_BYTES: Final = 1 << 20
"""Lines and bytes that are sent elsewhere at once."""
OPENED: Final = b"{"
ONE_A_LINE: Final = "a file has one JSON object a line, or plain lines of text"
ORDERED: Final = ("\ufeff", b"\xef\xbb\xbf")
"""What some programs write before a file's first line: the mark of the order of its bytes."""
KNOWN: Final = frozenset(Keeping.__struct_fields__) - {"memory_type", "supersedes"}
"""Fields of a line that say something about a memory wherever it is kept."""
THERE: Final = frozenset(Memory.__struct_fields__) | {"memory_type"}
"""Fields of a line that mean something; any other is kept as metadata."""
TOLD: Final = frozenset({"status", "recorded_at"})
"""Fields of an export's lines: they tell how they stand, if only by leaving out that they are live, and their times are
what they are, whatever they look like.
"""
LEFT_OUT: Final = (Status.QUARANTINED, Status.WITHDRAWN)

Look = Callable[[], Awaitable[Sequence[Memory]]]
"""What is there."""
Bring = Callable[[Batch, Others], Awaitable[bool]]
"""Keeps a batch, unless others have brought some of it meanwhile; whether it did."""
Stay = Callable[[], None]
"""Asked between batches: raises when nobody waits for the import any more."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an import: memories kept, those that were there already, and those that stay out because they were
    quarantined or withdrawn where they come from.
    """

    kept: int = 0
    there: int = 0
    left_out: int = 0

    def __add__(self, other: "Imported") -> "Imported":
        return Imported(
            kept=self.kept + other.kept, there=self.there + other.there, left_out=self.left_out + other.left_out
        )


def lines_of(source: Iterable[Any], *, trusted: bool = False) -> list[Line]:
    """The memories of a file's lines; `BadExport` names the first line that is none. Unless the file is `trusted`, its
    memories are an import's, whoever it says wrote them.
    """
    found = []
    for number, raw in enumerate(_apart(source), 1):
        try:
            line = _line(raw, trusted)
        except (msgspec.DecodeError, Invalid, UnicodeDecodeError, RecursionError) as wrong:
            hint = f" ({ONE_A_LINE})" if type(wrong) is msgspec.DecodeError else ""
            raise BadExport(
                f"line {number} is no memory: {wrong}{hint}; correct it, or take it out", line=number
            ) from wrong
        if line is not None:
            found.append(line)
    return found


def _apart(source: Iterable[Any]) -> Iterator[Any]:
    """The lines; `BadExport` if together they are one list in JSON, which is no text that somebody wants remembered."""
    lines, held = iter(source), list[Any]()
    for raw in lines:
        held.append(raw if held else _unordered(raw))
        text = held[-1].strip() if isinstance(raw, str | bytes) else raw
        if text:
            if isinstance(text, str | bytes) and text[:1] in ("[", b"["):
                held += lines
                _must_be_apart(held)
            break
    yield from held
    yield from lines


def _must_be_apart(lines: Sequence[Any]) -> None:
    told = [line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line for line in lines]
    if not all(isinstance(line, bytes) for line in told):
        return
    try:
        whole = msgspec.json.decode(b"\n".join(told))
    except (msgspec.DecodeError, RecursionError):
        return
    if isinstance(whole, list):
        raise BadExport(f"this is one list in JSON, and {ONE_A_LINE}: turn it into that", line=1)


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
    if not document.keys() & TOLD:
        for name in ("valid_from", "valid_to"):
            must_be_micros(fields.get(name), name, "correct it")
    status = msgspec.convert(document.get("status") or "live", Status)
    ended = _date(fields, document, status)
    asked = msgspec.convert(fields, Keeping)
    if not trusted:
        asked = msgspec.structs.replace(asked, source=msgspec.structs.replace(asked.source, kind="import"), trust=None)
    must_keep(asked, names=None)
    return Line(
        asked=asked,
        id=str(document.get("id") or ""),
        status=status,
        superseded_by=str(document.get("superseded_by") or ""),
        supersedes=msgspec.convert(document.get("supersedes") or (), tuple[str, ...]),
        told=not document.keys().isdisjoint(TOLD),
        ended=ended,
    )


def _date(fields: dict[str, Any], document: dict[str, Any], status: Status) -> int | None:
    """Since when it is true: since it was kept there, if it does not say. What had ended before that, by its own word,
    began nobody knows when. Of what gave way it is said apart when it did: that may be when it began.
    """
    since, until = fields.get("valid_from", document.get("recorded_at")), fields.get("valid_to")
    if type(since) is not int:
        return None
    gave_way = status is Status.SUPERSEDED or (status is Status.ARCHIVED and bool(document.get("superseded_by")))
    once = "recorded_at" in document and "valid_from" in fields  # it gave way once, and was brought back or put away
    if type(until) is not int or not (gave_way or (once and until <= since)):
        if type(until) is not int or since < until:
            fields["valid_from"] = since
        return None
    if "valid_from" in fields or since <= until:
        fields["valid_from"] = since
        until = max(since, until)
    must_be_span(None, fields.pop("valid_to"))
    return until


def documents(lines: Sequence[Line], most: int = MAX_SENT, most_bytes: int = MAX_BYTES) -> Iterator[tuple[int, bytes]]:
    """The lines as they are sent elsewhere: how many there are in each body, of so many lines and bytes at most. What
    says something of each other is in one, however large.
    """
    held, size = list[bytes](), 0
    for group in together(lines):
        told = [msgspec.json.encode(_document(line)) + b"\n" for line in group]
        more = sum(map(len, told))
        if held and (len(held) + len(told) > most or size + more > most_bytes):
            yield len(held), b"".join(held)
            held, size = [], 0
        held += told
        size += more
    if held:
        yield len(held), b"".join(held)


def _document(line: Line) -> dict[str, Any]:
    """What `_object` reads as this line."""
    asked: dict[str, Any] = msgspec.to_builtins(line.asked)
    found = {**asked, "id": line.id, "superseded_by": line.superseded_by, "supersedes": line.supersedes}
    if line.told:
        found |= {"status": line.status.value, "recorded_at": line.asked.valid_from}
    if line.ended is not None:
        found["valid_to"] = line.ended
    return {name: value for name, value in found.items() if value not in (None, "", (), {})}


def batches(lines: Sequence[Line], most: int = MAX_BATCH, most_words: int = MAX_WORDS) -> Iterator[list[int]]:
    """The places of lines in parts of so many lines and characters at most; what is longer is a part by itself."""
    batch, words = list[int](), 0
    for place, line in enumerate(lines):
        more = len(line.asked.content)
        if batch and (len(batch) == most or words + more > most_words):
            yield batch
            batch, words = [], 0
        batch.append(place)
        words += more
    if batch:
        yield batch


class Bringing:
    """The lines of one file on their way into a space. `look` tells what is there, `bring` keeps what comes at once,
    `fresh` makes ids; `most` and `most_words` say how many lines and characters are kept at once.
    """

    def __init__(
        self,
        look: Look,
        bring: Bring,
        fresh: Callable[[], str],
        *,
        stay: Stay | None = None,
        most: int = MAX_BATCH,
        most_words: int = MAX_WORDS,
    ) -> None:
        self._look = look
        self._bring = bring
        self._fresh = fresh
        self._stay = stay
        self._most = most
        self._most_words = most_words

    async def bring(self, lines: Sequence[Line], told: Progress | None = None) -> Imported:
        """Keep those that are not there yet. The event loop has its turn before each batch."""
        wanted = [line for line in lines if line.status not in LEFT_OUT]
        kept, is_over = 0, False
        while not is_over:
            some, is_over = await self._brought(wanted, len(lines), told)
            kept += some
        return Imported(kept=kept, there=len(wanted) - kept, left_out=len(lines) - len(wanted))

    async def _brought(self, wanted: Sequence[Line], count: int, told: Progress | None) -> tuple[int, bool]:
        """How many were kept, and whether all are there now; else others have brought some, and one looks again."""
        there = await self._look()
        others = Others(there)
        arriving, parts = await aside(lambda: self._arranged(wanted, there))
        left = sum(map(len, parts))
        kept, done = 0, count - left
        for number, part in enumerate(parts):
            batch = await aside(partial(arriving.batch, part))
            if number and self._stay is not None:
                self._stay()
            if not await self._bring(batch, others):
                return kept, False
            kept += len(part)
            if told is not None:
                told(done + kept, count)
        if told is not None and count and not parts:
            told(done, count)
        return kept, True

    def _arranged(self, lines: Sequence[Line], there: Iterable[Memory]) -> tuple[Arriving, list[list[int]]]:
        """The lines among what is there, and in which parts they are kept."""
        arriving = Arriving(lines, there, self._fresh)
        order = arriving.order()
        parts = batches([arriving.lines[place] for place in order], self._most, self._most_words)
        return arriving, [[order[at] for at in part] for part in parts]
