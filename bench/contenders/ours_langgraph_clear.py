"""The same as `ours_langgraph`, in the clear."""

from __future__ import annotations

from bench.contenders import ours_langgraph


class Contender(ours_langgraph.Contender):
    seal = False
