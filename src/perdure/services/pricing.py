"""What asking a model may cost and did cost, for whichever of a route's candidates answers."""

from typing import Final

from perdure.core.errors import UnknownModel
from perdure.core.talk import prices
from perdure.core.talk.parts import Ask, Usage
from perdure.core.talk.prices import Price, Prices
from perdure.core.talk.routes import Candidate, Route

_FAMILIES: Final = {"anthropic": "anthropic", "openai-chat": "openai", "openai-responses": "openai", "": "offline"}
"""Whose price list a wire form is looked up in, when its upstream has no name of its own there."""


REMEMBERED: Final = 1_000
"""Models whose price is kept at hand."""


class Pricing:
    """The prices there are, by candidate."""

    def __init__(self, known: Prices) -> None:
        self._known = known
        self._found: dict[Candidate, Price | None] = {}

    def of(self, candidate: Candidate) -> Price:
        """The price of a candidate's model; `UnknownModel` when there is none."""
        try:
            return self._known.of(candidate.provider, candidate.model)
        except UnknownModel:
            return self._known.of(_FAMILIES[candidate.form], candidate.model)

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
        price = self._priced(candidate)
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
