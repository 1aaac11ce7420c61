"""Blobs, as callers hold them, and the file that blocking callers read."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from io import RawIOBase
from typing import TYPE_CHECKING, Any, Final

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.core.session.values import Ref
from perdure.edge import files
from perdure.edge.content import Content, note_of, source_of
from perdure.edge.given import Progress, flag_of, id_of, path_of, progress_of
from perdure.ports.blobs import CHUNK, Collected
from perdure.waiting import drive

if TYPE_CHECKING:
    from perdure.edge.blobfolder import Exported
    from perdure.services.blobs import BlobInfo, BlobPage, BlobReport
    from perdure.services.blobstream import BlobReader

_MICROSECOND: Final = timedelta(microseconds=1)


class AsyncBlobs:
    """Images, files and other content too large for the log, kept once per content."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def put(
        self,
        source: Content,
        *,
        media_type: str | None = None,
        name: str | None = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> Ref:
        """Keep content, from bytes, a path, a binary file or pieces; the Ref to put into a message, a result or vars.

        Until a session points to it, it is spared for a day. The same content is kept once; with `replace` it is
        written again in any case, which mends a damaged blob. Media type and name are guessed from a path.
        """
        found = source_of(source)
        note = note_of(source, media_type, name)
        again = flag_of(replace, "replace")
        return await self._services.blobs.put(found, note, replace=again, progress=progress_of(progress))

    async def open(self, ref: Ref | str) -> "BlobReader":
        """A blob as a stream to read from any place, or piece by piece; `BlobMissing` when it is not here."""
        return await self._services.blobs.open(ref)

    async def get(self, ref: Ref | str, *, limit: int = 64 << 20) -> bytes:
        """A whole blob; `TooLarge` when it has more bytes than the limit."""
        if type(limit) is not int or limit < 0:
            raise Invalid(f"limit is a number of bytes, not {shown(limit)}")
        return await self._services.blobs.get(ref, limit)

    async def save(self, ref: Ref | str, path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Write a blob to a file that is there whole and proven, or not at all; how many bytes that were."""
        target = files.refused_own(self._services, path_of(path))
        reader = await self._services.blobs.open(ref)
        await files.DiskFiles().replace(target, told(reader, progress_of(progress)))
        return reader.size

    async def stat(self, ref: Ref | str) -> "BlobInfo":
        """Size, media type, name, time, and whether a session points to it."""
        return await self._services.blobs.stat(ref)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> "BlobPage":
        """The blobs there are, newest first, a page at a time."""
        return await self._services.blobs.page(limit, cursor)

    async def collect(self, grace: timedelta | float | None = None) -> Collected:
        """Drop the blobs that no session points to, and uploads nobody finished, unless they are younger than the
        grace: a timedelta or seconds, a day if not given. What is in use always stays.
        """
        if grace is None:
            return await self._services.blobs.collect()
        return await self._services.blobs.collect(_micros(grace))

    async def verify(self, progress: Progress | None = None) -> "BlobReport":
        """Read every byte of every blob."""
        return await self._services.blobs.verify(progress_of(progress))

    async def export(
        self, session: str, folder: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> "Exported":
        """Write what a session points to into a folder, one file a blob, for `import_folder` elsewhere."""
        from perdure.edge import blobfolder

        return await blobfolder.export(self._services, id_of(session), path_of(folder), progress_of(progress))

    async def import_folder(
        self, folder: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> tuple[Ref, ...]:
        """Put what `export` wrote; each file must still have the content it is named for."""
        from perdure.edge import blobfolder

        return await blobfolder.bring(self._services, path_of(folder), progress_of(progress))


class Attaching:
    """The part of a session's handle that brings content along."""

    _services: Services
    id: SessionId

    async def attach(self, source: Content, *, media_type: str | None = None, name: str | None = None) -> Ref:
        """Keep content beside the log; the Ref to put into a message, a result or vars of this session."""
        await self._services.sessions.log.head(self.id)
        return await AsyncBlobs(self._services).put(source, media_type=media_type, name=name)


class BlobFile(RawIOBase):
    """A blob as a blocking file, unbuffered; `io.BufferedReader` does the rest."""

    def __init__(self, reader: "BlobReader", name: str) -> None:
        self._reader = reader
        self.name = name

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._must_be_open()
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        """Where the next read begins."""
        self._must_be_open()
        return self._reader.tell()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as one chunk goes."""
        self._must_be_open()
        view = memoryview(buffer).cast("B")
        left = CHUNK - self._reader.tell() % CHUNK
        found = drive(self._reader.read(min(len(view), left)))
        view[: len(found)] = found
        return len(found)

    def readall(self) -> bytes:
        """All that is left."""
        self._must_be_open()
        return drive(self._reader.read())

    def _must_be_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed; open the blob again")


async def told(reader: "BlobReader", progress: Progress | None) -> AsyncIterator[bytes]:
    """The pieces of a blob, and how far they go."""
    async for piece in reader:
        if progress is not None:
            progress(reader.tell(), reader.size)
        yield piece


def _micros(grace: Any) -> int:
    if type(grace) is timedelta:
        return grace // _MICROSECOND
    if type(grace) not in (int, float) or not 0 <= grace <= timedelta.max.total_seconds():
        raise Invalid(f"the grace is a timedelta, or 0 or more seconds, not {shown(grace)}")
    return int(grace * 1_000_000)
