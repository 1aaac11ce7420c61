"""Whose money it is: what an append does to the account that its session draws on.

Invariant: money is reserved only from an account that has the cap its owner is configured with, and that knows what
the owner has spent. An owner that was imported, or got its cap late, has its account made right on the way.
"""

from functools import reduce

from perdure.core.errors import Invalid, NotFound
from perdure.core.session import budget
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Configured
from perdure.core.session.state import State
from perdure.core.session.write import Written
from perdure.ports.store import Store
from perdure.services.loading import Loader

Moves = tuple[AccountMove, ...]


async def moves_of(store: Store, loader: Loader, before: State, written: Written) -> Moves:
    """What these events do to the account, in the order in which it is to be done."""
    after = written.state
    account = after.origin.account
    if account is None:
        return ()
    found = budget.moves(account, tuple(event.data for event in written.events))
    configured = any(isinstance(event.data, Configured) for event in written.events)
    if configured and account == after.session and _terms(before) != _terms(after):
        carried = () if before.origin.account is not None else _carried(account, await store.account(account), before)
        return (*carried, AccountMove(account=account, cap=after.config.max_cost, sets_cap=True), *found)
    if any(move.reserve for move in found):
        return (*await _opening(loader, account, await store.account(account), before), *found)
    return found


async def account_of(store: Store, loader: Loader, state: State) -> Account:
    """The account a session draws on, as its next reservation will find it; without one there is no limit."""
    account = state.origin.account
    if account is None:
        return Account()
    known = await store.account(account)
    return reduce(budget.apply, await _opening(loader, account, known, state), known or Account())


async def _opening(loader: Loader, account: str, known: Account | None, state: State) -> Moves:
    """What an account without a cap lacks, if its owner is configured with one."""
    if known is not None and known.cap is not None:
        return ()
    owner = state if account == state.session else await _owner(loader, account)
    if owner is None or owner.origin.account != account or owner.config.max_cost is None:
        return ()
    cap = AccountMove(account=account, cap=owner.config.max_cost, sets_cap=True)
    return (*_carried(account, known, owner), cap)


async def _owner(loader: Loader, account: str) -> State | None:
    """The session an account is named after, if it is here."""
    try:
        return (await loader.load(SessionId(account))).state
    except (Invalid, NotFound):
        return None


def _carried(account: str, known: Account | None, owner: State) -> Moves:
    """What the owner has spent and set aside and the account does not know of."""
    known = known or Account()
    spent = max(0, owner.budget.spent - known.spent)
    held = max(0, sum(owner.budget.open.values()) - known.reserved)
    if known.cap is not None or not (spent or held):
        return ()
    return (AccountMove(account=account, reserve=held, spend=spent),)


def _terms(state: State) -> tuple[str | None, int | None]:
    return state.origin.account, state.config.max_cost
