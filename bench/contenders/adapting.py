"""What the contenders share that put a framework's calls through perdure's adapter: the store and what to say of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import apsw

import perdure
from bench import durability
from bench.corpus import Corpus


class Adapted:
    """A store as `perdure.open` makes it by default, which is sealed."""

    seal = True
    commits = "1"
    _corpus: Corpus
    _folder: Path

    @property
    def _place(self) -> str:
        return str(self._folder / "perdure.db")

    def _store(self) -> perdure.Perdure:
        return perdure.open(self._place, seal=self.seal)

    def facts(self) -> dict[str, str]:
        try:
            installed = version("perdure")
        except PackageNotFoundError:
            installed = "from source"
        twin: Any = type(self)
        place = Path(f"{self._folder}-counted")
        return {
            "version": f"perdure {installed}",
            "sqlite": apsw.sqlite_lib_version(),
            "durability": durability.counted(twin(self._corpus), place, self._corpus.turns(0, 10)),
            "commits per turn": self.commits,
        }
