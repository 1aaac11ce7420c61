"""What came from one source, over all spaces of a tenant, at a server; admins alone may ask for that there."""

from typing import Final

from perdure.core.memory.sourcing import By
from perdure.edge import given
from perdure.edge.client.transport import Transport
from perdure.edge.sourcing import AsyncMemorySource
from perdure.services.sourcing import Touched

SOURCES: Final = "/v1/memory/sources"


class RemoteMemorySource(AsyncMemorySource):
    """Whatever comes from one source in every space of the tenant."""

    def __init__(self, transport: Transport, by: By) -> None:
        self._transport = transport
        self._by = by

    async def report(self) -> Touched:
        """How many memories of which spaces come from it; nothing is touched."""
        return await self._sent("report")

    async def quarantine(self, reason: str = "") -> Touched:
        """Keep all that comes from it from being found or shown. What it had superseded counts again."""
        return await self._sent("quarantine", given.text_of(reason, "reason"))

    async def release(self) -> Touched:
        """Bring back what was quarantined by this source, as it was before."""
        return await self._sent("release")

    async def erase(self, reason: str = "") -> Touched:
        """Take all that comes from it out of every space's log, for good."""
        return await self._sent("erase", given.text_of(reason, "reason"))

    async def _sent(self, action: str, reason: str = "") -> Touched:
        """An answer that was lost is asked for again: what was done is not done twice, and then counts as nothing."""
        source, value = self._by.named
        found = await self._transport.send("POST", f"{SOURCES}/{action}", {source: value, "reason": reason}, again=True)
        return Touched(
            action=found["action"], source=source, value=value, spaces=found["spaces"], restored=found["restored"]
        )
