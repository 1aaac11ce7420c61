"""A server's sessions, held as those of an open store are."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from perdure.core.errors import AlreadyExists, Invalid, NotFound, Refused
from perdure.core.session.budget import Account
from perdure.core.session.declared import Declared
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config, Isolation
from perdure.core.session.shown import shown
from perdure.edge import files
from perdure.edge.client import documents, reading
from perdure.edge.client.asking import Request
from perdure.edge.client.blobs import RemoteBlobs
from perdure.edge.client.refusing import apart
from perdure.edge.client.session import RemoteSession
from perdure.edge.client.transport import Transport
from perdure.edge.client.watching import changes
from perdure.edge.given import (
    Conditions,
    Progress,
    config_of,
    document_of,
    fields_of,
    id_of,
    path_of,
    progress_of,
    query_of,
    text_of,
    texts_of,
    vars_of,
)
from perdure.edge.library import AsyncPerdure, agent_of
from perdure.ports.store import Change
from perdure.services.archiving import Archived
from perdure.services.finding import Page
from perdure.services.importing import ImportReport
from perdure.services.verifying import Report, StoreReport

if TYPE_CHECKING:
    from perdure.edge.client.memory import RemoteMemorySpace
    from perdure.edge.client.sourcing import RemoteMemorySource
    from perdure.services.sharing import KnownSpace

LINES = "application/x-ndjson"
_HOOKS = "register it where the server runs, or receive webhooks"


class RemotePerdure(AsyncPerdure):
    """A server's sessions. Use it as a context manager, or close it when done."""

    def __init__(self, transport: Transport, ahead: int) -> None:
        """`ahead` is how far the server's clock is ahead of this machine's, in microseconds."""
        self._transport = transport
        self._ahead = ahead

    def __repr__(self) -> str:
        return f"AsyncPerdure({self._transport.place.url})"

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
    ) -> RemoteSession:
        """Begin a session, which belongs to the holder of the key unless an admin names another owner. With a key of
        idempotency, repeating the call gives the session the first call made.
        """
        if id is not None:
            raise Refused("the server chooses ids; leave id out, and give a name to find the session by")
        if name is not None:
            self._named(name)
        body = documents.given(
            title=text_of(title, "title"),
            owner=text_of(owner, "owner") or None,
            tags=list(texts_of(tags, "tag")),
            metadata=document_of(metadata, "metadata") or None,
            config=_config(config),
            isolation=None if isolation is None else documents.plain(isolation),
            exit_criteria=list(texts_of(exit_criteria, "exit criterion")),
            agent_id=agent_of(agent_id),
            name=name,
            activate=activate,
            **vars_of(vars, declared),
        )
        try:
            found = await self._transport.send("POST", "/v1/sessions", body, key=key, keyed=True)
        except AlreadyExists as taken:
            if name is None:
                raise
            told = f"a session named {name!r} is there already; open it with named({name!r}), or choose another name"
            raise AlreadyExists(told, **{**taken.fields, "name": name}) from None
        return self._handle(reading.session_of(found))

    def _named(self, name: str) -> SessionId:
        found = text_of(name, "name")
        if not found:
            raise Invalid("a name cannot be empty; give the session's name, or its id")
        return self._transport.names.id_of(found)

    def _handle(self, session: SessionId) -> RemoteSession:
        return RemoteSession(self._transport, session)

    def now(self) -> int:
        """The time as the server has it, in microseconds since 1970."""
        return self._transport.ambient.now() + self._ahead

    async def session(self, id: str) -> RemoteSession:
        """A session by its id, or `NotFound`."""
        wanted = id_of(id)
        await self._transport.get(f"/v1/sessions/{wanted}")
        return self._handle(wanted)

    async def import_jsonl(
        self, source: str | os.PathLike[str] | Iterable[bytes | str], *, progress: Progress | None = None
    ) -> RemoteSession:
        """Rebuild a session exactly from an export: a file, or its lines. One that is there already is left alone."""
        return self._handle((await self.import_report(source, progress=progress)).session)

    async def import_report(
        self, source: str | os.PathLike[str] | Iterable[bytes | str], *, progress: Progress | None = None
    ) -> ImportReport:
        """Import as `import_jsonl` does, and tell what was done: `existed` when there was nothing to do."""
        if not isinstance(source, str | os.PathLike | Iterable):
            raise Invalid(f"import from a path or from lines, not {shown(source)}")
        lines = files.lines(path_of(source)) if isinstance(source, str | os.PathLike) else source
        request = Request(method="POST", target="/v1/import", headers={"Content-Type": LINES})
        reply = await self._transport.upload(request, _sent(lines, progress_of(progress)))
        found = reply.document
        return msgspec.convert({"session": found.pop("session_id"), **found}, ImportReport)

    @property
    def blobs(self) -> RemoteBlobs:
        """Images, files and other content too large for the log."""
        return RemoteBlobs(self._transport)

    def memory(
        self, agent: str | None = None, *, owner: str | None = None, clade: str | None = None, lethe: bool = False
    ) -> "RemoteMemorySpace":
        """What is remembered across sessions: in the vault of one of the caller's agents, in a clade that lets them in,
        or in lethe, which is everybody's. Without a name, in the caller's own vault; admins name another's owner.
        """
        from perdure.edge.asked import space_of
        from perdure.edge.client.memory import RemoteMemorySpace

        own = self._transport.names.own
        space = space_of(agent, clade, lethe, own, own if owner is None and clade is None and not lethe else owner)
        place = {"namespace": "lethe"} if lethe else documents.given(agent=agent, clade=clade, owner=owner)
        return RemoteMemorySpace(self._transport, space, place)

    async def spaces(self) -> "AsyncIterator[KnownSpace]":
        """The spaces of memories that were begun, and that the holder of the key may read; those begun last first."""
        from perdure.services.sharing import KnownSpace

        cursor = None
        while True:
            found = await self._transport.get("/v1/memory/spaces", documents.given(limit=500, cursor=cursor))
            for item in found["items"]:
                yield KnownSpace(session=item.pop("session_id"), **item)
            if (cursor := found["cursor"]) is None:
                return

    def memories_from(
        self, *, session: Any = None, writer: str | None = None, uri: str | None = None
    ) -> "RemoteMemorySource":
        """Whatever comes from one source, in every space of the tenant; for admins."""
        from perdure.edge.client.sourcing import RemoteMemorySource
        from perdure.edge.sourcing import by_of

        return RemoteMemorySource(self._transport, by_of(session, writer, uri))

    async def find(self, /, *, limit: int = 50, cursor: str | None = None, **conditions: Unpack[Conditions]) -> Page:
        """Sessions that match every condition, newest first, a page at a time."""
        body = _conditions(conditions) | documents.given(limit=limit, cursor=cursor)
        found = await self._transport.send("POST", "/v1/sessions/find", body, again=True)
        return Page(tuple(map(reading.row_of, found["items"])), found["cursor"])

    async def count(self, /, **conditions: Unpack[Conditions]) -> int:
        """How many sessions match the conditions of `find`."""
        found = await self._transport.send("POST", "/v1/sessions/count", _conditions(conditions), again=True)
        count: int = found["count"]
        return count

    async def watch(self, after: int | None = None, session: str | None = None) -> AsyncIterator[Change]:
        """Changes as they are committed by anyone, from a position on, or from now."""
        wanted = id_of(session) if session is not None else None
        async for change in changes(self._transport, after, wanted):
            yield change

    async def account(self, id: str) -> Account:
        """An account by its id, which is that of the session it was made for; one nobody has used is empty."""
        wanted = text_of(id, "account")
        try:
            handle = self._handle(id_of(wanted))
            return await handle.account() if (await handle.info()).account == handle.id else Account()
        except (Invalid, NotFound):
            return Account()

    async def verify(self, progress: Progress | None = None) -> StoreReport:
        """Check every byte of every session that the holder of the key sees, one by one at the server."""
        told = progress_of(progress)
        found: list[Report] = []
        cursor, total = None, await self.count(memories=True)
        while True:
            page = await self.find(limit=500, cursor=cursor, memories=True)
            for row in page.items:
                with suppress(NotFound):  # it was erased meanwhile
                    found.append(await self._handle(row.session).verify())
                if told is not None:
                    told(len(found), max(total, len(found)))
            if page.cursor is None:
                return _whole(found)
            cursor = page.cursor

    async def archive(self, id: str) -> Archived:
        """Put an ended session away: to cold storage, if the server has some. Again, it finishes."""
        handle = self._handle(id_of(id))
        version = await handle.archive()
        row = await handle.info()
        return Archived(session=handle.id, version=version, cold=row.cold, bytes=0)

    async def restore_archived(self, id: str) -> bool:
        """Bring an archived session's log back from cold storage; False when it does not lie there."""
        return await self._handle(id_of(id)).thaw()

    async def position(self) -> int:
        """The change feed's latest position."""
        found: int = (await self._transport.get("/v1/position"))["position"]
        return found

    async def close(self) -> None:
        """Let go of the connections; harmless when repeated."""
        self._transport.close()

    @property
    def tools(self) -> Any:
        """Refused over a connection: tools run where the store is, and a session wakes there with them."""
        told = "register them where the server runs: [tools.NAME] in its configuration names an MCP server"
        return apart("running tools", told)(self)

    before: Any = apart("calling a hook before a move", _HOOKS)
    after: Any = apart("calling a hook after a move", _HOOKS)
    before_branch: Any = apart("calling a hook before a branch", _HOOKS)
    compensation: Any = apart("running a compensation", "register it where the server runs")
    cleanup: Any = apart("calling a hook in the clean-up", _HOOKS)
    webhook: Any = apart("naming a webhook", "an admin adds one with POST /v1/webhooks")
    retriever: Any = apart("retrieving evidence", "register the retriever where the server runs")
    wake_with: Any = apart("waking with providers of one's own", "set them where the server runs")
    recover: Any = apart("recovering every session", "recover() a session, or run `perdure sessions recover` there")
    expire_checkpoints: Any = apart("expiring checkpoints", "the server's sweeper does it; drop_checkpoint drops one")
    sweep: Any = apart("sweeping", "the server sweeps by itself, as its sweep_interval says")
    sweeper: Any = apart("sweeping", "the server sweeps by itself, as its sweep_interval says")
    rearm: Any = apart("setting timers anew", "run `perdure sweep --rearm` on the server's machine")
    archive_ended: Any = apart("archiving all that ended", "archive them one by one, or run `perdure archive` there")
    archived_size: Any = apart("measuring cold storage", "look at it from the server's machine")
    sign_heads: Any = apart("signing heads", "the server's sweeper does it")
    check_heads: Any = apart("checking heads", "run `perdure sessions verify` on the server's machine")
    backup: Any = apart("a backup", "run `perdure backup` on the server's machine, or export sessions one by one")
    inspect: Any = apart("inspecting the store", "run `perdure doctor` on the server's machine")


def _whole(found: list[Report]) -> StoreReport:
    """What was found of all sessions. What concerns none of them cannot be seen from here."""
    signed = [report.signed for report in found if report.signed is not None]
    return StoreReport(
        ok=all(report.ok for report in found),
        sessions=len(found),
        events=sum(report.events for report in found),
        redacted=sum(report.redacted for report in found),
        problems=(),
        damaged=tuple(report for report in found if not report.ok),
        signed=sum(version > 0 for version in signed) if signed else None,
    )


def _config(config: Config | dict[str, Any] | None) -> dict[str, Any] | None:
    """A configuration as the server takes it, checked: the fields that are named."""
    found = config_of(config)
    if found is None:
        return None
    return documents.config_of(found, None if isinstance(config, Config) else fields_of(config))


def _conditions(conditions: Conditions) -> dict[str, Any]:
    """The conditions of `find` as the server takes them."""
    found = query_of(conditions)
    return documents.given(
        owner=found.get("owner"),
        phase=list(found["phases"]) or None,
        tag=list(found["tags"]) or None,
        title=found.get("title"),
        text=found.get("text"),
        parent=found.get("parent"),
        open_turn=found.get("open_turn"),
        created_after=found.get("created_after"),
        created_before=found.get("created_before"),
        active_after=found.get("active_after"),
        active_before=found.get("active_before"),
        order="active" if found["by_activity"] else "created",
        memories=conditions.get("memories"),
        metadata=found.get("metadata"),
    )


async def _sent(lines: Iterable[bytes | str], progress: Progress | None) -> AsyncIterator[bytes]:
    """The lines of an export on their way; each ends in a newline."""
    for done, line in enumerate(lines, 1):
        if not isinstance(line, bytes | str):
            raise Invalid(f"a line of an export is text or bytes, not {shown(line)}")
        raw = line.encode() if isinstance(line, str) else line
        yield raw if raw.endswith(b"\n") else raw + b"\n"
        if progress is not None:
            progress(done, done)
