"""What rules would do with the memories of a space: those whose words say for certain, or nearly so, that a later one
gives another value or denies what was said, or that two say the same.

Rules read word by word, and are mistaken where a sentence only looks like another: what weighs pairs may say so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from itertools import combinations
from typing import Final

from perdure.core.memory.comparing import (
    HALF,
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
    turned,
    worth,
)
from perdure.core.memory.lexicon import EXCLUSIVE
from perdure.core.memory.parts import Memory, Status
from perdure.core.memory.statements import Reading, Statement, read
from perdure.core.memory.steps import Doubt, Planned, Step

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
RULES: Final = (
    "a later statement gives another value",
    "a later statement denies it",
    "a later statement says how it is now",
    "another one says the same",
    "another one says nearly the same",
    "another one says it more fully",
)
"""The reasons that rules give."""


def ruled(memories: Iterable[Memory], reading: Reading = read) -> dict[tuple[str, str], int]:
    """What rules would do, by the ids of the older and the newer of two memories: a number for each kind of reason."""
    live = [memory for memory in memories if memory.status is Status.LIVE]
    at = {memory.id: later(memory) for memory in live}
    steps = (*newer(live, reading), *same(live, reading).steps)
    found: dict[tuple[str, str], int] = {}
    for step in steps:
        first, second = sorted((step.id, step.by), key=lambda id: at[id])
        found.setdefault((first, second), RULES.index(step.reason) + 1)
    return found


def newer(live: Sequence[Memory], reading: Reading) -> list[Step]:
    """What a later statement makes untrue, oldest first."""
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
        if told.marks.mood != statement.marks.mood:
            continue  # what will be, was, or is only at times makes nothing untrue that simply is so
        if outdone(statement, told):
            reason = RULES[0]
        elif opposed(statement, told) or ended(statement, told):
            reason = RULES[1]
        elif turned(statement, told):
            reason = RULES[2]
        else:
            continue
        if may_replace(other, memory) and may_meet(memory, other) and _one_voice(memory, statement, other):
            return Step(phase="newer", id=memory.id, by=other.id, reason=reason)
    return None


def same(live: Sequence[Memory], reading: Reading) -> Planned:
    """What others say too, and what is doubtful."""
    fit = [(memory, reading(memory.content)) for memory in live if not memory.flags]
    steps: list[Step] = []
    gone: set[str] = set()
    groups: dict[object, list[tuple[Memory, Statement]]] = defaultdict(list)
    for memory, statement in fit:
        groups[(statement.bag, statement.denied) if len(statement.bag) > 1 else _bare(memory.content)].append(
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
    group.sort(key=lambda pair: worth(pair[0]), reverse=True)
    staying: list[tuple[Memory, Statement]] = []
    for memory, statement in group:
        for other, told in staying[:CROWD]:
            alike = _bare(memory.content) == _bare(other.content) or (
                likeness(statement, told) == "same" and statement.marks.mood == told.marks.mood
            )
            if alike and may_repeat(memory, other) and _one_voice(memory, statement, other):
                steps.append(Step(phase="same", id=memory.id, by=other.id, reason=RULES[3]))
                gone.add(memory.id)
                break
        else:
            staying.append((memory, statement))


def _bare(content: str) -> str:
    """A content without what ends a sentence."""
    return content.strip().rstrip(".。")


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
            if found == "apart" or not statement.marks.fit(told.marks) or statement.marks.mood != told.marks.mood:
                continue
            if not may_recur(memory, other) or not _one_voice(memory, statement, other):
                continue
            if found == "same":
                goes, stays = sorted((memory, other), key=worth)
                steps.append(Step(phase="same", id=goes.id, by=stays.id, reason=RULES[4]))
                gone.add(goes.id)
            elif found == "fuller" and may_replace(other, memory):
                steps.append(Step(phase="same", id=memory.id, by=id, reason=RULES[5]))
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
