"""Blobs over a connection: put as a stream, read piece by piece, each proven as it would be at the store."""

import os
from contextlib import aclosing
from typing import Any

from perdure.core.errors import BadExport, BlobMissing, Invalid, TooLarge, Unreachable
from perdure.core.session import refs
from perdure.core.session.shown import shown
from perdure.core.session.values import Ref
from perdure.edge import blobfolder, files
from perdure.edge.blobs import AsyncBlobs, told
from perdure.edge.client.asking import Request, target
from perdure.edge.client.reading import blob_of
from perdure.edge.client.refusing import apart
from perdure.edge.client.transport import Transport
from perdure.edge.content import Content, note_of, source_of
from perdure.edge.given import Progress, flag_of, path_of, progress_of
from perdure.ports.blobs import CHUNK, Blob, Note, Source
from perdure.services.blobs import BlobInfo, BlobPage
from perdure.services.blobstream import BlobReader

OCTETS = "application/octet-stream"


class _Chunks:
    """The chunks of blobs, as a reader asks for them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self, blob: Blob, number: int) -> bytes:
        """One chunk; it is asked for again when the way broke off."""
        if not blob.size:
            return b""
        first = number * CHUNK
        last = min(blob.size, first + CHUNK) - 1
        asked = Request(
            method="GET", target=f"/v1/blobs/{blob.sha256.hex()}", headers={"Range": f"bytes={first}-{last}"}
        )
        found = (await self._transport.call(asked)).body
        if len(found) != last - first + 1:
            raise Unreachable(f"the server gave {len(found)} bytes of a chunk of {last - first + 1}; ask again")
        return found


class RemoteBlobs(AsyncBlobs):
    """Images, files and other content too large for the log, kept at a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def put(
        self,
        source: Content,
        *,
        media_type: str | None = None,
        name: str | None = None,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> Ref:
        """Keep content, from bytes, a path, a binary file or pieces; the Ref to put into a message or a document."""
        found = source_of(source)
        note = note_of(source, media_type, name)
        again = flag_of(replace, "replace")
        return (await self._put(found, note, replace=again, progress=progress_of(progress))).ref

    async def _put(
        self,
        source: Source,
        note: Note,
        *,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> BlobInfo:
        asked = {"name": note.name or None, "replace": "true" if replace else None}
        request = Request(
            method="POST",
            target=target("/v1/blobs", asked),
            headers={"Content-Type": note.media_type or OCTETS},
            again=True,
        )
        while True:
            try:
                reply = await self._transport.upload(request, _counted(source, progress))
                return blob_of(reply.document)
            except Unreachable:
                if not source.repeatable:
                    raise
                # The same content is kept once, so that asking costs nothing but the way.
                await self._transport.call(Request(method="GET", target="/v1/position"))
                source = _Once(source)

    async def open(self, ref: Ref | str) -> BlobReader:
        """A blob as a stream to read from any place, or piece by piece; `BlobMissing` when it is not here."""
        info = await self.stat(ref)
        note = Note(info.media_type, info.name)
        blob = Blob(id=b"", tenant="", salt=None, sha256=info.ref.sha256, size=info.size, note=note, at=info.at)
        return BlobReader(_Chunks(self._transport), blob)  # type: ignore[arg-type]  # a reader only reads

    async def get(self, ref: Ref | str, *, limit: int = 64 << 20) -> bytes:
        """A whole blob; `TooLarge` when it has more bytes than the limit."""
        if type(limit) is not int or limit < 0:
            raise Invalid(f"limit is a number of bytes, not {shown(limit)}")
        reader = await self.open(ref)
        if reader.size > limit:
            said = f"the blob has {reader.size} bytes, the limit is {limit}; open it and read it in pieces"
            raise TooLarge(said, size=reader.size, limit=limit)
        return await reader.read()

    async def save(self, ref: Ref | str, path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Write a blob to a file that is there whole and proven, or not at all; how many bytes that were."""
        reader = await self.open(ref)
        await files.DiskFiles().replace(path_of(path), told(reader, progress_of(progress)))
        return reader.size

    async def stat(self, ref: Ref | str) -> BlobInfo:
        """Size, media type, name, time, and whether a session points to it."""
        digest = refs.blob_of(ref).hex()
        try:
            return blob_of(await self._transport.get(f"/v1/blobs/{digest}/info"))
        except BlobMissing as missing:
            raise BlobMissing(f"no blob {digest} here; put its content again", sha256=digest) from missing

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> BlobPage:
        """The blobs there are, newest first, a page at a time."""
        page = await self._transport.get("/v1/blobs", {"limit": limit, "cursor": cursor})
        return BlobPage(tuple(map(blob_of, page["items"])), page["cursor"])

    async def import_folder(
        self, folder: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> tuple[Ref, ...]:
        """Put what `export` wrote; each file must still have the content it is named for."""
        return await blobfolder.bring(_Folder(self), path_of(folder), progress_of(progress))  # type: ignore[arg-type]

    collect: Any = apart("collecting blobs", "the server collects them; `perdure blobs collect` does it on its machine")
    verify: Any = apart("verifying all blobs", "run `perdure sessions verify` on the server's machine")
    export: Any = apart("a folder of a session's blobs", "read the Refs you need with get or save")


class _Folder:
    """What bringing a folder needs of a store: a place to put blobs whose hash is known."""

    def __init__(self, blobs: RemoteBlobs) -> None:
        self.blobs = self
        self._behind = blobs

    async def put(self, source: Source, note: Note, *, expected: bytes) -> Ref:
        """Keep a file that must have this hash; `BadExport` when it has another."""
        ref = (await self._behind._put(source, note)).ref
        if ref.sha256 != expected:
            raise BadExport(f"the file named {expected.hex()} holds other content; take the folder as it was exported")
        return ref


class _Once:
    """A source that is not read a third time."""

    repeatable = False

    def __init__(self, behind: Source) -> None:
        self.size = behind.size
        self.pieces = behind.pieces


async def _counted(source: Source, progress: Progress | None) -> Any:
    """The pieces of a source, and how far they go."""
    done = 0
    async with aclosing(source.pieces()) as pieces:
        async for piece in pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise Invalid(f"content comes in bytes, not {shown(piece)}; open files in binary mode")
            yield piece
            done += len(piece)
            if progress is not None:
                progress(done, source.size or 0)
