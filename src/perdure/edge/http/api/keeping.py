"""What is kept beside a session's log, and a session taken elsewhere: blobs, exports, the archive, proofs."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.decide import decide
from perdure.core.access.roles import Action, Context, Resource, Thing, Verb
from perdure.core.errors import Invalid
from perdure.core.session.jsonl import MAX_LINE
from perdure.edge.content import note_of, source_of
from perdure.edge.http.asgi import Answer, Request
from perdure.edge.http.asking import Ask, allowed
from perdure.edge.http.bringing import must_be_ours
from perdure.edge.http.reaching import must_see_all
from perdure.edge.http.routes import Table
from perdure.edge.http.views import Version

table = Table()
LINES = "application/x-ndjson"
KEEP = Action(Verb.WRITE, Thing.STORE)
_DIGEST = 64


class BlobView(msgspec.Struct, kw_only=True):
    """A blob; `ref` is what a message or a document points to it by."""

    sha256: str
    uri: str
    size: int
    media_type: str
    name: str
    at: int
    used: bool


class Blobs(msgspec.Struct, kw_only=True):
    """Blobs, newest first; `cursor` leads to the next page."""

    items: tuple[BlobView, ...]
    cursor: str | None


class PageQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    cursor: str | None = None


class BlobQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the content is called."""

    name: Annotated[str, Meta(max_length=255)] | None = None
    replace: bool = False


class Imported(msgspec.Struct, kw_only=True):
    """The session that was brought; `existed` when it was there already, whole."""

    session_id: str
    existed: bool
    events: int
    version: int
    redacted: int


class Proof(msgspec.Struct, kw_only=True):
    """What was found when every byte of a session was checked against its chain."""

    session_id: str
    ok: bool
    events: int
    redacted: int
    pruned_to: int
    problems: Any
    signed: int | None


class Thawed(msgspec.Struct):
    """Whether the log had to be brought back."""

    session_id: str
    thawed: bool


def _blob(info: Any) -> BlobView:
    return BlobView(
        sha256=info.ref.sha256.hex(),
        uri=info.ref.uri,
        size=info.size,
        media_type=info.media_type,
        name=info.name,
        at=info.at,
        used=info.used,
    )


def _must_keep_for_all(ask: Ask) -> None:
    """`Denied` unless whoever asks keeps what belongs to the whole tenant: an admin."""
    context = Context(at=ask.node.tenants.ambient.now(), address=ask.request.address)
    allowed(decide(ask.actor, KEEP, Resource(tenant=ask.actor.tenant), context, ask.policy), KEEP, ask.actor)


def _uri(text: str) -> str:
    """The blob a path names, by the hexadecimal digits of its SHA-256."""
    if len(text) != _DIGEST or set(text) - set("0123456789abcdef"):
        raise errors.BlobMissing("no such blob here; a blob goes by the 64 hexadecimal digits of its SHA-256")
    return f"perdure:blob/{text}"


@table.add(
    "POST",
    "/v1/blobs",
    (Verb.CREATE, Thing.BLOBS),
    body=bytes,
    query=BlobQuery,
    answer=BlobView,
    status=HTTPStatus.CREATED,
    takes=("application/octet-stream",),
    errors=(errors.DiskFull, errors.TooLarge),
)
async def put_blob(ask: Ask) -> Answer:
    """Keep content too large for the log; the same content is kept once. What was said of it stays, but for admins."""
    query: BlobQuery = ask.query()
    if query.replace:  # it may be somebody else's content, too
        _must_keep_for_all(ask)
    media = ask.request.headers.get("content-type")
    blobs, pieces = ask.services.blobs, ask.request.pieces(ask.node.settings.max_blob)
    note = note_of(pieces, media, query.name)
    ref = await blobs.put(source_of(pieces), note, replace=query.replace, lasting=not query.replace)
    ask.headers.append((b"location", f"/v1/blobs/{ref.sha256.hex()}".encode()))
    return ask.answer(_blob(await blobs.stat(ref)))


# Blobs are the tenant's: the same content is kept once, whoever put it. So a list of them would show everybody's to
# everybody, and is the admins'. Whoever names a digest has the content already, or was shown it in a session.


@table.add("GET", "/v1/blobs", (Verb.LIST, Thing.STORE), query=PageQuery, answer=Blobs)
async def list_blobs(ask: Ask) -> Answer:
    """The blobs of all the tenant, newest first, for its admins."""
    query: PageQuery = ask.query()
    page = await ask.db.blobs.list(limit=query.limit, cursor=query.cursor)
    return ask.answer(Blobs(items=tuple(_blob(item) for item in page.items), cursor=page.cursor))


@table.add(
    "GET",
    "/v1/blobs/{sha256}",
    (Verb.READ, Thing.BLOBS),
    answer=bytes,
    pieces=True,
    media="application/octet-stream",
    errors=(errors.BlobMissing,),
)
async def get_blob(ask: Ask) -> Answer:
    """A blob's content, whole or the range that is asked for."""
    blobs, uri = ask.db.blobs, _uri(ask.params["sha256"])
    info = await blobs.stat(uri)
    start, end = _range(ask.request, info.size)
    reader = await blobs.open(uri)
    status = HTTPStatus.OK
    headers = [
        *ask.headers,
        (b"accept-ranges", b"bytes"),
        (b"etag", f'"{info.ref.sha256.hex()}"'.encode()),
        (b"content-length", str(end - start).encode()),
        (b"content-disposition", b"attachment"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if (start, end) != (0, info.size):
        status = HTTPStatus.PARTIAL_CONTENT
        headers.append((b"content-range", f"bytes {start}-{end - 1}/{info.size}".encode()))
    media = (info.media_type or "application/octet-stream").encode("ascii", "replace")
    return Answer(status, b"", media, headers, _between(reader, start, end))


@table.add("GET", "/v1/blobs/{sha256}/info", (Verb.READ, Thing.BLOBS), answer=BlobView, errors=(errors.BlobMissing,))
async def describe_blob(ask: Ask) -> Answer:
    """What is known of a blob, without its content."""
    return ask.answer(_blob(await ask.db.blobs.stat(_uri(ask.params["sha256"]))))


async def _between(reader: Any, start: int, end: int) -> AsyncGenerator[bytes, None]:
    reader.seek(start)
    left = end - start
    while left > 0:
        piece = await reader.read(min(left, 1 << 18))
        if not piece:
            return
        left -= len(piece)
        yield piece


def _range(request: Request, size: int) -> tuple[int, int]:
    """The bytes that are asked for: one range, or all when the header is none or asks for several."""
    told = request.headers.get("range", "").strip().lower()
    first, dash, last = told.removeprefix("bytes=").partition("-")
    numbers = all(not part or (part.isascii() and part.isdigit() and len(part) < 20) for part in (first, last))
    if not told.startswith("bytes=") or not dash or not numbers or not (first or last):
        return 0, size
    if not first:
        return max(0, size - int(last)), size
    start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= size or end <= start:
        raise Invalid(f"the range lies outside the blob, which has {size} bytes", size=size)
    return start, end


@table.add(
    "GET",
    "/v1/sessions/{session_id}/export",
    (Verb.EXPORT, Thing.LOG),
    answer=bytes,
    pieces=True,
    media=LINES,
    sensitive=True,
)
async def export_session(ask: Ask) -> Answer:
    """The session as JSONL, one event a line, to be rebuilt exactly elsewhere."""
    must_see_all(ask)
    lines = ask.services.exporting.export(ask.id)
    first = await anext(lines)
    name = f'attachment; filename="{ask.id}.jsonl"'.encode()
    return Answer(
        HTTPStatus.OK, b"", LINES.encode(), [*ask.headers, (b"content-disposition", name)], _from(first, lines)
    )


async def _from(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for line in rest:
            yield line


@table.add(
    "POST",
    "/v1/import",
    (Verb.CREATE, Thing.STORE),
    body=bytes,
    answer=Imported,
    status=HTTPStatus.CREATED,
    takes=(LINES,),
    sensitive=True,
    errors=(errors.BadExport, errors.AlreadyExists, errors.TooLarge),
)
async def import_session(ask: Ask) -> Answer:
    """Rebuild a session exactly from an export; one that is there already is left alone."""
    lines = [line async for line in _lines(ask.request.pieces(ask.node.settings.max_blob))]
    await must_be_ours(ask, lines)
    report = await ask.db.import_report(lines)
    facts = msgspec.structs.asdict(report)
    view = Imported(session_id=facts.pop("session"), **facts)
    return ask.answer(view, status=HTTPStatus.OK if report.existed else HTTPStatus.CREATED)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join((*held, line, b"\n"))
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            raise errors.BadExport(f"a line is longer than {MAX_LINE} bytes; export the session again")
    if size:
        yield b"".join(held)


@table.add("POST", "/v1/sessions/{session_id}/verify", (Verb.READ, Thing.TRACES), answer=Proof)
async def verify_session(ask: Ask) -> Answer:
    """Check every byte of a session against its chain."""
    report = await ask.session.verify()
    facts = msgspec.structs.asdict(report)
    problems = [msgspec.structs.asdict(item) for item in report.problems]
    return ask.answer(Proof(session_id=facts.pop("session"), **facts | {"problems": problems}))


@table.add(
    "POST",
    "/v1/sessions/{session_id}/archive",
    (Verb.MOVE, Thing.STORE),
    answer=Version,
    errors=(errors.MoveRefused, errors.ColdUnreachable),
)
async def archive_session(ask: Ask) -> Answer:
    """Put an ended session away: to cold storage, if the server has some. Again, it finishes."""
    version = await ask.session.archive()
    return ask.answer(Version(session_id=ask.id, version=version), version=version)


@table.add(
    "POST", "/v1/sessions/{session_id}/thaw", (Verb.MOVE, Thing.STORE), answer=Thawed, errors=(errors.ColdUnreachable,)
)
async def thaw_session(ask: Ask) -> Answer:
    """Bring the log of an archived session back from cold storage."""
    return ask.answer(Thawed(ask.id, await ask.session.thaw()))
