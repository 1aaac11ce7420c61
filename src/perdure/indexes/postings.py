"""Which items have which terms, and how often: an array of numbers for each term, in the order of the items' slots."""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

_BITS: Final = 6
MOST: Final = (1 << _BITS) - 1
"""A term that is in an item more often counts no more."""
_SLOTS: Final = 1 << 32 - _BITS
_EACH: Final = 200
"""Bytes of a term, its array and its place in the table, beside the entries."""


class Postings:
    """Slots and counts by term. Entries of dead slots stay until they are swept; whoever reads passes them over."""

    __slots__ = ("_by_term", "_entries")

    def __init__(self) -> None:
        self._by_term: dict[str, array[int]] = {}
        self._entries = 0

    def put(self, slot: int, terms: Sequence[str]) -> None:
        """Note the terms of a slot, which is a higher one than any before."""
        if slot >= _SLOTS:
            raise OverflowError(f"an index has room for {_SLOTS} items")
        by_term, base = self._by_term, slot << _BITS
        counts = dict.fromkeys(terms, 1)
        if len(counts) < len(terms):
            counts = Counter(terms)
        for term, count in counts.items():
            entry = base | (count if count < MOST else MOST)
            try:
                by_term[term].append(entry)
            except KeyError:
                by_term[term] = array("I", (entry,))
        self._entries += len(counts)

    def arrays(self, term: str) -> tuple[Any, Any] | None:
        """Slots and counts of a term as arrays of numpy's; None if no item has it."""
        entries = self._by_term.get(term)
        if entries is None:
            return None
        import numpy as np

        read = np.frombuffer(entries, dtype=np.uint32)
        return (read >> _BITS).astype(np.int64), (read & MOST).astype(np.float64)

    def of(self, term: str) -> list[tuple[int, int]]:
        """Slots and counts of a term."""
        return [(entry >> _BITS, entry & MOST) for entry in self._by_term.get(term, ())]

    def sweep(self, moved: dict[int, int]) -> None:
        """Keep the slots in `moved` alone, under their new numbers; these rise as the old ones do."""
        kept: dict[str, array[int]] = {}
        for term, entries in self._by_term.items():
            new = [moved[e >> _BITS] << _BITS | e & MOST for e in entries if e >> _BITS in moved]
            if new:
                kept[term] = array("I", new)
        self._by_term = kept
        self._entries = sum(map(len, kept.values()))

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return self._entries * 5 + len(self._by_term) * _EACH
