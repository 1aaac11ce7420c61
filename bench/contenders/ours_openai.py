"""perdure's session for the OpenAI Agents SDK: the calls of `openai_session`, another store."""

from __future__ import annotations

from typing import Any

from bench.contenders import openai_session
from bench.contenders.adapting import Adapted
from perdure.adapters.openai_agents import PerdureSession


class Contender(Adapted, openai_session.Contender):
    def _connect(self) -> None:
        self._perdure = self._store()

    def _reopen(self) -> None:
        self._perdure.close()
        self._connect()

    def _made(self, name: str = "s") -> Any:
        return PerdureSession(name, self._perdure)

    def _done(self, session: Any) -> None:
        """The store stays open."""

    def close(self) -> None:
        self._perdure.close()
