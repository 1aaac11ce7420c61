"""When a provider that failed is asked again, when another one is asked, and when it is left alone for a while.

Nothing here knows the time or rolls dice: both come in. A circuit breaker is a value; each event makes another one.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from perdure.core.errors import (
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)

FIRST: Final = 0.5
"""Seconds before the second try, at most; each further one may take twice as long."""
LONGEST: Final = 8.0
BOUND: Final = 30.0
"""A provider that asks for more patience than this, in seconds, is not waited for."""
IMPATIENT: Final = 2.0
"""The same where somebody else can be asked at once."""
RANDOM_BYTES: Final = 4
NOT_FOUND: Final = 404
RATE_LIMITED: Final = 429
MICROSECONDS: Final = 1_000_000

Worth: TypeAlias = Literal["again", "elsewhere", "nothing"]


# ── one request ──


def worth(error: PerdureError) -> Worth:
    """What to do about an error: ask the same provider again, ask another one, or tell the caller.

    A provider that was slow is not asked again: it may be at work still. Nor is one whose answer is none: its address
    or its kind is wrong, and stays so. A request that is wrong is wrong everywhere, but a model that one provider does
    not have another one may.
    """
    match error:
        case ProviderSlow():
            return "elsewhere"
        case ProviderBusy() | ProviderDown() | ProviderCut():
            return "again"
        case ProviderFailed():
            return "elsewhere"
        case ProviderRefused() if error.fields.get("status") == NOT_FOUND:
            return "elsewhere"
        case _:
            return "nothing"


def delay(attempt: int, random: bytes, *, told: float | None = None, bound: float = BOUND) -> float | None:
    """Seconds to wait before a provider is asked again, after `attempt` failures (from 1 on).

    Between half of a time that doubles and all of it, so that those who failed together do not come back together;
    never less than the provider told. None where it asks for more than the bound: do not wait for it.
    """
    if told is not None and told > bound:
        return None
    most = min(LONGEST, FIRST * (1 << min(max(attempt, 1) - 1, 16)))
    chance = int.from_bytes(random[:RANDOM_BYTES], "big") / (1 << (8 * min(len(random), RANDOM_BYTES) or 1))
    drawn = most / 2 + chance * most / 2
    return min(bound, max(drawn, (told or 0.0) + drawn / 10))


# ── a provider over time ──


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a provider: *closed*, it is asked; *open*, it is left alone until `until`; *half-open*, one
    request is trying it since `since`. `openings` counts how often in a row it was found broken.
    """

    state: Literal["closed", "open", "half-open"] = "closed"
    failures: int = 0
    openings: int = 0
    until: int = 0
    since: int = 0


class Fuse(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens: after so many failures in a row; and for how long, in seconds, twice as long each time."""

    failures: int = 5
    pause: float = 5.0
    longest: float = 60.0

    def length(self, openings: int) -> int:
        """Microseconds that it stays open for the so-manieth time."""
        return round(min(self.longest, self.pause * (1 << min(max(openings, 1) - 1, 16))) * MICROSECONDS)


CLOSED: Final = Breaker()
FUSE: Final = Fuse()


def weighs(error: PerdureError) -> bool:
    """Whether an error says that the provider is broken. One that refuses, or limits us alone, works well enough."""
    if isinstance(error, ProviderBusy):
        return error.fields.get("status") != RATE_LIMITED
    return isinstance(error, ProviderDown | ProviderCut | ProviderGarbled)


def admitted(breaker: Breaker, now: int, fuse: Fuse = FUSE) -> Breaker | None:
    """The breaker after a request was let through, or None where it is not.

    When its time is over one request tries; if nothing is heard of that for as long as a breaker stays open, another.
    """
    if breaker.state == "closed":
        return breaker
    waiting = breaker.since + fuse.length(breaker.openings) if breaker.state == "half-open" else breaker.until
    if now < waiting:
        return None
    return msgspec.structs.replace(breaker, state="half-open", since=now)


def succeeded(breaker: Breaker) -> Breaker:
    """The breaker after the provider answered, if only to refuse."""
    return breaker if breaker == CLOSED else CLOSED


def failed(breaker: Breaker, now: int, fuse: Fuse = FUSE) -> Breaker:
    """The breaker after the provider failed."""
    failures = breaker.failures + 1
    if breaker.state == "closed" and failures < fuse.failures:
        return msgspec.structs.replace(breaker, failures=failures)
    if breaker.state == "open":  # one that was let through before it opened
        return breaker
    openings = breaker.openings + 1
    return Breaker(state="open", failures=failures, openings=openings, until=now + fuse.length(openings))


def released(breaker: Breaker) -> Breaker:
    """The breaker after a request was given up, which tells nothing: if it was the one that tries, the next may."""
    if breaker.state != "half-open":
        return breaker
    return msgspec.structs.replace(breaker, state="open", since=0)


def seconds_left(breaker: Breaker, now: int, fuse: Fuse = FUSE) -> float:
    """How long it takes until a request is let through again."""
    until = breaker.since + fuse.length(breaker.openings) if breaker.state == "half-open" else breaker.until
    return 0.0 if breaker.state == "closed" else max(0, until - now) / MICROSECONDS
