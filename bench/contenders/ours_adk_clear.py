"""The same as `ours_adk`, in the clear."""

from __future__ import annotations

from bench.contenders import ours_adk


class Contender(ours_adk.Contender):
    seal = False
