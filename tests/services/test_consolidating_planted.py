"""Consolidation of planted faults, a small share of what `python -m evals.planted` does."""

import pytest

from evals.planted import COUNT, SHARE, evaluate, planted


@pytest.mark.parametrize("seed", [1, 2])
async def test_planted_faults_are_handled_and_nothing_else_is_touched(seed: int) -> None:
    result = await evaluate(planted(600, seed))
    assert result.planted == 120
    assert result.good, result.missed
    assert result.exact


def test_one_in_five_is_planted_and_the_same_seed_plants_the_same() -> None:
    memories = planted(COUNT, 5)
    assert memories == planted(COUNT, 5)
    fates = [one.fate for one in memories]
    assert len(fates) == COUNT
    assert sum(fate in ("duplicate", "outdated", "stale") for fate in fates) == COUNT * SHARE
