"""perdure on PostgreSQL: the same appends as on SQLite, in the clear."""

from __future__ import annotations

from pathlib import Path

import perdure
from bench import postgres
from bench.contenders import ours


class Contender(ours.Contender):
    def open(self, folder: Path) -> None:
        self._path = postgres.database(folder.name)
        self._db = perdure.open(self._path, seal=False)
        self._session = self._db.create(title="bench")
        self._versions = []

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        return {"version": perdure.__version__, "commits per turn": "1"}
