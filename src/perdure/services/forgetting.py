"""Forgetting: what is to go is taken out of the logs of spaces for good, with whatever else says it.

What goes is found on a space as it stands when that is written, and looked for again afterwards: nobody who changes it
meanwhile keeps it, nor what gave way to it, from what becomes of them. Over several spaces, what was made of something
goes before that thing itself, which alone leads to it. So every step may be repeated, and a call finishes what another
left undone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from perdure.core.errors import VersionConflict
from perdure.core.memory import tracing
from perdure.core.memory.parts import Space
from perdure.core.memory.shelf import Shelf
from perdure.core.session.event import Payload
from perdure.services.erasure import Erasure
from perdure.services.reembedding import Reembedding
from perdure.services.shelves import Shelves

RETRIES: Final = 100
"""How often what is forgotten is looked for again, because somebody went on changing it."""


class Forgetting:
    """What memories are forgotten by: one by one, or whatever is meant in every space of a tenant."""

    def __init__(self, shelves: Shelves, erasure: Erasure, reembedding: Reembedding) -> None:
        self._shelves = shelves
        self._erasure = erasure
        self._reembedding = reembedding

    async def forget(self, space: Space, ids: Iterable[str], reason: str = "forgotten") -> int:
        """Take the content of these out of the log for good, with all that gave way to them and what says the same; how
        many memories that was. What had given way to those alone counts again.
        """
        asked = dict.fromkeys(ids)

        def found(shelf: Shelf) -> set[str]:
            return tracing.together(shelf, [id for id in asked if shelf.versions_of(id)])

        return len(await self._let_go(space, found, reason))

    async def _let_go(
        self, space: Space, found: Callable[[Shelf], set[str]], reason: str, later: Collection[str] = ()
    ) -> set[str]:
        """Forget what is found, as the space stands then; also what is found because somebody went on changing it, but
        for what is to go later. What had given way to that alone counts again.
        """
        gone, ahead = set[str](), set[str]()

        def decide(shelf: Shelf) -> Sequence[Payload]:
            nonlocal ahead
            ahead = found(shelf).difference(later)
            return tracing.freed(shelf, gone | ahead, reason, later)

        for _ in range(RETRIES):
            await self._shelves.write(space, decide)
            if not ahead:
                return gone
            gone |= ahead
            await self.redact(space, ahead, reason)
        raise VersionConflict(f"the memories of {space} keep changing; try again", space=str(space))

    async def redact(self, space: Space, ids: Iterable[str], reason: str) -> None:
        """Take exactly these, memories or proposals, out of the log of a space, and every vector that their words went
        into; those of others are made again, without them.
        """
        wanted, beside = dict.fromkeys(ids), set[str]()
        for _ in range(RETRIES):
            async with self._shelves.reading(space) as known:
                versions = {version for id in wanted for version in known.shelf.versions_of(id)}
                beside |= known.shelf.embedded_in(versions)
            if not versions:  # nor was any of it written again meanwhile
                await self._reembedding.again(space, sorted(beside - wanted.keys()))
                return
            await self._erasure.redact(known.session, versions, reason)
        raise VersionConflict(f"the memories of {space} keep changing; try again", space=str(space))

    async def forget_source(self, session: str, reason: str = "its source was erased") -> dict[Space, int]:
        """Forget, in every space, what was learnt from a session, what consolidation made of that, and what was
        proposed and promoted of it; how many memories and proposals that were. What only those had superseded counts
        again.
        """
        return await self.forget_all(lambda one: one.session == session, reason)

    async def forget_all(
        self,
        meant: tracing.Meant,
        reason: str,
        *,
        ending: Collection[Space] = (),
        whole: Collection[Space] = (),
    ) -> dict[Space, int]:
        """Forget what is meant in every space, and whatever else says the same. Nothing is taken out of those that are
        `ending`: whoever asks erases their logs after this, which are read here; of `whole` ones all is meant.
        """
        taken = dict[Space, set[str]]()
        for _ in range(RETRIES):
            traced = await self.traced(meant, whole, taken)
            every = set[str]().union(*taken.values(), *traced.values())
            left = {space: ids for space, ids in traced.items() if space not in ending}
            if not left:
                break
            for space, ids in tracing.in_order(left, await self._links(left)):
                later = left[space] - ids - taken.get(space, set())
                found = partial(tracing.still_meant, asked=meant, gone=every, ids=ids)
                taken.setdefault(space, set()).update(await self._let_go(space, found, reason, later))
        else:
            raise VersionConflict("what is to be forgotten keeps growing; try again")
        for space in await self._shelves.spaces():
            if space not in ending:
                await self._unname(space, meant, reason)
        return {space: len(ids) for space, ids in taken.items()}

    async def _links(self, found: dict[Space, set[str]]) -> list[tuple[str, str]]:
        """What was made of what, of all that was found."""
        links: list[tuple[str, str]] = []
        for space, ids in found.items():
            async with self._shelves.reading(space) as known:
                links += tracing.links(known.shelf, ids)
        return links

    async def _unname(self, space: Space, meant: tracing.Meant, reason: str) -> None:
        """Take out of the log what was said of memories that stay, and names somebody who is meant."""
        async with self._shelves.reading(space) as known:
            if not tracing.naming(known.shelf, meant):
                return
        versions = set[int]()

        def decide(shelf: Shelf) -> Sequence[Payload]:
            said = tracing.naming(shelf, meant)
            versions.update(said)
            return tracing.told_again(shelf, said.values())

        known, _ = await self._shelves.write(space, decide)
        await self._erasure.redact(known.session, versions, reason)

    async def traced(
        self,
        meant: tracing.Meant,
        whole: Collection[Space] = (),
        taken: Mapping[Space, set[str]] = MappingProxyType({}),
    ) -> dict[Space, set[str]]:
        """What is meant in every space, memories and proposals, and whatever else says the same: all there is of
        `whole` ones, and what came back, or was made meanwhile, of what is `taken` out already.
        """
        spaces, gone = await self._shelves.spaces(), set[str]().union(*taken.values())
        before = gone
        found: dict[Space, set[str]] = {space: set() for space in spaces}
        while True:  # what is promoted from one space to another is found in the next round
            for space in spaces:
                async with self._shelves.reading(space) as known:
                    found[space] |= tracing.still_meant(known.shelf, meant, gone, taken.get(space, set()))
                    if space in whole:
                        found[space] |= tracing.everything(known.shelf)
            told = before.union(*found.values())
            if told == gone:
                break
            gone = told
        return {space: ids for space, ids in found.items() if ids}
