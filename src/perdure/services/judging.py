"""Asking a cheap model about pairs of memories, one question at a time. Works under asyncio alone."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.errors import (
    Invalid,
    PerdureError,
    PromptTooLong,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
    UnknownModel,
)
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

PATIENCE: Final = 120.0
"""Seconds that a question may take, with all that is tried."""
CREDIBLE: Final = 10
"""So many times what an answer may cost at most, a provider's word about it is taken for an error."""
NO_PRICE: Final = "not asked: the model has no price, and is not said to be free"
_CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (TimeoutError, "did not answer in time"),
    (ProviderSlow, "did not answer in time"),
    (ProviderDown, "cannot be reached"),
    (ProviderBusy, "has too much to do"),
    (ProviderDenied, "does not take our key"),
    (ProviderCut, "broke off in the middle"),
    (ProviderGarbled, "does not say what belongs there"),
    (PromptTooLong, "does not take questions as long as that"),
)
"""What is said of a failure: words of ours, never the provider's, which may repeat what it was asked."""


class Unasked(Exception):
    """Why nobody can be asked."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of whom, and what it may cost at most: one answer, and all that is tried."""

    route: Route
    ask: Ask
    count: int
    once: int
    worst: int


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A word for each pair (an empty one where there is none), who said so, and what it cost. `lacking` says that
    nobody is there to be asked more, and why; `vain` what is to be said of it should many be asked in vain.
    """

    words: tuple[str, ...]
    model: str = ""
    cost: int = 0
    lacking: str = ""
    vain: str = ""


class Judging:
    """Whoever is asked, and what one run may spend on that."""

    def __init__(self, calling: Calling, known: Prices, *, model: str | None = None, budget: int = ASKING) -> None:
        self._calling = calling
        self._prices = known
        self._model = model
        self.budget = budget

    def posed(self, pairs: Sequence[tuple[Memory, Memory]]) -> Question:
        """A question about these. Raises `Unasked`."""
        try:
            route = self._calling.route(self._model or self._calling.models.cheap or None)
            ask = question(pairs, route.candidates[0].model)
            each = [prices.worst(ask, self._price(route, number)) for number in range(len(route.candidates))]
        except (UnknownModel, Invalid) as wrong:
            raise Unasked(NO_PRICE) from wrong
        upstreams = self._calling.models.upstreams
        tries = [upstreams[one.provider].retries + 1 if one.provider in upstreams else 1 for one in route.candidates]
        worst = sum(cost * often for cost, often in zip(each, tries, strict=True))
        return Question(route=route, ask=ask, count=len(pairs), once=max(each), worst=worst)

    async def judge(self, asked: Question, key: str) -> Judgement:
        """What a model says. What it may have worked on in vain counts as what that costs at most."""
        words = ("",) * asked.count
        try:
            async with asyncio.timeout(PATIENCE):
                answered = await self._calling.whole(asked.route, Sending(ask=asked.ask, key=key))
        except (ProviderRefused, PromptTooLong) as error:
            return Judgement(words=words, vain=failed(error, asked.route))
        except (ProviderFailed, TimeoutError) as error:
            cost = asked.worst if _may_have_worked(error) else 0
            return Judgement(words=words, cost=cost, lacking=failed(error, asked.route))
        answer, candidate = answered.whole.answer, answered.candidate
        cost = prices.cost(answer.usage, self._price(asked.route, asked.route.candidates.index(candidate)))
        believed = cost if 0 < cost <= CREDIBLE * asked.once else asked.once
        vain = sum(map(_may_have_worked, answered.failed)) * asked.once
        name = f"{candidate.provider}/{candidate.model}"
        told = f"not asked: {name} answered nothing that counts"
        return Judgement(words=verdicts(answer, asked.count), model=candidate.model, cost=believed + vain, vain=told)

    def _price(self, route: Route, number: int) -> prices.Price:
        candidate = route.candidates[number]
        return price_of(self._prices, candidate, self._calling.models.upstreams.get(candidate.provider))


def failed(error: Exception, route: Route) -> str:
    """Who failed, the first choice where nobody says, and why."""
    fields, first = error.fields if isinstance(error, PerdureError) else {}, route.candidates[0]
    provider, model, status = (fields.get(name) for name in ("provider", "model", "status"))
    cause = next((cause for kind, cause in _CAUSES if isinstance(error, kind)), None)
    if cause is None or (status and type(error) is ProviderDown):
        cause = "refuses what it is asked" if isinstance(error, ProviderRefused) else "fails on its side"
    told = f" ({status})" if status else ""
    return f"not asked: {provider or first.provider}/{model or first.model} {cause}{told}"


def _may_have_worked(error: Exception) -> bool:
    """Whether somebody may have worked on what was asked, and want to be paid for it."""
    if isinstance(error, ProviderSlow):
        return True
    return not isinstance(error, ProviderDenied | ProviderBusy | ProviderDown)
