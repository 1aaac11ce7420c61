"""Taking away: erasing a session, redacting content, pruning a prefix. Whoever shares the log gets a copy first."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from functools import reduce

import msgspec

from perdure.core.errors import (
    BranchRefused,
    BundleMissing,
    Invalid,
    KeyMissing,
    NotFound,
    PruneRefused,
    Shredded,
    VersionConflict,
)
from perdure.core.memory.parts import space_of
from perdure.core.session import budget, caps, redaction
from perdure.core.session import commands as do
from perdure.core.session import record as records
from perdure.core.session.budget import AccountMove
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.record import Record
from perdure.ports.store import Head, Segment, Stored
from perdure.services.checkpoints import Checkpoints, expired
from perdure.services.loading import Loaded, snapshot_of
from perdure.services.log import PAGE, Stretch, check, stretches
from perdure.services.sessions import Extra, Outcome, Sessions
from perdure.services.slices import closing_of

SHOWN = 5
ROUNDS = 100
"""How often erasing starts over when new branches appear meanwhile."""


class Erasure:
    """What makes content go away."""

    def __init__(self, sessions: Sessions, checkpoints: Checkpoints) -> None:
        self._sessions = sessions
        self._checkpoints = checkpoints
        self._store = sessions.store

    async def erase(self, session: SessionId, expected: int | None = None) -> int:
        """Remove a session for good; how many branches were given their own copy of its log first. `VersionConflict`
        if it is not, or no longer, at the version `expected`.

        A crash in between leaves copies that are not used yet; erasing again finishes the work.
        """
        given = 0
        async with self._sessions.lane(session):
            for _ in range(ROUNDS):
                row = (await self._sessions.log.head(session)).row
                if expected not in (None, row.version):
                    raise VersionConflict(
                        f"session {session} is at version {row.version}, not {expected}; look at it before erasing it",
                        session=session,
                        version=row.version,
                    )
                digest = None if expected is None else row.digest
                try:
                    given += await self._hand_over(session)
                    returned = await self._returned(session)
                    await self._store.erase(session, self._sessions.ambient.now(), returned, expected=digest)
                except (BranchRefused, VersionConflict, NotFound):  # branched, pruned or erased meanwhile: look again
                    continue
                self._sessions.loader.forget(session)
                return given
        raise BranchRefused(f"session {session} keeps being branched; stop that and try again", session=session)

    async def _returned(self, session: SessionId) -> tuple[AccountMove, ...]:
        """What the session had reserved goes back to the account it shares, but for what children took of it."""
        try:
            state = (await self._sessions.loader.load(session)).state
        except (BundleMissing, KeyMissing):  # lost, and with it what was reserved: it can still be erased
            return ()
        if state.origin.account is None:
            return ()
        moves, part = list[AccountMove](), state.budget
        for name in [name for name in part.asked if name in part.open]:  # a model was asked, and will want its money
            rounds, tokens = part.held_rounds.get(name, 0), part.held.get(name, 0)
            settled = budget.settle(part, name, part.open[name], estimated=True, tokens=tokens, rounds=rounds)
            moves += budget.moves(state.origin.account, settled)
            part = reduce(budget.follow, settled, part)
        for name in part.open:
            if (closing := await closing_of(self._store, session, name)) is not None:  # a child's slice: what it took
                command = closing.settle
                settled = budget.settle(part, name, command.cost, tokens=command.tokens, rounds=command.rounds)
                moves += [*closing.moves, *budget.moves(state.origin.account, settled)]
                part = reduce(budget.follow, settled, part)
        return (*moves, *caps.returned(state.origin.account, part))

    async def _hand_over(self, session: SessionId) -> int:
        """Direct branches copy the rows they need; branches of those read the copies."""
        heirs = [(head, _heir(head, session)) for head in await self._store.dependents(session)]
        direct = [head for head, heir in heirs if heir == head.row.session]
        for head in direct:
            try:
                await self._copy(session, head)
            except Shredded as gone:
                raise _unreadable(session, [each.row.session for each, _ in heirs]) from gone
            moved = _moved(head, session, head.row.session)
            await self._store.repoint(head.row.session, moved, expected=head.segments)
        for head, heir in heirs:
            if heir != head.row.session:
                moved = _moved(head, session, heir)
                await self._store.repoint(head.row.session, moved, expected=head.segments)
        return len(direct)

    async def _copy(self, session: SessionId, head: Head) -> None:
        for stretch in stretches(head):
            if stretch.source == session:
                async for page in self._records(head, stretch):
                    await self._store.adopt(head.row.session, page)

    async def _records(self, head: Head, stretch: Stretch) -> AsyncIterator[list[Stored]]:
        """The stored records of a stretch, proven, the last one cut where the branch begins."""
        after, previous = stretch.after, stretch.start
        while after < stretch.upto:
            run = await self._store.run(stretch.source, after=after, upto=stretch.upto, limit=PAGE)
            page: list[Stored] = []
            for stored in run.records:
                check(head, stretch, stored, previous)
                cut = records.cut(stored.record, stretch.upto)
                page.append(Stored(cut, stretch.end if cut.last == stretch.upto else stored.digest))
                previous, after = stored.digest, stored.record.last
            if not page:
                raise VersionConflict(f"session {stretch.source} changed meanwhile", session=stretch.source)
            yield page

    async def redact(
        self, session: SessionId, versions: Iterable[int], reason: str = "", *, mask: do.Mask | None = None
    ) -> Outcome:
        """Destroy the content of these events. The chain stays whole, and every branch that shares them notes it too,
        so that whoever has one of them in memory, in any process, reads it again. The mask is this session's alone.
        """
        wanted = frozenset(versions)
        command = do.Redact(versions=tuple(sorted(wanted)), reason=reason)
        for _ in range(ROUNDS):
            try:
                outcome, noted, since = await self._redact(session, wanted, command, mask)
            except VersionConflict:  # a branch went on meanwhile
                continue
            self._sessions.loader.forget()
            for each in set(await self._sharing(session, wanted)) - noted:  # branched while we were at it
                await self._sessions.handle(each, command)
            for each in (session, *[head.row.session for head in await self._store.dependents(session)]):
                await self._checkpoints.rebuild(each, since)
            return outcome
        raise VersionConflict(f"the branches of session {session} keep changing; try again", session=session)

    async def _redact(
        self, session: SessionId, wanted: frozenset[int], command: do.Redact, mask: do.Mask | None
    ) -> tuple[Outcome, set[SessionId], int]:
        """Rewrite the records and note it, here and in every branch, in one append; who noted it, and from which
        version on the store forgot what it had kept beside the log.
        """
        noted, since = {session}, min(wanted, default=0)

        async def carry(_: Loaded) -> Extra:
            nonlocal since
            rewrites = tuple(await self._redacted(session, wanted))
            since = min(record.first for record in rewrites)
            sharing = await self._sharing(session, wanted)
            others = tuple([await self._sessions.prepared(each, command) for each in sharing])
            noted.update(sharing)
            return Extra(rewrites=rewrites, others=others)

        own = msgspec.structs.replace(command, mask=mask)
        return await self._sessions.handle(session, own, extra=carry), noted, since

    async def _sharing(self, session: SessionId, wanted: frozenset[int]) -> list[SessionId]:
        """The sessions whose log shows one of these versions of this one's rows."""
        return [
            head.row.session
            for head in await self._store.dependents(session)
            if any(item.source == session and item.upto >= min(wanted) for item in head.segments)
        ]

    async def _redacted(self, session: SessionId, wanted: frozenset[int]) -> list[Record]:
        head = await self._sessions.log.head(session)
        places = {version: _own(head, version) for version in sorted(wanted)}
        changed, doomed = list[Record](), list[Event]()
        first, events = 0, list[Event]()
        for version, own in places.items():
            if version - first >= len(events):  # the record that holds it, once, however many of its versions go
                run = await self._store.run(session, after=version - 1, upto=version, limit=1)
                if not run.records:
                    raise VersionConflict(f"session {session} changed meanwhile", session=session)
                stored = run.records[0]
                previous = own.start if stored.record.first == own.after + 1 else run.before
                first, events = stored.record.first, check(head, own, stored, previous)
                changed.append(records.redact(stored.record, wanted))
            redaction.admit(events[version - first])
            doomed.append(events[version - first])
        await self._must_be_gone(head, doomed)
        return changed

    async def _must_be_gone(self, head: Head, doomed: Sequence[Event]) -> None:
        """Refuse to blank what became of memories that remain."""
        if alone := redaction.lone(doomed):
            async with aclosing(self._sessions.log.pages(head, head.anchor_version)) as pages:
                async for page in pages:
                    redaction.must_be_gone(alone, page)

    async def prune(self, session: SessionId, upto: int) -> int:
        """Drop the log up to a version behind a snapshot; the version really pruned to, at a record's end.

        `PruneRefused` while a branch or a checkpoint still needs the prefix, and for memories, which the log alone has.
        """
        for _ in range(ROUNDS):
            try:
                return await self._sessions.log.steadily(session, lambda head: self._prune(head, upto))
            except VersionConflict:  # somebody wrote, redacted or pruned meanwhile: look again
                continue
        raise VersionConflict(f"session {session} keeps changing; try again", session=session)

    async def _prune(self, head: Head, upto: int) -> int:
        session, own = head.row.session, stretches(head)[-1]
        if not own.after < upto < head.row.version:
            raise Invalid(f"prune to a version from {own.after + 1} to {head.row.version - 1}, not {upto}", upto=upto)
        space = space_of(head.row.tenant, session, head.row.title)
        if space is not None:
            raise PruneRefused(
                f"the log of {space} is where its memories are kept: without the beginning they would be lost; forget "
                "or archive memories instead",
                space=str(space),
            )
        now = self._sessions.ambient.now()
        kept = await self._store.checkpoints(session)
        needed = [item for item in kept if item.version < upto and not expired(item, now)]
        if needed:
            raise PruneRefused(
                f"checkpoint {needed[0].id} at version {needed[0].version} still needs the prefix; drop it or wait",
                checkpoint=needed[0].id,
                version=needed[0].version,
            )
        run = await self._store.run(session, after=own.after, upto=upto, limit=1, newest=True)
        if not run.records:
            raise VersionConflict(f"session {session} changed meanwhile", session=session)
        record, digest = run.records[0].record, run.records[0].digest
        if record.last > upto:
            if record.first == own.after + 1 or run.before is None:
                raise Invalid(f"version {upto} lies inside the first append; prune further along", upto=upto)
            upto, digest = record.first - 1, run.before
        state = await self._sessions.loader.replayed(head, upto)
        await self._store.prune(session, upto, digest, snapshot_of(state), expected=head.row.digest)
        self._sessions.loader.forget(session)
        return upto


def _unreadable(session: SessionId, branches: list[SessionId]) -> Shredded:
    """Why a session cannot go before its branches: nobody can read what they would have to copy."""
    shown = ", ".join(branches[:SHOWN]) + (" …" if len(branches) > SHOWN else "")
    return Shredded(
        f"session {session} cannot be erased before its branches: its key is gone already, so they cannot be given a "
        f"copy of what they share with it, which stays unreadable. Erase these first: {shown}; what they wrote "
        "themselves can still be read, after the version they branched at",
        session=session,
        branches=branches,
    )


def _moved(head: Head, source: SessionId, heir: SessionId) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            source=heir if item.source == source else item.source,
            origin=item.origin,
            upto=item.upto,
            digest=item.digest,
        )
        for item in head.segments
    )


def _heir(head: Head, source: SessionId) -> SessionId:
    """Whose copy a log reads from now on: the session in whose rows it goes on after the erased one's; where those are
    its own, also because it inherited them earlier, it needs a copy itself.
    """
    after = max(index for index, item in enumerate(head.segments) if item.source == source)
    following = head.segments[after + 1 :]
    return following[0].source if following else head.row.session


def _own(head: Head, version: int) -> Stretch:
    """The stretch of the session's own rows that holds a version: its own events, or its copy of a prefix."""
    for stretch in stretches(head):
        if stretch.after < version <= stretch.upto:
            if stretch.source == head.row.session:
                return stretch
            raise Invalid(
                f"version {version} belongs to session {stretch.source}; redact it there, its branches follow",
                version=version,
                session=stretch.source,
            )
    raise NotFound(f"session {head.row.session} has no version {version} to redact", version=version)
