"""Branches: a new session that shares another's log up to a point, for one record read and one append."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, NotFound, VersionConflict
from perdure.core.session import caps
from perdure.core.session import commands as do
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase
from perdure.core.session.origin import CHILD, BranchKind, Config, Lineage, must_branch
from perdure.core.session.state import State
from perdure.core.session.turns import Message, Turns, TurnStarted
from perdure.core.session.values import check
from perdure.ports.store import Head, Query, Row, Segment, Snapshot
from perdure.services.checkpoints import Checkpoints
from perdure.services.log import PAGE, stretches
from perdure.services.requests import BranchRequest
from perdure.services.sessions import Outcome, Prefix, Sessions

ROUNDS: Final = 100
BeforeBranch = Callable[[SessionId, int, str], Awaitable[None]]


class Branches:
    """Making and listing branches."""

    def __init__(self, sessions: Sessions, checkpoints: Checkpoints) -> None:
        self._sessions = sessions
        self._checkpoints = checkpoints
        self._store = sessions.store
        self.before: list[BeforeBranch] = []

    async def branch(self, session: SessionId, at: int | None, request: BranchRequest) -> Outcome:
        """A session that starts at version `at` of this one, or at its head."""
        asked = _asked(session, at, request)
        if (before := await self._sessions.repeated(None, request.key, asked)) is not None:
            return before
        for _ in range(ROUNDS):
            try:
                return await self._branch(session, at, request, asked)
            except VersionConflict:  # the parent was pruned or handed over meanwhile: look again
                continue
        raise VersionConflict(f"session {session} keeps changing; try again", session=session)

    async def _branch(self, session: SessionId, at: int | None, request: BranchRequest, asked: list[Any]) -> Outcome:
        head = await self._sessions.log.head(session)
        version = head.row.version if at is None else at
        kind = branch_kind(request.kind)
        _admit(head, version)
        config, overrides = overriding(request.config)
        for hook in self.before:
            await hook(session, version, kind.value)
        digest, turn = await self._sessions.log.place(head, version)
        prefix = await self._prefix(head, version, digest, turn)
        prefix = msgspec.structs.replace(prefix, timed=_timed(head.row, version, overrides))
        lineage = Lineage(
            parent=session, version=version, digest=digest, kind=kind, name=request.name, checkpoint=request.checkpoint
        )
        fresh = request.id or SessionId(self._sessions.fresh_id())
        account, moves = _account(head.row, config, fresh)
        command = do.Create(
            owner=head.row.owner,
            title=head.row.title if request.title is None else request.title,
            tags=head.row.tags,
            metadata=head.row.metadata,
            config=config,
            overrides=overrides,
            account=account,
            lineage=lineage,
            activate=True,
        )
        return await self._sessions.create(
            command, session=fresh, key=request.key, prefix=prefix, accounts=moves, asked=asked
        )

    async def resume(self, checkpoint: str, request: BranchRequest) -> Outcome:
        """A branch at a checkpoint; `CheckpointExpired` when its time is over."""
        request = msgspec.structs.replace(request, checkpoint=checkpoint)
        asked = _asked(None, None, request)
        if (before := await self._sessions.repeated(None, request.key, asked)) is not None:
            return before
        session, item = await self._checkpoints.get(checkpoint)
        return await self.branch(session, item.version, request)

    async def rewind(self, session: SessionId, turns: int, request: BranchRequest) -> Outcome:
        """A branch from before the last `turns` turns."""
        if turns < 1:
            raise Invalid("rewind by at least one turn", turns=turns)
        head = await self._sessions.log.head(session)
        events = await self._sessions.log.last_turns(head, turns)
        starts = [event.version for event in events if event.kind == TurnStarted.kind]
        if len(starts) < turns:
            raise NotFound(f"session {session} has only {len(starts)} turns to rewind", turns=len(starts))
        return await self.branch(session, starts[0] - 1, request)

    async def edit(self, session: SessionId, turn: int, content: Any, request: BranchRequest) -> Outcome:
        """A branch in which a turn starts anew with other words; the turn is left open for the answer."""
        check(content)
        start = await self._turn_start(session, turn)
        outcome = await self.branch(session, start - 1, request)
        again = (Draft(TurnStarted()), Draft(Message(role="user", content=content)))
        return await self._sessions.handle(outcome.session, do.Append(drafts=again))

    async def _turn_start(self, session: SessionId, turn: int) -> int:
        head = await self._sessions.log.head(session)
        if not 1 <= turn <= head.row.turns:
            raise NotFound(f"session {session} has no turn {turn}; it has {head.row.turns}", turn=turn)
        events = await self._sessions.log.last_turns(head, head.row.turns - turn + 1)
        for event in events:
            if event.turn == turn and event.kind == TurnStarted.kind:
                return event.version
        raise NotFound(f"turn {turn} of session {session} was pruned; nothing to edit", turn=turn)

    async def list(self, session: SessionId) -> tuple[Row, ...]:
        """The branches made from this session, newest first."""
        query = Query(tenant=self._sessions.identity.tenant, parent=session, limit=10_000)
        return tuple(row for row in await self._store.find(query) if row.branch_kind != CHILD)

    async def _prefix(self, head: Head, version: int, digest: bytes, turn: int | None) -> Prefix:
        segments: list[Segment] = []
        for item in stretches(head):
            if item.after >= version:
                break
            end = item.end if item.upto <= version else digest
            segments.append(Segment(source=item.source, origin=item.origin, upto=min(item.upto, version), digest=end))
        turns = Turns(count=await self._turns_at(head, version) if turn is None else turn)
        anchor: tuple[int, bytes] | None = None
        snapshot: Snapshot | None = None
        if head.anchor_digest is not None:
            anchor = (head.anchor_version, head.anchor_digest)
            snapshot = await self._store.snapshot(head.row.session, head.anchor_version)
        return Prefix(
            state=State(version=version, turns=turns),
            digest=digest,
            segments=tuple(segments),
            anchor=anchor,
            snapshot=snapshot,
        )

    async def _turns_at(self, head: Head, version: int) -> int:
        """The number of turns begun up to a version: the last turn number seen looking back from it."""
        for stretch in reversed(stretches(head)):
            upto = min(version, stretch.upto)
            while upto > stretch.after:
                run = await self._store.run(stretch.source, after=stretch.after, upto=upto, limit=PAGE, newest=True)
                for stored in reversed(run.records):
                    for offset in range(len(stored.record.entries) - 1, -1, -1):
                        number = stored.record.entries[offset].turn
                        if number is not None and stored.record.first + offset <= upto:
                            return number
                    upto = min(upto, stored.record.first - 1)
                if not run.records:
                    break
        if head.anchor_digest is not None:
            return (await self._sessions.loader.state_at(head.row.session, version)).turns.count
        return 0


def _asked(session: SessionId | None, at: int | None, request: BranchRequest) -> list[Any]:
    """What the caller asked for, wherever the parent stands by now."""
    place = [session, at] if request.checkpoint is None else [request.checkpoint]
    called = [] if request.id is None else [request.id]
    return ["branch", *place, request.kind, request.name, request.title, request.config, *called]


def _account(parent: Row, config: Config | None, fresh: SessionId) -> tuple[str | None, caps.Moves]:
    """The account a branch draws on, its parent's if there is one. An overriding cap must fit what that has left."""
    capped = caps.admit(config)
    if parent.account is None:
        return (fresh if capped else None), caps.opened(fresh, capped)
    return parent.account, caps.fitting(parent.account, capped)


def _timed(parent: Row, version: int, overrides: tuple[str, ...]) -> bool:
    """Whether a branch may inherit time-outs: surely not from a parent that is at work without any."""
    without = parent.version == version and parent.phase == Phase.ACTIVE.value and parent.due_at is None
    return "timeouts" not in overrides and not without


def branch_kind(name: str) -> BranchKind:
    """The kind of this name, or `Invalid` naming the kinds there are."""
    try:
        return BranchKind(name)
    except ValueError:
        names = ", ".join(kind.value for kind in BranchKind)
        raise Invalid(f"{name!r} is not a kind of branch; use one of {names}", kind=name) from None


def _admit(head: Head, version: int) -> None:
    row = head.row
    must_branch(row.session, row.parent, row.branch_kind)
    if not head.anchor_version < version <= row.version:
        raise NotFound(
            f"session {row.session} has no version {version} to branch at; it has "
            f"{head.anchor_version + 1} to {row.version}",
            session=row.session,
            version=version,
        )


def overriding(fields: dict[str, Any]) -> tuple[Config | None, tuple[str, ...]]:
    """The configuration fields a branch replaces, checked."""
    if not fields:
        return None, ()
    try:
        return msgspec.convert(fields, Config), tuple(sorted(fields))
    except msgspec.ValidationError as wrong:
        raise Invalid(f"config: {wrong}", fields=tuple(fields)) from wrong
