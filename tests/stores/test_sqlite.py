"""The SQLite store keeps the whole contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.ports.store import Store
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient, StoreContract


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
