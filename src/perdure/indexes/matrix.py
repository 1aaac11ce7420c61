"""Vectors of items in int8, a quarter of the memory that floats take, and their products with a query's."""

from threading import local
from typing import Any, Final

_CHUNK: Final = 2_048
"""Rows that are widened at once: they stay in the processor's cache, which makes it quicker than floats would be."""


class _Room(local):
    """Where rows are widened: one for each thread, since of thousands of matrices hardly any is asked at a time."""

    def __init__(self) -> None:
        self.wide: dict[int, Any] = {}


_room = _Room()


class Matrix:
    """Rows of int8 with a scale each; grows at its end."""

    def __init__(self, dimensions: int) -> None:
        import numpy as np

        self._numpy = np
        self._rows = np.zeros((0, dimensions), dtype=np.int8)
        self._scales = np.zeros(0, dtype=np.float32)
        self._count = 0

    def widen(self, dimensions: int) -> None:
        """Take rows of so many numbers from now on; those that are there are zeros."""
        self._rows = self._numpy.zeros((len(self._rows), dimensions), dtype=self._numpy.int8)

    def append(self, rows: Any, scales: Any) -> None:
        """Put rows at the end."""
        np = self._numpy
        end = self._count + len(rows)
        if end > len(self._rows):
            room = max(end, len(self._rows) * 3 // 2, 64)
            grown = np.zeros((room, self._rows.shape[1]), dtype=np.int8)
            grown[: self._count] = self._rows[: self._count]
            scaled = np.zeros(room, dtype=np.float32)
            scaled[: self._count] = self._scales[: self._count]
            self._rows, self._scales = grown, scaled
        self._rows[self._count : end] = rows
        self._scales[self._count : end] = scales
        self._count = end

    def keep(self, slots: Any) -> None:
        """Keep these rows alone, in this order."""
        self._rows, self._scales = self._rows[slots], self._scales[slots]
        self._count = len(slots)

    def times(self, vector: Any) -> Any:
        """The product of every row with a vector."""
        np = self._numpy
        out = np.empty(self._count, dtype=np.float32)
        dimensions = self._rows.shape[1]
        if dimensions not in _room.wide:
            _room.wide[dimensions] = np.zeros((_CHUNK, dimensions), dtype=np.float32)
        room = _room.wide[dimensions]
        for start in range(0, self._count, _CHUNK):
            end = min(start + _CHUNK, self._count)
            wide = room[: end - start]
            np.copyto(wide, self._rows[start:end])
            np.dot(wide, vector, out=out[start:end])
        out *= self._scales[: self._count]
        return out

    def some(self, slots: Any, vector: Any) -> Any:
        """The product of these rows with a vector."""
        np = self._numpy
        return self._rows[slots].astype(np.float32) @ vector * self._scales[slots]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self._rows.nbytes + self._scales.nbytes)
