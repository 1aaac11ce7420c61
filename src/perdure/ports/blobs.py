"""Blobs: content too large for the log, kept beside it, once per tenant and content.

A blob is found by the SHA-256 of what it holds. It comes in as an upload, chunk by chunk, and is there from the moment
its upload is finished. Sessions keep it alive: a store notes, in the transaction that writes an event, which blobs
the event points to (`perdure.core.session.refs`), and refuses an append that points to one that is not there. What no
session points to is collected once its grace is over.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from perdure.core.errors import Refused
from perdure.core.session.ids import SessionId
from perdure.core.session.refs import Use

CHUNK: Final = 256 << 10
"""Bytes of every chunk but the last, which has fewer; empty content is one empty chunk."""


class Note(msgspec.Struct, frozen=True):
    """What people say of a blob."""

    media_type: str = ""
    name: str = ""


class Upload(msgspec.Struct, frozen=True):
    """A blob that is not one yet."""

    id: bytes
    tenant: str
    salt: bytes | None


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob as its store knows it. `at` is when it was put first."""

    id: bytes
    tenant: str
    salt: bytes | None
    sha256: bytes
    size: int
    note: Note
    at: int

    @property
    def chunks(self) -> int:
        """How many chunks it has."""
        return max(1, -(-self.size // CHUNK))


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was collected: blobs nobody used, with their bytes, and uploads that were never finished."""

    blobs: int
    bytes: int
    uploads: int


class Source(Protocol):
    """Where content comes from, in pieces of any size. `size` is None when nobody knows; what is `repeatable` can be
    read a second time.
    """

    size: int | None
    repeatable: bool

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The content from its beginning."""
        ...


class BlobStore(Protocol):
    """What an engine offers for blobs. Every method is safe beside all others, from any process."""

    def begin(self, tenant: str, id: bytes) -> Upload:
        """Think of an upload, under a fresh id and salt; it is there from its first chunk on."""
        ...

    async def write(self, upload: Upload, first: int, chunks: Sequence[bytes], at: int, *, last: bool = False) -> None:
        """Make chunks durable, numbered from `first`; `last` when the final one is among them.

        `BlobMissing` when the upload was collected, or finished.
        """
        ...

    async def finish(
        self, upload: Upload, sha256: bytes, size: int, note: Note, at: int, *, replace: bool = False
    ) -> Blob:
        """Make the upload the blob with this content, or drop it if there is one: that one is given and renewed.

        With `replace` the upload takes its place. `BlobMissing` when the upload was collected.
        """
        ...

    async def abandon(self, upload: Upload) -> None:
        """Drop an upload with all its chunks; quietly nothing when it is gone."""
        ...

    async def renew(self, tenant: str, sha256: bytes, note: Note, at: int) -> Blob | None:
        """Start the grace of a blob anew and say more of it, where the note does; None if there is none."""
        ...

    async def find(self, tenant: str, sha256: bytes) -> Blob | None:
        """The blob with this content; another tenant's is none."""
        ...

    async def read(self, blob: Blob, number: int) -> bytes:
        """One chunk. `BlobMissing` when the blob was collected meanwhile, `Damaged` when the chunk is not as it was."""
        ...

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> tuple[Blob, ...]:
        """Blobs of a tenant, newest first, from behind the one with this time and id. One whose row cannot be read
        comes with an empty hash.
        """
        ...

    async def used(self, blobs: Sequence[Blob]) -> frozenset[bytes]:
        """The ids of those that a session points to."""
        ...

    async def collect(self, tenant: str | None, before: int, uploads_before: int) -> Collected:
        """Drop the blobs that no session points to and that were put before a time, and uploads untouched since
        another; of one tenant, or of all. Their salts are destroyed. What a crash leaves, the next call finishes.
        """
        ...

    async def unnoted(self, tenant: str, session: SessionId, uses: Sequence[Use]) -> tuple[Use, ...]:
        """Those of these uses, of events in the session's own rows, that the store does not know of."""
        ...

    async def missing(self, tenant: str, limit: int) -> tuple[SessionId, ...]:
        """Sessions of a tenant that point to a blob which is not there."""
        ...


@runtime_checkable
class KeepsBlobs(Protocol):
    """A store that keeps blobs."""

    @property
    def blobs(self) -> BlobStore:
        """Where they are kept."""
        ...


def blobs_of(store: object) -> BlobStore:
    """Where a store keeps its blobs; `Refused` when it keeps none."""
    if isinstance(store, KeepsBlobs):
        return store.blobs
    raise Refused(f"a {type(store).__name__} keeps no blobs; open a SQLite file or a PostgreSQL database")
