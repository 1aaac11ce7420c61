"""A session's budget, as async callers keep it: set aside, settle, correct, look at what it cost."""

from typing import TYPE_CHECKING

from perdure.compose import Services
from perdure.core.session import commands as do
from perdure.core.session.budget import Account
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.edge import given

if TYPE_CHECKING:
    from perdure.core.session.costs import Costs


class Spending:
    """The part of a session's handle that keeps its budget."""

    _services: Services
    id: SessionId

    async def _state(self) -> State:
        """The state as the loader keeps it, for looking at only; callers get a copy, which is theirs to change."""
        return (await self._services.sessions.loader.load(self.id)).state

    async def _do(self, command: do.Command, *, expected: int | None = None, key: str | None = None) -> int:
        """Have a command decided and made durable; the version it led to."""
        seen = given.maybe_number(expected, "expected")
        return (await self._services.sessions.handle(self.id, command, expected=seen, key=key)).version

    async def reserve(
        self, name: str, micros: int, purpose: str = "", *, tokens: int = 0, rounds: int = 0, key: str | None = None
    ) -> int:
        """Set money aside, and tokens and rounds with it; `BudgetExhausted` when the account has not that much left,
        `LimitReached` for tokens and rounds.
        """
        command = do.Reserve(
            reservation=given.text_of(name, "a reservation"),
            amount=micros,
            purpose=purpose,
            tokens=tokens,
            rounds=rounds,
        )
        return await self._do(command, key=key)

    async def settle(
        self,
        name: str,
        cost: int,
        *,
        estimated: bool = False,
        tokens: int = 0,
        rounds: int = 0,
        key: str | None = None,
    ) -> int:
        """Say what it really cost and took; the rest of the reservation returns."""
        command = do.Settle(
            reservation=given.text_of(name, "a reservation"),
            cost=cost,
            estimated=estimated,
            tokens=tokens,
            rounds=rounds,
        )
        return await self._do(command, key=key)

    async def correct(self, name: str, cost: int, *, key: str | None = None) -> int:
        """Say what it cost that was settled by an estimate; the difference returns to the account, or is taken."""
        return await self._do(do.Correct(reservation=given.text_of(name, "a reservation"), cost=cost), key=key)

    async def account(self) -> Account:
        """The account the session draws on with its branches and children. Without a cap there is no limit, and what
        was spent is the session's own.
        """
        from perdure.services.accounts import account_of

        return await account_of(self._services.store, self._services.sessions.loader, await self._state())

    async def costs(self) -> "Costs":
        """What this session has cost so far, by model, agent and strategy, and how the caps it shares stand."""
        from perdure.services.accounts import costs_of

        return await costs_of(self._services.store, self._services.sessions.loader, await self._state())
