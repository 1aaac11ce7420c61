"""What a pair of memories comes to when a reader has looked at it too.

Signs and trees count; a reader reads both texts beside each other, and knows wordings that nobody counted. It is asked
only about what is not plainly apart. Both voices are added, each with its weight.
"""

from math import exp, log
from typing import Final, NamedTuple

from perdure.core.memory.pairing import Sums, Verdict

FAR: Final = 12.0
"""The most that one voice says."""
UNREAD: Final = -6.0
"""Odds, as their logarithm, below which a reader is not asked."""


RULED: Final = 0.25
"""How sure one must be for rules to be heeded; where nobody can tell, they are."""
SURE: Final = 0.6
"""How sure one must be to act on what was read, too."""
CERTAIN: Final = 0.9
"""How sure one is from which nobody else needs to be asked."""
SURER: Final = 0.8
"""The same in a small space, where little tells how a pair stands beside others."""
AGAINST: Final = -2.5
"""Odds, as their logarithm, that a reader gives what it is against."""


class Judged(NamedTuple):
    """What the newer of two memories is to the older one if it is anything, how sure it is that it is, and whether
    rules that say so are mistaken.
    """

    verdict: Verdict
    sure: float
    mistaken: bool


def together(voices: tuple[float, float, float], counted: float, read: Sums) -> Judged:
    """What the odds that were counted and the sums of a reader come to, each with its weight."""
    bias, *weights = voices
    verdict: Verdict = "same" if read[0] > read[1] else "newer"
    found = sure(bias + weights[0] * bound(counted) + weights[1] * bound(either(read)))
    return Judged(verdict, found, found < RULED and either(read) < AGAINST)


def either(sums: Sums) -> float:
    """The logarithm of the odds that it is one or the other."""
    high = max(sums)
    return high + log(exp(sums[0] - high) + exp(sums[1] - high))


def sure(odds: float) -> float:
    """How sure one is, from the logarithm of odds."""
    return round(1 / (1 + exp(-min(max(odds, -30.0), 30.0))), 9)


def bound(odds: float) -> float:
    """What one voice says, at the most."""
    return min(max(odds, -FAR), FAR)
