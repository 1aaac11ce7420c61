"""Texts become terms that forms of one word share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.words import STOP, sentences, stem, terms, words


@pytest.mark.parametrize(
    "forms",
    [
        "walk walks walked walking",
        "city cities",
        "box boxes",
        "try tries tried trying",
        "stop stops stopped stopping",
        "hope hopes hoped hoping",
        "write writes wrote written writing",
        "child children",
        "celebrate celebrates celebrated celebrating celebration",
        "quick quickly",
        "happy happiness happily",
        "class classes",
        "agree agrees agreed",
    ],
)
def test_forms_of_one_word_meet(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "pair", ["sing single", "bus busy", "new news", "ring rung", "thing think", "paint pain", "red read"]
)
def test_different_words_do_not_meet(pair: str) -> None:
    one, other = pair.split()
    assert stem(one) != stem(other)


def test_short_words_and_words_of_other_scripts_stay_whole() -> None:
    assert [stem(word) for word in ("is", "gas", "日本", "дома", "mp3s")] == ["is", "gas", "日本", "дома", "mp3s"]


def test_terms_leave_out_what_says_nothing() -> None:
    assert terms("What did she say about the harbour's lights?") == ["harbour", "light"]
    assert terms("What is it that they did?") == []
    assert terms("") == []


def test_accents_and_apostrophes_are_no_difference() -> None:
    assert words("Café Zürich: the baker’s") == words("Cafe Zurich: the baker's")


def test_numbers_and_versions_stay_together() -> None:
    assert words("version 3.14, at 10.5%") == ["version", "3.14", "at", "10.5"]


def test_stop_words_are_written_as_words_finds_them() -> None:
    assert all(words(word) == [word] for word in STOP)


def test_sentences_end_where_they_end() -> None:
    assert sentences("One. Two? Three!\nFour") == ["One.", "Two?", "Three!", "Four"]
    assert sentences("no end") == ["no end"]
    assert sentences(" \n ") == []


@given(st.text())
def test_terms_are_never_empty_nor_very_long(text: str) -> None:
    assert all(0 < len(term) <= 41 for term in terms(text))


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_case_is_no_difference(text: str) -> None:
    assert terms(text.upper()) == terms(text.lower())
