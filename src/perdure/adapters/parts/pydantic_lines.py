"""Lines of entries, followed back through a session's log that is handed over newest first.

Every message of Pydantic AI is an entry that names the one before it; so is every item of another framework, which
follows whatever was shown before it. A line is what leads to an entry. Moving to another line takes the old one out of
what is shown and shows the rest of the new one again, by reference; the entries themselves stay where they were
written, and once they are destroyed there, they are read from where they are shown again. What others take out of the
conversation is in no line any more.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from perdure.adapters.parts import pydantic_messages as messages
from perdure.adapters.parts.pairing import Step, left_open
from perdure.adapters.parts.pydantic_entries import BY, session_of
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
)

RECORD: Final = "record"
MOVED: Final = "moved"
ASIDE: Final = "entry"
NOW: Final = 2**63
NEAR: Final = 64
"""How many entries before the wanted ones are read to find out which tool a result came from."""
_CHANGES: Final = frozenset({Redacted.kind, "turn_rolled_back", "created"})
_SPOKEN: Final = frozenset({Message.kind, ToolAsked.kind, ToolFinished.kind})


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
    """What it says to everybody."""
    gone: bool = False
    """Others took it out of the conversation."""
    aside: bool = False
    """It was never shown."""
    again: bool = False
    """It shows the entry of that id again, in the words that it has for everybody."""
    lost: bool = False
    """It was redacted, and with it which entry it is."""

    @property
    def told(self) -> list[Spoken]:
        """What it says to everybody, as nobody's item."""
        if self.text is not None:
            return messages.told(self.text)
        return [
            msgspec.structs.replace(
                payload, metadata={name: value for name, value in payload.metadata.items() if name != "native"}
            )
            for payload in self.payloads
        ]

    @property
    def own(self) -> bool:
        """Whether Pydantic AI wrote the entry, and not another framework."""
        return self.text is not None or (self.again and session_of(self.id) is None)


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
        self.copies: dict[str, Unit] = {}
        """Where entries were shown again last, if they still stand there."""
        self._pieces: list[Event] = []
        self._moved: int | None = None

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
        if unit.aside or self._taken_out(unit):
            return False
        return not any(mark < before and first <= unit.first <= upto for mark, first, upto in self._own)

    def out(self, unit: Unit) -> bool:
        """Whether others took it out of the conversation, or destroyed it."""
        return self._taken_out(unit) or self.readable(unit) is None

    def readable(self, unit: Unit) -> Unit | None:
        """The unit, or if it was destroyed where it was shown again after it; None if it was not."""
        return self.copies.get(unit.id) if unit.lost else unit

    def _taken_out(self, unit: Unit) -> bool:
        return (unit.gone or unit.id in self._gone) and unit.id not in self.copies

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
            self._gone.update(set(data["shows"]) - self._again - self.copies.keys())  # shown again, and then redacted
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
        events = [event, *_fitting(pieces, mark.get("by"))]
        if mark.get("by") != BY:
            yield from self._foreign(events, gone)
            return
        item = mark.get("item")
        if type(item) is not dict:
            return
        fields = {"last": (pieces or events)[-1].version, "payloads": _payloads(events), "gone": gone}
        if "shows" in item:
            yield self._shown_again(_unit(event, id=item["shows"], again=True, **fields))
        else:
            yield _unit(event, id=item["id"], parent=item["parent"], text=item["message"], **fields)

    def _shown_again(self, unit: Unit) -> Unit:
        """Take note of where an entry is shown again: the place that was written last decides whether it stands."""
        self._again.add(unit.id)
        if unit.id not in self.copies and unit.id not in self._gone:
            if unit.gone:
                self._gone.add(unit.id)
            else:
                self.copies[unit.id] = unit
        return unit

    def _foreign(self, events: list[Event], gone: bool) -> Iterator[Unit]:
        """What others wrote, newest first: one entry for all that the model said, one for all that was said to it."""
        runs: list[list[Event]] = []
        for event in events:
            if runs and _answers(event) == _answers(runs[-1][-1]):
                runs[-1].append(event)
            else:
                runs.append([event])
        for run in reversed(runs):
            yield _unit(run[0], last=run[-1].version, payloads=_payloads(run), gone=gone)


class Trail:
    """The entries that lead to one, newest first, relinked where others took some out.

    It starts at the entry `want`, or at what was shown just before the version `want`.
    """

    def __init__(self, reading: Reading, want: str | int | None, limit: int | None = None) -> None:
        self.found: list[Unit] = []
        self.begun = False
        self.exhausted = False
        """Whether the whole log was read."""
        self.reading = reading
        self._broken = False
        self._want = want
        self._limit = limit
        self._child: Unit | None = None
        self._again: dict[str, int] = {}
        """The places in `found` of entries shown again, until they are met where they were written."""
        self._after: list[Step] = []

    @property
    def broken(self) -> bool:
        """Whether something on the way was taken out by others, or is only there where it is shown again."""
        return self._broken or any(unit.again for unit in self.found)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to look for."""
        if self._want is None and not self._again:
            return True
        if self._limit is None or len(self.found) < self._limit:
            return False
        if any(place < self._limit for place in self._again.values()):
            return False
        enough = self.found[-1].turn != self.found[self._limit - 1].turn or len(self.found) > self._limit + NEAR
        return enough or not any(self._uncalled())

    def uncalled(self) -> list[set[str]]:
        """The calls in each entry that have a result there and are not made before it, oldest entry first. Where only
        the end of a line was read, a call may lie before it, unless its turn was read from its beginning.
        """
        whole = self.exhausted or self._want is None
        sure = (whole or unit.turn != self.found[-1].turn for unit in reversed(self.found))
        return [calls if known else set() for calls, known in zip(self._uncalled(), sure, strict=True)]

    def _uncalled(self) -> list[set[str]]:
        waiting: set[str] = set()
        found: list[set[str]] = []
        for unit in reversed(self.found):
            step = _step(unit)
            waiting.update(step.asked)
            found.append(set() if unit.text is not None else set(step.answered) - waiting)
            waiting.difference_update(step.answered)
        return found

    def left_open(self) -> list[set[str]]:
        """The calls in each entry that lack a result, oldest entry first; what is now shown after them counts."""
        steps = [_step(unit) for unit in reversed(self.found)]
        lacking: list[set[str]] = [set() for _ in steps]
        for lack in left_open([*steps, *reversed(self._after)]):
            if lack.step < len(lacking):
                lacking[lack.step].add(lack.call)
        return lacking

    def take(self, unit: Unit) -> None:
        """Take note of the next unit of the log."""
        if unit.id in self._again and not unit.again:
            place = self._again.pop(unit.id)
            self.found[place] = self.found[place] if unit.lost else unit
            return
        want = self._want
        if want is None:
            return
        if isinstance(want, int):
            if not self.reading.shown(unit, want) or self.reading.out(unit):
                self._broken = self._broken or self.reading.out(unit)
                return
        elif unit.id != want:
            self._pass(unit)
            return
        if not self.begun and not self.reading.shown(unit):
            self._after.clear()
        self.begun = True
        self._keep(None if self.reading.out(unit) else self.reading.readable(unit))
        self._child = unit if unit.text is not None and not unit.aside else None
        self._want = unit.parent if unit.text is not None else unit.first

    def _keep(self, unit: Unit | None) -> None:
        """Put down what is next on the way; None if it was taken out."""
        if unit is None:
            self._broken = True
            return
        if unit.again:
            self._again[unit.id] = len(self.found)
        self.found.append(unit)

    def _pass(self, unit: Unit) -> None:
        """A redacted entry cannot be told by its id, but it is what was shown just before the one that follows it."""
        if not self.begun and self.reading.shown(unit) and not unit.lost:
            self._after.append(_step(unit))
        if self._child is None or not self.reading.shown(unit, self._child.first):
            return
        if unit.lost:
            self._keep(self.reading.copies.get(str(self._want)))
            self._want = unit.first
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


def _step(unit: Unit) -> Step:
    told = unit.payloads or unit.told
    return Step([call for payload in told for call, _ in _asked(payload)], messages.results(told), unit.own)


def _payloads(events: Iterable[Event]) -> tuple[Spoken, ...]:
    return tuple(payload for event in events if (payload := spoken(event)) is not None)


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
