"""Cold storage in an S3-like store, through obstore. Credentials, region and endpoint come from the usual AWS_ names.

obstore keeps threads of its own, which a fork leaves behind: a child of a process that has used it would wait for
them for ever, so here it is told at once.
"""

import os
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from perdure.cold.names import checked, missing
from perdure.core.errors import ColdUnreachable, Invalid
from perdure.ports.cold import Kept
from perdure.waiting import aside

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")
PIECE: Final = 1 << 20
PART: Final = 8 << 20
"""Bytes that are uploaded at a time; an object below this size is one request."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_NO_BUCKET: Final = "NoSuchBucket"
_REFUSED: Final = re.compile(r"status code: (40[13])\b")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_CREDENTIALS: Final = (
    ("AWS_ACCESS_KEY_ID",),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    ("AWS_SKIP_SIGNATURE",),
)
"""Names by which obstore comes by credentials, each group whole. Without any it asks the machine's metadata service."""
_used_by: set[int] = set()


class S3Cold:
    """`perdure.ports.cold.Cold` in a bucket, below a prefix: `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        self.place = url
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise Invalid(f"{url!r} is not a place in an S3-like store; write s3://bucket/prefix", place=url)
        self._prefix = parts.path.strip("/")
        self._bucket = _bucket(url, parts.hostname, self._prefix and checked(self._prefix))

    async def _do(self, work: Callable[[], T], *, may_lack: bool = False) -> T:
        """Ask the store; its errors as perdure's, but for a missing object if that is for the caller to judge."""
        from obstore.exceptions import BaseError

        _refuse_fork()
        try:
            return await aside(work)
        except (BaseError, OSError) as error:  # a writer's failures are plain OSErrors
            if may_lack and isinstance(error, FileNotFoundError) and _NO_BUCKET not in str(error):
                raise
            raise _unreachable(self.place, str(error)) from error

    async def put(self, name: str, chunks: AsyncIterator[bytes]) -> int:
        """Upload in parts; the object appears when the last one is there."""
        import obstore

        path, written = checked(name), 0
        writer: Any = await self._do(lambda: obstore.open_writer(self._bucket, path, buffer_size=PART))
        async for chunk in chunks:
            await self._do(lambda data=chunk: writer.write(data))  # type: ignore[misc]
            written += len(chunk)
        await self._do(writer.close)
        return written

    async def get(self, name: str) -> AsyncIterator[bytes]:
        """Download in pieces."""
        import obstore

        path = checked(name)
        try:
            stream = (await self._do(lambda: obstore.get(self._bucket, path), may_lack=True)).stream(PIECE)
        except FileNotFoundError:
            raise missing(name, self.place) from None
        while (piece := await self._do(lambda: next(stream, None))) is not None:
            yield bytes(piece)

    async def reach(self) -> None:
        """Any answer will do."""
        await self.stat("reach")

    async def stat(self, name: str) -> Kept | None:
        """Ask for the object's size."""
        import obstore

        path = checked(name)
        try:
            return Kept(name, (await self._do(lambda: obstore.head(self._bucket, path), may_lack=True))["size"])
        except FileNotFoundError:
            return None

    async def delete(self, name: str) -> bool:
        """Delete the object; whether it was there is asked before."""
        import obstore

        there = await self.stat(name) is not None
        if there:
            await self._do(lambda: obstore.delete(self._bucket, checked(name)))
        return there

    async def list(self, folder: str = "") -> AsyncIterator[Kept]:
        """List the bucket below the prefix."""
        import obstore

        pages = await self._do(lambda: obstore.list(self._bucket, checked(folder) if folder else None))
        while (page := await self._do(lambda: next(pages, None))) is not None:
            for found in page:
                yield Kept(found["path"], found["size"])


def _bucket(place: str, name: str, prefix: str) -> "S3Store":
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as absent:
        raise Invalid("cold storage at s3:// needs the extra: pip install 'perdure[s3]'") from absent
    _refuse_fork()
    _refuse_bare(place)
    endpoint = next((os.environ[each] for each in _ENDPOINTS if os.environ.get(each)), "")
    # Keys and bundles go unencrypted to this machine only, unless AWS_ALLOW_HTTP says otherwise.
    options: Any = {"allow_http": True} if urlsplit(endpoint).hostname in _LOOPBACK else {}
    try:
        return S3Store(name, prefix=prefix or None, client_options=options)
    except BaseError as error:  # half of the credentials, a setting that is none
        raise _unreachable(place, str(error)) from error


def _refuse_bare(place: str) -> None:
    """Heed AWS_EC2_METADATA_DISABLED, which obstore does not know: whoever sets it wants that service left alone."""
    found = any(all(os.environ.get(name) for name in group) for group in _CREDENTIALS)
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true" and not found:
        raise ColdUnreachable(
            f"there are no credentials for {place}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or unset "
            "AWS_EC2_METADATA_DISABLED where the machine itself has a role",
            place=place,
        )


def _unreachable(place: str, whole: str) -> ColdUnreachable:
    """What to say of an answer that is none, or is a refusal; of its body, nothing but the code."""
    said = whole.split("\n", 1)[0].split("<?xml", 1)[0].rstrip(" :")
    refused, code = _REFUSED.search(said), _CODE.search(whole)
    if refused is None:
        return ColdUnreachable(
            f"{place} does not serve: {said}; check the network, the credentials and the bucket", place=place
        )
    answer = f"{refused[1]} {code[1]}" if code else refused[1]
    return ColdUnreachable(
        f"{place} refuses these credentials ({answer}); check that they are right and have not expired, and let them "
        "get, put, delete and list objects there: without the right to list, S3 refuses to tell of a missing one, too",
        place=place,
        status=int(refused[1]),
    )


def _refuse_fork() -> None:
    _used_by.add(os.getpid())
    if len(_used_by) > 1:
        raise ColdUnreachable(
            "cold storage at s3:// was used before this process was forked and cannot be used in it; start it with "
            "spawn, or use cold storage in the parent alone"
        )
