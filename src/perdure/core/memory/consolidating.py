"""What a consolidation does to a space, planned from its shelf: in phases, each a list of steps.

`newer`: what a later statement makes untrue is superseded by that. `same`: of those that say the same one stays, and
the others are superseded by it. `rank`: importance follows use. `prune`: what is over, or old and of no use, is
archived. Nothing is lost by any step: content stays as it was, and every step can be undone.

Never superseded by what is trusted less; never merged, nor an update: what is flagged or not live; never archived:
constraints, and what is trusted most. Steps that are done are not planned again, so a run that stopped goes on by
planning anew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from perdure.core.memory.comparing import (
    LEVELS,
    holds,
    is_fresh,
    later,
    may_change,
    may_meet,
    may_repeat,
    may_replace,
    tells_less,
)
from perdure.core.memory.comparing import since as begun
from perdure.core.memory.importance import DAY, OFTEN, composite
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.ruling import newer, same
from perdure.core.memory.settling import Settled
from perdure.core.memory.statements import Reading, read
from perdure.core.memory.steps import NOTHING, Apart, Doubt, Phase, Planned, Step

LEAST: Final = 0.1
"""The composite below which what is old and was never of use is archived."""
OLD: Final = 30 * DAY
FAR: Final = 0.2
"""As far as one run moves an importance."""
CITED: Final = 3
SHOWN: Final = 5
_HAIR: Final = 0.005


def planned(
    phase: Phase,
    memories: Iterable[Memory],
    now: int,
    *,
    settled: Sequence[Settled] = (),
    certain: float = 0.0,
    since: int = -1,
    apart: Apart = NOTHING,
    reading: Reading = read,
) -> Planned:
    """What is to be done in a phase. Rules come first, then what is `settled` about pairs; of two memories at least one
    came after `since`, or began to be true: others were looked at before. What is settled less surely than `certain`
    is a doubt as well: somebody can be asked. `apart` is what somebody took back. `reading` may remember what was read
    for another phase.
    """
    live = [memory for memory in memories if memory.status is Status.LIVE]
    if phase in ("newer", "same"):
        live = [memory for memory in live if holds(memory, now)]
    fresh = {memory.id for memory in live if is_fresh(memory, since)}
    mistaken = {(pair.older, pair.newer) for pair in settled if pair.verdict == "apart"}
    if phase == "newer":
        steps = [step for step in newer(live, reading) if (step.id, step.by) not in mistaken]
        found = Planned((*steps, *_outdated(live, settled, steps, certain)))
    elif phase == "same":
        found = _heeded(same(live, reading), mistaken)
        steps = [*found.steps, *_repeated(live, settled, found.steps, certain, reading)]
        found = Planned(tuple(steps), _doubts(live, settled, steps, found.doubts, certain, reading))
    elif phase == "rank":
        found = Planned(tuple(_ranked(live)))
    else:
        found = Planned(tuple(_pruned(live, now)))
    left = (s for s in found.steps if not apart.forbids(s) and (not s.by or {s.id, s.by} & fresh))
    asked = (doubt for doubt in found.doubts if not apart.settles(doubt) and {doubt.older, doubt.newer} & fresh)
    return Planned(tuple(left), tuple(asked))


def _heeded(found: Planned, mistaken: Collection[tuple[str, str]]) -> Planned:
    """Without the steps that rules are mistaken about."""
    steps = (step for step in found.steps if (step.id, step.by) not in mistaken and (step.by, step.id) not in mistaken)
    return Planned(tuple(steps), found.doubts)


def judged(doubt: Doubt, verdict: str, memories: Mapping[str, Memory]) -> Step | None:
    """What somebody's judgement of two memories comes to, within the same rules as any step; without one, what would
    have been done otherwise.
    """
    older, newer = memories.get(doubt.older), memories.get(doubt.newer)
    if older is None or newer is None:
        return None
    if not verdict:
        return doubt.otherwise
    if verdict == "newer" and may_replace(newer, older) and may_change(older) and may_meet(older, newer):
        return Step(phase="newer", id=older.id, by=newer.id, reason="a model found it to be out of date")
    if verdict == "same" and may_repeat(older, newer):
        goes, stays = _by_words(older, newer, read)
        return Step(phase="same", id=goes.id, by=stays.id, reason="a model found both to say the same")
    return None


# ── newer ──


def _outdated(live: Sequence[Memory], settled: Sequence[Settled], taken: Sequence[Step], certain: float) -> list[Step]:
    """What the later one of a settled pair makes untrue."""
    known, gone = {memory.id: memory for memory in live}, {id for step in taken for id in (step.id, step.by)}
    pairs = (pair for pair in settled if pair.sure >= certain and gone.isdisjoint((pair.older, pair.newer)))
    return [step for pair in pairs if (step := _outdone(pair, known)) is not None]


def _outdone(pair: Settled, known: Mapping[str, Memory]) -> Step | None:
    older, newer = known.get(pair.older), known.get(pair.newer)
    if pair.verdict != "newer" or older is None or newer is None or not may_replace(newer, older):
        return None
    reason = f"a later statement tells how it is now ({_sureness(pair)})"
    return Step(phase="newer", id=older.id, by=newer.id, reason=reason)


def _sureness(pair: Settled) -> str:
    return f"{pair.sure:.0%} sure{pair.lacking and f', {pair.lacking}'}"


# ── same ──


def _repeated(
    live: Sequence[Memory], settled: Sequence[Settled], taken: Sequence[Step], certain: float, reading: Reading
) -> list[Step]:
    """Of a settled pair that says the same one stays."""
    known, gone = {memory.id: memory for memory in live}, {step.id for step in taken}
    pairs = (pair for pair in settled if pair.sure >= certain and gone.isdisjoint((pair.older, pair.newer)))
    return [step for pair in pairs if (step := _one_of(pair, known, reading)) is not None]


def _one_of(pair: Settled, known: Mapping[str, Memory], reading: Reading) -> Step | None:
    one, other = known.get(pair.older), known.get(pair.newer)
    if pair.verdict != "same" or one is None or other is None or not may_repeat(one, other):
        return None
    goes, stays = _by_words(one, other, reading)
    reason = f"another one says the same in other words ({_sureness(pair)})"
    return Step(phase="same", id=goes.id, by=stays.id, reason=reason)


def _by_words(one: Memory, other: Memory, reading: Reading) -> tuple[Memory, Memory]:
    """Which of two that say the same in other words goes, and which stays: the one with all words of the other, else
    the later one. Whoever takes them for the same may be mistaken, and what was said last is not to be lost by that.
    """
    first, second = reading(one.content), reading(other.content)
    fuller = one if tells_less(second, first) else other if tells_less(first, second) else None
    goes, stays = sorted((one, other), key=lambda each: (LEVELS[each.trust], each is fuller, later(each)))
    return goes, stays


def _doubts(
    live: Sequence[Memory],
    settled: Sequence[Settled],
    taken: Sequence[Step],
    ruled: Sequence[Doubt],
    certain: float,
    reading: Reading,
) -> tuple[Doubt, ...]:
    """What nobody could settle for certain, the least certain first; then what is doubtful by rules alone."""
    gone = {step.id for step in taken}
    known = {memory.id: memory for memory in live if memory.id not in gone}
    found: dict[tuple[str, str], Doubt] = {}
    for pair in sorted(settled, key=lambda pair: -min(pair.sure, 1 - pair.sure)):
        if pair.verdict == "apart" or pair.older not in known or pair.newer not in known:
            continue
        if pair.verdict == "doubtful" or pair.sure < certain:
            otherwise = _outdone(pair, known) or _one_of(pair, known, reading)
            found[pair.older, pair.newer] = Doubt(pair.older, pair.newer, otherwise)
    for doubt in ruled:
        if doubt.older in known and doubt.newer in known:
            found.setdefault((doubt.older, doubt.newer), doubt)
    return tuple(found.values())


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
    if memory.accesses or memory.cited or now - max(memory.recorded_at, begun(memory)) < OLD:
        return False
    return composite(memory, now) < LEAST
