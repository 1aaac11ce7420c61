"""What is made of memories: consolidation and its undoing, extraction from sessions, promotion to others."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.memory.parts import LETHE, Space, vault
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.edge import given
from perdure.edge.given import Progress
from perdure.edge.timing import CENTURY, Seconds, seconds_of

if TYPE_CHECKING:
    from perdure.core.memory.retelling import Did
    from perdure.core.memory.shelf import Proposal, Run
    from perdure.services.consolidating import Progress as Consolidated
    from perdure.services.extracting import Extracted
    from perdure.services.reembedding import Reembedded


class Refining:
    """The part of a space's handle that works on what is there. What may ask a model runs where turns do."""

    _services: Services
    _space: Space
    _owner: str | None

    async def consolidate(self, *, dry: bool = False, progress: Progress | None = None) -> "Run":
        """Bring the space into order: what says the same becomes one, what is no longer true is superseded, what was of
        use counts more, what nobody needs is archived. A run that was cut short is gone on with. With `dry` nothing is
        written, and `would` of what is returned has each step that it would take; `undo` takes a run back.
        """
        tried, told = given.flag_of(dry, "dry"), given.progress_of(progress)
        return await self._consolidate(tried, told)

    async def reembed(self, *, progress: Progress | None = None) -> "Reembedded":
        """Make the vectors that the present embedder has not made yet, as after another one was chosen. What was cut
        short is gone on with; meanwhile everything is found by its words.
        """
        return await self._reembed(given.progress_of(progress))

    async def runs(self) -> "tuple[Run, ...]":
        """The consolidations there were, the first one first."""
        return await self._runs()

    async def steps(self, run: str) -> "tuple[Did, ...]":
        """What a consolidation did to which memory, step by step, and what was done to take it back: with what both
        memories say, the one that gave way and the one that stays. Those that decide something say so (`decides`).
        """
        return await self._steps(given.text_of(run, "run"))

    async def undo(self, run: str) -> int:
        """Take back what a consolidation did: every memory it touched is as it was; how many there were."""
        return await self._undo(given.text_of(run, "run"))

    async def extract(self, session: Any, *, dry: bool = False) -> "Extracted":
        """Keep here what a session has taught, given by its handle or id: what was kept, and what was refused and why.
        Called again, it goes on where it was, and keeps nothing twice. With `dry` nothing is written.
        """
        wanted = given.id_of(getattr(session, "id", session))
        return await self._extract(wanted, given.flag_of(dry, "dry"))

    async def propose(
        self, id: str, *, to: Any, evidence: Iterable[str] = (), ttl: Seconds | None = None
    ) -> "Proposal":
        """Propose a memory of this space to another one, given by its handle or name (`lethe`, `clade/desk`), to be
        believed there for `ttl` seconds. The gates say whether it is new there, evidenced, general and expiring.
        """
        lives = None if ttl is None else seconds_of(ttl, "ttl", CENTURY)
        known = given.texts_of(evidence, "evidence")
        return await self._propose(given.text_of(id, "a memory's id"), space_named(to), known, lives)

    async def proposals(self, *, reviewed: bool = False) -> "tuple[Proposal, ...]":
        """What was proposed to this space and waits for a review, oldest first; or all there ever was."""
        return await self._proposals(given.flag_of(reviewed, "reviewed"))

    async def review(self, proposal: str, accept: bool, *, reason: str = "") -> "Proposal":
        """Accept a proposal, which makes a memory of it here until its time to live is over, or reject it."""
        yes, why = given.flag_of(accept, "accept"), given.text_of(reason, "reason")
        return await self._review(given.text_of(proposal, "proposal"), yes, why)

    async def auto_accept(self, allow: bool | None = None) -> bool:
        """Whether what is proposed to this space and passes all gates becomes a memory without a review; True or False
        says so from now on. What is flagged is always reviewed.
        """
        if allow is not None:
            await self._allow(given.flag_of(allow, "allow"))
        return await self._allows()

    # ── the services ──

    async def _reembed(self, told: Progress | None) -> "Reembedded":
        return await self._services.memories.reembedding.run(self._space, told=told)

    async def _consolidate(self, dry: bool, told: Progress | None) -> "Run":
        def tell(progress: "Consolidated") -> None:
            if told is not None:
                told(progress.done, progress.total)

        return await self._services.home.do(
            lambda: self._services.consolidating.run(self._space, dry=dry, told=None if told is None else tell)
        )

    async def _runs(self) -> "tuple[Run, ...]":
        return tuple((await self._services.memories.shelves.look(self._space)).shelf.runs.values())

    async def _steps(self, run: str) -> "tuple[Did, ...]":
        return await self._services.home.do(lambda: self._services.consolidating.steps(self._space, run))

    async def _undo(self, run: str) -> int:
        return await self._services.home.do(lambda: self._services.consolidating.undo(self._space, run))

    async def _extract(self, session: SessionId, dry: bool) -> "Extracted":
        return await self._services.home.do(
            lambda: self._services.extracting.extract(
                session, self._space, dry=dry, agent=self._space.name, owner=self._owner
            )
        )

    async def _propose(self, id: str, to: Space, evidence: tuple[str, ...], ttl: float | None) -> "Proposal":
        return await self._services.promoting.propose(self._space, id, to=to, evidence=evidence, ttl=ttl)

    async def _proposals(self, reviewed: bool) -> "tuple[Proposal, ...]":
        return await self._services.promoting.queue(self._space, reviewed=reviewed)

    async def _review(self, proposal: str, accept: bool, reason: str) -> "Proposal":
        return await self._services.promoting.review(self._space, proposal, accept, reason)

    async def _allow(self, auto: bool) -> None:
        await self._services.promoting.allow(self._space, auto)

    async def _allows(self) -> bool:
        return await self._services.promoting.allows(self._space)


def space_named(to: Any) -> Space:
    """A space by its handle or as it is spelled, or `Invalid`."""
    named = getattr(to, "space", to)
    if isinstance(named, Space):
        return named
    namespace, _, name = given.text_of(named, "a space").partition("/")
    if namespace == "vault":
        return vault(name)
    if namespace == "clade":
        return Space("clade", name)
    if named == "lethe":
        return LETHE
    raise Invalid(f"a space is lethe, clade/NAME or vault/NAME, not {shown(named)}")
