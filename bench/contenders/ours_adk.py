"""perdure's session service for Google's ADK: the calls of `adk_service`, another store."""

from __future__ import annotations

from typing import Any

from bench.clock import Sample, repeat
from bench.contenders import adk_service
from bench.contenders.adapting import Adapted
from bench.worker import Differs
from perdure.adapters.google_adk import APP, USER, PerdureSessionService


class Contender(Adapted, adk_service.Contender):
    commits = "4"

    def _connect(self) -> None:
        self._perdure = self._store()
        self._service = PerdureSessionService(self._perdure)

    async def _populate(self, sessions: int) -> None:
        await self._create(self._service, sessions)

    def page(self, limit: int, times: int) -> list[Sample]:
        """The first page of the same sessions, from the store itself: ADK's interface has no pages."""
        wanted = {APP: adk_service.LISTED["app_name"], USER: adk_service.LISTED["user_id"]}

        def check(page: Any) -> None:
            if len(page.items) != limit:
                raise Differs(f"{len(page.items)} sessions on a page of {limit}")

        return repeat(lambda: self._perdure.find(metadata=wanted, limit=limit), times, after=check)

    def close(self) -> None:
        self._perdure.close()
