"""One session at a server, held as one of an open store is: what callers hand in is checked here, in the same words,
and what is to be done is decided there.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, assert_never

from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session import diff as diffs
from perdure.core.session.budget import Account
from perdure.core.session.costs import Costs
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.core.session.state import State
from perdure.core.session.transcript import Turn
from perdure.edge import files, given
from perdure.edge.client import reading
from perdure.edge.client.asking import Request
from perdure.edge.client.blobs import RemoteBlobs
from perdure.edge.client.branching import Branching
from perdure.edge.client.documents import config_of, draft_of
from perdure.edge.client.living import Living
from perdure.edge.client.logs import Logs
from perdure.edge.client.mirroring import had
from perdure.edge.client.talking import Speaking
from perdure.edge.client.transport import Transport
from perdure.edge.client.turn import RemoteTurn
from perdure.edge.client.watching import changes
from perdure.edge.content import Content
from perdure.edge.life import Erased
from perdure.edge.session import AsyncSession
from perdure.ports.store import Change, Row
from perdure.services.merging import content_of
from perdure.services.verifying import Report

Asked = do.Append | do.Configure | do.SetVars | do.WriteScratchpad | do.Reserve | do.Settle | do.Correct | do.RollBack
"""The commands that a handle gives itself; the others have calls of their own."""


class RemoteSession(Speaking, Living, Logs, Branching):
    """A handle on one session at a server. It holds nothing but the id."""

    def __init__(self, transport: Transport, session: SessionId) -> None:
        self._transport = transport
        self.id = session
        self._path = f"/v1/sessions/{session}"

    def __repr__(self) -> str:
        return f"AsyncSession({self.id})"

    def _other(self, session: SessionId) -> "RemoteSession":
        return RemoteSession(self._transport, session)

    # ── what the inherited methods are made of ──

    async def _state(self) -> State:
        return await self.state()

    async def _do(self, command: do.Command, *, expected: int | None = None, key: str | None = None) -> int:
        """Have a command decided and made durable; the version it led to."""
        seen = given.maybe_number(expected, "expected")
        method, path, body, keyed = _request(command)  # type: ignore[arg-type]  # those that handles give themselves
        found = await self._transport.send(method, self._path + path, body, expected=seen, key=key, keyed=keyed)
        version: int = found["version"]
        return version

    # ── reading ──

    async def info(self) -> Row:
        """Title, phase, owner, tags, version and the rest of what a list shows."""
        return reading.row_of(await self._transport.get(self._path))

    async def state(self, at: int | None = None) -> State:
        """Everything about the session but its history, now or after a version."""
        asked = None if at is None else {"at": given.number_of(at, "a version")}
        return reading.state_of(await self._transport.get(f"{self._path}/state", asked))

    async def turns(self, last: int | None = None) -> list[Turn]:
        """The conversation, whole or its last turns; no tool call is ever cut from its result."""
        wanted = given.maybe_number(last, "last")
        if wanted is not None and wanted < 1:
            raise Invalid("ask for at least one turn", last=last)
        return [reading.turn_of(item) for item in await self._pages("turns", wanted)]

    async def watch(self, after: int | None = None) -> AsyncIterator[Change]:
        """Changes of this session as they are committed, by anyone."""
        async for change in changes(self._transport, after, self.id):
            yield change

    async def account(self) -> Account:
        """The account the session draws on; without one there is no limit."""
        return reading.account_of(await self._transport.get(f"{self._path}/account"))

    async def costs(self) -> Costs:
        """What this session has cost so far, by model, agent and strategy, and how the caps it shares stand."""
        return reading.costs_of(await self._transport.get(f"{self._path}/costs"))

    async def diff(self, other: AsyncSession | int, *, version: int | None = None) -> diffs.Patch:
        """What leads from this session's vars and scratchpads to another's, or from a version to the present one."""
        if isinstance(other, AsyncSession):
            ours, theirs = await self.state(), await other.state(version)
        else:
            ours, theirs = await self.state(other), await self.state(version)
        return diffs.diff(content_of(ours), content_of(theirs))

    # ── writing ──

    def turn(self, text: Any = None, *, model: str | None = None, agent: str | None = None) -> RemoteTurn:
        """A turn as a block; an exception inside leaves it interrupted."""
        return RemoteTurn(self._transport, self.id, text, model, agent)

    async def attach(self, source: Content, *, media_type: str | None = None, name: str | None = None) -> Any:
        """Keep content beside the log; the Ref to put into a message, a result or vars of this session."""
        await self.info()
        return await RemoteBlobs(self._transport).put(source, media_type=media_type, name=name)

    # ── taking away, proving, moving ──

    async def redact(self, versions: Iterable[int] | int, reason: str = "") -> int:
        """Destroy the content of events; the chain stays whole."""
        wanted = [versions] if isinstance(versions, int) else versions
        if not isinstance(wanted, Iterable):
            raise Invalid(f"name the versions to redact, not {shown(wanted)}")
        numbers = [given.number_of(version, "a version") for version in wanted]
        if not numbers:
            raise Invalid("name the versions to redact")
        body = {"versions": numbers, "reason": reason}
        found: int = (await self._transport.send("POST", f"{self._path}/redact", body))["version"]
        return found

    async def prune(self, upto: int) -> int:
        """Drop the log up to a version, for good; the version really pruned to."""
        body = {"upto": given.number_of(upto, "a version")}
        found: int = (await self._transport.send("POST", f"{self._path}/prune", body))["upto"]
        return found

    async def erase(self, *, expected: int | None = None, forget: bool = False) -> Erased:
        """Remove the session for good; how many branches were given their own copy of its log first. With `forget`,
        what was learnt from it is forgotten in every space.
        """
        seen = given.maybe_number(expected, "expected")
        path = f"{self._path}?memories=true" if given.flag_of(forget, "forget") else self._path
        found = await self._transport.send("DELETE", path, expected=seen)
        return Erased(found["branches"], found["memories"])

    async def verify(self) -> Report:
        """Check every byte of the session against its chain, at the server."""
        return reading.report_of(await self._transport.send("POST", f"{self._path}/verify", again=True))

    async def export(
        self, path: str | os.PathLike[str] | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> list[bytes]:
        """The session as JSONL, one event a line: as lines, or into a file that is there whole or not at all."""
        target = None if path is None else given.path_of(path)
        lines = self._lines(given.progress_of(progress))
        if target is None:
            return [line async for line in lines]
        await files.DiskFiles().replace(target, lines)
        return []

    async def _lines(self, progress: given.Progress | None, *, finish: bool = True) -> AsyncIterator[bytes]:
        """The export as it comes; what a server could not finish is cut off, and told."""
        total = 0 if progress is None else await self.version()
        done = -1
        stream = await self._transport.stream(Request(method="GET", target=f"{self._path}/export"))
        try:
            async for line in stream.lines():
                done += 1
                footer = line.startswith(b'{"perdure":"end"')
                if finish or not footer:
                    yield line
                if progress is not None and done and not footer:
                    progress(done, max(done, total))
        finally:
            stream.close()

    async def mirror(self, path: str | os.PathLike[str], *, finish: bool = False) -> int:
        """Keep a JSONL file in step with the session: write it anew; how many lines it lacked."""
        ends = given.flag_of(finish, "finish")
        target = given.path_of(path)
        before = await had(target, self.id)
        count = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal count
            async for line in self._lines(None, finish=ends):
                count += 1
                yield line

        await files.DiskFiles().replace(target, counted())
        return max(0, count - before)


def _request(command: Asked) -> tuple[str, str, Any, bool]:
    """How a command is asked for: method, path below the session, body, and whether it takes an idempotency key."""
    match command:
        case do.Append(drafts=drafts):
            return "POST", "/events", {"events": [draft_of(item) for item in drafts]}, True
        case do.SetVars(document=document, schema=schema, schema_version=version):
            return "PUT", "/state", {"vars": document, "schema": schema, "schema_version": version}, True
        case do.WriteScratchpad(content=content, agent=agent):
            return "PATCH", "/scratchpad", {"content": content, "agent": agent}, True
        case do.Reserve(reservation=name, amount=micros, purpose=purpose):
            return "POST", "/reserve", {"name": name, "amount": micros, "purpose": purpose} | _counts(command), True
        case do.Settle(reservation=name, cost=cost, estimated=estimated):
            return "POST", "/settle", {"name": name, "cost": cost, "estimated": estimated} | _counts(command), True
        case do.Correct(reservation=name, cost=cost):
            return "POST", "/correct", {"name": name, "cost": cost}, True
        case do.RollBack(reason=reason):
            return "POST", "/rollback", {"reason": reason}, False
        case do.Configure():
            return "PATCH", "", _configured(command), False
        case _:
            assert_never(command)


def _counts(command: do.Reserve | do.Settle) -> dict[str, int]:
    return {"tokens": command.tokens, "rounds": command.rounds}


def _configured(command: do.Configure) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if command.title is not None:
        body["title"] = command.title
    if command.tags is not None:
        body["tags"] = list(command.tags)
    if command.metadata is not None:
        body["metadata"] = command.metadata
    if command.config is not None:
        body["config"] = config_of(command.config, command.fields)
    return body
