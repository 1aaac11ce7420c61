"""Checkpoints: taking, listing, pinning, expiring, restoring. A damaged one is rebuilt from the log."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core.errors import CheckpointExpired, Invalid, NotFound
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.checkpoints import Trigger
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.write import Checkpoint
from perdure.services.loading import Loaded
from perdure.services.restoring import document_of
from perdure.services.sessions import Extra, Sessions

MAX_LABEL = 200


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as callers see it."""

    id: str
    session: SessionId
    seq: int
    version: int
    label: str
    trigger: str
    full: bool
    at: int
    expires_at: int | None
    pinned: bool
    size: int
    metadata: dict[str, Any]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The state a checkpoint holds; `rebuilt` when its kept copy was damaged and the log had to speak."""

    checkpoint: CheckpointInfo
    state: State
    rebuilt: bool


class Checkpoints:
    """Everything about checkpoints of sessions."""

    def __init__(self, sessions: Sessions, taken: Callable[[SessionId], Awaitable[None]] | None = None) -> None:
        """`taken` is told of a session after somebody took a checkpoint of it."""
        self._sessions = sessions
        self._store = sessions.store
        self._taken = taken

    async def take(
        self, session: SessionId, label: str = "", metadata: dict[str, Any] | None = None, *, key: str | None = None
    ) -> CheckpointInfo:
        """Make the present state one that can be resumed from."""
        if type(label) is not str or len(label) > MAX_LABEL:
            raise Invalid(f"a label is a text of at most {MAX_LABEL} characters, not {label!r:.80}", limit=MAX_LABEL)
        command = do.TakeCheckpoint(label=label, metadata=metadata or {}, trigger=Trigger.MANUAL)
        outcome = await self._sessions.handle(session, command, key=key)
        if self._taken is not None:
            await self._taken(session)
        kept = await self._store.checkpoints(session)
        taken = next((item for item in kept if item.version == outcome.first - 1 and item.label == label), None)
        if taken is None:
            raise CheckpointExpired(f"the checkpoint taken with key {key!r} is gone; use a fresh key", key=key)
        return info(session, taken)

    async def list(self, session: SessionId) -> tuple[CheckpointInfo, ...]:
        """A session's checkpoints, oldest first; expired ones are not among them."""
        await self._sessions.log.head(session)
        now = self._sessions.ambient.now()
        return tuple(info(session, item) for item in await self._store.checkpoints(session) if not expired(item, now))

    async def get(self, checkpoint: str) -> tuple[SessionId, Checkpoint]:
        """One checkpoint by id; `CheckpointExpired` or `NotFound` when it cannot be used."""
        session, item = await self._find(checkpoint)
        if expired(item, self._sessions.ambient.now()):
            raise CheckpointExpired(
                f"checkpoint {checkpoint} has expired; branch at version {item.version} instead",
                checkpoint=checkpoint,
                version=item.version,
            )
        return session, item

    async def pin(self, checkpoint: str, pinned: bool = True) -> CheckpointInfo:
        """Keep a checkpoint for as long as its session lives, or no longer."""
        session, changed = await self.get(checkpoint)

        async def carry(_: Loaded) -> Extra:
            nonlocal changed  # read once the state is known, so that nothing that was redacted since comes back
            changed = msgspec.structs.replace((await self.get(checkpoint))[1], pinned=pinned)
            return Extra(checkpoints=(changed,))

        await self._sessions.handle(session, do.PinCheckpoint(id=checkpoint, pinned=pinned), extra=carry)
        return info(session, changed)

    async def drop(self, checkpoint: str) -> None:
        """Make a checkpoint's id unusable now."""
        await self._expire((await self._find(checkpoint))[0], {checkpoint})

    async def _find(self, checkpoint: str) -> tuple[SessionId, Checkpoint]:
        """One checkpoint by id, also an expired one; `NotFound` when it is gone or another tenant's."""
        found = await self._store.checkpoint(checkpoint)
        try:
            if found is not None:
                await self._sessions.log.head(found[0])
                return found
        except NotFound:
            pass
        raise NotFound(f"no checkpoint {checkpoint}; look at the session's checkpoints", checkpoint=checkpoint)

    async def expire_due(self, session: SessionId) -> int:
        """Drop what has expired; how many that were."""
        now = self._sessions.ambient.now()
        due = {item.id for item in await self._store.checkpoints(session) if expired(item, now)}
        if due:
            await self._expire(session, due)
        return len(due)

    async def _expire(self, session: SessionId, ids: set[str]) -> None:
        """Drop rows; a delta whose base goes becomes full in the same append."""

        async def carry(_: Loaded) -> Extra:
            kept = await self._store.checkpoints(session)
            gone = {item.seq for item in kept if item.id in ids}
            orphans = [item for item in kept if item.id not in ids and item.base in gone]
            full = tuple([await self._as_full(session, item, kept) for item in orphans])
            return Extra(checkpoints=full, dropped_checkpoints=tuple(ids))

        await self._sessions.handle(session, do.ExpireCheckpoints(ids=tuple(sorted(ids))), extra=carry)

    async def _as_full(self, session: SessionId, item: Checkpoint, kept: tuple[Checkpoint, ...]) -> Checkpoint:
        document = document_of(kept, item.seq)
        if document is None:
            return full_checkpoint(item, await self._sessions.loader.state_at(session, item.version))
        payload = states.document_bytes(document)
        return msgspec.structs.replace(
            item, full=True, base=None, payload=payload, payload_sha=sha256(payload).digest()
        )

    async def restore(self, checkpoint: str) -> Restored:
        """The state a checkpoint holds. A damaged copy is rebuilt from the log and put back; the caller is told."""
        session, item = await self.get(checkpoint)
        document = document_of(await self._store.checkpoints(session), item.seq)
        if document is not None:
            state = states.from_bytes(states.document_bytes(document))
            return Restored(checkpoint=info(session, item), state=state, rebuilt=False)
        state = await self._sessions.loader.state_at(session, item.version)
        await self._store.save_checkpoints(session, [full_checkpoint(item, state)])
        return Restored(checkpoint=info(session, item), state=state, rebuilt=True)

    async def rebuild(self, session: SessionId, since: int) -> None:
        """Make every checkpoint at or after a version anew from the log."""
        kept = [item for item in await self._store.checkpoints(session) if item.version >= since]
        made = [full_checkpoint(item, await self._sessions.loader.state_at(session, item.version)) for item in kept]
        if made:
            await self._store.save_checkpoints(session, made)


def expired(item: Checkpoint, now: int) -> bool:
    """Whether its time is over; pinned ones have no end."""
    return not item.pinned and item.expires_at is not None and item.expires_at <= now


def full_checkpoint(item: Checkpoint, state: State) -> Checkpoint:
    """The checkpoint with this state as its full payload."""
    payload = states.to_bytes(state)
    sha = sha256(payload).digest()
    return msgspec.structs.replace(item, full=True, base=None, payload=payload, payload_sha=sha, state_sha=sha)


def info(session: SessionId, item: Checkpoint) -> CheckpointInfo:
    """What callers see of a checkpoint."""
    return CheckpointInfo(
        id=item.id,
        session=session,
        seq=item.seq,
        version=item.version,
        label=item.label,
        trigger=item.trigger,
        full=item.full,
        at=item.at,
        expires_at=item.expires_at,
        pinned=item.pinned,
        size=len(item.payload),
        metadata=item.metadata,
    )
