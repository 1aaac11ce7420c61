"""A file made of any engine's portable form, to prove what is in it and then to be thrown away."""

from collections.abc import Iterable

import msgspec

from perdure.ports.backup import Facts, Rows, Tables
from perdure.stores.sqlite.backup import SqliteEngine
from perdure.stores.sqlite.connection import FORMAT


class ScratchEngine(SqliteEngine):
    """`perdure.ports.backup.Engine` for such a file. What a proof does not need of a database is not in it."""

    def load(self, facts: Facts, tables: Tables, rows: Iterable[Rows]) -> None:
        """A new file with these rows, whatever engine they come from."""
        if facts.engine == "postgres":
            from perdure.stores.postgres.replay import replayed

            tables, rows = replayed(tables, rows)
            facts = msgspec.structs.replace(facts, format=FORMAT)
        super().load(facts, tables, rows)
