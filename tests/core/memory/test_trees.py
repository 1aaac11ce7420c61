"""Trees: how they are written, and what they add up to."""

import pytest

from perdure.core.memory.trees import summed, tree_of, written

TREE = "odds<1.5 rank<0 0.2 -0.1 0.4"


@pytest.mark.parametrize(
    ("odds", "rank", "adds"), [(1.5, 0, 0.2), (1.5, 1, -0.1), (1.6, 0, 0.4), (1.6, 1, 0.4), (-9, -9, 0.2)]
)
def test_each_question_leads_on_to_what_a_tree_adds(odds: float, rank: float, adds: float) -> None:
    assert summed([tree_of(TREE)], {"odds": odds, "rank": rank}) == adds


def test_trees_add_up() -> None:
    assert summed([tree_of("-2.5"), tree_of(TREE), tree_of("1")], {"odds": 2, "rank": 0}) == -1.1
    assert summed([], {}) == 0


def test_a_tree_is_read_as_it_is_written() -> None:
    assert written(tree_of(TREE)) == TREE
    assert tree_of(TREE) == ("odds", 1.5, ("rank", 0.0, 0.2, -0.1), 0.4)
    assert written(tree_of("-2.5")) == "-2.5"
