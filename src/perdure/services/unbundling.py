"""Reading bundles back: every frame proven, then any part of the log from there as if from a store."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from perdure.core.errors import BundleMissing, Damaged, Invalid, NewerStore
from perdure.core.session import codec
from perdure.core.session import record as records
from perdure.core.session.write import Checkpoint
from perdure.ports.cold import Cold
from perdure.ports.store import Head, Row, Snapshot, Stored, Wrapping
from perdure.services.bundles import FORMAT, KIND, Header, Item, KeptCheckpoint, KeptRecord, KeptSnapshot, name_of
from perdure.services.chunks import HEADER, Frame, Unframer, loosened
from perdure.services.log import check, stretches
from perdure.services.spool import Spool

HELD: Final = 4
"""Chunks of a bundle that are kept unpacked."""

_header = msgspec.msgpack.Decoder(Header).decode
_items = msgspec.msgpack.Decoder(list[Item]).decode
_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode


class Slot(NamedTuple):
    """Where a chunk lies in the spool, which versions it holds (none: `last` < `first`), the digest before them, and
    whether checkpoints are in it.
    """

    number: int
    start: int
    length: int
    first: int
    last: int
    before: bytes | None
    checkpoints: bool


class Bundle:
    """A bundle that was read and proven. Safe to use from any thread."""

    def __init__(self, name: str, header: Header, bound: bytes, wrapping: Wrapping) -> None:
        self.name = name
        self.header = header
        self.checkpoint_ids: set[str] = set()
        self.snapshot: Snapshot | None = None
        self._bound = bound
        self._wrapping = wrapping
        self._spool = Spool()
        self._slots: list[Slot] = []
        self._log: list[Slot] = []
        self._held: OrderedDict[int, list[Item]] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes it takes while it is open."""
        return self._spool.size

    def add(self, number: int, body: bytes, proof: "Proof") -> None:
        """Take in a chunk, proven on the way; `Damaged` when it does not fit."""
        items = self._unpacked(number, body)
        before, first = proof.digest if proof.begun else None, proof.reached + 1
        for item in items:
            match item:
                case KeptRecord():
                    proof.follow(Stored(records.from_bytes(item.content), item.digest))
                case KeptSnapshot():
                    self.snapshot = Snapshot(item.version, item.state, item.sha)
                case KeptCheckpoint():
                    self.checkpoint_ids.add(_opened(item).id)
        beside = any(isinstance(item, KeptCheckpoint) for item in items)
        slot = Slot(number, self._spool.append(body), len(body), first, proof.reached, before, beside)
        self._slots.append(slot)
        if slot.last >= slot.first:
            self._log.append(slot)

    def run(self, after: int, upto: int, limit: int, newest: bool) -> tuple[bytes | None, list[Stored]]:
        """The records that hold versions in (after, upto], oldest first, at most the first or the last `limit` of
        them; and the digest before the first.
        """
        start = bisect_right(self._log, after, key=lambda slot: slot.last)
        end = max(start, bisect_left(self._log, upto + 1, key=lambda slot: slot.first))
        found: list[tuple[bytes | None, Stored]] = []
        for slot in reversed(self._log[start:end]) if newest else self._log[start:end]:
            page: list[tuple[bytes | None, Stored]] = []
            before = slot.before
            for stored in self._records(slot):
                if stored.record.last > after and stored.record.first <= upto:
                    page.append((before, stored))
                before = stored.digest
            found = [*page, *found] if newest else [*found, *page]
            if len(found) >= limit:
                break
        found = found[-limit:] if newest else found[:limit]
        return (found[0][0] if found else None), [stored for _, stored in found]

    def records(self) -> Iterator[Stored]:
        """All records in order, a chunk at a time."""
        for slot in self._log:
            yield from self._records(slot)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints, oldest first."""
        items = [item for slot in self._slots if slot.checkpoints for item in self._items(slot)]
        return tuple(_opened(item) for item in items if isinstance(item, KeptCheckpoint))

    def _records(self, slot: Slot) -> list[Stored]:
        kept = (item for item in self._items(slot) if isinstance(item, KeptRecord))
        return [Stored(records.from_bytes(item.content), item.digest) for item in kept]

    def _items(self, slot: Slot) -> list[Item]:
        known = self._held.get(slot.number)
        if known is None:
            known = self._unpacked(slot.number, self._spool.read(slot.start, slot.length))
            self._held[slot.number] = known
            while len(self._held) > HELD:
                self._held.popitem(last=False)
        return known

    def _unpacked(self, number: int, body: bytes) -> list[Item]:
        plain = loosened(self._wrapping.unwrap(KIND, number, self._bound, body))
        try:
            return _items(plain)
        except (msgspec.MsgspecError, ValueError, RecursionError) as broken:
            raise Damaged(f"a chunk of {self.name} does not decode: {broken}; take another copy") from broken


class Proof:
    """Follows the records of a whole log along its chain."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._ahead = stretches(head)
        self.reached = head.anchor_version
        self.digest = self._ahead[0].start
        self.begun = False

    def follow(self, stored: Stored) -> None:
        """The next record, or `Tampered`."""
        if self.reached == self._ahead[0].upto and len(self._ahead) > 1:
            del self._ahead[0]
            self.digest = self._ahead[0].start
        record, stretch = stored.record, self._ahead[0]
        if record.first != self.reached + 1 or record.last > stretch.upto:
            raise Damaged(f"version {self.reached + 1} of session {self._head.row.session} is missing in its bundle")
        check(self._head, stretch, stored, self.digest)
        self.reached, self.digest, self.begun = record.last, stored.digest, True

    def end(self) -> None:
        """`Damaged` unless the log came to its end."""
        if (self.reached, self.digest) != (self._head.row.version, self._head.row.digest):
            raise Damaged(f"the bundle of session {self._head.row.session} ends at version {self.reached}, too early")


async def unbundled(cold: Cold, name: str, row: Row, wrapping: Wrapping) -> Bundle:
    """The bundle of this name, if every byte of it fits the row's session and the name itself.

    `BundleMissing` when there is none, `Damaged` when it is not what was put there.
    """
    unframer = Unframer()
    bundle: Bundle | None = None
    proof: Proof | None = None
    async for piece in cold.get(name):
        for frame in unframer.feed(piece):
            if bundle is None or proof is None:
                bundle, proof = _begun(name, frame, row, wrapping)
            else:
                bundle.add(unframer.chunks, frame.body, proof)
    unframer.end()
    if bundle is None or proof is None:
        raise BundleMissing(f"{name} is empty; bring it back from a copy", name=name)
    proof.end()
    if bundle.snapshot is None and bundle.header.anchor_digest is not None:
        raise Damaged(f"{name} lacks what its pruned log stands on; bring it back from a copy", name=name)
    return bundle


def _begun(name: str, frame: Frame, row: Row, wrapping: Wrapping) -> tuple[Bundle, Proof]:
    assert frame.letter == HEADER
    try:
        header = _header(frame.body)
    except (msgspec.MsgspecError, ValueError) as broken:
        raise Damaged(f"the header of {name} does not decode: {broken}; take another copy", name=name) from broken
    if header.format > FORMAT:
        raise NewerStore(f"{name} has format {header.format}, this perdure reads {FORMAT}; upgrade perdure", name=name)
    head = Head(
        row=msgspec.structs.replace(row, version=header.version, digest=header.digest),
        segments=header.segments,
        anchor_version=header.anchor,
        anchor_digest=header.anchor_digest,
    )
    if (header.session, header.tenant) != (row.session, row.tenant) or name_of(head) != name:
        raise Damaged(f"{name} holds another session, or another state of it; take another copy", name=name)
    return Bundle(name, header, sha256(frame.body).digest(), wrapping), Proof(head)


def _opened(item: KeptCheckpoint) -> Checkpoint:
    try:
        metadata = codec.decode(item.metadata)
        found = _checkpoint(item.item)
    except (msgspec.MsgspecError, ValueError, Invalid) as broken:
        raise Damaged(f"a checkpoint in a bundle does not decode: {broken}; take another copy") from broken
    return msgspec.structs.replace(found, metadata=metadata)
