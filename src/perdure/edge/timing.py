"""Time, as async callers meet it: renewing a session, sweeping a store, hooks for the clean-up."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.compose import Services
from perdure.core.errors import Invalid
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Timeouts
from perdure.core.session.shown import shown
from perdure.core.session.timeouts import LONGEST, OFF, admit_limits, admit_moment, admit_names
from perdure.edge.given import Progress, micros_of, number_of, progress_of, text_of

if TYPE_CHECKING:
    from perdure.services.cleanup import CleanupCall, Stuck
    from perdure.services.timeouts import SweepReport

Seconds = float | timedelta
LEASE = 300.0
GIVE_UP = 86_400.0
HOOK = 120.0
CENTURY = 36_525 * 86_400
"""Seconds: what is waited for takes no longer. The machine could not count much further."""


class Timed:
    """The part of a session's handle that concerns its time."""

    _services: Services
    id: SessionId

    async def renew(self, ttl: Seconds | None = None, *, until: datetime | int | None = None) -> int:
        """Let the session live for so long from now, or until a moment, but never past its absolute limit; the moment
        that was granted, in microseconds. Only its owner may, and only while there is budget left.
        """
        wanted = None if ttl is None else seconds_of(ttl, "ttl")
        moment = None if until is None else moment_of(until, "until")
        return await self._services.timeouts.renew(self.id, ttl=wanted, until=moment)

    async def clean_up(self, reason: str = "asked for") -> "Stuck | None":
        """Run the clean-up now, for a session that sleeps or has ended: what is not noted as done, in order, up to a
        hook that fails. Sweeping does it by itself before time ends a session.
        """
        return await self._services.cleanup.run(self.id, text_of(reason, "reason"))


class Timekeeping:
    """The part of an open store that concerns time."""

    _services: Services
    _handle: Callable[[SessionId], Any]
    """A session as hooks get it."""

    async def sweep(
        self,
        limit: int = 1000,
        *,
        now: datetime | int | None = None,
        lease: Seconds = LEASE,
        give_up: Seconds = GIVE_UP,
        progress: Progress | None = None,
    ) -> "SweepReport":
        """See to every session whose time has come: suspend, clean up and end, erase; and consolidate memories where
        their plan says that it is time. Any number of processes may sweep one store; while one is at a session, for the
        length of its lease, no other is.
        """
        if number_of(limit, "limit") < 1:
            raise Invalid("sweep at least one session", limit=limit)
        return await self._services.timeouts.sweep(
            limit,
            None if now is None else moment_of(now, "now"),
            lease=seconds_of(lease, "lease"),
            give_up=seconds_of(give_up, "give_up"),
            progress=progress_of(progress),
        )

    async def sweeper(
        self, interval: Seconds = 60.0, *, lease: Seconds = LEASE, give_up: Seconds = GIVE_UP
    ) -> AsyncIterator["SweepReport"]:
        """Sweep, give the report, wait for the interval, and so on for as long as somebody asks."""
        pause = seconds_of(interval, "interval", CENTURY)
        held, patience = seconds_of(lease, "lease"), seconds_of(give_up, "give_up")
        async for report in self._services.timeouts.sweeping(pause, lease=held, give_up=patience):
            yield report

    async def rearm(self, progress: Progress | None = None) -> int:
        """Set the timer of every session anew; how many changed. Needed once after the default time-outs changed."""
        return await self._services.timeouts.rearm(progress_of(progress))

    def cleanup(
        self,
        step: str,
        hook: "Callable[[Any, CleanupCall], Any]",
        *,
        name: str | None = None,
        timeout: Seconds | None = HOOK,
    ) -> None:
        """Call `hook` with session and call in a step of the clean-up: flush, release, notify, analytics, promote or
        scrub. One that raises, or takes longer than `timeout`, is called again later, with the same `call.key`, and
        given up after a day. A plain function runs on a thread of its own, and on this one with `timeout=None`.
        """
        from perdure.services.foreign import is_async

        def run(call: "CleanupCall") -> Any:
            return hook(self._handle(call.session), call)

        async def run_later(call: "CleanupCall") -> None:
            await hook(self._handle(call.session), call)

        chosen = hook_name(hook, name)
        self._services.cleanup.hook(step, chosen, run_later if is_async(hook) else run, _patience(timeout))

    def webhook(
        self,
        step: str,
        url: str,
        secret: str | bytes,
        *,
        name: str | None = None,
        timeout: Seconds | None = HOOK,
    ) -> None:
        """Post a signed word to an address in a step of the clean-up; tried again until it is taken or given up."""
        from perdure.services.webhooks import webhook

        to = webhook(url, secret)
        label = to.label if name is None else text_of(name, "name")
        self._services.cleanup.webhook(step, label, to, _patience(timeout))


def _patience(timeout: Seconds | None) -> float | None:
    return None if timeout is None else seconds_of(timeout, "timeout", CENTURY)


def hook_name(hook: Callable[..., Any], name: str | None) -> str:
    """What the log calls a hook: the given name, or that of the function."""
    if not callable(hook):
        raise Invalid(f"a hook is something to call, not {shown(hook)}")
    return getattr(hook, "__name__", "") if name is None else text_of(name, "name")


def seconds_of(value: Any, what: str, longest: int = LONGEST) -> float:
    """A length of time above zero in seconds, or `Invalid`."""
    found = value.total_seconds() if isinstance(value, timedelta) else value
    if type(found) not in (int, float) or not 0 < found <= longest:
        raise Invalid(f"{what} is a number of seconds above zero, up to {longest}, or a timedelta, not {shown(value)}")
    return float(found)


def moment_of(value: Any, what: str) -> int:
    """A moment to come in microseconds since 1970, before the year 9999, or `Invalid`."""
    return admit_moment(micros_of(value, what) if isinstance(value, datetime) else value, what)


def timeouts_of(value: Timeouts | dict[str, Any] | None) -> Timeouts:
    """The time-outs of sessions that have none of their own, or `Invalid`."""
    if value is None:
        return OFF
    admit_names(value)
    try:
        found = value if isinstance(value, Timeouts) else msgspec.convert(value, Timeouts)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"timeouts: {wrong}") from wrong
    admit_limits(found)
    return found
