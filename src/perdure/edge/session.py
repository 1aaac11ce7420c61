"""One session, as async callers hold it. Every method is one call of one service."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.compose import Services
from perdure.core.errors import Invalid, NotFound, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session import diff as diffs
from perdure.core.session import state as states
from perdure.core.session.decide import drafts_of
from perdure.core.session.declared import Declared
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config, Lineage
from perdure.core.session.scratchpad import Pad
from perdure.core.session.shown import shown
from perdure.core.session.state import State
from perdure.core.session.tails import DEFAULT_DEPTH, tail
from perdure.core.session.transcript import Turn, turns_of
from perdure.core.session.values import clone
from perdure.edge import given
from perdure.edge.blobs import Attaching
from perdure.edge.conversing import Conversing
from perdure.edge.files import DiskFiles, refused_own
from perdure.edge.life import Erased, Living
from perdure.edge.spending import Spending
from perdure.edge.talking import Speaking
from perdure.edge.timing import Timed
from perdure.edge.turn import AsyncTurn
from perdure.ports.store import Change, Row
from perdure.services.requests import BranchRequest

if TYPE_CHECKING:
    from perdure.services.checkpoints import CheckpointInfo, Restored
    from perdure.services.merging import MergeReport
    from perdure.services.verifying import Report

T = TypeVar("T")


class AsyncSession(Attaching, Conversing, Living, Speaking, Spending, Timed):
    """A handle on one session. It holds nothing but the id: everything is read from the store."""

    def __init__(self, services: Services, session: SessionId) -> None:
        self._services = services
        self.id = session

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def _other(self, session: SessionId) -> "AsyncSession":
        return AsyncSession(self._services, session)

    # ── reading ──

    async def info(self) -> Row:
        """Title, phase, owner, tags, version and the rest of what a list shows."""
        return (await self._services.sessions.log.head(self.id)).row

    async def version(self) -> int:
        """The version of the latest event."""
        return (await self.info()).version

    async def state(self, at: int | None = None) -> State:
        """Everything about the session but its history, now or after a version."""
        if at is None:
            return states.copy(await self._state())
        return await self._services.sessions.loader.state_at(self.id, given.number_of(at, "a version"))

    async def events(self, after: int = 0, upto: int | None = None) -> list[Event]:
        """The log after a version, every byte checked against the chain."""
        log = self._services.sessions.log
        first, last = given.number_of(after, "after"), given.maybe_number(upto, "upto")
        return await log.steadily(self.id, lambda head: log.events(head, max(first, head.anchor_version), last))

    async def turns(self, last: int | None = None) -> list[Turn]:
        """The conversation, whole or its last turns; no tool call is ever cut from its result."""
        log = self._services.sessions.log
        if last is None:
            return turns_of(await log.steadily(self.id, lambda head: log.events(head, head.anchor_version)))
        wanted = given.number_of(last, "last")
        if wanted < 1:
            raise Invalid("ask for at least one turn", last=last)
        return turns_of(await log.steadily(self.id, lambda head: log.last_turns(head, wanted)))

    async def tail(self, agent: str, depth: int = DEFAULT_DEPTH) -> tuple[Event, ...]:
        """The last events that concern one agent; reads no further back than it must."""
        log, wanted = self._services.sessions.log, given.number_of(depth, "depth")
        found: list[Event] = []
        async with aclosing(log.backwards(await log.head(self.id))) as pages:
            async for page in pages:
                found += reversed(tail(page, given.text_of(agent, "agent"), wanted - len(found)))
                if len(found) >= wanted:
                    break
        return tuple(reversed(found))

    async def watch(self, after: int | None = None) -> AsyncIterator[Change]:
        """Changes of this session as they are committed, by anyone."""
        async for change in self._services.finding.watch(after, self.id):
            yield change

    # ── writing ──

    async def append(
        self,
        events: Sequence[Payload | Draft] | Payload | Draft,
        *,
        expected: int | None = None,
        key: str | None = None,
    ) -> int:
        """Write events as one durable append; the new version.

        With `expected`, a stale version is a conflict that names the current one. With `key`, repeating the call
        changes nothing and returns the same version.
        """
        items = [events] if isinstance(events, (Payload, Draft)) else events
        command = do.Append(drafts=drafts_of(items))
        return await self._do(command, expected=expected, key=key)

    def turn(self, text: Any = None, *, model: str | None = None, agent: str | None = None) -> AsyncTurn:
        """A turn as a block; an exception inside leaves it interrupted."""
        return AsyncTurn(self._services, self.id, text, model, agent)

    async def configure(
        self,
        *,
        title: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: dict[str, Any] | None = None,
        config: Config | dict[str, Any] | None = None,
        expected: int | None = None,
    ) -> int:
        """Change title, tags, metadata or configuration; what is not given stays.

        Of the configuration a dict changes the fields it names and a `Config` changes all, but a cap (of cost, tokens
        or rounds) is removed only by name, as in `{"max_cost": None}`. The first cap gives the session an account,
        shared with branches made from then on.
        """
        command = do.Configure(
            title=given.maybe_text(title, "title"),
            tags=None if tags is None else given.texts_of(tags, "tag"),
            metadata=None if metadata is None else given.document_of(metadata, "metadata"),
            config=given.config_of(config),
            fields=given.fields_of(config),
        )
        return await self._do(command, expected=expected)

    @overload
    async def vars(self) -> dict[str, Any]: ...
    @overload
    async def vars(self, declared: Declared[T]) -> T: ...
    async def vars(self, declared: Declared[Any] | None = None) -> Any:
        """The application's own state: the plain document, or the type it declared, migrated if it is older."""
        found = (await self._state()).vars
        if declared is None:
            return clone(found.document)
        return given.declared_of(declared).load(found.document, found.schema_version or None)

    async def set_vars(self, value: Any, declared: Declared[Any] | None = None, *, expected: int | None = None) -> int:
        """Replace the application's own state: a plain document, or an instance of what was declared."""
        command = given.set_vars_of((await self._state()).vars, value, declared)
        return await self._do(command, expected=expected)

    async def patch_vars(self, /, **changes: Any) -> int:
        """Change some top-level fields of the application's state; None removes nothing, it is a value."""
        while True:
            state = await self._state()
            command = do.SetVars(document={**state.vars.document, **changes})
            try:
                return await self._do(command, expected=state.version)
            except VersionConflict:  # somebody was first: change what is there now
                continue

    async def scratchpad(self, agent: str | None = None) -> str:
        """What the scratchpad says."""
        name = given.maybe_text(agent, "agent") or ""
        return (await self._state()).scratchpads.pads.get(name, Pad()).content

    async def write_scratchpad(self, content: str, *, agent: str | None = None, expected: int | None = None) -> int:
        """Replace what the scratchpad says."""
        pad = given.maybe_text(agent, "agent")
        return await self._do(do.WriteScratchpad(content=content, agent=pad), expected=expected)

    # ── going on ──

    async def resume(
        self,
        checkpoint: str | None = None,
        *,
        title: str | None = None,
        config: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> "AsyncSession":
        """Without a checkpoint, wake this session in place, as `wake` does; with one, a new session that goes on from
        there.
        """
        if checkpoint is None:
            await self._services.waking.wake(self.id, key=key)
            return self
        request = BranchRequest(title=given.maybe_text(title, "title"), config=given.overrides_of(config), key=key)
        made = await self._services.branches.resume(await self._own(checkpoint), request)
        return self._other(made.session)

    async def roll_back(self, reason: str = "") -> int:
        """Drop the open turn from the conversation; its money stays spent."""
        return await self._do(do.RollBack(reason=reason))

    # ── checkpoints and branches ──

    async def checkpoint(
        self, label: str = "", metadata: dict[str, Any] | None = None, *, key: str | None = None
    ) -> "CheckpointInfo":
        """Make the present state one that can be resumed from."""
        return await self._services.checkpoints.take(
            self.id, given.text_of(label, "label"), given.document_of(metadata, "metadata"), key=key
        )

    async def checkpoints(self) -> "tuple[CheckpointInfo, ...]":
        """The checkpoints that can be used, oldest first."""
        return await self._services.checkpoints.list(self.id)

    async def _own(self, checkpoint: str) -> str:
        """The id of a checkpoint, unless it is another session's."""
        found = await self._services.store.checkpoint(given.text_of(checkpoint, "checkpoint"))
        if found is not None and found[0] != self.id:
            # in the words for one that is nowhere: whose it is, is nobody's business
            raise NotFound(f"no checkpoint {checkpoint}; look at the session's checkpoints", checkpoint=checkpoint)
        if found is None:  # those of an archived session are known once it was looked at
            await self._services.store.checkpoints(self.id)
        return checkpoint

    async def pin(self, checkpoint: str) -> "CheckpointInfo":
        """Keep a checkpoint for as long as the session lives."""
        return await self._services.checkpoints.pin(await self._own(checkpoint))

    async def unpin(self, checkpoint: str) -> "CheckpointInfo":
        """Let a checkpoint expire again."""
        return await self._services.checkpoints.pin(await self._own(checkpoint), False)

    async def drop_checkpoint(self, checkpoint: str) -> None:
        """Make a checkpoint's id unusable now."""
        await self._services.checkpoints.drop(await self._own(checkpoint))

    async def restore(self, checkpoint: str) -> "Restored":
        """The state a checkpoint holds; a damaged copy is rebuilt from the log, and says so."""
        return await self._services.checkpoints.restore(await self._own(checkpoint))

    async def branch(
        self,
        at: int | None = None,
        *,
        kind: str = "checkpoint",
        name: str = "",
        title: str | None = None,
        config: dict[str, Any] | None = None,
        id: str | None = None,
        key: str | None = None,
    ) -> "AsyncSession":
        """A session that shares this one's log up to a version and goes its own way, under the id it is given if any:
        that of `db.named(…)` makes it go by a name.
        """
        request = BranchRequest(
            kind=given.text_of(kind, "kind"),
            name=given.text_of(name, "name"),
            title=given.maybe_text(title, "title"),
            config=given.overrides_of(config),
            id=None if id is None else given.id_of(id),
            key=key,
        )
        place = given.maybe_number(at, "a version")
        return self._other((await self._services.branches.branch(self.id, place, request)).session)

    async def rewind(self, turns: int = 1, *, to: int | None = None, title: str | None = None) -> "AsyncSession":
        """A branch from before the last turns, or at a version."""
        request = BranchRequest(name="rewind", title=given.maybe_text(title, "title"))
        branches = self._services.branches
        if to is None:
            made = await branches.rewind(self.id, given.number_of(turns, "turns"), request)
        else:
            made = await branches.branch(self.id, given.number_of(to, "a version"), request)
        return self._other(made.session)

    async def edit(self, turn: int, content: Any, *, title: str | None = None) -> "AsyncSession":
        """A branch in which a turn starts anew with other words, left open for the answer."""
        request = BranchRequest(name="edit", title=given.maybe_text(title, "title"))
        made = await self._services.branches.edit(self.id, given.number_of(turn, "a turn"), content, request)
        return self._other(made.session)

    async def branches(self) -> tuple[Row, ...]:
        """The branches made from this session, newest first."""
        return await self._services.branches.list(self.id)

    async def lineage(self) -> Lineage | None:
        """Where this session branched from, if it did."""
        return (await self._state()).origin.lineage

    async def diff(self, other: "AsyncSession | int", *, version: int | None = None) -> diffs.Patch:
        """What leads from this session's vars and scratchpads to another's, or from a version to the present one."""
        if not isinstance(other, AsyncSession):
            return await self._services.merging.diff(await self.state(other), await self.state(version))
        return await self._services.merging.diff(await self.state(), await other.state(version))

    async def merge(
        self, source: "AsyncSession", policy: str = "escalate", *, summary: str | None = None
    ) -> "MergeReport":
        """Take over another session's vars and scratchpads, three-way."""
        if not isinstance(source, AsyncSession):
            raise Invalid(f"merge another session, not {shown(source)}")
        return await self._services.merging.merge(self.id, source.id, given.text_of(policy, "policy"), summary)

    async def resolve(self, conflict: str, choices: dict[str, Any], *, summary: str | None = None) -> "MergeReport":
        """Settle a conflict a merge left: for each path `ours` (what is there now), `theirs`, `base`, or a value as
        `{"value": …}`.
        """
        return await self._services.merging.resolve(self.id, given.text_of(conflict, "conflict"), choices, summary)

    # ── taking away, proving, moving ──

    async def redact(self, versions: Iterable[int] | int, reason: str = "") -> int:
        """Destroy the content of events; the chain stays whole."""
        wanted = [versions] if isinstance(versions, int) else versions
        if not isinstance(wanted, Iterable):
            raise Invalid(f"name the versions to redact, not {shown(wanted)}")
        numbers = [given.number_of(version, "a version") for version in wanted]
        return (await self._services.erasure.redact(self.id, numbers, reason)).version

    async def prune(self, upto: int) -> int:
        """Drop the log up to a version, for good; the version really pruned to."""
        return await self._services.erasure.prune(self.id, given.number_of(upto, "a version"))

    async def erase(self, *, expected: int | None = None, forget: bool = False) -> Erased:
        """Remove the session for good; how many branches were given their own copy of its log first. With `expected`,
        one that has gone on from that version is a conflict, and stays. With `forget`, what was learnt from it is
        forgotten in every space, and `memories` of the answer says how many that were.
        """
        seen = given.maybe_number(expected, "expected")
        if not given.flag_of(forget, "forget"):
            return Erased(await self._services.erasure.erase(self.id, seen))
        gone = await self._services.sourcing.erase_session(self.id, seen)
        return Erased(gone.branches, gone.memories)

    async def verify(self) -> "Report":
        """Check every byte of the session against its chain."""
        return await self._services.verifying.verify(self.id)

    async def export(
        self, path: str | os.PathLike[str] | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> list[bytes]:
        """The session as JSONL, one event a line: as lines, or into a file that is there whole or not at all."""
        target = None if path is None else refused_own(self._services, given.path_of(path))
        lines = self._services.exporting.export(self.id, given.progress_of(progress))
        if target is None:
            return [line async for line in lines]
        await DiskFiles().replace(target, lines)
        return []

    async def mirror(self, path: str | os.PathLike[str], *, finish: bool = False) -> int:
        """Keep a JSONL file in step with the session: write what it lacks; how many lines that were."""
        ends = given.flag_of(finish, "finish")
        return await self._services.mirroring.mirror(self.id, given.path_of(path), DiskFiles(), finish=ends)
