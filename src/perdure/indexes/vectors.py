"""The vectors of an index: made by its embedder, or unpacked from what was kept.

How many numbers they have is known from the embedder, or else from the first that come. What has another width has no
vectors here, and is found by its words.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from perdure.core.memory.scoring import SPREAD
from perdure.indexes.matrix import Matrix
from perdure.indexes.packing import VECTORS, Packing
from perdure.indexes.quick import Columns
from perdure.ports.memory import UNANSWERED, UNMADE, Embedder, Item

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
        """The vector of a text; None while there is none to be had."""
        try:
            return self._numpy.asarray(self._embedder.embed([text])[0], dtype=self._numpy.float32)
        except UNANSWERED:
            return None

    def fitting(self, vector: Any) -> Any:
        """A vector, if it may be compared with those here; else None."""
        if vector is not None and not self._packing.dimensions:
            self._widen(len(vector))
        return vector if vector is not None and len(vector) == self._packing.dimensions else None

    def packed(
        self,
        items: Sequence[Item],
        given: list[bytes],
        contexts: Callable[[Sequence[Item]], list[tuple[str, str]]],
    ) -> list[bytes]:
        """What is given, where it is this embedder's, or is to stay unmade; the rest is made from texts, alone and with
        their contexts. What was given and can't be made anew is unmade.
        """
        packed = [*given, *[b""] * (len(items) - len(given))]
        packing = self._packing_of(self._packing.dimensions or self._embedder.dimensions or self._width_of(packed))
        missing = [at for at, each in enumerate(packed) if each != UNMADE and not packing.fits(each)]
        texts = contexts(items) if missing else []
        for start in range(0, len(missing), _BATCH):
            some = missing[start : start + _BATCH]
            try:
                made = self._made([text for at in some for text in texts[at]])
            except UNANSWERED:
                if not all(packed[at] for at in some):
                    raise
                made = [UNMADE] * len(some)
            for at, each in zip(some, made, strict=True):
                packed[at] = each
        return packed

    def _packing_of(self, width: int) -> Packing:
        return self._packing if width == self._packing.dimensions else Packing(self._embedder.name, width)

    def _widen(self, dimensions: int) -> None:
        self._packing = self._packing_of(dimensions)
        self._own.widen(dimensions)
        self.contexts.widen(dimensions)

    def _width_of(self, packed: Sequence[bytes]) -> int:
        return next(filter(None, map(self._packing.width_of, packed)), 0)

    def _made(self, texts: list[str]) -> list[bytes]:
        """The packed vectors of texts, two and two."""
        np = self._numpy
        rows = np.asarray(self._embedder.embed(texts), dtype=np.float32)
        return self._packing_of(rows.shape[1]).pack(rows.reshape(-1, VECTORS, rows.shape[1]))

    def append(self, packed: list[bytes]) -> None:
        """Take in the vectors of the next slots; where none were made, zeros, which speak neither for nor against."""
        if not self._packing.dimensions and (width := self._width_of(packed)):
            self._widen(width)
        nothing, fits = self._packing.nothing, self._packing.fits
        numbers, scales = self._packing.unpack([each if fits(each) else nothing for each in packed])
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
