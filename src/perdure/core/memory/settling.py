"""Memories of a space laid beside each other in pairs, and what is settled about them.

Each memory is in one settled pair at most, the surest: what makes one statement untrue, or repeats it, seldom does so
to another one too. So a pair is judged twice: by its own signs, and by how it stands beside all others (`measuring`).
Only facts and preferences in plain words are judged so; what happened has happened, and about constraints rules decide
alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from heapq import nlargest
from math import isfinite
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from perdure.core.memory.booking import are_two
from perdure.core.memory.comparing import are_alike, is_fresh, is_whole, later, tells_less
from perdure.core.memory.contraries import contrary, denies_else
from perdure.core.memory.deeds import read_deed
from perdure.core.memory.gists import Gist, gist_of
from perdure.core.memory.measuring import FAR, Laid, Measures
from perdure.core.memory.meeting import Terms
from perdure.core.memory.pairing import NEITHER, NEVER, Alike, Sums, Verdict, Weights, judged, weighed
from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.core.memory.rereading import RULED, SURE, SURER, UNREAD, Judged, sure, together
from perdure.core.memory.statements import Reading, read
from perdure.core.memory.trees import summed

Reader: TypeAlias = Callable[[Sequence[tuple[str, str]]], Sequence[Sums]]
"""Reads pairs of an earlier and a later text beside each other: what speaks for `same` and for `newer`."""
Ruled: TypeAlias = Mapping[tuple[str, str], int]
"""What rules would do with pairs of memories, by their ids, the older first: a number for each kind of reason."""
LONGEST: Final = 400
"""Characters of a memory that is judged so: longer ones say more than one thing."""
MOST: Final = 300_000
"""As many pairs of a space are judged in one run, those that share most."""
NEAREST: Final = 10
"""As many others a memory is laid beside because their vectors are nearest, whatever words they share."""
DOUBTFUL: Final = 0.005
"""How sure one is from which a pair that is not settled is doubtful: of what is sorted out below, one in a few hundred
would be something."""
CROWD: Final = 1_000
"""Memories of a space from which on it tells something how a pair stands beside others. In a smaller one whatever has
no rival looks sure; there a pair's own signs must be as sure."""
UNLIKELY: Final = -6.0
"""From which odds, as their logarithm, a pair comes into question at all."""
_PLAIN: Final = (MemoryType.FACT, MemoryType.PREFERENCE)
_KNOWN: Final = 0.5
"""Share of its words that must be known: of other languages one cannot tell."""


class Nearness(Protocol):
    """How near memories are to each other, by their numbers."""

    def __call__(self, one: int, other: int) -> Alike:
        """How near two are."""

    def nearest(self, numbers: Sequence[int], count: int) -> Iterable[tuple[int, int]]:
        """Of each number, the few that are nearest to it."""


class Settled(msgspec.Struct, frozen=True):
    """What the newer of two memories is to the older one."""

    older: str
    newer: str
    verdict: Verdict | Literal["doubtful", "apart"]
    """`apart` only of what rules would do something with."""
    sure: float
    lacking: str = ""
    """Who should have had a say, and failed."""


class Beside:
    """The memories of a space that may be about the same thing, of which at least one came after `since`."""

    def __init__(
        self,
        memories: Iterable[Memory],
        since: int = -1,
        reading: Reading = read,
        ruled: Ruled | None = None,
    ) -> None:
        self._memories = [memory for memory in memories if _is_fit(memory)]
        self.gists = [gist_of(memory.content, reading(memory.content)) for memory in self._memories]
        self._terms = Terms([gist.said.bag for gist in self.gists], [gist.topics for gist in self.gists])
        self._names = Counter(term for run in {run for gist in self.gists for run in gist.runs} for term in run)
        self._fresh = [is_fresh(memory, since) for memory in self._memories]
        self._ruled = self._by_number(ruled or {})
        self._near: Nearness | None = None
        met = [pair for pair in self._terms.meetings() if self._may_meet(*pair[1:])]
        found = nlargest(MOST, met) if len(met) > MOST else met
        self.pairs = [
            *self._in_time([pair[1:] for pair in found] + [pair for pair in self._ruled if self._may_meet(*pair)])
        ]

    def by(self, near: Nearness) -> "Beside":
        """The same with what is nearest by vectors beside each other too, whatever words they share."""
        found = copy(self)
        found._near = near
        nearest = near.nearest([number for number, fresh in enumerate(self._fresh) if fresh], NEAREST)
        found.pairs = [*dict.fromkeys((*self.pairs, *self._in_time(pair for pair in nearest if self._may_meet(*pair))))]
        return found

    def _by_number(self, ruled: Ruled) -> dict[tuple[int, int], int]:
        at = {memory.id: number for number, memory in enumerate(self._memories)}
        return {(at[one], at[other]): kind for (one, other), kind in ruled.items() if one in at and other in at}

    def rarity(self, term: str) -> float:
        """How much a term tells here."""
        return self._terms.rarity(term)

    def is_sole(self, term: str) -> bool:
        """Whether there is one name of several words at most that it could be short for."""
        return self._names[term] <= 1

    @property
    def texts(self) -> list[tuple[str, str]]:
        """What each memory says, whole and bare, by its number."""
        return [(memory.content, gist.bare) for memory, gist in zip(self._memories, self.gists, strict=True)]

    def settled(self, weights: Weights, reader: Reader | None = None, lacking: str = "") -> tuple[Settled, ...]:
        """What is settled, the surest first, then what is doubtful, and what rules are mistaken about; each tells who
        was `lacking`.
        """
        found = sorted(self._judged(weights, reader), key=lambda each: (-each[1].sure, self._ids(each[0])))
        ruled = self._ruled if reader is not None or not self._is_few else {}
        least, taken = SURER if self._is_few else SURE, set[int]()
        settled, doubtful, apart = list[Settled](), list[Settled](), list[Settled]()
        for pair, told in found:
            ids = self._ids(pair)
            if (pair.older, pair.newer) in ruled and told.mistaken:
                apart.append(Settled(*ids, "apart", told.sure, lacking))
                continue
            if told.sure < DOUBTFUL:
                continue
            verdict = _possible(told.verdict, self.gists[pair.older], self.gists[pair.newer])
            if verdict is None:
                continue
            unsure = told.sure < (weights.sure[told.verdict == "newer"] if reader is None else least)
            if unsure or (self._is_few and verdict == "newer" and self._denies_else(pair)):
                doubtful.append(Settled(*ids, "doubtful", told.sure, lacking))
            elif taken.isdisjoint((pair.older, pair.newer)):
                taken |= {pair.older, pair.newer}
                settled.append(Settled(*ids, verdict, told.sure, lacking))
            else:
                doubtful.append(Settled(*ids, "doubtful", told.sure, lacking))
        return *settled, *doubtful, *apart

    def _ids(self, pair: Laid) -> tuple[str, str]:
        return self._memories[pair.older].id, self._memories[pair.newer].id

    def _judged(self, weights: Weights, reader: Reader | None) -> list[tuple[Laid, Judged]]:
        """Pairs that come into question, what they are, and how sure that is."""
        if reader is None:
            counted = ((pair, self._counted(weights, pair, numbers)) for pair, numbers in self.measured(weights))
            return [(pair, Judged(judged(pair.sums)[0], sure(odds), sure(odds) < RULED)) for pair, odds in counted]
        asked = self.asked(weights)
        heard = zip(asked, reader(self.told(asked)), strict=True)
        return [(pair, together(weights.voices, odds, self._heard(pair, sums))) for (pair, odds), sums in heard]

    def _heard(self, pair: Laid, sums: Sums) -> Sums:
        """What a reader says, without what cannot be: where both cannot say the same, it is `newer`; in a small space
        only if that is what was read.
        """
        same, newest = sums
        if same > newest and (pair.sums[0] == NEVER or self._are_contrary(pair)):
            return NEVER, newest if self._is_few else same
        return sums

    def _are_contrary(self, pair: Laid) -> bool:
        return contrary(self.gists[pair.older].said, self.gists[pair.newer].said)

    def _denies_else(self, pair: Laid) -> bool:
        return denies_else(self.gists[pair.older].said, self.gists[pair.newer].said)

    def asked(self, weights: Weights) -> list[tuple[Laid, float]]:
        """Pairs that a reader is to look at, and the odds that were counted."""
        counted = ((pair, self._counted(weights, pair, numbers)) for pair, numbers in self.measured(weights))
        return [(pair, odds) for pair, odds in counted if odds > UNREAD or (pair.older, pair.newer) in self._ruled]

    def told(self, asked: Iterable[tuple[Laid, float]]) -> list[tuple[str, str]]:
        """The texts of pairs, the older one first."""
        return [(self._memories[pair.older].content, self._memories[pair.newer].content) for pair, _ in asked]

    def _counted(self, weights: Weights, pair: Laid, numbers: dict[str, float]) -> float:
        """The odds that trees count out; in a small space a pair's own signs must be as sure."""
        odds = summed(weights.trees, numbers) if weights.trees else pair.odds
        return min(odds, pair.odds) if self._is_few else odds

    @property
    def _is_few(self) -> bool:
        return len(self._memories) < CROWD

    def measured(self, weights: Weights, least: float = UNLIKELY) -> Iterator[tuple[Laid, dict[str, float]]]:
        """The pairs that come into question by their signs, and what trees ask for."""
        laid = self.laid(weights)
        measures = Measures(self.gists, self, laid, self._ruled)
        yield from (
            (pair, measures.of(pair)) for pair in laid if pair.odds > least or (pair.older, pair.newer) in self._ruled
        )

    def laid(self, weights: Weights) -> list[Laid]:
        """All pairs whose words are known, weighed by their signs."""
        known = [_share_known(gist, weights) >= _KNOWN for gist in self.gists]
        return [self._laid(one, other, weights) for one, other in self.pairs if known[one] and known[other]]

    def alike(self, one: int, other: int) -> Alike:
        """How near two are, as far as there are vectors."""
        return NEITHER if self._near is None else self._near(one, other)

    def _laid(self, one: int, other: int, weights: Weights) -> Laid:
        alike = self.alike(one, other)
        sums = weighed(self.gists[one], self.gists[other], self, weights, alike)
        near, bare = (FAR if each is None or not isfinite(each) else each for each in alike)
        return Laid(one, other, self._terms.share(one, other), near, bare, sums, judged(sums)[1])

    def _may_meet(self, one: int, other: int) -> bool:
        first, second = self._memories[one], self._memories[other]
        if not self._fresh[one] and not self._fresh[other]:
            return False
        if self.gists[one].said.bag == self.gists[other].said.bag or not are_alike(first, second):
            return False  # of the very same words the order tells, which rules know
        said, told = self.gists[one].said, self.gists[other].said
        if not said.marks.fit(told.marks):
            return False
        mine = said.personal or told.personal
        return not mine or (first.agent, first.writer) == (second.agent, second.writer)

    def _in_time(self, pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Each pair once, the older first."""
        at = [later(memory) for memory in self._memories]
        return dict.fromkeys((one, other) if at[one] <= at[other] else (other, one) for one, other in pairs)


def _are_of_two(older: Gist, newer: Gist) -> bool:
    """Whether they tell of two bookings or of two deeds, of which there may be more: neither makes the other untrue."""
    if are_two(older.said.booked, newer.said.booked):
        return not newer.said.changed
    return read_deed(older.said.tokens).differs(read_deed(newer.said.tokens))


def _possible(verdict: Verdict, older: Gist, newer: Gist) -> Verdict | None:
    """What a pair can be, whoever is sure of more: nothing if it tells of two, or the newer one says only where what
    never is so is not so; a repetition if the newer one says only less of the same.
    """
    narrowed = older.said.bag < newer.said.bag and older.said.denied == newer.said.denied and is_whole(older.said)
    if narrowed or _are_of_two(older, newer):
        return None
    return "same" if verdict == "newer" and tells_less(newer.said, older.said) else verdict


def _is_fit(memory: Memory) -> bool:
    plain = memory.type in _PLAIN and memory.status is Status.LIVE and not memory.flags
    return plain and len(memory.content) <= LONGEST


def _share_known(gist: Gist, weights: Weights) -> float:
    words = [word for word in gist.words if word.isalpha() and word != "N"]
    return sum(word in weights.words for word in words) / len(words) if words else 0.0
