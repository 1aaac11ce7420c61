"""Asking a cheap model about pairs of memories, within a budget. Whatever goes wrong, rules alone decide."""

from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.errors import Invalid, PromptTooLong, ProviderFailed, ProviderRefused, UnknownModel
from perdure.core.memory.judging import question, verdicts
from perdure.core.memory.parts import Memory
from perdure.core.memory.plans import ASKING
from perdure.core.talk import prices
from perdure.core.talk.parts import Ask
from perdure.core.talk.prices import Prices
from perdure.core.talk.routes import Route
from perdure.ports.provider import Sending
from perdure.services.calling import Calling
from perdure.services.pricing import price_of
from perdure.waiting import blocking

AT_ONCE: Final = 20
"""Pairs in one question."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A word for each pair (an empty one where there is none), who said so, and what it cost."""

    words: tuple[str, ...]
    model: str = ""
    cost: int = 0


class Judging:
    """Asks for one run after another. Works under asyncio alone: blocking callers get no judgement."""

    def __init__(self, calling: Calling, known: Prices, *, model: str | None = None, budget: int = ASKING) -> None:
        self._calling = calling
        self._prices = known
        self._model = model
        self.budget = budget

    async def judge(self, pairs: Sequence[tuple[Memory, Memory]], left: int, key: str) -> Judgement | None:
        """What a model says of these; None when there is none, it fails, or it might cost more than is left."""
        if blocking():
            return None
        try:
            route = self._calling.route(self._model or self._calling.models.cheap or None)
            ask = question(pairs, route.candidates[0].model)
            worst = max(prices.worst(ask, self._price(route, number)) for number in range(len(route.candidates)))
        except (UnknownModel, Invalid):
            return None
        if worst > left:
            return None
        return await self._asked(route, ask, len(pairs), worst, key)

    async def _asked(self, route: Route, ask: Ask, count: int, worst: int, key: str) -> Judgement | None:
        first = route.candidates[0]
        try:
            answered = await self._calling.whole(route, Sending(ask=ask, key=key))
        except (ProviderRefused, PromptTooLong):
            return None
        except ProviderFailed:  # it may have worked on it: what it could cost counts
            return Judgement(words=("",) * count, model=first.model, cost=worst)
        answer, candidate = answered.whole.answer, answered.candidate
        cost = prices.cost(answer.usage, self._price(route, route.candidates.index(candidate)))
        return Judgement(words=verdicts(answer, count), model=candidate.model, cost=cost)

    def _price(self, route: Route, number: int) -> prices.Price:
        candidate = route.candidates[number]
        return price_of(self._prices, candidate, self._calling.models.upstreams.get(candidate.provider))
