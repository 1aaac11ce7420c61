"""When a checkpoint is due, and whether it holds the full state or a delta.

All pure: time, rate and the kinds just decided are parameters. A full checkpoint is taken every k-th time, on
lifecycle moves, before critical mutations and when there is no base to stand on; a structural delta otherwise.
"""

from collections.abc import Collection
from enum import Enum
from math import exp
from typing import Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from perdure.core.errors import Invalid
from perdure.core.session.event import Event, Payload

MICROSECONDS = 1_000_000
_SMOOTHING_SECONDS = 60.0
_MOST = 1e12  # seconds whose microseconds still fit every store


class Trigger(Enum):
    """Why a checkpoint was taken."""

    MANUAL = "manual"
    PERIODIC = "periodic"
    EVENT = "event"
    PRE_MUTATION = "pre_mutation"
    ADAPTIVE = "adaptive"
    LIFECYCLE = "lifecycle"
    MIGRATION = "migration"


class Adaptive(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoint more often the faster the state changes; seconds, and mutations per second."""

    base: float = 300.0
    least: float = 5.0
    most: float = 3600.0
    reference_rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("base", "least", "most", "reference_rate"):
            force_setattr(self, name, _positive(getattr(self, name), name))
        if self.least > self.most:
            raise Invalid("least is more than most; swap them", least=self.least, most=self.most)


class CheckpointPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which automatic checkpoints a session takes. Lifecycle moves always checkpoint."""

    periodic: float | None = None
    on_kinds: tuple[str, ...] = ()
    pre_mutation: bool = False
    critical: bool = False
    adaptive: Adaptive | None = None
    full_every: int = 10
    ttl: int | None = 86_400

    def __post_init__(self) -> None:
        if self.periodic is not None:
            force_setattr(self, "periodic", _positive(self.periodic, "periodic"))
        for name in ("full_every", "ttl"):
            value = getattr(self, name)
            if type(value) is not int and (name, value) != ("ttl", None):
                raise Invalid(f"{name} is a whole number, not {value!r:.80}")
            if value is not None:
                _positive(value, name)


def _positive(value: Any, name: str) -> float:
    """A number above zero as a float, so that 5 and 5.0 are stored alike; or `Invalid`."""
    if type(value) not in (int, float) or not 0 < value <= _MOST:
        raise Invalid(f"{name} is a number above zero and at most {_MOST:.0e}, not {value!r:.80}")
    return float(value)


DEFAULT_POLICY = CheckpointPolicy()


class CheckpointTaken(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The state at `state_version` can be resumed from."""

    kind: ClassVar[str] = "checkpoint_taken"
    id: str = ""
    seq: int = 0
    label: str = ""
    trigger: Trigger | None = None
    full: bool = False
    base: int | None = None
    state_version: int = 0
    state_sha: bytes = b""
    payload_sha: bytes = b""
    expires_at: int | None = None
    metadata: dict[str, Any] = {}


class CheckpointPinned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The checkpoint never expires, or does again."""

    kind: ClassVar[str] = "checkpoint_pinned"
    id: str = ""
    pinned: bool = False


class CheckpointExpired(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The checkpoint's id is unusable from here on; branching at its version still works."""

    kind: ClassVar[str] = "checkpoint_expired"
    ids: tuple[str, ...] = ()


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the state this module keeps. The checkpoints themselves are rows beside the log."""

    seq: int = 0
    last_full: int = 0
    last_at: int = 0
    last_version: int = 0
    rate: float = 0.0
    rate_at: int = 0


def adaptive_interval(adaptive: Adaptive, rate: float) -> float:
    """Seconds until the next adaptive checkpoint: clamp(base / (1 + rate / reference_rate), least, most)."""
    wanted = adaptive.base / (1.0 + rate / adaptive.reference_rate)
    return min(max(wanted, adaptive.least), adaptive.most)


def next_rate(rate: float, since: int, at: int, mutations: int) -> float:
    """The exponentially weighted mutations per second after `mutations` more at `at` (µs)."""
    elapsed = max(at - since, 1) / MICROSECONDS
    weight = exp(-elapsed / _SMOOTHING_SECONDS)
    return rate * weight + (mutations / max(elapsed, 1.0)) * (1.0 - weight)


def due(policy: CheckpointPolicy, part: Checkpoints, at: int, kinds: Collection[str]) -> Trigger | None:
    """Why a checkpoint should follow events of these kinds at this time, if it should."""
    if any(kind in policy.on_kinds for kind in kinds):
        return Trigger.EVENT
    elapsed = (at - part.last_at) / MICROSECONDS
    if policy.adaptive is not None and elapsed >= adaptive_interval(policy.adaptive, part.rate):
        return Trigger.ADAPTIVE
    if policy.periodic is not None and elapsed >= policy.periodic:
        return Trigger.PERIODIC
    return None


def is_full(policy: CheckpointPolicy, part: Checkpoints, trigger: Trigger, *, has_base: bool) -> bool:
    """Whether the next checkpoint holds the whole state."""
    if not has_base or trigger is Trigger.LIFECYCLE or trigger is Trigger.MIGRATION:
        return True
    if trigger is Trigger.PRE_MUTATION and policy.critical:
        return True
    return part.seq + 1 - part.last_full >= policy.full_every


def expiry(policy: CheckpointPolicy, trigger: Trigger, at: int) -> int | None:
    """When a checkpoint taken now expires; lifecycle ones live as long as the session."""
    if trigger is Trigger.LIFECYCLE or policy.ttl is None:
        return None
    return at + policy.ttl * MICROSECONDS


def evolve(part: Checkpoints, event: Event) -> Checkpoints:
    """Fold one event into the checkpoint bookkeeping."""
    data = event.data
    if isinstance(data, CheckpointTaken):
        return msgspec.structs.replace(
            part,
            seq=data.seq,
            last_full=data.seq if data.full else part.last_full,
            last_at=event.at,
            last_version=data.state_version,
        )
    return part


def count_mutation(part: Checkpoints, at: int) -> Checkpoints:
    """The bookkeeping after one more mutation, for the adaptive interval."""
    rate = next_rate(part.rate, part.rate_at, at, 1) if part.rate_at else 0.0
    return msgspec.structs.replace(part, rate=rate, rate_at=at)
