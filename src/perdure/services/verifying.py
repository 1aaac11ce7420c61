"""Verifying: whether everything kept of a session still is what was written, and what is wrong where it is not.

The log proves itself by its chain. All else can be computed from the log, and is: the row, the snapshots, the
checkpoints. Invariant: verifying only reads; a session that changes meanwhile is looked at again, not called broken.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.errors import BundleMissing, Invalid, KeyMissing, NotFound, Shredded, Tampered
from perdure.core.session import state as states
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.session.values import same
from perdure.core.session.write import Checkpoint, restore
from perdure.ports.blobs import KeepsBlobs
from perdure.ports.heads import Vouched
from perdure.ports.store import Head, Query, Row, Snapshot
from perdure.projections.row import row_of
from perdure.services.blobs import Blobs
from perdure.services.exporting import Progress
from perdure.services.heads import ACCEPT, HeadKeeper, absent, amiss
from perdure.services.loading import opened
from perdure.services.proving import BUNDLE, ERASED, NEWEST_VAULT, RESTORE, Problem, Walk, shredded
from perdure.services.sessions import Sessions

ATTEMPTS: Final = 3
PAGE: Final = 200
_FOREVER: Final = 1 << 62
_COPY: Final = "the log is whole: export the session and import it into a new store"
_CACHE: Final = "the log is the truth: drop the session's snapshots"
_REBUILD: Final = "the log is the truth: restore the checkpoint once, or drop it"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one session. `pruned_to` is 0 unless a prefix was dropped; pruned events cannot be proven.
    `signed` is the version of its signed head, 0 when it has none yet, and None where the store is not sealed: then
    nothing outside the store tells how far the log went.
    """

    ok: bool
    session: SessionId
    events: int
    redacted: int
    pruned_to: int
    problems: tuple[Problem, ...]
    signed: int | None = None


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of all sessions; `damaged` has the reports that are not ok, `problems` what concerns them all.
    `signed` tells how many have a signed head; None where the store is not sealed and there are none.
    """

    ok: bool
    sessions: int
    events: int
    redacted: int
    problems: tuple[Problem, ...]
    damaged: tuple[Report, ...]
    signed: int | None = None


class Verifying:
    """Looking for bytes that are not as they were written; with `heads`, also for what is not there any more."""

    def __init__(self, sessions: Sessions, heads: HeadKeeper | None = None) -> None:
        self._heads = heads if heads is not None and heads.kept else None
        self._log = sessions.log
        self._sessions = sessions
        self._store = sessions.store
        self._tenant = sessions.identity.tenant

    async def verify(self, session: SessionId) -> Report:
        """Check every byte of a session; `NotFound` when there is none. What is wrong is reported, never raised."""
        report = None
        for attempt in range(ATTEMPTS):
            try:
                signed = None if self._heads is None else await self._heads.of(session)  # first: it may move meanwhile
                head = await self._store.head(session) or await self._log.head(session)
                report = await self._look(head, signed, growing=attempt == ATTEMPTS - 1)
                if report.ok and head.row.tenant != self._tenant:  # another tenant's indeed, not a row that was changed
                    await self._log.head(session)
                if report.ok or await self._store.head(session) == head:
                    break
            except (Tampered, KeyMissing) as damage:
                problem = Problem(place="row", what=damage.message, advice=RESTORE)
                if isinstance(damage, Shredded) or await shredded(self._store, session):
                    problem = Problem(place="key", what=ERASED, advice=NEWEST_VAULT)
                elif isinstance(damage, BundleMissing):
                    problem = Problem(place="log", what=damage.message, advice=BUNDLE)
                report = Report(ok=False, session=session, events=0, redacted=0, pruned_to=0, problems=(problem,))
                break
        assert report is not None
        return report

    async def _look(self, head: Head, signed: Vouched | None, *, growing: bool) -> Report:
        """One look at a session. `growing` takes it as it was when the look began, whatever was written since."""
        row = head.row
        snapshots = [item for item in await self._store.snapshots(row.session) if item.version <= row.version]
        known = row.version - growing  # one of the last version is told of by an event that came after
        checkpoints = [item for item in await self._store.checkpoints(row.session) if item.version <= known]
        start = await self._start(head)
        wanted = {item.version for item in snapshots} | {item.version for item in checkpoints}
        walk = Walk(self._store, head, start, wanted)
        if start is None:
            walk.note(
                "snapshot", head.anchor_version, head.anchor_version, "what the pruned log stands on is unreadable"
            )
        walk.watched = 0 if signed is None else signed.version
        await walk.go()
        if signed is not None:
            _check_head(walk, head, signed)
        if walk.state is not None:
            _check_row(walk, row, row_of(walk.state, digest=row.digest, at=walk.at))
        await self._check_beyond(walk, row, growing)
        await self._check_segments(walk, head)
        for item in snapshots:
            _check_snapshot(walk, item)
        _check_checkpoints(walk, head, checkpoints)
        await self._check_uses(walk, row)
        return Report(
            ok=not walk.problems,
            session=row.session,
            events=walk.events,
            redacted=walk.redacted,
            pruned_to=head.anchor_version,
            problems=tuple(walk.problems),
            signed=None if self._heads is None else walk.watched,
        )

    async def _start(self, head: Head) -> State | None:
        """What folding begins with: nothing, or the state a pruned log stands on if that can be read."""
        if head.anchor_digest is None:
            return states.BLANK
        state = opened(await self._store.snapshot(head.row.session, head.anchor_version))
        return state if state is not None and state.version == head.anchor_version else None

    async def _check_beyond(self, walk: Walk, row: Row, growing: bool) -> None:
        """Records after the row's version: the row was set back, or they do not belong there."""
        try:
            run = await self._store.run(row.session, after=row.version, upto=_FOREVER, limit=1)
        except Tampered as damage:
            walk.note("log", row.version + 1, row.version + 1, damage.message)
            return
        for stored in run.records:
            first, last = max(stored.record.first, row.version + 1), stored.record.last
            now = await self._store.head(row.session) if growing else None
            if now is not None and now.row.version >= last:
                continue  # written since, and the row went along
            walk.note("row", first, last, f"the log goes on after version {row.version}, where the session ends")

    async def _check_segments(self, walk: Walk, head: Head) -> None:
        row = head.row
        ends = head.segments[-1].upto if head.segments else None
        if ends != row.branched_at and head.anchor_digest is None:
            walk.note("segment", 1, row.branched_at or ends or 1, "it is lost where the shared log lives")
        for item in head.segments:
            if item.source == row.session:
                continue
            source = await self._store.head(item.source)
            if source is None:
                walk.note("segment", 1, item.upto, f"session {item.source}, which holds the shared log, is gone")
            elif source.row.version < item.upto:
                walk.note("segment", 1, item.upto, f"session {item.source} does not reach so far")

    async def _check_uses(self, walk: Walk, row: Row) -> None:
        """What its events point to, against what collecting goes by."""
        if walk.uses and isinstance(self._store, KeepsBlobs):
            for version, _ in await self._store.blobs.unnoted(row.tenant, row.session, walk.uses):
                walk.note("blob", version, version, "it is lost that this event keeps a blob alive", _COPY)

    async def verify_store(self, progress: Progress | None = None) -> StoreReport:
        """Check every session and every blob of the tenant, and what the engine says of itself."""
        problems: list[Problem] = []
        damaged: list[Report] = []
        seen = events = redacted = signed = 0
        try:
            problems += _engine(await self._store.inspect())
            total = await self._store.count(Query(tenant=self._tenant))
            after: tuple[int, SessionId] | None = None
            while rows := await self._store.find(Query(tenant=self._tenant, limit=PAGE, after=after)):
                for row in rows:
                    try:
                        report = await self.verify(row.session)
                    except NotFound:
                        continue
                    seen, events, redacted = seen + 1, events + report.events, redacted + report.redacted
                    signed += bool(report.signed)
                    if not report.ok:
                        damaged.append(report)
                    if progress is not None:
                        progress(seen, max(seen, total))
                after = (rows[-1].created_at, rows[-1].session)
            problems += () if self._heads is None else [_lost(item) for item in await self._heads.lost()]
            if isinstance(self._store, KeepsBlobs):
                problems += (await Blobs(self._sessions).verify()).problems
        except Tampered as damage:
            problems.append(_store_problem(damage.message))
        return StoreReport(
            ok=not problems and not damaged,
            sessions=seen,
            events=events,
            redacted=redacted,
            problems=tuple(problems),
            damaged=tuple(damaged),
            signed=None if self._heads is None else signed,
        )


def _engine(facts: dict[str, Any]) -> list[Problem]:
    """What the engine's own facts tell."""
    found = []
    integrity, orphans = facts.get("integrity", "ok"), facts.get("orphans", 0)
    if integrity != "ok":
        found.append(_store_problem(f"the engine finds its file damaged: {integrity}"))
    if orphans:
        found.append(_store_problem(f"{orphans} records belong to no session"))
    return found


def _lost(signed: Vouched) -> Problem:
    """A session that has a signed head and is not there."""
    return Problem(place="head", what=absent(signed), advice=ACCEPT)


def _check_head(walk: Walk, head: Head, signed: Vouched) -> None:
    """The log against what was signed of it, apart from the store."""
    found = head.anchor_digest if signed.version == head.anchor_version else walk.passed
    if found is None and walk.problems and head.row.version >= signed.version:
        return  # the log is damaged there, as it says already
    if what := amiss(signed, head, found):
        walk.note("head", min(signed.version, head.row.version + 1), signed.version, what, ACCEPT)


def _store_problem(what: str) -> Problem:
    return Problem(place="store", what=what, advice="restore the file from a backup, or export what can be read")


_ELSEWHERE = frozenset({"metadata", "digest", "due_at", "cold"})
"""What the log does not tell, or tells in another form. What is due, sweepers claim and arm anew."""


def _check_row(walk: Walk, row: Row, expected: Row) -> None:
    """The row against the one the log gives."""
    wrong = [
        name
        for name in Row.__struct_fields__
        if getattr(row, name) != getattr(expected, name) and name not in _ELSEWHERE
    ]
    if not same(row.metadata, expected.metadata):
        wrong.append("metadata")
    if wrong:
        walk.note("row", row.version, row.version, f"{', '.join(wrong)} of the row is not what the log says", _COPY)


def _check_snapshot(walk: Walk, item: Snapshot) -> None:
    """A cached state against its checksum and against the log."""
    version = item.version
    if sha256(item.state).digest() != item.sha:
        what = "it does not match its checksum"
    elif walk.shas.get(version, item.sha) != item.sha and _of_this_schema(item):
        what = "it is not the state the log gives"
    else:
        return
    walk.note("snapshot", version, version, what, _CACHE)


def _of_this_schema(item: Snapshot) -> bool:
    """Whether a cached state could be used at all; one of another schema is passed over."""
    try:
        return states.from_bytes(item.state).schema == states.SCHEMA_VERSION
    except Invalid:
        return True


def _check_checkpoints(walk: Walk, head: Head, kept: Sequence[Checkpoint]) -> None:
    documents: dict[int, dict[str, Any]] = {}
    bases = {item.base for item in kept}
    for item in kept:
        if item.payload or item.payload_sha or item.state_sha:  # else it waits to be rebuilt after a redaction
            document, what = _restored(item, documents)
            if not what and walk.shas.get(item.version, item.state_sha) != item.state_sha:
                what = "it is not the state the log gives"
            if document is not None and item.seq in bases:
                documents[item.seq] = document
            if what:
                walk.note("checkpoint", item.version, item.version, f"checkpoint {item.id}: {what}", _REBUILD)
        if walk.state is not None:
            _check_facts(walk, head, item)


def _restored(item: Checkpoint, documents: dict[int, dict[str, Any]]) -> tuple[dict[str, Any] | None, str]:
    """A checkpoint's document, or what is wrong with it."""
    if sha256(item.payload).digest() != item.payload_sha:
        return None, "its payload was changed"
    base = None
    if item.base is not None:
        base = documents.get(item.base)
        if base is None:
            return None, f"checkpoint number {item.base}, which it builds upon, is gone or damaged"
    try:
        document = restore(item.payload, base)
        sha = sha256(states.document_bytes(document)).digest()
    except Invalid as wrong:
        return None, f"its payload does not decode: {wrong.message}"
    return (document, "") if sha == item.state_sha else (None, "its state does not match its digest")


def _check_facts(walk: Walk, head: Head, item: Checkpoint) -> None:
    """What is kept of a checkpoint against what the log says of it."""
    found = walk.taken.get(item.id)
    what = ""
    if found is None:
        if item.version >= head.anchor_version:
            what = "the log does not know it"
    else:
        event, data = found
        said = (data.seq, data.state_version, data.label, data.trigger and data.trigger.value, event.at)
        if said != (item.seq, item.version, item.label, item.trigger, item.at):
            what = "number, version, label, trigger or time is not what the log says"
        elif not same(data.metadata, item.metadata) or data.expires_at != item.expires_at:
            what = "metadata or expiry is not what the log says"
        elif walk.pinned.get(item.id, False) != item.pinned:
            what = "it is pinned or not, against what the log says"
        elif item.id in walk.expired:
            what = "the log says that it has expired"
    if what:
        walk.note("checkpoint", item.version, item.version, f"checkpoint {item.id}: {what}", _REBUILD)
