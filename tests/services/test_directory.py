"""The directory on every store: what one node says holds on all of them at their next request (R22, R24)."""

import asyncio
from typing import Any

import pytest

from perdure.core.access.book import Status
from perdure.core.access.roles import Role
from perdure.core.access.rules import Policy, Rule
from perdure.core.errors import AlreadyExists, Denied, Invalid, LastAdmin, NotFound, Unauthenticated
from perdure.services.looking import Shared
from perdure.waiting import drive
from tests.services.houses import House, bare, filed, house, server, shared

__all__ = ["bare", "filed", "house", "server", "shared"]


async def test_a_key_revoked_on_one_node_is_refused_at_the_next_request_on_the_other(house: House) -> None:
    one, other = house.node().directory, house.node().directory
    await one.add_principal("acme", "Root", by=None, roles=["admin"])
    made = await one.add_key("acme", "Root", by=None, label="laptop")
    actor = await other.identify(made.spelled)
    assert (actor.tenant, actor.name, actor.roles) == ("acme", "Root", {Role.ADMIN})
    await one.revoke_key("acme", made.key.id, by=actor)
    for node in (other, one):
        with pytest.raises(Unauthenticated):
            await node.identify(made.spelled)


async def test_role_changes_and_disabling_act_at_the_next_request_everywhere(house: House) -> None:
    one, other = house.node().directory, house.node().directory
    await one.add_principal("acme", "Root", by=None, roles=[Role.ADMIN])
    ada = await one.add_principal("acme", "Ada", by=None, roles=[Role.OWNER, Role.VIEWER])
    key = (await one.add_key("acme", ada.id, by=None)).spelled
    assert (await other.identify(key)).roles == {Role.OWNER, Role.VIEWER}
    await one.change_principal("acme", ada.id, by=None, roles=["viewer"])
    assert (await other.identify(key)).roles == {Role.VIEWER}
    await one.disable_principal("acme", "Ada", by=None)
    with pytest.raises(Unauthenticated):
        await other.identify(key)
    assert (await other.enable_principal("acme", ada.id, by=None)).status is Status.ACTIVE
    assert (await one.identify(key)).principal == ada.id
    with pytest.raises(LastAdmin):
        await other.disable_principal("acme", "Root", by=None)
    assert (await one.disable_principal("acme", "Root", by=None, force=True)).status is Status.DISABLED


async def test_what_is_stored_opens_nothing(house: House) -> None:
    node = house.node()
    await node.directory.add_principal("acme", "Ada", by=None)
    made = await node.directory.add_key("acme", "Ada", by=None)
    log = node.services("_perdure").sessions.log
    events = await log.events(await log.head(node.directory.session))
    secret = made.spelled.rpartition("_")[2].encode()
    assert not any(secret in event.entry.data for event in events)
    assert any(made.key.hash in event.entry.data for event in events)
    assert secret.decode() not in repr(made)


async def test_names_stand_in_no_envelope(house: House) -> None:
    """A person may be forgotten; who wrote an event is hashed into the chain and may not."""
    node = house.node()
    await node.directory.add_principal("acme", "Root", by=None, roles=["admin"])
    root = await node.directory.identify((await node.directory.add_key("acme", "Root", by=None)).spelled)
    await node.directory.add_principal("acme", "Ada", by=root)
    log = node.services("_perdure").sessions.log
    events = await log.events(await log.head(node.directory.session))
    assert {event.actor for event in events} == {"operator", root.principal}


async def test_two_nodes_that_take_one_name_at_once_do_not_both_get_it(house: House) -> None:
    nodes = [house.node().directory for _ in range(3)]

    async def take(number: int) -> str:
        try:
            return (await nodes[number % 3].add_principal("acme", f"name {number // 3}", by=None)).id
        except AlreadyExists:
            return ""

    taken = await asyncio.gather(*(take(number) for number in range(12)))
    assert sum(bool(id) for id in taken) == 4
    for node in nodes:
        assert {each.name for each in await node.principals("acme")} == {f"name {number}" for number in range(4)}


async def test_tenants_do_not_see_each_other(house: House) -> None:
    node = house.node().directory
    keys = {}
    for tenant in ("acme", "rival"):
        await node.add_principal(tenant, "Root", by=None, roles=["admin"])
        keys[tenant] = await node.add_key(tenant, "Root", by=None)
    spy = await node.identify(keys["rival"].spelled)
    theirs = (await node.principals("acme"))[0]
    attempts: list[Any] = [
        lambda: node.principal("rival", theirs.id),
        lambda: node.disable_principal("rival", theirs.id, by=spy),
        lambda: node.add_key("rival", theirs.id, by=spy),
        lambda: node.revoke_key("rival", keys["acme"].key.id, by=spy),
        lambda: node.keys("rival", theirs.id),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound):
            await attempt()
    for attempt in (
        lambda: node.add_principal("acme", "Mole", by=spy),
        lambda: node.disable_principal("acme", theirs.id, by=spy),
        lambda: node.set_policy("acme", Policy(), by=spy),
        lambda: node.add_webhook("acme", "https://a.example", ["*"], by=spy),
    ):
        with pytest.raises(Denied):
            await attempt()
    assert [each.id for each in await node.keys("acme")] == [keys["acme"].key.id]


async def test_policies_webhooks_and_secrets_are_the_same_on_every_node(house: House) -> None:
    one, other = house.node().directory, house.node().directory
    policy = Policy(rules=(Rule(effect="deny", actions=("read:log",)),))
    assert await other.policy("acme") == Policy()
    await one.set_policy("acme", policy, by=None)
    assert await other.policy("acme") == policy
    hook = await one.add_webhook("acme", "https://a.example/hook", ["moved"], by=None)
    assert hook.secret.startswith("whsec_")
    assert [each.url for each in await other.webhooks("acme")] == ["https://a.example/hook"]
    await other.remove_webhook("acme", hook.hook.id, by=None)
    assert await one.webhooks("acme") == ()
    with pytest.raises(Invalid):
        await one.add_webhook("acme", "file:///etc/passwd", ["moved"], by=None)
    first = await one.secret("tokens")
    assert await other.secret("tokens") == first
    second = await other.rotate_secret("tokens")
    assert [each.id for each in await one.secret("tokens")] == [second[0].id, first[0].id]
    assert len(second[0].value) == 32


async def test_nodes_that_first_need_a_secret_together_have_the_same_one(house: House) -> None:
    nodes = [house.node().directory for _ in range(3)]
    found = await asyncio.gather(*(node.secret("tokens") for node in nodes))
    assert len({each[0].id for each in found}) == 1


async def test_a_node_that_starts_later_knows_everything(house: House) -> None:
    one = house.node().directory
    keys = []
    for number in range(20):
        await one.add_principal("acme", f"p{number}", by=None, roles=["owner"])
        keys.append((await one.add_key("acme", f"p{number}", by=None)).spelled)
    late = house.node().directory
    assert [(await late.identify(key)).name for key in keys] == [f"p{number}" for number in range(20)]
    assert await late.book() == await one.book()


async def test_callers_at_once_share_looks_and_the_unchanged_costs_one_head(house: House) -> None:
    node = house.node()
    await node.directory.add_principal("acme", "Ada", by=None)
    key = (await node.directory.add_key("acme", "Ada", by=None)).spelled
    await node.directory.book()
    heads, runs = 0, 0
    log = node.services("_perdure").sessions.log
    head, events = log.head, log.events

    async def counted_head(session: Any) -> Any:
        nonlocal heads
        heads += 1
        return await head(session)

    async def counted_events(*words: Any) -> Any:
        nonlocal runs
        runs += 1
        return await events(*words)

    log.head, log.events = counted_head, counted_events  # type: ignore[method-assign]
    found = await asyncio.gather(*(node.directory.identify(key) for _ in range(50)))
    assert {each.name for each in found} == {"Ada"}
    assert runs == 0
    assert heads <= 2  # all of them asked within one turn of the loop; the first may have come alone


async def test_whoever_comes_while_a_look_is_under_way_joins_the_next_one() -> None:
    began: list[int] = []
    gates = [asyncio.Event() for _ in range(9)]

    async def look() -> int:
        number = len(began)
        began.append(number)
        await gates[number].wait()
        return number

    looks = Shared(look)
    first = asyncio.create_task(looks())
    for _ in range(5):
        await asyncio.sleep(0)
    late = [asyncio.create_task(looks()) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert began == [0]
    gates[0].set()
    assert await first == 0
    late[0].cancel()  # the one who was to look gives up
    for gate in gates:
        gate.set()
    with pytest.raises(asyncio.CancelledError):
        await late[0]
    assert 0 not in {await late[1], await late[2]}
    assert await looks() == len(began) - 1


async def test_an_error_is_everybodys_who_waited_and_nobody_elses() -> None:
    answers: list[Any] = [Invalid("no"), 7]

    async def look() -> int:
        await asyncio.sleep(0)
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return int(found)

    looks = Shared(look)
    with pytest.raises(Invalid):
        await looks()
    assert await looks() == 7


def test_a_blocking_program_looks_as_well() -> None:
    async def look() -> int:
        return 7

    assert drive(Shared(look)()) == 7


async def test_a_directory_that_was_set_back_is_read_anew(filed: House) -> None:
    one = filed.node()
    await one.directory.add_principal("acme", "Ada", by=None)
    await one.close()
    before = filed.path.read_bytes()
    one = filed.node()
    await one.directory.add_principal("acme", "Bob", by=None)
    assert len(await one.directory.principals("acme")) == 2
    known = one.directory._known
    await one.close()
    filed.path.write_bytes(before)
    again = filed.node()
    again.directory._known = known
    assert [each.name for each in await again.directory.principals("acme")] == ["Ada"]
