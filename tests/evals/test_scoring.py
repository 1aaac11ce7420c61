"""The maths of the measures, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scoring import fitting, mean, median, recall, reciprocal

FOUND = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("evidence", "k", "share"),
    [
        ({"a"}, 1, 1.0),
        ({"b"}, 1, 0.0),
        ({"a", "d"}, 3, 0.5),
        ({"a", "d"}, 4, 1.0),
        ({"a", "x", "y"}, 4, 1 / 3),
        ({"x"}, 4, 0.0),
    ],
)
def test_recall_is_the_share_of_the_evidence_among_the_first(evidence: set[str], k: int, share: float) -> None:
    assert recall(FOUND, evidence, k) == share


def test_what_is_found_twice_counts_once() -> None:
    assert recall(["a", "a", "b"], {"a", "b"}, 2) == 0.5


@pytest.mark.parametrize(("evidence", "value"), [({"a"}, 1.0), ({"c", "d"}, 1 / 3), ({"x"}, 0.0)])
def test_the_first_evidence_decides_the_reciprocal_rank(evidence: set[str], value: float) -> None:
    assert reciprocal(FOUND, evidence) == value


@pytest.mark.parametrize(("budget", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (40, 4), (99, 4)])
def test_those_fit_that_come_before_the_budget_is_used_up(budget: int, count: int) -> None:
    assert fitting(FOUND, dict.fromkeys(FOUND, 10), budget) == count


def test_one_that_does_not_fit_ends_it() -> None:
    assert fitting(FOUND, {"a": 5, "b": 50, "c": 5, "d": 5}, 20) == 1


def test_means_and_medians() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert median([6.0, 1.0, 2.0]) == 2.0
    assert median([6.0, 1.0, 2.0, 4.0]) == 3.0
    assert mean([]) == median([]) == 0.0


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_more_that_is_looked_at_never_lowers_recall(found: list[str], evidence: set[str]) -> None:
    shares = [recall(found, evidence, k) for k in range(len(found) + 1)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert (reciprocal(found, evidence) > 0) == (shares[-1] > 0)
