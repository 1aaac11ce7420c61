"""Several tiers are one store: they keep the contract together, and each session lands where it belongs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.core.errors import AlreadyExists, Invalid, Refused
from perdure.core.tiers import Tier
from perdure.ports.store import Change, Store
from perdure.stores.sqlite import SqliteStore
from perdure.stores.tiered import TieredStore
from perdure.stores.volatile import VolatileStore
from perdure.testing import Builder, FixedAmbient, Made, StoreContract


def tiered(path: Path, later: int = 0) -> TieredStore:
    ambient = FixedAmbient()
    ambient.advance(later)
    return TieredStore({Tier.L1: SqliteStore(str(path), ambient), Tier.L0: VolatileStore()}, ambient)


class TestTiered(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        self.path = tmp_path / "sessions.db"
        store = tiered(self.path)
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        return tiered(self.path)


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
    branch = await put(store, make.branch(parent), "standard")
    assert await store.tier(branch.session) is Tier.L0


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
