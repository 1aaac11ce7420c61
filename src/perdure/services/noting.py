"""Keeping the server's own affairs in sessions: a log per matter, in which every event is a note of perdure's."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from perdure.core.errors import AlreadyExists, NotFound, VersionConflict
from perdure.core.session import commands as do
from perdure.core.session.event import Draft, Event
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config, Timeouts
from perdure.core.session.recording import Noted
from perdure.services.acting import acting
from perdure.services.sessions import Sessions

BY: Final = "perdure"
"""Who keeps these notes."""
_NEVER: Final = Config(timeouts=Timeouts(idle=0, absolute=0, max_active=0, grace=0, expiry=0))
"""Such a session never sleeps and never ends, whatever time-outs a deployment has."""


async def note(
    sessions: Sessions,
    session: SessionId,
    name: str,
    notes: Sequence[Noted],
    *,
    who: str,
    expected: int | bytes | None = None,
) -> int:
    """Append notes to the session of a name, which is made if it is missing; the version reached.

    `expected` is the digest, or the version, that whoever wrote them has seen, 0 when there was no session yet;
    `VersionConflict` when it is another by now.
    """
    command = do.Append(drafts=tuple(map(Draft, notes)))
    with acting(who):
        if expected == 0:
            expected = await _made(sessions, session, name)
        try:
            return (await sessions.handle(session, command, expected=expected)).version
        except NotFound:
            if expected is not None:  # it was there, and is not any more
                raise VersionConflict(f"session {session} is gone; look again", session=session) from None
        await _made(sessions, session, name)
        return (await sessions.handle(session, command)).version


async def _made(sessions: Sessions, session: SessionId, name: str) -> int:
    """Make the session of a name; the version it has then, 0 if somebody else made it first."""
    try:
        command = do.Create(owner=BY, title=name, config=_NEVER, activate=True)
        return (await sessions.create(command, session=session)).version
    except AlreadyExists:
        return 0


def noted(events: Iterable[Event]) -> Iterator[tuple[Event, Any]]:
    """The notes of perdure's among events, with what they say; redacted ones are passed over."""
    for event in events:
        if event.kind == Noted.kind and not event.redacted:
            data = event.data
            if isinstance(data, Noted) and data.by == BY:
                yield event, data.data
