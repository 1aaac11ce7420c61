"""Slices of a budget: a child cannot take more than it was given, and what it leaves returns to its parent."""

import asyncio

import pytest

from perdure.core.errors import BudgetExhausted, Invalid, LimitReached, NotFound
from perdure.core.session import commands as do
from perdure.core.session.budget import Account
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config
from perdure.services.slices import Slices
from tests.services.test_accounts import EVERYTHING, begun, parts, reserve, settle
from tests.services.world import World


async def child_of(world: World, account: str, config: Config | None = None) -> SessionId:
    return await world.create(account=account, config=config)


async def test_a_child_spends_its_slice_and_the_rest_returns(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, EVERYTHING)
    account = await slices.open_slice(parent, 400, "kid", tokens=200, rounds=5)
    assert await parts(world, parent) == [
        Account(cap=1000, reserved=400),
        Account(cap=500, reserved=200),
        Account(cap=20, reserved=5),
    ]
    child = await child_of(world, account)
    await reserve(world, child, "a", 300, tokens=150, rounds=1)
    with pytest.raises(BudgetExhausted) as refusal:
        await reserve(world, child, "b", 101)
    assert refusal.value.left == 100
    with pytest.raises(LimitReached):
        await reserve(world, child, "b", 1, tokens=51)
    await settle(world, child, "a", 250, tokens=120, rounds=1)
    closed = await slices.close_slice(parent, "kid")
    assert closed is not None
    assert (closed.settle.cost, closed.settle.tokens, closed.settle.rounds) == (250, 120, 1)
    assert await parts(world, parent) == [
        Account(cap=1000, spent=250),
        Account(cap=500, spent=120),
        Account(cap=20, spent=1),
    ]
    with pytest.raises(BudgetExhausted):
        await reserve(world, child, "c", 1)


async def test_a_slice_that_does_not_fit_is_refused_and_nothing_changes(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, EVERYTHING)
    await reserve(world, parent, "a", 700)
    head, before = await world.store.head(parent), await parts(world, parent)
    with pytest.raises(BudgetExhausted):
        await slices.open_slice(parent, 301, "kid", tokens=1, rounds=1)
    with pytest.raises(LimitReached):
        await slices.open_slice(parent, 300, "kid", tokens=501, rounds=1)
    with pytest.raises(Invalid, match="tokens are limited"):
        await slices.open_slice(parent, 300, "kid", rounds=1)
    assert (await world.store.head(parent), await parts(world, parent)) == (head, before)
    assert await parts(world, f"{parent}#slice:kid") == [None, None, None]


async def test_closing_again_does_nothing_and_a_plain_reservation_is_no_slice(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=100))
    await slices.open_slice(parent, 40, "kid")
    assert await slices.close_slice(parent, "kid") is not None
    assert await slices.close_slice(parent, "kid") is None
    assert await world.store.account(parent) == Account(cap=100)
    with pytest.raises(Invalid, match="opened before"):
        await slices.open_slice(parent, 10, "kid")
    await reserve(world, parent, "plain", 10)
    with pytest.raises(NotFound, match="no slice"):
        await slices.close_slice(parent, "plain")


async def test_opening_is_done_once_for_a_key(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=100))
    accounts = {await slices.open_slice(parent, 40, "kid", key="spawn-1") for _ in range(2)}
    assert len(accounts) == 1
    assert await world.store.account(parent) == Account(cap=100, reserved=40)


async def test_no_configuration_of_the_child_widens_its_slice(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=100))
    child = await child_of(world, await slices.open_slice(parent, 40, "kid"), Config(max_cost=40))
    await world.sessions.handle(child, do.Configure(config=Config(max_cost=10**9, max_tokens=5)))
    with pytest.raises(BudgetExhausted):
        await reserve(world, child, "a", 41)
    await reserve(world, child, "a", 40)


async def test_what_a_child_left_set_aside_is_charged_by_estimate_and_can_be_corrected(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=100))
    child = await child_of(world, await slices.open_slice(parent, 40, "kid"))
    await reserve(world, child, "a", 30)
    closed = await slices.close_slice(parent, "kid")
    assert closed is not None
    assert closed.settle.estimated
    assert await world.store.account(parent) == Account(cap=100, spent=30)
    await settle(world, child, "a", 5)
    await world.sessions.handle(parent, do.Correct(reservation="kid", cost=5))
    assert await world.store.account(parent) == Account(cap=100, spent=5)


async def test_a_child_that_overran_its_slice_is_charged_in_full(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=100))
    child = await child_of(world, await slices.open_slice(parent, 40, "kid"))
    await reserve(world, child, "a", 40)
    await settle(world, child, "a", 55)
    await slices.close_slice(parent, "kid")
    assert await world.store.account(parent) == Account(cap=100, spent=55)


async def test_a_parent_without_caps_limits_its_child_all_the_same(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, None)
    child = await child_of(world, await slices.open_slice(parent, 40, "kid"))
    with pytest.raises(BudgetExhausted):
        await reserve(world, child, "a", 41)
    await reserve(world, child, "a", 40, tokens=10**6)
    await settle(world, child, "a", 30, tokens=900)
    await slices.close_slice(parent, "kid")
    state = (await world.sessions.loader.load(parent)).state
    assert (state.budget.spent, state.budget.settled_tokens, state.budget.open) == (30, 900, {})


async def test_a_parent_that_is_erased_leaves_what_its_child_took_on_the_account(world: World) -> None:
    slices, owner = Slices(world.sessions), await begun(world, Config(max_cost=100))
    parent = await world.branch(owner)
    child = await child_of(world, await slices.open_slice(parent, 60, "kid"))
    await reserve(world, parent, "plain", 20)
    await reserve(world, child, "a", 25)
    await settle(world, child, "a", 25)
    await world.erasure.erase(parent)
    assert await world.store.account(owner) == Account(cap=100, spent=25)
    with pytest.raises(BudgetExhausted):
        await reserve(world, child, "b", 1)


async def test_children_that_spend_while_their_slices_are_closed_never_pass_the_parents_cap(world: World) -> None:
    slices, parent = Slices(world.sessions), await begun(world, Config(max_cost=1000))
    names = [f"kid{number}" for number in range(10)]
    children = {name: await child_of(world, await slices.open_slice(parent, 100, name)) for name in names}
    spent = dict.fromkeys(names, 0)

    async def spend(name: str, number: int) -> None:
        try:
            await reserve(world, children[name], f"n{number}", 30)
        except BudgetExhausted:
            return
        await settle(world, children[name], f"n{number}", 25)
        spent[name] += 25

    work = [spend(name, number) for number in range(5) for name in names]
    await asyncio.gather(*work, *[slices.close_slice(parent, name) for name in names])
    account = await world.store.account(parent)
    assert account is not None
    assert sum(spent.values()) <= account.spent <= 1000
    assert account.reserved == 0
