"""Posting to webhooks what happens to sessions: a projection of the change feed, read by a stored cursor.

What is to be delivered is written down before the cursor passes it, and struck out after it was taken, so it is told at
least once whoever dies when. All of it is kept in the notes `postings` of the system tenant. One node delivers at a
time, by a lease in the same notes that it takes when there is something to do; when its time is over, another may.

Each webhook is served by a task of its own, so that one which hangs or fails holds up no other.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.access import postings
from perdure.core.access.book import Hook
from perdure.core.access.entries import AuditEntry
from perdure.core.access.postings import Delivery, Entry, Failure, Happened, Passed, Postbook, Settled
from perdure.core.errors import DeliveryFailed, KeyMissing, NotFound, PerdureError, StoreClosed, Tampered
from perdure.core.session.lifecycle import Moved
from perdure.ports.store import Change, Store
from perdure.services.auditing import Auditing
from perdure.services.directory import Directory
from perdure.services.log import Log
from perdure.services.notes import Kept, Notes
from perdure.services.outbound import Outbound
from perdure.services.sessions import Sessions
from perdure.services.webhooks import Webhook, Webhooks

if TYPE_CHECKING:
    from asyncio import Task

NAME: Final = "postings"
PAGE: Final = 500
"""Changes that are read at once."""
LAG: Final = 10_000
"""Changes that concern nobody and are passed by before the cursor is written down anyway."""
PAUSE: Final = 0.5
"""Seconds between two looks at the feed."""
PATIENCE: Final = 5.0
"""Seconds a webhook rests when what came of its deliveries could not be written down."""
SECONDS: Final = 20.0
"""Seconds in which a delivery is tried a few times, before it has to wait longer."""
TRIAL: Final = 10.0
"""Seconds that a test delivery may take."""
AT_ONCE: Final = 8
"""Deliveries to one webhook at once, each of another session."""
MOST_HOOKS: Final = 32
"""Webhooks that are delivered to at once."""
ID_BYTES: Final = 16

POSTINGS: Final[Kept[Postbook, Entry]] = Kept(
    postings.BLANK, postings.fold, lambda data: msgspec.convert(data, Entry), postings.Summed, postings.summed
)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a test delivery."""

    id: str
    delivered: bool
    problem: str | None = None


class Posting:
    """Reads the feed, keeps what is to be delivered, and delivers it."""

    def __init__(
        self,
        sessions: Sessions,
        logs: Callable[[str], Log],
        directory: Directory,
        auditing: Auditing,
        outbound: Outbound,
    ) -> None:
        self.outbound = outbound
        self.node = sessions.ambient.random(ID_BYTES).hex()
        self._system = sessions.identity.tenant
        self._ambient = sessions.ambient
        self._store: Store = sessions.store
        self._logs = logs
        self._directory = directory
        self._auditing = auditing
        self._webhooks = Webhooks(sessions.ambient, outbound.post)
        self._notes = Notes(sessions, NAME, POSTINGS)
        self._position: int | None = None
        """Up to where this node has seen to it that nothing is missed; what is written down may be behind."""
        self._busy: dict[str, Task[None]] = {}
        self._resting: dict[str, int] = {}

    # ── what others ask ──

    async def book(self) -> Postbook:
        """How far it all has come."""
        return (await self._notes.fresh()).book

    async def test(self, hook: Hook) -> Trial:
        """Post something to a webhook, once, and tell what came of it."""
        id = f"msg_{self._ambient.random(ID_BYTES).hex()}"
        told = postings.trial_body(id, hook, self._ambient.now())
        try:
            await self._webhooks.deliver(_target(hook), id, told, TRIAL, 1)
        except DeliveryFailed as failure:
            problem = postings.worded(str(failure.fields["problem"]))
            return Trial(id=id, delivered=False, problem=problem)
        return Trial(id=id, delivered=True)

    # ── a node's own task ──

    async def run(self) -> None:
        """Deliver until cancelled, or until the store is closed; whoever serves starts it, and again if it fails."""
        try:
            while True:
                await self.round()
                await self._ambient.sleep(PAUSE)
        except StoreClosed:
            return
        finally:
            await self.leave()

    async def round(self) -> None:
        """One look at the feed and at what waits; deliveries that are due are begun."""
        for hook in [hook for hook, task in self._busy.items() if task.done()]:
            self._busy.pop(hook).result()
        book = await self.book()
        now = self._ambient.now()
        if not postings.free(book, self.node, now):
            return
        hooks, mine = await self._read_on(book)
        if mine is None:
            return
        orphaned = postings.orphaned(mine, hooks, now)
        ready = postings.due(mine, now, AT_ONCE)
        if not (orphaned or ready or self._busy):
            return
        held = await self._held(lambda book: postings.orphaned(book, hooks, now))
        if held is not None:
            self._begin(hooks, postings.due(held, now, AT_ONCE))

    async def idle(self) -> None:
        """Wait until the deliveries that were begun have come to their end."""
        while self._busy:
            await next(iter(self._busy.values()))
            for hook in [hook for hook, task in self._busy.items() if task.done()]:
                self._busy.pop(hook).result()

    async def leave(self) -> None:
        """Break off what is under way and let another node go on at once."""
        import asyncio

        tasks = list(self._busy.values())
        self._busy.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with suppress(PerdureError):
            lease = (await self.book()).lease
            if lease is not None and lease.node == self.node and lease.until > self._ambient.now():
                over = postings.Leased(node=self.node, until=0)
                await self._notes.decided(lambda book: [over] if book.lease == lease else [])

    async def _held(self, more: Callable[[Postbook], Iterable[Entry]]) -> Postbook | None:
        """Write something as the node that delivers, which it is from then on; None when another one is."""
        now = self._ambient.now()

        def decide(book: Postbook) -> list[Entry]:
            if not postings.free(book, self.node, now):
                return []
            return [*postings.leased(book, self.node, now), *more(book)]

        book = await self._notes.decided(decide)
        return book if book.lease is not None and book.lease.node == self.node else None

    # ── reading the feed ──

    async def _read_on(self, book: Postbook) -> tuple[Mapping[str, Hook], Postbook | None]:
        """Read what is new in the feed and write down what comes of it. The webhooks there are, and the book after it;
        None when another node does this.
        """
        while True:
            position = max(self._position or 0, book.position or 0)
            at_end = await self._store.position()
            hooks = (await self._directory.book()).hooks
            if not hooks:  # nobody wants to be told, and webhooks to come are not told of the past
                self._position = max(at_end, self._position or 0)
                return hooks, book
            changes = await self._store.changes(position, PAGE)
            hooks = (await self._directory.book()).hooks  # after the feed: what came after a webhook finds it here
            if not changes or not hooks:
                return hooks, book
            found = await self._found(changes, hooks, book)
            if found.waiting or found.seen or found.position - (book.position or 0) >= LAG:
                kept = await self._kept(found, position)
                if kept is None:
                    return hooks, None
                book, self._position = kept, position
            else:
                self._position = found.position

    async def _kept(self, found: Passed, after: int) -> Postbook | None:
        """Write down what was found in the feed after a position, unless another node has passed that meanwhile. The
        audit log is told of what is crowded out.
        """
        lost: tuple[Delivery, ...] = ()

        def decide(book: Postbook) -> tuple[Passed, ...]:
            nonlocal lost
            behind = (book.position or 0) <= after
            lost = postings.crowded_out(book, found) if behind else ()
            return (found,) if behind else ()

        book = await self._held(decide)
        for each in lost if book is not None else ():
            self._auditing.later(*self._given_up(each, "crowded_out"))
        return book

    async def _found(self, changes: Iterable[Change], hooks: Mapping[str, Hook], book: Postbook) -> Passed:
        """What some changes mean for whoever wants to be told of them."""
        waiting: list[Delivery] = []
        seen: dict[str, str] = {}
        since = min(hook.created_at for hook in hooks.values())
        position = 0
        for change in changes:
            position = change.position
            if change.at < since or not (change.erased or Moved.kind in change.kinds):
                continue
            for happened in await self._happened(change, hooks, {**book.seen, **seen}):
                waiting += postings.wanted(hooks.values(), happened)
                if not change.erased and postings.told_of_the_end(hooks.values(), happened.tenant):
                    seen[happened.session] = happened.tenant
        return Passed(position=position, waiting=tuple(waiting), seen=seen)

    async def _happened(self, change: Change, hooks: Mapping[str, Hook], seen: Mapping[str, str]) -> list[Happened]:
        """The moves in a change, if its tenant has webhooks. Of a session that is gone nobody can say whose it was:
        that it was erased is told where it was known before.
        """
        if change.erased:
            tenant = seen.get(change.session)
            if tenant is None:
                return []
            told = postings.ERASED
            return [Happened(tenant=tenant, session=change.session, move=told, version=change.last, at=change.at)]
        head = await self._store.head(change.session)
        tenants = {hook.tenant for hook in hooks.values()}
        if head is None or head.row.tenant == self._system or head.row.tenant not in tenants:
            return []
        log = self._logs(head.row.tenant)
        try:
            events = await log.steadily(
                change.session, lambda head: log.events(head, change.first - 1, min(change.last, head.row.version))
            )
        except (NotFound, Tampered, KeyMissing):  # gone meanwhile, or nobody can read it: nothing can be told of it
            return []
        return [
            Happened(
                tenant=head.row.tenant,
                session=change.session,
                move=data.event,
                version=event.version,
                at=event.at,
                before=None if data.source is None else data.source.value,
                after=None if data.to is None else data.to.value,
            )
            for event in events
            if isinstance(data := event.data, Moved) and not event.redacted
        ]

    # ── delivering ──

    def _begin(self, hooks: Mapping[str, Hook], ready: Mapping[str, tuple[Delivery, ...]]) -> None:
        """Begin what is due, one task for each webhook that is not busy."""
        import asyncio

        now = self._ambient.now()
        for id, deliveries in ready.items():
            if id in hooks and id not in self._busy and self._resting.get(id, 0) <= now:
                if len(self._busy) >= MOST_HOOKS:
                    return
                self._busy[id] = asyncio.create_task(self._serve(hooks[id], deliveries), name="perdure-webhook")

    async def _serve(self, hook: Hook, deliveries: tuple[Delivery, ...]) -> None:
        """Deliver to one webhook and write down what came of it, for as long as something is due and this node is the
        one that delivers.
        """
        try:
            while deliveries:
                book = await self._served(hook, deliveries)
                now = self._ambient.now()
                mine = book.lease is not None and book.lease.node == self.node and book.lease.until > now
                deliveries = postings.due(book, now, AT_ONCE).get(hook.id, ()) if mine else ()
        except StoreClosed:
            return
        except PerdureError:  # it is all told again, soon
            self._resting[hook.id] = self._ambient.now() + round(PATIENCE * postings.SECOND)

    async def _served(self, hook: Hook, deliveries: tuple[Delivery, ...]) -> Postbook:
        """The book after these deliveries."""
        import asyncio

        outcomes = await asyncio.gather(*(self._deliver(hook, each) for each in deliveries))
        failures = tuple(each for each in outcomes if each is not None)
        missed = {each.id for each in failures}
        taken = tuple(each.id for each in deliveries if each.id not in missed)
        entry = Settled(hook=hook.id, at=self._ambient.now(), taken=taken, failed=failures)
        lost = {each.id for each in failures if each.due is None}
        for each in deliveries:
            if each.id in lost:
                await self._auditing.note(*self._given_up(each, "undelivered"))
        return await self._notes.decided(lambda book: [entry] if book.waiting.keys() & {*taken, *missed} else [])

    async def _deliver(self, hook: Hook, delivery: Delivery) -> Failure | None:
        try:
            await self._webhooks.deliver(_target(hook), delivery.id, postings.body(delivery), SECONDS)
        except DeliveryFailed as failure:
            return postings.failed(delivery, str(failure.fields["problem"]), self._ambient.now())
        return None

    def _given_up(self, delivery: Delivery, reason: str) -> tuple[str, AuditEntry]:
        return delivery.tenant, AuditEntry(
            what="webhook_given_up",
            tenant=delivery.tenant,
            at=self._ambient.now(),
            credential=delivery.hook,
            thing="webhooks",
            session=delivery.session,
            outcome="flagged",
            reason=reason,
        )


def _target(hook: Hook) -> Webhook:
    return Webhook(url=hook.url, secret=hook.secret)
