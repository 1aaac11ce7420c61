"""Archiving: an ended session's log goes to cold storage as one bundle, and comes back when wanted.

The order is such that a crash anywhere loses nothing and running again finishes: the session moves to ARCHIVED (its
last event is in the bundle as well), the bundle is written, read back and proven, and only then does the store forget
its records, if the session is still what the bundle holds. Thawing puts everything back in one transaction; the bundle
stays where it is, since an older backup of the store may point to it.
"""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from perdure.core.errors import (
    BundleMissing,
    CallerError,
    ConflictError,
    MoveRefused,
    NotFound,
    PerdureError,
    Tampered,
    VersionConflict,
)
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved, Phase
from perdure.ports.store import Head, Query, Row
from perdure.services.bundles import bundled, name_of
from perdure.services.cooling import CoolingStore
from perdure.services.exporting import Progress
from perdure.services.lifecycle import Lifecycle
from perdure.services.sessions import Sessions
from perdure.services.unbundling import unbundled

ROUNDS: Final = 100
"""How often archiving starts over when the session changes meanwhile."""
PAGE: Final = 200
ENDED: Final = (Phase.COMPLETED.value, Phase.TERMINATED.value, Phase.ARCHIVED.value)


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was put away. `cold` names its bundle of `bytes` bytes; None where there is no cold storage."""

    session: SessionId
    version: int
    cold: str | None
    bytes: int


class NotArchived(msgspec.Struct, frozen=True, kw_only=True):
    """A session that could not be put away, and why."""

    session: SessionId
    error: PerdureError


class Archiving:
    """Putting sessions away and taking them back."""

    def __init__(self, sessions: Sessions, lifecycle: Lifecycle, store: CoolingStore) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._store = store
        self._ours: set[SessionId] = set()

    async def archive(self, session: SessionId, progress: Progress | None = None) -> Archived:
        """Put an ended session away; `MoveRefused` when it has not ended, or when there is nowhere to put it and it is
        archived already. Doing it again finishes what was begun.
        """
        head = await self._sessions.log.head(session)
        if head.row.phase != Phase.ARCHIVED.value or self._store.cold is None:
            self._ours.add(session)
            try:
                await self._lifecycle.move(session, "archive")
            except MoveRefused as refusal:
                if head.row.phase not in ENDED:
                    raise _not_ended(head.row, refusal) from None
                if self._store.cold is None or not await self._is_archived(session):
                    raise  # else somebody else has just done it
            finally:
                self._ours.discard(session)
        return await self._freeze(session, progress)

    async def _is_archived(self, session: SessionId) -> bool:
        return (await self._sessions.log.head(session)).row.phase == Phase.ARCHIVED.value

    async def moved(self, session: SessionId, moved: Moved) -> None:
        """What follows on a move to ARCHIVED, whoever made it."""
        if moved.to is Phase.ARCHIVED and session not in self._ours:
            await self._freeze(session, None)

    async def _freeze(self, session: SessionId, progress: Progress | None) -> Archived:
        for _ in range(ROUNDS):
            head = await self._sessions.log.head(session)
            cold, doubts = self._store.cold, self._store.doubts
            if cold is None or doubts is None or head.row.cold is not None:
                return await self._told(head)
            name = name_of(head)
            await doubts.note(session, [name])
            try:
                await self._keep(head, name, progress)
                await self._store.freeze(session, name, expected=head.row.digest, anchor=head.anchor_version)
            except (VersionConflict, BundleMissing, NotFound):
                await doubts.settle(session)
                if name_of(await self._sessions.log.head(session)) == name:
                    raise
                continue
            await doubts.settle(session)
        raise VersionConflict(f"session {session} keeps changing; try again", session=session)

    async def _keep(self, head: Head, name: str, progress: Progress | None) -> None:
        """Have the bundle in cold storage, proven; one that a crash left there whole is taken as it is."""
        cold = self._store.cold
        assert cold is not None
        wrapping = await self._store.wrapping(head.row.session)
        if await cold.stat(name) is not None:
            try:
                await unbundled(cold, name, head.row, wrapping)
            except Tampered:  # it is written anew, from the log in the store
                pass
            else:
                return
        await cold.put(name, bundled(self._store, head, self._sessions.ambient.now(), progress))
        await unbundled(cold, name, head.row, wrapping)

    async def _told(self, head: Head) -> Archived:
        row = head.row
        return Archived(session=row.session, version=row.version, cold=row.cold, bytes=await self.size(row) or 0)

    async def size(self, row: Row) -> int | None:
        """How many bytes a session's bundle has; None when it has none, or when that is missing."""
        if row.cold is None or self._store.cold is None:
            return None
        kept = await self._store.cold.stat(row.cold)
        return None if kept is None else kept.size

    async def sweep(self, before: int, progress: Progress | None = None) -> AsyncIterator[Archived | NotArchived]:
        """Put away every ended session that was last active before a time, and finish what a crash left undone."""
        query = Query(tenant=self._sessions.identity.tenant, phases=ENDED, active_before=before, limit=PAGE)
        total, done = await self._sessions.store.count(query), 0
        if self._store.doubts is not None:
            await self._store.doubts.settle()
        while rows := await self._sessions.store.find(query):
            for row in rows:
                if not self._is_away(row):
                    yield await self._swept(row.session)
                done += 1
                if progress is not None:
                    progress(done, max(done, total))
            query = msgspec.structs.replace(query, after=(rows[-1].created_at, rows[-1].session))

    def _is_away(self, row: Row) -> bool:
        return row.phase == Phase.ARCHIVED.value and (row.cold is not None or self._store.cold is None)

    async def _swept(self, session: SessionId) -> Archived | NotArchived:
        try:
            return await self.archive(session)
        except (CallerError, ConflictError, Tampered) as error:  # this one stays; the others can still go
            return NotArchived(session=session, error=error)

    async def thaw(self, session: SessionId) -> bool:
        """Bring a session's log back from cold storage; False when it does not lie there. It stays ARCHIVED."""
        await self._sessions.log.head(session)
        if self._store.doubts is not None:
            await self._store.doubts.settle()
        return await self._store.bring_back(session)


def _not_ended(row: Row, refusal: MoveRefused) -> MoveRefused:
    return MoveRefused(
        f"session {row.session} is {row.phase}, and only what has ended is put away; end it with complete() or "
        "terminate() first",
        session=row.session,
        **refusal.fields,
    )
