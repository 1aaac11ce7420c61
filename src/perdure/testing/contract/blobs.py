"""`BlobContract`: what a store promises that keeps blobs. It is inherited as `StoreContract` is, with a `store` and a
`reopen` of the store's own. Needs pytest.
"""

import pytest

from perdure.core.errors import BlobMissing, Damaged, StoreClosed
from perdure.core.session.ids import raw
from perdure.ports.blobs import CHUNK, Blob, Collected, Note, blobs_of
from perdure.ports.store import Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder
from perdure.testing.contract.content import LATER, collect, keep, pointing, sha_of, there, uploaded
from perdure.testing.contract.looking import TENANT, all_of, put
from perdure.testing.contract.pointing import PointingToBlobs
from perdure.testing.contract.suite import Contract, whole


class KeepingBlobs:
    """What blobs themselves promise."""

    async def test_a_blob_reads_back_as_it_was_put(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        sizes = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7)
        for size in sizes:
            content = (b"\x00abc" * (size // 4 + 1))[:size]
            blob = await keep(store, make, ambient, content, note=Note("text/plain", f"{size}.txt"))
            assert (blob.size, blob.note, blob.sha256) == (size, Note("text/plain", f"{size}.txt"), sha_of(content))
            assert await blobs_of(store).find(TENANT, sha_of(content)) == blob
            assert await there(store, content)

    async def test_an_upload_is_no_blob_until_it_is_finished(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        upload = await uploaded(store, make, ambient)
        assert not await there(store)
        assert await blobs_of(store).page(TENANT, None, 10) == ()
        await blobs_of(store).finish(upload, sha_of(b"content"), 7, Note(), ambient.now())
        assert await there(store)

    async def test_a_tenant_keeps_content_once_and_never_shares_it(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        first = await keep(store, make, ambient)
        again = await keep(store, make, ambient)
        assert again.id == first.id
        assert await blobs_of(store).find("other", sha_of(b"content")) is None
        other = await keep(store, make, ambient, tenant="other")
        assert other.id != first.id
        assert len(await blobs_of(store).page(TENANT, None, 10)) == 1

    async def test_what_is_said_of_a_blob_is_the_latest_that_was_said(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient, note=Note("text/plain", "a.txt"))
        await keep(store, make, ambient, note=Note("", "b.txt"))
        found = await blobs_of(store).renew(TENANT, sha_of(b"content"), Note("text/csv"), ambient.now())
        assert found is not None
        assert found.note == Note("text/csv", "b.txt")
        assert await blobs_of(store).find(TENANT, sha_of(b"content")) == found
        assert await blobs_of(store).renew(TENANT, sha_of(b"another"), Note(), ambient.now()) is None

    async def test_the_same_content_put_at_once_by_many_is_one_blob(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        put = await all_of([keep(store, make, ambient) for _ in range(8)])
        assert len({blob.id for blob in put}) == 1
        assert await there(store)
        assert await collect(store, ambient) == Collected(blobs=1, bytes=7, uploads=0)

    async def test_a_replaced_blob_is_another_with_the_same_uses(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        first = await keep(store, make, ambient)
        await put(store, make.create(pointing(b"content")))
        second = await keep(store, make, ambient, replace=True)
        assert second.id != first.id
        with pytest.raises(BlobMissing):
            await blobs_of(store).read(first, 0)
        assert (await collect(store, ambient)).blobs == 0
        assert await there(store)

    async def test_an_abandoned_upload_leaves_nothing(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        upload = await uploaded(store, make, ambient)
        await blobs_of(store).abandon(upload)
        await blobs_of(store).abandon(upload)
        with pytest.raises(BlobMissing):
            await blobs_of(store).write(upload, 1, [b"more"], ambient.now())
        with pytest.raises(BlobMissing):
            await blobs_of(store).finish(upload, sha_of(b"content"), 7, Note(), ambient.now())
        assert await collect(store, ambient) == Collected(blobs=0, bytes=0, uploads=0)

    async def test_a_finished_upload_cannot_be_abandoned(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        upload = await uploaded(store, make, ambient)
        await blobs_of(store).finish(upload, sha_of(b"content"), 7, Note(), ambient.now())
        await blobs_of(store).abandon(upload)
        assert await there(store)

    async def test_a_chunk_that_is_not_there_is_damage(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        blob = await keep(store, make, ambient)
        with pytest.raises(Damaged):
            await blobs_of(store).read(blob, 1)

    async def test_a_blob_that_was_cut_short_is_damage(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        blobs = blobs_of(store)
        upload = blobs.begin(TENANT, raw(make.id()))
        await blobs.write(upload, 0, [b"x" * CHUNK, b"y" * CHUNK], ambient.now())  # there should be an end
        blob = await blobs.finish(upload, sha_of(b"x" * CHUNK), CHUNK, Note(), ambient.now())
        with pytest.raises(Damaged):
            await blobs.read(blob, 0)

    async def test_pages_tell_of_every_blob_once_newest_first(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        put = []
        for number in range(7):
            put.append(await keep(store, make, ambient, bytes([number])))
            ambient.advance(number % 2)
        await keep(store, make, ambient, b"foreign", tenant="other")
        found: list[Blob] = []
        while page := await blobs_of(store).page(TENANT, (found[-1].at, found[-1].id) if found else None, 2):
            found += page
        assert sorted(found, key=lambda blob: (blob.at, blob.id), reverse=True) == found
        assert {blob.id for blob in found} == {blob.id for blob in put}

    async def test_what_is_young_is_spared(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        await keep(store, make, ambient)
        upload = await uploaded(store, make, ambient, b"begun")
        blobs, began = blobs_of(store), ambient.now()
        assert await blobs.collect(TENANT, began, began) == Collected(blobs=0, bytes=0, uploads=0)
        later = ambient.advance(LATER)
        await blobs.renew(TENANT, sha_of(b"content"), Note(), later)
        await blobs.write(upload, 1, [b"more"], later)
        assert await blobs.collect(TENANT, later, later) == Collected(blobs=0, bytes=0, uploads=0)
        assert await blobs.collect(None, later + 1, later) == Collected(blobs=1, bytes=7, uploads=0)
        assert await blobs.collect(None, later + 1, later + 1) == Collected(blobs=0, bytes=0, uploads=1)

    async def test_collecting_for_one_tenant_leaves_the_others_alone(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient)
        await keep(store, make, ambient, tenant="other")
        assert (await collect(store, ambient)).blobs == 1
        assert not await there(store)
        assert await there(store, tenant="other")
        assert (await collect(store, ambient, None)).blobs == 1

    async def test_a_collected_blob_can_be_put_again(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        blob = await keep(store, make, ambient, b"x" * (2 * CHUNK))
        await collect(store, ambient)
        with pytest.raises(BlobMissing):
            await blobs_of(store).read(blob, 1)
        assert (await keep(store, make, ambient, b"x" * (2 * CHUNK))).id != blob.id
        assert await there(store, b"x" * (2 * CHUNK))

    async def test_a_closed_store_keeps_no_blobs(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        blobs = blobs_of(store)
        blob = await keep(store, make, ambient)
        upload = blobs.begin(TENANT, raw(make.id()))
        await store.close()
        for attempt in (
            blobs.find(TENANT, blob.sha256),
            blobs.read(blob, 0),
            blobs.page(TENANT, None, 1),
            blobs.write(upload, 0, [b""], 0),
            blobs.collect(None, 0, 0),
        ):
            with pytest.raises(StoreClosed):
                await attempt


@whole
class BlobContract(KeepingBlobs, PointingToBlobs, Contract):
    """What every store promises that keeps blobs. Inherit it, give it a `store`, and let nothing fail."""
