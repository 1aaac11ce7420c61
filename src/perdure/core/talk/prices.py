"""What a model costs: prices as data, the worst case of an ask before it is sent, the true cost of what was used.

All money is whole micro-dollars; rates are micro-dollars per million tokens. `prices.json`, beside this module, is the
document that ships; a document of the same form, given by the user, is laid over it. Reading the files is the shell's.
Invariant: whatever a provider reports of an ask within what was set aside for it costs no more than that.
"""

from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from typing import Annotated, Any, Final

import msgspec

from perdure.core.errors import BadPrices, Invalid, UnknownModel
from perdure.core.talk.parts import Ask, Foreign, Media, Result, Said, Usage

SHIPPED: Final = "prices.json"
MILLION: Final = 1_000_000
DEAREST: Final = 10**12
"""No rate is higher than this: a million dollars per million tokens."""
NEAR: Final = 3
"""How many near matches an error names."""
PICTURE: Final = 12_000
"""Tokens that a picture may take, however few its bytes."""
UNSEEN: Final = 2_048
"""Tokens that providers add by themselves when tools are offered."""

Rate = Annotated[int, msgspec.Meta(ge=0, le=DEAREST)]
Count = Annotated[int, msgspec.Meta(ge=1, le=DEAREST)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

_ELSEWHERE: Final = frozenset({"file_id", "file_url", "image_url"})
"""Keys of a foreign block whose content the provider fetches itself."""
_STORED: Final = frozenset({"previous_response_id", "conversation", "prompt", "mcp_servers", "container"})
"""Fields of a request that let the provider add what we do not see."""
_RUN_HERE: Final = ("apply_patch", "bash", "computer", "custom", "function", "local_shell", "memory", "text_editor")
"""Kinds of foreign tools that the client runs, so that their results come back through us."""


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Micro-dollars per million tokens. Where caches can be kept for an hour, writing them has a price of its own."""

    input: Rate
    output: Rate
    cache_read: Rate
    cache_write: Rate
    cache_write_hour: Rate | None = None


class Long(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of an ask whose input, cached or not, is more than `above` tokens; they hold for all of it."""

    above: Count
    rates: Rates


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some models of a provider cost. A name may have one `*`, which stands for any text.

    `max_output` is left out where it is not known; then an answer may fill the window. `as_of` is the day the price is
    from; without one, it is the document's.
    """

    provider: Name
    models: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1)]
    rates: Rates
    window: Count
    max_output: Count | None = None
    long: Long | None = None
    as_of: date | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    as_of: date
    prices: tuple[Price, ...]


class Prices(msgspec.Struct, frozen=True):
    """Prices by provider and name or pattern."""

    table: dict[tuple[str, str], Price]

    def of(self, provider: str, model: str) -> Price:
        """The price of a model: that of its very name, else that of the longest pattern it fits.

        Raises `UnknownModel`, which names the nearest models that have a price.
        """
        found = self.under(provider, model)
        if found is not None:
            return self.table[provider, found]
        raise self.unknown(provider, model)

    def unknown(self, provider: str, model: str) -> UnknownModel:
        """The error that says that a model has no price, and how to give it one."""
        near = self._near(provider, model)
        known = f"; near it are {', '.join(near)}" if near else ""
        line = f'{{"provider": "{provider}", "models": ["{model}"], "rates": {{…}}, "window": …}}'
        return UnknownModel(
            f"no price is known for '{provider}/{model}'{known}; correct the name, say free = true of its upstream if "
            f"it costs nothing, or add its price: {line} in your prices.json, which perdure prices update brings",
            provider=provider,
            model=model,
            near=near,
        )

    def under(self, provider: str, model: str) -> str | None:
        """The name or the pattern under which a model's price stands, if it has one."""
        if (provider, model) in self.table:
            return model
        fitting = [pattern for owner, pattern in self.table if owner == provider and _fits(pattern, model)]
        return max(fitting, key=lambda pattern: (len(pattern), pattern), default=None)

    def _near(self, provider: str, model: str) -> list[str]:
        """The nearest names, of this provider before those of others."""
        own = [pattern for owner, pattern in self.table if owner == provider]
        others = {f"{owner} {pattern}": pattern for owner, pattern in self.table if owner != provider}
        found = get_close_matches(model, own, NEAR, 0.5)
        foreign = get_close_matches(model, set(others.values()), NEAR, 0.8)
        return [*found, *sorted(shown for shown, pattern in others.items() if pattern in foreign)][:NEAR]


def _fits(pattern: str, model: str) -> bool:
    start, star, end = pattern.partition("*")
    if not star:
        return pattern == model
    return len(model) >= len(start) + len(end) and model.startswith(start) and model.endswith(end)


# ── documents ──


def read(document: bytes | str | dict[str, Any]) -> Prices:
    """The prices of a document, as JSON or already decoded. Raises `BadPrices`, which names the place and what is wrong
    there: an unknown field, a number that is not whole, a name that stands there twice.
    """
    try:
        if isinstance(document, dict):
            found = msgspec.convert(document, _Document)
        else:
            found = msgspec.json.decode(document, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPrices(f"these are no prices: {error}; see {SHIPPED} for the form", problem=str(error)) from error
    table: dict[tuple[str, str], Price] = {}
    for index, price in enumerate(found.prices):
        dated = price if price.as_of else msgspec.structs.replace(price, as_of=found.as_of)
        for name in price.models:
            _check(name, price, f"$.prices[{index}]", table)
            table[price.provider, name] = dated
    return Prices(table)


def _check(name: str, price: Price, place: str, table: dict[tuple[str, str], Price]) -> None:
    if name.count("*") > 1:
        problem = f"{name!r} has more than one *; use one, or name the models"
    elif (price.provider, name) in table:
        problem = f"{name!r} of {price.provider!r} stands there twice; keep one of them"
    elif price.max_output is not None and price.max_output > price.window:
        problem = f"max_output {price.max_output} is more than the window of {price.window}; lower it"
    else:
        return
    raise BadPrices(f"these are no prices: {problem} - at `{place}`", problem=problem, place=place)


def merged(base: Prices, over: Prices) -> Prices:
    """Both; where both have the same name or pattern, the second counts. A longer pattern still goes before a shorter
    one, and a name before any pattern, whichever document they are from.
    """
    return Prices({**base.table, **over.table})


# ── money ──


def cost(usage: Usage, price: Price, *, hour: bool = False) -> int:
    """What was used, in micro-dollars, rounded up. With `hour` caches were written to be kept for an hour."""
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    if any(type(count) is not int or count < 0 for count in counts):
        raise Invalid("a usage counts whole tokens, none of them negative; correct what was reported", usage=counts)
    sent = usage.input + usage.cache_read + usage.cache_write
    rates = price.long.rates if price.long and sent > price.long.above else price.rates
    write = _write(rates, hour=hour)
    input_, read_ = usage.input * rates.input, usage.cache_read * rates.cache_read
    return _micros(input_ + read_ + usage.cache_write * write + usage.output * rates.output)


def worst(ask: Ask, price: Price, *, hour: bool = False) -> int:
    """What an ask can cost at most: every byte sent is a token at the dearest rate, and the answer is as long as it
    may be. What the provider adds and we cannot see (files it fetches, tools it runs) counts as a whole window.
    """
    return bound(input_bound(ask, price.window), output_bound(ask, price), price, hour=hour)


def bound(sent: int, answered: int, price: Price, *, hour: bool = False) -> int:
    """The most that any usage of up to `sent` tokens in and `answered` tokens out can cost."""
    tiers = [price.rates]
    if price.long and sent > price.long.above:
        tiers.append(price.long.rates)
    dear = max(max(rates.input, rates.cache_read, _write(rates, hour=hour)) for rates in tiers)
    return _micros(sent * dear + answered * max(rates.output for rates in tiers))


def output_bound(ask: Ask, price: Price) -> int:
    """The most tokens that may be answered: max_tokens or the model's maximum, for each of the answers asked for."""
    longest = ask.max_tokens or price.max_output or price.window  # none, or 0: as the model likes
    answers = [fields.get("n") for fields in ask.extra.values() if isinstance(fields, dict)]
    return max(0, longest) * max([1, *(number for number in answers if type(number) is int)])


def input_bound(ask: Ask, window: int) -> int:
    """The most tokens that an ask can be: its bytes, and what its bytes do not show."""
    try:
        size = len(msgspec.json.encode(ask))
    except UnicodeEncodeError as error:
        raise Invalid("the ask has half a character in it (a lone surrogate); correct its text") from error
    size += PICTURE * sum(isinstance(block, Media) for block in _blocks(ask.messages))
    size += UNSEEN * (len(ask.tools) > 0) + UNSEEN * sum(tool.foreign is not None for tool in ask.tools)
    return size + window if _sees_more(ask) else size


def _sees_more(ask: Ask) -> bool:
    """Whether the provider gets at more than is sent."""
    run_there = any(_runs_there(document) for tool in ask.tools for document in (tool.foreign or {}).values())
    stored = any(not _STORED.isdisjoint(fields) for fields in ask.extra.values() if isinstance(fields, dict))
    return run_there or stored or any(map(_elsewhere, _blocks(ask.messages)))


def _runs_there(document: Any) -> bool:
    """Whether the provider runs a tool itself; one that only has more to say of itself has no type."""
    kind = document.get("type") if isinstance(document, dict) else None
    return kind is not None and not str(kind).startswith(_RUN_HERE)


def _elsewhere(block: object) -> bool:
    if isinstance(block, Media):
        return bool(block.url) or not block.media_type.startswith("image/")
    return isinstance(block, Foreign) and _refers(block.block)


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        fetched = not _ELSEWHERE.isdisjoint(value) or value.get("type") in ("url", "file")
        return fetched or any(map(_refers, value.values()))
    return isinstance(value, list | tuple) and any(map(_refers, value))


def _blocks(messages: Iterable[Said]) -> Iterable[object]:
    for said in messages:
        for block in said.blocks:
            yield block
            if isinstance(block, Result):
                yield from block.content


def _write(rates: Rates, *, hour: bool) -> int:
    return rates.cache_write_hour if hour and rates.cache_write_hour is not None else rates.cache_write


def _micros(product: int) -> int:
    """Tokens times rate as micro-dollars, rounded up."""
    return -(-product // MILLION)
