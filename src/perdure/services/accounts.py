"""Whose money it is: what an append does to the account that its session draws on.

Invariant: money, tokens and rounds are reserved only from an account that has the caps its owner is configured with,
and that knows what the owner has used. An owner that was imported, or got a cap late, has its account made right on
the way.
"""

from functools import reduce

from perdure.core.errors import Invalid, NotFound
from perdure.core.session import budget, caps, costs
from perdure.core.session.budget import COST, LIMITS, TOKENS, Account, AccountMove
from perdure.core.session.caps import Moves
from perdure.core.session.costs import Costs
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Configured
from perdure.core.session.state import State
from perdure.core.session.write import Written
from perdure.ports.store import Store
from perdure.services.loading import Loader


async def moves_of(store: Store, loader: Loader, before: State, written: Written) -> Moves:
    """What these events do to the account, in the order in which it is to be done."""
    after = written.state
    account = after.origin.account
    if account is None:
        return ()
    found = budget.moves(account, tuple(event.data for event in written.events))
    configured = any(isinstance(event.data, Configured) for event in written.events)
    if configured and account == after.session and _terms(before) != _terms(after):
        return (*await _capped(store, account, before, after), *found)
    if any(move.reserve or move.spend < 0 for move in found):
        return (*await _opening(store, loader, account, before), *found)
    return found


async def account_of(store: Store, loader: Loader, state: State, limit: str = COST) -> Account:
    """A part of the account a session draws on, as its next reservation will find it. Without one there is no limit,
    and what was spent is the session's own.
    """
    account = state.origin.account
    if account is None:
        return _own(state, limit)
    known = await store.account(budget.part_of(account, limit))
    opening = caps.of_account(account, await _opening(store, loader, account, state), limit)
    return reduce(budget.apply, opening, known or Account())


def _own(state: State, limit: str) -> Account:
    """What a session used that draws on no account."""
    part = state.budget
    used = {COST: (part.spent, part.open), TOKENS: (part.settled_tokens, part.held)}
    spent, aside = used.get(limit, (part.settled_rounds, part.held_rounds))
    return Account(spent=spent, reserved=sum(aside.values()))


async def costs_of(store: Store, loader: Loader, state: State) -> Costs:
    """What a session has cost so far, and the caps that it shares."""
    found = {limit: await account_of(store, loader, state, limit) for limit in LIMITS}
    return costs.costs(state.budget, {limit: part for limit, part in found.items() if part.cap is not None})


async def _capped(store: Store, account: str, before: State, after: State) -> Moves:
    """What a change of configuration does to the account of the session's own."""
    found, old, new = list[AccountMove](), caps.caps_of(before.config), caps.caps_of(after.config)
    for limit in LIMITS:
        if before.origin.account is not None and limit not in old and limit not in new:
            continue
        known = await store.account(budget.part_of(account, limit))
        found += caps.carried(account, limit, known, before.budget)
        if old.get(limit) != new.get(limit) or (limit in new and (known is None or known.cap is None)):
            part = budget.part_of(account, limit)
            found.append(AccountMove(account=part, cap=new.get(limit), sets_cap=True))
    return tuple(found)


async def _opening(store: Store, loader: Loader, account: str, state: State) -> Moves:
    """What the account lacks of the caps that its owner is configured with."""
    if account == state.session:
        return await _lacking(store, account, state)
    for limit in LIMITS:
        known = await store.account(budget.part_of(account, limit))
        if known is not None and known.cap is not None:
            return ()  # caps are set together
    owner = await _owner(loader, account)
    return () if owner is None or owner.origin.account != account else await _lacking(store, account, owner)


async def _lacking(store: Store, account: str, owner: State) -> Moves:
    found = list[AccountMove]()
    for limit, cap in caps.caps_of(owner.config).items():
        known = await store.account(budget.part_of(account, limit))
        if known is None or known.cap is None:
            found += [*caps.carried(account, limit, known, owner.budget), *caps.opened(account, {limit: cap})]
    return tuple(found)


async def _owner(loader: Loader, account: str) -> State | None:
    """The session an account is named after, if it is here."""
    try:
        return (await loader.load(SessionId(account))).state
    except (Invalid, NotFound):
        return None


def _terms(state: State) -> tuple[str | None, dict[str, int]]:
    return state.origin.account, caps.caps_of(state.config)
