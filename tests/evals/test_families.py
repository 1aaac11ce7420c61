"""Families of facts: each is whole, and of every two notes it is known what they are."""

import random

from evals.families import Attribute, Family, families, said, told

NAMES = [["Omar"], ["Nadia"], ["Priya Raman", "P. Raman"], ["Tom"]]
KIN = Family(
    "work",
    "people around a project",
    ["Project Fern", "Project Moss"],
    [
        Attribute("lead", "one", NAMES, ["{v} leads {s}", "{s} is led by {v}"], ["{v} took {s} over from {o}"]),
        Attribute("member", "many", NAMES, ["{v} works on {s}", "{s} has {v} on its team"], []),
        Attribute("founder", "fixed", NAMES, ["{v} began {s}", "{s} was begun by {v}"], []),
    ],
)


def test_a_family_is_whole() -> None:
    for family in families():
        assert len({*family.subjects}) == len(family.subjects) >= 5
        assert len(family.attributes) >= 2
        for attribute in family.attributes:
            place = f"{family.name}: {attribute.name}"
            assert attribute.kind in ("one", "many", "fixed"), place
            spellings = [spelling for value in attribute.values for spelling in value]
            assert len(attribute.values) >= 3, place
            assert all(spellings), place
            assert len({*attribute.wordings}) == len(attribute.wordings) >= 5, place
            assert all(text.count("{s}") == text.count("{v}") == 1 for text in attribute.wordings), place
            assert all("{o}" not in text for text in attribute.wordings), place
            assert all("{s}" in text and "{v}" in text for text in attribute.updates), place


def test_all_that_is_told_of_a_family_is_filled_in_and_of_three_kinds() -> None:
    rng = random.Random(3)
    for family in rng.sample(families(), 20):
        pairs = [*told(family, rng)]
        assert {pair.verdict for pair in pairs} <= {0, 1, 2}
        assert not any(mark in text for pair in pairs for text in pair[:2] for mark in ("{s}", "{v}", "{o}"))


def test_the_same_value_repeats_another_one_outdates_and_what_may_be_many_does_neither() -> None:
    for seed in range(20):
        for older, newer, verdict in told(KIN, random.Random(seed)):
            both = {subject for subject in KIN.subjects if subject in older and subject in newer}
            values = [next(at for at, value in enumerate(NAMES) if any(each in text for each in value))
                      for text in (older, newer) if "took" not in text]  # fmt: skip
            kinds = {word for word in ("lea|led|took", "works|team", "beg")
                     if all(any(part in text for part in word.split("|")) for text in (older, newer))}  # fmt: skip
            if verdict == 1:
                assert both
                assert len({*values}) < 2
            if verdict == 2:
                assert both
                assert "works|team" not in kinds
            if verdict == 0 and both and kinds == {"lea|led|took"}:
                raise AssertionError((older, newer))


def test_a_note_begins_with_a_capital_and_takes_one_spelling() -> None:
    assert said("{s} is led by {v}", "the shop", ["Tom"], random.Random(1)) == "The shop is led by Tom"
    spelt = {said("{v} leads {s}", "Fern", ["Priya Raman", "P. Raman"], random.Random(seed)) for seed in range(20)}
    assert spelt == {"Priya Raman leads Fern", "P. Raman leads Fern"}
