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
        ("In an emergency, call her father.", set()),
        ("Her father calls in an emergency", {"father"}),
        ("The scarf hurts his left knee.", {"left"}),
        ("", set()),
    ],
)
def test_marks_are_kin_sides_and_generations(text: str, marks: set[str]) -> None:
    assert marks_of(text).marks == marks


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("Line A was closed", {"A"}),
        ("What I want is a plan B.", {"B"}),
        ("Pump A's filter is clogged", {"A"}),
        ("Pump B’s filter is clogged", {"B"}),
        ("PUMP A IS OFFLINE", {"A"}),
        ("PUMP B NEEDS OIL", {"B"}),
        ("B pump is noisy", {"B"}),
        ("Pumps A and B are offline", {"A", "B"}),
        ("Valve B-2 and unit (C) are shut", {"C"}),
        ("THIS IS A TEST, AND I WROTE IT", set()),
        ("A pump is noisy", set()),
        ("I think Ana's O-ring is fine", set()),
        ("Locker 9 belongs to James O'Brien", set()),
    ],
)
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
        ("Ana's emergency contact is her father.", "Ana changed her emergency contact to her flatmate.", True),
        ("Ana's spouse is Sam", "Sam and Ana are a married couple", True),
        ("Ana’s flatmate is Zoe", "Ana shares a flat with Zoe", True),
        ("Ana's spouse is Sam", "Ana's sister is Sam", False),
        ("Ana's roommate is Zoe", "Ana's cousin Zoe lives in Rome", False),
    ],
)
def test_two_fit_when_neither_is_marked_by_what_the_other_lacks(one: str, other: str, fit: bool) -> None:
    assert marks_of(one).fit(marks_of(other)) is fit
    assert marks_of(other).fit(marks_of(one)) is fit


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        ("The flight from Lisbon to Madrid leaves at 9", "The flight from Madrid to Lisbon leaves at 10", False),
        ("The flight to Madrid from Lisbon is late", "The flight from Madrid to Lisbon is late", False),
        ("The bus from New York to Boston is full", "The Boston to New York bus is full", False),
        ("The shuttle from terminal A to terminal B runs", "The shuttle from terminal B to terminal A runs", False),
        ("The ferry from the island to the coast is at 8", "The ferry from the coast to the island is at 9", False),
        ("Swap ETH to USDC", "Swap USDC to ETH", False),
        ("The flight from Lisbon to Madrid leaves at 9", "The flight to Madrid from Lisbon leaves at 10", True),
        ("The flight from Lisbon to Madrid leaves at 9", "The flight from Lisbon to Madrid and back to Lisbon", True),
        ("Ana moved from Lisbon to Porto", "Ana moved back from Porto to Lisbon", True),
        ("Ana prefers Rust to Python", "Ana prefers Python to Rust", True),
        ("The team switched from Slack to Zulip", "The team has now switched from Zulip to Slack", True),
        ("The shop is open from Monday to Friday", "The shop is open from Friday to Monday", True),
        ("The light went from red to green", "The light went from green to red", True),
    ],
)
def test_the_way_back_is_another_way_unless_somebody_changed_back(one: str, other: str, fit: bool) -> None:
    assert marks_of(one).fit(marks_of(other)) is fit
    assert marks_of(other).fit(marks_of(one)) is fit


def test_who_is_named_is_told_by_the_name() -> None:
    assert marks_of("User's neighbour Carol sees Dr Krause").fit(marks_of("Carol goes to Dr Krause first"))
    assert marks_of("User's sister-in-law Simone eats halal").fit(marks_of("Simone eats halal food"))
    assert not marks_of("User's sister-in-law eats halal").fit(marks_of("User eats halal food"))
    assert marks_of("Diego's boy goes to Hill School").fit(marks_of("Diego's son changed schools"))
    assert not marks_of("User's neighbour sees Dr Krause").fit(marks_of("User sees Dr Krause"))
    assert marks_of("Edward's mum has her home in Halifax").fit(marks_of("Edward's mother moved to Malmo"))


def test_a_letter_that_only_one_has_may_be_part_of_a_value() -> None:
    assert marks_of("Hannah uses a Ledger Nano X").fit(marks_of("Hannah uses a Trezor Safe 3"))
    assert not marks_of("Pump A is broken").fit(marks_of("Pump B is broken"))


def test_kin_told_beside_a_name_marks_nobody_else() -> None:
    assert marks_of("Clarissa (User's stepsister) is allergic to dust").fit(
        marks_of("The allergy Clarissa has is to latex")
    )
    assert marks_of("For work, Lena is a librarian").fit(marks_of("Lena (User's second cousin) works as a librarian"))
    assert marks_of("Zainab rides a Brompton").fit(marks_of("The bicycle Zainab (my ex-colleague) has is a Brompton"))
    assert not marks_of("Clarissa's stepsister is allergic to dust").fit(marks_of("Clarissa is allergic to latex"))
    assert not marks_of("The boat (Clarissa's cousin) is sold to Ana").fit(marks_of("The boat is sold to Ana"))


def test_a_gran_is_a_grandmother() -> None:
    assert marks_of("Orson calls on his gran on Sundays").fit(marks_of("Orson's call to his grandmother is on Monday"))
    assert not marks_of("Orson's gran lives in Oslo").fit(marks_of("Orson lives in Rome"))
    assert not marks_of("Orson's grandpa lives in Oslo").fit(marks_of("Orson's grandmother lives in Rome"))
