"""The cheapest tier that is durable enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.tiers import CRITICALITIES, DEFAULT_COSTS, NEEDED, Cost, Tier, Use, choose, cost

AMOUNTS = st.floats(0, 1e6)
COSTS = st.builds(Cost, write=AMOUNTS, read=AMOUNTS, storage=AMOUNTS)
USES = st.builds(Use, writes=AMOUNTS, reads=AMOUNTS, size=AMOUNTS, retention=AMOUNTS)
AVAILABLE = st.dictionaries(st.sampled_from(Tier), COSTS, min_size=1)


@pytest.mark.parametrize(
    ("criticality", "tier"),
    [("ephemeral", Tier.L0), ("standard", Tier.L1), ("critical", Tier.L2), ("global", Tier.L3), (None, Tier.L1)],
)
def test_each_criticality_has_its_tier_by_default(criticality: str | None, tier: Tier) -> None:
    assert choose(criticality) is tier


@given(st.sampled_from(CRITICALITIES), AVAILABLE, USES)
def test_the_choice_is_durable_enough_and_nothing_durable_enough_is_cheaper(
    criticality: str, available: dict[Tier, Cost], use: Use
) -> None:
    needed = NEEDED.get(criticality, Tier.L1)
    enough = {tier: price for tier, price in available.items() if tier.rank >= needed.rank}
    if not enough:
        with pytest.raises(Invalid):
            choose(criticality, available, use)
        return
    chosen = choose(criticality, available, use)
    assert chosen in enough
    assert cost(use, enough[chosen]) == min(cost(use, price) for price in enough.values())


def test_what_is_kept_long_in_memory_is_dear() -> None:
    forever = Use(writes=10, reads=10, size=1e6, retention=365 * 86_400)
    assert choose("ephemeral", DEFAULT_COSTS, forever) is Tier.L1


def test_of_equals_the_most_durable_is_chosen() -> None:
    same = Cost(write=1, read=1, storage=0)
    assert choose("standard", {Tier.L1: same, Tier.L2: same}) is Tier.L2


def test_an_unknown_criticality_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="use one of ephemeral, standard"):
        choose("vital")
