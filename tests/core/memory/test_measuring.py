"""The numbers of a pair: its place beside other pairs, and what the space says elsewhere in the same words."""

import math

import pytest

from perdure.core.memory.gists import gist_of
from perdure.core.memory.measuring import FAR, Laid, Measures
from perdure.core.memory.pairing import NEVER
from perdure.core.memory.statements import read

SAID = (
    "Ana Berg lives in Oslo",
    "Ana Berg moved to Rome",
    "Ana Berg likes ramen",
    "Omar Diaz likes ramen",
    "Omar Diaz likes paella",
)


class Elsewhere:
    def rarity(self, term: str) -> float:
        return 5.0

    def is_sole(self, term: str) -> bool:
        return True


def pair(older: int, newer: int, odds: float, near: float = FAR) -> Laid:
    return Laid(older, newer, 0.3, near, near, (NEVER, odds), odds)


def measured(*pairs: Laid) -> list[dict[str, float]]:
    measures = Measures([gist_of(text, read(text)) for text in SAID], Elsewhere(), pairs, {(0, 1): 3})
    return [measures.of(each) for each in pairs]


def test_a_pair_knows_how_far_it_is_ahead_of_others_of_its_memories() -> None:
    best, other, apart = measured(pair(0, 1, 3.0), pair(0, 2, 1.0), pair(3, 4, 2.0))
    assert (best["odds-rank-most"], best["odds-ahead"], best["odds-best-older"]) == (0, 2.0, 1.0)
    assert (other["odds-rank-older"], other["odds-rank-newer"], other["odds-ahead"]) == (1, 0, -2.0)
    assert apart["odds-rank-most"] == 0
    assert best["chance-newer"] > best["chance-older"] > other["chance-older"]


def test_how_well_pairs_do_that_are_worded_alike_is_told_without_the_pair_itself() -> None:
    one, other = measured(pair(2, 3, 3.0), pair(3, 4, -9.0))
    alone = measured(pair(2, 3, 3.0))[0]
    assert one["wordings"] == 2
    assert one["wordings-mean"] < alone["wordings-mean"] < other["wordings-mean"]
    assert (one["wordings-likely"], other["wordings-likely"]) == (0, 0.5)


def test_it_is_counted_how_often_the_same_is_said_of_one() -> None:
    homes, likings = measured(pair(0, 1, 0.0), pair(3, 4, 0.0))
    assert (homes["said"], homes["said-of"]) == (2, 1)  # who moved somewhere lives there
    assert (likings["said"], likings["said-of"], likings["said-most"]) == (3, 2, 2)
    assert (likings["with-all"], likings["with-subject-older"], homes["with-subject-older"]) == (2, 2, 3)


def test_every_pair_has_the_same_numbers_and_all_are_finite() -> None:
    found = measured(pair(0, 1, 3.0), pair(0, 2, -40.0, 3.5), pair(3, 4, 900.0))
    assert len({tuple(numbers) for numbers in found}) == 1
    assert all(math.isfinite(value) for numbers in found for value in numbers.values())
    assert not any(" " in name or "<" in name for name in found[0])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_order_of_pairs_does_not_matter(order: tuple[int, ...]) -> None:
    pairs = [pair(0, 1, 3.1), pair(0, 2, 0.3), pair(3, 4, 1.7)]
    mixed = measured(*(pairs[at] for at in order))
    assert [mixed[order.index(at)] for at in range(3)] == measured(*pairs)
