"""A session's log as the chain of entries that the Claude Agent SDK reads. Pure: nothing here reads or writes.

Its own entries are as they were. What other frameworks said in between is spelled as entries that hang on the one
before, so that the conversation goes on from there; a call that was left without a result has an entry in its place
that says so. Invariant: whatever is spelled goes by the same uuid each time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from perdure.adapters.parts.claude_entries import BY, Entry, apart, said_in
from perdure.adapters.parts.pairing import INTERRUPTED, Step, left_open
from perdure.events import Event, Item, Message, Noted, Payload, Spoken, ToolAsked, ToolFinished, as_given, items_of

Found: TypeAlias = tuple[int, Any, Item | None]
"""The version at which something begins, how it is kept, and the item it is; None for a note."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_THOUGHTS: Final = ("thinking", "redacted_thinking")


def stand_in(event: str) -> str:
    """The uuid of the entry that stands for the results of calls which an event made, from that event's id."""
    return f"{event[:14]}8{event[15:]}"


def forms_of(events: Sequence[Event], session: str) -> Iterator[Any]:
    """What the log keeps of each entry, or what stands for it, in order."""
    ids: dict[int, str] = {event.version: event.id for event in events}
    items = items_of(events)
    found: list[Found] = [(item.first, item.native, item) for item in items]
    notes = ((event.version, event.data) for event in events)
    found += [(version, note.data, None) for version, note in notes if isinstance(note, Noted) and note.by == BY]
    found.sort(key=lambda entry: entry[0])
    if all(item.by == BY for item in items):
        yield from (form for _, form, _ in found)
        return
    before, after = _interruptions(items, events, found)
    writing = _Writing(session)
    for first, form, item in found:
        yield from writing.interrupted(before[first])
        if item is not None and item.by != BY:
            yield from writing.spelled(item, ids[item.first], ids[item.last])
        else:
            writing.follow(form, item)
            yield form
        if item is not None:
            yield from writing.interrupted(after[first])


# ── calls without a result ──


class Interruption(NamedTuple):
    """Calls that one event made, when, and the uuid of the entry that stands for their results."""

    uuid: str
    at: int
    calls: list[str]


def calls_of(payload: Payload) -> list[str]:
    """The calls that a payload makes."""
    if isinstance(payload, ToolAsked):
        given = as_given(payload)
        return [given.call] if isinstance(given, ToolAsked) else []
    if not isinstance(payload, Message) or type(payload.content) is not list:
        return []
    if not any(type(block) is dict and block.get("type") == "tool_use" for block in payload.content):
        return []
    return [piece.call for piece in _pieces(as_given(payload)) if type(piece) is ToolAsked]


def _owned(form: Any, item: Item | None) -> bool:
    """Whether it is an entry of Claude's own in the chain."""
    if item is not None:
        return item.by == BY
    return type(form) is dict and "parentUuid" in form and form.get("isSidechain") is not True


def _late(found: Iterable[Found]) -> set[tuple[int, str]]:
    """The results that others gave after Claude had gone on without them, each by where its item begins."""
    late: set[tuple[int, str]] = set()
    waiting: dict[str, bool] = {}  # whether others have spoken since the call
    missed: set[str] = set()
    for first, form, item in found:
        pieces = [] if item is None else _said(item)
        asked = {piece.call for piece in pieces if type(piece) is ToolAsked}
        answered = {piece.call for piece in pieces if type(piece) is ToolFinished}
        missed -= asked
        waiting |= dict.fromkeys(asked, False)
        if item is not None and item.by != BY:
            late |= {(first, call) for call in answered & missed}
            waiting = dict.fromkeys(waiting, True)
        elif _owned(form, item):
            missed |= {call for call, others in waiting.items() if others}
        waiting = {call: others for call, others in waiting.items() if call not in answered}
    return late


def _interruptions(
    items: Sequence[Item], events: Sequence[Event], found: Sequence[Found]
) -> tuple[dict[int, list[Interruption]], dict[int, list[Interruption]]]:
    """What stands for results before and after the items that begin at these versions.

    For a call of another framework's, that is next to it. For a call of Claude's own, it is where others went on: what
    Claude wrote until then does not hang on it. Late results are none: what Claude wrote hangs on what stood for them.
    """
    before: dict[int, list[Interruption]] = defaultdict(list)
    after: dict[int, list[Interruption]] = defaultdict(list)
    asking: dict[int, Event] = {event.version: event for event in events if calls_of(event.data)}
    own = [first for first, form, item in found if _owned(form, item)]
    late = _late(found)
    steps: list[Step] = []
    makers: list[dict[str, Event]] = []
    for item in items:
        made = [asking[version] for version in range(item.first, item.last + 1) if version in asking]
        makers.append({call: event for event in made for call in calls_of(event.data)})
        answered = {piece.call for piece in _said(item) if type(piece) is ToolFinished}
        timely = {call for call in answered if (item.first, call) not in late}
        steps.append(Step(makers[-1].keys(), timely, item.by == BY))
    for lack in left_open(steps):
        event = makers[lack.step][lack.call]
        if steps[lack.step].own:
            place = before[next(item.first for item in items[lack.step + 1 :] if item.by != BY)]
        else:  # what Claude wrote hangs on it
            upto = next((first for first in own if first > event.version), inf)
            place = after[max(item.first for item in items[lack.step : lack.place] if item.first < upto)]
        if not place or place[-1].uuid != stand_in(event.id):
            place.append(Interruption(stand_in(event.id), event.at, []))
        place[-1].calls.append(lack.call)
    return before, after


# ── the chain ──


class _Writing:
    """Where the chain of entries has come to, and which calls wait for a result."""

    def __init__(self, session: str) -> None:
        self._same: Entry = {"isSidechain": False, "sessionId": session, "userType": "external"}
        self._parent: str | None = None
        self._answer: str | None = None
        self._waiting: set[str] = set()

    def follow(self, form: Any, item: Item | None) -> None:
        """Take note of an entry of the framework's own, and of what it says if it is part of the conversation."""
        self._answer = None
        for piece in [] if item is None else _said(item):
            if type(piece) is ToolAsked:
                self._waiting.add(piece.call)
            elif type(piece) is ToolFinished:
                self._waiting.discard(piece.call)
        if type(form) is not dict or form.get("isSidechain") is True:
            return
        self._same |= {name: form[name] for name in ("cwd", "version", "gitBranch") if type(form.get(name)) is str}
        if "parentUuid" in form and type(form.get("uuid")) is str:
            self._parent = form["uuid"]

    def spelled(self, item: Item, first: str, last: str) -> Iterator[Entry]:
        """An item of another framework's as entries: the agent's part, and what came back to it. They go by the ids of
        its first event and its last, so that they are the same each time.
        """
        pieces = _said(item)
        asked = [block for piece in pieces for block in _asked(piece)]
        self._waiting.update(piece.call for piece in pieces if type(piece) is ToolAsked)
        answered = [block for piece in pieces for block in self._answered(piece)]
        if asked:
            self._answer = self._answer or f"msg_{first}"
            calls = any(block.get("type") == "tool_use" for block in asked)
            yield self._entry(
                "assistant",
                first,
                item.at,
                id=self._answer,
                type="message",
                model="<other>",
                content=asked,
                stop_reason="tool_use" if calls else "end_turn",
                stop_sequence=None,
                usage={"input_tokens": 0, "output_tokens": 0},
            )
        if answered:
            self._answer = None
            yield self._entry("user", last if asked else first, item.at, content=answered)

    def interrupted(self, found: Iterable[Interruption]) -> Iterator[Entry]:
        """The entries that stand for results."""
        for uuid, at, calls in found:
            self._answer = None
            self._waiting.difference_update(calls)
            yield self._entry("user", uuid, at, content=[_result(call, INTERRUPTED, failed=True) for call in calls])

    def _answered(self, piece: Spoken) -> list[Entry]:
        """What was said to the agent, as blocks. A result that no call waits for is told in words."""
        match piece:
            case Message(role="assistant"):
                return []
            case Message(role="user", content=content):
                return _blocks(content)
            case Message(role=role, content=content):
                return [{"type": "text", "text": f"<{role}>\n{said_in(content)}\n</{role}>"}]
            case ToolFinished(call=call, result=result, error=error):
                told = said_in(result) if error is None else error
                if call not in self._waiting:
                    return [{"type": "text", "text": f"(result of a tool) {told}"}]
                self._waiting.discard(call)
                return [_result(call, told, failed=error is not None)]
            case _:
                return []

    def _entry(self, role: str, uuid: str, at: int, **message: Any) -> Entry:
        when = (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        made: Entry = {
            **self._same,
            "type": role,
            "uuid": uuid,
            "parentUuid": self._parent,
            "timestamp": when,
            "message": {"role": role, **message},
        }
        self._parent = uuid
        return made


# ── what was said, as blocks ──


def _said(item: Item) -> list[Spoken]:
    """What an item says, each call of a tool and each result by itself."""
    return [piece for payload in item.payloads for piece in _pieces(payload)]


def _pieces(payload: Spoken) -> list[Spoken]:
    if type(payload) is Message and type(payload.content) is list:
        return apart(payload.role, payload.content) or [payload]
    return [payload]


def _asked(piece: Spoken) -> list[Entry]:
    """What the agent said or asked, as blocks."""
    match piece:
        case Message(role="assistant", content=content):
            return _blocks(content)
        case ToolAsked(call=call, name=name, arguments=arguments):
            given = arguments if type(arguments) is dict else {"arguments": arguments}
            return [{"type": "tool_use", "id": _call_id(call), "name": name, "input": given}]
        case _:
            return []


def _result(call: str, told: str, *, failed: bool) -> Entry:
    block: Entry = {"type": "tool_result", "tool_use_id": _call_id(call), "content": told}
    return {**block, "is_error": True} if failed else block


def _blocks(content: Any) -> list[Entry]:
    """Content as blocks that the model takes: texts and images; anything else as text. Thoughts of other models are
    left out: it takes none but those it signed.
    """
    if type(content) is not list:
        return [{"type": "text", "text": text}] if (text := said_in(content)) else []
    said = [block for block in content if type(block) is not dict or block.get("type") not in _THOUGHTS]
    known = [
        block
        for block in said
        if type(block) is dict and (block.get("type") == "image" or (block.get("type") == "text" and block.get("text")))
    ]
    return known or ([{"type": "text", "text": text}] if (text := said_in(said)) else [])


def _call_id(call: str) -> str:
    """The id of a call in letters that the model's interface takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call)
