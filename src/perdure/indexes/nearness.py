"""How near texts are to each other, compared with how near any two of them are."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.memory.pairing import Alike
from perdure.ports.memory import Embedder

_BATCH: Final = 512
_SAMPLE: Final = 4_000
"""Pairs by which it is told how near two are by chance."""
_STRIDE: Final = 7_919
"""A prime: by steps of it numbers meet others, each time the same ones."""
_AT_ONCE: Final = 256
_MOST: Final = 20_000
"""Numbers whose nearest are looked for, at most."""


class Nearness:
    """Two vectors for each number, of a text whole and bare; a pair of numbers gives how near they are by both."""

    def __init__(self, embedder: Embedder, texts: Sequence[tuple[str, str]]) -> None:
        self._sides = [_Side(embedder, [pair[side] for pair in texts]) for side in (0, 1)]

    def __call__(self, one: int, other: int) -> Alike:
        """How near two are, in deviations from the mean."""
        return self._sides[0].of(one, other), self._sides[1].of(one, other)

    def nearest(self, numbers: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
        """Of each number, the few that are nearest to it whole; of very many, the last."""
        return self._sides[0].nearest(numbers[-_MOST:], count)


class _Side:
    def __init__(self, embedder: Embedder, texts: list[str]) -> None:
        import numpy as np

        distinct = sorted({text for text in texts if text})
        at = {text: row for row, text in enumerate(distinct)}
        self._rows = [at.get(text, -1) for text in texts]
        batches = (distinct[first : first + _BATCH] for first in range(0, len(distinct), _BATCH))
        made = [_made(embedder, batch) for batch in batches]
        self._vectors = np.concatenate(made) if made else np.zeros((0, embedder.dimensions), dtype=np.float32)
        there = np.array([row for row in self._rows if row >= 0], dtype=np.int64)
        self._mean, self._deviation = 0.0, 1.0
        if len(there) > 1:
            steps = np.arange(min(_SAMPLE, len(there) * 8))
            ones, others = there[steps % len(there)], there[(steps * _STRIDE + 1 + steps // len(there)) % len(there)]
            near = np.einsum("ij,ij->i", self._vectors[ones], self._vectors[others])[ones != others]
            if len(near):
                self._mean, self._deviation = float(near.mean()), max(float(near.std()), 0.02)

    def of(self, one: int, other: int) -> float | None:
        first, second = self._rows[one], self._rows[other]
        if first < 0 or second < 0:
            return None
        return (float(self._vectors[first] @ self._vectors[second]) - self._mean) / self._deviation

    def nearest(self, numbers: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
        import numpy as np

        there = np.array([number for number, row in enumerate(self._rows) if row >= 0], dtype=np.int64)
        all_rows = self._vectors[[self._rows[number] for number in there]].T
        asked = [number for number in numbers if self._rows[number] >= 0]
        if len(there) <= count:
            yield from ((one, int(other)) for one in asked for other in there if one != other)
            return
        for first in range(0, len(asked), _AT_ONCE):
            some = asked[first : first + _AT_ONCE]
            near = self._vectors[[self._rows[number] for number in some]] @ all_rows
            best = np.argpartition(-near, count, axis=1)[:, : count + 1]
            yield from (
                (one, int(there[at])) for one, row in zip(some, best, strict=True) for at in row if there[at] != one
            )


def _made(embedder: Embedder, batch: list[str]) -> Any:
    import numpy as np

    rows = np.asarray(embedder.embed(batch), dtype=np.float32)
    if rows.shape != (len(batch), embedder.dimensions):
        raise Invalid(f"{embedder.name} made vectors of shape {rows.shape} of {len(batch)} texts; look at the embedder")
    return np.nan_to_num(rows, posinf=0.0, neginf=0.0)
