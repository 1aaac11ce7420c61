"""Memory spaces at hand: a shelf and an index for each, made from its log and grown with it.

Every look asks the store whether the log has grown, so what one node keeps is found on all others. Those that were not
used for longest are let go when there is no room for all; their next reader makes them anew. Whoever searches an index
does so inside `reading`: an index changes beside the event loop too, and only its lane keeps the two apart.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from perdure.core.errors import AlreadyExists, CallerError, NotFound, PerdureError, VersionConflict
from perdure.core.memory.parts import TAG, Space, space_of
from perdure.core.memory.plans import DEFAULT
from perdure.core.memory.shelf import Changes, Shelf
from perdure.core.memory.uses import Uses
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.ids import SessionId, named
from perdure.core.session.origin import Config, Isolation, Timeouts
from perdure.forking import Forking, on_fork
from perdure.ports.memory import UNANSWERED, UNMADE, Embedder, MemoryIndex
from perdure.ports.store import Head, Query
from perdure.services import embedding
from perdure.services.allowance import Allowance
from perdure.services.embedding import MakeIndex, item_of
from perdure.services.patience import Patient
from perdure.services.sessions import Outcome, Sessions
from perdure.waiting import Lane, aside, wholly

EACH: Final = 600
"""Bytes that a memory takes beside its words and its place in the index, about."""
RETRIES: Final = 100
"""How often something is decided anew before giving up; each time somebody else won."""
FEW: Final = 64
"""As many memories are indexed here and now; more than that beside the event loop."""
_NEVER: Final = Config(timeouts=Timeouts(idle=0, absolute=0, max_active=0, grace=0, expiry=0))
PAGE: Final = 100
Decide: TypeAlias = Callable[[Shelf], Sequence[Payload]]
T = TypeVar("T")


class Known:
    """One space at hand."""

    def __init__(self, space: Space, session: SessionId, index: MemoryIndex, shelf: Shelf, uses: Uses) -> None:
        self.space = space
        self.session = session
        self.shelf = shelf
        self.index = index
        self.uses = uses
        self.lane = Lane()
        self.stale = False
        """Whether it must be read anew before it is looked at."""

    def measured(self) -> int:
        """Bytes in RAM, about."""
        return len(self.shelf) * EACH + self.shelf.weight + self.index.size


class Shelves:
    """The spaces of a tenant."""

    def __init__(
        self,
        sessions: Sessions,
        embedder: Callable[[], Embedder | None],
        index: MakeIndex,
        allowance: Allowance,
        *,
        plan: str = DEFAULT,
    ) -> None:
        self.plan = plan
        """The plan of spaces that were put on none."""
        self.sessions = sessions
        self.embedder = embedder
        self._index = index
        self._allowance = allowance
        self._known: dict[Space, Known] = {}
        self._uses: dict[Space, Uses] = {}
        """What was counted outlives the space at hand."""
        self.unmade: set[Space] = set()
        """Spaces in which something was kept here without vectors, because the embedder gave none."""
        on_fork(self, Forking(_unchanged, _unchanged, Shelves._forked))

    def _forked(self) -> None:
        """A child of a fork reads everything anew: whoever was inside lives in the parent, which also writes down what
        it counted.
        """
        self._uses.clear()
        for known in [*self._known.values()]:
            self._drop(known)

    def session_of(self, space: Space) -> SessionId:
        """The log of a space."""
        return named(self.sessions.identity.tenant, space.log)

    async def look(self, space: Space) -> Known:
        """A space as it stands in the store, no older than this call."""
        async with self.reading(space) as known:
            return known

    @asynccontextmanager
    async def reading(self, space: Space) -> AsyncIterator[Known]:
        """A space as it stands in the store, which nothing here changes within the block. To write in it waits for
        ever.
        """
        async with self._inside(space) as known:
            await self._catch_up(known)
            yield known

    @asynccontextmanager
    async def _inside(self, space: Space) -> AsyncIterator[Known]:
        """A space that nobody else here reads or writes within the block. There is never more than one of a name, so
        that nothing is counted apart: one that was let go while somebody waited for it is asked for again.
        """
        while True:
            known = self._at_hand(space)
            async with known.lane:
                if self._known.get(space) is known:
                    try:
                        yield known
                    finally:
                        self._left(known)
                    return

    def _left(self, known: Known) -> None:
        """See how large it has become. Of one that was never begun nothing is kept at hand, whoever asks for it."""
        if known.shelf.version:
            self._allowance.take(known, known.measured(), lambda: self._let_go(known))
        else:
            self._drop(known)
            self._uses.pop(known.space, None)

    def _let_go(self, known: Known) -> None:
        """Make room. One that is in use stays; when it is left it is counted again."""
        if known.lane.idle:
            self._drop(known)

    def _drop(self, known: Known) -> None:
        if self._known.get(known.space) is known:
            del self._known[known.space]
        self._allowance.left(known)
        if not self._uses.get(known.space, True):
            del self._uses[known.space]

    async def spaces(self) -> tuple[Space, ...]:
        """All the spaces of the tenant, those begun first first."""
        found: list[Space] = []
        query = Query(tenant=self.sessions.identity.tenant, tags=(TAG,), limit=PAGE)
        while rows := await self.sessions.store.find(query):
            spaces = [space_of(row.tenant, row.session, row.title) for row in rows]
            found += [space for space in spaces if space is not None]
            query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))
        return tuple(reversed(found))

    async def write(
        self,
        space: Space,
        decide: Decide,
        *,
        owner: str | None = None,
        key: str | None = None,
        asked: list[Any] | None = None,
        noting: bool = False,
    ) -> tuple[Known, Outcome]:
        """Write what is decided on the shelf as it stands, decided again whenever somebody else was first. A space
        begins with the first thing written to it. With a key, what was `asked` before is not done again. Uses are
        written along, or by themselves if they are what this is for (`noting`).
        """
        async with self._inside(space) as known:
            for _ in range(RETRIES):
                await self._catch_up(known)
                try:
                    payloads = [*decide(known.shelf)]
                except CallerError:  # no refusal if it was done before
                    before = None if asked is None else await self.sessions.repeated(known.session, key, asked)
                    if before is None:
                        raise
                    return known, before
                uses = known.uses.told()
                if not payloads and not (noting and uses):
                    version = known.shelf.version
                    return known, Outcome(session=known.session, first=version + 1, version=version)
                try:
                    await self._begin(known, owner)
                    outcome = await self._append(known, await self._embedded(known, [*payloads, *uses]), key, asked)
                except VersionConflict:
                    continue
                if outcome.repeated:
                    await self._catch_up(known)
                else:
                    known.uses.wrote(uses)
                return known, outcome
        raise VersionConflict(f"the memories of {space} keep changing; try again", space=str(space))

    async def begin(self, space: Space, *, owner: str | None = None, isolation: Isolation | None = None) -> bool:
        """Begin a space that is not there yet, as somebody's, shared with those whom its isolation lets in; whether it
        was not there.
        """
        async with self._inside(space) as known:
            await self._catch_up(known)
            return await self._begin(known, owner, isolation)

    async def note(self, known: Known, now: int) -> None:
        """Write uses down if that is due. If it cannot be done now, then another time: nobody is to go without what he
        looks for because of that.
        """
        if known.uses.due(now):
            with suppress(PerdureError):
                await self._write_down(known.space, known.uses)

    @property
    def owes(self) -> bool:
        """Whether there are uses that are not written down."""
        return any(self._uses.values())

    async def close(self) -> None:
        """Write all uses down."""
        for space, uses in [*self._uses.items()]:
            if uses:
                await self._write_down(space, uses)

    async def _write_down(self, space: Space, uses: Uses) -> None:
        async with self.reading(space) as known:
            there = known.shelf.version
        if there:
            await self.write(space, lambda _: (), noting=True)
        else:  # nothing was ever kept there, or it was erased: uses begin no space
            uses.wrote(uses.told())

    def forget(self, space: Space | None = None) -> None:
        """Read it anew next time: one space, or all."""
        for each in [*self._known] if space is None else [space]:
            known = self._known.get(each)
            if known is None:
                continue
            if known.lane.idle:
                self._drop(known)
            else:
                known.stale = True

    def scratch(self) -> MemoryIndex:
        """An index with nothing in it."""
        return self._index(self.embedder())

    async def asked(self, ask: Callable[[], T], *, long: bool = False) -> T:
        """What an index answers whose space is being read: beside the event loop, if it takes `long` or its embedder is
        asked elsewhere.
        """
        return await wholly(ask) if long or isinstance(self.embedder(), Patient) else ask()

    def ask_again(self) -> None:
        """Ask the embedder the next time, though it was away just now."""
        embedder = self.embedder()
        if isinstance(embedder, Patient):
            embedder.ask_again()

    def shelf(self) -> Shelf:
        """A shelf with nothing on it."""
        embedder = self.embedder()
        return Shelf(self.plan, embedder.name if embedder is not None else "")

    def known(self, space: Space) -> Known | None:
        """A space as it was last seen, if it is at hand."""
        return self._known.get(space)

    # ── keeping up ──

    def _at_hand(self, space: Space) -> Known:
        known = self._known.get(space)
        if known is None:
            index, shelf = self.scratch(), self.shelf()
            known = Known(space, self.session_of(space), index, shelf, self._uses.setdefault(space, Uses()))
            self._known[space] = known
        else:
            self._allowance.back(known)
        return known

    async def _catch_up(self, known: Known) -> None:
        if known.stale:
            known.stale = False
            self._anew(known)
        try:
            await self.sessions.log.steadily(known.session, lambda head: self._caught_up(known, head))
        except NotFound:
            self._anew(known)

    async def _caught_up(self, known: Known, head: Head) -> None:
        shelf, row = known.shelf, head.row
        if (shelf.version, shelf.digest) == (row.version, row.digest):
            return None
        after = shelf.version - 1 if shelf.version and head.anchor_version < shelf.version <= row.version else 0
        if not after:
            self._anew(known)
        pages = self.sessions.log.pages(head, max(after, head.anchor_version))
        async with aclosing(pages):
            async for page in pages:
                events = page
                if after:  # the first event is the last of those that are known, if the log goes on from there
                    if page[0].digest != known.shelf.digest:
                        self._anew(known)
                        return await self._caught_up(known, head)
                    events, after = page[1:], 0
                if await self._took(known, events):
                    self._anew(known)
                    return await self._caught_up(known, head)
        return None

    def _anew(self, known: Known) -> None:
        if known.shelf.version:
            known.shelf, known.index = self.shelf(), self.scratch()

    async def _took(self, known: Known, events: Sequence[Event]) -> bool:
        """Grow by these; whether that cannot be done, and all must be read anew."""
        whole = False

        def grow() -> None:
            nonlocal whole
            if not changes.anew:
                self._indexed(known, changes)
            whole = True

        try:
            changes = known.shelf.take(events)
            if len(changes.came) > FEW:
                await wholly(grow)
            else:
                grow()
        finally:
            if not whole:  # it broke, or was interrupted: the log tells all of it again
                known.shelf, known.index = self.shelf(), self.scratch()
        return changes.anew

    def _indexed(self, known: Known, changes: Changes) -> None:
        known.index.drop(changes.gone)
        shelf = known.shelf
        if changes.came:  # nothing is embedded here: what has no vectors is found by its words
            vectors = [shelf.vectors.pop(id, UNMADE) for id in changes.came]
            known.index.add([item_of(shelf.memories[id]) for id in changes.came], vectors)

    # ── writing ──

    async def _embedded(self, known: Known, payloads: list[Payload]) -> list[Payload]:
        """The payloads with what the embedder makes of them: vectors stand before the memories that come with them, so
        that an index takes both in at once. While it gives none, memories are kept without; they are made another time.
        """
        embedder = self.embedder()
        kept, changed = embedding.told(known.shelf, payloads, self.sessions.masks)
        if embedder is None or not (kept.items or changed.items):
            return payloads

        def make() -> list[Payload]:
            before, after = (
                embedding.made(plan, embedder, self.scratch()) if plan.items else () for plan in (kept, changed)
            )
            return [*before, *payloads, *after]

        try:
            return await aside(make)
        except UNANSWERED:
            self.unmade.add(known.space)
            return payloads

    async def _append(self, known: Known, payloads: list[Payload], key: str | None, asked: list[Any] | None) -> Outcome:
        command = do.Remember(drafts=tuple(Draft(payload, target=payload.aim()) for payload in payloads))
        version = known.shelf.version
        outcome = await self.sessions.handle(known.session, command, expected=version, key=key, asked=asked)
        await self._took(known, outcome.events)
        return outcome

    async def _begin(self, known: Known, owner: str | None, isolation: Isolation | None = None) -> bool:
        """Begin the log of a space that has none; whether it had none."""
        if known.shelf.version:
            return False
        command = do.Create(
            title=str(known.space),
            owner=self._owner(known.space, owner),
            tags=(TAG,),
            config=_NEVER,
            isolation=isolation,
            activate=True,
        )
        begun = False
        with suppress(AlreadyExists):
            await self.sessions.create(command, session=known.session)
            begun = True
        await self._catch_up(known)
        return begun

    def _owner(self, space: Space, asked: str | None) -> str:
        """Whose a space is. What is everybody's is nobody's own, and stays when whoever wrote there first is erased."""
        who = self.sessions.identity
        return who.actor if space.namespace == "lethe" else who.who if asked is None else asked


def _unchanged(_: Shelves) -> None:
    pass
