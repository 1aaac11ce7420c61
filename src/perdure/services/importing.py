"""Importing: a session rebuilt from JSON lines, exactly. All of it is proven before any of it is written.

What has been proven waits in memory, compressed, until the last line; then one transaction takes it. So a bad line, a
cut file or a crash leaves no trace. A branch stands alone where it arrives: its inherited records are its own copies.
"""

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import AlreadyExists, BadExport, Invalid
from perdure.core.session import ids
from perdure.core.session import record as records
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Timeouts
from perdure.core.session.rebuilding import Rebuilder
from perdure.core.session.record import Record
from perdure.core.session.shown import shown
from perdure.ports.store import Head, Segment, Snapshot, Stored
from perdure.projections.row import row_of
from perdure.services.exporting import REPORTED, Progress
from perdure.services.sessions import Sessions

Lines = Iterable[bytes | str] | AsyncIterable[bytes]
_PAGE_BYTES: Final = 1 << 20
_LARGEST: Final = (1 << 63) - 1


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was imported; `existed` when the very same session was there already and nothing was written."""

    session: SessionId
    version: int
    events: int
    redacted: int
    existed: bool


class Importing:
    """Sessions from lines."""

    def __init__(self, sessions: Sessions) -> None:
        self._store = sessions.store
        self._ambient = sessions.ambient
        self._loader = sessions.loader
        self._tenant = sessions.identity.tenant
        self._defaults = sessions.timeouts

    async def import_lines(self, lines: Lines, progress: Progress | None = None) -> ImportReport:
        """Rebuild the session that these lines hold, one line an item, newlines optional.

        `BadExport` names the first line that is wrong; `AlreadyExists` when the id is taken by another history, or by
        the same one at another version. Nothing is written then.
        """
        rebuilder, stage = Rebuilder(self._tenant), Stage()
        async for line in _each(lines):
            complete = rebuilder.take(line)
            if complete is not None:
                stage.add(*complete)
            if rebuilder.number % REPORTED == 0:
                _tell(rebuilder, progress)
                await self._ambient.sleep(0)
        rebuilder.cut_short()
        _tell(rebuilder, progress)
        head, snapshot = _brought(rebuilder, self._defaults)
        existed = await self._is_there(head)
        if not existed:
            existed = not await self._bring(head, stage, snapshot)
        return ImportReport(
            session=head.row.session,
            version=rebuilder.version,
            events=rebuilder.events,
            redacted=rebuilder.redacted,
            existed=existed,
        )

    async def _bring(self, head: Head, stage: "Stage", snapshot: Snapshot | None) -> bool:
        """Write it; False when someone else has just written the same."""
        try:
            await self._store.bring(head, stage, snapshot)
        except AlreadyExists:
            if await self._is_there(head):
                return False
            raise
        self._loader.forget(head.row.session)
        return True

    async def _is_there(self, head: Head) -> bool:
        """Whether the same session is in the store; `AlreadyExists` when another one has its id."""
        wanted = head.row
        found = await self._store.head(wanted.session)
        if found is None:
            return False
        if (found.row.version, found.row.digest) == (wanted.version, wanted.digest):
            return True
        raise AlreadyExists(
            f"session {wanted.session} exists already, at version {found.row.version}; the export is at "
            f"{wanted.version}. Erase the session first, or import into another store",
            session=wanted.session,
            found=found.row.version,
            version=wanted.version,
        )


class Stage:
    """Proven records waiting to be written, in compressed pages; can be read any number of times."""

    def __init__(self) -> None:
        self._pages: list[bytes] = []
        self._open: list[tuple[bytes, bytes]] = []
        self._size = 0

    def add(self, record: Record, digest: bytes) -> None:
        """Keep one more."""
        content = records.to_bytes(record)
        self._open.append((content, digest))
        self._size += len(content)
        if self._size >= _PAGE_BYTES:
            self._pages.append(zlib.compress(msgspec.msgpack.encode(self._open), 1))
            self._open, self._size = [], 0

    def __iter__(self) -> Iterator[Stored]:
        for page in self._pages:
            for content, digest in msgspec.msgpack.decode(zlib.decompress(page), type=list[tuple[bytes, bytes]]):
                yield Stored(records.from_bytes(content), digest)
        for content, digest in self._open:
            yield Stored(records.from_bytes(content), digest)


async def _each(lines: Lines) -> AsyncIterator[bytes]:
    """The lines as bytes, without their newlines."""
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield _plain(line)
    else:
        for item in lines:
            yield _plain(item)


def _plain(line: bytes | str) -> bytes:
    if not isinstance(line, str | bytes | bytearray | memoryview):
        raise Invalid(f"a line of an export is text or bytes, not {shown(line)}")
    text = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else bytes(line)
    return text.removesuffix(b"\n").removesuffix(b"\r")


def _tell(rebuilder: Rebuilder, progress: Progress | None) -> None:
    header = rebuilder.header
    if progress is not None and header is not None:
        expected = header.version - (rebuilder.anchor[0] if rebuilder.anchor is not None else 0)
        progress(rebuilder.events, max(expected, rebuilder.events))


def _brought(rebuilder: Rebuilder, defaults: Timeouts) -> tuple[Head, Snapshot | None]:
    """The head of a rebuilt session, and the snapshot a pruned one stands on."""
    row = row_of(rebuilder.state, digest=rebuilder.digest, at=rebuilder.at, defaults=defaults)
    if any(type(value) is int and value > _LARGEST for value in msgspec.structs.astuple(row)):
        raise BadExport("the session holds a time that no store can keep; correct it where it was written")
    segments = tuple(
        Segment(source=row.session, origin=SessionId(ids.text(item.origin)), upto=item.upto, digest=item.digest)
        for item in rebuilder.segments
    )
    if rebuilder.anchor is None:
        return Head(row=row, segments=segments), None
    version, digest, content = rebuilder.anchor
    snapshot = Snapshot(version, content, sha256(content).digest())
    return Head(row=row, segments=segments, anchor_version=version, anchor_digest=digest), snapshot
