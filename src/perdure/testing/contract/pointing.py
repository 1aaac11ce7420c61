"""Claims about sessions that point to blobs: what they point to stays, for as long as they do."""

from typing import Any

import pytest

from perdure.core.errors import BlobMissing
from perdure.core.session import record
from perdure.core.session.refs import blob_ref
from perdure.core.session.vars import VarsPatched
from perdure.ports.blobs import CHUNK, Collected, blobs_of
from perdure.ports.store import Head, Segment, Store, Stored
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, said
from perdure.testing.contract.content import LATER, collect, keep, pointing, sha_of, there, uploaded
from perdure.testing.contract.looking import TENANT, all_of, everything, put, records_of


class PointingToBlobs:
    """What sessions that point to blobs are promised."""

    durable: bool

    async def reopen(self, store: Store) -> Store:
        """Close the store and open what it left behind; each durable store brings its own."""
        raise NotImplementedError("close the given store and open the same place again, or declare durable = False")

    async def test_events_cannot_point_to_what_is_not_there(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        await keep(store, make, ambient, b"here")
        await keep(store, make, ambient, b"foreign", tenant="other")
        before = await everything(store, [made])
        for content in (b"never put", b"foreign"):
            with pytest.raises(BlobMissing):
                await store.append([make.append(made, pointing(b"here", content)).commit])
            with pytest.raises(BlobMissing):
                await store.append([make.create(pointing(content)).commit])
            both = [make.append(made).commit, make.create(pointing(content)).commit]
            with pytest.raises(BlobMissing):
                await store.append(both)
        assert await everything(store, [made]) == before
        assert not await blobs_of(store).used([await keep(store, make, ambient, b"here")])

    async def test_a_text_that_names_a_blob_does_not_point_to_it(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await put(store, make.create(said(blob_ref(sha_of(b"nothing")).uri)))
        await keep(store, make, ambient)
        await put(store, make.create(said(blob_ref(sha_of(b"content")).uri)))
        assert (await collect(store, ambient)).blobs == 1

    async def test_what_a_session_points_to_stays_until_the_session_goes(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        blob = await keep(store, make, ambient)
        spare = await keep(store, make, ambient, b"spare")
        one = await put(store, make.create(pointing(b"content")))
        two = await put(store, make.create())
        await put(store, make.append(two, said("a"), pointing(b"content"), said("b")))
        assert await blobs_of(store).used([blob, spare]) == {blob.id}
        assert await collect(store, ambient) == Collected(blobs=1, bytes=5, uploads=0)
        await store.erase(one.session, ambient.now())
        assert (await collect(store, ambient)).blobs == 0
        await store.erase(two.session, ambient.now())
        assert await collect(store, ambient) == Collected(blobs=1, bytes=7, uploads=0)

    async def test_a_redacted_event_points_nowhere(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        await keep(store, make, ambient)
        made = await put(store, make.create(pointing(b"content"), pointing(b"content")))
        once = make.append(made, rewrites=(record.redact(made.commit.record, frozenset({2})),))
        await put(store, once)
        assert (await collect(store, ambient)).blobs == 0
        await put(store, make.append(once, rewrites=(record.redact(made.commit.record, frozenset({2, 3})),)))
        assert (await collect(store, ambient)).blobs == 1

    async def test_a_branch_keeps_what_it_shares_when_its_parent_goes(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        for content in (b"shared", b"not shared"):
            await keep(store, make, ambient, content)
        parent = await put(store, make.create(pointing(b"shared"), pointing(b"not shared")))
        branch = await put(store, make.branch(parent, version=2))
        assert (await collect(store, ambient)).blobs == 0
        copied = Stored(record.cut(parent.commit.record, 2), parent.at(2)[1])
        await store.adopt(branch.session, [copied])
        stretch = Segment(source=branch.session, origin=parent.session, upto=2, digest=copied.digest)
        await store.repoint(branch.session, (stretch,))
        await store.erase(parent.session, ambient.now())
        assert await collect(store, ambient) == Collected(blobs=1, bytes=10, uploads=0)
        assert await there(store, b"shared")

    async def test_a_redaction_reaches_what_copies_point_to(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient)
        parent = await put(store, make.create(pointing(b"content")))
        branch = await put(store, make.branch(parent))
        await store.adopt(branch.session, await records_of(store, parent))
        blanked = record.redact(parent.commit.record, frozenset({2}))
        await put(store, make.append(parent, rewrites=(blanked,)))
        assert (await collect(store, ambient)).blobs == 1

    async def test_a_pruned_log_keeps_what_its_state_points_to(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        for content in (b"said", b"set"):
            await keep(store, make, ambient, content)
        patch = VarsPatched(patch=[["+", ["logo"], blob_ref(sha_of(b"set"))]])
        made = await put(store, make.create(pointing(b"said"), patch))
        last = await put(store, make.append(made))
        await store.prune(made.session, made.version, made.digest, made.snapshot)
        assert await collect(store, ambient) == Collected(blobs=1, bytes=4, uploads=0)
        unset = await put(store, make.append(last, VarsPatched(patch=[["-", ["logo"]]])))
        await put(store, make.append(unset))
        assert (await collect(store, ambient)).blobs == 0
        await store.prune(made.session, unset.version, unset.digest, unset.snapshot)
        assert await collect(store, ambient) == Collected(blobs=1, bytes=3, uploads=0)

    async def test_a_branch_of_a_pruned_log_keeps_what_that_stands_on(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient)
        patch = VarsPatched(patch=[["+", ["logo"], blob_ref(sha_of(b"content"))]])
        made = await put(store, make.create(patch))
        last = await put(store, make.append(made))
        await store.prune(made.session, made.version, made.digest, made.snapshot)
        anchored: dict[str, Any] = {"anchor": (made.version, made.digest), "snapshot": made.snapshot}
        branch = await put(store, make.branch(last, **anchored))
        await store.adopt(branch.session, await records_of(store, made))
        stretch = Segment(source=branch.session, origin=made.session, upto=last.version, digest=last.digest)
        await store.repoint(branch.session, (stretch,))
        await store.erase(made.session, ambient.now())
        assert (await collect(store, ambient)).blobs == 0
        await store.erase(branch.session, ambient.now())
        assert (await collect(store, ambient)).blobs == 1

    async def test_a_frozen_session_keeps_what_it_points_to(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient)
        made = await put(store, make.create(pointing(b"content")))
        kept = await records_of(store, made)
        await store.freeze(made.session, "cold://1", expected=made.digest)
        assert (await collect(store, ambient)).blobs == 0
        await store.thaw(made.session, kept)
        assert (await collect(store, ambient)).blobs == 0
        await store.erase(made.session, ambient.now())
        assert (await collect(store, ambient)).blobs == 1

    async def test_a_session_from_elsewhere_may_come_before_its_blobs(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create(pointing(b"content"))
        head = Head(row=made.commit.row, segments=())
        await store.bring(head, [Stored(made.commit.record, made.digest)], None)
        assert await blobs_of(store).missing(TENANT, 10) == (made.session,)
        await keep(store, make, ambient)
        assert await blobs_of(store).missing(TENANT, 10) == ()
        assert (await collect(store, ambient)).blobs == 0
        assert await there(store)

    async def test_a_store_tells_which_uses_it_does_not_know(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        await keep(store, make, ambient)
        made = await put(store, make.create(pointing(b"content")))
        known, unknown = (2, sha_of(b"content")), (3, sha_of(b"content"))
        assert await blobs_of(store).unnoted(TENANT, made.session, [known, unknown]) == (unknown,)

    async def test_pointing_and_collecting_at_once_never_parts_them(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        contents = [bytes([number]) for number in range(12)]
        made = [make.create() for _ in contents]
        await put(store, *made)
        for content in contents:
            await keep(store, make, ambient, content)
        now = ambient.advance(LATER)
        appends = [store.append([make.append(m, pointing(c)).commit]) for m, c in zip(made, contents, strict=True)]
        work = [step for pair in zip(appends, _sweeps(store, now, len(appends)), strict=True) for step in pair]
        outcomes = (await all_of(work))[::2]
        for content, outcome in zip(contents, outcomes, strict=True):
            assert await there(store, content) == (not isinstance(outcome, BlobMissing)), outcome

    async def test_blobs_and_their_uses_outlive_the_process(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        if not self.durable:
            pytest.skip("declared as not durable")
        await keep(store, make, ambient, b"x" * (CHUNK + 1))
        await keep(store, make, ambient, b"spare")
        await uploaded(store, make, ambient, b"half done")
        await put(store, make.create(pointing(b"x" * (CHUNK + 1))))
        again = await self.reopen(store)
        assert await there(again, b"x" * (CHUNK + 1))
        assert await collect(again, ambient) == Collected(blobs=1, bytes=5, uploads=1)
        assert await there(again, b"x" * (CHUNK + 1))
        await again.close()


def _sweeps(store: Store, now: int, count: int) -> list[Any]:
    return [blobs_of(store).collect(TENANT, now, now) for _ in range(count)]
