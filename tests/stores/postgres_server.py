"""The PostgreSQL server of a test session, and an empty database for each test."""

from collections.abc import Iterator

import psycopg
import pytest

from perdure.stores.postgres.preparing import FORMAT
from perdure.testing.postgres import Server, running

__all__ = ["Server", "address", "bare", "running", "server", "shared"]


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
    *("blob", "blob_chunk", "blob_use"),
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
