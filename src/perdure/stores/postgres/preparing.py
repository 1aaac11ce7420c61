"""Making a database a perdure store of today's format, or saying why it cannot be one.

Everything lies in the schema `perdure`; the rest of the database is left alone. Migrations run under the lock that
writers take, in one transaction with the new number, so many may open the same database at once.
"""

from collections.abc import Callable
from typing import Final

import psycopg

from perdure.core.errors import NewerStore, NotAStore, ReadOnly
from perdure.ports.seal import CLEAR
from perdure.stores.postgres import sql, streams
from perdure.stores.postgres.connection import Connection, ask
from perdure.stores.postgres.sql import QUERIES as Q

FORMAT: Final = sql.migrations()[-1][0]
SEAL: Final = "seal"
"""The setting that holds the mark of how the store is sealed."""

Joins = Callable[[str | None], str]
"""What a seal does with a store's mark, see `perdure.ports.seal.Seal.join`."""


def prepare(connection: Connection, shown: str, join: Joins = CLEAR.join) -> None:
    """Bring the database to today's format. Safe to race with others who open the same one.

    A new store is born with its mark, an old one has to show it.
    """
    found = _found(connection, shown)
    if found:
        join(_mark(connection))
    if found != FORMAT:
        _migrate(connection, shown, join)
    streams.prepare(connection)


def _migrate(connection: Connection, shown: str, join: Joins) -> None:
    with connection.transaction():
        ask(connection, Q["migrating"])
        found = _found(connection, shown)
        for number, text in sql.migrations():
            if number > found:
                connection.execute(text)
        if found:
            join(_mark(connection))
        else:
            ask(connection, Q["save_setting"], (SEAL, join(None)))
        if found != FORMAT:
            ask(connection, Q["save_setting"], ("format", str(FORMAT)))


def check(connection: Connection, shown: str, join: Joins = CLEAR.join) -> None:
    """Refuse a database that is not a store of today's format, or sealed otherwise, without writing to it."""
    found = _found(connection, shown)
    if found == 0:
        raise NotAStore(f"{shown} has no perdure store; open it writable once to create it", store=shown)
    if found < FORMAT:
        raise ReadOnly(
            f"{shown} has format {found}, this perdure reads {FORMAT}; bring it there with perdure upgrade --store and "
            "its address, which backs it up first, or by opening it writable once",
            store=shown,
            found=found,
        )
    join(_mark(connection))


def mark(connection: Connection) -> str | None:
    """How a store is sealed: its mark, "" when it is not, None when there is no store yet. A schema that is something
    else counts as not sealed: whoever opens it will be told what it is.
    """
    ours, taken = ask(connection, Q["schema"]).fetchone()
    if not taken:
        return None
    try:
        return _mark(connection) if ours else ""
    except psycopg.errors.UndefinedColumn:
        return ""


def _mark(connection: Connection) -> str:
    """The mark of how a store is sealed; one without a mark is not."""
    found = ask(connection, Q["setting"], (SEAL,)).fetchone()
    return "" if found is None else str(found[0])


def _found(connection: Connection, shown: str) -> int:
    """The format that is there; 0 when there is none yet."""
    ours, taken = ask(connection, Q["schema"]).fetchone()
    if not taken:
        return 0
    try:
        row = ask(connection, Q["format"]).fetchone() if ours else None
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction):
        row = None
    if row is None or not row[0].isdecimal():
        raise NotAStore(f"the schema perdure of {shown} is something else; choose another database", store=shown)
    found = int(row[0])
    if found > FORMAT:
        raise NewerStore(
            f"{shown} has format {found}, this perdure reads up to {FORMAT}; upgrade perdure to open it",
            store=shown,
            found=found,
            supported=FORMAT,
        )
    return found
