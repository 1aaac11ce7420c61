"""The library, for async callers: sessions in one file."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import msgspec

from perdure.compose import Services, StoreGiven, embedded
from perdure.core.errors import AlreadyExists, Invalid
from perdure.core.memory.parts import TAG
from perdure.core.session import caps
from perdure.core.session import commands as do
from perdure.core.session.budget import Account
from perdure.core.session.declared import Declared
from perdure.core.session.ids import SessionId, named
from perdure.core.session.lifecycle import Moved
from perdure.core.session.origin import Config, Isolation, Timeouts
from perdure.core.session.shown import shown
from perdure.edge import files
from perdure.edge.blobs import AsyncBlobs
from perdure.edge.given import (
    Conditions,
    Progress,
    config_of,
    document_of,
    id_of,
    memory_of,
    naming,
    path_of,
    progress_of,
    query_of,
    text_of,
    texts_of,
    vars_of,
)
from perdure.edge.keeping import Keeping
from perdure.edge.life import policy_of
from perdure.edge.opening import Opening
from perdure.edge.session import AsyncSession
from perdure.edge.talking import talk_of
from perdure.edge.timing import Timekeeping, timeouts_of
from perdure.ports.ambient import Ambient
from perdure.ports.store import Change, Query
from perdure.sealing.given import Given, KeyGiven, VaultGiven

if TYPE_CHECKING:
    from perdure.compose.memory import MemorySettings
    from perdure.compose.talking import Talk
    from perdure.core.session.waking import Question, WakePolicy
    from perdure.edge.memory import AsyncMemorySpace
    from perdure.edge.sourcing import AsyncMemorySource
    from perdure.edge.tools import Tools
    from perdure.ports.waking import MemoryLayers, RetrievalCache, Retriever, ToolRegistry
    from perdure.services.finding import Page
    from perdure.services.importing import ImportReport
    from perdure.services.lifecycle import Recovered
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sharing import KnownSpace
    from perdure.services.verifying import StoreReport


class AsyncPerdure(Timekeeping, Keeping):
    """An open store. Use it as a context manager, or close it when done."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create(
        self,
        title: str = "",
        *,
        owner: str = "",
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
        config: Config | dict[str, Any] | None = None,
        vars: Any = None,
        declared: Declared[Any] | None = None,
        isolation: Isolation | None = None,
        exit_criteria: Iterable[str] = (),
        agent_id: str | int | None = None,
        id: str | None = None,
        name: str | None = None,
        key: str | None = None,
        activate: bool = True,
    ) -> AsyncSession:
        """Begin a session. With a key, repeating the call gives the session the first call made. One with a name is
        found again by `named`; the name is its title, or stands under `name` in its metadata if it has another title.
        """
        from perdure.services.keys import fingerprint

        fields = config_of(config)
        if id is not None and name is not None:
            raise Invalid("give a session an id or a name, not both: the name leads to its id")
        wanted = id_of(id) if id is not None else None if name is None else self._named(name)
        fresh = wanted or SessionId(self._services.sessions.fresh_id())
        capped = caps.admit(fields)
        called, known = naming(text_of(title, "title"), document_of(metadata, "metadata"), name, fresh)
        command = do.Create(
            owner=text_of(owner, "owner"),
            title=called,
            tags=texts_of(tags, "tag"),
            metadata=known,
            config=fields,
            isolation=isolation,
            account=fresh if capped else None,
            exit_criteria=texts_of(exit_criteria, "exit criterion"),
            agent_id=agent_of(agent_id),
            activate=activate,
            **vars_of(vars, declared),
        )
        moves = caps.opened(fresh, capped)
        # The account is named after the session, whose id is fresh with every call unless the caller chose it.
        asked = None if wanted is None else [wanted, fingerprint(msgspec.structs.replace(command, account=None))]
        try:
            outcome = await self._services.sessions.create(command, session=fresh, key=key, accounts=moves, asked=asked)
        except AlreadyExists as taken:
            if name is None:
                raise
            told = f"a session named {name!r} is there already; open it with named({name!r}), or choose another name"
            raise AlreadyExists(told, **taken.fields, name=name) from None
        return AsyncSession(self._services, outcome.session)

    def named(self, name: str) -> AsyncSession:
        """The handle of the session that goes by a name, made or not: the same name leads to the same session from
        everywhere, and a session's id to itself. Make it with `create(name=…)`.
        """
        return self._handle(self._named(name))

    def _named(self, name: str) -> SessionId:
        found = text_of(name, "name")
        if not found:
            raise Invalid("a name cannot be empty; give the session's name, or its id")
        session = named(self._services.sessions.identity.tenant, found)
        self._services.sessions.log.called(session, found)
        return session

    def now(self) -> int:
        """The time as this store has it, in microseconds since 1970."""
        return self._services.sessions.ambient.now()

    @property
    def aio(self) -> "AsyncPerdure":
        """This store, for code that may be handed either kind."""
        return self

    async def session(self, id: str) -> AsyncSession:
        """A session by its id, or `NotFound`."""
        wanted = id_of(id)
        await self._services.sessions.log.head(wanted)
        return AsyncSession(self._services, wanted)

    async def import_jsonl(
        self, source: str | os.PathLike[str] | Iterable[bytes | str], *, progress: Progress | None = None
    ) -> AsyncSession:
        """Rebuild a session exactly from an export: a file, or its lines. One that is there already is left alone."""
        return AsyncSession(self._services, (await self.import_report(source, progress=progress)).session)

    async def import_report(
        self, source: str | os.PathLike[str] | Iterable[bytes | str], *, progress: Progress | None = None
    ) -> "ImportReport":
        """Import as `import_jsonl` does, and tell what was done: `existed` when there was nothing to do."""
        if not isinstance(source, str | os.PathLike | Iterable):
            raise Invalid(f"import from a path or from lines, not {shown(source)}")
        lines = files.lines(path_of(source)) if isinstance(source, str | os.PathLike) else source
        return await self._services.importing.import_lines(lines, progress_of(progress))

    @property
    def blobs(self) -> AsyncBlobs:
        """Images, files and other content too large for the log."""
        return AsyncBlobs(self._services)

    def memory(
        self, agent: str | None = None, *, owner: str | None = None, clade: str | None = None, lethe: bool = False
    ) -> "AsyncMemorySpace":
        """What is remembered across sessions: in the vault of an agent, in a clade of siblings, or in lethe, which is
        everybody's. Without a name, in the vault of whoever has the store open. With an owner the vault is theirs, and
        is what their sessions are shown.
        """
        from perdure.edge.asked import space_of
        from perdure.edge.memory import AsyncMemorySpace

        own = self._services.sessions.identity.who
        return AsyncMemorySpace(self._services, space_of(agent, clade, lethe, own, owner), owner)

    async def spaces(self) -> "AsyncIterator[KnownSpace]":
        """The spaces of memories that were begun, and that may be read here; those begun last first."""
        from perdure.services.sharing import known_space

        cursor = None
        while True:
            page = await self.find(tags=(TAG,), memories=True, limit=500, cursor=cursor)
            for found in map(known_space, page.items):
                if found is not None:
                    yield found
            if (cursor := page.cursor) is None:
                return

    def memories_from(
        self, *, session: Any = None, writer: str | None = None, uri: str | None = None
    ) -> "AsyncMemorySource":
        """Whatever comes from one source, in every space: a session (its handle or id), a writer, or an address."""
        from perdure.edge.sourcing import AsyncMemorySource, by_of

        return AsyncMemorySource(self._services, by_of(session, writer, uri))

    async def find(self, /, *, limit: int = 50, cursor: str | None = None, **conditions: Unpack[Conditions]) -> "Page":
        """Sessions that match every condition, newest first, a page at a time."""
        memories = conditions.get("memories", False)
        return await self._services.finding.page(self._query(conditions, limit), cursor, memories=memories)

    async def count(self, /, **conditions: Unpack[Conditions]) -> int:
        """How many sessions match the conditions of `find`."""
        memories = conditions.get("memories", False)
        return await self._services.finding.count(self._query(conditions, 1), memories=memories)

    def _query(self, conditions: Conditions, limit: int) -> Query:
        return self._services.finding.query(**query_of(conditions), limit=limit)

    async def watch(self, after: int | None = None, session: str | None = None) -> AsyncIterator[Change]:
        """Changes as they are committed by anyone, from a position on, or from now."""
        wanted = id_of(session) if session is not None else None
        async for change in self._services.finding.watch(after, wanted):
            yield change

    async def recover(self) -> "list[Recovered]":
        """Close every turn whose writer died. Call it when no other process is at work on the store."""
        return await self._services.lifecycle.recover_all()

    async def expire_checkpoints(self) -> int:
        """Drop the checkpoints whose time is over, in every session; how many that were."""
        dropped, cursor = 0, None
        while True:
            page = await self.find(limit=500, cursor=cursor, memories=True)
            for row in page.items:
                if row.cold is None:  # what lies in cold storage is not fetched for this
                    dropped += await self._services.checkpoints.expire_due(row.session)
            if page.cursor is None:
                return dropped
            cursor = page.cursor

    def before(self, move: str, hook: Callable[[AsyncSession, Moved], Any]) -> None:
        """Call `hook` before a move, or every move (`*`); if it raises, the move is not made."""
        self._services.lifecycle.hook("before", text_of(move, "a move"), self._hook(hook))

    def after(self, move: str, hook: Callable[[AsyncSession, Moved], Any]) -> None:
        """Call `hook` after a move, or every move (`*`)."""
        self._services.lifecycle.hook("after", text_of(move, "a move"), self._hook(hook))

    def _hook(self, hook: Callable[[AsyncSession, Moved], Any]) -> Callable[[SessionId, Moved], Awaitable[None]]:
        async def call(session: SessionId, moved: Moved) -> None:
            await settled(hook(self._handle(session), moved))

        return call

    def before_branch(self, hook: Callable[[AsyncSession, int, str], Any]) -> None:
        """Call `hook` with session, version and kind before every branch; if it raises, none is made."""

        async def call(session: SessionId, version: int, kind: str) -> None:
            await settled(hook(self._handle(session), version, kind))

        self._services.branches.before.append(call)

    def compensation(self, name: str, undo: Callable[[AsyncSession, dict[str, Any]], Any]) -> None:
        """Say how to undo what was registered under a name, should its session be terminated."""

        async def call(session: SessionId, arguments: dict[str, Any]) -> None:
            await settled(undo(self._handle(session), arguments))

        self._services.lifecycle.compensation(text_of(name, "a compensation"), call)

    @property
    def tools(self) -> "Tools":
        """The tools this process offers to models, `db.tools.register("add", add)`, and to sessions that wake, by their
        versions: `db.tools.register("search", "1.4.0", search)`.
        """
        from perdure.edge.tools import Tools

        return Tools(self._services)

    def retriever(self, source: str, function: "Callable[[Question], Any]") -> None:
        """Have a function, plain or async, retrieve evidence from a kind of source, or from all others (`*`)."""
        self._services.waking.rehydration.retrievers.register(text_of(source, "a source"), function)

    def wake_with(
        self,
        *,
        tools: "ToolRegistry | None" = None,
        retriever: "Retriever | None" = None,
        cache: "RetrievalCache | None" = None,
        memory: "MemoryLayers | None" = None,
        policy: "WakePolicy | None" = None,
    ) -> None:
        """Wake sessions with these instead of what is built in; what is not given stays."""
        waking = self._services.waking
        rehydration = waking.rehydration
        waking.tools = waking.tools if tools is None else tools
        rehydration.retriever = rehydration.retriever if retriever is None else retriever
        rehydration.cache = rehydration.cache if cache is None else cache
        waking.memory = waking.memory if memory is None else memory
        waking.policy = policy_of(policy) or waking.policy

    def _handle(self, session: SessionId) -> AsyncSession:
        return AsyncSession(self._services, session)

    async def account(self, id: str) -> Account:
        """An account by its id; one nobody has used is empty and without a cap."""
        return await self._services.store.account(text_of(id, "account")) or Account()

    async def verify(self, progress: Progress | None = None) -> "StoreReport":
        """Check every byte of every session."""
        return await self._services.verifying.verify_store(progress_of(progress))

    async def inspect(self) -> dict[str, Any]:
        """Facts about the store for people."""
        return await self._services.store.inspect()

    async def position(self) -> int:
        """The change feed's latest position."""
        return await self._services.store.position()

    async def close(self) -> None:
        """Let go of the file; harmless when repeated. Turns that run here are interrupted, and can go on later."""
        await self._services.silence()
        try:
            await self._services.jot()
        finally:
            await self._services.sessions.loader.flush()
            await self._services.store.close()


def aopen(
    path: StoreGiven,
    *,
    tenant: str = "local",
    actor: str = "local",
    read_only: bool = False,
    ambient: Ambient | None = None,
    snapshots: "SnapshotPolicy | None" = None,
    seal: bool | None = None,
    key: KeyGiven = None,
    vault: VaultGiven = None,
    cold: str | os.PathLike[str] | None = None,
    timeouts: Timeouts | dict[str, Any] | None = None,
    talk: "Talk | None" = None,
    memory: "MemorySettings | dict[str, Any] | str | None" = None,
) -> Opening[AsyncPerdure]:
    """Open a store for async use: `async with aopen(path) as db`, or `db = await aopen(path)`. A new file is created;
    `:memory:` keeps everything in RAM.

    A new store is sealed unless `seal` is False: its master key is made at `key` (else `<path>.master`), its vault of
    salts at `vault` (else `<path>.keys`). An old one is opened as it was made, with the key and vault found there.
    Archived sessions lie in `cold`: a folder, or `s3://bucket/prefix`. Sessions without time-outs of their own have
    `timeouts`. `talk` (`perdure.models.Talk`) says which models they talk to; the built-in one needs no key. `memory`
    (`perdure.memory.MemorySettings`) says how memories are found.
    """

    async def opened() -> AsyncPerdure:
        return AsyncPerdure(
            embedded(
                path,
                tenant=tenant,
                actor=actor,
                read_only=read_only,
                ambient=ambient,
                snapshots=snapshots,
                cold=cold,
                keys=Given(seal, key, vault),
                timeouts=timeouts_of(timeouts),
                talk=talk_of(talk),
                memory=memory_of(memory),
            )
        )

    opened.__qualname__ = "aopen"  # so a forgotten await is told by the name callers know
    return Opening(opened())


def agent_of(agent: Any) -> str | None:
    """An agent's id as text, if there is one, or `Invalid`."""
    return None if agent is None else text_of(str(agent) if type(agent) is int else agent, "agent_id")


async def settled(answer: Any) -> None:
    """A hook's answer, awaited if it is something to await."""
    if hasattr(answer, "__await__"):
        await answer
