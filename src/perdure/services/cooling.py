"""A store whose archived sessions lie in cold storage and are read as if they did not.

Reading takes what the store lacks from the session's bundle; a few bundles stay open. What changes or destroys content
that lies in a bundle (redacting, pruning, dropping a checkpoint) brings the session back first, and no bundle survives
that still holds what was destroyed. A branch of an archived session goes on reading the shared log through its bundle:
so archiving copies nothing, however many branches there are, and redaction still reaches them all.

Invariant: the store is asked first, and a bundle only where its answer has a gap; so sessions that are not archived
cost next to nothing more than before.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from perdure.core.errors import BundleMissing, NotFound
from perdure.core.session.budget import AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Phase
from perdure.core.session.write import Checkpoint
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.ports.cold import Cold
from perdure.ports.store import Commit, Head, Run, Snapshot, Store, Stored
from perdure.services.doubts import Doubts
from perdure.services.log import PAGE, stretches
from perdure.services.passing import PassingStore

if TYPE_CHECKING:
    from perdure.services.unbundling import Bundle

OPEN: Final = 16
OPEN_BYTES: Final = 256 << 20
"""How many bundles stay open, and how much they may take; one may always."""
RETRY: Final = 1_000_000
"""Microseconds for which a bundle that was not there is not asked for again."""
_FOREVER: Final = 1 << 62


class CoolingStore(PassingStore):
    """A `Store` over another one and over cold storage. What each method promises, the Protocol says.

    Without cold storage, what lies there is `BundleMissing`, with a word on what to do.
    """

    def __init__(self, store: Store, cold: Cold | None, ambient: Ambient) -> None:
        super().__init__(store)
        self.cold = cold
        self.doubts = None if cold is None else Doubts(store, cold, ambient)
        self._ambient = ambient
        self._lock = Lock()
        self._bundles: OrderedDict[str, Bundle] = OrderedDict()
        self._missing: dict[str, tuple[int, BundleMissing]] = {}
        on_fork(self, Forking(_unchanged, _unchanged, CoolingStore._forked))

    def _forked(self) -> None:
        """Whoever held the lock lives in the parent."""
        self._lock = Lock()

    # ── reading ──

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        found = await self.inner.run(source, after=after, upto=upto, limit=limit, newest=newest)
        whole = _whole(found, after, upto, limit, newest)
        if whole and (found.before is not None or found.records[0].record.first == 1):
            return found
        bundle = await self.bundle(source)
        if bundle is not None:
            return _together(found, bundle, after, upto, limit, newest)
        if whole:
            return found
        return await self.inner.run(source, after=after, upto=upto, limit=limit, newest=newest)  # just brought back?

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        found = await self.inner.snapshot(session, upto)
        if found is None and (bundle := await self.bundle(session)) is not None:
            found = bundle.snapshot
        return found if found is not None and found.version <= upto else None

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        found = await self.inner.snapshots(session)
        bundle = await self.bundle(session) if not found else None
        return found if bundle is None or bundle.snapshot is None else (bundle.snapshot,)

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        head = await self.inner.head(session)
        if head is not None and head.row.cold is None:  # what is cold stays cold
            await self.inner.save_snapshot(session, snapshot)

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        found = await self.inner.checkpoints(session)
        bundle = await self.bundle(session) if not found else None
        return found if bundle is None else bundle.checkpoints()

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        """One checkpoint by its id; that of an archived session once its session was looked at."""
        found = await self.inner.checkpoint(checkpoint)
        if found is not None:
            return found
        with self._lock:
            holding = [item for item in self._bundles.values() if checkpoint in item.checkpoint_ids]
        for item in holding:
            session = SessionId(item.header.session)
            kept = [each for each in await self.checkpoints(session) if each.id == checkpoint]
            if kept:
                return session, kept[0]
        return None

    async def bundle(self, session: SessionId) -> "Bundle | None":
        """The bundle of a session that lies in cold storage, opened and proven; None of any other."""
        head = await self.inner.head(session)
        name = None if head is None else head.row.cold
        if head is None or name is None:
            return None
        with self._lock:
            if name in self._bundles:
                self._bundles.move_to_end(name)
                return self._bundles[name]
        return await self._opened(head, name)

    async def _opened(self, head: Head, name: str) -> "Bundle | None":
        from perdure.services.unbundling import unbundled

        if self.cold is None:
            raise self._unnamed(head, name)
        self._refuse_again(name)
        try:
            bundle = await unbundled(self.cold, name, head.row, await self.inner.wrapping(head.row.session))
        except NotFound:  # erased meanwhile
            return None
        except BundleMissing as missing:
            with self._lock:
                self._missing[name] = (self._ambient.now(), missing)
            raise
        with self._lock:
            self._bundles[name] = bundle
            while len(self._bundles) > OPEN or (
                len(self._bundles) > 1 and sum(each.size for each in self._bundles.values()) > OPEN_BYTES
            ):
                self._bundles.popitem(last=False)
        return bundle

    def _unnamed(self, head: Head, name: str) -> BundleMissing:
        return BundleMissing(
            f"session {head.row.session} is archived: its log lies in cold storage as {name}; open the store with "
            "cold= (or PERDURE_COLD) naming that storage",
            session=head.row.session,
            name=name,
        )

    def _refuse_again(self, name: str) -> None:
        """What was missing a moment ago is missing still: whoever looks for every version is told at once.

        What lies in the future was noted before the clock was set back, nobody knows how long ago.
        """
        with self._lock:
            now = self._ambient.now()
            self._missing = {
                each: (since, error) for each, (since, error) in self._missing.items() if since <= now < since + RETRY
            }
            if name in self._missing:
                raise self._missing[name][1]

    # ── writing ──

    def append(self, commits: Sequence[Commit]) -> Coroutine[Any, Any, int]:
        reaching = any(map(_touches_the_past, commits))
        return self._append(commits) if reaching else self.inner.append(commits)

    async def _append(self, commits: Sequence[Commit]) -> int:
        async with self._reaching(await self._holding(commits)):
            return await self.inner.append(commits)

    async def _holding(self, commits: Sequence[Commit]) -> list[Head]:
        """The archived sessions whose bundle holds what these commits change."""
        found: dict[SessionId, Head] = {}
        for commit in filter(_touches_the_past, commits):
            session = commit.row.session
            heads = [await self.inner.head(session), *(await self.inner.dependents(session) if commit.rewrites else ())]
            found |= {head.row.session: head for head in heads if head is not None and _archived(head)}
        return list(found.values())

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        head = await self.inner.head(session)
        if head is not None and head.row.cold is None:  # one in a bundle is rebuilt whenever it is asked for
            await self.inner.save_checkpoints(session, checkpoints)

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        head = await self.inner.head(session)
        async with self._reaching([head] if head is not None and _archived(head) else []):
            await self.inner.prune(session, upto, digest, snapshot, expected=expected)

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        head = await self.inner.head(session)
        if self.cold is None and head is not None and head.row.cold is not None:
            raise self._unnamed(head, head.row.cold)  # else its bundle would stay
        if self.doubts is None or head is None or not _archived(head):
            return await self.inner.erase(session, at, accounts, expected=expected)
        await self.doubts.note_all(session)
        gone = await self.inner.erase(session, at, accounts, expected=expected)
        await self.doubts.settle(session)
        return gone

    @asynccontextmanager
    async def _reaching(self, heads: Iterable[Head]) -> AsyncIterator[None]:
        """Have these sessions in the store while something in them is destroyed, and their bundles gone after that."""
        sessions = [head.row.session for head in heads]
        for session in sessions:
            await self.bring_back(session)
            if self.doubts is not None:
                await self.doubts.note_all(session)
        yield
        for session in sessions:
            if self.doubts is not None:
                await self.doubts.settle(session)

    async def bring_back(self, session: SessionId) -> bool:
        """Take a session out of cold storage, all or nothing; False when it is not there. Its bundle stays."""
        head = await self.inner.head(session)
        bundle = await self.bundle(session)
        if head is None or bundle is None:
            return False
        own = [(item.after, item.upto) for item in stretches(head) if item.source == session]
        there = await self._there(session)
        records = (item for item in bundle.records() if item.record.first not in there and _within(item, own))
        await self.inner.thaw(session, records, bundle.checkpoints(), bundle.snapshot, expected=bundle.name)
        return True

    async def _there(self, session: SessionId) -> set[int]:
        """Where the records begin that the store has of a session in cold storage: written or adopted since."""
        found: set[int] = set()
        after = 0
        while records := (await self.inner.run(session, after=after, upto=_FOREVER, limit=PAGE)).records:
            found |= {stored.record.first for stored in records}
            after = records[-1].record.last
        return found

    async def inspect(self) -> dict[str, Any]:
        facts = await self.inner.inspect()
        return facts if self.cold is None else {**facts, "cold": self.cold.place}

    async def close(self) -> None:
        with self._lock:
            self._bundles.clear()
        await self.inner.close()


def _unchanged(_: CoolingStore) -> None:
    """A fork takes nothing from the parent."""


def _whole(found: Run, after: int, upto: int, limit: int, newest: bool) -> bool:
    """Whether the store's answer has no gap that a bundle could fill."""
    records = found.records
    if not records:
        return False
    first, last = records[0].record.first, records[-1].record.last
    if last - first + 1 != sum([len(item.record.entries) for item in records]):
        return False
    full = len(records) >= limit
    return last >= upto and (full or first <= after + 1) if newest else first <= after + 1 and (full or last >= upto)


def _together(found: Run, bundle: "Bundle", after: int, upto: int, limit: int, newest: bool) -> Run:
    """The store's records and a bundle's in one order; where both have one, the store's."""
    _, kept = bundle.run(after, upto, limit, newest)
    merged = {stored.record.first: stored for stored in (*kept, *found.records)}
    order = [merged[first] for first in sorted(merged)]
    chosen = order[-limit:] if newest else order[:limit]
    if not chosen:
        return Run(None, ())
    first = chosen[0].record.first
    if chosen[0] in found.records[:1] and found.before is not None:
        return Run(found.before, tuple(chosen))
    _, before = bundle.run(first - 2, first - 1, 1, newest=True)
    adjacent = before and before[0].record.last == first - 1
    return Run(before[0].digest if adjacent else None, tuple(chosen))


def _touches_the_past(commit: Commit) -> bool:
    """Whether a commit changes more than it adds, in a log that may lie in a bundle."""
    if commit.creates:
        return False
    beside = commit.checkpoints or commit.dropped_checkpoints
    return bool(commit.rewrites) or (bool(beside) and commit.row.phase == Phase.ARCHIVED.value)


def _archived(head: Head) -> bool:
    return head.row.phase == Phase.ARCHIVED.value


def _within(stored: Stored, stretches: list[tuple[int, int]]) -> bool:
    return any(after < stored.record.first <= upto for after, upto in stretches)
