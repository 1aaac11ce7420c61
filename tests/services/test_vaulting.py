"""Which vaults a session's own words lead to."""

import pytest

from perdure.compose import Services
from perdure.compose.memory import MemorySettings
from perdure.compose.tenants import tenants
from perdure.compose.wiring import embedded
from perdure.core.errors import Invalid
from perdure.core.memory.owning import vault_of
from perdure.core.memory.parts import LETHE, Space, vault
from perdure.core.session.origin import Isolation
from perdure.services.vaulting import is_open, vault_for, vaults_of

PLAIN = MemorySettings(embedder="none")


def served() -> Services:
    """A tenant's services, as a server has them."""
    store = tenants(":memory:")
    store.memory = PLAIN
    return store.services("acme")


async def test_whoever_opened_the_store_has_vaults_by_the_names_of_agents_alone() -> None:
    shelves = embedded(":memory:", memory=PLAIN).memories.shelves
    assert await vault_for(shelves, "local", "trader") == vault("trader")
    assert await vault_for(shelves, "", "trader") == vault("trader")
    await shelves.begin(vault("trader"))
    assert await vault_for(shelves, "local", "trader") == vault("trader")
    assert await vault_for(shelves, "", "trader") == vault("trader")


@pytest.mark.parametrize("agent", ["bob", "trader", "a/b", "x" * 500, "bob:trader"])
async def test_of_several_people_each_has_vaults_of_their_own(agent: str) -> None:
    shelves = served().memories.shelves
    for name in ("bob", "trader"):
        await shelves.begin(vault(name), owner="bob")
    found = await vault_for(shelves, "eve", agent)
    assert found == vault_of("eve", agent)
    assert found not in (vault("bob"), vault("trader"), vault_of("bob", "trader"))
    assert await vault_for(shelves, "bob", "trader") == vault("trader")
    assert await vault_for(shelves, "bob", "bob") == vault("bob")


async def test_a_space_is_open_to_its_owner_and_to_whom_it_lets_in() -> None:
    shelves = served().memories.shelves
    desk = Space("clade", "desk")
    assert not await is_open(shelves, desk, "bob")
    await shelves.begin(desk, owner="bob", isolation=Isolation(model="per_user", users=("cal",)))
    await shelves.begin(LETHE, owner="")
    assert [await is_open(shelves, desk, name) for name in ("bob", "cal", "eve", "")] == [True, True, False, False]
    assert all([await is_open(shelves, LETHE, name) for name in ("bob", "eve")])


def test_a_name_that_is_no_vault_s_leads_to_the_owner_s_alone() -> None:
    assert vaults_of("ana", "a/b") == (vault_of("ana", "a/b"),)
    assert vaults_of("ana", "ana") == (vault("ana"),)
    assert vaults_of("ana", "bob") == (vault_of("ana", "bob"), vault("bob"))


@pytest.mark.parametrize("name", ["server", "server ", " server", "local"])
async def test_nobody_is_called_what_the_server_calls_itself(name: str) -> None:
    store = tenants(":memory:")
    store.memory = PLAIN
    shelves = store.services("acme").memories.shelves
    try:
        await store.directory.add_principal("acme", name, by=None, roles=("owner",))
    except Invalid:
        assert name != name.strip()
    else:
        assert name != shelves.sessions.identity.actor
        assert await vault_for(shelves, name, "bob") == vault_of(name, "bob")
        await shelves.begin(vault("bob"), owner=shelves.sessions.identity.actor)
        assert await vault_for(shelves, name, "bob") == vault_of(name, "bob")
    with pytest.raises(Invalid):
        await store.directory.add_principal("acme", shelves.sessions.identity.actor, by=None, roles=("owner",))
