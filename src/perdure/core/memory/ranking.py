"""Which place a pair has among all pairs of its two memories."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

LAST: Final = 20
"""The last place that is told."""
NONE: Final = -99.0
"""The best of no others."""


class Place(NamedTuple):
    """Of a pair, for its older and its newer memory: how many other pairs are better, and how good the best is."""

    older: int
    newer: int
    best_older: float
    best_newer: float


class Places:
    """The places of pairs by some value, the highest first."""

    def __init__(self, pairs: Iterable[tuple[int, int]], values: Sequence[float]) -> None:
        found: dict[int, list[float]] = defaultdict(list)
        for (one, other), value in zip(pairs, values, strict=True):
            found[one].append(value)
            found[other].append(value)
        for some in found.values():
            some.sort()
        self._values = found

    def of(self, one: int, other: int, value: float) -> Place:
        """The place of a pair that has a value."""
        return Place(
            self._better(one, value), self._better(other, value), self._best(one, value), self._best(other, value)
        )

    def _better(self, number: int, value: float) -> int:
        some = self._values[number]
        return min(len(some) - bisect_right(some, value), LAST)

    def _best(self, number: int, value: float) -> float:
        """The best of the others: the second best of all where this one is the best."""
        some = self._values[number]
        if some[-1] > value:
            return some[-1]
        return some[-2] if len(some) > 1 else NONE
