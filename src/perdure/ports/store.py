"""The store: where sessions last. One Protocol, one contract (`perdure.testing.StoreContract`), many engines.

A store knows records, rows and versions; it never decides. Every `append` is atomic over all its commits, checks
each expected version, idempotency key and account inside its own transaction, and returns only once the disk has it.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.ids import SessionId
from perdure.core.session.naming import name_of
from perdure.core.session.record import Record
from perdure.core.session.structs import learn
from perdure.core.session.write import Checkpoint
from perdure.core.tiers import Tier


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a session's log that lives elsewhere: under `source`'s rows, up to and with `upto`.

    `origin` is the session whose id those events were hashed with, `digest` the chain's value at `upto`.
    """

    source: SessionId
    origin: SessionId
    upto: int
    digest: bytes


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a list shows of a session, and what `find` filters by."""

    session: SessionId
    tenant: str
    owner: str
    title: str
    phase: str
    created_at: int
    active_at: int
    expires_at: int | None
    version: int
    digest: bytes
    schema_version: str
    turns: int
    open_turn: int | None
    parent: SessionId | None
    branch_kind: str | None
    branched_at: int | None
    account: str | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    due_at: int | None = None
    """When something is to be done about the session if nothing happens before; written with the listing only."""
    cold: str | None = None
    """Where the log of an archived session lies, if not here."""

    @property
    def name(self) -> str | None:
        """The name the session goes by, if it was made with one."""
        return name_of(self.tenant, self.session, self.title, self.metadata)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session's log stands: its row, the stretches that live elsewhere, and its anchor if pruned."""

    row: Row
    segments: tuple[Segment, ...]
    anchor_version: int = 0
    anchor_digest: bytes | None = None


class Stored(msgspec.Struct, frozen=True):
    """A record in its place: the digest is the chain's value after its last event."""

    record: Record
    digest: bytes


class Run(msgspec.Struct, frozen=True):
    """Records in order, and the stored digest just before the first of them (None where the rows begin)."""

    before: bytes | None
    records: tuple[Stored, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """A cached state."""

    version: int
    state: bytes
    sha: bytes


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a running turn's stream: the node that runs it, until when it is believed to, and pieces in
    order, each with the offset where it begins.
    """

    turn: int
    node: str
    until: int
    pieces: tuple[tuple[int, bytes], ...]


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotency key and what it stands for. `session` is None for creating."""

    principal: str
    session: SessionId | None
    key: str
    fingerprint: bytes


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a key was used for before."""

    fingerprint: bytes
    session: SessionId
    first: int
    last: int


class KeyTaken(Exception):
    """Raised inside the store when a commit's key is already remembered; services turn it into the old outcome."""

    def __init__(self, remembered: Remembered) -> None:
        super().__init__("idempotency key already used")
        self.remembered = remembered


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One session's share of an append.

    `expected` 0 means the session must not exist for a new log, and the version before the first event otherwise;
    `creates` says which. `listing` is False when nothing but version, digest and activity changed in the row.
    `rewrites` replace records whose content is destroyed: in the same transaction every snapshot and checkpoint
    payload that may hold it, here or in a log that shares these rows, is forgotten (a checkpoint keeps its row, with
    an empty payload and empty digests, until it is rebuilt). `anchor` is inherited by a branch of a pruned log; its
    snapshot comes along. `expected_digest` is what the log's head must still be, where the version alone could be
    another log's: an id may be erased and used again.
    """

    row: Row
    expected: int
    record: Record
    expected_digest: bytes | None = None
    creates: bool = False
    listing: bool = True
    segments: tuple[Segment, ...] = ()
    key: KeyUse | None = None
    accounts: tuple[AccountMove, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    dropped_checkpoints: tuple[str, ...] = ()
    rewrites: tuple[Record, ...] = ()
    snapshot: Snapshot | None = None
    anchor: tuple[int, bytes] | None = None
    criticality: str | None = None
    """How durable a new session has to be, or another one from now on, for a store that offers more than one tier."""


class Query(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to find. All given conditions must hold; newest first by creation, or by activity."""

    tenant: str
    owner: str | None = None
    phases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    title: str | None = None
    text: str | None = None
    parent: SessionId | None = None
    open_turn: bool | None = None
    created_after: int | None = None
    created_before: int | None = None
    active_after: int | None = None
    active_before: int | None = None
    by_activity: bool = False
    limit: int = 50
    after: tuple[int, SessionId] | None = None


learn(Query)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One committed append as the change feed tells it; `erased` when the session is gone."""

    position: int
    session: SessionId
    first: int
    last: int
    at: int
    kinds: tuple[str, ...] = ()
    erased: bool = False


class Wrapping(Protocol):
    """How content of one session lies outside its store: under the session's own key if the session is sealed, so
    that it goes with that key. Safe to use from any thread.
    """

    def wrap(self, kind: str, seq: int, bound: bytes, plain: bytes) -> bytes:
        """Bytes that open only as this kind, with this number and this binding."""
        ...

    def unwrap(self, kind: str, seq: int, bound: bytes, wrapped: bytes) -> bytes:
        """What was wrapped with the same words; `Damaged` when it was changed or belongs elsewhere."""
        ...


class Store(Protocol):
    """What every engine offers. All methods may raise the world's errors of `perdure.core.errors`."""

    tiers: tuple[Tier, ...]
    """How durable a new session can be here."""
    near: bool
    """Whether where a session stands is told without a wait."""

    async def append(self, commits: Sequence[Commit]) -> int:
        """Make the commits durable together; the feed position of the last one. All or nothing.

        `VersionConflict`, `AlreadyExists`, `NotFound`, `BudgetExhausted` or `KeyTaken` when one does not fit.
        """
        ...

    async def head(self, session: SessionId) -> Head | None:
        """Where a session stands, or None."""
        ...

    async def run(self, source: SessionId, *, after: int, upto: int, limit: int, newest: bool = False) -> Run:
        """Up to `limit` records of a source's own rows that hold versions in (after, upto], oldest first.

        With `newest`, the last `limit` of them instead. A record that straddles a bound is included whole.
        """
        ...

    async def snapshot(self, session: SessionId, upto: int) -> Snapshot | None:
        """The latest cached state at or before a version."""
        ...

    async def snapshots(self, session: SessionId) -> tuple[Snapshot, ...]:
        """All cached states of a session, oldest first; one that cannot be read comes with empty bytes."""
        ...

    async def save_snapshot(self, session: SessionId, snapshot: Snapshot) -> None:
        """Cache a state; quietly nothing when the session is gone."""
        ...

    async def drop_snapshots(self, session: SessionId, since: int) -> None:
        """Forget cached states at or after a version."""
        ...

    async def save_checkpoints(self, session: SessionId, checkpoints: Sequence[Checkpoint]) -> None:
        """Replace checkpoints that were rebuilt; ones that are gone stay gone."""
        ...

    async def checkpoints(self, session: SessionId) -> tuple[Checkpoint, ...]:
        """A session's checkpoints, oldest first."""
        ...

    async def checkpoint(self, checkpoint: str) -> tuple[SessionId, Checkpoint] | None:
        """One checkpoint by its id, with its session."""
        ...

    async def remembered(self, use: KeyUse) -> Remembered | None:
        """What this key was used for, if it was."""
        ...

    async def account(self, account: str) -> Account | None:
        """An account as it stands."""
        ...

    async def find(self, query: Query) -> tuple[Row, ...]:
        """The rows that match, newest first, at most `query.limit`."""
        ...

    async def count(self, query: Query) -> int:
        """How many rows match."""
        ...

    async def dependents(self, session: SessionId) -> tuple[Head, ...]:
        """Sessions whose log has a segment in this one's rows."""
        ...

    async def adopt(self, session: SessionId, records: Sequence[Stored]) -> None:
        """Give a session its own copies of a shared prefix. Repeating it changes nothing, except that what is redacted
        in either copy is redacted from then on; a rewrite of the original reaches the copies of those that still
        share it.
        """
        ...

    async def bring(self, head: Head, records: Iterable[Stored], snapshot: Snapshot | None) -> None:
        """Take in a session that comes from elsewhere, whole: its head, its records in order, and the snapshot its
        anchor stands on. All or nothing; `AlreadyExists` when the id is taken.

        The records are read once, while the store writes, so they need not fit into memory. Segments have the session
        itself as their source. The feed tells of the records the session wrote itself, not of inherited ones.
        """
        ...

    async def repoint(
        self, session: SessionId, segments: tuple[Segment, ...], *, expected: tuple[Segment, ...] | None = None
    ) -> None:
        """Say anew where the stretches of a session's log live. `VersionConflict` when they are not where `expected`
        says, or a source is gone.
        """
        ...

    async def prune(
        self, session: SessionId, upto: int, digest: bytes, snapshot: Snapshot, *, expected: bytes | None = None
    ) -> None:
        """Drop a session's records up to a version for good, behind this snapshot and anchor digest.

        `VersionConflict` when its head is no longer the digest `expected`, or it was pruned further already.
        """
        ...

    async def erase(
        self, session: SessionId, at: int, accounts: Sequence[AccountMove] = (), *, expected: bytes | None = None
    ) -> bool:
        """Remove a session and all beside it, and move money; False when it is not there. `BranchRefused` while a log
        shares its rows, `VersionConflict` unless its head is the digest `expected`, if that is given.
        """
        ...

    async def claim(self, tenant: str | None, now: int, until: int, limit: int) -> tuple[Row, ...]:
        """Sessions with something due by `now`, the longest waiting first, of one tenant or of all. Their `due_at`
        becomes `until`: nobody else is handed them before, and if their sweeper dies they come up again.
        """
        ...

    async def arm(self, session: SessionId, due_at: int | None, *, expected: bytes) -> bool:
        """Say anew when something is due, as worked out from the log whose head is the digest `expected`; False, and
        nothing changed, when the session is gone or has gone on since.
        """
        ...

    async def freeze(self, session: SessionId, cold: str, *, expected: bytes, anchor: int = 0) -> None:
        """Forget the records, snapshots and checkpoints of a session whose log lies in cold storage from now on.

        Its row stays, and the feed's positions keep growing. `VersionConflict` unless its head is the digest
        `expected` and it is pruned to `anchor` (0: not at all).
        """
        ...

    async def thaw(
        self,
        session: SessionId,
        records: Iterable[Stored],
        checkpoints: Sequence[Checkpoint] = (),
        snapshot: Snapshot | None = None,
        *,
        expected: str | None = None,
    ) -> None:
        """Take back what `freeze` forgot. All or nothing; the feed does not tell of it. Quietly nothing when the
        session is not frozen, or lies elsewhere than `expected`; `NotFound` when it is gone.
        """
        ...

    async def wrapping(self, session: SessionId) -> Wrapping:
        """How content of a session is kept outside the store; `NotFound` when the session is gone."""
        ...

    async def keep(self, session: SessionId, turn: int, *, node: str, until: int, offset: int, data: bytes) -> None:
        """Keep a piece of a running turn's stream beside the log, until it is let go or the session goes; the node runs
        the turn until then. Empty data says only that. Pieces do not overlap; one at the same offset is replaced.
        Quietly nothing when the session is gone.
        """
        ...

    async def kept(self, session: SessionId, turn: int, after: int = 0) -> Kept | None:
        """What is kept of a turn's stream: the pieces that end after an offset. None when nobody has kept any of it."""
        ...

    async def let_go(self, session: SessionId, turn: int) -> None:
        """Forget what is kept of this turn and of those before it; harmless when there is nothing."""
        ...

    async def position(self) -> int:
        """The feed's latest position."""
        ...

    async def changes(self, after: int, limit: int) -> tuple[Change, ...]:
        """Committed appends after a position, in commit order."""
        ...

    def watch(self, after: int) -> AsyncIterator[Change]:
        """Changes after a position, then new ones as they are committed by anyone; ends when the store closes."""
        ...

    async def inspect(self) -> dict[str, Any]:
        """Facts about the engine for `doctor`."""
        ...

    async def close(self) -> None:
        """Let go of files and threads; harmless when repeated."""
        ...
