"""Time-outs: what becomes due for a session, and when. Pure: the state, the deployment's defaults and the time come in.

=============  =======================================================  =============================================
limit          counted from                                             what it does
=============  =======================================================  =============================================
``idle``       the last interaction, activation or resumption           ACTIVE is suspended
``max_active`` activation or the last resumption                        ACTIVE is suspended
``absolute``   creation; nothing ever moves it                          ACTIVE is suspended, anything awake or asleep
                                                                        is ended
``expires_at`` a moment, set at creation or by renewing                 the same
``grace``      suspension, by whomever                                  SUSPENDED is ended; so is RESUMED that idle and
                                                                        grace passed over, and INIT likewise
``expiry``     the end                                                  COMPLETED, TERMINATED, ARCHIVED is erased
=============  =======================================================  =============================================

Invariant: `overdue` gives something to do exactly when the time has reached `due_at`.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from perdure.core.errors import BudgetExhausted, Invalid, NotOwner, RenewalRefused
from perdure.core.session import lifecycle
from perdure.core.session.budget import Account
from perdure.core.session.lifecycle import TERMINAL, Life, Phase
from perdure.core.session.origin import Config, Timeouts
from perdure.core.session.shown import shown
from perdure.core.session.state import State

SECOND: Final = 1_000_000
LONGEST: Final = 10**10
"""Seconds; more than three centuries."""
FOREVER: Final = (1 << 63) - 1
"""Microseconds that no store could keep: a deadline beyond is none."""
LATEST: Final = 253_370_764_800 * SECOND
"""Microseconds: the year 9999 begins. A moment that somebody names lies before it, so that it can always be shown."""
COMPENSATED: Final = 300
"""Seconds that whoever ended a session has to run its compensations, before somebody else does."""
OFF: Final = Timeouts()
LIMITS: Final = ("idle", "absolute", "max_active", "grace", "expiry")
FIELDS: Final = Timeouts.__struct_fields__
SCRUBS: Final = ("pii", "credentials", "all")


class Due(Enum):
    """What is to be done about a session."""

    SUSPEND = "suspend"
    END = "end"
    COMPENSATE = "compensate"
    ERASE = "erase"


class Deadline(msgspec.Struct, frozen=True):
    """At this time, this is to be done, for this reason."""

    at: int
    due: Due
    reason: str


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done now: by which move, if by one, why, and since when."""

    due: Due
    move: str
    reason: str
    since: int


_MOVES: Final = {
    Phase.ACTIVE: "timeout",
    Phase.SUSPENDED: "expire",
    Phase.INIT: "terminate",
    Phase.RESUMED: "terminate",
}


def admit(config: Config | None) -> None:
    """Refuse limits that are no length of time, and a scrubbing nobody knows."""
    if config is None:
        return
    if config.timeouts is not None:
        admit_limits(config.timeouts)
    if config.scrub is not None and config.scrub not in SCRUBS:
        raise Invalid(f"scrub is one of {', '.join(SCRUBS)}, not {shown(config.scrub)}")


def admit_names(given: object) -> None:
    """Refuse a dict of time-outs that names one there is not: a misspelt limit is no limit, and must not pass for one.

    What a log or an export holds is not asked: there, a newer version may have written what this one does not know.
    """
    for name in given if type(given) is dict else ():
        if name not in FIELDS:
            raise Invalid(
                f"there is no time-out {shown(name)}; there are {', '.join(FIELDS)}", limit=shown(name), allowed=FIELDS
            )


def admit_moment(value: object, what: str) -> int:
    """A moment in microseconds since 1970, before the year 9999, or `Invalid`."""
    if type(value) is not int or not 0 <= value < LATEST:
        raise Invalid(f"{what} is a moment from 1970 to 9998, in microseconds since 1970, not {shown(value)}")
    return value


def admit_limits(limits: Timeouts) -> None:
    """Refuse limits that are no length of time."""
    if not isinstance(limits, Timeouts):
        raise Invalid(f"timeouts are a dict or Timeouts of {', '.join(FIELDS)}, not {shown(limits)}")
    for name in LIMITS:
        value = getattr(limits, name)
        if value is not None and (type(value) is not int or not 0 <= value <= LONGEST):
            raise Invalid(f"the time-out {name} is in whole seconds, 0 to {LONGEST}, not {shown(value)}", limit=name)


def effective(state: State, defaults: Timeouts = OFF) -> Timeouts:
    """The session's own limits; where it has none, the deployment's."""
    own = state.config.timeouts
    if own is None or defaults is OFF:
        return own or defaults
    chosen = {name: _first(getattr(own, name), getattr(defaults, name)) for name in LIMITS}
    return Timeouts(**chosen, background=own.background)


def _first(own: int | None, default: int | None) -> int | None:
    return default if own is None else own


def due_at(state: State, defaults: Timeouts = OFF) -> int | None:
    """When something is to be done about the session if nothing happens before; None when never."""
    if defaults is OFF and state.origin.expires_at is None and not state.life.cleanup:
        config = state.origin.config
        if config is None or config.timeouts is None:
            return None
    return min((deadline.at for deadline in deadlines(state, defaults)), default=None)


def overdue(state: State, now: int, defaults: Timeouts = OFF) -> Action | None:
    """What is to be done about the session by now, the most final thing first; None when it can wait."""
    passed = [deadline for deadline in deadlines(state, defaults) if deadline.at <= now]
    if not passed:
        return None
    final = any(deadline.due is Due.ERASE for deadline in passed)
    first = min((item for item in passed if not final or item.due is Due.ERASE), key=lambda item: item.at)
    return Action(due=first.due, move=_MOVES.get(state.phase, ""), reason=first.reason, since=first.at)


def deadlines(state: State, defaults: Timeouts = OFF) -> Iterator[Deadline]:
    """Everything that will become due if the session stays as it is."""
    limits = effective(state, defaults)
    for at, due, reason in _deadlines(state, limits):
        if 0 <= at <= FOREVER:
            yield Deadline(at, due, reason)


def _deadlines(state: State, limits: Timeouts) -> Iterator[tuple[int, Due, str]]:
    life, origin = state.life, state.origin
    if life.phase in TERMINAL:
        if limits.expiry:
            yield _after(ended_at(life), limits.expiry), Due.ERASE, "expiry"
        if life.phase is Phase.TERMINATED and life.cleanup and not all(item.done for item in life.compensations):
            yield _after(life.since, COMPENSATED), Due.COMPENSATE, "compensations"
        return
    due = Due.SUSPEND if life.phase is Phase.ACTIVE else Due.END
    if limits.absolute:
        yield _after(origin.created_at, limits.absolute), due, "absolute"
    if origin.expires_at is not None:
        yield origin.expires_at, due, "expires_at"
    if life.phase is Phase.ACTIVE:
        if limits.idle:
            yield _after(heard_at(state), limits.idle), due, "idle"
        if limits.max_active:
            yield _after(life.since, limits.max_active), due, "max_active"
        return
    patience = _patience(state, limits)
    if patience is not None:
        yield _after(life.since, patience), due, "grace"


def _after(start: int, seconds: int) -> int:
    """Limits that were written before they were checked may be negative: then the time has come at once."""
    return start + max(0, seconds) * SECOND


def _patience(state: State, limits: Timeouts) -> int | None:
    """How long a session that is not at work is left so, in seconds; a renewal meanwhile replaces that by a moment."""
    if not limits.grace or (state.origin.expires_at is not None and state.origin.renewed_at >= state.life.since):
        return None
    if state.phase is Phase.SUSPENDED:
        return limits.grace
    if state.phase is Phase.RESUMED:
        return (limits.idle or 0) + limits.grace
    return limits.idle + limits.grace if limits.idle else None


def heard_at(state: State) -> int:
    """The last interaction that counts: something said, a turn begun or ended, an activation or resumption."""
    return max(state.life.since, state.turns.last_at, state.life.heard_at)


def ended_at(life: Life) -> int:
    """When the session ended, also if it was archived since."""
    if life.phase is not Phase.ARCHIVED:
        return life.since
    return life.since - life.spent.get(Phase.TERMINATED.value, 0) - life.spent.get(Phase.COMPLETED.value, 0)


def renewal(state: State, wanted: int, *, at: int, actor: str, account: Account, defaults: Timeouts = OFF) -> int:
    """Until when the session may live if it is renewed to `wanted` now: no longer than its absolute limit allows.

    `Terminal` when it has ended, `NotOwner` when somebody else asks, `BudgetExhausted` when nothing is left to work
    with, `RenewalRefused` when its absolute limit has passed, `Invalid` when `wanted` is no moment still to come.
    """
    if state.phase in TERMINAL:
        lifecycle.must_be_awake(state.life, state.session)
    owner = state.origin.owner
    if owner and actor != owner:
        raise NotOwner(f"only {owner!r} may renew session {state.session}; ask them to", session=state.session)
    if admit_moment(wanted, "the new expiry") <= at:
        raise Invalid("the new expiry lies in the past; choose a later one", expires_at=wanted)
    limit = effective(state, defaults).absolute
    last = _after(state.origin.created_at, limit) if limit else FOREVER
    if last <= at:
        raise RenewalRefused(
            f"session {state.session} has reached its absolute limit; branch it to go on",
            session=state.session,
            limit=last,
        )
    _must_have_means(state, account)
    return min(wanted, last)


def _must_have_means(state: State, account: Account) -> None:
    config, turns = state.config, state.turns
    spent = state.budget.spent + sum(state.budget.open.values())
    exhausted = {
        "cost": account.paused or account.left == 0 or (config.max_cost is not None and spent >= config.max_cost),
        "tokens": config.max_tokens is not None and turns.tokens_in + turns.tokens_out >= config.max_tokens,
        "rounds": config.max_rounds is not None and state.agents.rounds >= config.max_rounds,
    }
    for name, over in exhausted.items():
        if over:
            raise BudgetExhausted(
                f"session {state.session} has no {name} left to work with; raise its limit before renewing it",
                session=state.session,
                budget=name,
            )
