"""Stores for the tests of services: each test runs on SQLite and in RAM."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.ports.store import Store
from perdure.stores.sqlite import SqliteStore
from perdure.stores.volatile import VolatileStore
from perdure.testing import FixedAmbient
from tests.services.world import World


def open_store(engine: str, folder: Path, name: str = "store") -> Store:
    return SqliteStore(str(folder / f"{name}.db"), FixedAmbient()) if engine == "sqlite" else VolatileStore()


@pytest.fixture(params=["sqlite", "volatile"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def world(engine: str, tmp_path: Path) -> AsyncIterator[World]:
    """Where sessions are made."""
    store = open_store(engine, tmp_path)
    yield World(store)
    await store.close()


@pytest.fixture
async def elsewhere(engine: str, tmp_path: Path) -> AsyncIterator[World]:
    """Another, empty world, where they are taken to."""
    store = open_store(engine, tmp_path, "elsewhere")
    yield World(store, seed=b"elsewhere")
    await store.close()
