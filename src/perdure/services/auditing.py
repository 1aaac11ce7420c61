"""The audit log: one session's log for each tenant, so that it is chained, sealed, signed and verified as any other.

What must be known to be written is noted, and then it is; everything else is written behind, soon, many entries in one
append. Invariant: an entry is written or counted. A queue holds so many entries; beyond that they are only counted, and
the count is written. Entries that could not be written now stay queued.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from threading import Lock
from typing import Final

import msgspec
from msgspec.structs import replace

from perdure.core.access import entries as audit
from perdure.core.access import exports
from perdure.core.access.entries import ALL, AnyEntry, Filters, Missed
from perdure.core.errors import BadExport, Invalid, NotFound, PerdureError
from perdure.core.session import jsonl
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId, named, session_id
from perdure.core.session.jsonl import Footer
from perdure.core.session.recording import Noted
from perdure.core.session.shown import shown
from perdure.ports.heads import Vouched
from perdure.ports.store import Head
from perdure.services.directory import Directory
from perdure.services.exporting import following, header_of
from perdure.services.heads import ACCEPT, HeadKeeper, day
from perdure.services.looking import Shared
from perdure.services.noting import BY, note, noted
from perdure.services.proving import Problem
from perdure.services.queueing import Queue
from perdure.services.sessions import Sessions
from perdure.services.verifying import Verifying
from perdure.steady import unbroken
from perdure.waiting import Bell

MOST: Final = 5_000
"""So many entries of one tenant wait to be written, alike ones counted together; further ones are only counted."""
BATCH: Final = 500
ATTEMPTS: Final = 3
"""How often an export has its end signed for, while others go on writing."""
MAX_PAGE: Final = 1_000
WINDOW: Final = 256
SCANNED: Final = 20_000
"""So many entries a page looks at before it says how far it came."""
GATHERING: Final = 0.25
"""Seconds in which entries gather before they are written."""
SIGNING: Final = 10.0
"""Seconds after which at the latest what was written is signed for."""
PATIENCE: Final = 5.0
"""Seconds after a failure before writing is tried again."""
ADDRESSES: Final = "audit/addresses"
"""The secret under which addresses become pseudonyms."""
_MICROSECONDS: Final = 1_000_000


class AuditLine(msgspec.Struct, frozen=True):
    """An entry in its place: its version in the log, when it was written, and the chain's digest there."""

    version: int
    written_at: int
    digest: str
    entry: AnyEntry


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, and where the next page starts; None after the last."""

    items: tuple[AuditLine, ...]
    next: int | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a tenant's audit log, if it is `there`. `signed` is the version vouched for apart from the
    store, 0 before that was first done, None where the store is not `sealed`: then nothing outside tells how far the
    log went.
    """

    ok: bool
    tenant: str
    session: SessionId
    there: bool
    sealed: bool
    events: int = 0
    signed: int | None = None
    problems: tuple[Problem, ...] = ()


class CheckedExport(msgspec.Struct, frozen=True):
    """What an export holds. `genuine` tells whether it has a signature of this store; None where the store has no keys,
    so that its exports are not signed, and nobody can tell.
    """

    proven: exports.Proven
    genuine: bool | None


class Auditing:
    """Writes, shows, verifies and exports audit logs, over the sessions of the system's own tenant."""

    def __init__(
        self,
        sessions: Sessions,
        directory: Directory,
        verifying: Verifying,
        heads: HeadKeeper,
        *,
        most: int = MOST,
        plainly: bool = False,
    ) -> None:
        self.plainly = plainly
        """Whether addresses are also written in the clear."""
        self.trouble: str | None = None
        """Why writing behind does not get on, if it does not: the code of an error."""
        self._sessions = sessions
        self._directory = directory
        self._verifying = verifying
        self._heads = heads
        self._most = most
        self._queues: dict[str, tuple[Queue, Shared[None]]] = {}
        self._looks: dict[str, Shared[AuditReport]] = {}
        self._lock = Lock()
        self._bell = Bell()
        self._secret: bytes | None = None

    def session(self, tenant: str) -> SessionId:
        """The session in whose log a tenant's entries are."""
        return named(self._sessions.identity.tenant, _name(tenant))

    # ── writing ──

    async def note(self, tenant: str, entry: AnyEntry) -> None:
        """Write an entry, and whatever waits for the same log; when this returns, it is there for good."""
        queue, write = self._of(tenant)
        queue.add(audit.tidied(entry), apart=True)
        await write()

    def later(self, tenant: str, entry: AnyEntry) -> None:
        """Have an entry written soon; this never waits and never fails."""
        self._of(tenant)[0].add(audit.tidied(entry))
        self._bell.ring()

    async def flush(self) -> None:
        """Write everything that waits, and sign for it; the first error is raised once all was tried."""
        await self._write_all()
        await self._sign()

    async def run(self) -> None:
        """Write behind, until cancelled: started once by whoever serves, who flushes at the end. What cannot be
        written now is tried again.
        """
        signed_at = self._sessions.ambient.now()
        while True:
            heard = self._bell.heard()
            if not any(queue for queue, _ in list(self._queues.values())):
                await self._bell.wait(heard, SIGNING)
            await self._sessions.ambient.sleep(GATHERING)
            try:
                await self._write_all()
                self.trouble = None
            except PerdureError as error:
                self.trouble = error.code
                await self._sessions.ambient.sleep(PATIENCE)
            now = self._sessions.ambient.now()
            if now - signed_at >= SIGNING * _MICROSECONDS:
                await self._sign()
                signed_at = now

    def _of(self, tenant: str) -> tuple[Queue, Shared[None]]:
        found = self._queues.get(tenant)
        if found is None:
            with self._lock:
                write = Shared(partial(self._write, tenant))
                found = self._queues.setdefault(tenant, (Queue(self._most), write))
        return found

    async def _write_all(self) -> None:
        failed: PerdureError | None = None
        for queue, write in list(self._queues.values()):
            try:
                if queue:
                    await write()
            except PerdureError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def _write(self, tenant: str) -> None:
        await unbroken(self._written(tenant))

    async def _written(self, tenant: str) -> None:
        queue, _ = self._queues[tenant]
        left = queue.take()
        try:
            secret = self._secret or await self._own_secret()
            while left:
                notes = [_noted(tenant, audit.veiled(entry, secret, plainly=self.plainly)) for entry in left[:BATCH]]
                await note(self._sessions, self.session(tenant), _name(tenant), notes, who=BY)
                left = left[BATCH:]
                queue.unsigned = True
        finally:
            if left:
                queue.put_back(left)

    async def _own_secret(self) -> bytes:
        self._secret = (await self._directory.secret(ADDRESSES))[0].value
        return self._secret

    async def _sign(self) -> None:
        for tenant, (queue, _) in list(self._queues.items()):
            if queue.unsigned:
                queue.unsigned = False
                await self._heads.reached(self.session(tenant))

    # ── reading ──

    async def page(
        self,
        tenant: str,
        after: int | None = None,
        limit: int = 100,
        filters: Filters = ALL,
        *,
        newest: bool = False,
    ) -> AuditPage:
        """Entries after a version; with `newest`, those before it, the newest first. No log has no entries."""
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise Invalid(f"a page has 1 to {MAX_PAGE} entries, not {shown(limit)}")
        if after is not None and (type(after) is not int or not 0 <= after < 1 << 62):
            raise Invalid(f"a page starts at a version, not {shown(after)}")
        items: list[AuditLine] = []
        scanned = 0
        try:
            head = await self._sessions.log.head(self.session(tenant))
        except NotFound:
            return AuditPage(())
        async with aclosing(self._passing(head, after, newest)) as passing:
            async for event in passing:
                scanned += 1
                items += [line for line in _lines((event,)) if audit.fits(line.entry, filters)]
                if len(items) == limit or scanned == SCANNED:
                    ends = event.version == (head.anchor_version + 1 if newest else head.row.version)
                    return AuditPage(tuple(items), None if ends else event.version)
        return AuditPage(tuple(items))

    async def _passing(self, head: Head, after: int | None, newest: bool) -> AsyncGenerator[Event, None]:
        """The events of a log from a version on, or back from it, read a window at a time."""
        log, first, last = self._sessions.log, head.anchor_version, head.row.version
        if newest:
            upto = last if after is None else min(last, after - 1)
            while upto > first:
                for event in reversed(await log.events(head, max(first, upto - WINDOW), upto)):
                    yield event
                upto -= WINDOW
            return
        place = max(first, after or 0)
        while place < last:
            for event in await log.events(head, place, min(last, place + WINDOW)):
                yield event
            place += WINDOW

    async def verify(self, tenant: str) -> AuditReport:
        """Whether a tenant's log still is what was written, to its end if the store is sealed. Never raises for what is
        wrong with it. A long log takes its time, so those who ask meanwhile share one look, which begins after they
        asked.
        """
        if tenant not in self._looks:
            self._looks[tenant] = Shared(partial(self._verified, tenant))
        return await self._looks[tenant]()

    async def _verified(self, tenant: str) -> AuditReport:
        session, sealed = self.session(tenant), self._heads.kept
        former = await self._heads.former(session)
        problems = tuple(Problem(place="head", what=_replaced(item), advice=ACCEPT) for item in former)
        try:
            found = await self._verifying.verify(session)
        except NotFound:
            return AuditReport(
                ok=not problems, tenant=tenant, session=session, there=False, sealed=sealed, problems=problems
            )
        return AuditReport(
            ok=found.ok and not problems,
            tenant=tenant,
            session=session,
            there=True,
            sealed=sealed,
            events=found.events,
            signed=found.signed,
            problems=(*found.problems, *problems),
        )

    async def export(self, tenant: str) -> AsyncGenerator[bytes, None]:
        """A tenant's log as JSON lines, as any session is exported, every byte proven on the way out; the last line is
        the signature over its last digest, where the store is sealed. `NotFound` where there is no log.
        """
        log, session = self._sessions.log, self.session(tenant)
        head, signed = await self._vouched_for(session)
        yield jsonl.written(await header_of(self._sessions.store, head))
        async for event in following(log, head, head.anchor_version):
            yield jsonl.written(jsonl.event_line(event))
        total = head.row.version - head.anchor_version
        yield jsonl.written(Footer(events=total, digest=head.row.digest.hex()))
        if signed is not None and not signed.fault:
            yield exports.written(_signature(signed))

    def check_export(self, lines: Iterable[bytes]) -> CheckedExport:
        """Prove an export from its lines, and its signature by the keys of this store, which signs all of its exports
        if it has any; `BadExport` names what is wrong with the lines.
        """
        found = exports.proven(lines)
        if not self._heads.kept:
            return CheckedExport(found, None)
        return CheckedExport(found, found.signature is not None and self._heads.genuine(_vouched(found.signature)))

    async def _vouched_for(self, session: SessionId) -> tuple[Head, Vouched | None]:
        """Where a log stands, signed for if that can be done now; if not, the signature is one over an earlier digest,
        and says so.
        """
        for attempt in range(ATTEMPTS):
            await self._heads.reached(session)
            signed = await self._heads.of(session)
            head = await self._sessions.log.head(session)
            if signed is None or signed.digest == head.row.digest or attempt == ATTEMPTS - 1:
                return head, signed
        raise AssertionError("the last attempt returns")


def _name(tenant: str) -> str:
    return f"audit:{tenant}"


def _noted(tenant: str, entry: AnyEntry) -> Noted:
    whose = entry if isinstance(entry, Missed) or entry.tenant == tenant else replace(entry, tenant=tenant)
    return Noted(by=BY, about=audit.tag_of(entry), data=audit.to_document(whose))


def _lines(events: Sequence[Event]) -> list[AuditLine]:
    found = noted(events)
    return [AuditLine(event.version, event.at, event.digest.hex(), audit.from_document(data)) for event, data in found]


def _replaced(signed: Vouched) -> str:
    return signed.fault or (
        f"a log of this name was signed at version {signed.version} on {day(signed.at)}, and it is not the one here: "
        "it was taken out, or an older copy of the store was put back"
    )


def _signature(signed: Vouched) -> exports.Signature:
    """The head as it stands in the vault, with the signature that its key gave."""
    return exports.Signature(
        store=signed.store,
        tenant=signed.tenant,
        session=str(signed.session),
        salt=signed.salt.hex(),
        version=signed.version,
        digest=signed.digest.hex(),
        at=signed.at,
        remark=signed.remark,
        mac=signed.mac.hex(),
    )


def _vouched(signature: exports.Signature) -> Vouched:
    return Vouched(
        salt=_bytes(signature.salt),
        tenant=signature.tenant,
        session=session_id(signature.session),
        version=signature.version,
        digest=_bytes(signature.digest),
        at=signature.at,
        remark=signature.remark,
        store=signature.store,
        mac=_bytes(signature.mac),
    )


def _bytes(spelled: str) -> bytes:
    try:
        return bytes.fromhex(spelled)
    except ValueError:
        raise BadExport("the signature holds something that is not hexadecimal; take the export anew") from None
