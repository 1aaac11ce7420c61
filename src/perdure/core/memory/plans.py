"""What a space may hold and be asked: plans with quotas."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import Invalid, QuotaReached
from perdure.core.memory.importance import DAY

Cadence: TypeAlias = Literal["weekly", "daily", "never"]
_HOUR: Final = DAY // 24
_SECOND: Final = _HOUR // 3_600


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas; None is no limit. `on_demand` says whether consolidation may be asked for."""

    name: str
    memories: int | None = None
    queries: int | None = None
    cadence: Cadence = "daily"
    on_demand: bool = True


PLANS: Final[dict[str, Plan]] = {
    plan.name: plan
    for plan in (
        Plan(name="free", memories=100, queries=50, cadence="weekly", on_demand=False),
        Plan(name="standard", memories=5_000, queries=500, cadence="daily", on_demand=False),
        Plan(name="premium", memories=50_000, cadence="daily"),
        Plan(name="unlimited"),
    )
}
DEFAULT: Final = "unlimited"
ASKING: Final = 50_000
"""Micro-dollars that one consolidation may spend on asking a model, unless somebody says otherwise."""


def plan_of(name: str) -> Plan:
    """The plan of a name, or `Invalid`."""
    found = PLANS.get(name or DEFAULT)
    if found is None:
        raise Invalid(f"there is no plan {name[:80]!r}; there are {', '.join(PLANS)}", plan=name[:80])
    return found


def must_hold(plan: Plan, kept: int, more: int, space: str) -> None:
    """`QuotaReached` when so many more do not fit."""
    if plan.memories is not None and kept + more > plan.memories:
        raise QuotaReached(
            f"{space} holds {kept} of the {plan.memories} memories of plan {plan.name}: {more} more do not fit; forget "
            f"or archive some{', consolidate' if plan.on_demand else ''}, or choose a larger plan",
            space=space,
            plan=plan.name,
            quota="memories",
            limit=plan.memories,
            used=kept,
        )


def must_hold_again(plan: Plan, kept: int, back: int, space: str) -> None:
    """`QuotaReached` when so many do not fit that would all come back at once."""
    if plan.memories is not None and back > 0 and kept + back > plan.memories:
        raise QuotaReached(
            f"{back} memories would come back, and {space} hold {kept + back}: plan {plan.name} has room for "
            f"{plan.memories}; nothing was changed: forget or archive some, or choose a larger plan",
            space=space,
            plan=plan.name,
            quota="memories",
            limit=plan.memories,
            used=kept,
        )


def must_answer(plan: Plan, queries: Mapping[str, int], space: str, now: int) -> None:
    """`QuotaReached` when the queries of this day are used up; with the next day they are counted anew."""
    asked, reset = queries.get(str(now // DAY), 0), DAY - now % DAY
    if plan.queries is not None and asked >= plan.queries:
        raise QuotaReached(
            f"{space} was asked {asked} times today, as often as plan {plan.name} allows; ask again in "
            f"{-(-reset // _HOUR)} h, or choose a larger plan",
            space=space,
            plan=plan.name,
            quota="queries",
            limit=plan.queries,
            used=asked,
            retry_after=-(-reset // _SECOND),
        )


def must_consolidate(plan: Plan, space: str) -> None:
    """`QuotaReached` when consolidation comes on schedule only."""
    if not plan.on_demand:
        raise QuotaReached(
            f"plan {plan.name} has no consolidation on demand: a server does it ({plan.cadence}); `perdure sweep` does "
            "where there is no server; wait for that, try it dry, or choose a larger plan",
            space=space,
            plan=plan.name,
            quota="consolidation",
        )
