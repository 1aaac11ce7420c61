"""Vectors made where the log has none of the present embedder: after another one was chosen, or something forgotten.

It goes batch by batch beside whoever reads and writes: each batch is one append, of what is still so when it is
written. What has vectors is passed over, so that a run that was cut short, or another node's, is gone on with.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final, TypeAlias

import msgspec

from perdure.core.errors import NotFound, PerdureError, ProviderDenied, ProviderDown, VersionConflict
from perdure.core.memory.parts import Space
from perdure.core.memory.shelf import Shelf
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoriesEmbedded
from perdure.ports.store import Head
from perdure.services.embedding import Planned, holds, item_of, made, planned
from perdure.services.shelves import Shelves
from perdure.waiting import aside

BATCH: Final = 256
"""Memories that are embedded at once."""
PATIENCE: Final = 100
"""Batches in a row that come to nothing, because others change what they were made of, before giving up."""
Told: TypeAlias = Callable[[int, int], None]
"""Hears how many memories have vectors, and of how many."""


class Reembedded(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories of a space were given vectors of which embedder, how many are left without, and how many there
    are. Without an embedder there is nothing to do.
    """

    space: str
    embedder: str = ""
    made: int = 0
    left: int = 0
    memories: int = 0


class Reswept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did, and where it failed and why, by space."""

    made: dict[str, int] = {}
    failed: dict[str, str] = {}


class Reembedding:
    """What edges call."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._whole: set[Space] = set()
        """Spaces that were seen to lack nothing; what is written since comes with vectors, or is noted as `unmade`."""

    async def run(self, space: Space, *, told: Told | None = None, limit: int | None = None) -> Reembedded:
        """Make the vectors that a space lacks; those of about so many memories, if there is a limit. An embedder that
        was away just now is asked again, and its error is told.
        """
        self._shelves.ask_again()
        return await self._run(space, told, limit)

    async def _run(self, space: Space, told: Told | None = None, limit: int | None = None) -> Reembedded:
        embedder = self._shelves.embedder()
        async with self._shelves.reading(space) as known:
            total, missing = len(known.shelf), lacking(known.shelf)
        if embedder is None:
            return Reembedded(space=str(space), memories=total)
        done, vain, count = 0, 0, len(missing)
        while missing and (limit is None or done < limit):
            if told is not None:
                told(total - count, total)
            plan, events = await self._made(space, missing[:BATCH])
            fresh = await self._written(space, plan, events)
            vain = 0 if fresh else vain + 1
            if vain > PATIENCE:
                raise VersionConflict(f"the memories of {space} keep changing; try again", space=str(space))
            done += fresh
            async with self._shelves.reading(space) as known:
                total, missing = len(known.shelf), lacking(known.shelf)
            if len(missing) >= count and not events:  # nothing can be made of them here, as without numpy
                break
            count = len(missing)
        if told is not None:
            told(total - count, total)
        if not missing:
            self._seen_whole(space)
        return Reembedded(space=str(space), embedder=embedder.name, made=done, left=count, memories=total)

    async def again(self, space: Space, ids: Iterable[str]) -> None:
        """Make vectors for some that have lost theirs. If it cannot be done now, a sweep does it later."""
        async with self._shelves.reading(space) as known:
            missing = [id for id in ids if id in known.shelf.memories and not known.shelf.has_vectors(id)]
        self._whole.discard(space)
        with suppress(PerdureError):
            for start in range(0, len(missing), BATCH):
                await self._written(space, *await self._made(space, missing[start : start + BATCH]))

    async def sweep(self) -> Reswept:
        """See to every space of the tenant. What fails keeps no other from its turn, but for an embedder that is away
        or denies itself: that is the same for all.
        """
        found, failed = dict[str, int](), dict[str, str]()
        spaces = await self._shelves.spaces()
        if not spaces or await aside(self._shelves.embedder) is None:
            return Reswept()
        for space in spaces:
            try:
                if await self._lacks(space):
                    found[str(space)] = (await self._run(space)).made
            except PerdureError as error:
                failed[str(space)] = str(error)
                if isinstance(error, ProviderDown | ProviderDenied):
                    break
        return Reswept(made=found, failed=failed)

    async def _made(self, space: Space, ids: Sequence[str]) -> tuple[Planned, list[MemoriesEmbedded]]:
        """Vectors of these, made while others read and write."""
        embedder = self._shelves.embedder()
        async with self._shelves.reading(space) as known:
            shelf = known.shelf
            plan = planned(shelf, [item_of(shelf.memories[id]) for id in ids if id in shelf.memories])
        if embedder is None or not plan.items:
            return plan, []
        return plan, await aside(lambda: made(plan, embedder, self._shelves.scratch()))

    async def _written(self, space: Space, plan: Planned, events: Sequence[MemoriesEmbedded]) -> int:
        """Write what still holds; of how many memories."""

        def decide(shelf: Shelf) -> Sequence[Payload]:
            return [event for event in events if holds(shelf, event, plan)]

        if not events:
            return 0
        _, outcome = await self._shelves.write(space, decide)
        return sum(len(event.data.vectors) for event in outcome.events if isinstance(event.data, MemoriesEmbedded))

    async def _lacks(self, space: Space) -> bool:
        """Whether a space lacks vectors: as it was last seen, if it is at hand; else it is read for that once."""
        known = self._shelves.known(space)
        if known is not None:
            return bool(lacking(known.shelf))
        if space in self._whole and space not in self._shelves.unmade:
            return False
        session, log = self._shelves.session_of(space), self._shelves.sessions.log
        try:
            shelf = await log.steadily(session, self._read)
        except NotFound:
            return False
        if lacking(shelf):
            return True
        self._seen_whole(space)
        return False

    def _seen_whole(self, space: Space) -> None:
        self._whole.add(space)
        self._shelves.unmade.discard(space)

    async def _read(self, head: Head) -> Shelf:
        shelf = self._shelves.shelf()
        pages = self._shelves.sessions.log.pages(head, head.anchor_version)
        async with aclosing(pages):
            async for page in pages:
                shelf.take(page)
                shelf.vectors.clear()
        return shelf


def lacking(shelf: Shelf) -> list[str]:
    """The memories that have no vectors of the shelf's embedder."""
    return [id for id in shelf.memories if not shelf.has_vectors(id)]
