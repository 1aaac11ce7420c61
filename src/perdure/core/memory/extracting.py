"""What a session teaches, found by rules: facts, preferences, constraints, episodes and outcomes that people state.

People's words come first and are taken as they were said, sentence by sentence; of what a model says only its own
lessons count, and of what tools say nothing. A steer is a correction, and how it turned out is an outcome. What was
recalled from memory, what is junk, and what only makes sense where it was said is refused, with the reason.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from perdure.core.memory import gates
from perdure.core.memory.parts import MemoryType, Source, SourceKind
from perdure.core.memory.promoting import SESSIONS, specific
from perdure.core.memory.requests import Keeping
from perdure.core.memory.stating import DEICTIC, LESSON, REMEMBER, VAGUE, sentences_of, type_of
from perdure.core.session.event import Event
from perdure.core.session.memories import MemoriesRecalled
from perdure.core.session.steering import Feedback, FollowedUp, OutcomeKnown, Steered
from perdure.core.session.transcript import standing
from perdure.core.session.turns import TurnRolledBack, said

MOST: Final = 200
"""Memories that one session makes at once; the rest are refused."""
LOOKED_AT: Final = 20_000
"""Characters of one message that are looked at."""
STEER: Final = "steer"
"""In the metadata of what was learnt from a steer."""
LOCAL: Final = "only_here"
UNCLEAR: Final = "unclear"
MANY: Final = "too_many"
UNSAID: Final = "not_said"
QUARANTINED: Final = "quarantined"
REASONS: Final = (*gates.REASONS, LOCAL, UNCLEAR, MANY, UNSAID, QUARANTINED)

IMPORTANCE: Final = {
    MemoryType.CONSTRAINT: 0.8,
    MemoryType.STRATEGY_OUTCOME: 0.7,
    MemoryType.PREFERENCE: 0.6,
    MemoryType.FACT: 0.5,
    MemoryType.EPISODE: 0.4,
}
STEERED: Final = 0.75
ASKED_FOR: Final = 0.2
"""What it adds that somebody asked to remember it."""

_FIRST: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|myself)\b", re.IGNORECASE)
_LEAD: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_STOPS: Final = re.compile(r"^(?:(?:no|stop|wait|hold on|hey|actually|please|sorry)\b[,.!:;\s—-]*)+", re.IGNORECASE)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be kept. `version` is that of the newest event that it goes by."""

    keeping: Keeping
    version: int
    steer: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said and is not kept, and why."""

    content: str
    reason: str
    version: int


class Lessons(msgspec.Struct, frozen=True, kw_only=True):
    """What a session teaches up to a version, in the order in which it was said."""

    candidates: tuple[Candidate, ...] = ()
    refused: tuple[Refused, ...] = ()
    upto: int = 0


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """Words of somebody's. `by` is a person, the model, or who steers."""

    version: int
    at: int
    by: str
    text: str
    name: str = ""


def spoken(events: Iterable[Event], after: int = 0) -> list[Spoken]:
    """What was said after a version, without what was retracted, rolled back or redacted and what it "
    "quotes of memory."""
    known = list(events)
    undone = {event.turn for event in known if event.kind == TurnRolledBack.kind}
    found = []
    for event in standing(known):
        if event.version <= after or event.redacted or (event.turn is not None and event.turn in undone):
            continue
        by, text, name = _words(event)
        text = gates.without_recalled(text[:LOOKED_AT]).strip()
        if text:
            found.append(Spoken(version=event.version, at=event.at, by=by, text=text, name=name))
    return found


def _words(event: Event) -> tuple[str, str, str]:
    match event.data:
        case Steered(text=text):
            return "steer", text, ""
        case FollowedUp(text=text):
            return "user", text, ""
        case Feedback(comment=comment):
            return "user", comment, ""
        case data:
            message = said(data)
            if message is None or message.role not in ("user", "assistant"):
                return "", "", ""
            return message.role, _text(message.content), message.name or ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list | tuple) else ()
    texts = [block["text"] for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def lessons(
    session: str, events: Iterable[Event], *, author: str = "", after: int = 0, shown: Iterable[str] = ()
) -> Lessons:
    """What the rules find in what was said after a version. `shown` are memories that were recalled there."""
    known = list(events)
    made = _Making(session, author, [*shown])
    for one in spoken(known, after):
        if one.by == "steer":
            made.steered(one)
        else:
            made.heard(one)
    for event, steer in outcomes(known, after):
        made.turned_out(event, steer)
    return made.lessons(known[-1].version if known else after)


def outcomes(events: Iterable[Event], after: int = 0) -> Iterator[tuple[Event, str]]:
    """What became of steers and follow-ups, with what they said."""
    said_then: dict[int, str] = {}
    for event in events:
        match event.data:
            case Steered(text=text) | FollowedUp(text=text):
                said_then[event.version] = text
            case OutcomeKnown(of=of) if event.version > after and said_then.get(of):
                yield event, said_then[of]
            case _:
                pass


def recalled_in(events: Iterable[Event]) -> dict[str, set[str]]:
    """The memories that a session was shown: their ids by space."""
    found: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event.data, MemoriesRecalled):
            for shown in (*event.data.standing, *event.data.found):
                found.setdefault(shown.space, set()).add(shown.id)
    return found


class _Making:
    """Lessons being made."""

    def __init__(self, session: str, author: str, shown: list[str]) -> None:
        self._session = session
        self._author = author
        self._shown = shown
        self._found: list[Candidate] = []
        self._refused: list[Refused] = []

    def lessons(self, upto: int) -> Lessons:
        ordered = sorted(self._found, key=lambda one: -one.keeping.importance)
        kept = {id(one) for one in ordered[:MOST]}
        late = [_refused(one, MANY) for one in self._found if id(one) not in kept]
        found = tuple(one for one in self._found if id(one) in kept)
        return Lessons(candidates=found, refused=(*self._refused, *late), upto=upto)

    def heard(self, one: Spoken) -> None:
        """Statements, sentence by sentence. Of a model, only what it calls a lesson."""
        if gates.is_code(one.text):
            return
        for sentence in sentences_of(one.text):
            text = _LEAD.sub("", sentence).strip()
            asked_for = REMEMBER.match(text)
            if one.by == "assistant" and LESSON.match(text) is None:
                continue
            bare = text if asked_for is None else text[asked_for.end() :].strip()
            kind = type_of(bare)
            if asked_for is not None and kind is None:
                kind = MemoryType.FACT
            if kind is not None:
                more = ASKED_FOR if asked_for is not None and one.by == "user" else 0.0
                self._take(one, bare, kind, min(1.0, IMPORTANCE[kind] + more))

    def steered(self, one: Spoken) -> None:
        """A correction, as a whole."""
        text = _STOPS.sub("", one.text).strip()
        kind = MemoryType.CONSTRAINT if type_of(text) is MemoryType.CONSTRAINT else MemoryType.PREFERENCE
        self._take(one, text, kind, STEERED, steer=True)

    def turned_out(self, event: Event, steer: str) -> None:
        """How a steer turned out."""
        data = event.data
        if not isinstance(data, OutcomeKnown) or (data.good is None and not data.note):
            return
        told = {True: "it worked", False: "it did not work", None: "the outcome was"}[data.good]
        note = gates.without_recalled(data.note).strip()
        text = (
            f"After “{_STOPS.sub('', steer).strip() or steer}”, {told}{': ' if note else ''}{note}".rstrip(". ") + "."
        )
        one = Spoken(version=event.version, at=event.at, by="user", text=text)
        self._take(one, text, MemoryType.STRATEGY_OUTCOME, IMPORTANCE[MemoryType.STRATEGY_OUTCOME])

    def _take(self, one: Spoken, text: str, kind: MemoryType, importance: float, *, steer: bool = False) -> None:
        reason = gates.junk(text) or _unclear(text, kind, steer)
        if not reason and gates.is_recalled(text, self._shown):
            reason = gates.RECALLED
        said = (other.keeping.content for other in self._found if comparable(other.keeping.memory_type, kind))
        if not reason and gates.is_recalled(text, said):
            reason = gates.KNOWN
        made = made_of(one, text, kind, importance, session=self._session, author=self._author, steer=steer)
        if reason:
            self._refused.append(_refused(made, reason))
        else:
            self._found.append(made)


def made_of(
    one: Spoken,
    text: str,
    kind: MemoryType,
    importance: float,
    *,
    session: str,
    author: str = "",
    steer: bool = False,
    told: bool = False,
) -> Candidate:
    """A candidate for what somebody said; `told` in other words than theirs."""
    source: SourceKind = "agent" if one.by == "assistant" else "user"
    who = "" if source == "agent" else one.name or author
    return Candidate(
        keeping=Keeping(
            content=text,
            memory_type=kind,
            importance=round(importance, 2),
            metadata={STEER: True, SESSIONS: [session]} if steer else {},
            author=who,
            source=Source(kind=source, session=session, version=one.version),
            trust="medium" if told else None,
            subjects=(who,) if who and _FIRST.search(text) else (),
            thread=session,
            valid_from=one.at,
        ),
        version=one.version,
        steer=steer,
    )


def comparable(one: MemoryType, other: MemoryType) -> bool:
    """Whether two kinds of things can say the same: how something turned out is not that it should be done."""
    return (one is MemoryType.STRATEGY_OUTCOME) == (other is MemoryType.STRATEGY_OUTCOME)


def _unclear(text: str, kind: MemoryType, steer: bool) -> str:
    """Whether it makes sense only where it was said."""
    if steer and VAGUE.match(text) is not None:
        return UNCLEAR
    orders = kind in (MemoryType.CONSTRAINT, MemoryType.PREFERENCE)
    if orders and (DEICTIC.search(text) is not None or specific(text) == "a place in one conversation"):
        return LOCAL
    return ""


def _refused(candidate: Candidate, reason: str) -> Refused:
    content = "" if reason == gates.SECRET else candidate.keeping.content
    return Refused(content=content, reason=reason, version=candidate.version)
