"""perdure's session service for Google's ADK: the calls of `adk_service`, another store."""

from __future__ import annotations

from typing import Any

from bench.clock import Sample, repeat
from bench.contenders import adk_service
from bench.contenders.adapting import Adapted
from bench.worker import Differs
from perdure.adapters.google_adk import PerdureSessionService


class Contender(Adapted, adk_service.Contender):
    commits = "4"

    def _connect(self) -> None:
        self._perdure = self._store()
        self._service = PerdureSessionService(self._perdure)

    async def _populate(self, sessions: int) -> None:
        await self._create(self._service, sessions)

    def page(self, limit: int, times: int) -> list[Sample]:
        """The first page of the same sessions, which ADK's own interface cannot ask for."""

        def check(page: Any) -> None:
            if len(page.sessions) != limit or any(not session.state for session in page.sessions):
                raise Differs(f"{len(page.sessions)} sessions on a page of {limit}, or one without its state")

        def ask() -> Any:
            return self._loop.run_until_complete(self._service.list_page(**adk_service.LISTED, limit=limit))

        return repeat(ask, times, after=check)

    def close(self) -> None:
        self._perdure.close()
