"""Memories of a space laid beside each other in pairs, and what is settled about them.

Each memory is in one settled pair at most, the surest: what makes one statement untrue, or repeats it, seldom does so
to another one too. So a pair is judged twice: by its own signs, and by how it stands beside all others (`measuring`).
Only facts and preferences in plain words are judged so; what happened has happened, and about constraints rules decide
alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from math import exp, isfinite, log
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.memory.booking import are_two
from perdure.core.memory.comparing import are_alike, later
from perdure.core.memory.deeds import read_deed
from perdure.core.memory.gists import Gist, gist_of
from perdure.core.memory.measuring import FAR, Laid, Measures
from perdure.core.memory.meeting import Terms
from perdure.core.memory.pairing import NEITHER, Alike, Verdict, Weights, judged, weighed
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.statements import Reading, read
from perdure.core.memory.trees import summed

Nearness: TypeAlias = Callable[[int, int], Alike]
"""How near two memories are, by their numbers."""
LONGEST: Final = 400
"""Characters of a memory that is judged so: longer ones say more than one thing."""
MOST: Final = 300_000
"""As many pairs of a space are judged in one run, those that share most."""
DOUBTFUL: Final = 0.3
"""How sure one is from which a pair that is not settled is doubtful."""
CROWD: Final = 1_000
"""Memories of a space from which on it tells something how a pair stands beside others. In a smaller one whatever has
no rival looks sure; there a pair's own signs must be as sure."""
UNLIKELY: Final = -6.0
"""From which odds, as their logarithm, a pair comes into question at all."""
_UNSURE: Final = log(DOUBTFUL / (1 - DOUBTFUL)) - 1e-6
"""Odds that are too low for a pair to be doubtful."""
_PLAIN: Final = (MemoryType.FACT, MemoryType.PREFERENCE)
_KNOWN: Final = 0.5
"""Share of its words that must be known: of other languages one cannot tell."""


class Settled(msgspec.Struct, frozen=True):
    """What the newer of two memories is to the older one."""

    older: str
    newer: str
    verdict: Verdict | Literal["doubtful"]
    sure: float
    lacking: bool = False
    """Whether words alone decided because the embedder failed."""


class Beside:
    """The memories of a space that may be about the same thing, of which at least one came after `since`."""

    def __init__(self, memories: Iterable[Memory], since: int = -1, reading: Reading = read) -> None:
        self._memories = [memory for memory in memories if _is_fit(memory)]
        self.gists = [gist_of(memory.content, reading(memory.content)) for memory in self._memories]
        self._terms = Terms([gist.said.bag for gist in self.gists], [gist.topics for gist in self.gists])
        self._names = Counter(term for run in {run for gist in self.gists for run in gist.runs} for term in run)
        fresh = [memory.recorded_at > since for memory in self._memories]
        met = (pair for pair in self._terms.meetings() if fresh[pair[1]] or fresh[pair[2]])
        found = [pair for pair in met if self._may_meet(pair[1], pair[2])]
        if len(found) > MOST:
            found = nlargest(MOST, found)
        self.pairs = [self._in_time(one, other) for _, one, other in found]
        self._shares = [share for share, _, _ in found]

    def rarity(self, term: str) -> float:
        """How much a term tells here."""
        return self._terms.rarity(term)

    def is_sole(self, term: str) -> bool:
        """Whether there is one name of several words at most that it could be short for."""
        return self._names[term] <= 1

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What each memory says, whole and bare, by its number; nothing where it is beside no other."""
        there = {number for pair in self.pairs for number in pair}
        return [
            (memory.content, gist.bare) if number in there else ("", "")
            for number, (memory, gist) in enumerate(zip(self._memories, self.gists, strict=True))
        ]

    def settled(self, weights: Weights, near: Nearness | None = None, *, lacking: bool = False) -> tuple[Settled, ...]:
        """What is settled, the surest first, and then what is doubtful. `lacking`: a nearness should be there."""
        found: list[tuple[float, int, int, Verdict]] = []
        few = len(self._memories) < CROWD
        for pair, numbers in self.measured(weights, near, _UNSURE if few else UNLIKELY):
            odds = summed(weights.trees, numbers) if weights.trees else pair.odds
            if few:
                odds = min(odds, pair.odds)
            found.append((_sure(odds), pair.older, pair.newer, judged(pair.sums)[0]))
        found.sort(key=lambda pair: (-pair[0], self._memories[pair[1]].id, self._memories[pair[2]].id))
        taken: set[int] = set()
        settled, doubtful = list[Settled](), list[Settled]()
        for sure, one, other, verdict in found:
            if sure < DOUBTFUL:
                break
            if _are_of_two(self.gists[one], self.gists[other]):
                continue
            ids = self._memories[one].id, self._memories[other].id
            if sure < weights.sure[verdict == "newer"]:
                doubtful.append(Settled(*ids, "doubtful", sure, lacking))
            elif taken.isdisjoint((one, other)):
                taken |= {one, other}
                settled.append(Settled(*ids, verdict, sure, lacking))
        return *settled, *doubtful

    def measured(
        self, weights: Weights, near: Nearness | None = None, least: float = UNLIKELY
    ) -> Iterator[tuple[Laid, dict[str, float]]]:
        """The pairs that come into question by their signs, and what trees ask for."""
        known = [_share_known(gist, weights) >= _KNOWN for gist in self.gists]
        laid = [
            self._laid(one, other, share, weights, NEITHER if near is None else near(one, other))
            for (one, other), share in zip(self.pairs, self._shares, strict=True)
            if known[one] and known[other]
        ]
        measures = Measures(self.gists, self, laid)
        yield from ((pair, measures.of(pair)) for pair in laid if pair.odds > least)

    def _laid(self, one: int, other: int, share: float, weights: Weights, alike: Alike) -> Laid:
        sums = weighed(self.gists[one], self.gists[other], self, weights, alike)
        near, bare = (FAR if each is None or not isfinite(each) else each for each in alike)
        return Laid(one, other, share, near, bare, sums, judged(sums)[1])

    def _may_meet(self, one: int, other: int) -> bool:
        first, second = self._memories[one], self._memories[other]
        if self.gists[one].said.bag == self.gists[other].said.bag or not are_alike(first, second):
            return False  # of the very same words the order tells, which rules know
        said, told = self.gists[one].said, self.gists[other].said
        if not said.marks.fit(told.marks):
            return False
        mine = said.personal or told.personal
        return not mine or (first.agent, first.writer) == (second.agent, second.writer)

    def _in_time(self, one: int, other: int) -> tuple[int, int]:
        first, second = self._memories[one], self._memories[other]
        return (one, other) if later(first) <= later(second) else (other, one)


def _sure(odds: float) -> float:
    bound = min(max(odds, -30.0), 30.0)
    return round(1 / (1 + exp(-bound)), 9)


def _are_of_two(older: Gist, newer: Gist) -> bool:
    """Whether they tell of two bookings or of two deeds, of which there may be more: neither makes the other untrue."""
    if are_two(older.said.booked, newer.said.booked):
        return not newer.changing
    return read_deed(older.said.tokens).differs(read_deed(newer.said.tokens))


def _is_fit(memory: Memory) -> bool:
    plain = memory.type in _PLAIN and memory.status is Status.LIVE and not memory.flags
    return plain and len(memory.content) <= LONGEST


def _share_known(gist: Gist, weights: Weights) -> float:
    words = [word for word in gist.words if word.isalpha() and word != "N"]
    return sum(word in weights.words for word in words) / len(words) if words else 0.0
