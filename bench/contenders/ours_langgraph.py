"""perdure's saver for LangGraph: the calls of `langgraph_saver`, another store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import perdure
from bench.contenders import langgraph_saver
from bench.contenders.adapting import Adapted
from perdure.adapters.langgraph import PerdureSaver


class Contender(Adapted, langgraph_saver.Contender):
    commits = "2"

    def _connect(self) -> None:
        self._perdure = self._store()
        self._saver = PerdureSaver(self._perdure)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        async with await perdure.aopen(self._place, seal=self.seal) as db:
            yield PerdureSaver(db)

    def close(self) -> None:
        self._perdure.close()
