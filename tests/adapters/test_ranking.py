"""How texts and vectors are ranked: the words are perdure's, the scores are ordered as one would expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import errors
from perdure.adapters.parts.ranking import bm25, cosine, document, packed, words
from perdure.projections import text


@given(st.text())
def test_words_are_those_of_every_other_search(said: str) -> None:
    assert words(said) == text.words(said)


def test_a_rare_word_counts_more_than_a_common_one_and_more_often_more_than_once() -> None:
    documents = [document([each]) for each in ("tea cup", "tea pot", "tea tea", "coffee cup", "a b")]
    scores = bm25("tea", documents)
    assert scores[2] > scores[0] == scores[1] > scores[3] == scores[4] == 0
    assert bm25("pot", documents)[1] > bm25("cup", documents)[0] > bm25("tea", documents)[0]


def test_of_two_texts_that_say_a_word_once_the_shorter_one_is_nearer() -> None:
    short, long = bm25("tea", [document(["Tea!"]), document(["tea", "and many other things"])])
    assert short > long > 0


@given(st.lists(st.text("ab \u00df", max_size=8), max_size=6), st.text("ab \u00df"))
def test_a_document_scores_exactly_if_it_has_a_word_of_the_question(texts: list[str], question: str) -> None:
    scores = bm25(question, [document([each]) for each in texts])
    asked = set(words(question))
    assert [score > 0 for score in scores] == [bool(asked & set(words(each))) for each in texts]


numbers = st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=3, max_size=3)


@given(numbers, numbers)
def test_likeness_lies_between_opposite_and_same(one: list[float], other: list[float]) -> None:
    a, b = packed(one, 3), packed(other, 3)
    assert abs(cosine(a, b)) <= 1 + 1e-6
    assert cosine(a, b) == pytest.approx(cosine(b, a))
    assert cosine(a, a) == pytest.approx(1 if any(one) else 0, abs=1e-6)
    assert cosine(a, packed([-number for number in one], 3)) == pytest.approx(-1 if any(one) else 0, abs=1e-6)


@pytest.mark.parametrize("vector", [[1.0], [1.0, float("nan")], [float("inf"), 1.0]])
def test_what_is_no_vector_is_refused(vector: list[float]) -> None:
    with pytest.raises(errors.Invalid):
        packed(vector, 2)
