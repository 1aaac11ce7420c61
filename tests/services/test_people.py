"""Erasing a person: all that is theirs goes, nothing that is others', and what a crash leaves is finished."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from perdure.compose.tenants import SYSTEM, Tenants
from perdure.core.access.book import Status
from perdure.core.access.entries import AuditEntry
from perdure.core.errors import AlreadyExists, BlobMissing, Denied, LastAdmin, NotFound, Unauthenticated
from perdure.core.session import commands as do
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message, TurnStarted
from perdure.ports.blobs import Note
from perdure.services.branches import BranchRequest
from perdure.services.people import People
from tests.services.houses import House, bare, house, server, shared

__all__ = ["bare", "house", "server", "shared"]
NAME = "Ada Lovelace"


class Bytes:
    """Content to be put."""

    repeatable = False

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size: int | None = len(data)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self._data


async def made(node: Tenants, owner: str, content: Any = "hello", tenant: str = "acme") -> SessionId:
    sessions = node.services(tenant).sessions
    session = (await sessions.create(do.Create(owner=owner, title=f"of {owner}", activate=True))).session
    drafts = (Draft(TurnStarted()), Draft(Message(role="user", content=content)))
    await sessions.handle(session, do.Append(drafts=drafts))
    return session


async def gone(node: Tenants, session: SessionId) -> bool:
    try:
        await node.services("acme").sessions.log.head(session)
    except NotFound:
        return True
    return False


async def everything(node: Tenants) -> bytes:
    """Every byte of the directory's and the audit log, as they are read back."""
    log = node.services(SYSTEM).sessions.log
    found = b""
    for session in (node.directory.session, node.auditing.session("acme")):
        head = await log.head(session)
        for event in await log.events(head):
            found += event.entry.data + event.actor.encode() + (event.target or "").encode()
    return found


async def peopled(node: Tenants) -> tuple[str, list[SessionId], SessionId]:
    """A tenant with an admin, a person with three sessions, and somebody else."""
    await node.directory.add_principal("acme", "Root", by=None, roles=["admin"])
    ada = await node.directory.add_principal("acme", NAME, by=None, roles=["owner"])
    await node.directory.add_principal("acme", "Bob", by=None, roles=["owner"])
    await node.directory.add_key("acme", ada.id, by=None, label=f"laptop of {NAME}")
    await node.auditing.note("acme", AuditEntry(what="read", actor=ada.id))
    return ada.id, [await made(node, NAME) for _ in range(3)], await made(node, "Bob")


async def test_all_that_is_theirs_goes_and_nothing_else(house: House) -> None:
    node, other = house.node(), house.node()
    ada, sessions, bobs = await peopled(node)
    key = (await node.directory.add_key("acme", ada, by=None)).spelled
    elsewhere = await made(node, NAME, tenant="rival")
    assert (await other.directory.identify(key)).name == NAME
    told: list[tuple[int, int]] = []
    done = await node.people.erase("acme", NAME, by=None, progress=lambda now, total: told.append((now, total)))
    assert (done.principal, done.sessions, done.redacted) == (ada, 3, 3)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [await gone(other, session) for session in sessions] == [True] * 3
    assert not await gone(other, bobs)
    assert (await node.services("rival").sessions.log.head(elsewhere)).row.owner == NAME
    with pytest.raises(Unauthenticated):
        await other.directory.identify(key)
    for each in (node, other, house.node()):
        known = await each.directory.principal("acme", ada)
        assert (known.name, known.status) == ("", Status.CLEARED)
        assert await each.directory.keys("acme", ada) == ()
    assert NAME.encode() not in await everything(house.node())
    assert ada.encode() in await everything(house.node())  # a pseudonym now
    assert (await node.auditing.verify("acme")).ok
    assert (await node.services(SYSTEM).verifying.verify(node.directory.session)).ok


async def test_the_name_may_be_given_to_somebody_else_who_owns_nothing_of_it(house: House) -> None:
    node = house.node()
    ada, _, _ = await peopled(node)
    await node.people.erase("acme", ada, by=None)
    anew = await node.directory.add_principal("acme", NAME, by=None)
    assert anew.id != ada
    with pytest.raises(AlreadyExists):
        await node.directory.add_principal("acme", NAME, by=None)


async def test_the_last_admin_is_refused_and_keeps_everything(house: House) -> None:
    node = house.node()
    await peopled(node)
    kept = await made(node, "Root")
    with pytest.raises(LastAdmin):
        await node.people.erase("acme", "Root", by=None)
    assert not await gone(node, kept)
    assert (await node.directory.principal("acme", "Root")).status is Status.ACTIVE


async def test_only_an_admin_of_the_tenant_erases_people(house: House) -> None:
    node = house.node()
    ada, sessions, _ = await peopled(node)
    await node.directory.add_principal("rival", "Spy", by=None, roles=["admin"])
    for tenant, name in (("acme", "Bob"), ("rival", "Spy")):
        by = await node.directory.identify((await node.directory.add_key(tenant, name, by=None)).spelled)
        with pytest.raises(Denied):
            await node.people.erase("acme", ada, by=by)
        with pytest.raises((Denied, NotFound)):
            await node.people.erase(by.tenant, ada, by=by)
    assert not await gone(node, sessions[0])
    root = await node.directory.identify((await node.directory.add_key("acme", "Root", by=None)).spelled)
    assert (await node.people.erase("acme", ada, by=root)).sessions == 3


async def test_blobs_that_only_they_pointed_to_go_and_shared_ones_stay(house: House) -> None:
    node = house.node()
    blobs = node.services("acme").blobs
    await peopled(node)
    theirs = await blobs.put(Bytes(b"a face"), Note())
    both = await blobs.put(Bytes(b"a map"), Note())
    await made(node, NAME, theirs)
    await made(node, NAME, both)
    await made(node, "Bob", both)
    node.ambient.advance(1)  # type: ignore[attr-defined]
    fresh = await blobs.put(Bytes(b"bob is about to point to it"), Note())
    done = await node.people.erase("acme", NAME, by=None)
    assert done.blobs == 1
    with pytest.raises(BlobMissing):
        await blobs.get(theirs)
    assert await blobs.get(both) == b"a map"
    assert await blobs.get(fresh) == b"bob is about to point to it"


async def test_branches_of_their_sessions_are_theirs_and_go_too(house: House) -> None:
    node = house.node()
    _, sessions, _ = await peopled(node)
    branch = (await node.services("acme").branches.branch(sessions[0], None, BranchRequest())).session
    assert (await node.people.erase("acme", NAME, by=None)).sessions == 4
    assert await gone(node, branch)


async def test_agents_that_act_for_them_are_forgotten_too(house: House) -> None:
    node = house.node()
    ada, _, _ = await peopled(node)
    agent = await node.directory.add_principal("acme", "helping hand", by=None, kind="agent", acting_for=NAME)
    owned = await made(node, "helping hand")
    done = await node.people.erase("acme", ada, by=None)
    assert (done.agents, done.sessions) == ((agent.id,), 4)
    assert await gone(node, owned)
    assert (await node.directory.principal("acme", agent.id)).status is Status.CLEARED
    assert NAME.encode() not in await everything(node)


class Crash(Exception):
    """The process dies here."""


STEPS: dict[str, Callable[[Tenants], tuple[Any, str]]] = {
    "before the first session": lambda node: (node.services("acme").erasure, "erase"),
    "before forgetting": lambda node: (node.directory, "forget"),
    "before redacting": lambda node: (node.services(SYSTEM).erasure, "redact"),
    "before noting the end": lambda node: (node.directory, "cleared"),
}


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_at_any_step_is_finished_by_the_next_call(house: House, step: str) -> None:
    node = house.node()
    ada, sessions, bobs = await peopled(node)
    ref = await node.services("acme").blobs.put(Bytes(b"a face"), Note())
    sessions.append(await made(node, NAME, ref))
    owner, method = STEPS[step](node)
    calls = 0
    whole: Callable[..., Awaitable[Any]] = getattr(owner, method)

    async def dies(*words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if step != "before the first session" or calls > 2:
            raise Crash
        return await whole(*words, **more)

    setattr(owner, method, dies)
    people = People(node.services, node.directory, node.services(SYSTEM).erasure)
    with pytest.raises(Crash):
        await people.erase("acme", ada, by=None)
    after = house.node()
    assert [each.id for each in await after.people.unfinished("acme")] == [ada]
    with pytest.raises(NotFound):
        await after.directory.enable_principal("acme", ada, by=None)
    await after.people.resume("acme", by=None)
    assert await after.people.unfinished("acme") == ()
    assert [await gone(after, session) for session in sessions] == [True] * 4
    assert not await gone(after, bobs)
    assert NAME.encode() not in await everything(after)
    with pytest.raises(BlobMissing):
        await after.services("acme").blobs.get(ref)
    again = await after.people.erase("acme", ada, by=None)
    assert (again.sessions, again.redacted) == (0, 0)


async def test_two_nodes_that_erase_one_person_at_once_both_come_to_an_end(house: House) -> None:
    one, other = house.node(), house.node()
    ada, sessions, _ = await peopled(one)
    await asyncio.gather(one.people.erase("acme", ada, by=None), other.people.erase("acme", ada, by=None))
    assert [await gone(one, session) for session in sessions] == [True] * 3
    assert (await one.directory.principal("acme", ada)).status is Status.CLEARED
    assert NAME.encode() not in await everything(house.node())
