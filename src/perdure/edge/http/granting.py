"""Whether whoever asks may have a session shown memory, which its model then tells them.

A session is shown what its owner remembers. Whoever may configure it need not be let into that: to switch memory on in
it, or to have it shown more, takes the right to read all that it is shown, and to write where it learns.
"""

from typing import Any, Final

import msgspec

from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.errors import Denied, Invalid
from perdure.core.memory.parts import Space
from perdure.core.session.origin import Configured, Created, Recall
from perdure.core.session.state import State
from perdure.edge.http.asking import Ask, missing
from perdure.edge.http.reaching import own_names, state_of
from perdure.edge.http.spaces import READ, Place, may_enter
from perdure.services.vaulting import is_open

KEEP: Final = Action(Verb.CREATE, Thing.MEMORY)
FORGET: Final = Action(Verb.DELETE, Thing.MEMORY)
RULE: Final = Action(Verb.ISSUE, Thing.MEMORY)


async def must_show(
    ask: Ask, config: dict[str, Any] | None, owner: str, agent: str | None, state: State | None
) -> None:
    """`Denied` when a configuration would have a session of this owner and agent shown memory that whoever asks may not
    read. What the session is shown already stays.
    """
    if config and config.get("memory") is not None:
        asked = recall_of(config["memory"])
        if asked != (None if state is None else state.config.memory):
            await must_read(ask, asked, owner, agent)


async def must_show_in_branch(ask: Ask, config: dict[str, Any] | None, *, here: bool = False) -> None:
    """The same of a branch, which is its parent's owner's. One that does not begin `here`, where the parent stands, may
    begin where memory was still switched on.
    """
    state = await state_of(ask, ask.id)
    if state is None:
        return
    owner, agent = state.origin.owner, state.origin.agent_id
    await must_show(ask, config, owner, agent, state)
    if here or (config is not None and "memory" in config):
        return
    for asked in {} if await _may_read(ask, Recall(), owner, agent) else await _before(ask):
        if asked != state.config.memory:
            await must_read(ask, asked, owner, agent)


async def must_read(ask: Ask, asked: Recall | None, owner: str, agent: str | None) -> None:
    """`Denied` unless whoever asks may read all that a session of this owner and agent is shown."""
    if asked is not None and asked.enabled and not await _may_read(ask, asked, owner, agent):
        told = "a session is shown what its owner remembers, which you may not read; leave config.memory out"
        raise Denied(told, reason="memory")


async def must_see_memory(ask: Ask) -> None:
    """`Denied` unless whoever asks may read all that the session is shown of memory: what is asked for with words of
    their own would be found for them.
    """
    state = await state_of(ask, ask.id)
    if state is None:
        raise missing()
    asked = state.config.memory
    shown = None if asked is None else msgspec.structs.replace(asked, learn=False)
    if shown is None or not shown.enabled:
        return
    if not await _may_read(ask, shown, state.origin.owner, state.origin.agent_id):
        raise Denied("the session is shown what its owner remembers, which you may not read; ask them", reason="memory")


async def must_forget(ask: Ask) -> None:
    """`Denied` unless whoever asks may forget what the owner of the session remembers, or what comes from a source."""
    state = await state_of(ask, ask.id)
    if state is None:
        raise missing()
    place = Place(owner=state.origin.owner or ask.services.sessions.identity.actor)
    if not await may_enter(ask, place, FORGET) and not await may_enter(ask, place, RULE):
        told = "you may not forget what was learnt from this session; leave memories out, or ask its owner or an admin"
        raise Denied(told, reason="memory")


async def _may_read(ask: Ask, asked: Recall, owner: str, agent: str | None) -> bool:
    shelves = ask.services.memories.shelves
    whose = owner or shelves.sessions.identity.actor
    own = Place(owner=whose, agent=asked.agent or agent or None)
    if not await may_enter(ask, own, READ) or (asked.learn and not await may_enter(ask, own, KEEP)):
        return False
    if asked.lethe and not await may_enter(ask, Place(namespace="lethe"), READ):
        return False
    for space in filter(None, map(_clade, asked.clades)):
        closed = not await may_enter(ask, Place(clade=space.name), READ)
        if closed and (whose not in own_names(ask.actor) or await is_open(shelves, space, whose)):
            return False
    return True


def _clade(name: str) -> Space | None:
    """A clade by its name; None for what none can be called."""
    try:
        return Space("clade", name)
    except Invalid:
        return None


async def _before(ask: Ask) -> list[Recall | None]:
    """What a session was told of memory, ever since its log begins."""
    log = ask.services.sessions.log
    head = await log.head(ask.id)
    found = [event.data for event in await log.events(head, head.anchor_version)]
    told = [data.config.memory for data in found if isinstance(data, Created | Configured) and data.config]
    if head.anchor_version:
        told.append((await ask.services.sessions.loader.state_at(ask.id, head.anchor_version + 1)).config.memory)
    return told


def recall_of(memory: Any) -> Recall | None:
    """What is asked for; None for what is no such thing, which whoever writes it refuses."""
    try:
        return msgspec.convert(memory, Recall)
    except msgspec.ValidationError:
        return None
