"""Which items have which terms, and how often: numbers for each term, in the order of the items' slots.

Most terms of a space are in one item alone: they have a number, the others an array of them.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

_BITS: Final = 6
MOST: Final = (1 << _BITS) - 1
"""A term that is in an item more often counts no more."""
_SLOTS: Final = 1 << 32 - _BITS
_EACH: Final = 110
"""Bytes of a term that one item has, its place in the table included."""
_ARRAY: Final = 70
"""Bytes that an array takes more, beside its entries."""


class Postings:
    """Slots and counts by term. Entries of dead slots stay until they are swept; whoever reads passes them over."""

    __slots__ = ("_arrays", "_by_term", "_entries")

    def __init__(self) -> None:
        self._by_term: dict[str, int | array[int]] = {}
        self._entries = 0
        self._arrays = 0

    def put(self, slot: int, terms: Sequence[str]) -> None:
        """Note the terms of a slot, which is a higher one than any before."""
        if slot >= _SLOTS:
            raise OverflowError(f"an index has room for {_SLOTS} items")
        by_term, base = self._by_term, slot << _BITS
        counts = dict.fromkeys(terms, 1)
        if len(counts) < len(terms):
            counts = {}
            for term in terms:  # a Counter takes longer to be made than so few to be counted
                counts[term] = counts.get(term, 0) + 1
        for term, count in counts.items():
            entry = base | (count if count < MOST else MOST)
            there = by_term.setdefault(term, entry)
            if not isinstance(there, int):
                there.append(entry)
            elif there != entry:
                by_term[term] = array("I", (there, entry))
                self._arrays += 1
        self._entries += len(counts)

    def arrays(self, term: str) -> tuple[Any, Any] | None:
        """Slots and counts of a term as arrays of numpy's; None if no item has it."""
        entries = self._by_term.get(term)
        if entries is None:
            return None
        import numpy as np

        read = np.array((entries,) if isinstance(entries, int) else entries, dtype=np.uint32)
        return (read >> _BITS).astype(np.int64), (read & MOST).astype(np.float64)

    def of(self, term: str) -> list[tuple[int, int]]:
        """Slots and counts of a term."""
        return [(entry >> _BITS, entry & MOST) for entry in _several(self._by_term.get(term, ()))]

    def sweep(self, moved: dict[int, int]) -> None:
        """Keep the slots in `moved` alone, under their new numbers; these rise as the old ones do."""
        kept: dict[str, int | array[int]] = {}
        self._entries = self._arrays = 0
        for term, entries in self._by_term.items():
            new = [moved[e >> _BITS] << _BITS | e & MOST for e in _several(entries) if e >> _BITS in moved]
            if new:
                kept[term] = new[0] if len(new) == 1 else array("I", new)
                self._entries += len(new)
                self._arrays += len(new) > 1
        self._by_term = kept

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return self._entries * 5 + len(self._by_term) * _EACH + self._arrays * _ARRAY


def _several(entries: int | Iterable[int]) -> Iterable[int]:
    return (entries,) if isinstance(entries, int) else entries
