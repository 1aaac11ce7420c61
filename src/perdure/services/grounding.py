"""What an answer rests on, traced back: to the memory, to the message that it was learned from, to a checkpoint there.

Nothing of this is kept beside the log, which says what was shown and what was cited. What the model did not say is
weighed again whenever somebody asks; what was forgotten since supports nothing any more.
"""

from collections.abc import Sequence

import msgspec

from perdure.core.errors import NotFound, PerdureError
from perdure.core.memory.parts import Memory, Source
from perdure.core.memory.provenance import Support
from perdure.core.session.event import Event
from perdure.core.session.ids import SessionId
from perdure.core.session.memories import CitedMemory, MemoriesCited, MemoriesRecalled, ShownMemory
from perdure.core.session.turns import Compacted
from perdure.services.checkpoints import Checkpoints
from perdure.services.recalling import outcome_in
from perdure.services.remembering import Remembering


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer, the memory that it rests on, and where that comes from. `checkpoint` is the first one of
    that session that has the message, or the one that the memory names.
    """

    support: Support
    address: str
    source: Source
    checkpoint: str = ""


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn's answer rests on. `missing` says that it tells of things that nothing shown speaks of."""

    session: str
    turn: int
    grounds: tuple[Ground, ...] = ()
    shown: tuple[ShownMemory, ...] = ()
    unused: tuple[str, ...] = ()
    missing: bool = False


class Grounding:
    """Tracing answers back."""

    def __init__(self, remembering: Remembering, checkpoints: Checkpoints) -> None:
        self._remembering = remembering
        self._sessions = remembering.memories.shelves.sessions
        self._checkpoints = checkpoints

    async def of(self, session: SessionId, turn: int) -> Grounds:
        """What the answer of a turn rests on."""
        state, log = (await self._sessions.loader.load(session)).state, self._sessions.log
        if not 1 <= turn <= state.turns.count:
            raise NotFound(f"session {session} has no turn {turn}; it has {state.turns.count}", turn=turn)
        events = await log.steadily(session, lambda head: log.events(head, head.anchor_version))
        told, cited = _shown(events, turn)
        outcome = outcome_in(session, turn, [event for event in events if event.turn == turn], state)
        shown = await self._remembering.pairs(state, told)
        found = await self._remembering.weighed([(item, memory.content) for item, memory in shown], outcome.text, cited)
        memories = {item.id: (item, memory) for item, memory in shown}
        grounds = [await self._ground(support, *memories[support.memory]) for support in found.supports]
        return Grounds(
            session=session,
            turn=turn,
            grounds=tuple(grounds),
            shown=told,
            unused=found.unused,
            missing=found.missing,
        )

    async def _ground(self, support: Support, told: ShownMemory, memory: Memory) -> Ground:
        source, checkpoint = memory.source, memory.source.checkpoint
        if not checkpoint and source.session and source.version:
            checkpoint = await self._first_with(source)
        address = self._remembering.address_of(told)
        return Ground(support=support, address=address, source=source, checkpoint=checkpoint)

    async def _first_with(self, source: Source) -> str:
        try:
            kept = await self._checkpoints.list(SessionId(source.session))
        except PerdureError:  # it is gone, or cannot be read: the memory says where it was
            return ""
        having = [item for item in kept if item.version >= source.version]
        return min(having, key=lambda item: item.version).id if having else ""


def _shown(events: Sequence[Event], turn: int) -> tuple[tuple[ShownMemory, ...], tuple[CitedMemory, ...]]:
    """What stood when a turn ended, and was found for it; and what its last answer cited."""
    standing: tuple[ShownMemory, ...] = ()
    found: tuple[ShownMemory, ...] = ()
    cited: tuple[CitedMemory, ...] = ()
    for event in events:
        if event.turn is not None and event.turn > turn:
            break
        data = event.data
        if isinstance(data, Compacted):
            standing = ()
        elif isinstance(data, MemoriesRecalled):
            standing = data.standing if data.chosen else standing
            found = data.found if event.turn == turn and data.found else found
        elif isinstance(data, MemoriesCited) and event.turn == turn:
            cited = data.cited
    return (*standing, *found), cited
