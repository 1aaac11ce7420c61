"""Memories kept, found, changed and forgotten, in spaces that are logs of their own."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, MemoryRefused, NotFound, WorldError
from perdure.core.memory import importance, plans
from perdure.core.memory.arriving import Batch, Others, arrived, more
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, Space, Status, Trust
from perdure.core.memory.requests import (
    MAX_BATCH,
    Changing,
    Keeping,
    Seeking,
    kept,
    must_be_live,
    must_change,
    must_keep,
    must_seek,
    sought,
)
from perdure.core.memory.revising import changes, is_another, moved_to, revised
from perdure.core.memory.shelf import Shelf
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoriesUsed, MemoryKept, MemoryMoved, MemoryPlanned
from perdure.ports.memory import Found
from perdure.services.erasure import Erasure
from perdure.services.forgetting import Forgetting
from perdure.services.reembedding import Reembedding
from perdure.services.sessions import Sessions
from perdure.services.shelves import Shelves

MANY: Final = 5_000
"""Memories above which a search is made beside the event loop."""
Flags = Callable[[str], tuple[str, ...]]
"""What is suspicious about a text."""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was found, how well it fits, how much it counts, how old it is, and who should have had a say."""

    memory: Memory
    score: float
    importance: float
    age: str
    space: str
    signals: dict[str, float] = {}
    lacking: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a space's memories; `next` is where the others begin, empty after the last."""

    items: tuple[Memory, ...]
    next: str = ""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What a space holds and was asked."""

    space: str
    plan: str
    counts: dict[str, int]
    types: dict[str, int]
    queries_today: int
    missing: int
    embedder: str
    embedded: int
    """How many memories, whatever their status, have vectors of that embedder."""
    runs: int
    proposals: int
    version: int


class Memories:
    """What edges call."""

    def __init__(self, shelves: Shelves, erasure: Erasure, flags: Flags) -> None:
        self.shelves = shelves
        self.reembedding = Reembedding(shelves)
        self.forgetting = Forgetting(shelves, erasure, self.reembedding)
        self._sessions: Sessions = shelves.sessions
        self._flags = flags

    # ── keeping ──

    async def keep(
        self,
        space: Space,
        asked: Sequence[Keeping],
        *,
        agent: str = "",
        key: str | None = None,
        owner: str | None = None,
    ) -> tuple[Memory, ...]:
        """Keep these, all or none, in this order. The same key keeps them once. A space that begins with them is the
        owner's.
        """
        if not 1 <= len(asked) <= MAX_BATCH:
            raise Invalid(f"keep 1 to {MAX_BATCH} memories at once, not {len(asked)}; send several batches")
        for one in asked:
            must_keep(one)
        writer, named = self._sessions.identity.who, [self._sessions.fresh_id() for _ in asked]
        fresh = [
            kept(one, id, agent=agent or space.name, writer=writer, flags=self._flags(one.content))
            for one, id in zip(asked, named, strict=True)
        ]

        def decide(shelf: Shelf) -> Sequence[Payload]:
            taken = {old for one in asked for old in one.supersedes}
            for old in taken:
                _must_have(shelf, space, old)
            live = sum(shelf.memories[old].status is Status.LIVE for old in taken)
            plans.must_hold(plans.plan_of(shelf.plan), shelf.count(), len(fresh) - live, str(space))
            return fresh

        what = [str(space), agent, msgspec.to_builtins(asked)]
        known, outcome = await self.shelves.write(space, decide, owner=owner, key=key, asked=what if key else None)
        if outcome.repeated:
            versions = range(outcome.first, outcome.version + 1)
            there = tuple(memory for memory in known.shelf if memory.version in versions)
            if not there:
                raise MemoryRefused(
                    f"what was kept in {space} with this key was forgotten; to keep it again, choose a fresh key",
                    reason="forgotten",
                )
            return there
        return tuple(known.shelf.memories[id] for id in named)

    async def bring(
        self, space: Space, batch: Batch, others: Others, *, agent: str = "", owner: str | None = None
    ) -> bool:
        """Keep what comes from elsewhere as it stood there, all or none. None, and False, if others have brought some
        of it meanwhile.
        """
        if not 1 <= len(batch.coming) <= MAX_BATCH:
            raise Invalid(f"bring 1 to {MAX_BATCH} memories at once, not {len(batch.coming)}; send several batches")
        writer = self._sessions.identity.who
        fresh = list[MemoryKept]()
        for one in batch.coming:
            must_keep(one.asked, names=None)
            flags = self._flags(one.asked.content)
            fresh.append(kept(one.asked, one.id, agent=agent or space.name, writer=writer, flags=flags))

        def decide(shelf: Shelf) -> Sequence[Payload]:
            if others.have(batch, shelf.memories):
                return []
            if (count := more(batch, shelf)) > 0:
                plans.must_hold(plans.plan_of(shelf.plan), shelf.count(), count, str(space))
            return [*arrived(batch, fresh, shelf)]

        return bool((await self.shelves.write(space, decide, owner=owner))[1].events)

    def fresh_id(self) -> str:
        """An id for a memory that comes."""
        return self._sessions.fresh_id()

    async def update(
        self, space: Space, id: str, asked: Changing, *, agent: str = "", trust: Trust | None = None
    ) -> Memory:
        """Change a memory. Other content makes another memory, which takes its place; what it was stays known. Other
        words are trusted no more than whoever changes them.
        """
        must_change(asked)
        fresh, writer = self._sessions.fresh_id(), self._sessions.identity.who

        def decide(shelf: Shelf) -> Sequence[Payload]:
            memory = _must_have(shelf, space, id)
            must_be_live(memory)
            if is_another(memory, asked, writer):
                flags = self._flags(asked.content or memory.content)
                who = agent or memory.agent
                return [revised(memory, asked, fresh, agent=who, writer=writer, flags=flags, trust=trust)]
            return changes(memory, asked)

        known, _ = await self.shelves.write(space, decide)
        return known.shelf.memories.get(fresh) or known.shelf.memories[id]

    async def move(self, space: Space, ids: Iterable[str], status: Status, reason: str = "") -> int:
        """Archive, quarantine or bring back; how many were moved."""
        wanted = dict.fromkeys(ids)

        def decide(shelf: Shelf) -> Sequence[Payload]:
            found = [_must_have(shelf, space, id) for id in wanted]
            moved = [(one, moved_to(one, status, shelf.memories)) for one in found if one.status is not status]
            back = sum(to is Status.LIVE for _, to in moved)
            if back:
                plans.must_hold(plans.plan_of(shelf.plan), shelf.count(), back, str(space))
            return [
                MemoryMoved(id=one.id, was=one.status, status=to, reason=reason, by=one.superseded_by)
                for one, to in moved
            ]

        _, outcome = await self.shelves.write(space, decide)
        return sum(isinstance(event.data, MemoryMoved) for event in outcome.events)

    async def forget(self, space: Space, ids: Iterable[str], reason: str = "forgotten") -> int:
        """Take the content of these out of the log for good, with all that gave way to them and what says the same; how
        many memories that was. What had given way to those alone counts again.
        """
        return await self.forgetting.forget(space, ids, reason)

    async def plan(self, space: Space, name: str, *, owner: str | None = None) -> None:
        """Put a space on a plan."""
        plans.plan_of(name)
        payload = MemoryPlanned(plan=name, by=self._sessions.identity.who)
        await self.shelves.write(space, lambda shelf: [] if shelf.plan == name else [payload], owner=owner)

    # ── finding ──

    async def search(self, space: Space, asked: Seeking, *, metered: bool = True) -> tuple[Scored, ...]:
        """The memories that fit best, best first. Unless `metered`, answered as queries are, but not counted as one."""
        must_seek(asked)
        now = self._sessions.ambient.now()
        if not metered:
            shelf = (await self.shelves.look(space)).shelf
            plans.must_answer(plans.plan_of(shelf.plan), shelf.queries, str(space), now)
        found = await self._found(space, asked, now, counted=not metered)
        if found is None:
            await self._must_answer(space, now)
            found = await self._found(space, asked, now, counted=True)
        return found or ()

    async def _found(self, space: Space, asked: Seeking, now: int, *, counted: bool) -> tuple[Scored, ...] | None:
        """What a search finds; None where the query must be counted first, because the plan allows only so many."""
        async with self.shelves.reading(space) as known:
            memories, index = known.shelf.memories, known.index
            fits = sought(asked, now, known.shelf.otherwise)
            if not counted:
                if plans.plan_of(known.shelf.plan).queries is not None:
                    return None
                known.uses.ask(str(now // DAY))

            def find() -> list[Found]:
                return index.search(
                    asked.query,
                    k=asked.top_k,
                    among=lambda id: (memory := memories.get(id)) is not None and fits(memory),
                    prior=lambda id: importance.weight(memories[id], now),
                    now=now,
                )

            found = await self.shelves.asked(find, long=len(memories) > MANY)
            scored = tuple(_scored(memories[one.id], one, now, space) for one in found)
            if asked.count:
                for one in scored:
                    known.uses.note(one.memory.id, found=1)
        await self.shelves.note(known, now)
        return scored

    async def _must_answer(self, space: Space, now: int) -> None:
        """Count a query where that makes a difference: in the log, so that all nodes together answer no more often than
        the plan allows. While nothing can be written, questions are answered, and counted here.
        """
        day = str(now // DAY)

        def decide(shelf: Shelf) -> Sequence[Payload]:
            if not shelf.version:  # asking begins no space
                return []
            plans.must_answer(plans.plan_of(shelf.plan), shelf.queries, str(space), now)
            return [MemoriesUsed(queries={day: 1})]

        try:
            await self.shelves.write(space, decide)
        except WorldError:
            async with self.shelves.reading(space) as known:
                known.uses.ask(day)

    async def get(self, space: Space, id: str) -> Memory:
        """One memory, whatever its status."""
        return _must_have((await self.shelves.look(space)).shelf, space, id)

    async def list(
        self,
        space: Space,
        *,
        statuses: Sequence[Status] = (Status.LIVE,),
        types: Sequence[str] = (),
        session: str = "",
        limit: int = 100,
        after: str = "",
    ) -> Page:
        """Memories in the order in which they were kept, page by page."""
        if not 1 <= limit <= MAX_BATCH:
            raise Invalid(f"limit is from 1 to {MAX_BATCH}, not {limit}")
        shelf = (await self.shelves.look(space)).shelf
        since = shelf.memories[after].version if after in shelf.memories else _cursor(after)
        found: list[Memory] = []
        for memory in shelf:
            if memory.version <= since or memory.status not in statuses:
                continue
            if (types and memory.type not in types) or (session and memory.source.session != session):
                continue
            if len(found) == limit:
                return Page(items=tuple(found), next=str(found[-1].version))
            found.append(memory)
        return Page(items=tuple(found))

    async def history(self, space: Space, id: str) -> tuple[Memory, ...]:
        """Every form that a memory has had, oldest first: those it superseded, itself, and those that superseded it."""
        memories = (await self.shelves.look(space)).shelf.memories
        if id not in memories:
            raise _missing(space, id)
        found, ahead = dict[str, Memory](), [id]
        while ahead:
            one = memories.get(ahead.pop())
            if one is not None and one.id not in found:
                found[one.id] = one
                ahead += [*one.supersedes, one.superseded_by]
        return tuple(sorted(found.values(), key=lambda memory: memory.version))

    async def stats(self, space: Space) -> Stats:
        """What a space holds and was asked."""
        known, now = await self.shelves.look(space), self._sessions.ambient.now()
        shelf, day, types = known.shelf, str(now // DAY), dict[str, int]()
        for memory in shelf:
            if memory.status is Status.LIVE:
                types[memory.type.value] = types.get(memory.type.value, 0) + 1
        embedder = self.shelves.embedder()
        return Stats(
            space=str(space),
            plan=shelf.plan,
            counts={status.value: shelf.count(status) for status in Status if shelf.count(status)},
            types=types,
            queries_today=shelf.queries.get(day, 0) + known.uses.queries.get(day, 0),
            missing=shelf.missing + known.uses.missing,
            embedder=embedder.name if embedder is not None else "",
            embedded=sum(map(shelf.has_vectors, shelf.memories)),
            runs=len(shelf.runs),
            proposals=sum(proposal.accepted is None for proposal in shelf.proposals.values()),
            version=shelf.version,
        )

    async def exported(self, space: Space) -> AsyncIterator[dict[str, Any]]:
        """Every memory as plain data."""
        for memory in [*(await self.shelves.look(space)).shelf]:
            yield msgspec.to_builtins(memory)

    async def close(self) -> None:
        """Write down what was counted."""
        await self.shelves.close()


def _must_have(shelf: Shelf, space: Space, id: str) -> Memory:
    found = shelf.memories.get(id)
    if found is None:
        raise _missing(space, id)
    return found


def _missing(space: Space, id: str) -> NotFound:
    return NotFound(f"there is no memory {id[:80]!r} in {space}; list or search shows those there are", memory=id[:80])


def _cursor(after: str) -> int:
    if not after:
        return 0
    if not after.isdecimal() or len(after) > 18:
        raise Invalid("after is the `next` of the page before, or a memory's id")
    return int(after)


def _scored(memory: Memory, found: Found, now: int, space: Space) -> Scored:
    return Scored(
        memory=memory,
        score=found.score,
        importance=importance.composite(memory, now),
        age=importance.age(memory, now),
        space=str(space),
        signals=found.signals,
        lacking=found.lacking,
    )
