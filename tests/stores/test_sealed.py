"""Sealed stores keep the whole contract, like those in the clear."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.ports.store import Store
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.keyring import Keyring
from perdure.sealing.masters import made_up
from perdure.sealing.volatilevault import VolatileVault
from perdure.stores.postgres import PostgresStore
from perdure.stores.sqlite import SqliteStore
from perdure.stores.volatile import VolatileStore
from perdure.testing import FixedAmbient, StoreContract
from tests.stores.postgres_server import address, server, shared

__all__ = ["address", "server", "shared"]


def file_keyring(folder: Path, name: str = "sessions.db") -> Keyring:
    """The keyring of the store with this name, opened anew; its key and vault lie beside it."""
    ambient = FixedAmbient()
    masters, _ = KeyFile.make(str(folder / f"{name}.master"), ambient)
    return Keyring(masters, FileVault(str(folder / f"{name}.keys"), ambient, create=True), ambient)


class TestSealedVolatile(StoreContract):
    durable = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        ambient = FixedAmbient()
        store = VolatileStore(Keyring(made_up(ambient), VolatileVault(ambient), ambient))
        yield store
        await store.close()


class TestSealedSqlite(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "sessions.db"), FixedAmbient(), seal=file_keyring(tmp_path))
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path, FixedAmbient(), seal=file_keyring(Path(store.path).parent))


class TestSealedPostgres(StoreContract):
    @pytest.fixture
    async def store(self, address: str, tmp_path: Path) -> AsyncIterator[Store]:
        self.place = address, tmp_path
        store = PostgresStore(address, FixedAmbient(), seal=file_keyring(tmp_path))
        yield store
        await store.close()

    async def reopen(self, store: Store) -> Store:
        await store.close()
        address, folder = self.place
        return PostgresStore(address, FixedAmbient(), seal=file_keyring(folder))
