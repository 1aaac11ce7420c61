"""Blobs over several tiers: each tier keeps what its own sessions point to.

Content that is put lies where sessions go that say nothing of themselves. When a session of another tier points to it,
or comes from elsewhere with such events, that tier gets a copy first: so whether a blob is in use is decided by each
tier for itself, in the transaction that writes the event, and no tier's collecting ever concerns another one's.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from perdure.core.errors import BlobMissing, PerdureError, Shredded, Tampered
from perdure.core.session import refs
from perdure.core.session.ids import RANDOM_BYTES, SessionId, uuid7
from perdure.core.session.refs import Use
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.blobs import Blob, BlobStore, Collected, Note, Upload, blobs_of
from perdure.ports.store import Commit, Head, Snapshot, Store, Stored
from perdure.waiting import Lane

RECORDS: Final = 256
MANY: Final = 100_000
"""Sessions looked at in one go for blobs that another tier has, and blobs whose tier is remembered."""


class Pointed:
    """Records on their way into a store, with what passes of blobs they point to."""

    def __init__(self, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        self._records = records
        self.blobs: set[bytes] = set() if snapshot is None else set(refs.in_bytes(snapshot.state))

    def __iter__(self) -> Iterator[Stored]:
        for stored in self._records:
            self.blobs |= {blob for _, blob in refs.in_record(stored.record)}
            yield stored


class TieredBlobs:
    """A `BlobStore` over those of several stores; what is put goes to the first. What each method promises, the
    Protocol says. While someone stands in the `lane`, this process collects nothing.
    """

    def __init__(
        self, stores: Sequence[Store], home: Callable[[SessionId], Awaitable[Store]], ambient: Ambient
    ) -> None:
        self._stores = {id(store): store for store in stores}
        self._blobs = {id(store): blobs_of(store) for store in stores}
        self._first = self._blobs[id(stores[0])]
        self._home = home
        self._ambient = ambient
        self._known: dict[bytes, BlobStore] = {}
        self.lane = Lane()
        on_fork(self, Forking(_unchanged, _unchanged, TieredBlobs._forked))

    def _forked(self) -> None:
        """Whoever stood in the lane lives in the parent."""
        self.lane = Lane()

    # ── coming in ──

    def begin(self, tenant: str, id: bytes) -> Upload:
        return self._first.begin(tenant, id)

    async def write(self, upload: Upload, first: int, chunks: Sequence[bytes], at: int, *, last: bool = False) -> None:
        await self._first.write(upload, first, chunks, at, last=last)

    async def finish(
        self, upload: Upload, sha256: bytes, size: int, note: Note, at: int, *, replace: bool = False
    ) -> Blob:
        """Make the upload a blob; with `replace`, what other tiers have of it is written again as well."""
        blob = await self._first.finish(upload, sha256, size, note, at, replace=replace)
        for blobs in self._blobs.values() if replace else ():
            if blobs is not self._first and await self._has(blobs, blob):
                await self._copy(blob, self._first, blobs, replace=True)
        return self._seen(blob, self._first)

    async def _has(self, blobs: BlobStore, blob: Blob) -> bool:
        """Whether a tier has this content, however damaged."""
        try:
            return await blobs.find(blob.tenant, blob.sha256) is not None
        except (Tampered, Shredded):
            return True

    async def abandon(self, upload: Upload) -> None:
        await self._first.abandon(upload)

    async def renew(self, tenant: str, sha256: bytes, note: Note, at: int) -> Blob | None:
        """Start a blob's grace anew where it would be put; if only another tier has it, it is put there."""
        await self._gather(tenant, (sha256,), self._first)
        found = await self._first.renew(tenant, sha256, note, at)
        return None if found is None else self._seen(found, self._first)

    # ── going out ──

    async def find(self, tenant: str, sha256: bytes) -> Blob | None:
        for blobs in self._blobs.values():
            found = await blobs.find(tenant, sha256)
            if found is not None:
                return self._seen(found, blobs)
        return None

    async def read(self, blob: Blob, number: int) -> bytes:
        """One chunk, of this blob or of a copy that another tier has."""
        known = self._known.get(blob.id)
        for blobs in self._blobs.values() if known is None else (known,):
            with suppress(BlobMissing):
                return await blobs.read(blob, number)
        for blobs in self._blobs.values():
            other = await blobs.find(blob.tenant, blob.sha256) if blobs is not known else None
            if other is not None:
                return await blobs.read(other, number)
        raise BlobMissing("the blob was collected or replaced while it was read; open it again")

    def _seen(self, blob: Blob, blobs: BlobStore) -> Blob:
        if len(self._known) >= MANY:
            self._known.clear()
        self._known[blob.id] = blobs
        return blob

    async def page(self, tenant: str, after: tuple[int, bytes] | None, limit: int) -> tuple[Blob, ...]:
        """Blobs of all tiers, newest first; what several have comes once for each."""
        found = [
            self._seen(blob, blobs) for blobs in self._blobs.values() for blob in await blobs.page(tenant, after, limit)
        ]
        found.sort(key=lambda blob: (blob.at, blob.id), reverse=True)
        return tuple(found[:limit])

    async def used(self, blobs: Sequence[Blob]) -> frozenset[bytes]:
        """The ids of those whose content a session of any tier points to."""
        return frozenset().union(*[await each.used(blobs) for each in self._blobs.values()])

    # ── from tier to tier ──

    async def fetch(self, commits: Sequence[Commit], store: Store) -> None:
        """Give a tier the blobs that an append points to and another tier has."""
        for commit in commits:
            wanted = {blob for _, blob in refs.in_record(commit.record)}
            await self._gather(commit.row.tenant, sorted(wanted), self._blobs[id(store)])

    async def follow(self, head: Head, pointed: Pointed, store: Store) -> None:
        """Give a tier the blobs that a session which came in points to and another tier has."""
        await self._gather(head.row.tenant, sorted(pointed.blobs), self._blobs[id(store)])

    async def _gather(self, tenant: str, wanted: Iterable[bytes], target: BlobStore) -> None:
        """Copies of what a tier lacks and another one has."""
        for sha256 in wanted:
            if await target.find(tenant, sha256) is not None:
                continue
            for source in self._blobs.values():
                found = await source.find(tenant, sha256) if source is not target else None
                if found is not None:
                    with suppress(BlobMissing):  # collected meanwhile: then it is nowhere
                        await self._copy(found, source, target)
                        break

    async def _copy(self, blob: Blob, source: BlobStore, target: BlobStore, *, replace: bool = False) -> None:
        id = uuid7(self._ambient.now() // 1000, self._ambient.random(RANDOM_BYTES))
        upload = target.begin(blob.tenant, id)
        done = False
        try:
            for number in range(blob.chunks):
                chunk = await source.read(blob, number)
                await target.write(upload, number, [chunk], self._ambient.now(), last=number == blob.chunks - 1)
            await target.finish(upload, blob.sha256, blob.size, blob.note, self._ambient.now(), replace=replace)
            done = True
        finally:
            if not done:
                with suppress(PerdureError):  # what cannot be dropped now is collected later
                    await target.abandon(upload)

    # ── going away ──

    async def collect(self, tenant: str | None, before: int, uploads_before: int) -> Collected:
        """Collect in every tier, once each has what its sessions point to: a crash may have come between a session
        and its blobs.
        """
        async with self.lane:
            if tenant is not None:
                await self._catch_up(tenant)
            gone = [await blobs.collect(tenant, before, uploads_before) for blobs in self._blobs.values()]
        return Collected(
            blobs=sum(each.blobs for each in gone),
            bytes=sum(each.bytes for each in gone),
            uploads=sum(each.uploads for each in gone),
        )

    async def _catch_up(self, tenant: str) -> None:
        for name, store in self._stores.items():
            blobs = self._blobs[name]
            for session in await blobs.missing(tenant, MANY):
                await self._gather(tenant, sorted(await _pointed(store, session)), blobs)

    # ── proving ──

    async def unnoted(self, tenant: str, session: SessionId, uses: Sequence[Use]) -> tuple[Use, ...]:
        return await self._blobs[id(await self._home(session))].unnoted(tenant, session, uses)

    async def missing(self, tenant: str, limit: int) -> tuple[SessionId, ...]:
        found = [session for blobs in self._blobs.values() for session in await blobs.missing(tenant, limit)]
        return tuple(found[:limit])


async def _pointed(store: Store, session: SessionId) -> set[bytes]:
    """The blobs that a session's own rows point to, or the state that a pruned log stands on."""
    head = await store.head(session)
    if head is None:
        return set()
    anchor = await store.snapshot(session, head.anchor_version) if head.anchor_digest is not None else None
    found = set() if anchor is None else set(refs.in_bytes(anchor.state))
    after = head.anchor_version
    while run := (await store.run(session, after=after, upto=head.row.version, limit=RECORDS)).records:
        found |= {blob for stored in run for _, blob in refs.in_record(stored.record)}
        after = run[-1].record.last
    return found


def _unchanged(_: object) -> None:
    """Nothing to do."""
