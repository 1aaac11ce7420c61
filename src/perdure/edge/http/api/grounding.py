"""What an answer rests on: the memories that its turn was shown, and where those come from."""

from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.access.roles import Thing, Verb
from perdure.core.memory.parts import Source
from perdure.core.session.memories import ShownMemory
from perdure.edge.http.api.turns import number_of
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask, missing
from perdure.edge.http.reaching import must_see_all, state_of
from perdure.edge.http.routes import Table
from perdure.edge.http.spaces import READ, Place, may_enter

if TYPE_CHECKING:  # loaded with the first request about it, so that a server starts quickly
    from perdure.services.grounding import Ground

table = Table()
UNTOLD: Final = Source()


class GroundView(msgspec.Struct, kw_only=True):
    """A part of an answer, from `start` to `end`, and the memory that it rests on: `cited`, or alike by sense or by
    words. Where the memory comes from is told to those who may read it.
    """

    memory_id: str
    space: str
    how: str
    score: float
    start: int
    end: int
    address: str
    source: Source
    checkpoint_id: str


class GroundsView(msgspec.Struct, kw_only=True):
    """What a turn's answer rests on of what was shown. `missing` says that it tells of things that nothing shown speaks
    of.
    """

    session_id: str
    turn: int
    grounds: tuple[GroundView, ...]
    shown: tuple[ShownMemory, ...]
    unused: tuple[str, ...]
    missing: bool


@table.add(
    "GET",
    "/v1/sessions/{session_id}/turns/{turn}/memories",
    (Verb.READ, Thing.TURNS),
    answer=GroundsView,
)
async def turn_memories(ask: Ask) -> Answer:
    """What the answer of a turn rests on: which memories it was shown, which of them it used, where they come from."""
    must_see_all(ask)
    found = await ask.services.grounding.of(ask.id, number_of(ask))
    spaces = {ground.support.space for ground in found.grounds}
    open = {space for space in spaces if await _may_read(ask, space)}
    return ask.answer(
        GroundsView(
            session_id=found.session,
            turn=found.turn,
            grounds=tuple(_view(ground, ground.support.space in open) for ground in found.grounds),
            shown=found.shown,
            unused=found.unused,
            missing=found.missing,
        )
    )


def _view(ground: "Ground", told: bool) -> GroundView:
    facts = msgspec.structs.asdict(ground.support)
    return GroundView(
        memory_id=facts.pop("memory"),
        **facts,
        address=ground.address,
        source=ground.source if told else UNTOLD,
        checkpoint_id=ground.checkpoint if told else "",
    )


async def _may_read(ask: Ask, space: str) -> bool:
    """Whether whoever asks may read a space that the session was shown."""
    namespace, _, name = space.partition("/")
    if namespace == "lethe":
        return await may_enter(ask, Place(namespace="lethe"), READ)
    if namespace == "clade":
        return await may_enter(ask, Place(clade=name), READ)
    state = await state_of(ask, ask.id)
    if state is None:
        raise missing()
    return await may_enter(ask, Place(owner=state.origin.owner or ask.services.sessions.identity.actor), READ)
