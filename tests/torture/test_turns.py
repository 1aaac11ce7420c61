"""Turns under torture, the short version; the long one is `make torture-turns`."""

import pytest

from torture.turns import QUICK_KILLS, besiege


@pytest.mark.slow
def test_nothing_is_lost_or_charged_twice_when_talkers_are_killed() -> None:
    siege = besiege(QUICK_KILLS, seed=20_261_116, minutes=4)
    assert siege.problems == []
    assert siege.kills == QUICK_KILLS
