"""Erasing a person: every session they own, the blobs only those pointed to, what is cached of them, and their name;
and what is remembered of them or by them anywhere, or was learnt from what they own.

What stays is the opaque id, which the audit log goes on using. Invariant: every step may be repeated. The directory
keeps how far it came, so after a crash the same call, or `resume`, goes on; from the first step on, the person is out.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from perdure.core.access.book import Principal, Status
from perdure.core.access.roles import Actor
from perdure.core.errors import BlobMissing, NotFound, WorldError
from perdure.core.memory.owning import is_vault_of_any
from perdure.core.memory.parts import TAG, Space, people, space_of
from perdure.core.memory.promoting import space_named
from perdure.core.memory.tracing import Told
from perdure.core.session.ids import SessionId
from perdure.ports.blobs import Collected, KeepsBlobs
from perdure.ports.store import Query, Row, Store
from perdure.services.acting import acting
from perdure.services.blobs import Blobs
from perdure.services.directory import OPERATOR, Directory
from perdure.services.erasure import Erasure
from perdure.services.exporting import Progress
from perdure.services.memories import Memories
from perdure.services.sessions import Sessions
from perdure.services.sharing import let_out

PAGE: Final = 100
REASON: Final = "the person was erased"


class Offered(Protocol):
    """What is needed of a tenant's services."""

    @property
    def sessions(self) -> Sessions:
        """Its sessions."""
        ...

    @property
    def erasure(self) -> Erasure:
        """What erases them."""
        ...

    @property
    def memories(self) -> Memories:
        """What is remembered."""
        ...


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a person; `agents` are those who acted for them and went along."""

    principal: str
    sessions: int = 0
    blobs: int = 0
    bytes: int = 0
    redacted: int = 0
    memories: int = 0
    agents: tuple[str, ...] = ()


class People:
    """Erases people, in any tenant of the store."""

    def __init__(self, services: Callable[[str], "Offered"], directory: Directory, notes: Erasure) -> None:
        self._services = services
        self._directory = directory
        self._notes = notes

    async def erase(self, tenant: str, id: str, *, by: Actor | None, progress: Progress | None = None) -> Erased:
        """Erase a person, by id or name, with the agents that act for them; `LastAdmin`, and nothing erased, when no
        admin would be left. Called again, it goes on where it stopped, or finds nothing left to do.
        """
        known = await self._directory.principal(tenant, id)
        resumed = known.status is not Status.ACTIVE and known.status is not Status.DISABLED
        person = await self._directory.begin_erasing(tenant, known.id, by=by)
        done = Erased(principal=person.id)
        if person.status is Status.ERASING:
            agents = [each for each in await self._directory.principals(tenant) if _acts_for(each, person)]
            for agent in agents:
                await self._directory.begin_erasing(tenant, agent.id, by=by)
            done = await self._content(tenant, [person, *agents], resumed, progress)
            for each in (*agents, person):
                await self._directory.forget(tenant, each.id, by=by)
        redacted = 0
        for forgotten in (*done.agents, person.id):
            redacted += await self._clear(tenant, forgotten, by)
        return msgspec.structs.replace(done, redacted=redacted)

    async def unfinished(self, tenant: str) -> tuple[Principal, ...]:
        """Those whose erasing was begun and never finished."""
        begun = (Status.ERASING, Status.FORGOTTEN)
        return tuple(each for each in await self._directory.principals(tenant) if each.status in begun)

    async def clades(self, tenant: str, id: str) -> tuple[str, ...]:
        """The clades that go with somebody, and with them what others keep there: their own, and their agents'."""
        known, store = await self._directory.principal(tenant, id), self._services(tenant).sessions.store
        found = dict[str, None]()
        for each in await self._directory.principals(tenant):
            if each.name and (each.id == known.id or _acts_for(each, known)):
                for row in await _rows(store, Query(tenant=tenant, owner=each.name, tags=(TAG,))):
                    space = space_of(row.tenant, row.session, row.title)
                    if space is not None and space.namespace == "clade":
                        found[space.name] = None
        return tuple(sorted(found))

    async def resume(self, tenant: str, *, by: Actor | None, progress: Progress | None = None) -> tuple[Erased, ...]:
        """Finish what was begun."""
        return tuple(
            [await self.erase(tenant, each.id, by=by, progress=progress) for each in await self.unfinished(tenant)]
        )

    async def _content(self, tenant: str, whose: list[Principal], resumed: bool, progress: Progress | None) -> Erased:
        """Erase what they own, and then what that alone pointed to."""
        offered = self._services(tenant)
        store = offered.sessions.store
        forgotten = await _forgotten(offered, tenant, whose)  # first: their sessions tell what was learnt from them
        total = sum([await store.count(Query(tenant=tenant, owner=each.name)) for each in whose])
        sessions = 0
        newest = whose[0].erasing_at or offered.sessions.ambient.now() if resumed else None
        for each in whose:
            while rows := await store.find(Query(tenant=tenant, owner=each.name, limit=PAGE)):
                for row in rows:
                    newest = _later(newest, await _newest_blob(offered.sessions, row.session))
                    with suppress(NotFound):
                        await offered.erasure.erase(row.session)
                    sessions += 1
                    if progress is not None:
                        progress(sessions, max(sessions, total))
        offered.sessions.loader.forget()
        gone = await _collected(offered.sessions, newest)
        return Erased(
            principal=whose[0].id,
            sessions=sessions,
            blobs=gone.blobs,
            bytes=gone.bytes,
            memories=forgotten,
            agents=tuple(each.id for each in whose[1:]),
        )

    async def _clear(self, tenant: str, id: str, by: Actor | None) -> int:
        """Redact whatever the directory's log says of somebody who is forgotten; how many entries that were."""
        versions = await self._directory.telling(id)
        if versions:
            with acting(OPERATOR if by is None else by.principal):
                await self._notes.redact(self._directory.session, versions, REASON)
        await self._directory.cleared(tenant, id, by=by)
        return len(versions)


async def _forgotten(offered: Offered, tenant: str, whose: list[Principal]) -> int:
    """Forget what is remembered of these people in every space, whole vaults of theirs included, with what was made of
    that elsewhere; how many memories that were. Nobody of their names is let in any more.
    """
    if not await offered.sessions.store.count(Query(tenant=tenant, tags=(TAG,))):
        return 0
    spelled = frozenset(name for each in whose for name in (each.name, each.id) if name)
    names, store = people(spelled), offered.sessions.store
    owned = {row.session for each in whose for row in await _rows(store, Query(tenant=tenant, owner=each.name))}

    def theirs(space: Space | None) -> bool:
        return space is not None and is_vault_of_any(space, spelled)

    def meant(told: Told) -> bool:
        return (
            told.session in owned
            or not names.isdisjoint(people(told.people))
            or (told.origin != "" and theirs(space_named(told.origin)))
        )

    memories, shelves = offered.memories, offered.memories.shelves
    spaces = await shelves.spaces()
    ending = [space for space in spaces if shelves.session_of(space) in owned or theirs(space)]
    for space in set(spaces).difference(ending):
        with suppress(NotFound):
            await let_out(shelves, space, names)
    whole = [space for space in ending if space.namespace == "vault"]
    count = sum((await memories.forgetting.forget_all(meant, REASON, ending=ending, whole=whole)).values())
    for space in ending:  # last: what is in them leads to what was made of it
        count += sum((await memories.stats(space)).counts.values())
        with suppress(NotFound):
            await offered.erasure.erase(shelves.session_of(space))
        shelves.forget(space)
    return count


async def _rows(store: Store, query: Query) -> list[Row]:
    """All that there are, in as many pages as it takes."""
    found, query = list[Row](), msgspec.structs.replace(query, limit=PAGE)
    while rows := await store.find(query):
        found += rows
        query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))
    return found


def _acts_for(agent: Principal, person: Principal) -> bool:
    gone = (Status.FORGOTTEN, Status.CLEARED)
    return agent.acting_for == person.name and agent.id != person.id and agent.status not in gone


def _later(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


async def _newest_blob(sessions: Sessions, session: SessionId) -> int | None:
    """When the newest of the blobs that a session points to was put. Of a log that cannot be read, nobody knows: then
    it may have been any time until now.
    """
    if not isinstance(sessions.store, KeepsBlobs):
        return None
    blobs = Blobs(sessions)
    newest: int | None = None
    try:
        for ref in await blobs.of_session(session):
            with suppress(BlobMissing):
                newest = _later(newest, (await blobs.stat(ref)).at)
    except NotFound:
        return newest
    except WorldError:
        return sessions.ambient.now()
    return newest


async def _collected(sessions: Sessions, newest: int | None) -> Collected:
    """Drop the blobs nobody points to any more, up to the newest that was theirs; what others put since is spared."""
    if newest is None or not isinstance(sessions.store, KeepsBlobs):
        return Collected(blobs=0, bytes=0, uploads=0)
    return await Blobs(sessions).collect(max(0, sessions.ambient.now() - newest))
