"""Consolidation of planted faults, a small share of what `python -m evals.planted` does."""

import pytest

from evals.asking import ask_of
from evals.drawing import COUNT, SHARE, drawn
from evals.planted import evaluate, truth, worded
from perdure.compose import embedded
from perdure.compose.memory import MemorySettings
from perdure.core.memory.parts import vault
from perdure.core.memory.plans import ASKING
from perdure.core.memory.requests import Keeping
from perdure.services.asking import ASKED


@pytest.mark.parametrize("seed", [1, 2])
async def test_planted_faults_are_handled_and_nothing_else_is_touched(seed: int) -> None:
    result = await evaluate(drawn(600, seed))
    assert result.planted == 120
    assert result.good, result.missed
    assert result.exact


def test_one_in_five_is_planted_and_the_same_seed_plants_the_same() -> None:
    memories = drawn(COUNT, 5)
    assert memories == drawn(COUNT, 5)
    fates = [one.fate for one in memories]
    assert len(fates) == COUNT
    assert sum(fate in ("duplicate", "outdated", "stale") for fate in fates) == COUNT * SHARE


async def test_whoever_knows_better_is_asked_about_what_is_in_doubt_and_heeded() -> None:
    memories = worded("general")
    alone = await evaluate(memories, reader="none")
    asking = await evaluate(memories, reader="none", model=truth(memories))
    assert asking.good, asking.missed
    assert (asking.handled > alone.handled, asking.touched < alone.touched) == (True, True)
    assert not alone.asked
    assert 0 < len(asking.asked) <= ASKED
    assert 0 < asking.cost <= ASKING


async def test_nobody_is_asked_who_may_cost_nothing() -> None:
    services = embedded(":memory:", memory=MemorySettings(embedder="none", reader="none", asking=0))
    asked = ask_of(services, {})
    gates = ("The garden gate squeaks loudly", "The garden gate creaks loudly")
    await services.memories.keep(vault("ana"), [Keeping(content=text) for text in gates])
    assert (await services.consolidating.run(vault("ana"))).phase == "ended"
    await services.store.close()
    assert asked.asked == []
