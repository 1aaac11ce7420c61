"""A session's children, found in its log."""

from contextlib import aclosing
from typing import Final

import msgspec

from perdure.core.errors import NotFound
from perdure.core.session.approval import parked
from perdure.core.session.children import ChildFinished, Spawned
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.talk.children import Child, children_in
from perdure.services.sessions import Sessions

_KINDS: Final = frozenset({Spawned.kind, ChildFinished.kind})


class Brood:
    """Reading what parents say of their children."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def told(self, parent: SessionId, wanted: set[str] | None) -> list[Child]:
        """These children, or all, the first spawned first, as they stand."""
        found = children_in(await self.events(parent, wanted))
        return [await self._standing(child) if child.status == "running" else child for child in found]

    async def _standing(self, child: Child) -> Child:
        """A child that has not ended, as it stands."""
        try:
            state = (await self._sessions.loader.load(SessionId(child.session))).state
        except NotFound:
            return child
        waits = bool(parked(state.turns.open))
        return msgspec.structs.replace(child, status="parked" if waits else "running", spent=state.budget.spent)

    async def events(self, parent: SessionId, wanted: set[str] | None) -> list[Event]:
        """What the parent's log says of these children, or of all; no more is read than it takes."""
        log = self._sessions.log
        state = (await self._sessions.loader.load(parent)).state
        missing = len(state.children.open) + state.children.finished if wanted is None else len(wanted)
        found: list[Event] = []
        if not missing:
            return found
        async with aclosing(log.backwards(await log.head(parent))) as pages:
            async for page in pages:
                mine = [event for event in page if event.kind in _KINDS and (wanted is None or event.target in wanted)]
                found += mine
                missing -= sum(event.kind == Spawned.kind for event in mine)
                if missing <= 0:
                    break
        return found[::-1]
