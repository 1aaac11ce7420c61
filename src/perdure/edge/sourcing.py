"""What came from one source, over all spaces of memories, as callers hold it: async and blocking."""

from typing import TYPE_CHECKING, Any

from perdure.compose import Services
from perdure.core.memory.sourcing import By
from perdure.edge import given
from perdure.edge.driving import Blocking, blocking

if TYPE_CHECKING:
    from perdure.services.sourcing import Touched


def by_of(session: Any, writer: Any, uri: Any) -> By:
    """The one source that is named: a session by its handle or id, a writer, or an address; else `Invalid`."""
    named = {"session": getattr(session, "id", session), "writer": writer, "uri": uri}
    by = By(**{name: given.text_of(value, name) for name, value in named.items() if value is not None})
    by.named  # noqa: B018 - two sources, or none, are told before anything is done
    return by


class AsyncMemorySource:
    """Whatever was learnt from a session, written down by somebody, or taken from an address, in every space, with what
    was made and promoted of it.
    """

    def __init__(self, services: Services, by: By) -> None:
        self._services = services
        self._by = by

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'='.join(self._by.named)})"

    async def report(self) -> "Touched":
        """How many memories of which spaces come from it; nothing is touched."""
        return await self._services.sourcing.report(self._by)

    async def quarantine(self, reason: str = "") -> "Touched":
        """Keep all that comes from it from being found or shown. What it had superseded counts again."""
        return await self._services.sourcing.quarantine(self._by, given.text_of(reason, "reason"))

    async def release(self) -> "Touched":
        """Bring back what was quarantined by this source, as it was before."""
        return await self._services.sourcing.release(self._by)

    async def erase(self, reason: str = "") -> "Touched":
        """Take all that comes from it out of every space's log, for good."""
        return await self._services.sourcing.erase(self._by, given.text_of(reason, "reason"))


class MemorySource(Blocking):
    """Whatever comes from one source in every space, for blocking callers."""

    _behind: AsyncMemorySource

    def __repr__(self) -> str:
        return f"MemorySource({'='.join(self._behind._by.named)})"

    report = blocking(AsyncMemorySource.report)
    quarantine = blocking(AsyncMemorySource.quarantine)
    release = blocking(AsyncMemorySource.release)
    erase = blocking(AsyncMemorySource.erase)
