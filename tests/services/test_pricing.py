"""Whose prices count for a model: its upstream's own, else those of whoever made up the form, if it is there."""

import msgspec
import pytest

from perdure.compose.pricing import shipped
from perdure.core.errors import UnknownModel
from perdure.core.talk import prices
from perdure.core.talk.parts import Ask, Said, Text, Usage
from perdure.core.talk.routes import Models, Upstream, route
from perdure.services.pricing import Pricing

LOCAL = Upstream(name="local", kind="openai-chat", base_url="http://127.0.0.1:11434/v1")
OURS = Upstream(name="ours", kind="openai-responses")
ASK = Ask(model="gpt-4o", messages=(Said(role="user", blocks=(Text(text="hello"),)),), max_tokens=100)
USED = Usage(input=1_000_000, output=1_000_000)
OWN = prices.read(
    {
        "as_of": "2026-01-01",
        "prices": [
            {
                "provider": "local",
                "models": ["gpt-4o"],
                "rates": {"input": 7, "output": 7, "cache_read": 7, "cache_write": 7},
                "window": 4000,
            }
        ],
    }
)


def made(*upstreams: Upstream, over: prices.Prices | None = None) -> tuple[Pricing, Models]:
    models = Models(upstreams={upstream.name: upstream for upstream in upstreams})
    return Pricing(shipped() if over is None else prices.merged(shipped(), over), models), models


def test_an_upstream_elsewhere_is_not_charged_like_who_made_up_its_form() -> None:
    pricing, models = made(LOCAL, OURS)
    local, ours = route(models, "local/gpt-4o"), route(models, "ours/gpt-4o")
    assert pricing.cost(local.candidates[0], USED) == (0, True)
    assert pricing.cost(ours.candidates[0], USED)[0] > 0, "one that is there is, by whatever name"
    assert pricing.worst(ASK, local, capped=False) == (0, 0)
    assert pricing.window(local, 1234) == 1234
    with pytest.raises(UnknownModel, match=r"'local/gpt-4o'.*free = true.*perdure prices update"):
        pricing.worst(ASK, local, capped=True)


def test_an_upstream_elsewhere_has_the_prices_of_its_own_name() -> None:
    pricing, models = made(LOCAL, over=OWN)
    local = route(models, "local/gpt-4o")
    assert pricing.cost(local.candidates[0], USED) == (14, False)
    assert pricing.window(local, 1234) == 4000


def test_what_is_free_costs_nothing_also_under_a_cap() -> None:
    pricing, models = made(msgspec.structs.replace(LOCAL, free=True))
    local = route(models, "local/qwen3")
    money, tokens = pricing.worst(ASK, local, capped=True)
    assert money == 0
    assert tokens >= 100, "but its tokens count"
    assert pricing.cost(local.candidates[0], USED) == (0, False)
    assert pricing.window(local, 1234) == 1234
    priced, models = made(msgspec.structs.replace(LOCAL, free=True), over=OWN)
    local = route(models, "local/gpt-4o")
    assert priced.cost(local.candidates[0], USED) == (0, False)
    assert priced.window(local, 1234) == 4000
