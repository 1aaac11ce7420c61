"""Pieces of running turns' streams, as every store keeps them beside the log: compressed, and sealed like a record.

A piece opens only in its session, as part of its turn, at its offset.
"""

from collections.abc import Iterable
from typing import Final

from perdure.core.session.record import Record
from perdure.ports.seal import Place
from perdure.stores.packing import Packing, PlaceWrapping, is_sealed, squeeze, unsqueeze

KIND: Final = "stream"
LAST: Final = (1 << 63) - 1
"""No turn comes after it."""


def pack(packing: Packing, place: Place, turn: int, offset: int, data: bytes) -> bytes:
    """A piece as it is stored."""
    body = squeeze(data)
    if place.salt is None:
        return body
    return PlaceWrapping(packing.seal, place).wrap(KIND, offset, _bound(turn), body)


def unpack(packing: Packing, place: Place, turn: int, offset: int, stored: bytes) -> bytes:
    """The piece behind stored bytes, or `Damaged`."""
    if is_sealed(packing.seal, place):
        stored = PlaceWrapping(packing.seal, place).unwrap(KIND, offset, _bound(turn), stored)
    return unsqueeze(stored)


def _bound(turn: int) -> bytes:
    return turn.to_bytes(8, "big")


def redacted_turns(rewrites: Iterable[Record]) -> frozenset[int]:
    """The turns whose content is destroyed by these rewrites: what was streamed in them may hold it, too."""
    entries = (entry for record in rewrites for entry in record.entries if entry.blind is None)
    return frozenset(entry.turn for entry in entries if entry.turn is not None)
