"""Promotion: what one space learnt is proposed to another, judged by four gates, and reviewed.

A proposal is an event of the space that it is made to. Accepting it keeps a memory there in the same append, which
ends when its time to live is over. Taking it back archives that memory. A person reviews; without one, a proposal is
accepted only if it passes all gates, nothing about it is suspicious, and the space's owner allows that.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.errors import Invalid, MemoryRefused, NotFound
from perdure.core.memory import plans, promoting
from perdure.core.memory.parts import LETHE, Memory, MemoryType, Source, Space, Status
from perdure.core.memory.promoting import Asking, judged, passes, pending, proposing, sources_of, space_named, uri_of
from perdure.core.memory.requests import Keeping, kept
from perdure.core.memory.shelf import Proposal, Shelf
from perdure.core.memory.suspecting import flags
from perdure.core.memory.whom import about
from perdure.core.session import commands as do
from perdure.core.session.event import Payload
from perdure.core.session.ids import is_id, session_id
from perdure.core.session.memories import MemoryKept, MemoryProposed, MemoryReviewed
from perdure.core.session.quality import VerificationResult
from perdure.core.session.steering import Feedback
from perdure.services.memories import Memories
from perdure.services.shelves import Known

NEAR: Final = 8
"""Memories that are compared with what is proposed."""
AUTO: Final = "memory_auto_accept"
"""Under this name the metadata of a space's log says that proposals which pass all gates need no review."""
GATES: Final = "gates"
"""Who reviewed what needed no review."""
MICROS: Final = 1_000_000
MAX_EVIDENCE: Final = 100


class Promoting:
    """Proposals and their reviews."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._shelves = memories.shelves
        self._sessions = memories.shelves.sessions

    async def propose(
        self,
        space: Space,
        memory_id: str,
        *,
        to: Space,
        evidence: Sequence[str] = (),
        ttl: float | None = None,
    ) -> Proposal:
        """Propose a memory of one space to another, to be believed there for `ttl` seconds. Where it waits for its
        review already, it is judged anew, with the evidence and the time to live that are given now; exactly the same
        again changes nothing. `MemoryRefused` for what is not live.
        """
        if space == to:
            raise Invalid(f"the memory is in {to} already; propose it to another space", memory=memory_id)
        if len(evidence) > MAX_EVIDENCE:
            raise Invalid(f"give at most {MAX_EVIDENCE} pieces of evidence, not {len(evidence)}", limit=MAX_EVIDENCE)
        memory, sources, subjects = await self._origin(space, memory_id)
        now, id, fresh = self._sessions.ambient.now(), self._sessions.fresh_id(), self._sessions.fresh_id()
        made, who = id, self._sessions.identity.who
        asked = Asking(
            content=memory.content,
            sources=sources,
            evidence=tuple(evidence),
            confirmed=await self._confirmed(memory),
            subjects=subjects,
            expires=memory.valid_to if ttl is None else now + round(ttl * MICROS),
        )
        near, since, auto = await self._target(to, memory.content)

        def decide(shelf: Shelf) -> Sequence[Payload]:
            nonlocal made
            likely = [shelf.memories[one] for one in near if one in shelf.memories]
            told = judged(asked, [*likely, *(one for one in shelf if one.version > since)], now)
            proposed = _proposed(memory, asked, told, id=id, origin=str(space), by=who)
            waiting = pending(shelf.proposals.values(), str(space), memory.id)
            made, written = proposing(proposed, waiting, now)
            if not (auto and passes(told) and not memory.flags and not flags(memory.content)):
                return written
            _must_fit(shelf, to)
            reviewed = MemoryReviewed(id=made, accepted=True, memory=fresh, by=GATES, reason="it passed all gates")
            whole = _as_proposal(proposed) if written else shelf.proposals[made]
            return [*written, reviewed, self._accepted(whole, to, fresh)]

        known, _ = await self._shelves.write(to, decide)
        return _must_have(known.shelf, to, made)

    async def queue(self, to: Space, *, reviewed: bool = False) -> tuple[Proposal, ...]:
        """What was proposed to a space and waits for its review, oldest first; or all there ever was."""
        async with self._shelves.reading(to) as known:
            return tuple(one for one in known.shelf.proposals.values() if reviewed or one.accepted is None)

    async def review(self, to: Space, proposal_id: str, accept: bool, reason: str = "") -> Proposal:
        """Accept a proposal, which keeps it here as a memory, or reject it. The same review again changes nothing;
        another one is refused. `MemoryRefused` for what was quarantined meanwhile where it comes from.
        """
        async with self._shelves.reading(to) as known:
            proposal = _must_have(known.shelf, to, proposal_id)
        if accept and proposal.accepted is None:
            await self._must_be_sound(proposal)
        fresh, who = self._sessions.fresh_id(), self._sessions.identity.who

        def decide(shelf: Shelf) -> Sequence[Payload]:
            found = _must_have(shelf, to, proposal_id)
            if found.accepted is not None:
                if found.accepted is accept:
                    return []
                told = "accepted" if found.accepted else "rejected"
                raise Invalid(
                    f"proposal {found.id} was {told} by {found.reviewed_by}; propose it again", proposal=found.id
                )
            if not accept:
                return [MemoryReviewed(id=found.id, accepted=False, by=who, reason=reason)]
            _must_fit(shelf, to)
            reviewed = MemoryReviewed(id=found.id, accepted=True, memory=fresh, by=who, reason=reason)
            return [reviewed, self._accepted(found, to, fresh)]

        known, _ = await self._shelves.write(to, decide)
        return _must_have(known.shelf, to, proposal_id)

    async def withdraw(self, to: Space, proposal_id: str, reason: str = "its promotion was taken back") -> Proposal:
        """Take an accepted proposal back: the memory that it became is archived, and can be brought back."""
        async with self._shelves.reading(to) as known:
            proposal = _must_have(known.shelf, to, proposal_id)
        if not proposal.became:
            raise Invalid(
                f"proposal {proposal_id} became no memory; there is nothing to take back", proposal=proposal_id
            )
        await self._memories.move(to, [proposal.became], Status.ARCHIVED, reason)
        return proposal

    async def allow(self, to: Space, auto: bool) -> None:
        """Say for the owner of a space whether proposals that pass all gates are accepted without a review. Lethe,
        which is everybody's, begins with that if it is not there.
        """
        if to == LETHE:
            await self._shelves.begin(to, owner="")
        async with self._shelves.reading(to) as known:
            session, there = known.session, known.shelf.version
        if not there:
            raise NotFound(f"there is no {to} yet; keep something there first", space=str(to))
        metadata = (await self._sessions.loader.load(session)).state.origin.metadata
        if bool(metadata.get(AUTO)) is not auto:
            await self._sessions.handle(session, do.Configure(metadata={**metadata, AUTO: auto}))

    async def allows(self, to: Space) -> bool:
        """Whether such proposals need no review."""
        async with self._shelves.reading(to) as known:
            if not known.shelf.version:
                return False
        state = (await self._sessions.loader.load(self._shelves.session_of(to))).state
        return state.origin.metadata.get(AUTO) is True

    # ── what is known of it ──

    async def _origin(self, space: Space, id: str) -> tuple[Memory, frozenset[str], tuple[str, ...]]:
        """The memory that is proposed, who said it, and whom it is about."""
        memory = await self._memories.get(space, id)
        if memory.status is not Status.LIVE:
            raise MemoryRefused(
                f"memory {id} is {memory.status}; only what is live can be proposed",
                memory=id,
                reason=memory.status.value,
            )
        async with self._shelves.reading(space) as known:
            others = await self._shelves.asked(lambda: _near(known, memory.content))
            subjects = (*memory.subjects, *about(known.shelf).get(id, ()))
        return memory, sources_of(memory, [one for one in others if one.id != memory.id]), subjects

    async def _target(self, to: Space, content: str) -> tuple[list[str], int, bool]:
        """Which memories of the target may say the same, as of which version, and whether it needs no review."""
        auto = await self.allows(to)
        async with self._shelves.reading(to) as known:
            near = await self._shelves.asked(lambda: _near(known, content))
            return [one.id for one in near], known.shelf.version, auto

    async def _confirmed(self, memory: Memory) -> bool:
        """Whether a check passed, or a person approved, in the session that it comes from, after it was said."""
        if not is_id(memory.source.session):
            return False
        session = session_id(memory.source.session)
        try:
            state = (await self._sessions.loader.load(session)).state
            if not state.quality.passed and not state.steering.ratings:
                return False
            head = await self._sessions.log.head(session)
            after = max(memory.source.version, head.anchor_version)
            events = await self._sessions.log.events(head, after)
        except NotFound:
            return False
        return any(
            (isinstance(event.data, VerificationResult) and event.data.passed)
            or (isinstance(event.data, Feedback) and (event.data.rating or 0) > 0)
            for event in events
        )

    async def _must_be_sound(self, proposal: Proposal) -> None:
        """Refuse what was taken out of use where it comes from."""
        space = space_named(proposal.origin)
        if space is None:
            return
        async with self._shelves.reading(space) as known:
            memory = known.shelf.memories.get(proposal.memory)
        if memory is not None and memory.status is Status.QUARANTINED:
            told = f"memory {memory.id} of {space} is quarantined; release it first, or reject the proposal"
            raise MemoryRefused(told, memory=memory.id, reason=memory.status.value)

    def _accepted(self, proposal: Proposal, to: Space, id: str) -> MemoryKept:
        """The memory that a proposal becomes. What a space proposes to itself takes the place of what it comes from."""
        own = proposal.origin == str(to)
        asked = Keeping(
            content=proposal.content,
            memory_type=MemoryType(proposal.type),
            importance=proposal.importance,
            metadata=proposal.metadata,
            source=Source(
                kind="promotion",
                session=proposal.session,
                uri=uri_of(proposal.origin, proposal.type, proposal.memory),
            ),
            subjects=proposal.subjects,
            valid_to=proposal.expires,
            supersedes=(proposal.memory,) if own else (),
        )
        writer = self._sessions.identity.who
        return kept(asked, id, agent=to.name, writer=writer, flags=flags(proposal.content))


def _near(known: Known, content: str) -> list[Memory]:
    found = (known.shelf.memories.get(id) for id, _ in known.index.near(content, k=NEAR))
    return [memory for memory in found if memory is not None]


def _proposed(memory: Memory, asked: Asking, told: dict[str, str], *, id: str, origin: str, by: str) -> MemoryProposed:
    return MemoryProposed(
        id=id,
        origin=origin,
        memory=memory.id,
        type=memory.type.value,
        content=memory.content,
        importance=memory.importance,
        metadata=promoting.plain(memory.metadata),
        evidence=(*asked.evidence, *sorted(asked.sources)),
        gates=told,
        expires=asked.expires,
        by=by,
        session=memory.source.session,
        subjects=memory.subjects,
    )


def _as_proposal(proposed: MemoryProposed) -> Proposal:
    return Proposal(**msgspec.structs.asdict(proposed))


def _must_have(shelf: Shelf, to: Space, id: str) -> Proposal:
    found = shelf.proposals.get(id)
    if found is None:
        raise NotFound(f"there is no proposal {id[:80]!r} to {to}; its queue shows those there are", proposal=id[:80])
    return found


def _must_fit(shelf: Shelf, to: Space) -> None:
    plans.must_hold(plans.plan_of(shelf.plan), shelf.count(), 1, str(to))
