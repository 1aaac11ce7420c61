"""A session's conversation as messages for a model, and what a model or a client said as events for the log.

Invariants of the messages: the user's and the assistant's alternate and the user's come first; every call has exactly
one result, in the message right after it and before any words there; no two calls share an id. What was retracted,
rolled back or redacted is not in them, and what was compacted is there as its summary.

Messages grow at their end. What is new goes behind what is there, so that a provider's cache keeps its worth; only a
result finds its place beside its call, as long as that waits for it. A call that nobody will answer any more is closed
with a failed result, and a result that comes after that is told in words.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from perdure.core.session.children import ChildFinished
from perdure.core.session.conversation import Spoken
from perdure.core.session.event import Event, Payload
from perdure.core.session.origin import Created
from perdure.core.session.redaction import Redacted
from perdure.core.session.steering import Steered
from perdure.core.session.transcript import standing
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
    said,
)
from perdure.core.talk.content import arguments_of, blocks_of, call_of, json_text, result_blocks, stored, words_of
from perdure.core.talk.parts import NOTHING, Answer, Block, Call, Foreign, Media, Result, Said, Text, Thought, Usage
from perdure.core.talk.rests import Unit, rejoined, results_end, units_of

OPENING: Final = Text(text="(the conversation goes on)")
"""What the user is made to say where an assistant would speak first, which providers refuse."""
UNANSWERED: Final = Text(text="This tool was interrupted; whether it took effect is not known.")
WITHHELD: Final = Text(text="(redacted)")
ANSWER: Final = "answer"
"""Where a message's metadata says which answer of a model it is."""
_SPOKEN: Final = frozenset(
    kind.kind
    for kind in (
        *(Message, ToolAsked, ToolFinished, TurnStarted, TurnFinished, TurnInterrupted),
        *(Created, Steered, ChildFinished),
    )
)
_TAKES_BACK: Final = frozenset(kind.kind for kind in (Compacted, Retracted, TurnRolledBack, Redacted))
_SYSTEM: Final = frozenset({"system", "developer"})


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation up to a version. `since` is the version of the compaction that it begins with, 0 without one.

    `ends` has the last version of each message, `pending` the calls that wait for a result under the ids they have
    here, and the first `kept` messages are those of the history that this one was grown from.
    """

    version: int = 0
    since: int = 0
    summary: str = ""
    messages: tuple[Said, ...] = ()
    ends: tuple[int, ...] = ()
    pending: dict[str, str] = {}
    withheld: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    kept: int = 0


def history_of(events: Iterable[Event]) -> History:
    """The conversation in these events. They may begin behind what the latest compaction sums up."""
    known = list(events)
    left = told(known)
    sums = [(event.version, event.data) for event in left if event.kind == Compacted.kind and not event.redacted]
    found = [(version, data) for version, data in sums if isinstance(data, Compacted) and data.upto > 0]
    upto = max((data.upto for _, data in found), default=0)
    since, summary = (found[-1][0], _summed_up(found[-1][1])) if found else (0, "")
    start = History(since=since, summary=summary)
    grown = _woven(start, [event for event in left if event.version > upto])
    return msgspec.structs.replace(grown, version=max((event.version for event in known), default=0), kept=0)


def told(events: Sequence[Event]) -> list[Event]:
    """The events without what was retracted and without the turns that were rolled back."""
    undone = {event.turn for event in events if event.kind == TurnRolledBack.kind} - {None}
    return [event for event in standing(events) if event.turn not in undone]


def takes_back(events: Iterable[Event]) -> bool:
    """Whether any of these changes what earlier ones told."""
    return any(event.kind in _TAKES_BACK for event in events)


def grown(history: History, events: Sequence[Event]) -> History | None:
    """The history with those of the events that it does not have yet; what it holds is copied, not read again. None
    when they take something back or sum it up: then it must be made anew.
    """
    fresh = [event for event in events if event.version > history.version]
    return None if takes_back(fresh) else _woven(history, fresh)


def closed(history: History) -> History:
    """The history as a provider takes it: calls that still wait have a failed result. Only its end differs."""
    if not history.pending:
        return history
    weaving = _Weaving(history)
    weaving.close()
    return weaving.history(history.version)


def messages_of(history: History) -> tuple[Said, ...]:
    """All that a model is told of the conversation: the summary, if there is one, and the messages since."""
    messages = closed(history).messages
    return messages if not history.summary else with_summary(history.summary, messages)


def with_summary(summary: str, messages: tuple[Said, ...]) -> tuple[Said, ...]:
    """The messages, the first of which is the user's, with a summary before all of its words."""
    first = messages[0].blocks if messages else ()
    name = messages[0].name if messages else ""
    return (Said(role="user", blocks=(Text(text=summary), *first), name=name), *messages[1:])


def fenced(tag: str, text: str) -> str:
    """A text between tags; one that would close the tag itself cannot."""
    return f"<{tag}>\n{text.replace(f'</{tag}', f'<∕{tag}')}\n</{tag}>"


def steer(text: str) -> Text:
    """What somebody says to the running session, as the model reads it."""
    return Text(text=fenced("steer", text))


def returned(child: str, data: ChildFinished) -> Text:
    """What came of a child, as its parent's model reads it."""
    result = data.result if isinstance(data.result, str) else "" if data.result is None else json_text(data.result)
    trouble = f"It failed: {data.error}" if data.error else ""
    parts = [f"The session {child}, which was spawned for a task, has ended.", trouble, result]
    return Text(text=fenced("child_result", "\n".join(part for part in parts if part)))


def _summed_up(data: Compacted) -> str:
    """A compaction in words. What it preserves stands beside the summary, as exact data."""
    parts = [fenced("summary", data.summary)] if data.summary else []
    parts += [fenced("preserved", json_text(data.preserved))] if data.preserved is not None else []
    return "\n".join(parts)


# ── events to messages ──


def _woven(history: History, events: Iterable[Event]) -> History:
    weaving, version = _Weaving(history), history.version
    for event in events:
        version = event.version
        if event.kind in _SPOKEN:
            weaving.take(event)
    return weaving.history(version)


class _Weaving:
    """A history while it grows: whole messages, and the last one in the making."""

    def __init__(self, history: History) -> None:
        self.start = history
        self.whole = list(history.messages[:-1])
        self.ends = list(history.ends)
        last = history.messages[-1] if history.messages else None
        self.role: str = last.role if last else ""
        self.name = last.name if last else ""
        self.blocks: list[Block] = list(last.blocks) if last else []
        self.pending = dict(history.pending)
        self.withheld = set(history.withheld)
        self.fresh: set[str] = set()
        self.kept = len(history.messages)

    def history(self, version: int) -> History:
        """What has come of it."""
        messages = [*self.whole, self._last()] if self.role else self.whole
        return msgspec.structs.replace(
            self.start,
            version=version,
            messages=tuple(messages),
            ends=tuple(self.ends),
            pending=self.pending,
            withheld=frozenset(self.withheld),
            ids=self.start.ids | self.fresh if self.fresh else self.start.ids,
            kept=self.kept,
        )

    def _last(self) -> Said:
        return Said(role="user" if self.role == "user" else "assistant", blocks=tuple(self.blocks), name=self.name)

    def take(self, event: Event) -> None:
        """One more event."""
        data, target = event.data, event.target or ""
        match data:
            case ToolAsked() if event.redacted:
                self.withheld.add(target)
            case ToolFinished() if event.redacted:
                self.answer(target, (WITHHELD,), False, event.version)
            case ToolAsked(call=call):
                asked = call_of(call, data.name, data.arguments)
                self.say("assistant", rejoined([asked], data.metadata), event.version)
            case ToolFinished(call=call):
                self.answer(call, *outcome_of(data), event.version, data.metadata)
            case TurnInterrupted(text=text):
                self.say("assistant", [Text(text=text)] if text and not event.redacted else [], event.version)
                self.close()
            case Steered(text=text):
                self.say("user", [steer(text)] if text.strip() and not event.redacted else [], event.version)
            case ChildFinished():
                self.say("user", [] if event.redacted else [returned(target, data)], event.version)
            case _:
                if isinstance(data, TurnStarted | Created):
                    self.close()
                words = said(data)
                if words is not None and not event.redacted:
                    self.hear(words, event.version)

    def hear(self, message: Message, version: int) -> None:
        """A message: calls in it are the assistant's, results are the user's, whoever's message it is."""
        assistant = message.role == "assistant"
        for block in rejoined(blocks_of(message.content), message.metadata):
            if isinstance(block, Result):
                self.answer(block.call, block.content, block.failed, version)
            elif assistant or isinstance(block, Call):
                self.say("assistant", [block], version)
            elif not isinstance(block, Thought):
                wrap = message.role in _SYSTEM and isinstance(block, Text)
                shown = Text(text=fenced("system", words_of(block))) if wrap else block
                self.say("user", [shown], version, message.name or "")

    def say(self, role: str, blocks: list[Block], version: int, name: str = "") -> None:
        """Words or calls, behind what there is on this side."""
        if not blocks:
            return
        if role == "assistant" and self.role == "user":
            self.close()
        if role != self.role:
            self._begin(role, name)
        elif name and name != self.name and isinstance(blocks[0], Text):
            blocks = [Text(text=f"[{name}] {blocks[0].text}"), *blocks[1:]]
        self._touch(version)
        self.blocks += [self._named(block) if isinstance(block, Call) else block for block in blocks]

    def answer(
        self, call: str, content: tuple[Any, ...], failed: bool, version: int, metadata: dict[str, Any] | None = None
    ) -> None:
        """A result, beside its call if that waits for it."""
        if call in self.withheld:
            return
        known = self.pending.pop(call, None)
        if known is None:
            words = Text(text=f"The tool call {call} was answered late:")
            self.say("user", [words, *content], version)
            return
        if self.role != "user":
            self._begin("user", "")
        self._touch(version)
        at = results_end(self.blocks)
        self.blocks[at:at] = rejoined([Result(call=known, content=content, failed=failed)], metadata)

    def close(self) -> None:
        """Answer every call that still waits: nobody else will."""
        for call in list(self.pending):
            self.answer(call, (UNANSWERED,), True, self.ends[-1])

    def _begin(self, role: str, name: str) -> None:
        """A message of the other side begins."""
        if self.role:
            self.whole.append(self._last())
        elif role == "assistant":
            self.whole.append(Said(role="user", blocks=(OPENING,)))
            self.ends.append(self.start.since)
        self.role, self.name, self.blocks = role, name, []
        self.ends.append(0)

    def _touch(self, version: int) -> None:
        self.ends[-1] = version
        self.kept = min(self.kept, len(self.whole))

    def _named(self, call: Call) -> Call:
        """The call under an id that no other has here, waiting for its result."""
        id, number = call.id, 1
        while id in self.start.ids or id in self.fresh:
            number += 1
            id = f"{call.id}_{number}"
        self.fresh.add(id)
        self.withheld.discard(call.id)
        self.pending[id if call.id in self.pending else call.id] = id
        return call if id == call.id else msgspec.structs.replace(call, id=id)


def outcome_of(data: ToolFinished) -> tuple[tuple[Text | Media | Foreign, ...], bool]:
    """What came of a tool, and whether it failed."""
    content = result_blocks(data.result)
    if data.error is None:
        return content, False
    return content or result_blocks(data.error), True


# ── messages to events ──


def payloads_of(message: Said) -> list[Spoken]:
    """A message as payloads for the log, in its order: words, calls and results, and their rests in the metadata.
    `cached` marks are not kept.
    """
    return [_payload(message, unit) for unit in units_of(message.blocks)]


def _payload(message: Said, unit: Unit) -> Spoken:
    match unit.blocks[0]:
        case Call() as call:
            arguments = arguments_of(call)
            return ToolAsked(call=call.id, name=call.name, arguments=arguments, metadata=unit.metadata)
        case Result() as result:
            return _finished(result, unit.metadata)
        case _:
            content, name = stored(unit.blocks), message.name or None
            return Message(role=message.role, content=content, name=name, metadata=unit.metadata)


def _finished(result: Result, metadata: dict[str, Any]) -> ToolFinished:
    content = stored(result.content)
    if not result.failed:
        return ToolFinished(call=result.call, result=content, metadata=metadata)
    if content is None or type(content) is str:
        return ToolFinished(call=result.call, error=content or "", metadata=metadata)
    return ToolFinished(call=result.call, result=content, error=words_of(result) or "failed", metadata=metadata)


def answered(answer: Answer, before: Usage = NOTHING) -> list[Payload]:
    """An answer as payloads for the turn in flight. It ends the turn unless tools are awaited or the model only pauses;
    `before` is what the turn's earlier answers used.
    """
    spoken = payloads_of(Said(role="assistant", blocks=answer.blocks))
    if spoken:
        spoken[0] = msgspec.structs.replace(spoken[0], metadata={**spoken[0].metadata, ANSWER: _told(answer)})
    found: list[Payload] = list(spoken)
    if any(isinstance(block, Call) for block in answer.blocks) or answer.stop in ("tools", "paused"):
        return found
    used, was = answer.usage, before
    read = used.input + used.cache_read + used.cache_write + was.input + was.cache_read + was.cache_write
    return [*found, TurnFinished(stop_reason=answer.stop, tokens_in=read, tokens_out=used.output + was.output)]


def _told(answer: Answer) -> dict[str, Any]:
    """An answer without its blocks."""
    known: dict[str, Any] = {"id": answer.id, "model": answer.model, "stop": answer.stop}
    known |= {"sequence": answer.sequence} if answer.sequence else {}
    known |= {"extra": answer.extra} if answer.extra else {}
    return known | {"usage": {name: count for name, count in msgspec.structs.asdict(answer.usage).items() if count}}
