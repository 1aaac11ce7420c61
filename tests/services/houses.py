"""A house: one store, and as many nodes over it as a test wants, each with its own clock and its own memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.compose.tenants import Tenants, tenants
from perdure.sealing.given import Given
from perdure.services.loading import SnapshotPolicy
from perdure.testing import FixedAmbient
from tests.stores.postgres_server import bare, server, shared

__all__ = ["House", "bare", "filed", "house", "server", "shared"]


class House:
    """Nodes over one store; `path` is its file, where it is one."""

    def __init__(self, engine: str, place: str, folder: Path) -> None:
        self.engine = engine
        self.sealed = engine != "volatile"
        self.path = folder / "store.db"
        self._place = place
        self._keys = Given(True, str(folder / "master"), str(folder / "vault")) if self.sealed else Given(False)
        self._nodes: list[Tenants] = []

    def node(self) -> Tenants:
        """One more node."""
        ambient = FixedAmbient(seed=f"node {len(self._nodes)}".encode())
        if self.engine == "volatile" and self._nodes:
            made = Tenants(self._nodes[0].store, ambient, SnapshotPolicy())
        else:
            made = tenants(self._place, ambient=ambient, keys=self._keys)
        self._nodes.append(made)
        return made

    async def close(self) -> None:
        """Every node shuts down."""
        for node in self._nodes:
            await node.close()
        self._nodes.clear()


@pytest.fixture(params=["volatile", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """In RAM, in a sealed file, on a sealed database."""
    engine: str = request.param
    place = {"volatile": ":memory:", "sqlite": str(tmp_path / "store.db")}.get(engine)
    made = House(engine, place or request.getfixturevalue("bare"), tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def filed(tmp_path: Path) -> AsyncIterator[House]:
    """In a sealed file, for tests that reach behind the store's back."""
    made = House("sqlite", str(tmp_path / "store.db"), tmp_path)
    yield made
    await made.close()
