"""perdure with every byte sealed, as a new store is by default."""

from __future__ import annotations

from bench.contenders import ours


class Contender(ours.Contender):
    seal = True
