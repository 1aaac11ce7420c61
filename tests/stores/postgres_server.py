"""The PostgreSQL server of a test session, and an empty database for each test."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

import perdure
from perdure.sealing.opening import KEY_FILE, VAULT
from perdure.stores.postgres.preparing import FORMAT
from perdure.testing.postgres import Server, running

__all__ = ["Databases", "Server", "address", "bare", "databases", "running", "server", "shared"]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of this test session."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def shared(server: Server) -> str:
    """The database that most tests share, one after the other."""
    return server.database()


_TABLES = (
    *("session", "record", "segment", "snapshot", "checkpoint", "idempotency", "account", "cursor", "word", "writer"),
    *("blob", "blob_chunk", "blob_use", "stream", "stream_piece"),
)


@pytest.fixture
def bare(shared: str) -> str:
    """A database without a store; that takes a tenth of the time of making one."""
    with psycopg.connect(shared, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    return shared


@pytest.fixture
def address(shared: str) -> str:
    """A database with an empty store in the clear, or without a store: quicker still."""
    with psycopg.connect(shared, autocommit=True) as connection:
        try:
            found = connection.execute("SELECT value FROM perdure.setting WHERE name IN ('seal', 'format')").fetchall()
        except psycopg.errors.UndefinedTable:
            found = []
        if sorted(found) == [("",), (str(FORMAT),)]:
            connection.execute("; ".join(f"DELETE FROM perdure.{name}" for name in _TABLES))
        else:
            connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    return shared


class Databases:
    """Databases with an empty store each, lent out one after the other. `keys` is the environment sealed ones need."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._free: dict[bool, list[str]] = {False: [], True: []}
        self._key, self._vault = str(folder / "master"), str(folder / "vault")
        self.keys = {KEY_FILE: self._key, VAULT: self._vault}

    def take(self, *, sealed: bool) -> str:
        """The address of one that nobody else has."""
        if not self._free[sealed]:
            self._free[sealed].append(self._made(sealed))
        address = self._free[sealed].pop()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("; ".join(f"DELETE FROM perdure.{name}" for name in _TABLES))
            (mark,) = connection.execute("SELECT value FROM perdure.setting WHERE name = 'seal'").fetchone() or ("",)
        if sealed:
            self._forget_heads(mark)
        return address

    def _forget_heads(self, mark: str) -> None:
        """The vault vouches for sessions that went without its knowledge; it must not miss them."""
        vault = apsw.Connection(self._vault)
        try:
            if vault.execute("SELECT 1 FROM sqlite_schema WHERE name = 'head'").fetchall():
                vault.execute("DELETE FROM head WHERE store = ?", (mark,))
        finally:
            vault.close()

    def give_back(self, address: str, *, sealed: bool) -> None:
        """Done with it."""
        self._free[sealed].append(address)

    def _made(self, sealed: bool) -> str:
        address = self._server.database()
        if sealed:
            perdure.open(address, key=self._key, vault=self._vault).close()
        else:
            perdure.open(address, seal=False).close()
        return address


@pytest.fixture(scope="session")
def databases(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """Where tests get their databases from."""
    return Databases(server, tmp_path_factory.mktemp("keys"))
