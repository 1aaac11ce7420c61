"""Several tiers are one store: they keep the contract together, and each session lands where it belongs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from perdure.core.errors import AlreadyExists, BlobMissing, Invalid, Refused, Tampered
from perdure.core.tiers import Tier
from perdure.ports.blobs import CHUNK, Note
from perdure.ports.seal import CLEAR, Seal
from perdure.ports.store import Change, Head, Store, Stored
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keyring import Keyring
from perdure.stores.sqlite import SqliteStore
from perdure.stores.tiered import TieredStore
from perdure.stores.tiered_blobs import TieredBlobs
from perdure.stores.volatile import VolatileStore
from perdure.testing import BlobContract, Builder, FixedAmbient, Made, StoreContract
from perdure.testing.contract.content import collect, keep, pointing, sha_of, there
from perdure.testing.contract.looking import TENANT


def tiered(path: Path, later: int = 0, seal: Seal = CLEAR) -> TieredStore:
    ambient = FixedAmbient()
    ambient.advance(later)
    return TieredStore({Tier.L1: SqliteStore(str(path), ambient, seal=seal), Tier.L0: VolatileStore()}, ambient)


class Tiers:
    """RAM and a file."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        self.path = tmp_path / "sessions.db"
        store = tiered(self.path, seal=self.seal())
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return tiered(self.path, seal=self.seal())

    def seal(self) -> Seal:
        return CLEAR


class SealedTiers(Tiers):
    """The same with a sealed file; what is in RAM has other keys, or none."""

    def seal(self) -> Seal:
        ambient, folder = FixedAmbient(), self.path.parent
        masters, _ = KeyFile.make(str(folder / "master"), ambient)
        return Keyring(masters, FileVault(str(folder / "vault"), ambient, create=True), ambient)


class TestTiered(Tiers, StoreContract):
    pass


class TestTieredBlobs(Tiers, BlobContract):
    pass


class TestSealedTieredBlobs(SealedTiers, BlobContract):
    pass


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TieredStore]:
    store = tiered(tmp_path / "sessions.db")
    yield store
    await store.close()


async def put(store: TieredStore, made: Made, criticality: str | None = None) -> Made:
    await store.append([replace(made.commit, criticality=criticality)])
    return made


async def test_a_session_lands_where_its_criticality_says(store: TieredStore, make: Builder) -> None:
    ephemeral = await put(store, make.create(), "ephemeral")
    standard = await put(store, make.create(), "standard")
    silent = await put(store, make.create())
    assert [await store.tier(made.session) for made in (ephemeral, standard, silent)] == [Tier.L0, Tier.L1, Tier.L1]


async def test_a_session_never_gets_less_than_it_asked_for(store: TieredStore, make: Builder) -> None:
    before = await store.position()
    with pytest.raises(Invalid, match="needs tier L2"):
        await put(store, make.create(), "critical")
    assert await store.position() == before


async def test_branches_stay_with_their_parent(store: TieredStore, make: Builder) -> None:
    parent = await put(store, make.create(), "ephemeral")
    branch = await put(store, make.branch(parent), "ephemeral")
    other = make.branch(parent)
    await store.append([other.commit])
    assert [await store.tier(each.session) for each in (branch, other)] == [Tier.L0, Tier.L0]


async def test_a_branch_that_asks_for_more_than_its_parents_tier_is_refused(store: TieredStore, make: Builder) -> None:
    parent = await put(store, make.create(), "ephemeral")
    wanting = make.branch(parent)
    with pytest.raises(Refused, match="create one that is standard"):
        await put(store, wanting, "standard")
    assert await store.head(wanting.session) is None


async def test_an_id_is_taken_in_every_tier(store: TieredStore, make: Builder) -> None:
    made = await put(store, make.create(), "ephemeral")
    with pytest.raises(AlreadyExists):
        await put(store, make.create(session=made.session), "standard")


async def test_an_append_across_tiers_is_refused_whole(store: TieredStore, make: Builder) -> None:
    one, other = await put(store, make.create(), "ephemeral"), await put(store, make.create(), "standard")
    before = await store.position()
    with pytest.raises(Refused, match="different tiers"):
        await store.append([make.append(one).commit, make.append(other).commit])
    assert await store.position() == before


async def test_the_feed_of_all_tiers_misses_nothing_and_doubles_nothing(store: TieredStore, make: Builder) -> None:
    heard: list[Change] = []

    async def listen() -> None:
        async for change in store.watch(0):
            heard.append(change)
            if len(heard) == 40:
                return

    listening = asyncio.create_task(listen())
    made = [await put(store, make.create(), ("ephemeral", "standard")[n % 2]) for n in range(4)]
    for _ in range(9):
        for index, item in enumerate(made):
            made[index] = await put(store, make.append(item))
    await asyncio.wait_for(listening, 60)
    assert sorted((change.session, change.first) for change in heard) == sorted(
        (item.session, version) for item in made for version in range(1, 11)
    )
    assert [change.position for change in heard] == sorted({change.position for change in heard})
    middle = heard[17].position
    rest = await store.changes(middle, 100)
    assert {(change.session, change.first) for change in rest} == {
        (change.session, change.first) for change in heard[18:]
    }


async def test_what_the_process_forgets_leaves_the_rest(tmp_path: Path, make: Builder) -> None:
    store = tiered(tmp_path / "sessions.db")
    await put(store, make.create(), "ephemeral")
    kept = await put(store, make.create(), "standard")
    seen = await store.position()
    await store.close()
    store = tiered(tmp_path / "sessions.db", later=1_000_000)
    assert await store.changes(seen, 10) == ()
    fresh = await put(store, make.create(), "ephemeral")
    assert [change.session for change in await store.changes(seen, 10)] == [fresh.session]
    assert await store.tier(kept.session) is Tier.L1
    await store.close()


# ── blobs ──

BIG = b"".join(bytes([number]) * CHUNK for number in range(2)) + b"the end"


@pytest.fixture
def ambient() -> FixedAmbient:
    return FixedAmbient()


@pytest.fixture
def volatile(store: TieredStore) -> VolatileStore:
    found = store._tiers[Tier.L0]
    assert isinstance(found, VolatileStore)
    return found


@pytest.fixture
def file(store: TieredStore) -> SqliteStore:
    found = store._tiers[Tier.L1]
    assert isinstance(found, SqliteStore)
    return found


async def test_a_session_of_any_tier_points_to_what_was_put(
    store: TieredStore, volatile: VolatileStore, file: SqliteStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    assert (await there(file, BIG), await there(volatile, BIG)) == (True, False)
    passing = await put(store, make.create(pointing(BIG)), "ephemeral")
    assert await there(volatile, BIG)
    await collect(store, ambient)
    assert (await there(file, BIG), await there(volatile, BIG)) == (False, True)
    assert await there(store, BIG)
    lasting = await put(store, make.create(pointing(BIG)), "standard")
    await store.erase(passing.session, ambient.now())
    await collect(store, ambient)
    assert (await there(file, BIG), await there(volatile, BIG)) == (True, False)
    await store.erase(lasting.session, ambient.now())
    await collect(store, ambient)
    assert not await there(store, BIG)


async def test_what_no_tier_has_is_refused_in_each(store: TieredStore, make: Builder) -> None:
    for criticality in ("ephemeral", "standard"):
        with pytest.raises(BlobMissing):
            await put(store, make.create(pointing(BIG)), criticality)
    assert await store.position() == 0


async def test_what_is_put_is_durable_even_if_memory_has_it(
    store: TieredStore, file: SqliteStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    await put(store, make.create(pointing(BIG)), "ephemeral")
    await collect(store, ambient)
    assert not await there(file, BIG)
    assert await store.blobs.renew(TENANT, sha_of(BIG), Note(), ambient.now()) is not None
    assert await there(file, BIG)


async def test_whether_a_blob_is_used_is_the_same_from_every_tier(
    store: TieredStore, make: Builder, ambient: FixedAmbient
) -> None:
    blob, spare = await keep(store, make, ambient, BIG), await keep(store, make, ambient, b"spare")
    assert await store.blobs.used([blob, spare]) == frozenset()
    made = await put(store, make.create(pointing(BIG)), "ephemeral")
    assert await store.blobs.used([blob, spare]) == {blob.id}
    assert await store.blobs.unnoted(TENANT, made.session, [(2, sha_of(BIG))]) == ()
    copies = await store.blobs.page(TENANT, None, 10)
    assert sorted(copy.sha256 for copy in copies) == sorted([sha_of(BIG), sha_of(BIG), sha_of(b"spare")])


async def test_a_session_that_moves_takes_its_blobs_along(
    store: TieredStore, volatile: VolatileStore, file: SqliteStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    made = await put(store, make.create(pointing(BIG)), "ephemeral")
    await collect(store, ambient)
    await store.erase(made.session, ambient.now())
    await store.bring(Head(row=made.commit.row, segments=()), iter([Stored(made.commit.record, made.digest)]), None)
    assert await store.tier(made.session) is Tier.L1
    assert await store.blobs.missing(TENANT, 10) == ()
    await collect(store, ambient)
    assert (await there(file, BIG), await there(volatile, BIG)) == (True, False)


async def test_nothing_is_collected_between_a_session_that_moves_and_its_blobs(
    store: TieredStore, make: Builder, ambient: FixedAmbient, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    waiting: list[asyncio.Task[Any]] = []
    follow, catch_up = TieredBlobs.follow, TieredBlobs._catch_up

    async def collected_meanwhile(self: TieredBlobs, *given: Any) -> None:
        waiting.append(asyncio.create_task(collect(store, ambient)))
        for _ in range(5):
            await asyncio.sleep(0)
        await follow(self, *given)
        happened.append("its blobs followed")

    async def told(self: TieredBlobs, tenant: str) -> None:
        happened.append("collecting began")
        await catch_up(self, tenant)

    monkeypatch.setattr(TieredBlobs, "follow", collected_meanwhile)
    monkeypatch.setattr(TieredBlobs, "_catch_up", told)
    await keep(store, make, ambient, BIG)
    made = make.create(pointing(BIG))
    await store.bring(Head(row=made.commit.row, segments=()), [Stored(made.commit.record, made.digest)], None)
    await asyncio.gather(*waiting)
    assert happened == ["its blobs followed", "collecting began"]
    assert await there(store, BIG)


async def test_what_a_crash_leaves_of_a_move_is_finished_before_anything_is_collected(
    store: TieredStore, volatile: VolatileStore, file: SqliteStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    made = await put(store, make.create(pointing(BIG)), "ephemeral")
    await collect(store, ambient)
    await store.erase(made.session, ambient.now())
    await file.bring(Head(row=made.commit.row, segments=()), [Stored(made.commit.record, made.digest)], None)
    await collect(store, ambient)
    assert (await there(file, BIG), await there(volatile, BIG)) == (True, False)


async def test_a_reader_goes_on_with_the_copy_of_another_tier(
    store: TieredStore, make: Builder, ambient: FixedAmbient
) -> None:
    blob = await keep(store, make, ambient, BIG)
    assert await store.blobs.read(blob, 0) == BIG[:CHUNK]
    await put(store, make.create(pointing(BIG)), "ephemeral")
    await collect(store, ambient)
    assert await store.blobs.read(blob, 1) == BIG[CHUNK : 2 * CHUNK]


async def test_putting_again_with_replace_mends_every_copy(
    store: TieredStore, volatile: VolatileStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    await put(store, make.create(pointing(BIG)), "ephemeral")
    for kept in volatile._blobs._kept.values():
        kept.chunks[1] = kept.chunks[0]
    with pytest.raises(Tampered):
        await there(volatile, BIG)
    await keep(store, make, ambient, BIG, replace=True)
    assert await there(volatile, BIG)
    assert (await collect(volatile, ambient)).blobs == 0


async def test_a_copy_that_breaks_off_leaves_nothing(
    store: TieredStore, volatile: VolatileStore, file: SqliteStore, make: Builder, ambient: FixedAmbient
) -> None:
    await keep(store, make, ambient, BIG)
    connection = apsw.Connection(file.path)
    connection.execute("DELETE FROM blob_chunk WHERE number = 1")
    connection.close()
    with pytest.raises(Tampered):
        await put(store, make.create(pointing(BIG)), "ephemeral")
    assert volatile._blobs._kept == {}
    assert await store.position() == 0


async def test_memory_alone_keeps_blobs_too(make: Builder, ambient: FixedAmbient) -> None:
    store = TieredStore({Tier.L0: VolatileStore()}, ambient)
    await keep(store, make, ambient, BIG)
    await put(store, make.create(pointing(BIG)), "ephemeral")
    assert await there(store, BIG)
    await store.close()
