"""Pairs of memories weighed: by signs and trees always, by vectors and a reader where there are any.

What fails is done without, and the steps that are taken then say so.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from perdure.core.memory.pairing import Sums, Weights
from perdure.core.memory.parts import Memory
from perdure.core.memory.ruling import ruled
from perdure.core.memory.settling import Beside, Nearness, Reader, Settled
from perdure.core.memory.statements import Reading
from perdure.ports.memory import Embedder

_NO_VECTORS: Final = "by words alone: the embedder failed"
_UNREAD: Final = "not read: the reader failed"


class Weighing:
    """What pairs are weighed with. Weights and reader are loaded when they are first needed."""

    def __init__(
        self,
        weights: Callable[[], Weights],
        nearness: Callable[[Embedder, Sequence[tuple[str, str]]], Nearness] | None = None,
        reader: Callable[[], Reader | None] = lambda: None,
    ) -> None:
        self._weights, self._nearness, self._reader = weights, nearness, reader

    def settled(
        self, memories: Sequence[Memory], since: int, embedder: Embedder | None, reading: Reading
    ) -> tuple[Settled, ...]:
        """What is settled about pairs of which at least one came after `since`."""
        beside, lacking = Beside(memories, since, reading, ruled(memories, reading)), ""
        if embedder is not None and self._nearness is not None:
            lacking = _NO_VECTORS
            with suppress(Exception):  # whatever it raises
                beside, lacking = beside.by(self._nearness(embedder, beside.texts)), ""
        if not beside.pairs:
            return ()
        try:
            return beside.settled(self._weights(), self._made(), lacking)
        except _Unread:
            return beside.settled(self._weights(), None, f"{lacking}; {_UNREAD}" if lacking else _UNREAD)

    def _made(self) -> Reader | None:
        """The reader; `_Unread` where it cannot be had, or fails."""
        try:
            reader = self._reader()
        except Exception as error:
            raise _Unread from error
        return None if reader is None else lambda pairs: _read(reader, pairs)


class _Unread(Exception):
    """Whatever a reader raised."""


def _read(reader: Reader, pairs: Sequence[tuple[str, str]]) -> Sequence[Sums]:
    try:
        return reader(pairs)
    except Exception as error:
        raise _Unread from error
