"""How well texts and vectors answer a question: BM25 over words, cosine over vectors. Pure, and by brute force.

Words are folded and split as perdure's own search does it, so that the same question finds the same words everywhere.
A vector is kept as bytes: its direction, 32-bit floats, least significant byte first.
"""

import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, log, sqrt
from operator import mul
from typing import Any, Final
from unicodedata import normalize

import msgspec

from perdure import errors

_WORD = re.compile(r"[^\W_]+")
_SWAPPED: Final = sys.byteorder == "big"
SATURATION: Final = 1.2
"""How soon saying a word again counts for nothing more."""
LENGTH: Final = 0.75
"""How much a long text is marked down, from not at all to fully."""


class Document(msgspec.Struct, frozen=True):
    """The words of a text, counted."""

    counts: Mapping[str, int]
    length: int


def words(text: str) -> list[str]:
    """The folded words of a text in their order: runs of letters and digits in any script."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return _WORD.findall(normalize("NFKC", normalize("NFKC", text).casefold()))


def document(texts: Iterable[str]) -> Document:
    """Texts taken together, ready to be ranked."""
    counts = Counter(word for text in texts for word in words(text))
    return Document(dict(counts), counts.total())


def bm25(question: str, documents: Sequence[Document]) -> list[float]:
    """The score of each document among these ones; 0 where no word of the question is in it."""
    asked = set(words(question))
    spread = {word: sum(word in item.counts for item in documents) for word in asked}
    total = len(documents)
    weights = {word: log(1 + (total - found + 0.5) / (found + 0.5)) for word, found in spread.items() if found}
    usual = sum(item.length for item in documents) / total if total else 0.0
    return [_score(item, weights, usual) for item in documents]


def _score(item: Document, weights: Mapping[str, float], usual: float) -> float:
    score = 0.0
    for word, weight in weights.items():
        count = item.counts.get(word)
        if count:
            damped = SATURATION * (1 - LENGTH + LENGTH * item.length / usual)
            score += weight * count * (SATURATION + 1) / (count + damped)
    return score


def listed(value: Any) -> bool:
    """Whether it is a list, or what is counted and read like one; a text is not."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def packed(vector: Any, dims: int) -> bytes:
    """The direction of a vector as it is kept, or `Invalid` when it is none or has not so many dimensions."""
    try:
        numbers = [float(number) for number in vector] if listed(vector) else None
    except (TypeError, ValueError, OverflowError):
        numbers = None
    if numbers is None:
        raise errors.Invalid(f"the embedder gave {vector!r:.80} for a vector; it must give a list of numbers")
    if len(numbers) != dims:
        raise errors.Invalid(
            f"the embedder gave a vector of {len(numbers)} dimensions; set dims to that, or embed with another model",
            found=len(numbers),
            dims=dims,
        )
    largest = max(map(abs, numbers), default=0.0)
    if not all(map(isfinite, numbers)):
        raise errors.Invalid("the embedder gave a vector that is not made of numbers; look at what it was given")
    scaled = [number / largest for number in numbers] if largest else numbers  # squares of tiny numbers would vanish
    norm = sqrt(sum(map(mul, scaled, scaled))) or 1.0
    return _bytes(array("f", [number / norm for number in scaled]))


def cosine(vector: bytes, other: bytes) -> float:
    """How alike two kept vectors are, from −1 to 1; 0 for one without a direction."""
    return float(sum(map(mul, _numbers(vector), _numbers(other))))


def _bytes(numbers: "array[float]") -> bytes:
    if _SWAPPED:
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(kept: bytes) -> "array[float]":
    numbers = array("f")
    numbers.frombytes(kept)
    if _SWAPPED:
        numbers.byteswap()
    return numbers
