"""Memory as callers hold it: a handle on one space, async and blocking, to keep, find, change and forget memories."""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.compose import Services
from perdure.core.errors import Invalid, PerdureError
from perdure.core.memory.parts import Memory, MemoryType, Source, Space, Status, Trust
from perdure.core.memory.plans import Plan, plan_of
from perdure.core.memory.requests import MAX_BATCH, Changing, Keeping, Seeking
from perdure.core.session.shown import shown
from perdure.edge import files, given
from perdure.edge.asked import Kept, each_kept, id_of, keeping_of, moment_of, request, several, some, time_of
from perdure.edge.driving import Blocking, blocking, each
from perdure.edge.given import Progress, Time
from perdure.edge.recollecting import Bringing, Imported, lines_of
from perdure.edge.refining import Refining
from perdure.edge.sharing import Sharing
from perdure.waiting import aside

if TYPE_CHECKING:
    from perdure.core.memory.arriving import Batch, Others
    from perdure.core.memory.lines import Line
    from perdure.services.memories import Page, Scored, Stats

PAGE: Final = 500
EVERY: Final = tuple(Status)
Lines = list[bytes]


class AsyncMemorySpace(Refining, Sharing):
    """One space of memories: an agent's vault, a clade, or lethe. It holds nothing: everything is in the store."""

    def __init__(self, services: Services, space: Space, owner: str | None = None) -> None:
        self._services = services
        self._space = space
        self._owner = owner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._space})"

    @property
    def space(self) -> str:
        """Which space it is: `vault/ana`, `clade/desk`, `lethe`."""
        return str(self._space)

    # ── keeping ──

    async def add(
        self,
        content: str,
        *,
        memory_type: MemoryType | str = MemoryType.FACT,
        importance: float = 0.5,
        metadata: dict[str, Any] | None = None,
        author: str = "",
        source: Source | dict[str, Any] | None = None,
        trust: Trust | None = None,
        subjects: Iterable[str] = (),
        thread: str = "",
        valid_from: Time = None,
        valid_to: Time = None,
        supersedes: Iterable[str] = (),
        key: str | None = None,
    ) -> Memory:
        """Keep a memory: a fact, preference, episode, strategy_outcome or constraint, with how much it matters from 0
        to 1. It was true from `valid_from` to `valid_to`, if those are known, and takes the place of those it
        supersedes. `subjects` are people it is about; erasing one of them erases it. The same key keeps it once.
        """
        asked = keeping_of(
            {
                "content": content,
                "memory_type": memory_type,
                "importance": importance,
                "metadata": given.document_of(metadata, "metadata"),
                "author": author,
                "source": Source() if source is None else source,
                "trust": trust,
                "subjects": given.texts_of(subjects, "subject"),
                "thread": thread,
                "valid_from": valid_from,
                "valid_to": valid_to,
                "supersedes": given.texts_of(supersedes, "id"),
            }
        )
        return (await self._keep([asked], key))[0]

    async def add_many(self, memories: Iterable[Kept], *, key: str | None = None) -> tuple[Memory, ...]:
        """Keep these, in this order: words, or documents with the options of `add`. Up to 1,000 are one append, kept
        all or none; of more, each thousand. All are checked before the first is kept; where a later thousand is refused
        nevertheless, the error says how many were `kept`.
        """
        if isinstance(memories, str | bytes | Mapping) or not isinstance(memories, Iterable):
            raise Invalid(f"memories are a list of texts or documents, not {shown(memories)}")
        asked, found = each_kept(memories), list[Memory]()
        for start in range(0, len(asked), MAX_BATCH):
            part = key if key is None or not start else f"{key}:{start}"
            try:
                found += await self._keep(asked[start : start + MAX_BATCH], part)
            except PerdureError as wrong:
                if not start:
                    raise
                told = f"{wrong}; the first {start:,} of {len(asked):,} were kept"
                raise type(wrong)(told, **{**wrong.fields, "kept": start}) from wrong
        return tuple(found)

    async def update(
        self,
        id: str,
        *,
        content: str | None = None,
        memory_type: MemoryType | str | None = None,
        importance: float | None = None,
        metadata: dict[str, Any] | None = None,
        subjects: Iterable[str] | None = None,
        valid_from: Time = None,
        valid_to: Time = None,
        reason: str = "",
    ) -> Memory:
        """Change a memory; what is not given stays. Other content makes another memory, which takes its place: what it
        was stays known to `history` and to searches at an earlier time.
        """
        asked = request(
            Changing,
            content=content,
            memory_type=memory_type,
            importance=importance,
            metadata=metadata,
            subjects=None if subjects is None else given.texts_of(subjects, "subject"),
            valid_from=moment_of(valid_from, "valid_from"),
            valid_to=moment_of(valid_to, "valid_to"),
            reason=reason,
        )
        return await self._change(id_of(id), asked)

    async def forget(self, *ids: str, reason: str = "forgotten") -> int:
        """Take these out of the log for good, with every form they had before, what gave way to them, and what says the
        same; how many memories that was, all together.
        """
        return await self._forgotten([id_of(id) for id in ids], given.text_of(reason, "reason"))

    async def archive(self, *ids: str, reason: str = "") -> int:
        """Put these away: they are kept, and found only when asked for. How many were not there yet."""
        return await self._moved(ids, Status.ARCHIVED, reason)

    async def quarantine(self, *ids: str, reason: str = "") -> int:
        """Keep these from being found or shown to a model, until somebody has looked at them."""
        return await self._moved(ids, Status.QUARANTINED, reason)

    async def restore(self, *ids: str, reason: str = "") -> int:
        """Bring back what was archived or quarantined."""
        return await self._moved(ids, Status.LIVE, reason)

    async def _moved(self, ids: Iterable[str], status: Status, reason: str) -> int:
        wanted = [id_of(id) for id in ids]
        return await self._move(wanted, status, given.text_of(reason, "reason")) if wanted else 0

    # ── finding ──

    async def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        types: Iterable[MemoryType | str] | MemoryType | str = (),
        min_importance: float | None = None,
        metadata: dict[str, Any] | None = None,
        at: Time = None,
        known_at: Time = None,
        statuses: Iterable[Status | str] | Status | str = (Status.LIVE,),
        sessions: Iterable[str] = (),
        count: bool = True,
    ) -> "tuple[Scored, ...]":
        """The memories that fit best, best first, by words and, with an embedder, by sense. `at` asks for what was true
        then, `known_at` for what had been kept by then. Metadata must match field by field. What is found counts as
        used, unless `count` is False.
        """
        asked = request(
            Seeking,
            query=query,
            top_k=top_k,
            type_filter=some(types),
            min_importance=min_importance,
            metadata=given.document_of(metadata, "metadata"),
            at=time_of(at, "at"),
            known_at=time_of(known_at, "known_at"),
            statuses=some(statuses),
            sessions=given.texts_of(sessions, "session"),
            count=given.flag_of(count, "count"),
        )
        return await self._search(asked)

    async def get(self, id: str) -> Memory:
        """One memory, whatever its status; `NotFound` if there is none."""
        return await self._services.memories.get(self._space, id_of(id))

    async def list(
        self,
        *,
        types: Iterable[MemoryType | str] | MemoryType | str = (),
        statuses: Iterable[Status | str] | Status | str = (Status.LIVE,),
        session: str = "",
    ) -> AsyncIterator[Memory]:
        """Every memory of these types and statuses, or that came from a session, in the order they were kept in."""
        kinds = several(types, MemoryType)
        wanted = several(statuses, Status)
        came, after = given.text_of(session, "session"), ""
        while True:
            page = await self._page(kinds, wanted, came, after)
            for memory in page.items:
                yield memory
            if not page.next:
                return
            after = page.next

    async def history(self, id: str) -> tuple[Memory, ...]:
        """Every form that a memory has had, oldest first: what it superseded, itself, and what superseded it."""
        return await self._services.memories.history(self._space, id_of(id))

    async def stats(self) -> "Stats":
        """What the space holds and was asked."""
        return await self._services.memories.stats(self._space)

    async def plan(self, name: str | None = None) -> Plan:
        """The plan that the space is on; with a name (free, standard, premium, unlimited) it is put on that one."""
        if name is not None:
            await self._planned(given.text_of(name, "plan"))
        return plan_of((await self.stats()).plan)

    # ── coming and going ──

    async def export(self, path: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> Lines:
        """Every memory as JSONL, one a line: as lines, or into a file that is there whole or not at all."""
        told = given.progress_of(progress)
        if path is None:
            return [line async for line in self._lines(told)]
        await files.DiskFiles().replace(self._allowed(given.path_of(path)), self._lines(told))
        return []

    async def _lines(self, told: Progress | None) -> AsyncIterator[bytes]:
        total = sum((await self.stats()).counts.values()) if told is not None else 0
        done = 0
        async for memory in self.list(statuses=EVERY):
            yield msgspec.json.encode(memory) + b"\n"
            done += 1
            if told is not None:
                told(done, max(done, total))

    def _allowed(self, path: str) -> str:
        return files.refused_own(self._services, path)

    async def import_(
        self,
        source: str | os.PathLike[str] | Iterable[bytes | str | dict[str, Any]],
        *,
        trusted: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Keep what a file or its lines say: lines of an export, JSON objects with `content`, or plain text. What is
        there already is left alone, so an import that broke off is done again. Memories get fresh ids; unless the file
        is `trusted`, they are noted as imported and trusted little, whoever they say they come from.
        """
        if isinstance(source, bytes | Mapping) or not isinstance(source, str | os.PathLike | Iterable):
            raise Invalid(f"import from a path or from lines, not {shown(source)}")
        believed, told = given.flag_of(trusted, "trusted"), given.progress_of(progress)
        # what the caller made is gone through on the caller's thread
        raw = files.lines(given.path_of(source)) if isinstance(source, str | os.PathLike) else [*source]
        lines = await aside(lambda: lines_of(raw, trusted=believed))
        return await self._imported(lines, believed, told)

    # ── the service ──

    async def _keep(self, asked: Sequence[Keeping], key: str | None) -> tuple[Memory, ...]:
        agent = self._space.name if self._space.namespace == "vault" else ""
        return await self._services.memories.keep(self._space, asked, agent=agent, key=key, owner=self._owner)

    async def _imported(self, lines: "Sequence[Line]", trusted: bool, told: Progress | None) -> Imported:
        memories, space = self._services.memories, self._space
        agent = space.name if space.namespace == "vault" else ""

        async def look() -> list[Memory]:
            return [*(await memories.shelves.look(space)).shelf]

        async def bring(batch: "Batch", others: "Others") -> bool:
            return await memories.bring(space, batch, others, agent=agent, owner=self._owner)

        return await Bringing(look, bring, memories.fresh_id).bring(lines, told)

    async def _change(self, id: str, asked: Changing) -> Memory:
        return await self._services.memories.update(self._space, id, asked)

    async def _forgotten(self, ids: Sequence[str], reason: str) -> int:
        return await self._services.memories.forget(self._space, ids, reason)

    async def _move(self, ids: Sequence[str], status: Status, reason: str) -> int:
        return await self._services.memories.move(self._space, ids, status, reason)

    async def _search(self, asked: Seeking) -> "tuple[Scored, ...]":
        return await self._services.memories.search(self._space, asked)

    async def _page(
        self, types: tuple[MemoryType, ...], statuses: tuple[Status, ...], session: str, after: str
    ) -> "Page":
        return await self._services.memories.list(
            self._space, statuses=statuses, types=types, session=session, limit=PAGE, after=after
        )

    async def _planned(self, name: str) -> None:
        await self._services.memories.plan(self._space, name, owner=self._owner)


class MemorySpace(Blocking):
    """One space of memories, for blocking callers: an agent's vault, a clade, or lethe."""

    _behind: AsyncMemorySpace

    def __repr__(self) -> str:
        return f"MemorySpace({self.space})"

    @property
    def space(self) -> str:
        """Which space it is: `vault/ana`, `clade/desk`, `lethe`."""
        return self._behind.space

    def list(
        self,
        *,
        types: Iterable[MemoryType | str] | MemoryType | str = (),
        statuses: Iterable[Status | str] | Status | str = (Status.LIVE,),
        session: str = "",
    ) -> Iterator[Memory]:
        """Every memory of these types and statuses, or that came from a session, in the order they were kept in."""
        return each(self._behind.list(types=types, statuses=statuses, session=session))

    add = blocking(AsyncMemorySpace.add)
    add_many = blocking(AsyncMemorySpace.add_many)
    update = blocking(AsyncMemorySpace.update)
    forget = blocking(AsyncMemorySpace.forget)
    archive = blocking(AsyncMemorySpace.archive)
    quarantine = blocking(AsyncMemorySpace.quarantine)
    restore = blocking(AsyncMemorySpace.restore)
    search = blocking(AsyncMemorySpace.search)
    get = blocking(AsyncMemorySpace.get)
    history = blocking(AsyncMemorySpace.history)
    stats = blocking(AsyncMemorySpace.stats)
    plan = blocking(AsyncMemorySpace.plan)
    export = blocking(AsyncMemorySpace.export)
    import_ = blocking(AsyncMemorySpace.import_)
    share = blocking(AsyncMemorySpace.share)
    consolidate = blocking(AsyncMemorySpace.consolidate)
    reembed = blocking(AsyncMemorySpace.reembed)
    runs = blocking(AsyncMemorySpace.runs)
    steps = blocking(AsyncMemorySpace.steps)
    undo = blocking(AsyncMemorySpace.undo)
    extract = blocking(AsyncMemorySpace.extract)
    propose = blocking(AsyncMemorySpace.propose)
    proposals = blocking(AsyncMemorySpace.proposals)
    review = blocking(AsyncMemorySpace.review)
    auto_accept = blocking(AsyncMemorySpace.auto_accept)
