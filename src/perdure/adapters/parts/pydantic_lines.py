"""Lines of entries, followed back through a session's log that is handed over newest first.

Every message of Pydantic AI is an entry that names the one before it; so is every item of another framework, which
follows whatever was shown before it. A line is what leads to an entry. Moving to another line takes the old one out of
what is shown and shows the rest of the new one again, by reference; the entries themselves stay where they were
written. What others take out of the conversation is in no line any more.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Self

import msgspec
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

from perdure.adapters.parts import pydantic_messages as messages
from perdure.adapters.parts.pairing import Step, left_open
from perdure.events import (
    Event,
    Message,
    Noted,
    Redacted,
    Retracted,
    Spoken,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    as_given,
    native,
)

BY: Final = "pydantic_ai"
RECORD: Final = "record"
MOVED: Final = "moved"
ASIDE: Final = "entry"
NOW: Final = 2**63
DAY: Final = 86_400_000_000
NEAR: Final = 64
"""How many entries before the wanted ones are read to find out which tool a result came from."""
_CHANGES: Final = frozenset({Redacted.kind, "turn_rolled_back", "created"})
_SPOKEN: Final = frozenset({Message.kind, ToolAsked.kind, ToolFinished.kind})


class EntryId(str):
    """An entry's id that knows in which session it was found."""

    __slots__ = ("session",)
    session: str

    def __new__(cls, id: str, session: str) -> Self:
        made = super().__new__(cls, id)
        made.session = session
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """An entry where it was written, or where it is shown again."""

    id: str
    first: int
    last: int
    at: int
    turn: int | None
    parent: str | None = None
    text: str | None = None
    """The message word for word; None for what others wrote."""
    payloads: tuple[Spoken, ...] = ()
    gone: bool = False
    """Others took it out of the conversation."""
    aside: bool = False
    """It was never shown."""
    again: bool = False
    """It only shows the entry of that id again."""
    lost: bool = False
    """It was redacted, and with it which entry it is."""


class Note(msgspec.Struct, frozen=True):
    """What was noted with a record."""

    version: int
    record: str


class Reading:
    """The units in a log, newest first, and what was learnt on the way."""

    def __init__(self) -> None:
        self.version = 0
        self.oldest = 0
        self.note: Note | None = None
        self.change: Event | None = None
        """The newest event that changed the conversation after its record was noted."""
        self.names: dict[str, str] = {}
        self._own: list[tuple[int, int, int]] = []
        self._taken: list[tuple[int, int]] = []
        self._undone: set[int | None] = set()
        self._gone: set[str] = set()
        self._again: set[str] = set()
        self._pieces: list[Event] = []
        self._moved: int | None = None
        self._steps: list[tuple[dict[str, int], Step]] = []

    def left_open(self) -> list[tuple[str, int]]:
        """The calls that lack a result in what was read, each with its version."""
        steps = self._steps[::-1]
        return [(lack.call, steps[lack.step][0][lack.call]) for lack in left_open([step for _, step in steps])]

    def _step(self, events: list[Event], own: bool) -> None:
        payloads = [(event.version, payload) for event in events if (payload := spoken(event)) is not None]
        asked: dict[str, int] = {call: version for version, payload in payloads for call, _ in _asked(payload)}
        self._steps.append((asked, Step(asked, messages.results([payload for _, payload in payloads]), own)))

    def units(self, event: Event) -> Iterator[Unit]:
        """The units that begin with an event."""
        self.version = self.version or event.version
        self.oldest = event.version
        data = event.data
        if isinstance(data, Noted):
            yield from self._noted(event, data)
        elif isinstance(data, Retracted):
            self._retracted(event, data)
        elif event.kind in _CHANGES:
            self._changed(event)
            if event.kind == "turn_rolled_back":
                self._undone.add(event.turn)
        elif event.redacted:
            if event.kind in _SPOKEN:
                self._changed(event)
                yield _unit(event, lost=True, gone=self._is_gone(event))
        elif (payload := spoken(event)) is not None:
            self._changed(event)
            yield from self._said(event, payload)

    def shown(self, unit: Unit, before: int = NOW) -> bool:
        """Whether a unit was part of what was shown just before a version, or is now."""
        if unit.gone or unit.aside or unit.id in self._gone:
            return False
        return not any(mark < before and first <= unit.first <= upto for mark, first, upto in self._own)

    def out(self, unit: Unit) -> bool:
        """Whether others took it out of the conversation, or destroyed it."""
        return unit.gone or unit.lost or unit.id in self._gone

    def _changed(self, event: Event) -> None:
        if self.note is None and self.change is None:
            self.change = event

    def _noted(self, event: Event, note: Noted) -> Iterator[Unit]:
        data = note.data
        if note.by != BY or type(data) is not dict:
            return
        if note.about == RECORD:
            self.note = self.note or Note(event.version, data["record"])
            self._again.clear()
        elif note.about == MOVED:
            self._moved = data["first"]
            self._gone.update(set(data["shows"]) - self._again)  # shown again, and then redacted
        elif note.about == ASIDE:
            yield _unit(event, id=data["id"], parent=data["parent"], text=data["message"], aside=True)

    def _retracted(self, event: Event, data: Retracted) -> None:
        if data.first == self._moved:  # moving to another line did this, says the note that follows it
            self._own.append((event.version, data.first, data.upto))
            self._moved = None
        else:
            self._changed(event)
            self._taken.append((data.first, data.upto))

    def _is_gone(self, event: Event) -> bool:
        if event.turn is not None and event.turn in self._undone:
            return True
        return any(first <= event.version <= upto for first, upto in self._taken)

    def _said(self, event: Event, payload: Spoken) -> Iterator[Unit]:
        self.names.update({call: name for call, name in _asked(payload) if call not in self.names})
        mark = _mark(payload)
        if "piece" in mark:
            self._pieces.append(event)
            return
        pieces, self._pieces = self._pieces[::-1], []
        gone = self._is_gone(event)
        if not gone:
            self._step([event, *pieces], mark.get("by") == BY)
        if mark.get("by") != BY:
            yield from self._foreign([event, *_fitting(pieces, mark.get("by"))], gone)
            return
        item, last = mark.get("item"), pieces[-1].version if pieces else event.version
        if type(item) is not dict:
            return
        if "shows" in item:
            self._again.add(item["shows"])
            if gone:
                self._gone.add(item["shows"])
            yield _unit(event, id=item["shows"], last=last, gone=gone, again=True)
        else:
            yield _unit(event, id=item["id"], parent=item["parent"], text=item["message"], last=last, gone=gone)

    def _foreign(self, events: list[Event], gone: bool) -> Iterator[Unit]:
        """What others wrote, newest first: one entry for all that the model said, one for all that was said to it."""
        runs: list[list[Event]] = []
        for event in events:
            if runs and _answers(event) == _answers(runs[-1][-1]):
                runs[-1].append(event)
            else:
                runs.append([event])
        for run in reversed(runs):
            payloads = tuple(payload for event in run if (payload := spoken(event)) is not None)
            yield _unit(run[0], last=run[-1].version, payloads=payloads, gone=gone)


class Trail:
    """The entries that lead to one, newest first, relinked where others took some out.

    It starts at the entry `want`, or at what was shown just before the version `want`.
    """

    def __init__(self, reading: Reading, want: str | int | None, limit: int | None = None) -> None:
        self.found: list[Unit] = []
        self.begun = False
        self.broken = False
        """Whether something on the way was taken out by others."""
        self.reading = reading
        self._want = want
        self._limit = limit
        self._child: Unit | None = None

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to look for."""
        if self._want is None:
            return True
        if self._limit is None or len(self.found) < self._limit:
            return False
        enough = self.found[-1].turn != self.found[self._limit - 1].turn or len(self.found) > self._limit + NEAR
        return enough or not self.unnamed()

    def unnamed(self) -> set[str]:
        """The calls that have results here, and whose tools are not known yet."""
        calls = {call for unit in self.found if unit.text is None for call in messages.results(unit.payloads)}
        return calls - self.reading.names.keys()

    def take(self, unit: Unit) -> None:
        """Take note of the next unit of the log."""
        want = self._want
        if want is None:
            return
        if isinstance(want, int):
            if unit.lost or not self.reading.shown(unit, want):
                self.broken = self.broken or self.reading.out(unit)
                return
            if unit.again:  # the entry itself was written earlier
                self._want, self._child = unit.id, None
                return
        elif unit.again or unit.id != want:
            self._pass(unit)
            return
        self.begun = True
        if self.reading.out(unit):
            self.broken = True
        else:
            self.found.append(unit)
        self._child = None if unit.aside else unit
        self._want = unit.parent if unit.text is not None else unit.first

    def _pass(self, unit: Unit) -> None:
        """A redacted entry cannot be told by its id, but it is what was shown just before the one that follows it."""
        if self._child is None or not self.reading.shown(unit, self._child.first):
            return
        if unit.lost:
            self._want, self.broken = unit.first, True
        self._child = None

    @property
    def missing(self) -> bool:
        """Whether an entry was named that the whole log does not have. A pruned log begins with what is left."""
        return (
            self._want is not None and not isinstance(self._want, int) and (not self.begun or self.reading.oldest == 1)
        )


def spoken(event: Event) -> Spoken | None:
    """What was said or done by an event, if anything was."""
    match event.data:
        case Message() as message:
            return as_given(message) if message.role else None
        case ToolAsked() | ToolFinished() as payload:
            return as_given(payload) if payload.call else None
        case TurnStarted(content=content) as start if content is not None:
            return Message(role=start.role or "user", content=content)
        case TurnFinished(content=content) if content is not None:
            return Message(role="assistant", content=content)
        case _:
            return None


def _unit(event: Event, **fields: Any) -> Unit:
    where = {"id": f"perdure-{event.session}-{event.version}", "first": event.version, "last": event.version}
    return Unit(**{**where, "at": event.at, "turn": event.turn, **fields})


def _mark(payload: Spoken) -> dict[str, Any]:
    found = payload.metadata.get("native")
    return found if type(found) is dict else {}


def _fitting(pieces: list[Event], by: Any) -> list[Event]:
    """The pieces that go on with an item; what others left torn is left out."""
    found: list[Event] = []
    for number, event in enumerate(pieces, 1):
        payload = spoken(event)
        mark = _mark(payload) if payload is not None else {}
        if mark.get("by") != by or mark.get("piece") != number:
            break
        found.append(event)
    return found


def _answers(event: Event) -> bool:
    payload = spoken(event)
    return payload is not None and messages.answers(payload)


def _asked(payload: Spoken) -> Iterator[tuple[str, str]]:
    """The calls in a payload, and their tools."""
    if isinstance(payload, ToolAsked):
        yield payload.call, payload.name
    elif isinstance(payload, Message) and isinstance(payload.content, list):
        for block in payload.content:
            if isinstance(block, dict) and block.get("type") == "tool_use":
                yield str(block.get("id")), str(block.get("name"))


# ── ids ──


def session_of(entry: str) -> str | None:
    """The session that the id of what others wrote names."""
    return entry[8:44] if entry.startswith("perdure-") and len(entry) > 45 else None


def made_at(entry: str) -> int | None:
    """When an entry was made, in microseconds, if its id tells."""
    plain = entry.replace("-", "")
    if len(entry) != 36 or len(plain) != 32 or plain[12] != "7":
        return None
    try:
        return int(plain[:12], 16) * 1000
    except ValueError:
        return None


def enough(found: Sequence[ConversationRecord], limit: int, active_at: int) -> bool:
    """Whether sessions that were last active before a moment cannot be among the newest."""
    return len(found) >= limit and messages.time_of(active_at + DAY) < found[limit - 1].updated_at


# ── what is written ──


def kept(entry: ConversationEntry) -> dict[str, Any]:
    """An entry as it is written."""
    parent = None if entry.parent_id is None else str(entry.parent_id)
    return {"id": str(entry.id), "parent": parent, "message": messages.as_text(entry.message)}


def written(entry: ConversationEntry) -> list[Spoken]:
    """An entry and what it says to everybody."""
    item = kept(entry)
    return native(BY, item, messages.told(item["message"]))


def payloads_of(unit: Unit) -> list[Spoken]:
    """What a unit says to everybody, as nobody's item."""
    if unit.text is not None:
        return messages.told(unit.text)
    return [
        msgspec.structs.replace(
            payload, metadata={name: value for name, value in payload.metadata.items() if name != "native"}
        )
        for payload in unit.payloads
    ]


def arranged(
    head: str | None, entries: Iterable[ConversationEntry]
) -> tuple[list[ConversationEntry], str | None, list[ConversationEntry]]:
    """The new entries that lead to the head, in their order; the entry they go on from; and the other new ones."""
    left = {str(entry.id): entry for entry in entries}
    line: list[ConversationEntry] = []
    while head is not None and head in left:
        line.append(left.pop(head))
        head = line[-1].parent_id
    return line[::-1], head, list(left.values())
