"""The reference store keeps the whole contract, with and without an event loop, from one thread and from many."""

from collections.abc import AsyncIterator, Callable
from threading import Thread

import pytest

from perdure.core.errors import VersionConflict
from perdure.ports.store import Change, Query, Store
from perdure.stores.volatile import VolatileStore
from perdure.testing import Builder, FixedAmbient, StoreContract
from perdure.waiting import drive


class TestVolatile(StoreContract):
    durable = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = VolatileStore()
        yield store
        await store.close()


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


def in_threads(*work: Callable[[], object]) -> None:
    threads = [Thread(target=item, daemon=True) for item in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_it_works_without_an_event_loop(make: Builder) -> None:
    store, made = VolatileStore(), make.create(title="blocking")
    drive(store.append([made.commit]))
    assert drive(store.find(Query(tenant="tenant"))) == (made.commit.row,)
    drive(store.close())


def test_a_blocking_watcher_is_woken_by_another_thread(make: Builder) -> None:
    store = VolatileStore()
    heard: list[Change] = []

    async def listen() -> None:
        async for change in store.watch(0):
            heard.append(change)
            if len(heard) == 10:
                await store.close()

    async def speak() -> None:
        for _ in range(10):
            await store.append([make.create().commit])

    in_threads(lambda: drive(listen()), lambda: drive(speak()))
    assert [change.position for change in heard] == list(range(1, 11))


def test_threads_that_append_to_one_session_lose_nothing(make: Builder) -> None:
    store = VolatileStore()
    latest = [make.create()]
    drive(store.append([latest[0].commit]))

    def append_ten() -> None:
        done = 0
        while done < 10:
            following = make.append(latest[0])
            try:
                drive(store.append([following.commit]))
            except VersionConflict:
                continue
            latest[0] = following
            done += 1

    in_threads(*[append_ten] * 4)
    run = drive(store.run(latest[0].session, after=0, upto=100, limit=100))
    assert [stored.record.first for stored in run.records] == list(range(1, 42))
    drive(store.close())
