"""Claims about stores that outlive their process: what was acknowledged is there after reopening."""

import pytest

from perdure.core.errors import VersionConflict
from perdure.core.session.budget import Account
from perdure.ports.store import Kept, KeyTaken, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, key_use, opens, said
from perdure.testing.contract.looking import BEYOND, everything, grow, names, put, records_of, verify
from perdure.testing.contract.money import PURSE, reserves


class Lasting:
    """What a durable store promises. A store that is none says so: `durable = False`."""

    durable: bool

    async def reopen(self, store: Store) -> Store:
        """Close the store and open what it left behind; each durable store brings its own."""
        raise NotImplementedError("close the given store and open the same place again, or declare durable = False")

    async def again(self, store: Store) -> Store:
        """Reopen, unless the store declares that nothing would be left."""
        if not self.durable:
            pytest.skip("declared as not durable")
        return await self.reopen(store)

    async def test_all_that_was_acknowledged_is_there_after_reopening(self, store: Store, make: Builder) -> None:
        made = make.create(title="kept", tags=("t",), metadata={"k": [1]}, key=key_use("k"), accounts=opens(PURSE, 9))
        marked = make.append(made, said("word"), make.mark("here"), accounts=reserves(4))
        branch = make.branch(marked)
        await put(store, made, marked, branch)
        await store.save_snapshot(made.session, marked.snapshot)
        before = await everything(store, [made, branch], accounts=[PURSE], uses=[key_use("k")])
        after = await self.again(store)
        assert await everything(after, [made, branch], accounts=[PURSE], uses=[key_use("k")]) == before
        assert await names(after, text="word", title="kept", tags=("t",), metadata={"k": [1]}) == [made.session]
        await after.close()

    async def test_what_was_kept_of_a_stream_is_there_after_reopening(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await store.keep(made.session, 1, node="n", until=9, offset=0, data=b"text")
        after = await self.again(store)
        assert await after.kept(made.session, 1) == Kept(turn=1, node="n", until=9, pieces=((0, b"text"),))
        await after.keep(made.session, 1, node="n", until=9, offset=4, data=b"!")
        await after.let_go(made.session, 1)
        assert await after.kept(made.session, 1) is None
        await after.close()

    async def test_a_reopened_log_verifies_and_goes_on(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, *grow(make, made, 10))
        after = await self.again(store)
        last = await put(after, make.append(last))
        stored = await records_of(after, made)
        assert [item.record.first for item in stored] == list(range(1, 13))
        verify(stored, last)
        await after.close()

    async def test_compare_and_set_holds_across_reopening(self, store: Store, make: Builder) -> None:
        made = make.create()
        await put(store, made, make.append(made))
        after = await self.again(store)
        with pytest.raises(VersionConflict) as refused:
            await after.append([make.append(made).commit])
        assert refused.value.found == 2
        await after.close()

    async def test_a_key_is_taken_across_reopening(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(key=key_use("k")))
        after = await self.again(store)
        with pytest.raises(KeyTaken) as taken:
            await after.append([make.create(key=key_use("k")).commit])
        assert taken.value.remembered.session == made.session
        await after.close()

    async def test_a_reservation_holds_across_reopening(self, store: Store, make: Builder) -> None:
        made = make.create(accounts=opens(PURSE, 10))
        await put(store, made, make.append(made, accounts=reserves(7)))
        after = await self.again(store)
        assert await after.account(PURSE) == Account(cap=10, reserved=7)
        await after.close()

    async def test_positions_grow_on_across_reopening(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made, gone = make.create(), make.create()
        await put(store, made, gone)
        await store.erase(gone.session, ambient.now())
        before, told = await store.position(), await store.changes(0, BEYOND)
        after = await self.again(store)
        assert await after.position() == before
        assert await after.changes(0, BEYOND) == told
        assert await after.append([make.append(made).commit]) > before
        await after.close()

    async def test_what_was_erased_stays_erased_across_reopening(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create(said("secret"), key=key_use("k")))
        await store.erase(made.session, ambient.now())
        after = await self.again(store)
        assert await after.head(made.session) is None
        assert await records_of(after, made) == ()
        assert await after.remembered(key_use("k")) is None
        assert await names(after, text="secret") == await names(after) == []
        await after.close()

    async def test_what_was_pruned_stays_pruned_across_reopening(self, store: Store, make: Builder) -> None:
        made = make.create()
        second = make.append(made)
        await put(store, made, second)
        await store.prune(made.session, 1, made.digest, made.snapshot)
        after = await self.again(store)
        head = await after.head(made.session)
        assert head is not None
        assert (head.anchor_version, head.anchor_digest) == (1, made.digest)
        assert await after.snapshot(made.session, 1) == made.snapshot
        verify(await records_of(after, made), second, made.digest)
        await after.close()
