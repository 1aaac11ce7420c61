"""What asking a model may cost and did cost, for whichever of a route's candidates answers."""

from typing import Final

import msgspec

from perdure.core.errors import UnknownModel
from perdure.core.talk import prices
from perdure.core.talk.parts import Ask, Usage
from perdure.core.talk.prices import Price, Prices, Rates
from perdure.core.talk.routes import FAMILIES, Candidate, Models, Route, Upstream

REMEMBERED: Final = 1_000
"""Models whose price is kept at hand."""
NOTHING: Final = Rates(input=0, output=0, cache_read=0, cache_write=0)
WINDOW: Final = 128_000
"""Tokens that fit into a model that costs nothing and of which nobody says more."""


def price_of(known: Prices, candidate: Candidate, upstream: Upstream | None = None) -> Price:
    """The price of a candidate's model; `UnknownModel` says how to give it one.

    It is that of the upstream's own name; else, where the upstream is where its form comes from, that of whoever made
    up the form. An upstream elsewhere sells models of its own, by whatever names. What is free costs nothing.
    """
    found = _listed(known, candidate, upstream)
    if upstream is not None and upstream.free:
        base = found or Price(provider=candidate.provider, models=("*",), rates=NOTHING, window=WINDOW)
        return msgspec.structs.replace(base, rates=NOTHING, long=None)
    if found is None:
        raise known.unknown(candidate.provider, candidate.model)
    return found


def _listed(known: Prices, candidate: Candidate, upstream: Upstream | None) -> Price | None:
    family = FAMILIES[candidate.form] if upstream is None or upstream.public else candidate.provider
    for seller in dict.fromkeys((candidate.provider, family)):
        name = known.under(seller, candidate.model)
        if name is not None:
            return known.table[seller, name]
    return None


class Pricing:
    """The prices there are, by candidate of these models."""

    def __init__(self, known: Prices, models: Models | None = None) -> None:
        self._known = known
        self._upstreams = {} if models is None else models.upstreams
        self._found: dict[Candidate, Price | None] = {}

    def of(self, candidate: Candidate) -> Price:
        """The price of a candidate's model; `UnknownModel` when there is none."""
        return price_of(self._known, candidate, self._upstreams.get(candidate.provider))

    def _priced(self, candidate: Candidate) -> Price | None:
        """The same, or None; looked for once, for what has no price is compared with all that have one."""
        if candidate not in self._found:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            try:
                self._found[candidate] = self.of(candidate)
            except UnknownModel:
                self._found[candidate] = None
        return self._found[candidate]

    def window(self, route: Route, fallback: int) -> int:
        """The smallest window among the candidates; of a model that nobody knows, the fallback."""
        return min(self._window(candidate, fallback) for candidate in route.candidates)

    def _window(self, candidate: Candidate, fallback: int) -> int:
        price = _listed(self._known, candidate, self._upstreams.get(candidate.provider))
        return fallback if price is None else price.window

    def worst(self, ask: Ask, route: Route, *, capped: bool) -> tuple[int, int]:
        """The most that the ask can cost, in micro-dollars and in tokens. A model without a price costs nothing, unless
        somebody set a cap: then it is refused.
        """
        money = tokens = 0
        for candidate in route.candidates:
            price = self.of(candidate) if capped else self._priced(candidate)
            if price is None:
                continue
            money = max(money, prices.worst(ask, price, hour=True))  # nobody says how long caches are kept
            sent, answered = prices.input_bound(ask, price.window), prices.output_bound(ask, price)
            tokens = max(tokens, sent + answered)
        return money, tokens

    def cost(self, candidate: Candidate, usage: Usage) -> tuple[int, bool]:
        """What a usage cost, and whether that is a guess because the model has no price."""
        price = self._priced(candidate)
        return (0, True) if price is None else (prices.cost(usage, price), False)
