"""Whether a request looks unlike the session it belongs to: its pace, its operation, its size, where it comes from.

Everything is measured in nats of surprise: −ln of how likely the session's own past makes it. 4σ are as many nats as a
normal variable has there. What has happened in a session before is no news in it; so:

- **rate** and **size** are heavy-tailed: of their logarithms an exponentially weighted mean, upward variance and
  highest value are kept. Up to the highest, little is surprising; beyond it the surprise grows with every half
  deviation. The rate is how long the last 8 and the last 64 requests took, so a few at once are nothing. Each operation
  has its own sizes.
- **operations** have exponentially weighted frequencies. One rare operation is nothing, a run of them is: what each has
  above the usual surprise is summed up, and drains away with ordinary ones.
- **address** likewise, by network (/24, /64), and never enough alone: people move. It counts with what else is odd.

`observe` is pure and takes constant time; a profile has a bounded size.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

RATE: Final = "rate"
OPERATIONS: Final = "operations"
SIZE: Final = "size"
ADDRESS: Final = "address"

WARM_UP: Final = 50
"""Requests of a session before any is flagged."""
SIGMA: Final = 4.0
ALONE: Final = -math.log(math.erfc(SIGMA / math.sqrt(2)) / 2)
"""Nats that flag by themselves, 10.36: −ln of how likely a normal variable is beyond 4σ."""
TOGETHER: Final = 13.0
"""Nats that flag when all signals are added up: half the χ² that, with four degrees of freedom, is as rare as 4σ."""
TELLING: Final = 2.0
"""Nats from which a signal is named when it only flags together with others."""

MEMORY: Final = 200.0
"""Requests after which the past weighs 1/e."""
MAX_OPERATIONS: Final = 32
MAX_NETWORKS: Final = 8
KEPT: Final = 10_000
"""Profiles at hand unless told otherwise; a usual one takes about 2 kB, none more than about 12 kB."""

_FADE: Final = 1 - 1 / MEMORY
_LONG_FADE: Final = 1 - 1 / (5 * MEMORY)
_PRIOR: Final = 0.5
_NEW: Final = 5.0
"""Nats of what was never done: one request in 150 may be so in any session."""
_SEEN_BEFORE: Final = 3.0
"""Nats that an operation has at most once it was done at all, be it long ago."""
_QUICK: Final = 20.0
"""Requests after which another phase of work is as usual as the one before."""
_QUICK_FADE: Final = 1 - 1 / _QUICK
_MOST: Final = 20.0
"""Nats that a run of operations sums up to at most, so that it also ends."""
_RUN: Final = 8
_ALIKE: Final = 256
"""Bytes: differences between sizes below this are none."""
_SAME_TIME: Final = 1_000_000
"""µs by which requests may be seen out of order; a clock that goes back farther was set."""
_LEAST_PACE: Final = 0.75
_LEAST_SIZE: Final = 0.5


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What is seen of a request: when (µs), which operation, how many bytes of body, from which address."""

    at: int
    operation: str
    size: int = 0
    address: str | None = None


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether a request is flagged, by which signals (the strongest first), and how surprising all of it is."""

    flagged: bool = False
    signals: tuple[str, ...] = ()
    nats: float = 0.0

    @property
    def sigma(self) -> float:
        """The surprise as deviations of a normal variable; at least 4 of a flagged request."""
        squared = 2 * self.nats
        for _ in range(3):
            squared = max(0.0, 2 * self.nats - math.log(2 * math.pi * max(1.0, squared)))
        return math.sqrt(squared)


NOTHING: Final = Verdict()


class Tail(msgspec.Struct, frozen=True, gc=False):
    """A heavy-tailed quantity: how many were seen, their mean, their variance upwards, their fading highest value."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0
    highest: float = 0.0

    def nats(self, value: float, least: float, each: int = 1) -> float:
        """How surprising so high a value is. `least` is the smallest deviation that the tail is taken to have, `each`
        of how many requests one value was the highest.
        """
        if self.count == 0 or value <= self.mean:
            return 0.0
        known = math.log(min(self.count * each, MEMORY) + 1)
        deviation = max(least, math.sqrt(self.variance) / 2)
        if value <= self.highest:
            return min(known, ((value - self.mean) / deviation) ** 2 / 2)
        return known + (value - self.highest) / (deviation * (1 + 3 / self.count))

    def learn(self, value: float) -> "Tail":
        """The same with one value more."""
        if self.count == 0:
            return Tail(1, value, 0.0, value)
        share = max(1 / (self.count + 1), 1 / MEMORY)
        off = value - self.mean
        mean = self.mean + share * off
        squared = 2 * off * off if off > 0 else 0.0
        highest = mean + (self.highest - mean) * _LONG_FADE
        return Tail(self.count + 1, mean, self.variance + share * (squared - self.variance), max(value, highest))


class Habit(msgspec.Struct, frozen=True, gc=False):
    """How often something is done: its weights in the long and the short run, when last, and the sizes it had."""

    weight: float
    lately: float
    last: int
    sizes: Tail = Tail()


class Run(msgspec.Struct, frozen=True, gc=False):
    """The run of unusual operations that is going on: its surprise, the most it was, and the most of earlier runs."""

    excess: float = 0.0
    most: float = 0.0
    earlier: float = 0.0

    def add(self, surprise: float) -> "Run":
        """The run with one operation more, which is as much above what is usual, or below."""
        excess = min(_MOST, max(0.0, self.excess + surprise))
        earlier = self.earlier * _LONG_FADE
        return Run(excess, max(excess, self.most), earlier) if excess else Run(0.0, 0.0, max(earlier, self.most))

    def told(self) -> "Run":
        """The run after it was flagged: as long as it goes on, only more than this is news."""
        return Run(self.excess, self.most, max(self.earlier, self.most))

    @property
    def nats(self) -> float:
        """How surprising the run is; up to what earlier ones were, never enough to flag."""
        known = math.log(MEMORY)
        return self.excess if self.excess <= known else max(known, self.excess - max(0.0, self.earlier - known))


class Clock(msgspec.Struct, frozen=True, gc=False):
    """When the latest requests came (and every eighth of them), and how fast runs of 8 and of 64 usually are.

    Of every eight runs of 8 the fastest is learned, and only after the next eight, so that no run is compared with its
    own beginning.
    """

    recent: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pace: Tail = Tail()
    stride: Tail = Tail()
    fastest: float | None = None
    before: float | None = None

    def told(self) -> "Clock":
        """The clock after a flag: what was flagged is no news any more."""
        if self.fastest is None:
            return self
        return Clock(self.recent, self.strides, self.pace.learn(self.fastest), self.stride, None, self.before)


class Profile(msgspec.Struct, frozen=True):
    """What is usual for a session."""

    count: int = 0
    clock: Clock = Clock()
    sizes: Tail = Tail()
    operations: dict[str, Habit] = {}
    networks: dict[str, Habit] = {}
    surprise: Tail = Tail()
    run: Run = Run()
    moving: float = 0.0
    """The usual surprise of its addresses."""


def observe(profile: Profile, sight: Sight) -> tuple[Profile, Verdict]:
    """What the profile makes of a request, and the profile that has learned from it.

    Whoever refuses a flagged request keeps the old profile, which then still says what was served.
    """
    clock, fastest = _timed(profile, sight.at)
    operation = profile.operations.get(sight.operation)
    size = math.log(max(0, sight.size) + _ALIKE)
    surprise = _unusual(operation, profile.count)
    usual = profile.surprise.mean + max(_PRIOR, math.sqrt(profile.surprise.variance))
    warm = profile.count >= WARM_UP
    run = profile.run.add(surprise - usual) if warm else profile.run
    place = None if sight.address is None else network(sight.address)
    strange = profile.moving if place is None else _surprise(profile.networks.get(place), profile.count)
    verdict = NOTHING
    if warm:
        new = max(0.0, strange - profile.moving)
        odd = run.excess if new >= TELLING else run.nats  # earlier runs count only for where they came from
        verdict = judge({RATE: fastest, OPERATIONS: odd, SIZE: _size(profile, operation, size), ADDRESS: new})
    learned = Profile(
        profile.count + 1,
        clock.told() if verdict.flagged else clock,
        profile.sizes.learn(size),
        _done(profile.operations, sight.operation, profile.count, MAX_OPERATIONS, size),
        profile.networks if place is None else _done(profile.networks, place, profile.count, MAX_NETWORKS),
        profile.surprise.learn(surprise),
        run.told() if verdict.flagged else run,
        profile.moving + (strange - profile.moving) / MEMORY,
    )
    return learned, verdict


def judge(nats: dict[str, float]) -> Verdict:
    """Flagged when one signal is beyond 4σ, or all of them together are as rare as that."""
    alone = {name for name, found in nats.items() if found >= ALONE}
    total = sum(nats.values())
    if not alone and total < TOGETHER:
        return Verdict(nats=max(nats.values()))
    telling = [name for name, found in nats.items() if name in alone or found >= TELLING]
    return Verdict(True, tuple(sorted(telling, key=lambda name: -nats[name])), total)


def _timed(profile: Profile, at: int) -> tuple[Clock, float]:
    """The clock with this request on it, and how surprisingly fast the latest run was."""
    clock = profile.clock
    recent, strides = clock.recent, clock.strides
    if recent and at < recent[-1]:
        if recent[-1] - at > _SAME_TIME:  # it was set back: what it said before tells nothing any more
            recent, strides = (), ()
        else:
            at = recent[-1]
    pace, stride, fastest, before, nats = clock.pace, clock.stride, clock.fastest, clock.before, 0.0
    recent = (*recent[-_RUN:], at)
    fast = _speed(recent)
    if fast is not None:
        nats = pace.nats(fast, _LEAST_PACE, _RUN)
        fastest = fast if fastest is None else max(fast, fastest)
    if profile.count % _RUN == 0:
        strides = (*strides[-_RUN:], at)
        far = _speed(strides)
        if far is not None:
            nats = max(nats, stride.nats(far, _LEAST_PACE, _RUN))
            stride = stride.learn(far)
        if before is not None:
            pace = pace.learn(before)
        before, fastest = fastest, None
    return Clock(recent, strides, pace, stride, fastest, before), nats


def _speed(times: tuple[int, ...]) -> float | None:
    """The logarithm of how fast a whole run was; what takes less than a millisecond each is all the same."""
    return -math.log(times[-1] - times[0] + _RUN * 1000) if len(times) > _RUN else None


def _surprise(habit: Habit | None, count: int) -> float:
    """−ln of how often this is done in the long run."""
    weight = 0.0 if habit is None else habit.weight * _FADE ** (count - habit.last)
    return min(_NEW, math.log((MEMORY * (1 - _FADE**count) + 1) / (weight + _PRIOR)))


def _unusual(habit: Habit | None, count: int) -> float:
    """−ln of how often this is done, in the long run or lately: less for what was done before, however long ago."""
    found = _surprise(habit, count)
    if habit is None:
        return found
    lately = habit.lately * _QUICK_FADE ** (count - habit.last)
    return min(_SEEN_BEFORE, found, math.log((_QUICK + 1) / (lately + _PRIOR)))


def _size(profile: Profile, operation: Habit | None, size: float) -> float:
    """The surprise of a size among those of its operation; among all of them, and not enough alone, while it is new."""
    if operation is not None and operation.sizes.count >= _RUN:
        return operation.sizes.nats(size, _LEAST_SIZE)
    return min(profile.sizes.nats(size, _LEAST_SIZE), math.log(MEMORY))


def _done(habits: dict[str, Habit], name: str, count: int, most: int, size: float | None = None) -> dict[str, Habit]:
    """The habits with one of them done once more. The one that weighs least makes room for a new one."""
    old = habits.get(name) or Habit(0.0, 0.0, count)
    weight = old.weight * _FADE ** (count - old.last) + 1
    lately = old.lately * _QUICK_FADE ** (count - old.last) + 1
    found = {**habits, name: Habit(weight, lately, count, old.sizes if size is None else old.sizes.learn(size))}
    if len(found) > most:
        del found[min(habits, key=lambda each: habits[each].weight * _FADE ** (count - habits[each].last))]
    return found


@lru_cache(maxsize=4096)
def network(address: str) -> str:
    """The network that an address belongs to: its /24 or /64. What is no address stands for itself."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return found.packed[:8].hex()
        found = found.ipv4_mapped
    return str(found).rpartition(".")[0]


class Profiles:
    """The profiles of the sessions that asked last, at most `keep` of them; the one unheard of longest goes first."""

    __slots__ = ("_keep", "_profiles")

    def __init__(self, keep: int = KEPT) -> None:
        self._keep = keep
        self._profiles: OrderedDict[Hashable, Profile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._profiles)

    def observe(self, key: Hashable, sight: Sight, *, block: bool = False) -> Verdict:
        """The verdict on a request. `block` says that a flagged one is refused: nothing is learned from it then."""
        old = self._profiles.get(key, _FRESH)
        new, verdict = observe(old, sight)
        self._profiles[key] = old if block and verdict.flagged else new
        self._profiles.move_to_end(key)
        if len(self._profiles) > self._keep:
            self._profiles.popitem(last=False)
        return verdict

    def forget(self, key: Hashable) -> None:
        """Begin anew with a session, as after its owner signed in again."""
        self._profiles.pop(key, None)


_FRESH: Final = Profile()
