"""What tests of consolidation share: a space, what is told to it, and how it stands."""

from typing import Any

from perdure.core.memory.parts import Memory, Space, Status, vault
from perdure.core.memory.requests import Keeping
from perdure.services.memories import Memories
from tests.services.shelved import remembering
from tests.services.world import World

ANA = vault("ana")
TOLD = (
    "Vault APY: 2.3%",
    "Ana lives in Berlin",
    "Ana likes long walks",
    "Bruno likes chess",
    "The APY of the vault is 3.1%",
    "Ana moved to Lisbon",
    "Ana likes long walks, as she said before",
)
"""Three of these have to go."""


def memories_of(world: World) -> Memories:
    return remembering(world.sessions, world.erasure)


async def told(world: World, memories: Memories, *texts: str, **fields: Any) -> list[str]:
    found = []
    for text in texts or TOLD:
        world.ambient.advance(60)
        kept = await memories.keep(ANA, [Keeping(content=text, **fields)])
        found.append(kept[0].id)
    return found


async def shelf(memories: Memories, space: Space = ANA) -> dict[str, Memory]:
    return dict((await memories.shelves.look(space)).shelf.memories)


async def live(memories: Memories) -> list[str]:
    return [memory.content for memory in (await shelf(memories)).values() if memory.status is Status.LIVE]


class Stop(BaseException):
    """A crash."""
