"""How alike two texts are, without any model: a crude embedding, and a quick way to find what is near it.

The embedding counts words, pairs of words and triples of letters, each hashed to one of a few thousand dimensions. It
knows spelling and nothing of meaning: `cheap flights to Rome` and `flights to Rome, cheap` are alike, `a low fare to
the Italian capital` is not. Who needs better gives an embedding of their own.

A sketch is a short summary of a vector: the more bits two sketches share, the smaller the angle between the vectors.
Comparing two takes no time, so only the few nearest need be measured. All is deterministic, on every machine.
"""

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import isfinite, sqrt
from struct import unpack
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

Embedding: TypeAlias = Mapping[int, float] | Sequence[float]
"""What an embedding may be: a number for each dimension, or only for those that are not zero."""

DIMENSIONS: Final = 4_096
BITS: Final = 128
FEW: Final = 6
"""Words of a text up to which a threshold holds as it is."""
_WORDS: Final = re.compile(r"\w+")
_TRIPLE: Final = 0.25
"""What three letters weigh beside a word or a pair of words."""
_FINE: Final = 1_000
"""Steps into which a weight is divided for a sketch."""
_LANE: Final = 32
"""Bits for each sum of a sketch: they are all made at once, side by side in one number."""
_SPREAD: Final = [
    sum((byte >> at & 1) << (_LANE * at) for at in range(8)).to_bytes(_LANE, "little") for byte in range(256)
]
"""The bits of a byte, each in its lane."""


class Vector(msgspec.Struct, frozen=True):
    """An embedding of length one: dimensions that are not zero, their values, and the sketch."""

    dimensions: "array[int]"
    values: "array[float]"
    sketch: int

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 16 * len(self.dimensions) + 300


def embedding(text: str) -> dict[int, float]:
    """The crude embedding of a text. How often something is said counts by its root; how a text begins is a pair."""
    words = _WORDS.findall(text.casefold())
    found: Counter[str] = Counter(words)
    weights = {f"w {word}": sqrt(count) for word, count in found.items()}
    weights |= {
        f"p {first} {second}": sqrt(count) for (first, second), count in Counter(pairwise(["", *words])).items()
    }
    triples = Counter(f" {word} "[at : at + 3] for word in words for at in range(len(word)))
    weights |= {f"t {triple}": _TRIPLE * sqrt(count) for triple, count in triples.items()}
    vector: dict[int, float] = {}
    for name, weight in weights.items():
        dimension = crc32(name.encode("utf-8", "surrogatepass")) % DIMENSIONS
        vector[dimension] = vector.get(dimension, 0.0) + weight
    return vector


def vector(told: Embedding) -> Vector | None:
    """An embedding made comparable; None for one that points nowhere."""
    items = told.items() if isinstance(told, Mapping) else enumerate(told)
    found = sorted((int(dimension), float(value)) for dimension, value in items if value)
    length = sqrt(sum(value * value for _, value in found))
    if not length or not isfinite(length):
        return None
    dimensions = array("q", (dimension for dimension, _ in found))
    values = array("d", (value / length for _, value in found))
    return Vector(dimensions, values, _sketch(dimensions, values))


def likeness(one: Vector, other: Vector) -> float:
    """The cosine of the angle between two vectors: 1 for the same direction, 0 for nothing in common."""
    if one.dimensions == other.dimensions:
        return sum(mine * theirs for mine, theirs in zip(one.values, other.values, strict=True))
    mine = dict(zip(one.dimensions, one.values, strict=True))
    shared = zip(other.dimensions, other.values, strict=True)
    return sum(mine[dimension] * value for dimension, value in shared if dimension in mine)


def needed(threshold: float, text: str) -> float:
    """How alike another text must be to stand for this one. As much may differ as in a text of a few words: of a long
    one that is a smaller part. At 0.9, the crude embedding lets pass what is put behind a question, such as a `please`;
    a word more or less anywhere else, such as a `not`, makes it another one.
    """
    return 1 - (1 - threshold) * min(1.0, FEW / max(1, len(_WORDS.findall(text))))


def apart(one: Vector, other: Vector) -> int:
    """In how many bits two sketches differ."""
    return (one.sketch ^ other.sketch).bit_count()


def _sketch(dimensions: Sequence[int], values: Sequence[float]) -> int:
    """One bit for each of some fixed directions: on which side of it the vector lies.

    A direction says plus or minus for every dimension, so the side is told by whether the weights with a plus are more
    than half of all.
    """
    plus = minus = total = 0
    for dimension, value in zip(dimensions, values, strict=True):
        weight = int(value * _FINE)
        total += weight
        if weight > 0:
            plus += weight * _row(dimension)
        elif weight < 0:
            minus -= weight * _row(dimension)
    more, less = (unpack(f"<{BITS}I", sums.to_bytes(BITS * _LANE // 8, "little")) for sums in (plus, minus))
    return sum(1 << at for at in range(BITS) if 2 * (more[at] - less[at]) > total)


@lru_cache(maxsize=DIMENSIONS)
def _row(dimension: int) -> int:
    """The directions that say plus for a dimension, each as a one in its lane."""
    signs = blake2b(dimension.to_bytes(8, "little", signed=True), digest_size=BITS // 8).digest()
    return int.from_bytes(b"".join(_SPREAD[sign] for sign in signs), "little")
