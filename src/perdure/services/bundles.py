"""A bundle: one session as one object in cold storage. `chunks` describes the frames, this module what is in them, and
`unbundling` reads them.

The header tells whose session it is and where its log stood. The chunks hold, in this order: the snapshot a pruned log
stands on, every record of the log in order (inherited stretches as well, so that a bundle stands alone), the
checkpoints. Each chunk is a MessagePack array of items, compressed, then wrapped by the session's store: under the
session's key if it is sealed, bound to its number and to the header.

Invariant: a bundle is handed out only when its frames add up to the digest at their end and its records to the digest
in its name, which the store keeps in the session's row.
"""

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final, Literal

import msgspec

from perdure.core.errors import Damaged, VersionConflict
from perdure.core.session import codec
from perdure.core.session import record as records
from perdure.ports.store import Head, Segment, Store, Stored, Wrapping
from perdure.services.chunks import CHUNK, Framer, squeezed
from perdure.services.exporting import Progress
from perdure.services.loading import opened
from perdure.services.log import PAGE, Stretch, check, stretches

FORMAT: Final = 1
KIND: Final = "bundle"
SUFFIX: Final = ".bundle"
FIRST_PAGE: Final = 4
"""Records read at first, while nobody knows how long they are."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame: whose session it is and where its log stood."""

    perdure: Literal["session"] = "session"
    format: int = FORMAT
    session: str
    tenant: str
    version: int
    digest: bytes
    anchor: int
    anchor_digest: bytes | None
    segments: tuple[Segment, ...]
    at: int


class KeptRecord(msgspec.Struct, array_like=True, tag="r", frozen=True):
    """A record and the digest after it."""

    content: bytes
    digest: bytes


class KeptSnapshot(msgspec.Struct, array_like=True, tag="s", frozen=True):
    """What a pruned log stands on."""

    version: int
    state: bytes
    sha: bytes


class KeptCheckpoint(msgspec.Struct, array_like=True, tag="c", frozen=True):
    """A checkpoint; its metadata apart, in canonical bytes."""

    item: bytes
    metadata: bytes


Item = KeptRecord | KeptSnapshot | KeptCheckpoint
_pack = msgspec.msgpack.Encoder().encode


def name_of(head: Head) -> str:
    """What the bundle of a session is called that stands so: one name for one content."""
    row = head.row
    return f"{row.session}/{row.version}-{head.anchor_version}-{row.digest.hex()}{SUFFIX}"


async def bundled(store: Store, head: Head, at: int, progress: Progress | None = None) -> AsyncIterator[bytes]:
    """A session as it stands, piece by piece, every byte proven on the way out.

    `VersionConflict` when its log changes meanwhile, `Tampered` at the first bad byte.
    """
    row = head.row
    wrapping = await store.wrapping(row.session)
    header = _pack(
        Header(
            session=row.session,
            tenant=row.tenant,
            version=row.version,
            digest=row.digest,
            anchor=head.anchor_version,
            anchor_digest=head.anchor_digest,
            segments=head.segments,
            at=at,
        )
    )
    framer, batch = Framer(), _Batch(wrapping, sha256(header).digest())
    yield framer.header(header)
    async for item, size in _contents(store, head, progress):
        if (full := batch.add(item, size)) is not None:
            yield framer.chunk(*full)
    if (rest := batch.rest()) is not None:
        yield framer.chunk(*rest)
    yield framer.end()


class _Batch:
    """Items until they are enough for a chunk."""

    def __init__(self, wrapping: Wrapping, bound: bytes) -> None:
        self._wrapping = wrapping
        self._bound = bound
        self._items: list[Item] = []
        self._size = self._number = 0

    def add(self, item: Item, size: int) -> tuple[bytes, int] | None:
        """The chunk that is full before this item, if one is."""
        full = self.rest() if self._items and self._size + size > CHUNK else None
        self._items.append(item)
        self._size += size
        return full

    def rest(self) -> tuple[bytes, int] | None:
        """What is there, as a chunk."""
        if not self._items:
            return None
        self._number += 1
        body = self._wrapping.wrap(KIND, self._number, self._bound, squeezed(self._items))
        count, self._items, self._size = len(self._items), [], 0
        return body, count


async def _contents(store: Store, head: Head, progress: Progress | None) -> AsyncIterator[tuple[Item, int]]:
    session = head.row.session
    if head.anchor_digest is not None:
        found = await store.snapshot(session, head.anchor_version)
        if found is None or found.version != head.anchor_version or opened(found) is None:
            raise Damaged(
                f"the snapshot that anchors the pruned session {session} is unreadable; restore a backup",
                session=session,
            )
        yield KeptSnapshot(found.version, found.state, found.sha), len(found.state)
    total = head.row.version - head.anchor_version
    for stretch in stretches(head):
        async for page in _pages(store, head, stretch):
            for stored in page:
                content = records.to_bytes(stored.record)
                yield KeptRecord(content, stored.digest), len(content)
            if progress is not None:
                progress(page[-1].record.last - head.anchor_version, total)
    for item in await store.checkpoints(session):
        metadata = codec.encode(item.metadata)
        content = _pack(msgspec.structs.replace(item, metadata={}))
        yield KeptCheckpoint(content, metadata), len(content) + len(metadata)


async def _pages(store: Store, head: Head, stretch: Stretch) -> AsyncIterator[list[Stored]]:
    """The records of a stretch, proven, the last one cut where a branch begins."""
    after, previous, limit = stretch.after, stretch.start, FIRST_PAGE
    while after < stretch.upto:
        run = await store.run(stretch.source, after=after, upto=stretch.upto, limit=limit)
        page: list[Stored] = []
        for stored in run.records:
            check(head, stretch, stored, previous)
            cut = records.cut(stored.record, stretch.upto)
            page.append(Stored(cut, stretch.end if cut.last == stretch.upto else stored.digest))
            previous, after = stored.digest, stored.record.last
        if not page:
            raise VersionConflict(f"session {stretch.source} changed meanwhile; try again", session=stretch.source)
        size = sum(len(entry.data) for stored in page for entry in stored.record.entries) + 1
        limit = max(1, min(PAGE, len(page) * CHUNK // size))  # about a chunk at a time, however long the records
        yield page
