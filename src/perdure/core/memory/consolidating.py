"""What a consolidation does to a space, planned from its shelf: in phases, each a list of steps.

`newer`: what a later statement makes untrue is superseded by that. `same`: of those that say the same one stays, and
the others are superseded by it. `rank`: importance follows use. `prune`: what is over, or old and of no use, is
archived. Nothing is lost by any step: content stays as it was, and every step can be undone.

Never superseded by what is trusted less; never merged, nor an update: what is flagged or not live; never archived:
constraints, and what is trusted most. Steps that are done are not planned again, so a run that stopped goes on by
planning anew.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from itertools import combinations
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.memory.comparing import (
    HALF,
    LEVELS,
    MORE,
    ended,
    later,
    likeness,
    may_change,
    may_meet,
    may_recur,
    may_repeat,
    may_replace,
    opposed,
    outdone,
    since,
    turned,
)
from perdure.core.memory.importance import DAY, OFTEN, composite
from perdure.core.memory.lexicon import EXCLUSIVE
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.settling import Settled
from perdure.core.memory.statements import Reading, Statement, read

Phase: TypeAlias = Literal["newer", "same", "rank", "prune"]
PHASES: Final[tuple[Phase, ...]] = ("newer", "same", "rank", "prune")
RARE: Final = 64
"""Two terms that more memories have than this do not bring any of them together."""
TELLING: Final = 4
"""Terms of a memory, its rarest, of which two bring it together with others."""
CROWD: Final = 256
"""As many of one group are compared with each other."""
BEGUN: Final = 2
"""Terms that two must begin with for the later one to say that it is another way now."""
DOUBTS: Final = 500
"""As many doubtful pairs are told, those that are most alike."""
LEAST: Final = 0.1
"""The composite below which what is old and was never of use is archived."""
OLD: Final = 30 * DAY
FAR: Final = 0.2
"""As far as one run moves an importance."""
CITED: Final = 3
SHOWN: Final = 5
_HAIR: Final = 0.005


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do: `id` gives way to `by`, or gets another importance, or is archived; and why."""

    phase: Phase
    id: str
    by: str = ""
    importance: float | None = None
    reason: str = ""


class Doubt(msgspec.Struct, frozen=True):
    """Two memories that may say the same, or one what is no longer true; neither rules nor weights can tell."""

    older: str
    newer: str


class Planned(msgspec.Struct, frozen=True):
    """The steps of a phase in their order, and what is doubtful."""

    steps: tuple[Step, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def planned(
    phase: Phase,
    memories: Iterable[Memory],
    now: int,
    *,
    settled: Sequence[Settled] = (),
    apart: frozenset[tuple[str, str]] = frozenset(),
    reading: Reading = read,
) -> Planned:
    """What is to be done in a phase. Rules come first, then what is `settled` about pairs. `apart` are steps (id, and
    by whom or which phase) that somebody took back. `reading` may remember what was read for another phase.
    """
    live = [memory for memory in memories if memory.status is Status.LIVE]
    if phase == "newer":
        steps = _newer(live, reading)
        found = Planned((*steps, *_outdated(live, settled, steps)))
    elif phase == "same":
        found = _same(live, reading)
        found = Planned((*found.steps, *_repeated(live, settled, found.steps)), _doubts(live, settled, found))
    elif phase == "rank":
        found = Planned(tuple(_ranked(live)))
    else:
        found = Planned(tuple(_pruned(live, now)))
    if not apart:
        return found
    doubts = (d for d in found.doubts if (d.older, d.newer) not in apart and (d.newer, d.older) not in apart)
    return Planned(tuple(step for step in found.steps if mark(step) not in apart), tuple(doubts))


def mark(step: Step) -> tuple[str, str]:
    """What tells a step from others of the same memory."""
    return step.id, step.by or step.phase


def judged(doubt: Doubt, verdict: str, memories: dict[str, Memory]) -> Step | None:
    """What somebody's judgement of two memories comes to, within the same rules as any step."""
    older, newer = memories.get(doubt.older), memories.get(doubt.newer)
    if older is None or newer is None:
        return None
    if verdict == "newer" and may_replace(newer, older) and may_change(older) and may_meet(older, newer):
        return Step(phase="newer", id=older.id, by=newer.id, reason="a model found it to be out of date")
    if verdict == "same" and may_repeat(older, newer):
        best, other = sorted((older, newer), key=_worth, reverse=True)
        return Step(phase="same", id=other.id, by=best.id, reason="a model found both to say the same")
    return None


# ── newer ──


def _newer(live: Sequence[Memory], reading: Reading) -> list[Step]:
    groups: dict[object, list[tuple[Memory, Statement]]] = defaultdict(list)
    for memory in live:
        if memory.flags or not may_change(memory):
            continue
        statement = reading(memory.content)
        groups[statement.bag].append((memory, statement))
        if statement.frame is not None:
            groups[statement.frame.key, "="].append((memory, statement))
    _gathered(groups)
    found: dict[str, tuple[tuple[int, int], Step]] = {}
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda pair: later(pair[0]))
            for index, (memory, statement) in enumerate(group):
                step = _outdone_by(memory, statement, group[index + 1 : index + CROWD])
                if step is not None:
                    found.setdefault(memory.id, (later(memory), step))
    return [step for _, step in sorted(found.values(), key=lambda pair: pair[0])]


def _gathered(groups: dict[object, list[tuple[Memory, Statement]]]) -> None:
    """Put those that say that something is over, or another way now, together with those that may have said it."""
    known = [pair for key, group in groups.items() if isinstance(key, frozenset) for pair in group]
    ending = [pair for pair in known if pair[1].over]
    changed = [pair for pair in known if pair[1].changed]
    turning = [pair for pair in changed if not EXCLUSIVE.keys().isdisjoint(pair[1].bag)]
    starts = {statement.terms[:BEGUN] for _, statement in changed}
    for pair in known if starts else ():
        if (start := pair[1].terms[:BEGUN]) in starts:
            groups[start].append(pair)
    if ending:
        by_term: dict[str, list[tuple[Memory, Statement]]] = defaultdict(list)
        for pair in known:
            for term in pair[1].bag:
                by_term[term].append(pair)
        for memory, statement in ending:
            rarest = min((by_term[term] for term in statement.over), key=len)
            some = [pair for pair in rarest if statement.over <= pair[1].bag and pair[0] is not memory]
            groups[memory.id] = [*some, (memory, statement)]
    if turning:
        by_rest: dict[object, list[tuple[Memory, Statement]]] = defaultdict(list)
        for pair in known:
            for state in EXCLUSIVE.keys() & pair[1].bag:
                by_rest[pair[1].bag - {state}].append(pair)
        for memory, statement in turning:
            for state in EXCLUSIVE.keys() & statement.bag:
                groups[memory.id, state] = by_rest[statement.bag - {state}]


def _outdone_by(memory: Memory, statement: Statement, rest: Sequence[tuple[Memory, Statement]]) -> Step | None:
    for other, told in rest:
        if outdone(statement, told):
            reason = "a later statement gives another value"
        elif opposed(statement, told) or ended(statement, told):
            reason = "a later statement denies it"
        elif turned(statement, told):
            reason = "a later statement says how it is now"
        else:
            continue
        if may_replace(other, memory) and may_meet(memory, other) and _one_voice(memory, statement, other):
            return Step(phase="newer", id=memory.id, by=other.id, reason=reason)
    return None


def _outdated(live: Sequence[Memory], settled: Sequence[Settled], taken: Sequence[Step]) -> list[Step]:
    """What the later one of a settled pair makes untrue."""
    known, gone = {memory.id: memory for memory in live}, {id for step in taken for id in (step.id, step.by)}
    found = []
    for pair in settled:
        older, newer = known.get(pair.older), known.get(pair.newer)
        if pair.verdict != "newer" or older is None or newer is None or not gone.isdisjoint((older.id, newer.id)):
            continue
        if may_replace(newer, older):
            reason = f"a later statement tells how it is now ({_sureness(pair)})"
            found.append(Step(phase="newer", id=older.id, by=newer.id, reason=reason))
    return found


def _sureness(pair: Settled) -> str:
    return f"{pair.sure:.0%} sure{', by words alone: the embedder failed' if pair.lacking else ''}"


# ── same ──


def _repeated(live: Sequence[Memory], settled: Sequence[Settled], taken: Sequence[Step]) -> list[Step]:
    """Of a settled pair that says the same the better one stays."""
    known, gone = {memory.id: memory for memory in live}, {step.id for step in taken}
    found = []
    for pair in settled:
        one, other = known.get(pair.older), known.get(pair.newer)
        if pair.verdict != "same" or one is None or other is None or not gone.isdisjoint((one.id, other.id)):
            continue
        if may_repeat(one, other):
            goes, stays = sorted((one, other), key=_worth)
            reason = f"another one says the same in other words ({_sureness(pair)})"
            found.append(Step(phase="same", id=goes.id, by=stays.id, reason=reason))
    return found


def _doubts(live: Sequence[Memory], settled: Sequence[Settled], found: Planned) -> tuple[Doubt, ...]:
    """What neither rules nor signs could settle, the most likely first."""
    there = {memory.id for memory in live} - {step.id for step in found.steps}
    doubtful = (
        Doubt(pair.older, pair.newer)
        for pair in settled
        if pair.verdict == "doubtful" and {pair.older, pair.newer} <= there
    )
    return tuple(dict.fromkeys((*doubtful, *found.doubts)))[:DOUBTS]


def _same(live: Sequence[Memory], reading: Reading) -> Planned:
    fit = [(memory, reading(memory.content)) for memory in live if not memory.flags]
    steps: list[Step] = []
    gone: set[str] = set()
    groups: dict[object, list[tuple[Memory, Statement]]] = defaultdict(list)
    for memory, statement in fit:
        groups[(statement.bag, statement.denied) if len(statement.bag) > 1 else memory.content].append(
            (memory, statement)
        )
    for group in groups.values():
        if len(group) > 1:
            _merged(group, steps, gone)
    rest = [(memory, statement) for memory, statement in fit if memory.id not in gone]
    more, doubts = _fuller(rest, gone)
    return Planned((*steps, *more), doubts)


def _merged(group: list[tuple[Memory, Statement]], steps: list[Step], gone: set[str]) -> None:
    """The best of those that say the same stays."""
    group.sort(key=lambda pair: _worth(pair[0]), reverse=True)
    staying: list[tuple[Memory, Statement]] = []
    for memory, statement in group:
        for other, told in staying[:CROWD]:
            alike = memory.content == other.content or likeness(statement, told) == "same"
            if alike and may_repeat(memory, other) and _one_voice(memory, statement, other):
                steps.append(Step(phase="same", id=memory.id, by=other.id, reason="another one says the same"))
                gone.add(memory.id)
                break
        else:
            staying.append((memory, statement))


def _worth(memory: Memory) -> tuple[int, float, int, tuple[int, int]]:
    return LEVELS[memory.trust], memory.importance, memory.accesses, later(memory)


def _fuller(rest: list[tuple[Memory, Statement]], gone: set[str]) -> tuple[list[Step], tuple[Doubt, ...]]:
    """What a fuller statement says too, and what is doubtful."""
    known = {memory.id: (memory, statement) for memory, statement in rest}
    candidates = _candidates(rest)
    steps: list[Step] = []
    doubts: dict[Doubt, float] = {}
    for memory, statement in rest:
        for id in dict.fromkeys(candidates(statement)):
            if id == memory.id or id in gone or id not in known or memory.id in gone:
                continue
            other, told = known[id]
            shared = len(statement.bag & told.bag)
            share = shared / (len(statement.bag) + len(told.bag) - shared or 1)
            if share < HALF and shared < len(statement.bag):
                continue
            found = likeness(told, statement)
            if found == "apart" or not statement.marks.fit(told.marks):
                continue
            if not may_recur(memory, other) or not _one_voice(memory, statement, other):
                continue
            if found == "same":
                goes, stays = sorted((memory, other), key=_worth)
                steps.append(Step(phase="same", id=goes.id, by=stays.id, reason="another one says nearly the same"))
                gone.add(goes.id)
            elif found == "fuller" and may_replace(other, memory):
                steps.append(Step(phase="same", id=memory.id, by=id, reason="another one says it more fully"))
                gone.add(memory.id)
            elif found == "doubtful":
                older, newer = sorted((memory, other), key=later)
                doubts[Doubt(older.id, newer.id)] = share
    left = (doubt for doubt in doubts if doubt.older not in gone and doubt.newer not in gone)
    return steps, tuple(nlargest(DOUBTS, left, key=lambda doubt: doubts[doubt]))


def _candidates(rest: list[tuple[Memory, Statement]]) -> Callable[[Statement], Iterable[str]]:
    """Who shares two of a statement's rarest terms, as two of its own rarest, of which it may have a few more."""
    counts: dict[str, int] = defaultdict(int)
    for _, statement in rest:
        for term in statement.bag:
            counts[term] += 1

    def pairs(statement: Statement, most: int) -> Iterable[tuple[str, str]]:
        return combinations(sorted(statement.bag, key=lambda term: (counts[term], term))[:most], 2)

    postings: dict[tuple[str, str], list[str]] = defaultdict(list)
    for memory, statement in rest:
        for pair in pairs(statement, TELLING + MORE):
            postings[pair].append(memory.id)
    return lambda statement: [
        id for pair in pairs(statement, TELLING) if len(postings[pair]) <= RARE for id in postings[pair]
    ]


def _one_voice(memory: Memory, statement: Statement, other: Memory) -> bool:
    """Who speaks of oneself speaks of another than another agent does."""
    return not statement.personal or (memory.agent, memory.writer) == (other.agent, other.writer)


# ── rank ──


def _ranked(live: Sequence[Memory]) -> list[Step]:
    found = []
    for memory in live:
        importance = fitting(memory)
        if abs(importance - memory.importance) > _HAIR:
            reason = f"found {memory.accesses}, cited {memory.cited}, unused {memory.unused} times"
            found.append(Step(phase="rank", id=memory.id, importance=importance, reason=reason))
    return found


def fitting(memory: Memory) -> float:
    """The importance that its use speaks for: what was cited often counts at least so much, what was shown in vain at
    most so much. The same use speaks for the same importance, however often it is asked; one run moves it a little.
    """
    least, most = 0.0, 1.0
    if memory.cited >= CITED and memory.cited >= 2 * memory.unused:
        least = min(0.9, 0.5 + 0.05 * memory.cited)
    elif memory.accesses >= OFTEN and not memory.unused:
        least = 0.6
    careful = memory.type is MemoryType.CONSTRAINT or memory.trust == "high"
    if memory.unused >= SHOWN and not memory.cited and not careful:
        most = max(0.1, 0.5 - 0.03 * memory.unused)
    wanted = min(max(memory.importance, least), most)
    return round(min(max(wanted, memory.importance - FAR), memory.importance + FAR), 4)


# ── prune ──


def _pruned(live: Sequence[Memory], now: int) -> list[Step]:
    found = []
    for memory in live:
        if memory.type is MemoryType.CONSTRAINT or memory.trust == "high":
            continue
        if memory.valid_to is not None and memory.valid_to <= now:
            found.append(Step(phase="prune", id=memory.id, reason="it is over"))
        elif _useless(memory, now):
            found.append(Step(phase="prune", id=memory.id, reason="it is old, counts little and was never of use"))
    return found


def _useless(memory: Memory, now: int) -> bool:
    if memory.accesses or memory.cited or now - max(memory.recorded_at, since(memory)) < OLD:
        return False
    return composite(memory, now) < LEAST
