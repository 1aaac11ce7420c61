"""Prices are data; what is set aside is never less than what can be used."""

from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.core.errors import BadPrices, Invalid, UnknownModel
from perdure.core.talk.parts import Ask, Foreign, Media, Result, Said, Text, Tool, Usage
from perdure.core.talk.prices import (
    PICTURE,
    SHIPPED,
    Long,
    Price,
    Prices,
    Rates,
    bound,
    cost,
    input_bound,
    merged,
    output_bound,
    read,
    worst,
)

PRICES = read(files("perdure.core.talk").joinpath(SHIPPED).read_bytes())
RATE = st.integers(0, 10**9)
RATES = st.builds(Rates, input=RATE, output=RATE, cache_read=RATE, cache_write=RATE, cache_write_hour=st.none() | RATE)
LONG = st.builds(Long, above=st.integers(1, 5_000), rates=RATES)
LIMITS = st.integers(1, 5_000)
PRICE = st.builds(
    Price,
    provider=st.just("p"),
    models=st.just(("m",)),
    rates=RATES,
    window=LIMITS,
    max_output=st.none() | LIMITS,
    long=st.none() | LONG,
)
WORDS = st.text(st.characters(codec="utf-8"), max_size=50)
COUNT = st.integers(0, 10_000)
USAGE = st.builds(Usage, input=COUNT, output=COUNT, cache_read=COUNT, cache_write=COUNT)


def said(*texts: str) -> Ask:
    return Ask(model="m", messages=tuple(Said(role="user", blocks=(Text(text=text),)) for text in texts))


def price(**fields: Any) -> Price:
    rates = Rates(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
    return Price(**{"provider": "p", "models": ("m",), "rates": rates, "window": 200_000, **fields})


# ── money ──


@given(PRICE, st.lists(WORDS, max_size=3), st.none() | COUNT, st.data(), st.booleans())
def test_whatever_is_used_within_what_was_asked_costs_no_more_than_the_worst_case(
    price: Price, texts: list[str], max_tokens: int | None, data: st.DataObject, hour: bool
) -> None:
    ask = msgspec.structs.replace(said(*texts), max_tokens=max_tokens)
    left = input_bound(ask, price.window)
    parts = []
    for _ in range(3):
        parts.append(data.draw(st.integers(0, left) | st.just(left)))
        left -= parts[-1]
    answered = data.draw(st.integers(0, output_bound(ask, price)) | st.just(output_bound(ask, price)))
    usage = Usage(input=parts[0], cache_read=parts[1], cache_write=parts[2], output=answered)
    reserved = worst(ask, price, hour=hour)
    assert type(reserved) is int
    assert 0 <= cost(usage, price, hour=hour) <= reserved


@given(PRICE, COUNT, COUNT, COUNT, COUNT)
def test_the_bound_grows_with_what_is_sent_and_answered(price: Price, sent: int, more: int, out: int, far: int) -> None:
    assert bound(sent, out, price) <= bound(sent + more, out + far, price)


@given(RATES, USAGE, USAGE)
def test_more_use_costs_more_and_uses_together_no_more_than_apart(rates: Rates, one: Usage, other: Usage) -> None:
    flat = price(rates=rates)
    together = Usage(
        **{name: getattr(one, name) + getattr(other, name) for name in ("input", "output", "cache_read", "cache_write")}
    )
    assert cost(one, flat) <= cost(together, flat) <= cost(one, flat) + cost(other, flat)


@given(PRICE, USAGE)
def test_a_cost_is_whole_rounded_up_and_never_negative(price: Price, usage: Usage) -> None:
    found = cost(usage, price)
    sent = usage.input + usage.cache_read + usage.cache_write
    rates = price.long.rates if price.long and sent > price.long.above else price.rates
    exact = (
        usage.input * rates.input
        + usage.output * rates.output
        + usage.cache_read * rates.cache_read
        + usage.cache_write * rates.cache_write
    )
    assert type(found) is int
    assert found >= 0
    assert 0 <= found * 1_000_000 - exact < 1_000_000


@given(st.lists(WORDS, max_size=4), WORDS)
def test_every_byte_said_is_counted_and_another_message_never_costs_less(texts: list[str], more: str) -> None:
    before, after = said(*texts), said(*texts, more)
    assert input_bound(before, 1) >= sum(len(text.encode()) for text in texts)
    assert worst(after, price(max_output=1)) >= worst(before, price(max_output=1)) + 3 * len(more.encode())


def test_bytes_are_counted_not_characters() -> None:
    assert input_bound(said("漢" * 10_000), 1) > 30_000
    assert input_bound(said("a" * 10_000), 1) < 11_000


def test_a_million_tokens_cost_the_rate() -> None:
    assert cost(Usage(input=1_000_000), price()) == 3_000_000
    assert cost(Usage(input=1), price()) == 3
    assert cost(Usage(cache_read=1), price()) == 1  # 0.3, rounded up
    assert cost(Usage(), price()) == 0


def test_a_long_ask_is_priced_as_one_as_a_whole() -> None:
    dear = Rates(input=6_000_000, output=20_000_000, cache_read=600_000, cache_write=7_500_000)
    tiered = price(long=Long(above=100, rates=dear))
    assert cost(Usage(input=50, cache_read=50, output=1), tiered) == 150 + 15 + 15
    assert cost(Usage(input=51, cache_read=50, output=1), tiered) == 306 + 30 + 20
    assert bound(100, 0, tiered) == 375
    assert bound(101, 0, tiered) == 758


def test_caches_kept_for_an_hour_have_their_own_price() -> None:
    rates = Rates(input=3_000_000, output=0, cache_read=0, cache_write=3_750_000, cache_write_hour=6_000_000)
    assert cost(Usage(cache_write=100), price(rates=rates)) == 375
    assert cost(Usage(cache_write=100), price(rates=rates), hour=True) == 600
    assert bound(100, 0, price(rates=rates), hour=True) == 600


def test_the_answer_may_be_as_long_as_max_tokens_or_the_model_or_the_window() -> None:
    ask = said("hello")
    assert output_bound(msgspec.structs.replace(ask, max_tokens=7), price(max_output=50)) == 7
    assert output_bound(ask, price(max_output=50)) == 50
    assert output_bound(ask, price()) == 200_000
    assert output_bound(msgspec.structs.replace(ask, max_tokens=7, extra={"openai-chat": {"n": 3}}), price()) == 21


@pytest.mark.parametrize("usage", [Usage(input=-1), Usage(output=-1), msgspec.structs.replace(Usage(), input=1.5)])
def test_a_usage_that_is_none_is_refused(usage: Usage) -> None:
    with pytest.raises(Invalid, match="whole tokens"):
        cost(usage, price())


def test_a_picture_counts_more_than_its_bytes() -> None:
    picture = Media(media_type="image/png", data=b"x")
    ask = Ask(model="m", messages=(Said(role="user", blocks=(Result(call="c", content=(picture,)),)),))
    assert PICTURE < input_bound(ask, 10**9) < 10**9


@pytest.mark.parametrize(
    "fields",
    [
        {"blocks": (Media(media_type="image/png", url="https://example.com/a.png"),)},
        {"blocks": (Media(media_type="application/pdf", data=b"%PDF"),)},
        {"blocks": (Foreign(provider="anthropic", block={"source": {"type": "url", "url": "https://example.com"}}),)},
        {"blocks": (Foreign(provider="openai-responses", block={"content": [{"file_id": "f"}]}),)},
        {"tools": (Tool(name="web", foreign={"anthropic": {"type": "web_search_20250305"}}),)},
        {"extra": {"openai-responses": {"previous_response_id": "r"}}},
    ],
)
def test_what_the_provider_adds_unseen_counts_as_a_whole_window(fields: dict[str, Any]) -> None:
    blocks = fields.pop("blocks", (Text(text="hello"),))
    assert input_bound(Ask(model="m", messages=(Said(role="user", blocks=blocks),), **fields), 10**9) > 10**9


def test_a_tool_that_is_run_here_does_not_count_as_a_window() -> None:
    tools = (Tool(name="bash", foreign={"anthropic": {"type": "bash_20250124"}}), Tool(name="plain"))
    assert input_bound(msgspec.structs.replace(said("hello"), tools=tools), 10**9) < 10_000


def test_half_a_character_is_refused_as_the_callers_mistake() -> None:
    with pytest.raises(Invalid, match="half a character"):
        worst(said("\ud800"), price())


# ── documents ──

ENTRY: dict[str, Any] = {
    "provider": "p",
    "models": ["m"],
    "rates": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
    "window": 1000,
}


def document(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"as_of": "2026-01-31", "prices": list(entries)}


def test_the_shipped_prices_are_dated_plausible_and_priced_for_every_kind_of_token() -> None:
    assert {provider for provider, _ in PRICES.table} == {"anthropic", "openai", "offline"}
    for (provider, name), found in PRICES.table.items():
        assert found.as_of is not None
        tiers = [found.rates, *([found.long.rates] if found.long else [])]
        for rates in tiers:
            free = provider == "offline"
            assert rates.cache_read <= rates.input <= rates.output, name
            assert rates.input <= rates.cache_write <= (rates.cache_write_hour or rates.cache_write), name
            assert free or 10_000 <= rates.input <= 200_000_000, name
        if found.long:
            assert found.long.above <= found.window
            assert found.long.rates.input > found.rates.input


@pytest.mark.parametrize(
    ("provider", "model", "micros"),
    [
        ("anthropic", "claude-sonnet-4-5", 3_000_000),
        ("anthropic", "claude-sonnet-4-5-20250929", 3_000_000),
        ("anthropic", "claude-opus-4-5-20251101", 5_000_000),
        ("anthropic", "claude-opus-4-20250514", 15_000_000),
        ("openai", "gpt-4o-mini-2024-07-18", 150_000),
        ("openai", "gpt-5", 1_250_000),
        ("offline", "offline", 0),
    ],
)
def test_models_are_found_by_name_and_by_date(provider: str, model: str, micros: int) -> None:
    assert PRICES.of(provider, model).rates.input == micros


def test_a_dearer_model_never_hides_behind_the_pattern_of_a_cheaper_one() -> None:
    for model in ("gpt-5-ultra", "gpt-5.9", "claude-opus-5-9", "claude-sonnet-4-9"):
        for provider in ("anthropic", "openai"):
            with pytest.raises(UnknownModel):
                PRICES.of(provider, model)


def test_an_unknown_model_is_named_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownModel, match=r"near it are .*claude-sonnet-4-5") as caught:
        PRICES.of("anthropic", "claude-sonet-4-5")
    assert caught.value.model == "claude-sonet-4-5"
    assert "claude-sonnet-4-5" in caught.value.near
    with pytest.raises(UnknownModel, match=r"'local/zzz'.*add its price.*perdure prices update") as caught:
        PRICES.of("local", "zzz")
    assert caught.value.near == []
    assert '{"provider": "local", "models": ["zzz"]' in caught.value.message
    with pytest.raises(UnknownModel, match="openai gpt-4o"):
        PRICES.of("anthropic", "gpt-4o")


def test_a_name_goes_before_a_pattern_and_a_long_pattern_before_a_short_one() -> None:
    names = ["*", "gpt-*", "gpt-*-mini", "gpt-5-mini"]
    entries = [{**ENTRY, "models": [name], "window": 1000 + index} for index, name in enumerate(names)]
    for order in (entries, entries[::-1]):
        found = read(document(*order))
        assert [found.of("p", model).window for model in ("x", "gpt-5", "gpt-9-mini", "gpt-5-mini")] == [
            1000,
            1001,
            1002,
            1003,
        ]
    with pytest.raises(UnknownModel):
        read(document({**ENTRY, "models": ["ab*ba"]})).of("p", "aba")


def test_a_second_document_adds_and_overrides() -> None:
    own = read(document({**ENTRY, "provider": "openai", "models": ["gpt-5"]}, {**ENTRY, "provider": "mine"}))
    both = merged(PRICES, own)
    assert both.of("openai", "gpt-5").rates.input == 1
    assert str(both.of("openai", "gpt-5").as_of) == "2026-01-31"
    assert both.of("mine", "m").rates.output == 2
    assert both.of("openai", "gpt-5-mini") == PRICES.of("openai", "gpt-5-mini")
    assert merged(PRICES, Prices({})) == PRICES


def test_a_price_may_have_a_day_of_its_own() -> None:
    assert str(read(document({**ENTRY, "as_of": "2025-05-05"})).of("p", "m").as_of) == "2025-05-05"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rates": {**ENTRY["rates"], "input": 1.5}}, r"`int`, got `float` - at `\$\.prices\[0\]\.rates\.input`"),
        ({"rates": {**ENTRY["rates"], "input": -1}}, r">= 0 - at `\$\.prices\[0\]\.rates\.input`"),
        ({"rates": {**ENTRY["rates"], "input": True}}, r"got `bool`"),
        ({"rates": {**ENTRY["rates"], "input": "3"}}, r"got `str`"),
        ({"rates": {**ENTRY["rates"], "input": 10**13}}, r"<= 1000000000000"),
        ({"rates": {**ENTRY["rates"], "inputs": 1}}, r"unknown field `inputs` - at `\$\.prices\[0\]\.rates`"),
        ({"rates": {"input": 1}}, r"missing required field `output`"),
        ({"models": []}, r"length >= 1"),
        ({"models": ["a*b*"]}, r"more than one \*.*prices\[0\]"),
        ({"models": ["a", "a"]}, r"'a' of 'p' stands there twice"),
        ({"window": 0}, r">= 1 - at `\$\.prices\[0\]\.window`"),
        ({"max_output": 1001}, r"more than the window of 1000.*prices\[0\]"),
        ({"as_of": "yesterday"}, r"prices\[0\]\.as_of"),
    ],
)
def test_a_document_that_is_none_is_refused_with_the_place(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadPrices, match=problem):
        read(document({**ENTRY, **change}))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", '{"as_of": "2026-01-31", "prices": [], "more": 1}'])
def test_what_is_no_document_of_prices_at_all_is_refused(text: bytes | str) -> None:
    with pytest.raises(BadPrices, match="these are no prices"):
        read(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_fraction_of_a_micro_dollar_gets_in(rate: float) -> None:
    assume(not rate.is_integer())
    text = msgspec.json.encode(document({**ENTRY, "rates": {**ENTRY["rates"], "output": rate}}))
    with pytest.raises(BadPrices):
        read(text)
