"""Whom a clade lets in, as the holder of a handle on it asks and says."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.compose import Services
from perdure.core.errors import Invalid, NotFound
from perdure.core.memory.parts import Space
from perdure.core.session.shown import shown
from perdure.edge import given

if TYPE_CHECKING:
    from perdure.services.sharing import Shared

Names = Iterable[str] | None
Permissions = Mapping[str, str] | None


class Sharing:
    """The part of a space's handle that says who may come in. Only servers ask who somebody is."""

    _services: Services
    _space: Space
    _owner: str | None

    async def share(self, *, users: Names = None, agents: Permissions = None) -> "Shared":
        """Let these users into a clade, and these agents, which may `read`, `read_write` or `none`, in place of those
        it let in; what is not given stays. The clade is begun if it is not there. Without a word it only tells.
        """
        if self._space.namespace != "clade":
            raise Invalid(f"{self._space} is not shared; db.memory(clade=…) names a space that is")
        named = None if users is None else given.texts_of(users, "user")
        if named is None and agents is None:
            return await self._shared()
        return await self._share(named, None if agents is None else _permissions(agents))

    async def _shared(self) -> "Shared":
        from perdure.services.sharing import shared

        try:
            return await shared(self._services.memories.shelves, self._space)
        except NotFound:
            raise no_clade(self._space) from None

    async def _share(self, users: tuple[str, ...] | None, agents: Permissions) -> "Shared":
        from perdure.services.sharing import begin_or_share

        return await begin_or_share(self._services.memories.shelves, self._space, users, agents, self._owner)


def _permissions(agents: Any) -> dict[str, str]:
    """What each agent may, checked."""
    pairs = [*agents.items()] if isinstance(agents, Mapping) else None
    if pairs is None or not all(isinstance(word, str) for pair in pairs for word in pair):
        raise Invalid(f"agents are a dict of what each may, such as {{'critic': 'read'}}, not {shown(agents)}")
    return dict(pairs)


def no_clade(clade: Space) -> NotFound:
    """What is said of one that is not there, or not for whoever asks."""
    return NotFound(f"there is no {clade}; share(users=…, agents=…) begins it", space=str(clade))
