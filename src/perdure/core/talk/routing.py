"""Which of several models an ask goes to, when the caller leaves it open (`auto`): the cheapest that is likely enough.

How hard an ask is, is told from its shape alone, in any language: how much there is to read, how long the question is
and how many there are in it, whether it is about code, whether tools are at work, whether there are pictures. What a
model can do is told from its price. Both are crude, and both are said: every choice comes with its reasons.

Invariants: the same ask and the same candidates make the same choice, in whatever order they are named; a model whose
window is too small is chosen only when all are; what is harder never goes to a cheaper model. Choose once for a turn:
in the middle of one, another model would lose the provider's cache and cannot read sealed thoughts.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Ask, Call, Media, Result, Said, Text
from perdure.core.talk.prices import Rates
from perdure.core.talk.tokens import estimate, estimate_ask
from perdure.core.talk.window import has_words

ANSWER: Final = 1_024
"""Tokens that an answer is taken to need when the ask names no limit."""
_INPUT_SHARE: Final = 3
"""Of what agents pay for, this many tokens are read for each that is written."""
_CODE: Final = re.compile(
    r"```"
    r"|^[ \t]*[\w.\[\]]+[ \t]*[-+*/|&:]?=[ \t]*\S"  # a value is given to a name
    r"|[;{}][ \t]*$"
    r"|\b\w{1,64}\([^()\n]*\)[ \t]*[:;{.]"
    r"|=>|->|::|</\w{1,64}>|^[ \t]*(?:#include|@\w)",
    re.MULTILINE,
)
_ITEMS: Final = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)]|\([a-z\d]\))[ \t]+\S", re.MULTILINE)
_QUESTIONS: Final = re.compile("[?\u00bf\u061f\uff1f]+")
_ENOUGH_CODE: Final = 2


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of an ask: all its tokens, those of the user's last words, and what is in them. `rounds` are the rounds
    of tools since then.
    """

    tokens: int = 0
    answer: int = ANSWER
    asked: int = 0
    parts: int = 0
    tools: int = 0
    rounds: int = 0
    code: bool = False
    pictures: bool = False


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may be chosen."""

    model: str
    rates: Rates
    window: int


class Chosen(NamedTuple):
    """The model, and why it is that one."""

    model: str
    why: str


def facts_of(ask: Ask) -> Facts:
    """The shape of an ask."""
    last = next((at for at in range(len(ask.messages) - 1, -1, -1) if has_words(ask.messages[at])), None)
    said = ask.messages[last:] if last is not None else ()
    words = _words(said[:1])
    return Facts(
        tokens=estimate_ask(ask),
        answer=ANSWER if ask.max_tokens is None else ask.max_tokens,
        asked=estimate(words),
        parts=len(_ITEMS.findall(words)) + len(_QUESTIONS.findall(words)),
        tools=len(ask.tools),
        rounds=sum(any(isinstance(block, Call) for block in message.blocks) for message in said),
        code=len(_CODE.findall(words)) >= _ENOUGH_CODE,
        pictures=any(isinstance(block, Media) for message in said for block in _all(message)),
    )


def difficulty(facts: Facts) -> tuple[int, tuple[str, ...]]:
    """How hard an ask is, from 0 to 100, and what makes it so, the most first. Each fact counts up to a limit, and the
    more there is the less the next counts.
    """
    found = [
        (_slope(facts.asked, 30, 7, 30), f"a question of {facts.asked} tokens"),
        (_slope(facts.tokens, 2_000, 5, 15), f"{facts.tokens} tokens to read"),
        (_slope(facts.parts, 2, 6, 15), f"{facts.parts} parts"),
        (_slope(facts.rounds, 1, 4, 10), f"{facts.rounds} rounds of tools so far"),
        (10 if facts.tools else 0, f"{facts.tools} tools to choose from"),
        (15 if facts.code else 0, "code"),
        (5 if facts.pictures else 0, "pictures"),
    ]
    told = sorted((item for item in found if item[0]), key=lambda item: -item[0])
    return sum(points for points, _ in told), tuple(why for _, why in told)


def chosen(ask: Ask | Facts, candidates: Iterable[Option]) -> Chosen:
    """The model for an ask. The candidates that it fits stand in the order of their prices, and the harder it is the
    farther up it goes. Raises `Invalid` when there is none to choose from.
    """
    known = sorted(set(candidates), key=lambda item: (_price(item.rates), item.model, item.window))
    if not known:
        raise Invalid("there is no model to choose from; name at least one for `auto`, or the model itself")
    facts = ask if isinstance(ask, Facts) else facts_of(ask)
    room = facts.tokens + facts.answer
    fitting = [item for item in known if item.window >= room]
    if not fitting:
        widest = max(known, key=lambda item: item.window)
        return Chosen(widest.model, f"no window holds {room} tokens; this one is the widest")
    points, reasons = difficulty(facts)
    found = fitting[points * len(fitting) // 101]
    why = f"difficulty {points} of 100" + (f" ({', '.join(reasons)})" if reasons else "")
    return Chosen(found.model, f"{why}; {_place(fitting, found)} of {len(fitting)} by price")


def _place(fitting: Sequence[Option], found: Option) -> str:
    return f"number {fitting.index(found) + 1}"


def _price(rates: Rates) -> int:
    return _INPUT_SHARE * rates.input + rates.output


def _slope(count: int, unit: int, step: int, most: int) -> int:
    """Points for so many: a step for each time that the unit is doubled."""
    return min(most, step * (max(0, count) // unit).bit_length())


def _words(said: Sequence[Said]) -> str:
    return "\n".join(block.text for message in said for block in message.blocks if isinstance(block, Text))


def _all(message: Said) -> Iterable[object]:
    for block in message.blocks:
        yield block
        if isinstance(block, Result):
            yield from block.content
