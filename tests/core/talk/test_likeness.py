"""Likeness: crude, but the same everywhere, and a sketch that finds what is near."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.talk.likeness import BITS, DIMENSIONS, Vector, apart, embedding, likeness, needed, vector

WORDS = st.text("abcdeé 漢?!", min_size=1, max_size=60)
DENSE = st.lists(st.floats(-1, 1).filter(lambda value: not 0 < abs(value) < 1e-3), min_size=8, max_size=8)


def of(text: str) -> Vector:
    found = vector(embedding(text))
    assert found is not None
    return found


@given(WORDS)
def test_an_embedding_is_within_its_dimensions_and_a_vector_has_length_one(text: str) -> None:
    told = embedding(text)
    assert all(0 <= dimension < DIMENSIONS for dimension in told)
    found = vector(told)
    assert (found is None) is (not told)
    if found is not None:
        assert math.isclose(likeness(found, found), 1.0)
        assert apart(found, found) == 0
        assert 0 <= found.sketch < 1 << BITS


@given(WORDS.filter(embedding), WORDS.filter(embedding))
def test_likeness_has_no_direction_and_its_bounds(one: str, other: str) -> None:
    first, second = of(one), of(other)
    assert math.isclose(likeness(first, second), likeness(second, first), abs_tol=1e-9)
    assert -1e-9 <= likeness(first, second) <= 1 + 1e-9
    assert 0 <= apart(first, second) == apart(second, first) <= BITS


@given(DENSE)
def test_what_points_the_other_way_differs_in_most_bits(values: list[float]) -> None:
    one, other = vector(values), vector([-value for value in values])
    if one is not None and other is not None:
        assert math.isclose(likeness(one, other), -1.0)
        assert apart(one, other) >= BITS // 2


@pytest.mark.parametrize("told", [{}, [], [0.0, 0.0], {3: 0.0}, [math.inf], [math.nan]])
def test_what_points_nowhere_is_no_vector(told: dict[int, float] | list[float]) -> None:
    assert vector(told) is None


def test_a_vector_may_be_told_whole_or_by_what_is_not_zero() -> None:
    assert vector([0.0, 3.0, 0.0, 4.0]) == vector({3: 4.0, 1: 3.0})


def test_the_embedding_is_the_same_on_every_machine() -> None:
    found = {dimension: round(value, 6) for dimension, value in embedding("So so").items()}
    assert found == {1829: 1.414214, 1845: 1.0, 2288: 1.0, 3632: 0.353553, 3973: 0.353553}
    assert of("So so").sketch == 0x24057A78963061D9FE3A912F7E7F26CB


QUESTION = "What is the capital of France?"


@pytest.mark.parametrize("other", ["what is the capital of FRANCE", "What is the capital of France, please?"])
def test_the_same_question_in_another_spelling_is_near_enough(other: str) -> None:
    assert likeness(of(QUESTION), of(other)) >= needed(0.9, QUESTION)


@pytest.mark.parametrize(
    "other", ["What is the capital of Spain?", "What is not the capital of France?", "Who was the king of France?"]
)
def test_another_question_is_not(other: str) -> None:
    assert likeness(of(QUESTION), of(other)) < needed(0.9, QUESTION)


@given(st.lists(st.text("abcdefghij", min_size=2, max_size=9), min_size=2, max_size=60, unique=True), st.data())
def test_a_word_more_or_less_is_another_question_however_long_it_is(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    long, longer = " ".join(words), " ".join([*words[:at], "not", *words[at:]])
    assert likeness(of(long), of(longer)) < min(needed(0.9, long), needed(0.9, longer))


def test_the_nearest_by_sketch_are_the_nearest() -> None:
    nouns = ["Rome", "Oslo", "Lima", "Cairo", "Delhi", "Tokyo", "Paris", "Quito"]
    verbs = ["reach", "leave", "paint", "describe", "measure", "visit"]
    known = [of(f"How do I {verb} {noun} by {other}?") for verb in verbs for noun in nouns for other in nouns]
    mine = of("how do I paint Lima by OSLO")
    nearest = sorted(known, key=lambda other: apart(mine, other))[:16]
    assert max(likeness(mine, other) for other in nearest) == max(likeness(mine, other) for other in known)
