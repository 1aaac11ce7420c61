"""Slices of a budget: set aside in a parent and given to a child in one append, settled and returned in another."""

from typing import Final

from perdure.core.errors import BudgetExhausted, Invalid, NotFound, VersionConflict
from perdure.core.session import budget, caps, slices
from perdure.core.session.budget import COST, LIMITS
from perdure.core.session.ids import SessionId
from perdure.core.session.slices import Closing, Slice
from perdure.core.session.state import State
from perdure.ports.store import Store
from perdure.services.accounts import account_of
from perdure.services.loading import Loaded
from perdure.services.sessions import Extra, Sessions

ROUNDS: Final = 100
"""How often closing looks again when the child goes on spending meanwhile."""


class Slices:
    """Opening and closing slices."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def open_slice(
        self,
        parent: SessionId,
        amount: int,
        name: str,
        *,
        tokens: int | None = None,
        rounds: int | None = None,
        key: str | None = None,
    ) -> str:
        """Set a slice aside in the parent, under a name that it never had before; the account that the child is to be
        created with. `BudgetExhausted` when the parent has not that much left; then nothing is changed. Tokens and
        rounds are to be given where they are limited. The child has to live in the parent's tier.
        """
        wanted = Slice(cost=amount, tokens=tokens, rounds=rounds)
        account = slices.account_of(parent, name)
        command, moves = slices.opening(parent, name, wanted, ())

        async def extra(loaded: Loaded) -> Extra:
            slices.opening(parent, name, wanted, await self.limited(loaded.state))
            if await self._sessions.store.account(account) is not None:
                told = f"a slice {name!r} was opened before; use a fresh name, such as the child's id"
                raise Invalid(told, session=parent, name=name)
            return Extra(accounts=moves)

        await self._sessions.handle(parent, command, key=key, extra=extra)
        return account

    async def close_slice(self, parent: SessionId, name: str) -> Closing | None:
        """Settle what the child took and return the rest to the parent's account; None when that was done before. What
        the child has still set aside counts as used, and can be corrected.
        """
        for _ in range(ROUNDS):
            state = (await self._sessions.loader.load(parent)).state
            if name not in state.budget.open:
                return None
            found = await closing_of(self._sessions.store, parent, name)
            if found is None:
                raise NotFound(f"{name!r} is a reservation but no slice; settle it", session=parent, name=name)
            if await self._closed(parent, found):
                return found
        raise VersionConflict(f"the slice {name!r} keeps being spent from; end the child first", session=parent)

    async def _closed(self, parent: SessionId, found: Closing) -> bool:
        async def extra(_: Loaded) -> Extra:
            return Extra(accounts=(*found.guard, *found.moves))

        try:
            await self._sessions.handle(parent, found.settle, extra=extra)
        except (BudgetExhausted, NotFound):  # spent from, or closed by somebody else meanwhile
            return False
        return True

    async def limited(self, state: State) -> set[str]:
        """What is capped for a session: by its own configuration, or by the account it draws on."""
        store, loader = self._sessions.store, self._sessions.loader
        own = set(caps.caps_of(state.config))
        return own | {limit for limit in LIMITS if (await account_of(store, loader, state, limit)).cap is not None}


async def closing_of(store: Store, parent: SessionId, name: str) -> Closing | None:
    """How the slice of this name would end now; None when there is none."""
    account = slices.account_of(parent, name)
    parts = {limit: await store.account(budget.part_of(account, limit)) for limit in LIMITS}
    found = {limit: part for limit, part in parts.items() if part is not None}
    return slices.closing(parent, name, found) if COST in found else None
