"""Blobs on a server and over several tiers: whatever happens in whichever order, what a session points to is there."""

import tempfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, rule

import perdure
from perdure.testing import FixedAmbient
from tests.journeys.test_blobs import Blobs
from tests.stores.postgres_server import Databases


class TieredBlobs(Blobs):
    """Sessions in RAM and in a file that point to the same blobs."""

    @initialize()
    def open(self) -> None:
        self.ambient = FixedAmbient()
        self.folder = tempfile.mkdtemp()
        self.put: dict[bytes, perdure.Ref] = {}
        self.db = perdure.open(self.places(), seal=self.seal, ambient=self.ambient)

    def places(self) -> Mapping[str, str | Path]:
        return {"L0": ":memory:", "L1": Path(self.folder, "store.db")}

    @rule(target=Blobs.sessions, criticality=st.sampled_from(["ephemeral", "standard"]))
    def create(self, criticality: str) -> Any:
        return self.db.create(config={"criticality": criticality})


class SealedTieredBlobs(TieredBlobs):
    """The same, sealed."""

    seal = True


class PostgresBlobs(Blobs):
    """The same on a server."""

    databases: ClassVar[Databases]
    told: ClassVar[Iterator[int]] = count()

    @initialize()
    def open(self) -> None:
        self.ambient = FixedAmbient(seed=str(next(self.told)).encode())  # they share a vault, which keeps every salt
        self.address = self.databases.take(sealed=self.seal)
        self.put: dict[bytes, perdure.Ref] = {}
        self.db = perdure.open(self.address, seal=self.seal, ambient=self.ambient)

    def teardown(self) -> None:
        self.db.close()
        self.databases.give_back(self.address, sealed=self.seal)


class SealedPostgresBlobs(PostgresBlobs):
    """The same, sealed."""

    seal = True


class ThreeTiersOfBlobs(TieredBlobs):
    """Sessions in RAM, in a file and on a server."""

    databases: ClassVar[Databases]

    def places(self) -> Mapping[str, str | Path]:
        self.address = self.databases.take(sealed=False)
        return {**super().places(), "L2": self.address}

    @rule(target=Blobs.sessions, criticality=st.sampled_from(["ephemeral", "standard", "critical"]))
    def create(self, criticality: str) -> Any:
        return self.db.create(config={"criticality": criticality})

    def teardown(self) -> None:
        super().teardown()
        self.databases.give_back(self.address, sealed=False)


class TestOverTiers(TieredBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=15, stateful_step_count=30, deadline=None)


class TestOverSealedTiers(SealedTieredBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=8, stateful_step_count=30, deadline=None)


@pytest.fixture
def on_a_server(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases for the machines, and the keys of the sealed ones."""
    for machine in (PostgresBlobs, ThreeTiersOfBlobs):
        monkeypatch.setattr(machine, "databases", databases, raising=False)
    for name, value in databases.keys.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("on_a_server")
class TestOnAServer(PostgresBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=5, stateful_step_count=20, deadline=None)


@pytest.mark.usefixtures("on_a_server")
class TestOnASealedServer(SealedPostgresBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=5, stateful_step_count=20, deadline=None)


@pytest.mark.usefixtures("on_a_server")
class TestOverThreeTiers(ThreeTiersOfBlobs.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=6, stateful_step_count=20, deadline=None)
