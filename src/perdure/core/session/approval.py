"""Approval: a tool that a person must allow first parks its turn until somebody answers, for as long as that takes."""

from typing import ClassVar

import msgspec

from perdure.core.errors import TurnRefused
from perdure.core.session.event import Event, Payload
from perdure.core.session.turns import CallStatus, OpenCall, OpenTurn, Turns


class ApprovalAsked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A person must allow this call before it runs. The envelope's target is the call."""

    kind: ClassVar[str] = "approval_asked"
    redactable: ClassVar[bool] = True
    call: str = ""
    reason: str = ""

    def aim(self) -> str | None:
        return self.call or None


class ApprovalGiven(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody answered; the envelope says who."""

    kind: ClassVar[str] = "approval_given"
    redactable: ClassVar[bool] = True
    call: str = ""
    allowed: bool = False
    note: str = ""

    def aim(self) -> str | None:
        return self.call or None


def give(open: OpenTurn | None, call: str, *, allowed: bool, note: str = "") -> ApprovalGiven:
    """The answer, if it is waited for."""
    waiting = parked(open)
    if call not in waiting:
        there = f"waiting are {', '.join(waiting)}" if waiting else "nothing waits for an approval"
        raise TurnRefused(f"call {call!r} does not wait for an approval; {there}", call=call, waiting=waiting)
    return ApprovalGiven(call=call, allowed=allowed, note=note)


def parked(open: OpenTurn | None) -> tuple[str, ...]:
    """The calls that wait for a person."""
    calls = {} if open is None else open.calls
    return tuple(call for call, item in calls.items() if item.status is CallStatus.PARKED)


def evolve(part: Turns, event: Event) -> Turns:
    """Fold one event into the calls of the turn in flight; a call that is denied waits for its failed result."""
    call, open = event.target or "", part.open
    if open is None or call not in open.calls:
        return part
    match event.data:
        case ApprovalAsked():
            return _with(part, open, call, CallStatus.PARKED)
        case ApprovalGiven(allowed=allowed):
            return _with(part, open, call, CallStatus.ALLOWED if allowed else CallStatus.ASKED)
        case _:
            return part


def _with(part: Turns, open: OpenTurn, call: str, status: CallStatus) -> Turns:
    before = open.calls[call]
    calls = {**open.calls, call: OpenCall(before.name, status, before.key)}
    return msgspec.structs.replace(part, open=msgspec.structs.replace(open, calls=calls))
