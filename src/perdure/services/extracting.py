"""Learning from sessions: what they teach becomes memories of a space, each once.

Rules find it, or the cheap model where there is one that is allowed to cost what it may cost; whatever goes wrong with
the model, the rules decide. One append keeps all of it and says how far the session was looked through.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from perdure.core.errors import (
    Invalid,
    NotFound,
    PromptTooLong,
    ProviderFailed,
    ProviderRefused,
    QuotaReached,
    UnknownModel,
    VersionConflict,
)
from perdure.core.memory import gates, hearing, learning, plans
from perdure.core.memory.extracting import Candidate, Lessons, Refused, Spoken, lessons, recalled_in, spoken
from perdure.core.memory.parts import LETHE, TAG, TRUST, Memory, Space
from perdure.core.memory.promoting import space_named
from perdure.core.memory.requests import kept
from perdure.core.memory.shelf import Proposal, Shelf
from perdure.core.memory.suspecting import flags
from perdure.core.session.event import Event, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved
from perdure.core.session.memories import MemoriesExtracted, MemoryKept
from perdure.core.session.origin import Config, Origin
from perdure.core.talk import prices
from perdure.core.talk.prices import Prices
from perdure.ports.provider import Sending
from perdure.services.calling import Calling
from perdure.services.memories import Memories
from perdure.services.pricing import price_of
from perdure.services.vaulting import is_open, vault_for, vaults_of
from perdure.waiting import blocking

NEAR: Final = 8
"""Memories that are compared with something new."""
BUDGET: Final = 20_000
"""Micro-dollars that a model may cost for one session."""
RULES: Final = "rules"


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the memories that are kept (without ids, if it was a dry run), what was refused and why, and
    what is proposed. `by` is the rules, or the model that was asked. All up to the version `upto` has been looked at.
    """

    session: str
    space: str
    kept: tuple[Memory, ...] = ()
    refused: tuple[Refused, ...] = ()
    proposed: tuple[Proposal, ...] = ()
    upto: int = 0
    dry: bool = False
    by: str = RULES
    cost: int = 0


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked what a conversation teaches."""

    calling: Calling
    prices: Prices
    model: str = ""
    budget: int = BUDGET


class Extracting:
    """Makes memories of sessions. Blocking callers get what the rules find."""

    def __init__(self, memories: Memories, asker: Callable[[], Asker | None] = lambda: None) -> None:
        self._shelves = memories.shelves
        self._sessions = memories.shelves.sessions
        self._asker = asker

    async def extract(
        self, session: SessionId, space: Space, *, dry: bool = False, agent: str = "", owner: str | None = None
    ) -> Extracted:
        """Keep what a session teaches that the space does not know yet. Called again, it goes on from where the session
        was looked at last, and keeps nothing twice. With `dry` nothing is written.
        """
        head = await self._sessions.log.head(session)
        if TAG in head.row.tags:
            raise Invalid("what memory holds is not learnt again; extract from a session", session=session)
        async with self._shelves.reading(space) as known:
            after = known.shelf.extracted.get(session, 0)
        if after >= head.row.version:
            return Extracted(session=session, space=str(space), upto=after, dry=dry)
        events = await self._sessions.log.steadily(
            session, lambda head: self._sessions.log.events(head, head.anchor_version)
        )
        found, by, cost = await self._lessons(session, events, head.row.owner, after)
        found = await self._not_recalled(session, space, found, await self._shown(events))
        done = _Done(self, session, space, agent or space.name)
        await done.look(found)
        if dry:
            return await done.told(found, by, cost)
        return await done.written(found, by, cost, owner)

    async def moved(self, session: SessionId, moved: Moved) -> None:
        """A session has completed: learn from it if its configuration asks for that. What the plan of its space does
        not allow now can be learnt later, on demand.
        """
        del moved
        state = (await self._sessions.loader.load(session)).state
        recall = state.config.memory
        if recall is None or not recall.learn:
            return
        owner = state.origin.owner
        space = await vault_for(self._shelves, owner, recall.agent or state.origin.agent_id or owner)
        with suppress(QuotaReached, VersionConflict, NotFound):
            await self.extract(session, space, owner=owner)

    async def _lessons(
        self, session: SessionId, events: Sequence[Event], author: str, after: int
    ) -> tuple[Lessons, str, int]:
        """What the session teaches, who found it, and at what cost."""
        by_rules = lessons(session, events, author=author, after=after)
        said = [one for one in spoken(events, after) if one.by in ("user", "assistant")]
        asker = None if blocking() or not said else self._asker()
        if asker is None:
            return by_rules, RULES, 0
        by_model, model, cost = await self._asked(asker, session, said, author)
        if by_model is None:
            return by_rules, RULES, cost
        voices = {one.version for one in said}
        others = tuple(one for one in by_rules.candidates if one.steer or one.version not in voices)
        joined = msgspec.structs.replace(by_model, candidates=(*by_model.candidates, *others), upto=by_rules.upto)
        return joined, model, cost

    async def _asked(
        self, asker: Asker, session: SessionId, said: Sequence[Spoken], author: str
    ) -> tuple[Lessons | None, str, int]:
        """What a model makes of it; None when there is none, it fails, or it might cost too much."""
        calling = asker.calling
        try:
            route = calling.route(asker.model or calling.models.cheap or None)
            ask = hearing.question(said, route.candidates[0].model, author)
            found = [
                price_of(asker.prices, one, calling.models.upstreams.get(one.provider)) for one in route.candidates
            ]
        except (UnknownModel, Invalid):
            return None, "", 0
        worst = max(prices.worst(ask, price) for price in found)
        if worst > asker.budget:
            return None, "", 0
        try:
            answered = await calling.whole(route, Sending(ask=ask, key=f"extract-{session}-{said[-1].version}"))
        except (ProviderRefused, PromptTooLong):
            return None, "", 0
        except ProviderFailed:  # it may have worked on it: what it could cost counts
            return None, "", worst
        answer, candidate = answered.whole.answer, answered.candidate
        cost = prices.cost(answer.usage, found[route.candidates.index(candidate)])
        return hearing.heard(answer, said, session=session, author=author), candidate.model, cost

    async def _shown(self, events: Sequence[Event]) -> list[str]:
        """What the memories say that the session was shown, as far as they are still there."""
        found: list[str] = []
        for spelled, ids in recalled_in(events).items():
            space = space_named(spelled)
            if space is not None:
                async with self._shelves.reading(space) as known:
                    found += [known.shelf.memories[id].content for id in sorted(ids) if id in known.shelf.memories]
        return found

    async def _not_recalled(self, session: SessionId, space: Space, found: Lessons, shown: list[str]) -> Lessons:
        """The lessons without what the session was shown, or what stands in the other spaces that it is shown. A
        correction that was made although it was shown counts.
        """
        state = (await self._sessions.loader.load(session)).state
        left, refused = list[Candidate](), list(found.refused)
        spaces = [one for one in shown_from(state.config, state.origin) if one != space]
        spaces = [one for one in spaces if await is_open(self._shelves, one, state.origin.owner)]
        for candidate in found.candidates:
            content = candidate.keeping.content
            known = not candidate.steer and gates.is_recalled(content, shown)
            if known or any([gates.is_recalled(content, await self._alike(one, content)) for one in spaces]):
                refused.append(Refused(content=content, reason=gates.RECALLED, version=candidate.version))
            else:
                left.append(candidate)
        return msgspec.structs.replace(found, candidates=tuple(left), refused=tuple(refused))

    async def _alike(self, space: Space, content: str) -> list[str]:
        async with self._shelves.reading(space) as known:
            ids = [id for id, _ in await self._shelves.asked(lambda: known.index.near(content, k=NEAR))]
            return [known.shelf.memories[id].content for id in ids if id in known.shelf.memories]

    def keeps(self, candidates: Sequence[Candidate], space: Space, agent: str) -> list[MemoryKept]:
        """The events that keep these."""
        writer = self._sessions.identity.who
        return [
            kept(
                one.keeping,
                self._sessions.fresh_id(),
                agent=agent or space.name,
                writer=writer,
                flags=flags(one.keeping.content),
            )
            for one in candidates
        ]


class _Done:
    """One extraction on its way into a space."""

    def __init__(self, service: Extracting, session: SessionId, space: Space, agent: str) -> None:
        self._service = service
        self._shelves = service._shelves
        self._sessions = service._sessions
        self._session = session
        self._space = space
        self._agent = agent
        self._near: dict[str, tuple[str, ...]] = {}
        self._since = 0
        self._decided = learning.Decided()
        self._upto = 0

    async def look(self, found: Lessons) -> None:
        """Find those of the space's memories that may say the same."""
        async with self._shelves.reading(self._space) as known:
            self._since = known.shelf.version
            contents = [one.keeping.content for one in found.candidates]
            near = await self._shelves.asked(lambda: [known.index.near(content, k=NEAR) for content in contents])
        for content, close in zip(contents, near, strict=True):
            self._near[content] = tuple(id for id, _ in close)

    def _decide(self, found: Lessons, shelf: Shelf) -> learning.Decided:
        self._upto = shelf.extracted.get(self._session, 0)
        return learning.decided(
            learning.fresh(found, self._upto),
            shelf,
            self._near,
            space=str(self._space),
            by=self._sessions.identity.who,
            now=self._sessions.ambient.now(),
            name=self._sessions.fresh_id,
            since=self._since,
        )

    async def told(self, found: Lessons, by: str, cost: int) -> Extracted:
        """What would be kept."""
        async with self._shelves.reading(self._space) as known:
            decided = self._decide(found, known.shelf)
        return self._extracted(
            tuple(map(_would_be, decided.keep)), decided, found.upto, by, cost, proposed=(), dry=True
        )

    async def written(self, found: Lessons, by: str, cost: int, owner: str | None) -> Extracted:
        """Keep it."""
        named: list[str] = []

        def decide(shelf: Shelf) -> Sequence[Payload]:
            nonlocal named
            self._decided = decided = self._decide(found, shelf)
            if self._upto >= found.upto:  # somebody else has looked that far meanwhile
                self._decided, named = learning.Decided(refused=decided.refused), []
                return []
            fresh = self._service.keeps(decided.keep, self._space, self._agent)
            named = [one.id for one in fresh]
            if fresh:
                plans.must_hold(plans.plan_of(shelf.plan), shelf.count(), len(fresh), str(self._space))
            counts = {"kept": len(fresh), "refused": len(decided.refused), "proposed": len(decided.proposals)}
            model = "" if by == RULES else by
            mark = MemoriesExtracted(session=self._session, upto=found.upto, found=counts, model=model, cost=cost)
            return [*fresh, *decided.payloads, mark]

        await self._shelves.write(self._space, decide, owner=owner)
        async with self._shelves.reading(self._space) as known:
            memories = tuple(known.shelf.memories[id] for id in named if id in known.shelf.memories)
            ids = [one.id for one in self._decided.proposals]
            proposed = tuple(known.shelf.proposals[id] for id in ids if id in known.shelf.proposals)
        return self._extracted(memories, self._decided, found.upto, by, cost, proposed=proposed)

    def _extracted(
        self,
        memories: tuple[Memory, ...],
        decided: learning.Decided,
        upto: int,
        by: str,
        cost: int,
        *,
        proposed: tuple[Proposal, ...],
        dry: bool = False,
    ) -> Extracted:
        return Extracted(
            session=self._session,
            space=str(self._space),
            kept=memories,
            refused=decided.refused,
            proposed=proposed,
            upto=upto,
            dry=dry,
            by=by,
            cost=cost,
        )


def shown_from(config: Config, origin: Origin) -> list[Space]:
    """The spaces that a session is shown memories from, as far as they are open to its owner."""
    recall = config.memory
    if recall is None or not recall.enabled:
        return []
    clades = [Space("clade", name) for name in recall.clades]
    own = recall.agent or origin.agent_id or origin.owner
    vaults = vaults_of(origin.owner, own) if own else ()
    return [*vaults, *clades, *([LETHE] if recall.lethe else [])]


def _would_be(candidate: Candidate) -> Memory:
    """A memory that is not kept yet."""
    asked = candidate.keeping
    return Memory(
        id="",
        type=asked.memory_type,
        content=asked.content,
        importance=asked.importance,
        metadata=asked.metadata,
        author=asked.author,
        source=asked.source,
        trust=asked.trust or TRUST[asked.source.kind],
        subjects=asked.subjects,
        thread=asked.thread,
        valid_from=asked.valid_from,
    )
