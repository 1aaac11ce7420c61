"""Which spaces of memories there are, and whom those that are shared let in."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

import msgspec

from perdure.core.access.isolation import PER_USER, PERMISSIONS
from perdure.core.errors import Invalid, VersionConflict
from perdure.core.memory.parts import Space, person, space_of
from perdure.core.session import commands as do
from perdure.core.session.origin import Isolation
from perdure.core.session.state import State
from perdure.ports.store import Row
from perdure.services.shelves import Shelves

MOST: Final = 1_000
"""Users that a clade lets in, and agents."""
RETRIES: Final = 100
"""How often it is tried again because somebody else wrote there."""


class KnownSpace(msgspec.Struct, frozen=True, kw_only=True):
    """A space that was begun: when, when it was last written to, and the session that is its log."""

    space: str
    session: str
    created_at: int
    active_at: int


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a clade lets in beside its owner, and what its agents may there: none, read or read_write."""

    space: str
    owner: str
    users: tuple[str, ...] = ()
    agents: dict[str, str] = {}


def known_space(row: Row) -> KnownSpace | None:
    """The space whose log a row is of; None for anybody's own session."""
    if space_of(row.tenant, row.session, row.title) is None:
        return None
    return KnownSpace(space=row.title, session=row.session, created_at=row.created_at, active_at=row.active_at)


def isolation_of(users: Iterable[str], agents: Mapping[str, str]) -> Isolation:
    """Whom a clade is to let in; `Invalid` for a permission there is not."""
    wrong = [word for word in agents.values() if word not in PERMISSIONS]
    if wrong:
        raise Invalid(f"an agent may none, read or read_write, not {wrong[0][:80]!r}")
    found = Isolation(model=PER_USER, users=tuple(dict.fromkeys(users)), agents=dict(agents))
    if max(len(found.users), len(found.agents)) > MOST:
        raise Invalid(f"a clade lets in {MOST:,} users and {MOST:,} agents at most; make another one for the others")
    return found


def without(isolation: Isolation | None, who: AbstractSet[str]) -> Isolation | None:
    """What is left of those who are let in; None if these people are not among them."""
    if isolation is None or who.isdisjoint(map(person, (*isolation.users, *isolation.agents))):
        return None
    users = tuple(name for name in isolation.users if person(name) not in who)
    agents = {name: may for name, may in isolation.agents.items() if person(name) not in who}
    return msgspec.structs.replace(isolation, users=users, agents=agents)


def shared_of(clade: Space, state: State) -> Shared:
    """Whom a clade lets in as it stands."""
    let = state.origin.isolation or Isolation()
    return Shared(space=str(clade), owner=state.origin.owner, users=let.users, agents=let.agents)


async def shared(shelves: Shelves, clade: Space) -> Shared:
    """Whom a clade lets in; `NotFound` if there is none of that name."""
    return shared_of(clade, (await shelves.sessions.loader.load(shelves.session_of(clade))).state)


async def share(
    shelves: Shelves, clade: Space, users: Iterable[str] | None = None, agents: Mapping[str, str] | None = None
) -> Shared:
    """Let these in, and nobody else; what is None stays. `NotFound` if there is no clade of that name."""
    session = shelves.session_of(clade)
    for _ in range(RETRIES):
        loaded = await shelves.sessions.loader.load(session)
        now = shared_of(clade, loaded.state)
        isolation = isolation_of(now.users if users is None else users, now.agents if agents is None else agents)
        try:
            await shelves.sessions.handle(session, do.Configure(isolation=isolation), expected=loaded.state.version)
        except VersionConflict:
            continue
        return await shared(shelves, clade)
    raise VersionConflict(f"{clade} keeps changing; try again", space=str(clade))


async def let_out(shelves: Shelves, space: Space, who: AbstractSet[str]) -> bool:
    """Let these people in no more, by the names they are known by (`parts.person`); whether one of them was."""
    session = shelves.session_of(space)
    for _ in range(RETRIES):
        loaded = await shelves.sessions.loader.load(session)
        rest = without(loaded.state.origin.isolation, who)
        if rest is None:
            return False
        with suppress(VersionConflict):
            await shelves.sessions.handle(session, do.Configure(isolation=rest), expected=loaded.state.version)
            return True
    raise VersionConflict(f"{space} keeps changing; try again", space=str(space))


async def begin_or_share(
    shelves: Shelves,
    clade: Space,
    users: Iterable[str] | None,
    agents: Mapping[str, str] | None,
    owner: str | None = None,
) -> Shared:
    """The same of a clade that is begun if it is not there."""
    isolation = isolation_of(users or (), agents or {})
    if await shelves.begin(clade, owner=owner, isolation=isolation):
        return await shared(shelves, clade)
    return await share(shelves, clade, users, agents)
