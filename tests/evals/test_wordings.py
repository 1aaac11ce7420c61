"""Notes that were worded freely: each set is whole, and what is learnt from most of them holds on the others."""

from collections import Counter

import pytest

from evals.pairs import Room, tried
from evals.wordings import HELD_OUT, Note, draws, names, notes
from perdure.compose.weights import weights
from perdure.core.memory.settling import Beside

LEAST = {"general": 250, "public": 120, "forty": 80}
"""Contradictions of which so many are found by words alone; in the last two, pairs share few words."""


@pytest.mark.parametrize("name", sorted({*names(), *draws()} - {"drawn"}))
def test_a_set_is_whole(name: str) -> None:
    told = notes(name)
    fates = Counter(note.fate for note in told)
    assert len(told) == 5_000
    assert (fates["base"], fates["newer"]) == (fates["duplicate"], fates["outdated"]) == (333, 333)
    assert fates["stale"] == 334
    groups = Counter(note.group for note in told if note.group >= 0)
    assert {*groups.values()} == {2}
    assert len(groups) == 666


@pytest.mark.parametrize("name", LEAST)
def test_weights_do_well_on_what_nothing_was_learnt_from(name: str) -> None:
    assert name in HELD_OUT
    result = tried(name, weights(), "none")
    assert result.outdated > LEAST[name]
    assert result.duplicates > 140  # those of the very same words are left to rules
    assert result.touched < 90


def test_of_two_notes_it_is_known_what_they_are() -> None:
    told = [
        Note("a", 3, "base", 1, 0.5, None),
        Note("b", 2, "duplicate", 1, 0.5, None),
        Note("c", 3, "outdated", 2, 0.5, None),
        Note("d", 2, "newer", 2, 0.5, None),
        Note("e", 2, "other", -1, 0.5, None),
        Note("f", 2, "other", -1, 0.5, None),
    ]
    shown = Room(told, Beside([]))
    assert [verdict for _, verdict in shown.planted()] == [1, 2]
    assert [shown.verdict(0, 1), shown.verdict(2, 3), shown.verdict(1, 2), shown.verdict(4, 5)] == [1, 2, 0, 0]
