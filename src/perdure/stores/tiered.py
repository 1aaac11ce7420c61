"""Several stores as one: each session lives in the tier that its criticality and its cost choose.

A session and its branches stay in one tier, since they share rows, and so do the blobs they point to; an append over
several sessions is atomic only within a tier, and refused across two; and so is asking for more than its tier has.
Invariant: a position of the feed holds one position for each tier, so whoever reads on from one misses nothing and sees
nothing twice, whichever tier it is in.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from perdure.core.errors import BlobMissing, Invalid, Refused, StoreClosed
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.write import Checkpoint
from perdure.core.tiers import DEFAULT_COSTS, Cost, Tier, choose, needed_by
from perdure.ports.ambient import Ambient
from perdure.ports.blobs import KeepsBlobs
from perdure.ports.heads import Sealed
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
from perdure.stores.matching import place
from perdure.stores.tiered_blobs import Pointed, TieredBlobs

T = TypeVar("T")
BITS: Final = 64
MAX_HOMES: Final = 100_000
POLL_SECONDS: Final = 0.02
FEED_PAGE: Final = 256


class TieredStore:
    """A `Store` over one store per tier, with `blobs` if all of them keep some. What each method promises, the
    Protocol says.
    """

    blobs: TieredBlobs

    def __init__(
        self,
        tiers: Mapping[Tier, Store],
        ambient: Ambient,
        *,
        costs: Mapping[Tier, Cost] = DEFAULT_COSTS,
        default: str = "standard",
    ) -> None:
        self._tiers = dict(sorted(tiers.items(), key=lambda item: -item[0].rank))
        self._stores = tuple(self._tiers.values())
        self.seals = tuple(seal for store in self._stores if isinstance(store, Sealed) for seal in store.seals)
        # A tier that is gone with the process starts counting again: later than it ever counted before.
        self._began = [ambient.now() if tier is Tier.L0 else 0 for tier in self._tiers]
        self._costs = {tier: costs[tier] for tier in self._tiers}
        self._ambient = ambient
        self._default = default
        self._homes: dict[SessionId, Store] = {}
        self._closed = False
        self.tiers = tuple(self._tiers)
        self.near = all(store.near for store in self._tiers.values())
        self.largest_position = (1 << BITS * len(self._stores)) - 1
        self._blobs: TieredBlobs | None = None
        if all(isinstance(store, KeepsBlobs) for store in self._stores):
            usual = self._usual()
            others = [store for store in self._stores if store is not usual]
            self.blobs = self._blobs = TieredBlobs([usual, *others], self._at, ambient)

    # ── where a session lives ──

    async def tier(self, session: SessionId) -> Tier | None:
        """The tier a session lives in, or None."""
        home = await self._home(session)
        return next((tier for tier, store in self._tiers.items() if store is home), None)

    async def _home(self, session: SessionId) -> Store | None:
        known = self._homes.get(session)
        for store in self._stores if known is None else (known, *self._stores):
            if await store.head(session) is not None:
                self._settle(session, store)
                return store
        self._homes.pop(session, None)
        return None

    def _settle(self, session: SessionId, store: Store) -> None:
        if len(self._homes) >= MAX_HOMES:
            self._homes.clear()
        self._homes[session] = store

    async def _at(self, session: SessionId) -> Store:
        """Where a session lives; one that is nowhere is asked for where new ones go, which knows how to say no."""
        known = self._homes.get(session)
        return known or await self._home(session) or self._choose(None)

    def _choose(self, criticality: str | None) -> Store:
        return self._tiers[choose(criticality, self._costs, default=self._default)]

    def _usual(self) -> Store:
        """Where sessions go that say nothing of themselves, or would go if it were durable enough for them."""
        try:
            return self._choose(None)
        except Invalid:
            return self._stores[0]

    async def _target(self, commit: Commit) -> Store:
        if not commit.creates:
            return self._durable_enough(await self._at(commit.row.session), commit)
        existing = await self._home(commit.row.session)
        if existing is not None:
            return existing  # which refuses it: the id is taken
        if commit.segments:
            return self._durable_enough(await self._at(commit.segments[0].source), commit)
        return self._choose(commit.criticality)

    def _durable_enough(self, store: Store, commit: Commit) -> Store:
        """Where a session lives, or what it branches from; `Refused` when it asks for more than that tier has."""
        wanted = commit.criticality
        if wanted is None:
            return store
        needed = needed_by(wanted)
        here, usual = (next(tier for tier, each in self._tiers.items() if each is at) for at in (store, self._usual()))
        if here.rank >= needed.rank:
            return store
        advice = f"create one that is {wanted} from the start, and go on there"
        if not commit.creates and usual.rank >= needed.rank:
            advice = f"export it, erase it here and import it, which puts it into tier {usual.value}; then ask again"
        raise Refused(
            f"a {wanted} session needs tier {needed.value} or better, and session {commit.row.session} "
            f"{'would share' if commit.creates else 'is in'} tier {here.value}, where it stays; {advice}",
            session=commit.row.session,
            tier=here.value,
            needed=needed.value,
        )

    # ── appending ──

    async def append(self, commits: Sequence[Commit]) -> int:
        homes = [await self._target(commit) for commit in commits]
        if len(set(map(id, homes))) > 1:
            raise Refused(
                "sessions of one append live in different tiers; make them one append each",
                sessions=tuple(commit.row.session for commit in commits),
            )
        store = homes[0] if homes else self._choose(None)
        try:
            told = await store.append(commits)
        except BlobMissing:
            told = await self._append_with_blobs(commits, store)
        for commit in commits:
            self._settle(commit.row.session, store)
        return await self._position(store, told)

    async def _append_with_blobs(self, commits: Sequence[Commit], store: Store) -> int:
        """Append what points to blobs that another tier may have."""
        if self._blobs is not None:
            await self._blobs.fetch(commits, store)
        return await store.append(commits)

    async def remembered(self, use: KeyUse) -> Remembered | None:
        if use.session is not None:
            return await (await self._at(use.session)).remembered(use)
        return await self._first(lambda store: store.remembered(use))

    async def account(self, account: str) -> Account | None:
        return await self._first(lambda store: store.account(account))

    async def _first(self, ask: Callable[[Store], Awaitable[T | None]]) -> T | None:
        for store in self._stores:
            found = await ask(store)
            if found is not None:
                return found
        return None

    # ── one session ──

    async def head(self, session: SessionId) -> Head | None:
        store = await self._home(session)
        return None if store is None else await store.head(session)

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        return await (await self._at(source)).run(source, after=after, upto=upto, limit=limit, newest=newest)

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        return await (await self._at(session)).snapshot(session, upto)

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        return await (await self._at(session)).snapshots(session)

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        await (await self._at(session)).save_snapshot(session, snapshot)

    async def drop_snapshots(self, session: SessionId, since: int) -> None:
        await (await self._at(session)).drop_snapshots(session, since)

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        await (await self._at(session)).save_checkpoints(session, checkpoints)

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        return await (await self._at(session)).checkpoints(session)

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        return await self._first(lambda store: store.checkpoint(checkpoint))

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        return await (await self._at(session)).dependents(session)

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        await (await self._at(session)).adopt(session, records)

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        store = await self._at(head.row.session)
        if self._blobs is None:
            await store.bring(head, records, snapshot)
        else:
            pointed = Pointed(records, snapshot)
            async with self._blobs.lane:
                await store.bring(head, pointed, snapshot)
                await self._blobs.follow(head, pointed, store)
        self._settle(head.row.session, store)

    async def repoint(
        self, session: SessionId, segments: tuple[Segment, ...], *, expected: tuple[Segment, ...] | None = None
    ) -> None:
        await (await self._at(session)).repoint(session, segments, expected=expected)

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        await (await self._at(session)).prune(session, upto, digest, snapshot, expected=expected)

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        gone = await (await self._at(session)).erase(session, at, accounts, expected=expected)
        self._homes.pop(session, None)
        return gone

    async def arm(self, session: SessionId, due_at: int | None, *, expected: bytes) -> bool:
        return await (await self._at(session)).arm(session, due_at, expected=expected)

    async def freeze(self, session: SessionId, cold: str, *, expected: bytes, anchor: int = 0) -> None:
        await (await self._at(session)).freeze(session, cold, expected=expected, anchor=anchor)

    async def thaw(
        self,
        session: SessionId,
        records: Iterable[Stored],
        checkpoints: Sequence[Checkpoint] = (),
        snapshot: Snapshot | None = None,
        *,
        expected: str | None = None,
    ) -> None:
        await (await self._at(session)).thaw(session, records, checkpoints, snapshot, expected=expected)

    async def wrapping(self, session: SessionId) -> Wrapping:
        return await (await self._at(session)).wrapping(session)

    async def keep(self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes) -> None:
        await (await self._at(session)).keep(session, turn, node=node, until=until, offset=offset, data=data)

    async def kept(self, session: SessionId, turn: int, after: int = 0) -> Kept | None:
        return await (await self._at(session)).kept(session, turn, after)

    async def let_go(self, session: SessionId, turn: int) -> None:
        await (await self._at(session)).let_go(session, turn)

    # ── all sessions ──

    async def find(self, query: Query) -> tuple[Row, ...]:
        rows = [row for store in self._stores for row in await store.find(query)]
        rows.sort(key=lambda row: place(row, query), reverse=True)
        return tuple(rows[: query.limit])

    async def count(self, query: Query) -> int:
        return sum([await store.count(query) for store in self._stores])

    async def claim(self, tenant: str | None, now: int, until: int, limit: int) -> tuple[Row, ...]:
        found: tuple[Row, ...] = ()
        for store in self._stores:
            if len(found) < limit:
                found += await store.claim(tenant, now, until, limit - len(found))
        return found

    async def inspect(self) -> dict[str, Any]:
        tiers = {tier.value: await store.inspect() for tier, store in self._tiers.items()}
        counted = {name: sum(facts.get(name, 0) for facts in tiers.values()) for name in ("sessions", "records")}
        return {"engine": "tiered", **counted, "tiers": tiers}

    # ── the feed ──

    async def position(self) -> int:
        return _packed([await self._standing(index) for index in range(len(self._stores))])

    async def _position(self, told_by: Store, told: int) -> int:
        return _packed(
            [
                told + self._began[index] if store is told_by else await self._standing(index)
                for index, store in enumerate(self._stores)
            ]
        )

    async def _standing(self, index: int) -> int:
        position = await self._stores[index].position()
        return self._began[index] + position if position else 0

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        seen = _unpacked(after, len(self._stores))
        found: list[Change] = []
        for index, store in enumerate(self._stores):
            since = max(0, seen[index] - self._began[index])
            for change in await store.changes(since, limit - len(found)) if len(found) < limit else ():
                seen[index] = self._began[index] + change.position
                found.append(replace(change, position=_packed(seen)))
        return tuple(found)

    async def watch(self, after: int) -> AsyncIterator[Change]:
        while not self._closed:
            try:
                found = await self.changes(after, FEED_PAGE)
            except StoreClosed:
                return
            for change in found:
                after = change.position
                yield change
            if not found:
                await self._ambient.sleep(POLL_SECONDS)

    async def close(self) -> None:
        self._closed = True
        for store in self._stores:
            await store.close()


def _packed(positions: Sequence[int]) -> int:
    """One number for all tiers' positions; it grows when any of them does."""
    return sum(position << BITS * index for index, position in enumerate(positions))


def _unpacked(position: int, count: int) -> list[int]:
    mask = (1 << BITS) - 1
    return [position >> BITS * index & mask for index in range(count)] if position > 0 else [0] * count
