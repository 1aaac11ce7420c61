"""What is posted to webhooks: which of them want which move, in what words, when again, and how far it all has come.

Invariant: a delivery is known by an id that follows from what it tells, so that telling it again is seen to be again.
No content is told: ids, phases, versions and times. What waits is bounded; where it would grow beyond, the webhook
with the most waiting loses its oldest.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from perdure.core.access.book import Hook
from perdure.core.errors import Invalid
from perdure.core.session.lifecycle import MOVE_NAMES
from perdure.core.session.shown import shown

SECOND: Final = 1_000_000
ERASED: Final = "erased"
EVERYTHING: Final = "*"
EVENTS: Final = (*MOVE_NAMES, ERASED)
"""What can be told of."""
TYPES: Final[Mapping[str, str]] = {
    "activate": "session.activated",
    "archive": "session.archived",
    "complete": "session.completed",
    ERASED: "session.erased",
    "expire": "session.expired",
    "reactivate": "session.reactivated",
    "resume": "session.resumed",
    "suspend": "session.suspended",
    "terminate": "session.terminated",
    "timeout": "session.timed_out",
}
TEST: Final = "webhook.test"
DELAYS: Final = (15, 60, 240, 960, 3_600, 7_200, 14_400, 28_800, 28_800)
"""Seconds after each failure until a delivery is tried again; it is given up about a day after it was first tried."""
MOST: Final = 4_096
"""So many deliveries wait at most."""
REMEMBERED: Final = 4_096
"""Of so many sessions it is remembered whose they are, to tell of their end."""
LEASE: Final = 60
"""Seconds that a node which delivers is taken to be alive without a word."""
MAX_PROBLEM: Final = 200


# ── what is told ──


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that one webhook is to be told, when it is next tried, and how often that failed."""

    id: str
    hook: str
    tenant: str
    session: str
    move: str
    version: int
    at: int
    before: str | None = None
    after: str | None = None
    due: int = 0
    failures: int = 0


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a session, or its end, that somebody may want to be told of."""

    tenant: str
    session: str
    move: str
    version: int
    at: int
    before: str | None = None
    after: str | None = None


def must_be_events(events: Collection[str]) -> tuple[str, ...]:
    """The events a webhook is for, or `Invalid`; none named are all."""
    for event in events:
        if event != EVERYTHING and event not in EVENTS:
            raise Invalid(f"there is no event {shown(event)}; there are {', '.join(EVENTS)}, and * for all")
    return tuple(dict.fromkeys(events)) or (EVERYTHING,)


def wants(hook: Hook, move: str) -> bool:
    """Whether a webhook is to be told of a move."""
    return not hook.events or EVERYTHING in hook.events or move in hook.events


def wanted(hooks: Iterable[Hook], happened: Happened) -> tuple[Delivery, ...]:
    """What is to be delivered: to each webhook of the tenant that wants it and was there when it happened."""
    return tuple(
        Delivery(
            id=delivery_id(hook.id, happened),
            hook=hook.id,
            **{name: getattr(happened, name) for name in Happened.__struct_fields__},
        )
        for hook in hooks
        if hook.tenant == happened.tenant and hook.created_at <= happened.at and wants(hook, happened.move)
    )


def told_of_the_end(hooks: Iterable[Hook], tenant: str) -> bool:
    """Whether some webhook of a tenant wants to be told of sessions that are erased."""
    return any(hook.tenant == tenant and wants(hook, ERASED) for hook in hooks)


def delivery_id(hook: str, happened: Happened) -> str:
    """The id of telling this to a webhook. The time is part of it: a name may be used for another session later."""
    words = (hook, happened.session, happened.version, happened.move, happened.at)
    return f"msg_{sha256(msgspec.json.encode(words)).hexdigest()[:32]}"


def body(delivery: Delivery) -> bytes:
    """What is posted, to the letter the same each time."""
    told = {
        "id": delivery.id,
        "type": TYPES.get(delivery.move, "session.moved"),
        "session_id": delivery.session,
        "tenant": delivery.tenant,
        "move": delivery.move,
        "phase_before": delivery.before,
        "phase_after": delivery.after,
        "version": delivery.version,
        "at": delivery.at,
    }
    return msgspec.json.encode(told)


def trial_body(id: str, hook: Hook, at: int) -> bytes:
    """What is posted to try a webhook out."""
    return msgspec.json.encode({"id": id, "type": TEST, "webhook_id": hook.id, "tenant": hook.tenant, "at": at})


# ── how far it has come ──


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag="passed", omit_defaults=True):
    """The feed was read up to a position; these deliveries came of it, and of these sessions it is known whose."""

    position: int
    waiting: tuple[Delivery, ...] = ()
    seen: dict[str, str] = {}


class Leased(msgspec.Struct, frozen=True, kw_only=True, tag="leased"):
    """A node delivers, and no other does until then."""

    node: str
    until: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery was not taken; it is tried again when due, or given up."""

    id: str
    problem: str
    due: int | None = None


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="settled", omit_defaults=True):
    """What came of some deliveries to one webhook; if it is `gone`, they are dropped and it is forgotten."""

    hook: str
    at: int
    taken: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    dropped: tuple[str, ...] = ()
    gone: bool = False


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a webhook fares."""

    succeeded_at: int | None = None
    failed_at: int | None = None
    problem: str | None = None
    given_up: int = 0
    """Deliveries that were given up, after a day or because too much waited."""


class Lease(msgspec.Struct, frozen=True):
    """Which node delivers, and until when it need not say so again."""

    node: str
    until: int


class Postbook(msgspec.Struct, frozen=True, kw_only=True):
    """Where the feed was read up to, what waits in order, who delivers, how each webhook fares, whose sessions are."""

    position: int | None = None
    waiting: Mapping[str, Delivery] = MappingProxyType({})
    lease: Lease | None = None
    standings: Mapping[str, Standing] = MappingProxyType({})
    seen: Mapping[str, str] = MappingProxyType({})


class Summed(msgspec.Struct, frozen=True, kw_only=True, tag="summed", omit_defaults=True):
    """All of the book, so that nobody needs to read what came before."""

    position: int | None = None
    waiting: tuple[Delivery, ...] = ()
    lease: Lease | None = None
    standings: dict[str, Standing] = {}
    seen: dict[str, str] = {}


Entry: TypeAlias = Passed | Leased | Settled | Summed
BLANK: Final = Postbook()


def fold(book: Postbook, entry: Entry) -> Postbook:
    """The book after an entry."""
    match entry:
        case Summed():
            waiting = {each.id: each for each in entry.waiting}
            facts: dict[str, Any] = {"lease": entry.lease, "standings": entry.standings, "seen": entry.seen}
            return Postbook(position=entry.position, waiting=waiting, **facts)
        case Leased():
            return replace(book, lease=Lease(entry.node, entry.until))
        case Passed():
            return _passed(book, entry)
        case Settled():
            return _settled(book, entry)
        case _:
            assert_never(entry)


def summed(book: Postbook, _: int) -> Summed:
    """The book as one entry."""
    return Summed(
        position=book.position,
        waiting=tuple(book.waiting.values()),
        lease=book.lease,
        standings=dict(book.standings),
        seen=dict(book.seen),
    )


def _passed(book: Postbook, entry: Passed) -> Postbook:
    waiting, standings = _joined(book, entry), dict(book.standings)
    for delivery in crowded_out(book, entry):
        del waiting[delivery.id]
        known = standings.get(delivery.hook, Standing())
        standings[delivery.hook] = replace(known, given_up=known.given_up + 1)
    seen = {session: tenant for session, tenant in book.seen.items() if session not in entry.seen} | entry.seen
    while len(seen) > REMEMBERED:
        del seen[next(iter(seen))]
    position = max(entry.position, book.position or 0)
    return replace(book, position=position, waiting=waiting, standings=standings, seen=seen)


def _joined(book: Postbook, entry: Passed) -> dict[str, Delivery]:
    return {**book.waiting, **{each.id: each for each in entry.waiting if each.id not in book.waiting}}


def crowded_out(book: Postbook, entry: Passed) -> tuple[Delivery, ...]:
    """What has to go so that no more waits than may: the oldest of whoever has the most waiting."""
    waiting, gone = _joined(book, entry), list[Delivery]()
    if len(waiting) <= MOST:
        return ()
    counts = Counter(each.hook for each in waiting.values())
    lines = {hook: iter([each for each in waiting.values() if each.hook == hook]) for hook in counts}
    while len(waiting) - len(gone) > MOST:
        hook = max(counts, key=lambda each: (counts[each], each))
        gone.append(next(lines[hook]))
        counts[hook] -= 1
    return tuple(gone)


def _settled(book: Postbook, entry: Settled) -> Postbook:
    waiting, known = dict(book.waiting), book.standings.get(entry.hook, Standing())
    for id in (*entry.taken, *entry.dropped):
        waiting.pop(id, None)
    for failure in entry.failed:
        found = waiting.get(failure.id)
        known = replace(known, problem=failure.problem, failed_at=entry.at)
        if found is None:
            continue
        if failure.due is None:
            del waiting[failure.id]
            known = replace(known, given_up=known.given_up + 1)
        else:
            waiting[failure.id] = replace(found, due=failure.due, failures=found.failures + 1)
    if entry.taken:
        known = replace(known, succeeded_at=entry.at)
    standings = {hook: standing for hook, standing in book.standings.items() if hook != entry.hook}
    if not entry.gone:
        standings[entry.hook] = known
    return replace(book, waiting=waiting, standings=standings)


# ── what is next ──


def free(book: Postbook, node: str, now: int) -> bool:
    """Whether a node may deliver: it does already, or nobody else does."""
    return book.lease is None or book.lease.node == node or book.lease.until <= now


def leased(book: Postbook, node: str, now: int, *, renew: bool = False) -> tuple[Leased, ...]:
    """What a node writes to be the one that delivers; nothing while that is so for long enough, unless it renews."""
    lasting = book.lease is not None and book.lease.node == node and book.lease.until - now > LEASE * SECOND // 2
    return () if lasting and not renew else (Leased(node=node, until=now + LEASE * SECOND),)


def orphaned(book: Postbook, hooks: Collection[str], now: int) -> tuple[Settled, ...]:
    """What to write of webhooks that are there no longer: nothing waits for them, and nothing is known of them."""
    waiting: dict[str, tuple[str, ...]] = dict.fromkeys(set(book.standings) - set(hooks), ())
    for each in book.waiting.values():
        if each.hook not in hooks:
            waiting[each.hook] = (*waiting.get(each.hook, ()), each.id)
    return tuple(Settled(hook=hook, at=now, gone=True, dropped=waiting[hook]) for hook in sorted(waiting))


def due(book: Postbook, now: int, most: int) -> dict[str, tuple[Delivery, ...]]:
    """What is to be tried now, by webhook: of each session the first that waits, so that they are told in order."""
    heads: dict[tuple[str, str], Delivery] = {}
    for each in book.waiting.values():
        heads.setdefault((each.hook, each.session), each)
    found: dict[str, tuple[Delivery, ...]] = {}
    for each in sorted(heads.values(), key=lambda head: head.due):
        if each.due <= now and len(found.get(each.hook, ())) < most:
            found[each.hook] = (*found.get(each.hook, ()), each)
    return found


def failed(delivery: Delivery, problem: str, now: int) -> Failure:
    """A delivery that was not taken: when it is tried again, if it is."""
    told = worded(problem)
    if delivery.failures >= len(DELAYS):
        return Failure(id=delivery.id, problem=told)
    return Failure(id=delivery.id, problem=told, due=now + DELAYS[delivery.failures] * SECOND)


def fares(book: Postbook, hook: str) -> tuple[Standing, int]:
    """How a webhook fares, and how many deliveries wait for it."""
    return book.standings.get(hook, Standing()), sum(each.hook == hook for each in book.waiting.values())


def worded(problem: str) -> str:
    """What was wrong, as it may be kept and shown: a receiver has a say in it."""
    return "".join(letter if letter.isprintable() else "?" for letter in problem[:MAX_PROBLEM])
