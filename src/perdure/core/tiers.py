"""How durable a session has to be, and the cheapest tier that is so.

L0 is gone with the process, L1 survives its crash, L2 the loss of its machine, L3 the loss of a region. A session says
how critical it is; `auto` leaves it to the cost of what it will do.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from perdure.core.errors import Invalid


class Tier(Enum):
    """Where a session lasts, from the least durable to the most."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"
    L3 = "L3"

    @property
    def rank(self) -> int:
        """How durable; more is more."""
        return _RANKS[self]


_RANKS: Final = {tier: rank for rank, tier in enumerate(Tier)}
AUTO: Final = "auto"
DEFAULT: Final = "standard"
NEEDED: Final[Mapping[str, Tier]] = {
    "ephemeral": Tier.L0,
    "standard": Tier.L1,
    "critical": Tier.L2,
    "global": Tier.L3,
}
"""What each criticality asks for at least."""
CRITICALITIES: Final = (*NEEDED, AUTO)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a tier costs, in any unit that is the same for all: per write, per read, per byte and second."""

    write: float
    read: float
    storage: float


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is expected to do: writes and reads in its life, its size in bytes, its retention in seconds."""

    writes: float = 100.0
    reads: float = 300.0
    size: float = 200_000.0
    retention: float = 30 * 86_400.0


EXPECTED: Final[Mapping[str, Use]] = {"ephemeral": Use(writes=50, reads=150, size=100_000, retention=3_600)}
"""What sessions of a criticality usually do, where nobody says."""
DEFAULT_COSTS: Final[Mapping[Tier, Cost]] = {
    Tier.L0: Cost(write=0.1, read=0.1, storage=2e-9),
    Tier.L1: Cost(write=1.0, read=0.3, storage=4e-12),
    Tier.L2: Cost(write=3.0, read=1.0, storage=2e-11),
    Tier.L3: Cost(write=12.0, read=1.5, storage=8e-11),
}
"""Relative costs: an fsync on a local disk is the unit, memory is dear to keep, a quorum dear to write."""


def asked_anew(before: str | None, after: str | None) -> str | None:
    """What a session asks for from now on, if that is something else than before; saying nothing is asking, too."""
    return None if before == after else after or DEFAULT


def needed_by(criticality: str) -> Tier:
    """The least durable tier that will do; `Invalid` for what is not a criticality."""
    needed = Tier.L1 if criticality == AUTO else NEEDED.get(criticality)
    if needed is None:
        known = ", ".join(CRITICALITIES)
        raise Invalid(f"{criticality!r} is not a criticality; use one of {known}", criticality=criticality)
    return needed


def cost(use: Use, price: Cost) -> float:
    """What a session costs on a tier: write cost · writes + read cost · reads + storage cost · size · retention."""
    return price.write * use.writes + price.read * use.reads + price.storage * use.size * use.retention


def choose(
    criticality: str | None,
    available: Mapping[Tier, Cost] | None = None,
    use: Use | None = None,
    default: str = DEFAULT,
) -> Tier:
    """The cheapest of the available tiers that is durable enough; of equals, the most durable.

    `auto` asks for no more than crash resilience and lets the cost decide. `Invalid` when no tier is durable enough:
    a session never silently gets less than it asked for.
    """
    costs = DEFAULT_COSTS if available is None else available
    wanted = criticality or default
    needed = needed_by(wanted)
    enough = [tier for tier in costs if tier.rank >= needed.rank]
    if not enough:
        there = ", ".join(tier.value for tier in costs) or "none"
        raise Invalid(
            f"a {wanted} session needs tier {needed.value} or better, here there is {there}; add one or ask for less",
            criticality=wanted,
            needed=needed.value,
        )
    expected = use or EXPECTED.get(wanted) or Use()
    return min(enough, key=lambda tier: (cost(expected, costs[tier]), -tier.rank))
