"""The place of a pair among those of its memories."""

from perdure.core.memory.ranking import LAST, NONE, Places

PAIRS = [(0, 1), (0, 2), (1, 2), (3, 4)]
VALUES = [3.0, 2.0, 1.0, 5.0]


def test_the_best_pair_of_both_has_none_before_it() -> None:
    assert Places(PAIRS, VALUES).of(0, 1, 3.0) == (0, 0, 2.0, 1.0)


def test_what_is_not_the_best_knows_which_is() -> None:
    assert Places(PAIRS, VALUES).of(1, 2, 1.0) == (1, 1, 3.0, 2.0)


def test_the_only_pair_of_its_memories_has_no_others() -> None:
    assert Places(PAIRS, VALUES).of(3, 4, 5.0) == (0, 0, NONE, NONE)


def test_equals_are_in_the_same_place() -> None:
    places = Places([(0, 1), (0, 2)], [3.0, 3.0])
    assert places.of(0, 1, 3.0)[:3] == places.of(0, 2, 3.0)[:3] == (0, 0, 3.0)


def test_places_far_behind_are_not_told_apart() -> None:
    pairs = [(0, number) for number in range(1, 60)]
    assert Places(pairs, [float(-number) for number, _ in enumerate(pairs)]).of(0, 59, -58.0).older == LAST
