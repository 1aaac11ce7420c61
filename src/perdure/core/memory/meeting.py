"""Which memories of a space may be about the same thing: those that share what few others have."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import fsum, log
from typing import Final

RARE: Final = 40
"""Two terms that more memories have than this do not bring any of them together."""
LONE: Final = 24
"""A term that more memories have than this does not bring them together by itself."""
TELLING: Final = 5
"""Terms of a memory, its rarest, of which two bring it together with others."""
FIRST: Final = 4
"""Terms of a memory, its rarest, of which one together with a topic brings it together with others."""
LEAST: Final = 0.12
"""The share of what both say, weighed by rarity, below which two are about different things."""
MOST: Final = 48
"""As many others one memory is laid beside, those that share most."""


class Terms:
    """The terms and topics of the statements of a space, and how rare the terms are in it."""

    def __init__(self, bags: Sequence[frozenset[str]], topics: Sequence[frozenset[str]]) -> None:
        self._bags, self._topics = bags, topics
        counts = Counter(term for bag in self._bags for term in bag)
        self._counts = counts
        self._rarity = {term: log((len(self._bags) + 1) / (count + 0.5)) for term, count in counts.items()}

    def rarity(self, term: str) -> float:
        """How much a term tells, by how rare it is."""
        return self._rarity.get(term, 0.0)

    def share(self, one: int, other: int) -> float:
        """How much of what both say they share."""
        rarity, both = self._rarity, self._bags[one] & self._bags[other]
        common = fsum(rarity[term] for term in both)
        whole = fsum(rarity[term] for term in self._bags[one] | self._bags[other])
        return common / whole if whole else 0.0

    def meetings(self) -> Iterator[tuple[float, int, int]]:
        """Those that may be about the same thing, each pair once: what they share, and the lower number first."""
        groups: dict[object, list[int]] = defaultdict(list)
        for number, bag in enumerate(self._bags):
            rarest = sorted(bag, key=lambda term: (self._counts[term], term))
            for term in rarest:
                if self._counts[term] <= LONE:
                    groups[term].append(number)
            for pair in combinations(rarest[: TELLING + 2], 2):
                groups[pair].append(number)
            for term in rarest[:FIRST]:
                if self._counts[term] > LONE:
                    for topic in self._topics[number]:
                        groups[term, "about", topic].append(number)
        mates: dict[int, set[int]] = defaultdict(set)
        for key, group in groups.items():
            if 1 < len(group) <= (LONE if isinstance(key, str) else RARE):
                for one, other in combinations(group, 2):
                    mates[one].add(other)
        for one in sorted(mates):
            found = sorted(((self.share(one, other), other) for other in mates[one]), reverse=True)
            yield from ((share, one, other) for share, other in found[:MOST] if share >= LEAST)
