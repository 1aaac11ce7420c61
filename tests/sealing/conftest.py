"""Keys and vaults to try things on, and a look at every byte that lies beside a store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.ambient import RealAmbient
from perdure.ports.vault import Vault
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyring import Keyring
from perdure.sealing.masters import HeldKeys, made_up
from perdure.sealing.volatilevault import VolatileVault

AMBIENT = RealAmbient()


@pytest.fixture
def masters() -> HeldKeys:
    return made_up(AMBIENT)


@pytest.fixture
def file_vault(tmp_path: Path) -> Iterator[FileVault]:
    vault = FileVault(str(tmp_path / "vault.keys"), AMBIENT, create=True)
    yield vault
    vault.close()


@pytest.fixture
def keyring(masters: HeldKeys) -> Iterator[Keyring]:
    made = Keyring(masters, VolatileVault(AMBIENT), AMBIENT)
    made.join(None)
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL of our own, or a skip where none can be started."""
    pytest.importorskip("psycopg")
    from tests.stores.postgres_server import running

    with running() as server:
        yield server


@pytest.fixture(scope="session")
def database(server: Any) -> str:
    """A database on it."""
    address: str = server.database()
    return address


@pytest.fixture(params=["volatile", "file", "postgres"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Vault]:
    """An empty vault of each kind."""
    if request.param == "volatile":
        yield VolatileVault(AMBIENT)
        return
    if request.param == "file":
        made: Vault = FileVault(str(tmp_path / "vault.keys"), AMBIENT, create=True)
    else:
        import psycopg

        from perdure.sealing.postgresvault import PostgresVault

        address: str = request.getfixturevalue("database")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS perdure_keys CASCADE")
        made = PostgresVault(address, AMBIENT, create=True)
    yield made
    made.close()


Beside = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def beside() -> Beside:
    """Every file of a folder, by name."""

    def read(folder: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    return read
