"""Blobs: content that comes in and goes out as a stream, is kept once, and stays for as long as a session points to it.

Invariant: however large the content, only a few chunks of it are held at a time, and the store's lock never longer than
it takes to write those.
"""

import base64
from collections.abc import Callable
from contextlib import aclosing, suppress
from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import (
    BadCursor,
    BadExport,
    BlobMissing,
    Invalid,
    NotFound,
    PerdureError,
    Shredded,
    Tampered,
    TooLarge,
)
from perdure.core.session import refs
from perdure.core.session.ids import SessionId, raw
from perdure.core.session.shown import shown
from perdure.core.session.values import Ref
from perdure.ports.blobs import Blob, Collected, Note, Source, Upload, blobs_of
from perdure.services.blobstream import MEND, BlobReader, chunked
from perdure.services.proving import Problem
from perdure.services.sessions import Sessions

Progress = Callable[[int, int], None]
"""Called with how many bytes are done and how many there are, 0 when nobody knows."""

GRACE: Final = 24 * 3600 * 1_000_000
"""How long a blob that no session points to is spared, in microseconds since it was put."""
UPLOAD_GRACE: Final = 3600 * 1_000_000
"""How long an upload is spared at the least since its last chunk."""
MAX_SIZE: Final = 1 << 40
MAX_GET: Final = 64 << 20
MAX_PAGE: Final = 1000
UNKNOWN: Final = "application/octet-stream"
BATCH: Final = 4
"""Chunks that are written together."""
PAGE: Final = 200
_MARK: Final = b"blobs"
_LARGEST: Final = (1 << 63) - 1


class BlobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows of a blob. `used` is whether a session points to it."""

    ref: Ref
    size: int
    media_type: str
    name: str
    at: int
    used: bool


class BlobPage(msgspec.Struct, frozen=True):
    """Blobs, and where the next page starts; None after the last."""

    items: tuple[BlobInfo, ...]
    cursor: str | None = None


class BlobReport(msgspec.Struct, frozen=True, kw_only=True):
    """What verifying found of all blobs."""

    ok: bool
    blobs: int
    bytes: int
    problems: tuple[Problem, ...]


class Blobs:
    """Content beside the log."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._ambient = sessions.ambient
        self._tenant = sessions.identity.tenant
        self._blobs = blobs_of(sessions.store)

    # ── coming in ──

    async def put(
        self,
        source: Source,
        note: Note,
        *,
        replace: bool = False,
        lasting: bool = False,
        expected: bytes | None = None,
        progress: Progress | None = None,
    ) -> Ref:
        """Keep content and give the Ref to it. The same content is kept once; with `replace` it is written again in
        any case, which mends a damaged blob. What is said of it now is said of it from now on, unless what was said
        before is `lasting`.

        Whatever the source raises is raised, and nothing is left behind; `BadExport` when the content does not have
        the hash `expected`.
        """
        if source.repeatable and not replace:
            digest = await self._digest(source)
            _must_be(expected, digest)
            note = await self._unsaid(digest, note) if lasting else note
            if await self._blobs.renew(self._tenant, digest, note, self._ambient.now()) is not None:
                return refs.blob_ref(digest)
        upload = self._blobs.begin(self._tenant, raw(self._sessions.fresh_id()))
        try:
            digest, size = await self._upload(upload, source, progress)
            _must_be(expected, digest)
            note = await self._unsaid(digest, note) if lasting else note
            await self._blobs.finish(upload, digest, size, note, self._ambient.now(), replace=replace)
        except BaseException:
            with suppress(PerdureError):  # what cannot be dropped now is collected later
                await self._blobs.abandon(upload)
            raise
        return refs.blob_ref(digest)

    async def _unsaid(self, digest: bytes, note: Note) -> Note:
        """What a note says of content that was not said of it before."""
        known = await self._blobs.find(self._tenant, digest)
        if known is None:
            return note
        return Note("" if known.note.media_type else note.media_type, "" if known.note.name else note.name)

    async def _digest(self, source: Source) -> bytes:
        found = sha256()
        async with aclosing(chunked(source)) as chunks:
            async for chunk in chunks:
                found.update(chunk)
                await self._ambient.sleep(0)
        return found.digest()

    async def _upload(self, upload: Upload, source: Source, progress: Progress | None) -> tuple[bytes, int]:
        """Write all chunks, the last one as such; the hash and the size of the whole."""
        found, size = sha256(), 0
        waiting: list[bytes] = []
        first = 0
        async with aclosing(chunked(source)) as chunks:
            async for chunk in chunks:
                if len(waiting) == BATCH:
                    await self._blobs.write(upload, first, waiting, self._ambient.now())
                    first, waiting = first + BATCH, []
                waiting.append(chunk)
                found.update(chunk)
                size += len(chunk)
                if size > MAX_SIZE:
                    raise TooLarge(f"a blob takes {MAX_SIZE} bytes; split the content", limit=MAX_SIZE)
                if progress is not None:
                    progress(size, 0 if source.size is None else max(size, source.size))
        await self._blobs.write(upload, first, waiting, self._ambient.now(), last=True)
        return found.digest(), size

    # ── going out ──

    async def open(self, ref: object) -> BlobReader:
        """A blob as a stream; `BlobMissing` when there is none, or it is another tenant's."""
        return BlobReader(self._blobs, await self._find(ref))

    async def get(self, ref: object, limit: int = MAX_GET) -> bytes:
        """A whole blob, proven; `TooLarge` when it has more bytes than the limit."""
        blob = await self._find(ref)
        if blob.size > limit:
            raise TooLarge(
                f"the blob has {blob.size} bytes, the limit is {limit}; open it and read it in pieces",
                size=blob.size,
                limit=limit,
            )
        return await BlobReader(self._blobs, blob).read()

    async def stat(self, ref: object) -> BlobInfo:
        """Size, media type, name, time, and whether a session points to it."""
        blob = await self._find(ref)
        return _info(blob, await self._blobs.used((blob,)))

    async def _find(self, ref: object) -> Blob:
        digest = refs.blob_of(ref)
        found = await self._blobs.find(self._tenant, digest)
        if found is None:
            raise BlobMissing(f"no blob {digest.hex()} here; put its content again", sha256=digest.hex())
        return found

    async def page(self, limit: int, cursor: str | None = None) -> BlobPage:
        """Blobs, newest first, a page at a time."""
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise Invalid(f"a page has 1 to {MAX_PAGE} blobs, not {shown(limit)}")
        after = None if cursor is None else _open_cursor(cursor)
        found = await self._blobs.page(self._tenant, after, limit + 1)
        shown_now = [blob for blob in found[:limit] if blob.sha256]
        used = await self._blobs.used(shown_now)
        items = tuple(_info(blob, used) for blob in shown_now)
        return BlobPage(items, _cursor(found[limit - 1]) if len(found) > limit else None)

    # ── staying and going away ──

    async def collect(self, grace: int = GRACE) -> Collected:
        """Drop what no session points to and was put longer ago than the grace, in microseconds."""
        if not 0 <= grace <= _LARGEST:
            raise Invalid(f"the grace is 0 or more microseconds, not {shown(grace)}")
        now = self._ambient.now()
        # A blob that was put in this very microsecond is old enough for no grace at all.
        return await self._blobs.collect(self._tenant, now - grace + 1, now - max(grace, UPLOAD_GRACE))

    async def of_session(self, session: SessionId) -> tuple[Ref, ...]:
        """What a session's log and state point to, whether it is here or not."""
        log = self._sessions.log
        head = await log.head(session)
        found: dict[bytes, None] = {}
        if head.anchor_digest is not None:
            anchor = await self._sessions.store.snapshot(session, head.anchor_version)
            found |= dict.fromkeys(sorted(refs.in_bytes(anchor.state)) if anchor is not None else ())
        async for events in log.pages(head, head.anchor_version):
            for event in events:
                if not event.redacted:
                    found |= dict.fromkeys(sorted(refs.in_bytes(event.entry.data)))
        return tuple(map(refs.blob_ref, found))

    # ── proving ──

    async def verify(self, progress: Progress | None = None) -> BlobReport:
        """Read every byte of every blob, and look for sessions that point to one that is not there."""
        problems: list[Problem] = []
        count = size = 0
        after: tuple[int, bytes] | None = None
        while found := await self._blobs.page(self._tenant, after, PAGE):
            for blob in found:
                wrong = await self._wrong(blob)
                if wrong:
                    problems.append(Problem(place="blob", what=wrong, advice=MEND))
                count, size = count + 1, size + blob.size
                if progress is not None:
                    progress(count, 0)
            after = (found[-1].at, found[-1].id)
        problems += map(_dangling, await self._blobs.missing(self._tenant, PAGE))
        return BlobReport(ok=not problems, blobs=count, bytes=size, problems=tuple(problems))

    async def _wrong(self, blob: Blob) -> str:
        """What is wrong with a blob, or nothing; one that goes away meanwhile is not wrong."""
        if not blob.sha256:
            return f"the row of blob {blob.id.hex()} cannot be read"
        try:
            async for _ in BlobReader(self._blobs, blob):
                await self._ambient.sleep(0)
            if not blob.size:
                await self._blobs.read(blob, 0)
        except NotFound:
            return ""
        except (Tampered, Shredded) as damage:
            return f"blob {blob.sha256.hex()}: {damage.message}"
        return ""


def _must_be(expected: bytes | None, digest: bytes) -> None:
    if expected is not None and expected != digest:
        raise BadExport(
            f"the content is not that of blob {expected.hex()}; it was damaged on its way, fetch it again",
            expected=expected.hex(),
            found=digest.hex(),
        )


def _dangling(session: SessionId) -> Problem:
    what = f"session {session} points to a blob that is not here"
    return Problem(place="blob", what=what, advice="import the session's blobs, or put the content again")


def _info(blob: Blob, used: frozenset[bytes]) -> BlobInfo:
    return BlobInfo(
        ref=refs.blob_ref(blob.sha256),
        size=blob.size,
        media_type=blob.note.media_type or UNKNOWN,
        name=blob.note.name,
        at=blob.at,
        used=blob.id in used,
    )


def _cursor(blob: Blob) -> str:
    return base64.urlsafe_b64encode(_MARK + blob.at.to_bytes(8, "big") + blob.id).decode()


def _open_cursor(cursor: str) -> tuple[int, bytes]:
    try:
        found = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True)
    except (ValueError, AttributeError, UnicodeError):
        found = b""
    if len(found) != len(_MARK) + 24 or not found.startswith(_MARK):
        raise BadCursor("this cursor was not made by a list of blobs; start without one")
    return int.from_bytes(found[5:13], "big"), found[13:]
