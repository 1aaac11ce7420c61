"""Which spaces a session's own words lead to: those of its owner, and no others.

A session says itself which agent's vault and which clades it is shown and learns into. Whoever may configure a session
must not reach with that what is not theirs.
"""

from typing import TYPE_CHECKING

from perdure.core.access.isolation import MODELS
from perdure.core.errors import Invalid, NotFound
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import LETHE, Space, vault
from perdure.core.session.origin import Origin

if TYPE_CHECKING:  # a server starts without it
    from perdure.services.shelves import Shelves


async def vault_for(shelves: "Shelves", owner: str, agent: str) -> Space:
    """The vault that sessions of an owner learn into for an agent. Whoever opened the store has it by the agent's name
    alone; for anybody else the owner's name stands before it, unless the vault of that name is the owner's already.
    """
    opener = shelves.sessions.identity.actor
    own = (owner, opener) if owner in ("", opener) else (owner,)
    for plain in _plainly(agent):
        origin = await _origin(shelves, plain)
        if opener in own if origin is None else origin.owner in own:
            return plain
    return vault_of(owner, agent)


def vaults_of(owner: str, agent: str) -> tuple[Space, ...]:
    """The vaults that sessions of an owner may mean by an agent's name; whether they are open is asked of each."""
    return tuple(dict.fromkeys((vault_of(owner, agent), *_plainly(agent))))


def _plainly(agent: str) -> tuple[Space, ...]:
    """The vault of an agent's name alone, if that is a name."""
    try:
        return (vault(agent),)
    except Invalid:
        return ()


async def is_open(shelves: "Shelves", space: Space, owner: str) -> bool:
    """Whether a space is there, and its log the owner's, or of those whom it lets in; lethe is everybody's."""
    origin = await _origin(shelves, space)
    if origin is None:
        return False
    if space == LETHE or (owner and origin.owner == owner):
        return True
    isolation = origin.isolation
    return isolation is not None and isolation.model in MODELS and owner in isolation.users


async def _origin(shelves: "Shelves", space: Space) -> Origin | None:
    try:
        return (await shelves.sessions.loader.load(shelves.session_of(space))).state.origin
    except NotFound:
        return None
