"""Two voices about a pair: what was counted, and what a reader says."""

import math

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.pairing import NEVER
from perdure.core.memory.rereading import FAR, bound, either, sure, together

VOICES = (-0.5, 0.8, 0.7)
ODDS = st.floats(-50, 50)


def test_whoever_speaks_louder_for_same_or_newer_says_what_it_is() -> None:
    assert together(VOICES, 3.0, (4.0, 1.0)).verdict == "same"
    assert together(VOICES, 3.0, (1.0, 4.0)).verdict == "newer"


def test_what_is_never_the_same_is_newer_as_far_as_that_was_read() -> None:
    assert together(VOICES, 3.0, (NEVER, 4.0)) == together(VOICES, 3.0, (-99.0, 4.0))


@given(ODDS, ODDS, ODDS, ODDS)
def test_more_odds_are_never_less_sure_and_one_voice_alone_has_its_bound(
    counted: float, more: float, same: float, newer: float
) -> None:
    low, high = sorted((counted, more))
    found = [together(VOICES, odds, (same, newer)).sure for odds in (low, high)]
    assert 0 <= found[0] <= found[1] <= 1
    assert -FAR <= bound(counted) <= FAR
    assert together(VOICES, 1e9, (same, newer)) == together(VOICES, FAR, (same, newer))


@given(ODDS, ODDS)
def test_either_is_at_least_the_likelier_of_both(same: float, newer: float) -> None:
    assert max(same, newer) <= either((same, newer)) <= max(same, newer) + math.log(2) + 1e-9


def test_even_odds_are_half_sure() -> None:
    assert sure(0.0) == 0.5
    assert 0 <= sure(-1e9) < sure(-1.0) < sure(1.0) < sure(1e9) <= 1
