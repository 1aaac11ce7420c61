"""Raw SQLite again, with the turn encoded by the standard library as most programs would."""

from __future__ import annotations

from bench.contenders import raw
from bench.corpus import Turn, compact


class Contender(raw.Contender):
    @staticmethod
    def encoded(one: Turn) -> str:
        return compact(one)
