"""Loading a session: from what this process remembers, from a snapshot, or from the whole log.

A snapshot is a cache: one that does not match its checksum is passed over, and the log speaks for itself.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from perdure.core.errors import Damaged, Invalid, NotFound, WorldError
from perdure.core.session import state as states
from perdure.core.session.ids import SessionId
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import State
from perdure.core.session.write import Base
from perdure.ports.ambient import Ambient
from perdure.ports.store import Head, Snapshot, Store
from perdure.services.acting import is_another
from perdure.services.log import Log

CACHED_SESSIONS: Final = 1024
WORTH_SAVING: Final = 100
"""Events since the last snapshot that make one more worth its bytes when the store is closed."""
FLUSHED: Final = 64


class SnapshotPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a state is cached beside the log."""

    events: int = 1000
    bytes: int = 4 << 20
    replay_ms: int = 200


class Loaded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session as this process last saw it. `base` is its latest checkpoint, for the next delta."""

    state: State
    digest: bytes
    at: int = 0
    snapshot_version: int = 0
    unsaved_bytes: int = 0
    base: Base | None = None


class Loader:
    """Sessions as they stand, with a bounded cache of the ones in use."""

    def __init__(self, store: Store, ambient: Ambient, policy: SnapshotPolicy, tenant: str) -> None:
        self.log = Log(store, tenant)
        self._store = store
        self._ambient = ambient
        self._policy = policy
        self._cache: OrderedDict[SessionId, Loaded] = OrderedDict()
        self.forgetting: list[Callable[[SessionId | None], object]] = []
        """Who else keeps something of sessions, and forgets it with this."""

    def recent(self, session: SessionId) -> Loaded | None:
        """The session as last seen, without asking the store; compare-and-set tells when that is stale."""
        found = self._cache.get(session)
        return None if found is None or is_another(session, found.state.origin.created_at) else found

    async def load(self, session: SessionId) -> Loaded:
        """The session as it stands in the store now, or `NotFound`."""
        return await self.log.steadily(session, self._load)

    async def _load(self, head: Head) -> Loaded:
        session = head.row.session
        known = self._cache.get(session)
        if known is not None and known.state.version == head.row.version and known.digest == head.row.digest:
            if session in self._cache:
                self._cache.move_to_end(session)
            return known
        if known is not None and head.anchor_version <= known.state.version < head.row.version:
            loaded = await self._replay(head, known, head.row.version, cached=True)
        else:
            loaded = await self._fold(head, head.row.version)
        self.remember(session, loaded)
        return loaded

    async def state_at(self, session: SessionId, version: int) -> State:
        """The state after a version of the past, or `NotFound`."""
        return await self.log.steadily(session, lambda head: self._state_at(head, version))

    async def _state_at(self, head: Head, version: int) -> State:
        session = head.row.session
        if version < max(1, head.anchor_version) or version > head.row.version:
            raise NotFound(
                f"session {session} has no version {version}; it has {max(1, head.anchor_version)} to "
                f"{head.row.version}",
                session=session,
                version=version,
            )
        return (await self._fold(head, version)).state

    async def replayed(self, head: Head, upto: int) -> State:
        """The state folded from the log alone, past every cache but a pruned log's anchor."""
        start = states.BLANK
        if head.anchor_digest is not None:
            start = await self._anchor(head)
        async for events in self.log.pages(head, start.version, upto):
            start = states.fold(start, events)
        return start

    async def _fold(self, head: Head, upto: int) -> Loaded:
        started = self._ambient.now()
        state = await self._cached_state(head, upto)
        from_snapshot = Loaded(state=state, digest=head.row.digest, snapshot_version=state.version)
        loaded = await self._replay(head, from_snapshot, upto)
        slow = self._ambient.now() - started > self._policy.replay_ms * 1000
        if upto == head.row.version and (slow or upto - state.version > self._policy.events):
            await self._save(head.row.session, loaded)
            loaded = msgspec.structs.replace(loaded, snapshot_version=upto)
        return loaded

    async def _replay(self, head: Head, known: Loaded, upto: int, *, cached: bool = False) -> Loaded:
        """What follows on a known state. One that was cached before a redaction may hold what was redacted, and one of
        a session that was erased and begun anew, or put back from a backup, is not what this log goes on from.
        """
        state, digest, at = known.state, known.digest, known.at
        overlap = cached and state.version > head.anchor_version
        if cached and not overlap and head.anchor_digest != digest:
            return await self._fold(head, upto)
        async for events in self.log.pages(head, state.version - overlap, upto):
            if overlap:  # the first event is the last of those that are known
                if events[0].digest != digest:
                    return await self._fold(head, upto)
                overlap = False
                del events[0]
                if not events:
                    continue
            if cached and any(event.kind == Redacted.kind for event in events):
                return await self._fold(head, upto)
            state = states.fold(state, events)
            digest, at = events[-1].digest, max(at, events[-1].at)
        return msgspec.structs.replace(known, state=state, digest=digest, at=at, base=None)

    async def _cached_state(self, head: Head, upto: int) -> State:
        """The best snapshot to start from: the session's own, or one of a log whose prefix it shares."""
        lower = [0, *(item.upto for item in head.segments)]
        sources = [(head.row.session, upto, lower[-1])]
        for index in range(len(head.segments) - 1, -1, -1):
            item = head.segments[index]
            if item.source == item.origin:
                sources.append((item.source, min(upto, item.upto), lower[index]))
        for source, bound, above in sources:
            found = await self._store.snapshot(source, bound) if bound > above else None
            state = opened(found)
            if state is not None and state.version > above and state.session == source:
                return state
        return await self._anchor(head) if head.anchor_digest is not None else states.BLANK

    async def _anchor(self, head: Head) -> State:
        found = await self._store.snapshot(head.row.session, head.anchor_version)
        state = opened(found)
        if state is None or state.version != head.anchor_version:
            raise Damaged(
                f"the snapshot that anchors the pruned session {head.row.session} is unreadable; restore a backup",
                session=head.row.session,
            )
        return state

    def due(self, loaded: Loaded, version: int, unsaved: int) -> bool:
        """Whether the next append should carry a snapshot."""
        return version - loaded.snapshot_version >= self._policy.events or unsaved >= self._policy.bytes

    def remember(self, session: SessionId, loaded: Loaded) -> None:
        """Keep a session as last seen; the least used one goes."""
        self._cache[session] = loaded
        self._cache.move_to_end(session)
        while len(self._cache) > CACHED_SESSIONS:
            self._cache.popitem(last=False)

    async def flush(self) -> None:
        """Cache the states of the sessions last used, so that the next process starts where this one stopped."""
        waiting = [
            item for item in self._cache.items() if item[1].state.version - item[1].snapshot_version >= WORTH_SAVING
        ]
        for session, loaded in waiting[-FLUSHED:]:
            await self._save(session, loaded)
            self.remember(session, msgspec.structs.replace(loaded, snapshot_version=loaded.state.version))

    async def _save(self, session: SessionId, loaded: Loaded) -> None:
        """Cache a state beside the log, but only that of the head: what came later may have destroyed content in it."""
        with suppress(WorldError):  # only a cache: a read-only, full or closed store goes on without it
            if not await self._stands(session, loaded):
                return
            await self._store.save_snapshot(session, snapshot_of(loaded.state))
            if not await self._stands(session, loaded):
                await self._store.drop_snapshots(session, loaded.state.version)

    async def _stands(self, session: SessionId, loaded: Loaded) -> bool:
        head = await self._store.head(session)
        return head is not None and head.row.digest == loaded.digest

    def forget(self, session: SessionId | None = None) -> None:
        """Drop what is cached of a session, or of all; the next use reads the store."""
        if session is None:
            self._cache.clear()
        else:
            self._cache.pop(session, None)
        for forget in self.forgetting:
            forget(session)


def stale(loaded: Loaded, expected: int | bytes | None) -> bool:
    """Whether a session is not where a caller has seen it: at a version, or at the digest of one."""
    found = loaded.digest if isinstance(expected, bytes) else loaded.state.version
    return expected is not None and expected != found


def snapshot_of(state: State) -> Snapshot:
    """A state as the store caches it."""
    data = states.to_bytes(state)
    return Snapshot(state.version, data, sha256(data).digest())


def opened(found: Snapshot | None) -> State | None:
    """The state in a snapshot, or None when it is damaged or of another schema."""
    if found is None or sha256(found.state).digest() != found.sha:
        return None
    try:
        state = states.from_bytes(found.state)
    except Invalid:
        return None
    return state if state.schema == states.SCHEMA_VERSION and state.version == found.version else None
