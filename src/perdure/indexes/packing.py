"""Vectors as bytes to be kept: one of an item alone, one of it with what was said before; int8, a scale for each.

The bytes: 1 (the format), four of the embedder's name, then for each vector a float of four bytes and the numbers.
"""

import zlib
from typing import Any, Final

_FORMAT: Final = b"\x01"
_HEAD: Final = 5
VECTORS: Final = 2
_MOST: Final = 127


class Packing:
    """Packs and unpacks the vectors of one embedder."""

    def __init__(self, name: str, dimensions: int) -> None:
        import numpy as np

        self._numpy = np
        self.dimensions = dimensions
        self._head = _FORMAT + zlib.crc32(name.encode()).to_bytes(4, "little")
        self._whole = _HEAD + VECTORS * (4 + dimensions)

    def width_of(self, packed: bytes) -> int:
        """How many numbers each of these vectors has; 0 if they are another embedder's, or none."""
        numbers, rest = divmod(len(packed) - _HEAD, VECTORS)
        return max(numbers - 4, 0) if not rest and packed.startswith(self._head) else 0

    @property
    def nothing(self) -> bytes:
        """Vectors of zeros."""
        return self._head.ljust(self._whole, b"\x00")

    def fits(self, packed: bytes) -> bool:
        """Whether these bytes are vectors of this embedder."""
        return len(packed) == self._whole and packed.startswith(self._head)

    def pack(self, vectors: Any) -> list[bytes]:
        """The bytes of each item, from an array of items × 2 × dimensions."""
        np = self._numpy
        given = np.nan_to_num(np.asarray(vectors, dtype=np.float32))
        scales = np.maximum(np.abs(given).max(axis=2), 1e-12) / np.float32(_MOST)
        small = np.rint(given / scales[:, :, None]).astype(np.int8)
        scales = scales.astype("<f4")
        return [
            self._head + b"".join(scales[at, which].tobytes() + small[at, which].tobytes() for which in range(VECTORS))
            for at in range(len(given))
        ]

    def unpack(self, packed: list[bytes]) -> tuple[Any, Any]:
        """Numbers (items × 2 × dimensions) and scales (items × 2) of packed vectors, all of which fit."""
        np = self._numpy
        rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), self._whole)[:, _HEAD:]
        rows = rows.reshape(len(packed), VECTORS, 4 + self.dimensions)
        return rows[:, :, 4:].view(np.int8), np.ascontiguousarray(rows[:, :, :4]).view("<f4")[:, :, 0]
