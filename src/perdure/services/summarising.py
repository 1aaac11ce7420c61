"""Asking a model to sum up: whom, at what price, and what it took.

Strategies: `extractive` asks nobody; `model` asks the cheap model, or the one that the session names for it; `provider`
asks for Anthropic's compaction on demand by the session's own model where that is at Anthropic, and is `model`
elsewhere. That is a request of its own, so that the log has the summary and any model can go on from it.

The worst case is reserved before and the true cost settled after. Whatever goes wrong (no price, no money, a provider
that fails, an answer without a summary) means that there is no summary, and no harm.
"""

from typing import Final

import msgspec

from perdure.core.errors import (
    BudgetExhausted,
    Invalid,
    NotFound,
    PerdureError,
    PromptTooLong,
    ProviderBusy,
    ProviderDenied,
    ProviderFailed,
    ProviderRefused,
    Refused,
    UnknownModel,
)
from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Compaction
from perdure.core.session.shown import told
from perdure.core.session.state import State
from perdure.core.talk import compacting, prices
from perdure.core.talk.compacting import Plan
from perdure.core.talk.parts import Ask, Foreign
from perdure.core.talk.prices import Price, Prices
from perdure.core.talk.profiles import Profile
from perdure.core.talk.routes import Candidate, Route
from perdure.core.talk.tokens import estimate_ask, sent
from perdure.ports.provider import Sending
from perdure.services.calling import Answered, Calling
from perdure.services.pricing import price_of
from perdure.services.sessions import Sessions

PURPOSE: Final = "compaction"
STRATEGIES: Final = ("extractive", "model", "provider")
AROUND: Final = 2_000
"""Tokens of a model's window that are left to what stands around the conversation."""
MAX_ERROR: Final = 500


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A summary that a model is asked for: by whom, how, and what it may cost. `blocks_only` wants the provider's own
    block, and no words.
    """

    route: Route
    ask: Ask
    headers: dict[str, str]
    worst: int
    tokens: int
    blocks_only: bool = False


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    settle: do.Settle
    answered: ModelAnswered
    summary: str = ""


class Summarising:
    """Asks models for summaries."""

    def __init__(self, sessions: Sessions, calling: Calling, prices: Prices, node: str = "") -> None:
        self._sessions = sessions
        self._calling = calling
        self._prices = prices
        self._node = node

    async def asked(
        self, session: SessionId, state: State, plan: Plan, profile: Profile, rules: Compaction, room: int
    ) -> Bill | None:
        """What a model made of it, to be settled; None when none was asked."""
        try:
            wish = self._wish(state, plan, profile, rules, room)
        except (UnknownModel, Invalid):
            return None
        if wish is None:
            return None
        first = wish.route.candidates[0]
        name = f"{PURPOSE}-{self._sessions.fresh_id()}"
        opening = ModelAsked(
            ask=name,
            provider=first.provider,
            model=first.model,
            purpose=PURPOSE,
            tokens=estimate_ask(wish.ask),
            node=self._node,
        )
        aside = do.Reserve(reservation=name, amount=wish.worst, purpose=PURPOSE, tokens=wish.tokens, rounds=1)
        try:
            await self._sessions.handle(session, do.Advance(drafts=(Draft(opening),), reserves=(aside,)))
        except BudgetExhausted:
            return None
        bill: Bill | None = None
        began = self._sessions.ambient.now()
        try:
            sending = Sending(ask=wish.ask, headers=wish.headers, key=name)
            answered = await self._calling.whole(wish.route, sending)
            bill = self._billed(name, wish, answered, began, room)
        except (ProviderFailed, ProviderRefused, PromptTooLong) as error:
            bill = self._failed(name, wish, error, began)
        finally:
            if bill is None:  # cancelled: nobody will hear the answer
                lost = self._failed(name, wish, ProviderFailed("given up"), began)
                await self.settled(session, lost)
        return bill

    def _wish(self, state: State, plan: Plan, profile: Profile, rules: Compaction, room: int) -> Wish | None:
        """Whom to ask, and how. Raises `UnknownModel` where there is no such model, or no price for it."""
        if rules.strategy == "provider" and (own := self._own(state)) is not None:
            longest = self._price(own.candidates[0]).window - AROUND - room
            system, model = state.config.system_prompt or "", own.candidates[0].model
            ask = compacting.requested(plan, profile, model=model, system=system, longest=max(AROUND, longest))
            return self._priced(own, ask, {"anthropic-beta": compacting.BETA}, blocks_only=True)
        if rules.strategy == "extractive":
            return None
        route = self._calling.route(rules.model or self._calling.models.cheap or None)
        windows = [self._price(candidate).window for candidate in route.candidates]
        longest = max(AROUND, min(windows) - AROUND - room)
        model = route.candidates[0].model
        ask = compacting.question(plan, profile, model=model, room=room, longest=longest)
        return self._priced(route, ask, {})

    def _own(self, state: State) -> Route | None:
        """The session's own model, if it is at Anthropic; others would not know what they are asked."""
        try:
            route = self._calling.route(state.config.model)
        except UnknownModel:
            return None
        first = route.candidates[0]
        return msgspec.structs.replace(route, candidates=(first,)) if first.form == "anthropic" else None

    def _priced(self, route: Route, ask: Ask, headers: dict[str, str], *, blocks_only: bool = False) -> Wish:
        """The wish with the worst that any candidate can cost."""
        found = [self._price(candidate) for candidate in route.candidates]
        tokens = max(prices.input_bound(ask, price.window) + prices.output_bound(ask, price) for price in found)
        worst = max(prices.worst(ask, price) for price in found)
        return Wish(route=route, ask=ask, headers=headers, worst=worst, tokens=tokens, blocks_only=blocks_only)

    def _price(self, candidate: Candidate) -> Price:
        return price_of(self._prices, candidate, self._calling.models.upstreams.get(candidate.provider))

    def _billed(self, name: str, wish: Wish, answered: Answered, began: int, room: int) -> Bill:
        answer, candidate = answered.whole.answer, answered.candidate
        usage = compacting.usage_of(answer)
        cost = prices.cost(usage, self._price(candidate))
        own = any(isinstance(block, Foreign) and block.block.get("type") == PURPOSE for block in answer.blocks)
        heard = answer.stop in ("end", "length", "sequence") and (own or not wish.blocks_only)
        return Bill(
            settle=do.Settle(reservation=name, cost=cost, tokens=sent(usage) + usage.output, rounds=1),
            answered=ModelAnswered(
                ask=name,
                provider=candidate.provider,
                model=candidate.model,
                stop=answer.stop,
                tokens_in=usage.input,
                tokens_out=usage.output,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                cost=cost,
                micros=max(0, self._sessions.ambient.now() - began),
            ),
            summary=compacting.summary_of(answer, room) if heard else "",
        )

    def _failed(self, name: str, wish: Wish, error: PerdureError, began: int) -> Bill:
        """A request without an answer. Where the provider may have worked on it, all that was reserved counts."""
        free = isinstance(error, ProviderDenied | ProviderBusy | ProviderRefused | PromptTooLong)
        cost, tokens = (0, 0) if free else (wish.worst, wish.tokens)
        first = wish.route.candidates[0]
        return Bill(
            settle=do.Settle(reservation=name, cost=cost, estimated=not free, tokens=tokens, rounds=1),
            answered=ModelAnswered(
                ask=name,
                provider=first.provider,
                model=first.model,
                cost=cost,
                estimated=not free,
                micros=max(0, self._sessions.ambient.now() - began),
                error=told(error)[:MAX_ERROR],
            ),
        )

    async def settled(self, session: SessionId, bill: Bill) -> None:
        """Settle a request alone. One that was closed by others meanwhile was estimated: that is put right."""
        try:
            step = do.Advance(drafts=(Draft(bill.answered),), settles=(bill.settle,))
            await self._sessions.handle(session, step)
        except (Refused, NotFound):
            try:
                fixed = do.Correct(reservation=bill.settle.reservation, cost=bill.settle.cost)
                await self._sessions.handle(session, fixed)
            except (Refused, NotFound):
                return
