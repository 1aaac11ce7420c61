"""How the volatile store holds content of one session: as it is, or, in a sealed store, as the bytes a disk would see.

Invariant: nothing handed in or out shares a mutable part with what is held, so nobody changes it from outside.
"""

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.session.record import Record
from perdure.core.session.values import clone
from perdure.core.session.write import Checkpoint
from perdure.ports.seal import Place
from perdure.ports.store import Row, Snapshot, Stored
from perdure.stores.packing import Packing, labels_from
from perdure.stores.streams import pack, unpack


class Held(Struct, frozen=True):
    """A record in its place; its content as it is, or sealed."""

    first: int
    last: int
    digest: bytes
    content: Record | bytes


class HeldRow(Struct, frozen=True):
    """A row; what nobody else may read of it lies in the card, if the store is sealed."""

    row: Row
    card: bytes | None = None


class Holding:
    """What goes onto a shelf and comes off it."""

    def __init__(self, packing: Packing, place: Place) -> None:
        self._packing = packing
        self.place = place

    def hold(self, stored: Stored) -> Held:
        """A record, to be kept."""
        record, clear = stored.record, self._packing.clear
        content = record if clear else self._packing.pack(self.place, record, stored.digest)
        return Held(record.first, record.last, stored.digest, content)

    def stored(self, held: Held) -> Stored:
        """A record that was kept, or `Damaged`."""
        if isinstance(held.content, bytes):
            return Stored(self._packing.unpack(self.place, held.content, held.first, held.digest), held.digest)
        return Stored(held.content, held.digest)

    def hold_snapshot(self, item: Snapshot) -> Snapshot:
        """A cached state, to be kept."""
        clear = self._packing.clear
        return item if clear else Snapshot(item.version, *self._packing.keep_snapshot(self.place, item))

    def snapshot(self, held: Snapshot) -> Snapshot:
        """A cached state that was kept; one that cannot be read comes back empty."""
        clear = self._packing.clear
        return held if clear else self._packing.snapshot(self.place, held.version, held.state, held.sha)

    def hold_checkpoint(self, item: Checkpoint) -> Checkpoint:
        """A checkpoint, to be kept."""
        if self._packing.clear:
            return replace(item, metadata=clone(item.metadata))
        payload, payload_sha, state_sha, label, _ = self._packing.keep_checkpoint(self.place, item)
        return replace(item, payload=payload, payload_sha=payload_sha, state_sha=state_sha, label=label, metadata={})

    def checkpoint(self, held: Checkpoint) -> Checkpoint:
        """A checkpoint that was kept; a payload that cannot be read comes back empty."""
        if self._packing.clear:
            return replace(held, metadata=clone(held.metadata))
        return self._packing.checkpoint(self.place, held, "{}")

    def hold_piece(self, turn: int, offset: int, data: bytes) -> bytes:
        """A piece of a turn's stream, to be kept."""
        return data if self._packing.clear else pack(self._packing, self.place, turn, offset, data)

    def piece(self, turn: int, offset: int, held: bytes) -> bytes:
        """A piece that was kept."""
        return held if self._packing.clear else unpack(self._packing, self.place, turn, offset, held)

    def hold_row(self, row: Row) -> HeldRow:
        """A row, to be kept."""
        if self._packing.clear:
            return HeldRow(own_row(row))
        title, _, card = self._packing.keep_card(self.place, row)
        return HeldRow(replace(row, title=title, tags=(), metadata={}), card)

    def row(self, held: HeldRow) -> Row:
        """A row that was kept."""
        if self._packing.clear:
            return own_row(held.row)
        title, labels = self._packing.card(self.place, "", "{}", held.card)
        tags, metadata = labels_from(labels)
        return replace(held.row, title=title, tags=tags, metadata=metadata)


def own_row(row: Row) -> Row:
    """The row with metadata of its own."""
    return replace(row, metadata=clone(row.metadata))
