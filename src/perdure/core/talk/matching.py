"""Where a client stands that sends its whole history each time: what of it the log has, and what is new.

Both sides are read as steps: the words of one message of the user's, all that the assistant says until somebody else
does, and the results of tools beside each other. A step is known by the hash of what it means. These say nothing:

- how messages are divided: an answer as one message or as several, a text as one block or as several of one message;
- ids of calls, as long as results name the calls they belong to; names of speakers; marks for caches;
- whitespace at the ends of a text, empty texts; the order of keys, the spaces and the spelling of numbers (1.0 for 1)
  in arguments, and in results that are JSON;
- the order of results beside each other, and whether one is marked as failed, which not every client can say;
- of the assistant: thoughts, foreign blocks, and words between calls rather than before them. The log has them;
- the rests of blocks and messages, whoever's they are.

What a turn had streamed when it was interrupted, a client may have or not; so with a steer, which others say to the
session: an answer that one broke into is the same without it. What was redacted matches whatever the
client still has in its place, so that it does not come back. Everything else that differs is a divergence.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.steering import Steered
from perdure.core.session.turns import (
    Message,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnStarted,
    said,
)
from perdure.core.talk.content import blocks_of, call_of
from perdure.core.talk.history import outcome_of, steer, takes_back, told
from perdure.core.talk.meaning import essences, hashed, spoken
from perdure.core.talk.parts import Block, Call, Media, Result, Said, Text, Thought
from perdure.core.talk.wire import rest_in

Heard: TypeAlias = Block | Said | None
"""What is heard while the assistant speaks: a block of its own, what somebody else says, or what was redacted."""
Side: TypeAlias = Literal["user", "system", "assistant", "results", "unknown"]
Place: TypeAlias = tuple[int, int]
"""Of a step in the log: its version, and 0. Of a client's: the number of the message, and of the block in it."""
_ANY: Final = b""
_UNSAID: Final = -1
_SPOKEN: Final = frozenset(
    kind.kind for kind in (Message, ToolAsked, ToolFinished, TurnStarted, TurnFinished, TurnInterrupted, Steered)
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a conversation. An empty digest matches anything on its side; a `loose` one may be missing. `joined`
    is the digest of this and the steps behind it, `span` in all, for a client that has them as one.
    """

    side: Side
    digest: bytes = _ANY
    places: tuple[Place, ...] = ()
    results: dict[int, tuple[bytes, Place]] = {}
    loose: bool = False
    joined: bytes = _ANY
    span: int = 1


class Trail(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a log up to a version. `ids` are those of its calls, in their order; `calls` says which call an id
    last meant; `open` is what the assistant said last, as long as that may go on, with steers in between.
    """

    version: int = 0
    steps: tuple[Step, ...] = ()
    calls: dict[str, int] = {}
    ids: tuple[str, ...] = ()
    open: tuple[tuple[Heard, Place], ...] = ()


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client stands. The first `known` of its messages are in the log, `suffix` is what it has beyond; results
    in it name the calls by the ids that the log knows them by.

    `at` is the last version that both agree on. When `diverged`, the log goes on otherwise, or goes on where the client
    ends: a branch at `at` takes the suffix; 0 means that not even the beginning is the same. Otherwise `at` is the
    trail's version and the suffix, if any, is appended there.
    """

    known: int
    suffix: tuple[Said, ...]
    at: int
    diverged: bool


def trail_of(events: Iterable[Event]) -> Trail:
    """The steps of these events, which begin with the log's first. Compactions change nothing: the log keeps all."""
    found = list(events)
    trail = _followed(Trail(), told(found))
    return msgspec.structs.replace(trail, version=max((event.version for event in found), default=0))


def grown(trail: Trail, events: Sequence[Event]) -> Trail | None:
    """The trail with those of the events that it does not have yet; None when they take something back."""
    fresh = [event for event in events if event.version > trail.version]
    return None if takes_back(fresh) else _followed(trail, fresh)


def matched(trail: Trail, messages: Sequence[Said]) -> Match:
    """Where a client stands that sends these messages."""
    reading = _Reading(Trail())
    for number, message in enumerate(messages):
        for place, block in enumerate(message.blocks):
            reading.block(message.role, block, (number, place))
        reading.end_words()
    steps = reading.trail(0).steps
    ours, theirs, extra = _walked(trail.steps, steps)
    if ours == len(trail.steps):
        return _match(messages, (steps[:theirs], steps[theirs:]), extra, trail, at=trail.version, diverged=False)
    ours = _whole(trail.steps, ours)
    theirs = _walked(trail.steps[:ours], steps)[1]
    at = trail.steps[ours - 1].places[-1][0] if ours else 0
    return _match(messages, (steps[:theirs], steps[theirs:]), frozenset(), trail, at=at, diverged=True)


# ── side by side ──


def _walked(ours: Sequence[Step], theirs: Sequence[Step]) -> tuple[int, int, frozenset[Place]]:
    """How many steps of each side agree, and the results in the client's last one that the log lacks."""
    mine = yours = 0
    blind = False
    while mine < len(ours):
        step = ours[mine]
        other = theirs[yours] if yours < len(theirs) else None
        if step.side == "unknown":
            following = ours[mine + 1].side if mine + 1 < len(ours) else ""
            blind = other is not None and other.side == following == "assistant"
            yours += other is not None and not blind and other.side != "results"
        elif other is not None and step.side == "results" == other.side:
            missing = _missing(step, other)
            last = all(later.loose for later in ours[mine + 1 :]) if missing else False
            if missing is None or (missing and not last):
                return mine, yours, frozenset()
            yours += 1
            if missing:
                return len(ours), yours, missing
        elif other is not None and _agree(step, other, blind):
            yours, blind = yours + 1, False
        elif other is not None and step.span > 1 and (step.side, step.joined) == (other.side, other.digest):
            mine, yours = mine + step.span - 1, yours + 1
        elif not step.loose and (step.digest != _ANY or step.side == "results"):
            return mine, yours, frozenset()
        mine += 1
    return mine, yours, frozenset()


def _agree(ours: Step, theirs: Step, blind: bool) -> bool:
    return ours.side == theirs.side and (blind or ours.digest in (_ANY, theirs.digest))


def _missing(ours: Step, theirs: Step) -> frozenset[Place] | None:
    """The client's results that the log lacks; None when one that it has is not the client's."""
    for number, (digest, _) in ours.results.items():
        other = theirs.results.get(number)
        if other is None or digest not in (_ANY, other[0]):
            return None
    return frozenset(place for number, (_, place) in theirs.results.items() if number not in ours.results)


def _whole(steps: Sequence[Step], count: int) -> int:
    """So many of the first steps that no event is in them by half."""
    while count and steps[count].places[0][0] <= steps[count - 1].places[-1][0]:
        count -= 1
    return count


def _match(
    messages: Sequence[Said],
    steps: tuple[Sequence[Step], Sequence[Step]],
    extra: frozenset[Place],
    trail: Trail,
    *,
    at: int,
    diverged: bool,
) -> Match:
    """The answer: the steps before the split are known, but for the extra results, and those after it are new."""
    known = {place for step in steps[0] for place in step.places} - extra
    fresh = {place for step in steps[1] for place in step.places} | extra
    shared = sum(isinstance(messages[number].blocks[index], Call) for number, index in known)
    ids = {
        place: trail.ids[number]
        for step in (*steps[0][-1:], *steps[1])
        for number, (_, place) in step.results.items()
        if 0 <= number < min(shared, len(trail.ids))
    }
    suffix: list[Said] = []
    for number, message in enumerate(messages):
        places = [(number, index) for index in range(len(message.blocks))]
        if not suffix and not any(place in fresh for place in places):
            continue
        last = max((index for _, index in places if (number, index) in known), default=-1)
        left = [place for place in places if place in extra or place[1] > last]
        blocks = tuple(_renamed(message.blocks[place[1]], ids.get(place)) for place in left)
        suffix.append(msgspec.structs.replace(message, blocks=blocks))
    return Match(known=len(messages) - len(suffix), suffix=tuple(suffix), at=at, diverged=diverged)


def _renamed(block: Block, call: str | None) -> Block:
    return msgspec.structs.replace(block, call=call) if isinstance(block, Result) and call is not None else block


# ── reading steps ──


def _followed(trail: Trail, events: Iterable[Event]) -> Trail:
    reading, version = _Reading(trail), trail.version
    for event in events:
        version = event.version
        if event.kind in _SPOKEN:
            reading.event(event)
            reading.end_words()
    return reading.trail(version)


class _Reading:
    """Steps while they are read. Words of the user end with their message, the assistant's when somebody else speaks,
    results when anything else comes.
    """

    def __init__(self, trail: Trail) -> None:
        self.steps = list(trail.steps)
        self.calls = dict(trail.calls)
        self.ids = list(trail.ids)
        self.group = list(trail.open)
        if self.group:
            del self.steps[-len(_parted(self.group)) :]
        self.words: list[tuple[Block, Place]] = []
        self.side: Side = "user"

    def trail(self, version: int) -> Trail:
        """What was read."""
        open = tuple(self.group)
        self.end_group()
        return Trail(version=version, steps=tuple(self.steps), calls=self.calls, ids=tuple(self.ids), open=open)

    def event(self, event: Event) -> None:
        """One event of the log."""
        data, place = event.data, (event.version, 0)
        match data:
            case ToolAsked() if event.redacted:
                self._number(event.target or "")
                self.group.append((None, place))
            case ToolAsked(call=call):
                self.block("assistant", call_of(call, data.name, data.arguments), place)
            case ToolFinished() if event.redacted:
                self.result(event.target or "", _ANY, place)
            case ToolFinished(call=call):
                self.block("user", Result(call=call, content=outcome_of(data)[0]), place)
            case TurnInterrupted(text=text):
                self.end_group()
                if text.strip() and not event.redacted:
                    digest = spoken([Text(text=text)])
                    self.steps.append(Step(side="assistant", digest=digest, places=(place,), loose=True))
            case Steered(text=text):
                if text.strip() and not event.redacted:
                    self.steer(steer(text), place)
            case TurnFinished() if event.redacted:
                self.group.append((None, place))
            case _ if event.redacted:
                self.end_group()
                side: Side = "user" if isinstance(data, TurnStarted) else "unknown"
                self.steps.append(Step(side=side, places=(place,)))
            case _:
                message = said(data)
                for block in () if message is None else blocks_of(message.content):
                    self.block(message.role if message else "", block, place)

    def block(self, role: str, block: Block, place: Place) -> None:
        """One block that somebody says."""
        if isinstance(block, Result):
            self.result(block.call, hashed(essences(block.content)), place)
        elif isinstance(block, Call) or role == "assistant":
            if isinstance(block, Call):
                self._number(block.id)
            if isinstance(block, Call | Media) or (isinstance(block, Text) and block.text.strip()):
                self.end_words()
                self.group.append((block, place))
        elif _says_something(block):
            self.end_group()
            self.side = "system" if role in ("system", "developer") else "user"
            self.words.append((block, place))

    def result(self, call: str, digest: bytes, place: Place) -> None:
        """A result, with those it stands beside; a steer said meanwhile comes behind them."""
        self.end_words()
        self.end_group()
        steers: list[Step] = []
        while self.steps and self.steps[-1].loose and self.steps[-1].side == "user":
            steers.append(msgspec.structs.replace(self.steps.pop(), places=(place,)))
        number = self.calls.get(call, _UNSAID)
        last = self.steps.pop() if self.steps and self.steps[-1].side == "results" else None
        results = {**(last.results if last else {}), number: (digest, place)}
        places = (*(last.places if last else ()), place)
        self.steps += [Step(side="results", places=places, results=results), *reversed(steers)]

    def steer(self, words: Text, place: Place) -> None:
        """Somebody breaks in. The assistant may go on as if nobody had."""
        if self.group:
            self.group.append((Said(role="user", blocks=(words,)), place))
        else:
            self.steps.append(_steer(words, place))

    def end_words(self) -> None:
        """A message ends."""
        if self.words:
            digest = hashed(essences([block for block, _ in self.words]))
            self.steps.append(Step(side=self.side, digest=digest, places=tuple(place for _, place in self.words)))
            self.words = []

    def end_group(self) -> None:
        """Somebody else speaks than the assistant."""
        if self.group:
            self.steps += _parted(self.group)
            self.group = []

    def _number(self, call: str) -> None:
        self.calls[call] = len(self.ids)
        self.ids.append(call)


def _parted(group: Sequence[tuple[Heard, Place]]) -> list[Step]:
    """What the assistant said as a step; or as several, with the steers in between that broke into it."""
    own = [item for item in group if not isinstance(item[0], Said)]
    whole = _step(own)
    if len(own) == len(group) or whole.digest == _ANY:
        return [whole]
    found: list[Step] = []
    for steered, run in groupby(group, lambda item: isinstance(item[0], Said)):
        items = list(run)
        found += [_steer(heard.blocks[0], place) for heard, place in items if isinstance(heard, Said)]
        found += [] if steered else [_step(items)]
    span = max(index for index, step in enumerate(found, 1) if not step.loose)
    return [msgspec.structs.replace(found[0], joined=whole.digest, span=span), *found[1:]]


def _step(group: Sequence[tuple[Heard, Place]]) -> Step:
    blocks = [block for block, _ in group if block is not None and not isinstance(block, Said)]
    digest = spoken(blocks) if len(blocks) == len(group) else _ANY
    return Step(side="assistant", digest=digest, places=tuple(place for _, place in group))


def _steer(words: Block, place: Place) -> Step:
    return Step(side="user", digest=hashed(essences([words])), places=(place,), loose=True)


def _says_something(block: Block) -> bool:
    """Whether a user's block says anything."""
    if isinstance(block, Text):
        return bool(block.text.strip())
    return not isinstance(block, Thought) and rest_in(block) is None
