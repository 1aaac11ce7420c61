"""Pairs of memories weighed: by signs and trees always, by vectors and a reader where there are any.

What fails is done without, and the steps that are taken then say so.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import isfinite
from typing import Final, NamedTuple

from perdure.core.memory.pairing import Sums, Weights
from perdure.core.memory.parts import Memory
from perdure.core.memory.ruling import ruled
from perdure.core.memory.scoring import NO_VECTORS
from perdure.core.memory.settling import Beside, Nearness, Reader, Settled
from perdure.core.memory.statements import Reading
from perdure.ports.memory import Embedder

_UNREAD: Final = "not read: the reader failed"


class Weighed(NamedTuple):
    """What is settled about pairs, and who should have had a say, and failed."""

    settled: tuple[Settled, ...] = ()
    lacking: str = ""


class Weighing:
    """What pairs are weighed with. Weights and reader are loaded when they are first needed."""

    def __init__(
        self,
        weights: Callable[[], Weights],
        nearness: Callable[[Embedder, Sequence[tuple[str, str]]], Nearness] | None = None,
        reader: Callable[[], Reader | None] = lambda: None,
    ) -> None:
        self._weights, self._nearness, self._reader = weights, nearness, reader

    def settled(self, memories: Sequence[Memory], since: int, embedder: Embedder | None, reading: Reading) -> Weighed:
        """What is settled about pairs of which at least one came after `since`."""
        beside, lacking = Beside(memories, since, reading, ruled(memories, reading)), ""
        if embedder is not None and self._nearness is not None:
            lacking = NO_VECTORS
            with suppress(Exception):  # whatever it raises
                beside, lacking = beside.by(self._nearness(embedder, beside.texts)), ""
        if not beside.pairs:
            return Weighed((), lacking)
        try:
            return Weighed(beside.settled(self._weights(), self._made(), lacking), lacking)
        except _Unread:
            lacking = f"{lacking}; {_UNREAD}" if lacking else _UNREAD
            return Weighed(beside.settled(self._weights(), None, lacking), lacking)

    def _made(self) -> Reader | None:
        """The reader; `_Unread` where it cannot be had, or fails."""
        try:
            reader = self._reader()
        except Exception as error:
            raise _Unread from error
        return None if reader is None else lambda pairs: _read(reader, pairs)


class _Unread(Exception):
    """Whatever a reader raised, or told that is no number."""


def _read(reader: Reader, pairs: Sequence[tuple[str, str]]) -> Sequence[Sums]:
    try:
        found = reader(pairs)
        fit = len(found) == len(pairs) and all(isfinite(same) and isfinite(newer) for same, newer in found)
    except Exception as error:
        raise _Unread from error
    if not fit:
        raise _Unread
    return found
