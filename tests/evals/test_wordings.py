"""Notes that were worded freely: each set is whole, and what is learnt from most of them holds on the others."""

from collections import Counter

import pytest

from evals.pairs import Example, tried
from evals.wordings import HELD_OUT, names, notes
from perdure.compose.weights import weights


@pytest.mark.parametrize("name", sorted({*names()} - {"drawn"}))
def test_a_set_is_whole(name: str) -> None:
    told = notes(name)
    fates = Counter(note.fate for note in told)
    assert len(told) == 5_000
    assert (fates["base"], fates["newer"]) == (fates["duplicate"], fates["outdated"]) == (333, 333)
    assert fates["stale"] == 334
    groups = Counter(note.group for note in told if note.group >= 0)
    assert {*groups.values()} == {2}
    assert len(groups) == 666


@pytest.mark.parametrize("name", HELD_OUT)
def test_weights_do_well_on_what_nothing_was_learnt_from(name: str) -> None:
    result = tried(name, weights(), "none")
    assert result.outdated > 200
    assert result.duplicates > 180  # those of the very same words are left to rules
    assert result.touched < 40


def test_an_example_has_what_each_embedder_says() -> None:
    pair = Example(["=a", "near:?", "near:?:0/0", "kin:?:00", "told:1"], (("?", "?"), ("7", "-1")), 1)
    assert pair.by(0) == pair.signs
    assert pair.by(1) == ["=a", "near:7", "near:7:0/0", "kin:-1:00", "told:1"]
