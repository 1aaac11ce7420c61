"""How many requests are taken, and how long the next one has to wait: the generic cell rate algorithm.

A limit is an `interval` (µs that one request uses up) and a `burst` (how many may come at once after a rest). All that
is kept of the past is one number, the theoretical arrival time (TAT): when everything admitted so far is used up.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final

import msgspec

from perdure.core.errors import Invalid

SECOND: Final = 1_000_000
KEPT: Final = 100_000
"""How many keys are remembered unless told otherwise; each takes about 400 bytes."""
_FORGOTTEN: Final = 2
"""How many keys are looked at, with each request, that might be forgotten: more than come."""


def admit(tat: int, now: int, interval: int, burst: int) -> tuple[int, int]:
    """The new TAT, and how many µs to wait: 0 says that the request is admitted, anything else that nothing was taken.

    Whoever asks again after exactly that wait is admitted, and not a microsecond earlier. A TAT farther ahead than a
    whole burst comes from a clock that went back since: it is brought down to an empty allowance, so that the wait is
    never more than one interval.
    """
    used_up = min(tat, now + interval * burst)
    wait = used_up - interval * (burst - 1) - now
    if wait > 0:
        return used_up, wait
    return max(used_up, now) + interval, 0


class Limit(msgspec.Struct, frozen=True):
    """One request per `interval` µs in the long run, and `burst` at once after a rest."""

    interval: int
    burst: int

    def __post_init__(self) -> None:
        if self.interval < 1 or self.burst < 1:
            raise Invalid("a limit has an interval of at least 1 µs and a burst of at least 1", limit=str(self))


def per_second(rate: float, burst: int) -> Limit:
    """The limit of so many requests per second; `Invalid` when that is none, or more than one in a microsecond."""
    if not 0 < rate <= SECOND:
        raise Invalid(f"a rate is more than 0 and at most {SECOND} requests per second, not {rate}", rate=rate)
    return Limit(max(1, round(SECOND / rate)), burst)


class Rates:
    """One limit for many keys: principals, sessions with an operation, addresses. Remembers the `keep` latest of them.

    The key that asked longest ago is forgotten first, whether it was admitted or not, so that asking often never helps;
    and without loss once all that it used is there again.
    """

    __slots__ = ("_keep", "_tats", "limit")

    def __init__(self, limit: Limit, keep: int = KEPT) -> None:
        if keep < 1:
            raise Invalid("at least one key must be remembered", keep=keep)
        self.limit = limit
        self._keep = keep
        self._tats: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tats)

    def admit(self, key: Hashable, now: int) -> int:
        """Take one request of this key: 0 when it is admitted, else the µs it has to wait."""
        tat, wait = self.look(key, now)
        self.remember(key, tat, now)
        return wait

    def wait(self, key: Hashable, now: int) -> int:
        """How many µs a request of this key would have to wait now. Takes nothing."""
        return self.look(key, now)[1]

    def look(self, key: Hashable, now: int) -> tuple[int, int]:
        """What there will be to remember of this key if its request is taken now, and the µs it would have to wait."""
        return admit(self._tats.get(key, now), now, self.limit.interval, self.limit.burst)

    def remember(self, key: Hashable, tat: int, now: int) -> None:
        """Note that a request of this key was taken, or refused."""
        tats = self._tats
        tats[key] = tat
        tats.move_to_end(key)
        for _ in range(_FORGOTTEN):
            oldest, used_up = next(iter(tats.items()))
            if used_up > now and len(tats) <= self._keep:
                return
            del tats[oldest]


def admit_all(asked: Iterable[tuple[Rates, Hashable]], now: int) -> int:
    """Take one request under several limits, from all of them or from none: 0, else the longest of the waits."""
    found = [(rates, key, *rates.look(key, now)) for rates, key in asked]
    wait = 0
    for _, _, _, each in found:
        wait = max(wait, each)
    if not wait:
        for rates, key, tat, _ in found:
            rates.remember(key, tat, now)
    return wait
