"""Slices: what a parent sets aside of its budget for a child, which gets an account of its own with that much.

While a slice is open, all of it is reserved in the parent, so that parent and child together stay within the parent's
caps. Closing it settles what the child took; the rest returns, and nothing can be reserved from it any more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session import budget, caps
from perdure.core.session import commands as do
from perdure.core.session.budget import COST, LIMITS, ROUNDS, TOKENS, Account
from perdure.core.session.caps import Moves

PURPOSE: Final = "slice"


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """How much a child may take: micro-dollars, and tokens and rounds where they are limited."""

    cost: int = 0
    tokens: int | None = None
    rounds: int | None = None

    def caps(self) -> dict[str, int]:
        """The caps of the child's account; `Invalid` when one of them is no amount."""
        found = {COST: self.cost, TOKENS: self.tokens, ROUNDS: self.rounds}
        return {limit: budget.amount(cap, limit) for limit, cap in found.items() if cap is not None}


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What ends a slice: the settlement in the parent, and what closes the child's account along with it. `guard` comes
    first and changes nothing: it is refused if more was set aside in the slice meanwhile.
    """

    settle: do.Settle
    guard: Moves
    moves: Moves


def account_of(parent: str, name: str) -> str:
    """The account of a slice. It is named after the parent: no configuration of the child's raises its caps."""
    return f"{parent}#{PURPOSE}:{name}"


def opening(parent: str, name: str, wanted: Slice, limited: Iterable[str]) -> tuple[do.Reserve, Moves]:
    """What sets a slice aside in the parent, and what gives the child's account its caps. `limited` is what is capped
    for the parent: the slice has to say how much of each the child may have.
    """
    given = wanted.caps()
    if not name or "#" in name:
        raise Invalid("a slice needs a name without #; the child's id is a good one", name=name)
    for limit in limited:
        if limit not in given:
            told = f"{limit} are limited here; say how many of them the slice {name!r} has"
            raise Invalid(told, limit=limit)
    reserve = do.Reserve(
        reservation=name,
        amount=given[COST],
        purpose=PURPOSE,
        tokens=given.get(TOKENS, 0),
        rounds=given.get(ROUNDS, 0),
    )
    return reserve, caps.opened(account_of(parent, name), given)


def closing(parent: str, name: str, found: Mapping[str, Account]) -> Closing:
    """How a slice ends whose account stands so. What is still set aside in it counts as used, as an estimate."""
    took = {limit: found[limit].spent + found[limit].reserved if limit in found else 0 for limit in LIMITS}
    account = account_of(parent, name)
    left = {limit: part.left for limit, part in found.items() if part.left and not part.paused}
    estimated = COST in found and found[COST].reserved > 0
    settle = do.Settle(reservation=name, cost=took[COST], estimated=estimated, tokens=took[TOKENS], rounds=took[ROUNDS])
    moves = caps.opened(account, {limit: took[limit] for limit in found})
    return Closing(settle=settle, guard=caps.fitting(account, left), moves=moves)
