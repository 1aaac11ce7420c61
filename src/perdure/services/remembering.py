"""What a session's model is shown of memory, and what became of it: recalled for a turn, weighed after the answer.

Memory never stops a turn. A space that is missing, foreign, unreadable or out of its quota gives nothing, and the
context says so. What is foreign looks as what is missing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from perdure.core.access.isolation import MODELS
from perdure.core.errors import Invalid, NotFound, PerdureError, QuotaReached
from perdure.core.memory.injecting import (
    AROUND,
    SHOWABLE,
    address_of,
    cost_of,
    fitting,
    ordered,
    shown_as,
    standing_among,
    told_of,
)
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import LETHE, Memory, Namespace, Space, vault
from perdure.core.memory.provenance import Likeness, Provenance, provenance_of
from perdure.core.memory.requests import Seeking
from perdure.core.session.memories import CitedMemory, MemoriesRecalled, ShownMemory
from perdure.core.session.origin import Recall
from perdure.core.session.state import State
from perdure.core.talk.remembered import Memory as Shown
from perdure.core.talk.remembered import memories_text, results_of
from perdure.core.talk.tokens import estimate
from perdure.services.memories import Memories, Scored
from perdure.waiting import aside

QUERY: Final = 4_000
"""Characters of a message that memories are looked for with."""
Pair = tuple[ShownMemory, str]
"""What is said of a memory, and its words."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is shown: `standing` from here to the next compaction, `found` for this message. `chosen` and
    `sought` say which of them were made just now, `notes` why others are missing.
    """

    standing: tuple[Pair, ...] = ()
    found: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    chosen: bool = False
    sought: bool = False
    cites: bool = False

    @property
    def fixed(self) -> tuple[Shown, ...]:
        """What stands, as the model reads it."""
        return tuple(shown_as(*pair) for pair in self.standing)

    @property
    def passing(self) -> tuple[Shown, ...]:
        """What was found, as the model reads it."""
        return tuple(shown_as(*pair) for pair in self.found)

    @property
    def block(self) -> str:
        """All of it as XML."""
        return memories_text((*self.fixed, *self.passing))

    @property
    def results(self) -> tuple[dict[str, object], ...]:
        """All of it as search results."""
        return tuple(block.block for block in results_of((*self.fixed, *self.passing)))

    @property
    def shown(self) -> tuple[ShownMemory, ...]:
        """What is said of all of it."""
        return tuple(told for told, _ in (*self.standing, *self.found))

    @property
    def event(self) -> MemoriesRecalled | None:
        """What is to be written down of it, if anything is new."""
        found = tuple(told for told, _ in self.found) if self.sought else ()
        if not self.chosen and not found:
            return None
        standing = tuple(told for told, _ in self.standing) if self.chosen else ()
        return MemoriesRecalled(chosen=self.chosen, standing=standing, found=found)


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The spaces that a session may be shown, and why others are left out."""

    vault: Space | None
    beyond: tuple[Space, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, the vault first."""
        return tuple(str(space) for space in (self.vault, *self.beyond) if space is not None)


class Remembering:
    """Recalling for turns, and weighing what was recalled."""

    def __init__(self, memories: Memories) -> None:
        self.memories = memories
        self._sessions = memories.shelves.sessions

    async def recall(
        self,
        query: str,
        *,
        agent: str,
        clades: Sequence[str] = (),
        lethe: bool = False,
        k: int = 10,
        beyond: int = 5,
        budget: int = 3_000,
    ) -> tuple[Scored, ...]:
        """What fits a query best of an agent's vault and of what lies beyond it, within one budget of tokens. Whoever
        calls sees to it that these spaces may be read.
        """
        spaces = (*(Space("clade", name) for name in clades), *((LETHE,) if lethe else ()))
        found, _ = await self._gathered(query, Reach(vault=vault(agent), beyond=spaces), k, beyond, metered=True)
        now, known = self._sessions.ambient.now(), {item.memory.id: item for item in found}
        shown = (shown_as(told_of(item.memory, item.space, now), item.memory.content) for item in found)
        return tuple(known[item.id] for item in fitting(shown, budget, estimate))

    async def for_turn(
        self,
        state: State,
        asked: Recall,
        query: str,
        *,
        standing: Sequence[ShownMemory] | None = None,
        found: Sequence[ShownMemory] | None = None,
        cites: bool = False,
        metered: bool = True,
    ) -> Remembered:
        """What the model is shown with a message. What stands already and what was found for the turn before stays as
        it was told, but for what may not be shown any more.
        """
        reach = await self._reach(state, asked)
        chosen = standing is None
        stands = await self._chosen(reach, asked) if standing is None else await self._still(standing, reach)
        if found is not None:
            again = await self._still(found, reach)
            return Remembered(standing=stands, found=again, notes=reach.notes, chosen=chosen, cites=cites)
        most = max(0, asked.top_k - len(stands))
        scored, notes = await self._gathered(query, reach, asked.top_k, asked.beyond, metered=metered)
        known = {told.id for told, _ in stands}
        mine = [item for item in scored if item.memory.id not in known]
        near = [item for item in mine if item.space == str(reach.vault)][:most]
        candidates = [*near, *(item for item in mine if item.space != str(reach.vault))]
        left = asked.budget - (sum(cost_of(shown_as(*pair), estimate) for pair in stands) + estimate(AROUND))
        return Remembered(
            standing=stands,
            found=self._within(candidates, reach, left),
            notes=(*reach.notes, *notes),
            chosen=chosen,
            sought=True,
            cites=cites,
        )

    def _within(self, candidates: Sequence[Scored], reach: Reach, budget: int) -> tuple[Pair, ...]:
        """As many as fit, the best first choice, in an order that stays."""
        now = self._sessions.ambient.now()
        told = {item.memory.id: told_of(item.memory, item.space, now) for item in candidates}
        shown = (shown_as(told[item.memory.id], item.memory.content) for item in candidates)
        fit = {item.id for item in fitting(shown, budget, estimate)}
        kept = ordered([(item.space, item.memory) for item in candidates if item.memory.id in fit], reach.names)
        return tuple((told[memory.id], memory.content) for _, memory in kept)

    async def _gathered(
        self, query: str, reach: Reach, most: int, beyond: int, *, metered: bool
    ) -> tuple[list[Scored], list[str]]:
        """What each space has, best first, the vault's before the others'; and why one has nothing."""
        words = query[:QUERY].encode("utf-8", "replace").decode().strip()
        notes: list[str] = []
        if not words:
            return [], notes
        near = await self._searched(reach.vault, words, most, notes, metered=metered)
        far: list[Scored] = []
        for space in reach.beyond if beyond else ():
            far += await self._searched(space, words, beyond, notes, metered=metered)
        far.sort(key=lambda item: -item.score)
        notes += dict.fromkeys(f"found {item.lacking}" for item in (*near, *far) if item.lacking)
        return [*near, *far[:beyond]], notes

    async def _searched(
        self, space: Space | None, words: str, most: int, notes: list[str], *, metered: bool
    ) -> tuple[Scored, ...]:
        if space is None or most < 1:
            return ()
        try:
            return await self.memories.search(space, Seeking(query=words, top_k=most, count=metered), metered=metered)
        except QuotaReached as reached:
            notes.append(reached.message)
        except PerdureError as error:
            notes.append(_unreadable(space, error))
        return ()

    # ── what may be shown ──

    async def _reach(self, state: State, asked: Recall) -> Reach:
        """The spaces that are there and open to whoever owns the session; nobody's is theirs who opened the store."""
        owner = state.origin.owner or self._sessions.identity.actor
        agent = asked.agent or state.origin.agent_id or owner
        notes: list[str] = []
        mine = None
        for place in dict.fromkeys((vault_of(owner, agent), _space("vault", agent))) if asked.top_k else ():
            if mine is None and place is not None and await self._is_open(place, owner, notes):
                mine = place
        if mine is None and asked.top_k and not notes:
            notes.append(f"vault/{agent}: nothing is kept there")
        beyond: list[Space] = []
        wanted = [(f"clade/{name}", _space("clade", name)) for name in asked.clades]
        for told, space in [*wanted, *([("lethe", LETHE)] if asked.lethe else [])] if asked.beyond else ():
            before = len(notes)
            if space is not None and await self._is_open(space, owner, notes):
                beyond.append(space)
            elif len(notes) == before:
                notes.append(f"{told}: nothing is kept there")
        if self.memories.shelves.embedder() is None and (mine is not None or beyond):
            notes.append("found by words alone: no embedder is installed")
        return Reach(vault=mine, beyond=tuple(beyond), notes=tuple(notes))

    async def _is_open(self, space: Space, owner: str, notes: list[str]) -> bool:
        """Whether a space is there, and its log the owner's, or of those whom it lets in; lethe is everybody's."""
        log = self.memories.shelves.session_of(space)
        try:
            head = await self._sessions.log.head(log)
            if space == LETHE or head.row.owner == owner:
                return True
            isolation = (await self._sessions.loader.load(log)).state.origin.isolation
        except NotFound:
            return False
        except PerdureError as error:
            notes.append(_unreadable(space, error))
            return False
        return isolation is not None and isolation.model in MODELS and owner in isolation.users

    async def _chosen(self, reach: Reach, asked: Recall) -> tuple[Pair, ...]:
        """What stands for the session from now on."""
        if reach.vault is None:
            return ()
        try:
            known = await self.memories.shelves.look(reach.vault)
        except PerdureError:  # whoever searches it next says so
            return ()
        now, space = self._sessions.ambient.now(), str(reach.vault)
        return tuple(
            (told_of(memory, space, now), memory.content)
            for memory in standing_among(known.shelf, asked, now, estimate)
        )

    async def pairs(self, state: State, told: Sequence[ShownMemory]) -> tuple[tuple[ShownMemory, Memory], ...]:
        """The memories that a session was shown, as far as it may still be shown them."""
        asked = state.config.memory or Recall()
        return await self._found_still(told, await self._reach(state, asked))

    def address_of(self, told: ShownMemory) -> str:
        """Where a memory is, as citations name it."""
        return address_of(told.space, told.type, told.id)

    async def _still(self, told: Sequence[ShownMemory], reach: Reach) -> tuple[Pair, ...]:
        """Those that may still be shown, as they were told."""
        return tuple((item, memory.content) for item, memory in await self._found_still(told, reach))

    async def _found_still(self, told: Sequence[ShownMemory], reach: Reach) -> tuple[tuple[ShownMemory, Memory], ...]:
        """Those that may still be shown: not what was forgotten, quarantined or withdrawn since."""
        shelves: dict[str, dict[str, Memory]] = {}
        for space in (reach.vault, *reach.beyond):
            if space is not None and any(item.space == str(space) for item in told):
                try:
                    shelves[str(space)] = (await self.memories.shelves.look(space)).shelf.memories
                except PerdureError:
                    continue
        known = [(item, shelves.get(item.space, {}).get(item.id)) for item in told]
        return tuple((item, memory) for item, memory in known if memory is not None and memory.status in SHOWABLE)

    # ── what became of it ──

    async def heard(self, shown: Remembered, text: str, cited: Sequence[CitedMemory] = ()) -> Provenance:
        """Weigh what was shown by an answer, and count it: what supports something was of use, and what was found for
        the message and supports nothing was not. What stands for a session is not blamed for being silent.
        """
        found = await self.weighed((*shown.standing, *shown.found), text, cited)
        spaces = {told.id: told.space for told in shown.shown}
        unused = {told.id for told, _ in shown.found} & set(found.unused)
        await self._counted(found.used, unused, spaces, missing=found.missing)
        return found

    async def weighed(self, shown: Sequence[Pair], text: str, cited: Sequence[CitedMemory] = ()) -> Provenance:
        """What an answer rests on of what was shown: by its citations, or else by what is alike."""
        if cited or not shown:
            return provenance_of(text, shown, cited)
        alike = self._likeness()
        try:
            return await aside(lambda: provenance_of(text, shown, None, alike))
        except PerdureError:  # the embedder cannot be asked right now
            return provenance_of(text, shown)

    def _likeness(self) -> Likeness | None:
        embedder = self.memories.shelves.embedder()
        if embedder is None:
            return None

        def alike(first: Sequence[str], second: Sequence[str]) -> list[list[float]]:
            made = [[float(part) for part in vector] for vector in embedder.embed([*first, *second])]
            return [
                [sum(map(float.__mul__, mine, other)) for other in made[len(first) :]] for mine in made[: len(first)]
            ]

        return alike

    async def _counted(
        self, used: Iterable[str], unused: Iterable[str], spaces: dict[str, str], *, missing: bool
    ) -> None:
        now = self._sessions.ambient.now()
        by_space: dict[str, list[tuple[str, bool]]] = {name: [] for name in spaces.values()}
        for ids, was_used in ((used, True), (unused, False)):
            for id in ids:
                by_space[spaces[id]].append((id, was_used))
        for name, noted in by_space.items():
            namespace, _, rest = name.partition("/")
            async with self.memories.shelves.reading(Space(namespace, rest)) as known:  # type: ignore[arg-type]
                for id, was_used in noted:
                    if id in known.shelf.memories:
                        known.uses.note(id, cited=int(was_used), unused=int(not was_used))
                if missing and namespace == "vault":
                    known.uses.missing += 1
            await self.memories.shelves.note(known, now)


def _space(namespace: Namespace, name: str) -> Space | None:
    """A space by its name; None for what no space can be called."""
    try:
        return Space(namespace, name)
    except Invalid:
        return None


def _unreadable(space: Space, error: PerdureError) -> str:
    return f"{space} cannot be read right now ({error.code}); the turn goes on without it"
