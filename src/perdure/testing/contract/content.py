"""Content for the claims about blobs: putting it, pointing to it, collecting it."""

from hashlib import sha256

from perdure.core.session.ids import raw
from perdure.core.session.refs import blob_ref
from perdure.core.session.turns import Message
from perdure.ports.blobs import CHUNK, Blob, BlobStore, Collected, Note, Upload, blobs_of
from perdure.ports.store import Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder
from perdure.testing.contract.looking import TENANT

NOTHING = Note()
LATER = 10
"""Seconds after which nothing is young any more, where a test counts no grace."""


def sha_of(content: bytes) -> bytes:
    """What a blob with this content is found by."""
    return sha256(content).digest()


def pointing(*contents: bytes) -> Message:
    """A message that shows blobs."""
    return Message(role="user", content=["look", *({"image": blob_ref(sha_of(content))} for content in contents)])


async def keep(
    store: Store,
    make: Builder,
    ambient: FixedAmbient,
    content: bytes = b"content",
    *,
    tenant: str = TENANT,
    note: Note = NOTHING,
    replace: bool = False,
) -> Blob:
    """Put content the way the services do."""
    blobs = blobs_of(store)
    upload = await uploaded(store, make, ambient, content, tenant=tenant)
    return await blobs.finish(upload, sha_of(content), len(content), note, ambient.now(), replace=replace)


async def uploaded(
    store: Store, make: Builder, ambient: FixedAmbient, content: bytes = b"content", *, tenant: str = TENANT
) -> Upload:
    """An upload with all its chunks that nobody has finished."""
    blobs = blobs_of(store)
    upload = blobs.begin(tenant, raw(make.id()))
    pieces = [content[start : start + CHUNK] for start in range(0, max(1, len(content)), CHUNK)]
    for number, piece in enumerate(pieces):
        await blobs.write(upload, number, [piece], ambient.now(), last=number == len(pieces) - 1)
    return upload


async def content_of(blobs: BlobStore, blob: Blob) -> bytes:
    """All chunks of a blob."""
    return b"".join([await blobs.read(blob, number) for number in range(blob.chunks)])


async def collect(store: Store, ambient: FixedAmbient, tenant: str | None = TENANT) -> Collected:
    """Let time pass, then collect with no grace at all."""
    now = ambient.advance(LATER)
    return await blobs_of(store).collect(tenant, now, now)


async def there(store: Store, content: bytes = b"content", tenant: str = TENANT) -> bool:
    """Whether a blob with this content is there, whole."""
    blobs = blobs_of(store)
    blob = await blobs.find(tenant, sha_of(content))
    return blob is not None and await content_of(blobs, blob) == content
