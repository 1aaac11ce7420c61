"""The same as `ours_openai`, in the clear."""

from __future__ import annotations

from bench.contenders import ours_openai


class Contender(ours_openai.Contender):
    seal = False
