"""Caps: how much money, how many tokens and rounds a tree of sessions may take, and what that does to its account.

Each cap of a configuration is kept by the part of the account that counts it. All of them are set together: a part
with a cap tells that the account's owner has been there.
"""

from collections.abc import Iterable, Mapping

from perdure.core.session import budget
from perdure.core.session.budget import LIMITS, Account, AccountMove, Budget
from perdure.core.session.origin import Config

Moves = tuple[AccountMove, ...]


def caps_of(config: Config | None) -> dict[str, int]:
    """The caps a configuration has, by what they limit."""
    if config is None:
        return {}
    found = {limit: getattr(config, f"max_{limit}") for limit in LIMITS}
    return {limit: cap for limit, cap in found.items() if cap is not None}


def admit(config: Config | None) -> dict[str, int]:
    """The caps a configuration has; `Invalid` when one of them is no amount."""
    return {limit: budget.amount(cap, limit) for limit, cap in caps_of(config).items()}


def opened(account: str, caps: Mapping[str, int]) -> Moves:
    """What gives an account its caps."""
    return tuple(
        AccountMove(account=budget.part_of(account, limit), cap=cap, sets_cap=True) for limit, cap in caps.items()
    )


def fitting(account: str, caps: Mapping[str, int]) -> Moves:
    """What is refused unless the account has as much left as all of these; it changes nothing."""
    found = list[AccountMove]()
    for limit, cap in caps.items():
        name = budget.part_of(account, limit)
        found += [AccountMove(account=name, reserve=cap), AccountMove(account=name, release=cap)]
    return tuple(found)


def carried(account: str, limit: str, known: Account | None, part: Budget) -> Moves:
    """What the owner of an account has used and set aside, and the account does not know of."""
    known = known or Account()
    use = budget.use_of(part, limit)
    spent, held = max(0, use.spent - known.spent), max(0, use.held - known.reserved)
    if known.cap is not None or not (spent or held):
        return ()
    return (AccountMove(account=budget.part_of(account, limit), reserve=held, spend=spent),)


def returned(account: str, part: Budget) -> Moves:
    """What gives back all that a session has set aside."""
    held = {limit: budget.use_of(part, limit).held for limit in LIMITS}
    return tuple(
        AccountMove(account=budget.part_of(account, limit), release=some) for limit, some in held.items() if some
    )


def of_account(account: str, moves: Iterable[AccountMove], limit: str) -> Moves:
    """Those of the moves that change one part of the account."""
    name = budget.part_of(account, limit)
    return tuple(move for move in moves if move.account == name)
