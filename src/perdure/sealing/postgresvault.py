"""A vault in a PostgreSQL database, in a schema of its own: give it another database than the store's.

What is destroyed is deleted and vacuumed away. The server's own log and its archives keep it for as long as they are
kept; where that is too long, use a vault in a file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from perdure.core.errors import Invalid, KeyMissing, NewerStore, ReadOnly, WorldError
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.vault import Entry
from perdure.sealing.sqlvault import SqlVault
from perdure.statements import Asks, named

FORMAT: Final = 1
Q: Final = named(__file__, "postgresvault.sql")


class PostgresVault(SqlVault):
    """A `Vault` behind a DSN. With `create`, its tables are made where there are none."""

    Q = Q

    def __init__(self, dsn: str, ambient: Ambient, *, create: bool = False, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self._dsn = dsn
        self._place = _place(dsn)
        with self._asking() as ask:
            if not ask.execute(Q["exists"]).fetchone()[0]:
                if not create or read_only:
                    raise KeyMissing(f"there is no vault at {self._place}; name its place with vault=")
                self._create(ask, ambient)
            self._id, found = str(self._about(ask, "id")), int(self._about(ask, "format") or 0)
        if found > FORMAT:
            raise NewerStore(
                f"the vault at {self._place} has format {found}, this perdure reads up to {FORMAT}; upgrade perdure",
                found=found,
                supported=FORMAT,
            )
        on_fork(self, Forking(PostgresVault._pause, PostgresVault._go_on, PostgresVault._forked))

    def __repr__(self) -> str:
        return f"PostgresVault({self._place})"

    @property
    def id(self) -> str:
        return self._id

    @property
    def place(self) -> str:
        return self._place

    def _create(self, ask: Any, ambient: Ambient) -> None:
        """The tables; safe to race with others."""
        ask.execute("SELECT pg_advisory_xact_lock(hashtext('perdure_keys'))")
        if not ask.execute(Q["exists"]).fetchone()[0]:
            ask.execute(Q["schema"])
            ask.execute(Q["set_about"], ("id", ambient.random(16).hex()))

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """One transaction on the connection, for this thread alone. A connection that died is made anew, once."""
        with self._lock:
            self._must_be_open()
            try:
                connection = self._connected()
                with connection.transaction():
                    yield connection
            except psycopg.Error as error:
                self._disconnect()
                said = str(error).partition("\n")[0]
                raise WorldError(f"the vault at {self._place} cannot be reached: {said}; try again") from error

    _looking = _asking

    def _connected(self) -> Any:
        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except psycopg.Error:
                self._disconnect()
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
            self._connection.execute("SET synchronous_commit = on")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """Alone among those who write, so that what is current stays so until the commit."""
        if self._read_only:
            raise ReadOnly(f"the vault at {self._place} was opened read-only; open the store writable")
        with self._asking() as ask:
            ask.execute(Q["lock"])
            yield ask

    def _entry(self, *columns: Any) -> Entry:
        return Entry(*columns)

    def _insert(self, ask: Asks, entry: Entry) -> bool:
        values = (entry.name, entry.kind, entry.master, entry.salt, entry.wrapped, entry.made_at)
        return bool(ask.execute(Q["insert"], values).rowcount)

    def _delete(self, ask: Asks, name: bytes) -> None:
        ask.execute(Q["delete"], (name,))

    def replace(self, changes: Sequence[tuple[Entry, Entry]]) -> int:
        with self._writing() as ask:
            return sum(
                ask.execute(Q["replace"], (new.master, new.salt, new.wrapped, old.name, old.master, old.salt)).rowcount
                for old, new in changes
            )

    def destroy(self, names: Sequence[bytes]) -> None:
        if not names:
            return
        self._destroy(names)
        with self._lock:
            try:
                self._connected().execute(Q["vacuum"])
            except psycopg.Error:  # it is deleted; the server vacuums by itself before long
                self._disconnect()


def _place(dsn: str) -> str:
    """Where a DSN leads, without the password in it."""
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise Invalid("the vault's DSN does not parse; write postgresql://user@host/database") from None
    return f"postgresql://{found.get('host', '')}/{found.get('dbname', '')}"
