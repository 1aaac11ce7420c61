"""A store in front of another one that changes nothing: what a store that changes a little is made from."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, Final

from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.write import Checkpoint
from perdure.ports.store import (
    Change,
    Commit,
    Head,
    Kept,
    KeyUse,
    Query,
    Remembered,
    Row,
    Run,
    Segment,
    Snapshot,
    Store,
    Stored,
    Wrapping,
)

EXTRAS: Final = ("blobs", "tier", "largest_position", "path", "salts", "seals")
"""What some stores offer besides."""


class PassingStore:
    """A `Store` over another one. What each method promises, the Protocol says."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.tiers = store.tiers
        self.near = store.near
        for name in EXTRAS:
            if hasattr(store, name):
                setattr(self, name, getattr(store, name))

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        return await self.inner.run(source, after=after, upto=upto, limit=limit, newest=newest)

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        return await self.inner.snapshot(session, upto)

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        return await self.inner.snapshots(session)

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        await self.inner.save_snapshot(session, snapshot)

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        await self.inner.save_checkpoints(session, checkpoints)

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        return await self.inner.checkpoints(session)

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        return await self.inner.checkpoint(checkpoint)

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        await self.inner.prune(session, upto, digest, snapshot, expected=expected)

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        return await self.inner.erase(session, at, accounts, expected=expected)

    async def inspect(self) -> dict[str, Any]:
        return await self.inner.inspect()

    async def close(self) -> None:
        await self.inner.close()

    # ── what is often asked, or never changed on the way: the store's own coroutine is handed out ──

    def append(self, commits: Sequence[Commit]) -> Coroutine[Any, Any, int]:
        return self.inner.append(commits)

    def head(self, session: SessionId) -> Coroutine[Any, Any, Head | None]:
        return self.inner.head(session)

    def drop_snapshots(self, session: SessionId, since: int) -> Coroutine[Any, Any, None]:
        return self.inner.drop_snapshots(session, since)

    def remembered(self, use: KeyUse) -> Coroutine[Any, Any, Remembered | None]:
        return self.inner.remembered(use)

    def account(self, account: str) -> Coroutine[Any, Any, Account | None]:
        return self.inner.account(account)

    def find(self, query: Query) -> Coroutine[Any, Any, tuple[Row, ...]]:
        return self.inner.find(query)

    def count(self, query: Query) -> Coroutine[Any, Any, int]:
        return self.inner.count(query)

    def dependents(self, session: SessionId) -> Coroutine[Any, Any, tuple[Head, ...]]:
        return self.inner.dependents(session)

    def adopt(self, session: SessionId, records: Sequence[Stored]) -> Coroutine[Any, Any, None]:
        return self.inner.adopt(session, records)

    def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> Coroutine[Any, Any, None]:
        return self.inner.bring(head, records, snapshot)

    def repoint(
        self, session: SessionId, segments: tuple[Segment, ...], *, expected: tuple[Segment, ...] | None = None
    ) -> Coroutine[Any, Any, None]:
        return self.inner.repoint(session, segments, expected=expected)

    def claim(self, tenant: str | None, now: int, until: int, limit: int) -> Coroutine[Any, Any, tuple[Row, ...]]:
        return self.inner.claim(tenant, now, until, limit)

    def arm(self, session: SessionId, due_at: int | None, *, expected: bytes) -> Coroutine[Any, Any, bool]:
        return self.inner.arm(session, due_at, expected=expected)

    def freeze(self, session: SessionId, cold: str, *, expected: bytes, anchor: int = 0) -> Coroutine[Any, Any, None]:
        return self.inner.freeze(session, cold, expected=expected, anchor=anchor)

    def thaw(
        self,
        session: SessionId,
        records: Iterable[Stored],
        checkpoints: Sequence[Checkpoint] = (),
        snapshot: Snapshot | None = None,
        *,
        expected: str | None = None,
    ) -> Coroutine[Any, Any, None]:
        return self.inner.thaw(session, records, checkpoints, snapshot, expected=expected)

    def wrapping(self, session: SessionId) -> Coroutine[Any, Any, Wrapping]:
        return self.inner.wrapping(session)

    def keep(
        self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes
    ) -> Coroutine[Any, Any, None]:
        return self.inner.keep(session, turn, node=node, until=until, offset=offset, data=data)

    def kept(self, session: SessionId, turn: int, after: int = 0) -> Coroutine[Any, Any, Kept | None]:
        return self.inner.kept(session, turn, after)

    def let_go(self, session: SessionId, turn: int) -> Coroutine[Any, Any, None]:
        return self.inner.let_go(session, turn)

    def position(self) -> Coroutine[Any, Any, int]:
        return self.inner.position()

    def changes(self, after: int, limit: int) -> Coroutine[Any, Any, tuple[Change, ...]]:
        return self.inner.changes(after, limit)

    def watch(self, after: int) -> AsyncIterator[Change]:
        return self.inner.watch(after)
