"""The SQLite store keeps the whole contract."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.session.turns import TurnFinished, TurnStarted
from perdure.ports.store import Store
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient, StoreContract
from perdure.testing.building import Builder, said
from perdure.waiting import drive


class TestSqlite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "sessions.db"), FixedAmbient())
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path, FixedAmbient())


async def test_two_who_write_to_one_session_in_turn_agree_on_its_open_turn(tmp_path: Path) -> None:
    stores = [SqliteStore(str(tmp_path / "a.db"), FixedAmbient()) for _ in range(2)]
    make = Builder(FixedAmbient())
    try:
        made = make.create()
        await stores[0].append([made.commit])
        steps = [(0, said("a")), (1, TurnStarted()), (0, TurnFinished()), (1, said("b")), (0, said("c"))]
        for writer, payload in (*steps, *steps):
            following = make.append(made, payload)
            await stores[writer].append([replace(following.commit, expected_digest=made.digest)])
            made = following
            for store in stores:
                head = await store.head(made.session)
                assert head is not None
                assert head.row.open_turn == made.commit.row.open_turn
    finally:
        for store in stores:
            await store.close()


def test_a_question_that_waits_for_a_fork_is_asked_after_it_or_refused_when_the_store_closes(tmp_path: Path) -> None:
    from threading import Thread

    from perdure.core.errors import StoreClosed
    from perdure.stores.sqlite.readers import Readers

    path = str(tmp_path / "a.db")
    drive(SqliteStore(path, FixedAmbient()).close())
    readers, heard = Readers(path), list[Any]()

    def ask() -> None:
        try:
            heard.append(readers._answer(lambda asks: asks.execute("SELECT 1").fetchall()))
        except StoreClosed as refused:
            heard.append(refused.code)

    readers.pause()
    asking = Thread(target=ask)
    asking.start()
    readers.pause()  # another thread forks at the same time
    readers.go_on()
    asking.join(10)
    assert heard == [[(1,)]]
    readers.pause()
    late = Thread(target=ask)
    late.start()
    readers.close()
    late.join(10)
    assert heard[1:] == ["store_closed"]
