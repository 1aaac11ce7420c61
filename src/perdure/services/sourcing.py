"""What came from one source, over all spaces of a tenant: taken out of use, brought back, or erased.

Along go what consolidation made of it and what was promoted of it. Every step may be repeated: what was done by a call
that was cut short is not done again.
"""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from perdure.core.errors import VersionConflict
from perdure.core.memory import plans
from perdure.core.memory.parts import Space, space_of
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.sourcing import QUARANTINED, By, Put, quarantining
from perdure.core.memory.tracing import brought
from perdure.core.session.event import Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.memories import MemoryMoved
from perdure.ports.store import Head
from perdure.services.erasure import Erasure
from perdure.services.memories import Memories
from perdure.services.shelves import Decide

ERASED = "its source was erased"


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: to how many memories of which spaces. `restored` had been superseded by what was taken out of
    use, and count again.
    """

    action: str
    source: str
    value: str
    spaces: dict[str, int] = {}
    restored: int = 0

    @property
    def memories(self) -> int:
        """How many memories, and of what is erased also proposals, it concerns."""
        return sum(self.spaces.values())


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was erased: branches that were given a copy of its log first, and what was learnt from it,
    memories and proposals, that went along.
    """

    branches: int
    memories: int


class Sourcing:
    """Quarantine, release and erasure by source."""

    def __init__(self, memories: Memories, erasure: Erasure) -> None:
        self._memories = memories
        self._shelves = memories.shelves
        self._erasure = erasure

    async def report(self, by: By) -> Touched:
        """What comes from a source, without touching it."""
        found = await self._memories.forgetting.traced(by.meant())
        return _touched("report", by, {space: len(ids) for space, ids in found.items()})

    async def quarantine(self, by: By, reason: str = "") -> Touched:
        """Take what comes from a source out of use: nothing of it is found or shown any more. What it had superseded
        counts again.
        """
        found, counts, restored = await self._memories.forgetting.traced(by.meant()), dict[Space, int](), 0
        for space, ids in found.items():
            moved = await self._moved(
                space,
                lambda shelf, ids=ids: quarantining(shelf, ids, by.mark, reason or QUARANTINED),  # type: ignore[misc]
            )
            own = sum(one.id in ids for one in moved)
            restored += len(moved) - own
            if own:
                counts[space] = own
        return _touched("quarantine", by, counts, restored)

    async def release(self, by: By) -> Touched:
        """Bring back what was quarantined by its source, as it was before. `QuotaReached`, and nothing is changed, when
        more would come back to a space than its plan has room for.
        """
        counts, quarantined = dict[Space, int](), dict[Space, Put]()
        for space in await self._shelves.spaces():
            if put := await self._put(space, by):
                quarantined[space] = put
                _released((await self._shelves.look(space)).shelf, space, put)
        for space, put in quarantined.items():
            if moved := await self._moved(space, partial(_released, space=space, put=put)):
                counts[space] = len(moved)
        return _touched("release", by, counts)

    async def erase(self, by: By, reason: str = "") -> Touched:
        """Take what comes from a source out of every space's log, for good."""
        return _touched("erase", by, await self._memories.forgetting.forget_all(by.meant(), reason or ERASED))

    async def erase_session(self, session: SessionId, expected: int | None = None) -> Gone:
        """Remove a session for good, and before that what was learnt from it; with the log of a space, what was
        promoted out of it. `VersionConflict` if it is not at the version `expected`.
        """
        row = (await self._shelves.sessions.log.head(session)).row
        if expected not in (None, row.version):
            told = f"session {session} is at version {row.version}, not {expected}; look at it before erasing it"
            raise VersionConflict(told, session=session, version=row.version)
        space = space_of(row.tenant, session, row.title)
        if space is None:
            forgotten = await self._memories.forgetting.forget_source(session, ERASED)
        else:
            forgotten = await self._memories.forgetting.forget_all(
                lambda one: one.session == session or one.origin == str(space), ERASED, ending=(space,), whole=(space,)
            )
        return Gone(branches=await self._erasure.erase(session, expected), memories=sum(forgotten.values()))

    async def _moved(self, space: Space, decide: Decide) -> list[MemoryMoved]:
        _, outcome = await self._shelves.write(space, decide)
        return [event.data for event in outcome.events if isinstance(event.data, MemoryMoved)]

    async def _put(self, space: Space, by: By) -> Put:
        """What the log of a space tells of what was done because of a source."""
        log = self._shelves.sessions.log

        async def read(head: Head) -> Put:
            put = Put(by.mark)
            async with aclosing(log.pages(head, head.anchor_version)) as pages:
                async for page in pages:
                    put.take(page)
            return put

        return await log.steadily(self._shelves.session_of(space), read)


def _released(shelf: Shelf, space: Space, put: Put) -> Sequence[Payload]:
    """What brings back what was quarantined, if there is room for it."""
    back = put.releasing(shelf)
    plans.must_hold_again(plans.plan_of(shelf.plan), shelf.count(), brought(back), str(space))
    return back


def _touched(action: str, by: By, counts: dict[Space, int], restored: int = 0) -> Touched:
    source, value = by.named
    spaces = {str(space): count for space, count in counts.items()}
    return Touched(action=action, source=source, value=value, spaces=spaces, restored=restored)
