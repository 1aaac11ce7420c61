"""What a query asks, and what a text offers."""

import pytest

from perdure.core.memory.asking import asked, traits
from perdure.core.memory.words import words


def test_an_author_who_is_named_is_no_term() -> None:
    question = asked("What did Ada's sister paint?", ["Ada", "Ben"])
    assert question.author == "Ada"
    assert question.terms == ("sister", "paint")


def test_two_authors_are_nobody_in_particular() -> None:
    question = asked("Where did Ada and Ben meet?", ["Ada", "Ben"])
    assert question.author is None
    assert question.terms == ("meet",)


def test_the_better_match_is_the_author() -> None:
    assert asked("what does Jane Roe like", ["Jane Poe", "Jane Roe"]).author == "Jane Roe"
    assert asked("what does Jane like", ["Jane Poe", "Jane Roe"]).author is None


def test_terms_are_told_once_and_in_order() -> None:
    assert asked("boats, harbours, boats", []).terms == ("boat", "harbour")


@pytest.mark.parametrize(
    "query", ["When was it?", "how long did it take", "In which year?", "since when", "What day is it on?"]
)
def test_a_question_for_a_time_is_known(query: str) -> None:
    assert asked(query, []).when


@pytest.mark.parametrize("query", ["What is the dog called?", "who was there", "Where is it?", "Which one?", "to whom"])
def test_a_question_for_a_name_is_known(query: str) -> None:
    assert asked(query, []).who


@pytest.mark.parametrize("query", ["whenever", "Why?", "how many", ""])
def test_other_questions_are_neither(query: str) -> None:
    assert not asked(query, []).when
    assert not asked(query, []).who


def offered(text: str) -> tuple[bool, bool, float]:
    found = traits(text, words(text))
    return found.question, found.time, found.names


def test_a_text_is_read_for_signs() -> None:
    assert offered("We went last week.") == (False, True, 0.0)
    assert offered("Did you see it? ") == (True, False, 0.0)
    assert offered("Then we met Ada, Ben and Cy in Delft.") == (False, False, 1.0)
    assert offered("") == (False, False, 0.0)


def test_the_first_word_of_a_sentence_is_no_name() -> None:
    assert offered("Boats came. Lights shone! Nobody cared")[2] == 0.0
