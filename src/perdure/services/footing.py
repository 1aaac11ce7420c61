"""Waking, the state: the newest checkpoint that can be used, replayed to the head and held against the fold of the log.

The log is the truth. So a checkpoint that is damaged, or says something else than the log, is passed over and made
anew, and a cached state that the log contradicts is dropped; only a log that does not prove itself is the end.
"""

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from perdure.core.errors import CheckpointIntegrity, Invalid, NoCheckpoint, NoFullCheckpoint
from perdure.core.session import state as states
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.turns import TurnFinished, TurnInterrupted, TurnRolledBack, TurnStarted
from perdure.core.session.waking import WakePolicy
from perdure.core.session.woken import Footing, Interrupted
from perdure.core.session.write import Checkpoint
from perdure.ports.store import Head
from perdure.services.checkpoints import expired, full_checkpoint
from perdure.services.loading import Loaded
from perdure.services.restoring import document_of
from perdure.services.sessions import Sessions

_ENDS = frozenset({TurnStarted.kind, TurnFinished.kind, TurnInterrupted.kind, TurnRolledBack.kind})


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it stands, proven: its head, its state, what that was restored from, and the turn left undone."""

    head: Head
    state: State
    footing: Footing
    interrupted: Interrupted | None


class Foundations:
    """Finding what a session stands on."""

    def __init__(self, sessions: Sessions) -> None:
        self._store = sessions.store
        self._log = sessions.log
        self._loader = sessions.loader
        self._ambient = sessions.ambient

    async def ground(self, session: SessionId, policy: WakePolicy) -> Ground:
        """The session's state, twice found and the same.

        `NoCheckpoint` and `NoFullCheckpoint` when one is required, `CheckpointIntegrity` when the newest is damaged and
        there shall be no fallback, `Tampered` when the log does not prove itself.
        """
        return await self._log.steadily(session, lambda head: self._ground(head, policy))

    async def _ground(self, head: Head, policy: WakePolicy) -> Ground:
        session, now = head.row.session, self._ambient.now()
        loaded = await self._loader.load(session)
        while loaded.digest != head.row.digest:  # it went on meanwhile
            head, loaded = await self._log.head(session), await self._loader.load(session)
        kept = [item for item in await self._store.checkpoints(session) if item.version <= head.row.version]
        usable = [item for item in kept if not expired(item, now)]
        if policy.require_checkpoint:
            _must_have(session, usable)
        newest = next((item for item in reversed(usable) if item.payload_sha), None)
        agreed = newest is not None and await self._leads(head, loaded.state, newest, kept) is not None
        state = loaded.state if agreed else await self._truth(head, loaded)
        footing = await self._stand(head, state, usable, kept, policy)
        dropped = state is not loaded.state
        return Ground(
            head=head,
            state=state,
            footing=msgspec.structs.replace(footing, snapshot_dropped=dropped),
            interrupted=await self._interrupted(head),
        )

    async def _truth(self, head: Head, loaded: Loaded) -> State:
        """What the log alone gives. A state cached from a snapshot that says something else is dropped."""
        state = await self._loader.replayed(head, head.row.version)
        if states.to_bytes(state) == states.to_bytes(loaded.state):
            return loaded.state
        await self._store.drop_snapshots(head.row.session, head.anchor_version + 1)
        self._loader.remember(head.row.session, msgspec.structs.replace(loaded, state=state, snapshot_version=0))
        return state

    async def _stand(
        self, head: Head, state: State, usable: Sequence[Checkpoint], kept: Sequence[Checkpoint], policy: WakePolicy
    ) -> Footing:
        """The newest checkpoint that leads to this state. Those that do not are made anew."""
        session = head.row.session
        damaged: list[Checkpoint] = []
        blank: list[Checkpoint] = []
        for item in reversed(usable):
            if not item.payload_sha:  # it waits to be made anew after a redaction
                blank.append(item)
                continue
            replayed = await self._leads(head, state, item, kept)
            if replayed is not None:
                rebuilt = await self._rebuild(session, [*damaged, *blank])
                chain = _chain(item, kept)
                return Footing(
                    seq=item.seq,
                    checkpoint=item.id,
                    version=item.version,
                    full=chain[-1].seq,
                    deltas=len(chain) - 1,
                    replayed=replayed,
                    damaged=tuple(other.seq for other in damaged),
                    rebuilt=rebuilt,
                )
            if not policy.allow_fallback:
                raise _broken(session, item)
            damaged.append(item)
        if policy.require_checkpoint and damaged:
            raise _broken(session, damaged[0])
        rebuilt = await self._rebuild(session, [*damaged, *blank])
        return Footing(replayed=state.version, damaged=tuple(item.seq for item in damaged), rebuilt=rebuilt)

    async def _leads(self, head: Head, state: State, item: Checkpoint, kept: Sequence[Checkpoint]) -> int | None:
        """How many events lead from a checkpoint to the state, if they do."""
        document = document_of(kept, item.seq)
        if document is None:
            return None
        try:
            reached = states.from_bytes(states.document_bytes(document))
        except Invalid:
            return None
        count = 0
        async for events in self._log.pages(head, max(item.version, head.anchor_version), state.version):
            reached, count = states.fold(reached, events), count + len(events)
        return count if states.to_bytes(reached) == states.to_bytes(state) else None

    async def _rebuild(self, session: SessionId, items: Sequence[Checkpoint]) -> tuple[int, ...]:
        made = [full_checkpoint(item, await self._loader.state_at(session, item.version)) for item in items]
        if made:
            await self._store.save_checkpoints(session, made)
        return tuple(sorted(item.seq for item in items))

    async def _interrupted(self, head: Head) -> Interrupted | None:
        """How the last turn ended, if before its time and not long ago; the tail of the log is proven on the way."""
        async with aclosing(self._log.backwards(head)) as pages:
            async for page in pages:
                return next((_undone(event) for event in page if event.kind in _ENDS), None)
        return None


def _undone(event: Event) -> Interrupted | None:
    data = event.data
    if not isinstance(data, TurnInterrupted):
        return None
    return Interrupted(turn=event.turn, version=event.version, reason=data.reason, unfinished=data.unfinished)


def _chain(item: Checkpoint, kept: Sequence[Checkpoint]) -> list[Checkpoint]:
    """A checkpoint and those it stands on, down to the full one."""
    by_seq = {other.seq: other for other in kept}
    found = [item]
    while (base := found[-1].base) is not None:
        found.append(by_seq[base])
    return found


def _must_have(session: SessionId, usable: Sequence[Checkpoint]) -> None:
    if not usable:
        raise NoCheckpoint(
            f"session {session} has no checkpoint to wake from; take one, or wake it from its log without "
            "require_checkpoint",
            session=session,
        )
    if not any(item.full for item in usable):
        raise NoFullCheckpoint(
            f"session {session} has {len(usable)} checkpoints and no full one; restore one of them once, or wake it "
            "without require_checkpoint",
            session=session,
            checkpoints=tuple(item.id for item in usable),
        )


def _broken(session: SessionId, item: Checkpoint) -> CheckpointIntegrity:
    return CheckpointIntegrity(
        f"checkpoint {item.seq} of session {session} is not what was written; allow a fallback, or restore it once to "
        "have it made anew from the log",
        session=session,
        checkpoint=item.id,
        seq=item.seq,
    )
