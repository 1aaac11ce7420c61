"""What is measured of two memories that may belong together, in numbers: what trees ask for.

Signs say what a pair looks like by itself. Here it is laid beside all other pairs of its two memories, and beside what
the space says elsewhere in the same words.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp, fsum, log
from typing import Final, NamedTuple

from perdure.core.memory.crowds import Crowds
from perdure.core.memory.gists import Gist
from perdure.core.memory.pairing import NEVER, Around, Pair, Sums, framed, laid, swapped
from perdure.core.memory.ranking import Places
from perdure.core.memory.statements import exchanged
from perdure.core.memory.topics import LIGHT, SINGLE

FAR: Final = -9.0
"""Stands for a nearness that is not known."""
NOBODY: Final = 999.0
"""Stands for the count of what is not there."""
_LOW, _HIGH, _PRIOR, _OFTEN = -8.0, 6.0, -4.5, 2.0
"""Bounds of the odds of which a mean is made, and the mean it starts with, as if it had been seen so often."""
_MANY: Final = 20
_KINDS: Final = {"#": "number", "%": "number", "@": "date"}


class Laid(NamedTuple):
    """A pair that was weighed: numbers of both memories, the older first, and all that is known of it so far."""

    older: int
    newer: int
    share: float
    near: float
    bare: float
    sums: Sums
    odds: float


class Measures:
    """The numbers of pairs of a space, all of which were weighed."""

    def __init__(
        self, gists: Sequence[Gist], around: Around, pairs: Sequence[Laid], ruled: Mapping[tuple[int, int], int]
    ) -> None:
        self._gists, self._around, self._crowds, self._ruled = gists, around, Crowds(gists), ruled
        ends = [(pair.older, pair.newer) for pair in pairs]
        self._places = {
            name: Places(ends, values)
            for name, values in (
                ("odds", [pair.odds for pair in pairs]),
                ("near", [pair.near for pair in pairs]),
                ("bare", [pair.bare for pair in pairs]),
                ("share", [pair.share for pair in pairs]),
            )
        }
        self._chances = _chances(pairs)
        self._alike = _Alike(self._crowds, pairs)

    def of(self, pair: Laid) -> dict[str, float]:
        """The numbers of a pair."""
        found = laid(self._gists[pair.older], self._gists[pair.newer], self._around)
        but = frozenset({self._crowds.wording[pair.older], self._crowds.wording[pair.newer]})
        beside = (*self._ranked(pair), *self._alike.of(pair), *self._crowded(found, but))
        ruled = ("ruled", self._ruled.get((pair.older, pair.newer), 0))
        numbers = (ruled, *_sums(pair), *_counted(found), *beside)
        return {name: round(float(value), 5) for name, value in numbers}

    def _ranked(self, pair: Laid) -> Iterator[tuple[str, float]]:
        """Its place among the pairs of its memories."""
        for name, places in self._places.items():
            value = getattr(pair, name)
            place = places.of(pair.older, pair.newer, value)
            best = max(place.best_older, place.best_newer)
            yield f"{name}-rank-least", min(place.older, place.newer)
            yield f"{name}-rank-most", max(place.older, place.newer)
            yield f"{name}-ahead", value - best
            if name == "odds":
                yield "odds-rank-older", place.older
                yield "odds-rank-newer", place.newer
                yield "odds-best-older", place.best_older
                yield "odds-best-newer", place.best_newer
                yield "odds-best-most", best
                yield "odds-best-least", min(place.best_older, place.best_newer)
        chance, sums = exp(_bound(pair.odds, 15)), [self._chances[end] for end in (pair.older, pair.newer)]
        yield "chance-older", chance / (1 + sums[0])
        yield "chance-newer", chance / (1 + sums[1])
        yield "chance-least", chance / (1 + max(sums))
        yield "chances-older", log(sums[0])
        yield "chances-newer", log(sums[1])

    def _crowded(self, pair: Pair, but: frozenset[int]) -> Iterator[tuple[str, float]]:
        """How many others have what both have, and what each has alone."""
        crowds, shared = self._crowds, pair.shared
        named = shared & pair.names
        rare, names = sorted(map(crowds.count, shared)), sorted(map(crowds.count, named))
        yield "rarest", rare[0] if rare else NOBODY
        yield "rarest-but-one", rare[1] if len(rare) > 1 else NOBODY
        yield "rarest-name", names[0] if names else NOBODY
        yield "with-all", crowds.held(shared)
        yield "with-names", crowds.held(named)
        yield "with-subject-older", crowds.held(pair.older.subject)
        yield "with-subject-newer", crowds.held(pair.newer.subject)
        mine, theirs = pair.mine - LIGHT, pair.theirs - LIGHT
        yield "instead", min(crowds.instead(mine, theirs, but), _MANY)
        yield "alone-weight-older", fsum(map(self._around.rarity, mine))
        yield "alone-weight-newer", fsum(map(self._around.rarity, theirs))
        yield "told-weight", fsum(map(self._around.rarity, pair.told))
        several = crowds.several(shared - pair.older.subject - pair.newer.subject - LIGHT)
        yield "said", several.memories
        yield "said-of", several.subjects
        yield "said-twice", several.twice
        yield "said-thrice", several.thrice
        yield "said-most", several.most
        yield "said-twice-of", several.twice / several.subjects if several.subjects else -1.0


class _Alike:
    """What pairs of memories that are worded alike come to."""

    def __init__(self, crowds: Crowds, pairs: Sequence[Laid]) -> None:
        self._crowds = crowds
        self._best: dict[int, float] = {}
        self._counts: Counter[tuple[int, int]] = Counter()
        self._likely: Counter[tuple[int, int]] = Counter()
        sums: dict[object, list[float]] = defaultdict(list)
        for pair in pairs:
            odds, key = _within(pair.odds), self._key(pair)
            for end in (pair.older, pair.newer):
                self._best[end] = max(self._best.get(end, _LOW), odds)
            self._counts[key] += 1
            self._likely[key] += odds > 0
            sums[key].append(odds)
        for number, wording in enumerate(crowds.wording):
            sums[wording].append(self._best.get(number, _LOW))
        self._sums = {key: fsum(some) for key, some in sums.items()}

    def of(self, pair: Laid) -> Iterator[tuple[str, float]]:
        """How many others there are of the wording of each, and of both together, and how well they do."""
        crowds, key, odds = self._crowds, self._key(pair), _within(pair.odds)
        older, newer = (crowds.worded[wording] for wording in key)
        times = self._counts[key]
        yield "worded-older", older
        yield "worded-newer", newer
        yield "worded-alike", key[0] == key[1]
        yield "wording-older", self._mean(key[0], self._best[pair.older], older)
        yield "wording-newer", self._mean(key[1], self._best[pair.newer], newer)
        yield "wordings", times
        yield "wordings-mean", self._mean(key, odds, times)
        yield "wordings-likely", (self._likely[key] - (odds > 0)) / times
        yield "wordings-of-older", times / older
        yield "wordings-of-newer", times / newer

    def _key(self, pair: Laid) -> tuple[int, int]:
        return self._crowds.wording[pair.older], self._crowds.wording[pair.newer]

    def _mean(self, key: object, own: float, times: int) -> float:
        """The mean of all others."""
        return (self._sums[key] - own + _PRIOR * _OFTEN) / (times - 1 + _OFTEN)


def _chances(pairs: Sequence[Laid]) -> dict[int, float]:
    """The sum of the odds of all pairs that a memory is in."""
    found: dict[int, list[float]] = defaultdict(list)
    for pair in pairs:
        chance = exp(_bound(pair.odds, 15))
        found[pair.older].append(chance)
        found[pair.newer].append(chance)
    return {number: fsum(some) for number, some in found.items()}


def _sums(pair: Laid) -> Iterator[tuple[str, float]]:
    same, newest = pair.sums
    yield "odds", pair.odds
    yield "same", max(same, -15.0)
    yield "newest", newest
    yield "differ", same == NEVER
    yield "near", pair.near
    yield "bare", pair.bare


def _counted(pair: Pair) -> Iterator[tuple[str, float]]:
    """What both have and what each has alone."""
    older, newer, shared = pair.older, pair.newer, pair.shared
    one, other = older.said, newer.said
    yield "share", pair.share
    yield "weight", pair.weight
    yield "left-older", pair.left[0]
    yield "left-newer", pair.left[1]
    yield "told", len(pair.told)
    yield "topics", len(pair.common)
    yield "topics-single", len(pair.common & SINGLE)
    yield "shared-names", len(shared & pair.names)
    yield "shared-numbers", len(shared & one.numbers)
    for name, gist, alone in (("older", older, pair.mine), ("newer", newer, pair.theirs)):
        yield f"terms-{name}", len(gist.said.terms)
        yield f"alone-{name}", len(alone)
        yield f"names-{name}", len(alone & pair.names)
        yield f"numbers-{name}", len(alone & gist.said.numbers)
        yield f"codes-{name}", len(alone & gist.codes)
        yield f"about-{name}", gist.subject <= shared
        yield f"event-{name}", gist.event
        yield f"ending-{name}", gist.ending
        yield f"changing-{name}", gist.changing
        yield f"denied-{name}", gist.said.denied
    yield "head-older", len(older.head - other.bag - LIGHT)
    yield "head-newer", len(newer.head - one.bag - LIGHT)
    yield "about-one", older.subject == newer.subject
    yield "parted", pair.parted
    yield "short", pair.short
    yield "ids", 2 * bool(older.ids) + bool(newer.ids) if older.ids != newer.ids else -1
    yield "turned", exchanged(one.parts, other.parts)
    start, end = framed(one.terms, other.terms)
    yield "framed-start", start
    yield "framed-end", end
    yield "framed-older", len(one.terms) - start - end
    yield "framed-newer", len(other.terms) - start - end
    yield "swapped", swapped(one.terms, other.terms, pair.names & shared)
    kinds = {_KINDS.get(kind[0], kind if kind in ("name", "word") else "state") for kind in pair.kinds}
    for kind in ("name", "word", "number", "date", "state"):
        yield f"both-{kind}", kind in kinds
    yield "both-values", not pair.kinds <= {"name", "word"}


def _bound(value: float, most: float) -> float:
    return min(max(value, -most), most)


def _within(odds: float) -> float:
    return min(max(odds, _LOW), _HIGH)
