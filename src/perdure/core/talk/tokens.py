"""How many tokens a text or an ask is, without any model's own tokenizer: an estimate, a little high on purpose.

Each class of characters has its own number of them to a token, and no token has two classes in it. What providers
report afterwards corrects the estimate, model by model: that is a `Calibration`.
Invariant: no text counts more tokens than it has UTF-8 bytes, and none but the empty one counts nothing.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, assert_never

import msgspec

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Ask, Block, Call, Foreign, Media, Result, Text, Thought, Tool, Usage
from perdure.core.talk.wire import rest_in

_PLAIN: Final = re.compile(
    r"[A-Z][a-z]{1,4}|[a-z]{1,5}"  # words
    r"|[A-Z]{1,3}|[0-9]{1,2}"
    r"|(?<=[ \t])[ \t]{1,8}"  # the first blank belongs to the word behind it
    r"|[\r\n]{1,8}"
    r"|([^A-Za-z0-9 \t\r\n\x80-\U0010ffff])\1{0,3}"  # marks, and the rules that are drawn with them
)
"""One token each: what there is in ASCII."""
_OTHER: Final = (
    # name, pattern, tokens, per characters
    ("near", r"[\x80-\u07ff]+", 2, 5),  # Latin with accents, Greek, Cyrillic, Hebrew, Arabic
    ("marks", r"[\u2000-\u206f]+", 1, 1),  # dashes, quotes, dots
    ("ideographs", r"[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]+", 6, 5),
    ("far", r"[\u0800-\u1fff\u2070-\u2e7f\ua000-\uabff\ud7b0-\ufeff\ufff0-\uffff]+", 3, 2),  # else in three bytes
    ("astral", r"[\U00010000-\U0010ffff]+", 3, 1),  # emoji and what is rarer
)
_RATES: Final = {name: (tokens, per) for name, _, tokens, per in _OTHER}
_RUNS: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern, *_ in _OTHER))

SEAM: Final = 2
"""Two texts together count as many tokens as apart, give or take this many."""
MESSAGE: Final = 4
"""Tokens around each message."""
OFFERED: Final = 8
"""Tokens around each tool offered."""
TOOLS: Final = 350
"""Tokens that providers add when any tool is offered."""
PICTURE: Final = 1_600
"""Tokens of a picture, or of anything that is somewhere else."""
_SEALED: Final = 6
"""Bytes of a hidden thought's seal to a token."""
_PAGE: Final = 20
"""Bytes of a document to a token."""


def estimate(text: str) -> int:
    """About how many tokens a text is."""
    if not text:
        return 0
    found = len(_PLAIN.findall(text))
    if not text.isascii():
        for run in _RUNS.finditer(text):
            tokens, per = _RATES[run.lastgroup or ""]
            found += -(-(run.end() - run.start()) * tokens // per)
    return max(1, found)


def fitting(text: str, tokens: int) -> str:
    """The longest beginning of a text that counts no more than so many tokens."""
    if estimate(text) <= tokens:
        return text
    fits, over = 0, len(text)
    while over - fits > 1:
        middle = (fits + over) // 2
        if estimate(text[:middle]) <= tokens:
            fits = middle
        else:
            over = middle
    return text[:fits]


# ── blocks and asks ──


def estimate_ask(ask: Ask) -> int:
    """About how many tokens an ask is: what is said, the tools offered, and what stands around both."""
    found = sum(map(estimate_block, ask.system))
    for said in ask.messages:
        found += MESSAGE + estimate(said.name) + estimate_blocks(said.blocks)
    return found + (TOOLS if ask.tools else 0) + sum(map(_tool, ask.tools))


def estimate_blocks(blocks: Iterable[Block]) -> int:
    """About how many tokens some blocks are."""
    return sum(map(estimate_block, blocks))


def estimate_block(block: Block) -> int:
    """About how many tokens a block is. A rest is none: it says how a block was sent, and nothing to the model."""
    match block:
        case Text():
            return estimate(block.text)
        case Call():
            return estimate(block.name) + estimate(block.raw or _json(block.arguments))
        case Result():
            return estimate_blocks(block.content)
        case Thought():
            return estimate(block.text) if block.text else -(-len(block.seal) // _SEALED)
        case Media():
            return PICTURE if block.media_type.startswith("image/") else max(PICTURE, len(block.data) // _PAGE)
        case Foreign():
            return estimate(_json(block.block)) if rest_in(block) is None else 0
        case _:
            assert_never(block)


def _tool(tool: Tool) -> int:
    if tool.foreign is not None:
        return OFFERED + estimate(_json(tool.foreign))
    return OFFERED + estimate(tool.name) + estimate(tool.description) + estimate(_json(tool.schema))


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


# ── what providers report ──

ONE: Final = 1_000_000
"""A ratio of one: ratios are whole millionths."""
LEAST: Final = ONE // 4
MOST: Final = ONE * 4
SETTLED: Final = 16
"""After so many reports the newest one counts a sixteenth; before, they count alike."""
TELLING: Final = 32
"""An estimate below this says nothing: what stands around it weighs more."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many tokens of a model an estimated token is, in millionths, and how many reports say so."""

    model: str
    ratio: int = ONE
    seen: int = 0


def learned(calibration: Calibration, estimated: int, reported: int) -> Calibration:
    """What is known after one more report: the newest counts most, and none can move the ratio out of its bounds."""
    if estimated < 0 or reported < 0:
        raise Invalid("tokens are not negative; correct what was reported", estimated=estimated, reported=reported)
    if estimated < TELLING or reported == 0:
        return calibration
    observed = _bounded(reported * ONE // estimated)
    weight = min(calibration.seen + 1, SETTLED)
    ratio = _bounded((calibration.ratio * (weight - 1) + observed) // weight)
    return Calibration(model=calibration.model, ratio=ratio, seen=min(calibration.seen + 1, SETTLED))


def calibrated(calibration: Calibration, estimated: int) -> int:
    """An estimate, corrected; rounded up."""
    return -(-max(0, estimated) * _bounded(calibration.ratio) // ONE)


def count(text: str, calibration: Calibration) -> int:
    """About how many of a model's tokens a text is, and never more than its bytes."""
    return min(calibrated(calibration, estimate(text)), len(text.encode("utf-8", "surrogatepass")))


def sent(usage: Usage) -> int:
    """All the tokens that a provider counted of an ask, cached or not."""
    return usage.input + usage.cache_read + usage.cache_write


def _bounded(ratio: int) -> int:
    return min(max(ratio, LEAST), MOST)
