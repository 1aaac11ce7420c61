"""Erasing a person reaches what is remembered of them, by them, and through them, in every space; and nothing else."""

from typing import Any

import pytest

from perdure.compose.tenants import Tenants
from perdure.core.access.book import Status
from perdure.core.errors import NotFound
from perdure.core.memory.parts import LETHE, Source, Space, vault
from perdure.core.memory.requests import Keeping, Seeking
from perdure.core.session import commands as do
from perdure.core.session.event import Draft
from perdure.core.session.memories import MemoryProposed
from perdure.core.session.turns import Message
from perdure.services.acting import acting
from perdure.services.memories import Memories
from tests.services.houses import House, bare, house, server, shared
from tests.services.shelved import Hashing, remembering

__all__ = ["bare", "house", "server", "shared"]
NAME = "Ada Lovelace"
DESK = Space("clade", "desk")


def memories_of(node: Tenants, tenant: str = "acme") -> Memories:
    """Its memories, with an index too simple to be wrong."""
    services = node.services(tenant)
    if "memories" not in services.__dict__:
        services.__dict__["memories"] = remembering(services.sessions, services.erasure, embedder=Hashing())
    return services.memories


async def said(node: Tenants, owner: str) -> str:
    sessions = node.services("acme").sessions
    session = (await sessions.create(do.Create(owner=owner, activate=True))).session
    await sessions.handle(session, do.Append(drafts=(Draft(Message(role="user", content="hello")),)))
    return session


async def log_of(node: Tenants, space: Space) -> bytes:
    log = node.services("acme").sessions.log
    head = await log.head(memories_of(node).shelves.session_of(space))
    return b"".join(event.entry.data for event in await log.events(head))


async def texts(node: Tenants, space: Space) -> list[str]:
    return [memory.content for memory in (await memories_of(node).list(space)).items]


async def peopled(node: Tenants) -> str:
    """Somebody with a vault of theirs, one of an agent that acts for them, and traces in what is shared."""
    directory, memories = node.directory, memories_of(node)
    await directory.add_principal("acme", "Root", by=None, roles=["admin"])
    ada = await directory.add_principal("acme", NAME, by=None, roles=["owner"])
    await directory.add_principal("acme", "Bob", by=None, roles=["owner"])
    await directory.add_principal("acme", "hand", by=None, kind="agent", acting_for=NAME)
    hers, his = await said(node, NAME), await said(node, "Bob")
    await memories.keep(vault(NAME), [Keeping(content="hers by name")])
    await memories.keep(vault("kitchen"), [Keeping(content="hers by right")], owner=NAME)
    await memories.keep(vault("hand"), [Keeping(content="her agent's")], owner="server")
    await memories.keep(vault("Bob"), [Keeping(content="his own")], owner="Bob")
    for space in (DESK, LETHE):
        with acting(ada.id):
            await memories.keep(space, [Keeping(content="written by her")])
        with acting("hand"):
            await memories.keep(space, [Keeping(content="written by her agent")])
        asked = [
            Keeping(content="about her", subjects=("Bob", NAME.upper())),
            Keeping(content="said by her", author=NAME),
            Keeping(content="learnt in her session", source=Source(session=hers, version=2)),
            Keeping(content="about him", subjects=("Bob",)),
            Keeping(content="learnt in his session", source=Source(session=his)),
        ]
        made = await memories.keep(space, asked, agent="Bob", owner="Bob")
        both = Source(kind="consolidation")
        merged = Keeping(content="what both say", source=both, supersedes=(made[2].id, made[4].id))
        await memories.keep(space, [merged], agent="Bob")
        proposal = MemoryProposed(id=f"p{space}", content="proposed by her", by=NAME)
        await memories.shelves.write(space, lambda _, proposal=proposal: [proposal])  # type: ignore[misc]
    return ada.id


async def test_what_is_remembered_of_a_person_goes_everywhere_and_nothing_else(house: House) -> None:
    node, other = house.node(), house.node()
    ada = await peopled(node)
    await memories_of(node, "rival").keep(LETHE, [Keeping(content="about her", subjects=(NAME,))])
    assert len(await texts(other, LETHE)) == 6
    done = await node.people.erase("acme", ada, by=None)
    assert done.memories == 3 + 2 * 7
    for each in (node, other, house.node()):
        assert sorted(await memories_of(each).shelves.spaces(), key=str) == [DESK, LETHE, vault("Bob")]
        for space in (DESK, LETHE):
            assert sorted(await texts(each, space)) == ["about him", "learnt in his session"]
            assert (await memories_of(each).shelves.look(space)).shelf.proposals == {}
            told = await log_of(each, space)
            for gone in (b"her", NAME.encode(), NAME.upper().encode(), b"what both say"):
                assert gone not in told
        found = await memories_of(each).search(LETHE, Seeking(query="about her written by learnt"))
        assert sorted(one.memory.content for one in found) == ["about him", "learnt in his session"]
        assert await texts(each, vault("Bob")) == ["his own"]
        assert await texts(each, vault(NAME)) == []
    rival = await memories_of(node, "rival").list(LETHE)
    assert [memory.content for memory in rival.items] == ["about her"]
    verifying, shelves = node.services("acme").verifying, memories_of(node).shelves
    assert [(await verifying.verify(shelves.session_of(space))).ok for space in (DESK, LETHE)] == [True, True]


class Crash(Exception):
    """The process dies here."""


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4])
async def test_a_crash_while_memories_are_forgotten_is_finished_by_the_next_call(house: House, calls: int) -> None:
    node = house.node()
    ada = await peopled(node)
    erasure, left, fired = node.services("acme").erasure, calls, False
    for name in ("erase", "redact"):
        whole = getattr(erasure, name)

        async def dies(*words: Any, whole: Any = whole, **more: Any) -> Any:
            nonlocal left, fired
            left -= 1
            if left < 0:
                fired = True
                raise Crash
            return await whole(*words, **more)

        setattr(erasure, name, dies)
    with pytest.raises(Crash):
        await node.people.erase("acme", ada, by=None)
    assert fired
    after = house.node()
    memories_of(after)
    await after.people.resume("acme", by=None)
    assert (await after.directory.principal("acme", ada)).status is Status.CLEARED
    for space in (DESK, LETHE):
        assert sorted(await texts(after, space)) == ["about him", "learnt in his session"]
        assert b"her" not in await log_of(after, space)
    with pytest.raises(NotFound):
        await log_of(after, vault(NAME))
