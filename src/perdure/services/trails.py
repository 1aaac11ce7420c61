"""Sessions' logs as the steps that clients' histories are matched with: read once, then grown."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.state import State
from perdure.core.talk import matching
from perdure.core.talk.matching import Trail, trail_of
from perdure.services.sessions import Sessions

TRAILS: Final = 512
"""How many sessions' trails are kept at hand."""


class Known(msgspec.Struct, frozen=True):
    """The steps of a session's log up to a version, and the chain's digest there."""

    trail: Trail
    version: int
    digest: bytes


class Trails:
    """The trails of sessions in use."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._trails: OrderedDict[tuple[SessionId, int], Known] = OrderedDict()

    async def of(self, session: SessionId, state: State) -> Trail:
        """The steps of the session's log; those that are known are not read again, if the log goes on from there."""
        if not state.turns.messages and not state.turns.count:  # nothing was said yet
            return Trail(version=state.version)
        place, log, version = (session, state.origin.created_at), self._sessions.log, state.version
        known, found = self._trails.get(place), None
        recent = self._sessions.loader.recent(session)
        if known is not None and known.version == version and recent is not None and recent.digest == known.digest:
            return known.trail
        after = known.version - 1 if known is not None and 0 < known.version <= version else 0
        events = await log.steadily(session, lambda head: log.events(head, max(after, head.anchor_version), version))
        if known is not None and events and events[0].version == known.version and events[0].digest == known.digest:
            grown = matching.grown(known.trail, events[1:])
            found = None if grown is None else Known(grown, version, events[-1].digest)
        if found is None:
            if after:
                events = await log.steadily(session, lambda head: log.events(head, head.anchor_version, version))
            found = Known(trail_of(events), version, events[-1].digest if events else b"")
        self._trails[place] = found
        self._trails.move_to_end(place)
        if len(self._trails) > TRAILS:
            self._trails.popitem(last=False)
        return found.trail

    def grew(self, session: SessionId, events: Sequence[Event]) -> None:
        """Take note of what this process has just appended, so that it need not be read again."""
        loaded = self._sessions.loader.recent(session)
        place = (session, 0 if loaded is None else loaded.state.origin.created_at)
        known = self._trails.get(place)
        if known is None or not events or known.version != events[0].version - 1:
            return
        grown = matching.grown(known.trail, events)
        if grown is None:
            del self._trails[place]
        else:
            self._trails[place] = Known(grown, events[-1].version, events[-1].digest)
