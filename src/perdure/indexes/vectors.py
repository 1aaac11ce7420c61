"""The vectors of an index: made by its embedder, or unpacked from what was kept."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from perdure.core.memory.scoring import SPREAD
from perdure.indexes.matrix import Matrix
from perdure.indexes.packing import Packing
from perdure.indexes.quick import Columns
from perdure.ports.memory import UNMADE, Embedder, Item

_BATCH: Final = 512
"""Items that are embedded at once."""


class Vectors:
    """Two for each slot: of the text alone, and of it with what was said before."""

    def __init__(self, embedder: Embedder) -> None:
        import numpy as np

        self._numpy = np
        self._embedder = embedder
        self._packing = Packing(embedder.name, embedder.dimensions)
        self._own = Matrix(embedder.dimensions)
        self.contexts = Matrix(embedder.dimensions)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._own.size + self.contexts.size

    def of(self, text: str) -> Any:
        """The vector of a text."""
        return self._numpy.asarray(self._embedder.embed([text])[0], dtype=self._numpy.float32)

    def packed(
        self,
        items: Sequence[Item],
        given: list[bytes],
        contexts: Callable[[Sequence[Item]], list[tuple[str, str]]],
    ) -> list[bytes]:
        """What is given, where it is this embedder's, or is to stay unmade; the rest is made from texts, alone and with
        their contexts.
        """
        np = self._numpy
        packed = [*given, *[b""] * (len(items) - len(given))]
        missing = [at for at, each in enumerate(packed) if each != UNMADE and not self._packing.fits(each)]
        texts = contexts(items) if missing else []
        for start in range(0, len(missing), _BATCH):
            some = missing[start : start + _BATCH]
            made = self._embedder.embed([text for at in some for text in texts[at]])
            rows = np.asarray(made, dtype=np.float32).reshape(len(some), 2, self._embedder.dimensions)
            for at, each in zip(some, self._packing.pack(rows), strict=True):
                packed[at] = each
        return packed

    def append(self, packed: list[bytes]) -> None:
        """Take in the vectors of the next slots; where none were made, zeros, which speak neither for nor against."""
        nothing = self._packing.nothing
        numbers, scales = self._packing.unpack([nothing if each == UNMADE else each for each in packed])
        self._own.append(numbers[:, 0], scales[:, 0])
        self.contexts.append(numbers[:, 1], scales[:, 1])

    def keep(self, slots: list[int]) -> None:
        """Let go of all but these."""
        self._own.keep(slots)
        self.contexts.keep(slots)

    def meanings(self, slots: list[int], vector: Any) -> Any:
        """How near the texts of some slots are, on a scale where the mean of these is 0 and the best is 1."""
        np = self._numpy
        near = self._own.some(np.array(slots, dtype=np.int64), vector).astype(np.float64)
        there = near != 0
        if not there.any():
            return np.zeros(len(slots))
        mean = near[there].mean()
        return np.where(there, (near - mean) / max(near[there].max() - mean, SPREAD), 0.0)

    def nearest(self, vector: Any, k: int, columns: Columns) -> list[tuple[int, float]]:
        """The slots whose own vectors are nearest, and their cosines."""
        np = self._numpy
        near = self._own.times(vector)[columns.living]
        some = np.argsort(-near, kind="stable")[:k]
        return [(int(columns.living[at]), float(near[at])) for at in some]
