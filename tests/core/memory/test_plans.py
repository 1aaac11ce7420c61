"""Plans: what they allow up to the last one, and what they say then."""

import pytest

from perdure.core.errors import Invalid, QuotaReached
from perdure.core.memory.importance import DAY
from perdure.core.memory.plans import DEFAULT, PLANS, must_answer, must_consolidate, must_hold, plan_of

HOUR = 3_600_000_000


def test_the_tiers_are_those_that_were_promised() -> None:
    told = {name: (plan.memories, plan.queries, plan.cadence, plan.on_demand) for name, plan in PLANS.items()}
    assert told == {
        "free": (100, 50, "weekly", False),
        "standard": (5_000, 500, "daily", False),
        "premium": (50_000, None, "daily", True),
        "unlimited": (None, None, "daily", True),
    }


def test_a_plan_is_found_by_its_name_and_no_name_is_the_usual_one() -> None:
    assert plan_of("free").name == "free"
    assert plan_of("").name == DEFAULT
    with pytest.raises(Invalid, match="free, standard, premium, unlimited") as refusal:
        plan_of("golden")
    assert refusal.value.fields == {"plan": "golden"}


@pytest.mark.parametrize("name", ["free", "standard", "premium"])
def test_the_last_memory_fits_and_the_next_does_not(name: str) -> None:
    plan = plan_of(name)
    most = plan.memories or 0
    must_hold(plan, most - 1, 1, "vault/ana")
    must_hold(plan, 0, most, "vault/ana")
    must_hold(plan, most, 0, "vault/ana")
    for kept, more in ((most, 1), (0, most + 1)):
        with pytest.raises(QuotaReached, match="forget or archive") as refusal:
            must_hold(plan, kept, more, "vault/ana")
        told = {"space": "vault/ana", "plan": name, "quota": "memories", "limit": most, "used": kept}
        assert refusal.value.fields == told
        assert ("consolidate" in refusal.value.message) == plan.on_demand  # nobody is told to do what they may not


def test_the_last_query_is_answered_and_the_next_is_told_when_to_come_back() -> None:
    plan = plan_of("free")
    must_answer(plan, {"7": 49, "6": 50}, "vault/ana", 7 * DAY)
    for micros, hours, seconds in ((5 * HOUR, 5, 5 * 3600), (5 * HOUR + 1, 6, 5 * 3600 + 1)):
        with pytest.raises(QuotaReached, match=f"ask again in {hours} h") as refusal:
            must_answer(plan, {"7": 50}, "vault/ana", 8 * DAY - micros)
        assert refusal.value.fields["quota"] == "queries"
        assert refusal.value.fields["retry_after"] == seconds
        assert hours * 3600 >= seconds, "nobody is told to come back before they are let in"
    with pytest.raises(QuotaReached) as refusal:
        must_answer(plan, {"7": 50}, "vault/ana", 8 * DAY - 1)
    assert refusal.value.fields["retry_after"] == 1


def test_consolidation_on_demand_is_for_those_who_have_it() -> None:
    for name, plan in PLANS.items():
        if plan.on_demand:
            must_consolidate(plan, "vault/ana")
        else:
            with pytest.raises(QuotaReached, match=rf"a server does it \({plan.cadence}\).*`perdure sweep`") as refusal:
                must_consolidate(plan, "vault/ana")
            assert refusal.value.fields == {"space": "vault/ana", "plan": name, "quota": "consolidation"}


def test_without_limits_nothing_is_refused() -> None:
    must_hold(plan_of("unlimited"), 10**9, 10**9, "lethe")
    must_answer(plan_of("premium"), {"0": 10**9}, "lethe", 1)
