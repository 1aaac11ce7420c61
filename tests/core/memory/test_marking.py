"""What marks a statement as one about somebody or something else."""

import pytest

from perdure.core.memory.marking import marks_of


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Ana's mother lives in Lisbon", {"mother"}),
        ("The user’s parents moved to Milan", {"parents"}),
        ("His older brother plays the violin", {"brother"}),
        ("Olive's sister-in-law is called Maya", {"sister-in-law"}),
        ("Ana's left knee was operated on", {"left"}),
        ("John Smith Jr is the dentist", {"jr"}),
        ("Ana left the team", set()),
        ("Ana lives in Lisbon", set()),
        ("Kirsten is the mother of three boys", set()),
        ("", set()),
    ],
)
def test_marks_are_kin_sides_and_generations(text: str, marks: set[str]) -> None:
    assert marks_of(text).marks == marks


@pytest.mark.parametrize(("text", "letters"), [("Line A was closed", {"A"}), ("What I want is a plan B.", {"B"})])
def test_a_letter_may_be_a_name(text: str, letters: set[str]) -> None:
    assert marks_of(text).letters == letters


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        ("User has a daughter named Mia", "User's daughter is called Mia", True),
        ("Ana lives in Lisbon", "Ana's daughter lives in Lisbon", False),
        ("Line A was closed", "Line B was opened", False),
        ("Line A was closed", "Line A is open again", True),
        ("Her left knee hurts", "Her right knee hurts", False),
        ("Ana lives in Lisbon", "Ana moved to Porto", True),
    ],
)
def test_two_fit_when_neither_is_marked_by_what_the_other_lacks(one: str, other: str, fit: bool) -> None:
    assert marks_of(one).fit(marks_of(other)) is fit
    assert marks_of(other).fit(marks_of(one)) is fit
