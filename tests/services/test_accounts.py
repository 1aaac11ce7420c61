"""Accounts of whole trees of sessions, in a store: caps on money, tokens and rounds hold, whoever draws on them."""

import asyncio
from typing import Any

import pytest

from perdure.core.errors import BudgetExhausted, LimitReached
from perdure.core.session import caps
from perdure.core.session import commands as do
from perdure.core.session.budget import LIMITS, Account, part_of, use_of
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Config
from perdure.services.accounts import account_of, costs_of
from perdure.services.branches import BranchRequest
from tests.services.world import World

EVERYTHING = Config(max_cost=1000, max_tokens=500, max_rounds=20)


async def begun(world: World, config: Config | None) -> SessionId:
    """A session as the library begins it."""
    fresh, capped = SessionId(world.sessions.fresh_id()), caps.admit(config)
    command = do.Create(config=config, account=fresh if capped else None, activate=True)
    made = await world.sessions.create(command, session=fresh, accounts=caps.opened(fresh, capped))
    return made.session


async def reserve(world: World, session: SessionId, name: str, cost: int, tokens: int = 0, rounds: int = 0) -> None:
    command = do.Reserve(reservation=name, amount=cost, tokens=tokens, rounds=rounds)
    await world.sessions.handle(session, command)


async def settle(world: World, session: SessionId, name: str, cost: int, tokens: int = 0, rounds: int = 0) -> None:
    command = do.Settle(reservation=name, cost=cost, tokens=tokens, rounds=rounds)
    await world.sessions.handle(session, command)


async def parts(world: World, account: str) -> list[Account | None]:
    return [await world.store.account(part_of(account, limit)) for limit in LIMITS]


async def summed(world: World, account: str, sessions: list[SessionId]) -> None:
    """The account is the sum of what its sessions know, in every part."""
    states = [(await world.sessions.loader.load(session)).state for session in sessions]
    for limit in LIMITS:
        kept = await world.store.account(part_of(account, limit)) or Account()
        uses = [use_of(state.budget, limit) for state in states]
        assert (kept.spent, kept.reserved) == (sum(use.spent for use in uses), sum(use.held for use in uses)), limit


async def test_tokens_and_rounds_are_shared_by_a_session_and_its_branches(world: World) -> None:
    session = await begun(world, EVERYTHING)
    branch = await world.branch(session)
    await reserve(world, session, "a", 100, tokens=300, rounds=1)
    with pytest.raises(LimitReached) as refusal:
        await reserve(world, branch, "a", 100, tokens=201, rounds=1)
    assert (refusal.value.limit, refusal.value.left, refusal.value.asked) == ("tokens", 200, 201)
    await reserve(world, branch, "a", 100, tokens=200, rounds=1)
    await settle(world, session, "a", 80, tokens=50, rounds=1)
    await reserve(world, branch, "b", 0, tokens=250, rounds=18)
    with pytest.raises(LimitReached) as refusal:
        await reserve(world, session, "c", 1, rounds=1)
    assert (refusal.value.limit, refusal.value.account) == ("rounds", session)
    await summed(world, session, [session, branch])


async def test_a_refusal_changes_nothing_at_all(world: World) -> None:
    session = await begun(world, EVERYTHING)
    await reserve(world, session, "a", 10, tokens=10, rounds=1)
    head, before = await world.store.head(session), await parts(world, session)
    for tokens, rounds in ((491, 1), (1, 20)):
        with pytest.raises(LimitReached):
            await reserve(world, await world.branch(session), "b", 10, tokens=tokens, rounds=rounds)
        with pytest.raises(LimitReached):
            await reserve(world, session, "b", 10, tokens=tokens, rounds=rounds)
    assert (await world.store.head(session), await parts(world, session)) == (head, before)
    await reserve(world, session, "b", 10, tokens=490, rounds=19)


async def test_a_session_without_caps_has_no_account_and_one_with_money_alone_no_rows_for_more(world: World) -> None:
    free = await begun(world, None)
    await reserve(world, free, "a", 10, tokens=10, rounds=1)
    assert (await world.sessions.log.head(free)).row.account is None
    assert await parts(world, free) == [None, None, None]
    paid = await begun(world, Config(max_cost=100))
    await reserve(world, paid, "a", 10)
    await settle(world, paid, "a", 10)
    assert await parts(world, paid) == [Account(cap=100, spent=10), None, None]


@pytest.mark.parametrize("config", [Config(max_tokens=100), Config(max_rounds=100)])
async def test_a_cap_on_tokens_or_rounds_alone_is_enough_for_an_account(world: World, config: Config) -> None:
    session = await begun(world, config)
    branch = await world.branch(session)
    await reserve(world, branch, "a", 10**9, tokens=60, rounds=60)
    with pytest.raises(LimitReached):
        await reserve(world, session, "a", 0, tokens=41, rounds=41)
    await reserve(world, session, "a", 0, tokens=40, rounds=40)
    await summed(world, session, [session, branch])


async def test_a_cap_that_comes_late_knows_what_was_used_before(world: World) -> None:
    session = await begun(world, None)
    await reserve(world, session, "a", 5, tokens=40, rounds=1)
    await settle(world, session, "a", 5, tokens=30, rounds=1)
    await reserve(world, session, "open", 5, tokens=20, rounds=1)
    await world.sessions.handle(session, do.Configure(config=Config(max_tokens=100)))
    assert await parts(world, session) == [
        Account(spent=5, reserved=5),
        Account(cap=100, spent=30, reserved=20),
        Account(spent=1, reserved=1),
    ]
    with pytest.raises(LimitReached):
        await reserve(world, await world.branch(session), "a", 0, tokens=51)


async def test_a_second_cap_knows_what_branches_used_before_it(world: World) -> None:
    session = await begun(world, Config(max_cost=1000))
    branch = await world.branch(session)
    await reserve(world, branch, "a", 5, tokens=40, rounds=1)
    await settle(world, branch, "a", 5, tokens=30, rounds=1)
    await world.sessions.handle(session, do.Configure(config=Config(max_cost=1000, max_tokens=100)))
    assert await world.store.account(f"{session}#tokens") == Account(cap=100, spent=30)
    with pytest.raises(LimitReached):
        await reserve(world, branch, "b", 5, tokens=71)
    await world.sessions.handle(session, do.Configure(config=Config(max_cost=1000)))
    await reserve(world, branch, "b", 5, tokens=71)
    await summed(world, session, [session, branch])


async def test_a_branch_with_tighter_caps_keeps_both(world: World) -> None:
    session = await begun(world, EVERYTHING)
    await reserve(world, session, "a", 0, tokens=400)
    with pytest.raises(LimitReached):
        await world.branches.branch(session, None, BranchRequest(config={"max_tokens": 101}))
    made = await world.branches.branch(session, None, BranchRequest(config={"max_tokens": 50, "max_rounds": 1}))
    with pytest.raises(LimitReached, match="raise its max_tokens"):
        await reserve(world, made.session, "a", 0, tokens=51)
    with pytest.raises(LimitReached, match="raise its max_rounds"):
        await reserve(world, made.session, "a", 0, rounds=2)
    await reserve(world, made.session, "a", 0, tokens=50, rounds=1)
    assert await world.store.account(f"{session}#tokens") == Account(cap=500, reserved=450)


async def test_a_branch_that_brings_the_first_cap_has_an_account_of_its_own(world: World) -> None:
    session = await begun(world, None)
    made = await world.branches.branch(session, None, BranchRequest(config={"max_rounds": 2}))
    twig = await world.branch(made.session)
    await reserve(world, twig, "a", 0, rounds=2)
    with pytest.raises(LimitReached):
        await reserve(world, made.session, "a", 0, rounds=1)
    assert await world.store.account(f"{made.session}#rounds") == Account(cap=2, reserved=2)


async def test_an_imported_owner_brings_its_caps_and_what_it_used(world: World, elsewhere: World) -> None:
    session = await begun(world, EVERYTHING)
    await reserve(world, session, "a", 10, tokens=300, rounds=5)
    await settle(world, session, "a", 10, tokens=200, rounds=4)
    await elsewhere.take(await world.lines(session))
    branch = await elsewhere.branch(session)
    with pytest.raises(LimitReached) as refusal:
        await reserve(elsewhere, branch, "a", 0, tokens=301)
    assert refusal.value.left == 300
    await reserve(elsewhere, branch, "a", 0, tokens=300, rounds=16)
    assert await parts(elsewhere, session) == [
        Account(cap=1000, spent=10),
        Account(cap=500, spent=200, reserved=300),
        Account(cap=20, spent=4, reserved=16),
    ]


async def test_an_imported_owner_whose_cap_changes_first_loses_nothing(world: World, elsewhere: World) -> None:
    session = await begun(world, EVERYTHING)
    await reserve(world, session, "a", 10, tokens=300)
    await settle(world, session, "a", 10, tokens=200)
    await elsewhere.take(await world.lines(session))
    await elsewhere.sessions.handle(session, do.Configure(config=Config(max_cost=900, max_tokens=500)))
    assert await parts(elsewhere, session) == [Account(cap=900, spent=10), Account(cap=500, spent=200), Account()]


async def test_a_session_that_is_erased_returns_all_it_had_set_aside(world: World) -> None:
    session = await begun(world, EVERYTHING)
    branch = await world.branch(session)
    await reserve(world, branch, "a", 100, tokens=200, rounds=3)
    await settle(world, branch, "a", 50, tokens=100, rounds=2)
    await reserve(world, branch, "b", 100, tokens=200, rounds=3)
    await world.erasure.erase(branch)
    assert await parts(world, session) == [
        Account(cap=1000, spent=50),
        Account(cap=500, spent=100),
        Account(cap=20, spent=2),
    ]


async def test_a_correction_returns_money_to_the_tree_or_takes_it(world: World) -> None:
    session = await begun(world, Config(max_cost=100))
    branch = await world.branch(session)
    await reserve(world, branch, "a", 80)
    await world.sessions.handle(branch, do.Settle(reservation="a", cost=80, estimated=True))
    with pytest.raises(BudgetExhausted):
        await reserve(world, session, "b", 30)
    await world.sessions.handle(branch, do.Correct(reservation="a", cost=20))
    assert await world.store.account(session) == Account(cap=100, spent=20)
    await reserve(world, session, "b", 80)
    await world.sessions.handle(session, do.Settle(reservation="b", cost=10, estimated=True))
    await world.sessions.handle(session, do.Correct(reservation="b", cost=60))
    assert await world.store.account(session) == Account(cap=100, spent=80)
    await summed(world, session, [session, branch])


async def test_an_imported_estimate_is_corrected_on_an_account_that_knows_it(world: World, elsewhere: World) -> None:
    session = await begun(world, Config(max_cost=100))
    await reserve(world, session, "a", 80)
    await world.sessions.handle(session, do.Settle(reservation="a", cost=80, estimated=True))
    await elsewhere.take(await world.lines(session))
    await elsewhere.sessions.handle(session, do.Correct(reservation="a", cost=20))
    assert await elsewhere.store.account(session) == Account(cap=100, spent=20)


async def test_costs_tell_the_sessions_share_and_the_caps_of_the_tree(world: World) -> None:
    session = await begun(world, Config(max_cost=1000, max_rounds=5))
    branch = await world.branch(session)
    await reserve(world, session, "a", 100, tokens=50, rounds=1)
    await settle(world, session, "a", 70, tokens=40, rounds=1)
    await reserve(world, branch, "a", 200, rounds=2)
    state = (await world.sessions.loader.load(session)).state
    found = await costs_of(world.store, world.sessions.loader, state)
    assert (found.spent, found.reserved, found.tokens, found.rounds) == (70, 0, 40, 1)
    assert found.limits == {
        "cost": Account(cap=1000, spent=70, reserved=200),
        "rounds": Account(cap=5, spent=1, reserved=2),
    }
    assert await account_of(world.store, world.sessions.loader, state) == found.limits["cost"]


async def test_two_hundred_at_once_over_twenty_branches_stay_within_every_cap(world: World) -> None:
    config = Config(max_cost=10_000, max_tokens=30_000, max_rounds=150)
    session = await begun(world, config)
    tree = [session, *[await world.branch(session) for _ in range(19)]]
    lowest: list[Any] = []

    async def spend(number: int) -> int:
        who, name = tree[number % 20], f"n{number}"
        try:
            await reserve(world, who, name, 100, tokens=220, rounds=1)
        except BudgetExhausted as refused:
            lowest.append(refused)
            return 0
        for account, cap in zip(await parts(world, session), (10_000, 30_000, 150), strict=True):
            assert account is not None
            assert account.spent + account.reserved <= cap
            assert not account.paused
        await settle(world, who, name, 60 + number % 40, tokens=150, rounds=1)
        return 60 + number % 40

    spent = sum(await asyncio.gather(*[spend(number) for number in range(200)]))
    money, tokens, rounds = await parts(world, session)
    assert (money, rounds) != (None, None)
    assert money == Account(cap=10_000, spent=spent)
    assert tokens == Account(cap=30_000, spent=150 * (200 - len(lowest)))
    assert rounds == Account(cap=150, spent=200 - len(lowest))
    assert 50 <= len(lowest) < 200
    await summed(world, session, tree)
