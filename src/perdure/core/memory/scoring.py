"""How well an item answers a query: a sum of signals, each about 0 to 1, each with one weight.

Words count by BM25, for the item alone, for the item with its neighbours, and by how much of the query they cover.
Vectors count by cosine, stretched so that the mean is 0 and the best is 1: so embedders of every temper fit.
"""

from math import log
from typing import Final

WEIGHTS: Final[dict[str, float]] = {
    "words": 0.15,
    "around": 1.0,
    "covered": 0.4,
    "answer": 0.35,
    "author": 0.8,
    "date": 1.6,
    "time": 0.6,
    "names": 0.7,
    "length": 0.28,
    "question": -0.2,
    "context": 0.5,
    "meaning": 0.45,
    "thread": 0.55,
    "prior": 0.2,
}
"""What each signal adds at most (a length has no bound)."""
_LEXICAL: Final = ("words", "around", "covered", "answer")
_ALONE: Final = 1.7
"""By how much words count more where there are no vectors to speak beside them."""
WITHOUT_VECTORS: Final = WEIGHTS | {name: _ALONE * WEIGHTS[name] for name in _LEXICAL}
NO_VECTORS: Final = "by words alone: the embedder failed"
"""Said of what was decided without vectors, where there should be some."""

NEIGHBOURS: Final = (1.0, 0.7, 0.5)
"""How much a word counts that stands in the item, in the one before or after, in the second one before or after."""
STRETCH: Final = sum(NEIGHBOURS) + sum(NEIGHBOURS[1:])
"""The length of an item with its neighbours, in lengths of one item."""
SATURATION: Final = 0.9
LENGTH: Final = 0.4
SPREAD: Final = 0.2
"""The distance of the best cosine from the mean at which it counts in full; below, all cosines are much the same."""


def rarity(items: int, holding: int) -> float:
    """What a term is worth of which `holding` of all items have some."""
    return log(1 + (items - holding + 0.5) / (holding + 0.5))


def saturated(count: float, length: float) -> float:
    """What a term counts for that is there so often; `length` is that of the text in lengths of a usual one."""
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length))
