"""Claims about accounts: a budget is a hard limit, whoever draws on it and how many at once."""

import pytest

from perdure.core.errors import BudgetExhausted, LimitReached
from perdure.core.session.budget import TOKENS, Account, AccountMove, part_of
from perdure.ports.store import Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, opens
from perdure.testing.contract.looking import everything, put, settle

PURSE = "purse"


def reserves(amount: int) -> tuple[AccountMove, ...]:
    """Set this much aside."""
    return (AccountMove(account=PURSE, reserve=amount),)


def settles(held: int, cost: int) -> tuple[AccountMove, ...]:
    """Say what a reservation really cost."""
    return (AccountMove(account=PURSE, release=held, spend=cost),)


class Accounts:
    """What an account promises."""

    async def test_an_account_that_nobody_opened_is_not_there(self, store: Store) -> None:
        assert await store.account(PURSE) is None

    async def test_an_account_has_the_cap_it_was_given(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        assert await store.account(PURSE) == Account(cap=100)
        await put(store, make.append(made, accounts=opens(PURSE, 250)))
        assert await store.account(PURSE) == Account(cap=250)

    async def test_a_reservation_is_held_until_settled(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        held = await put(store, make.append(made, accounts=reserves(60)))
        assert await store.account(PURSE) == Account(cap=100, reserved=60)
        await put(store, make.append(held, accounts=settles(60, 45)))
        assert await store.account(PURSE) == Account(cap=100, spent=45)

    async def test_the_last_micro_dollar_can_be_reserved_and_no_more(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        held = await put(store, make.append(made, accounts=reserves(100)))
        with pytest.raises(BudgetExhausted):
            await store.append([make.append(held, accounts=reserves(1)).commit])

    async def test_a_reservation_over_the_cap_changes_nothing(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        before = await everything(store, [made], accounts=[PURSE])
        with pytest.raises(BudgetExhausted) as refused:
            await store.append([make.append(made, make.mark(), accounts=reserves(101)).commit])
        assert (refused.value.left, refused.value.asked) == (100, 101)
        assert await everything(store, [made], accounts=[PURSE]) == before

    async def test_a_cost_over_the_cap_lands_and_pauses_the_account(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        held = await put(store, make.append(made, accounts=reserves(90)))
        over = await put(store, make.append(held, accounts=settles(90, 130)))
        assert await store.account(PURSE) == Account(cap=100, spent=130, paused=True)
        with pytest.raises(BudgetExhausted):
            await store.append([make.append(over, accounts=reserves(1)).commit])

    async def test_an_account_without_a_cap_has_no_limit(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, None)))
        await put(store, make.append(made, accounts=reserves(1 << 52)))
        assert await store.account(PURSE) == Account(reserved=1 << 52)

    async def test_the_moves_of_one_append_add_up(self, store: Store, make: Builder) -> None:
        one, two = make.create(accounts=opens(PURSE, 100)), make.create()
        await put(store, one, two)
        greedy = [make.append(made, accounts=reserves(60)).commit for made in (one, two)]
        with pytest.raises(BudgetExhausted):
            await store.append(greedy)
        assert await store.account(PURSE) == Account(cap=100)
        await store.append([make.append(made, accounts=reserves(50)).commit for made in (one, two)])
        assert await store.account(PURSE) == Account(cap=100, reserved=100)

    async def test_a_concurrent_crowd_cannot_overdraw(self, store: Store, make: Builder) -> None:
        await put(store, make.create(accounts=opens(PURSE, 1000)))
        crowd = [make.create() for _ in range(50)]
        await store.append([made.commit for made in crowd])
        outcomes = await settle(store, (make.append(made, accounts=reserves(60)).commit for made in crowd))
        granted = [outcome for outcome in outcomes if isinstance(outcome, int)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, BudgetExhausted)]
        assert (len(granted), len(refused)) == (16, 34)
        assert await store.account(PURSE) == Account(cap=1000, reserved=960)

    async def test_what_one_part_of_an_account_refuses_leaves_the_others_as_they_were(
        self, store: Store, make: Builder
    ) -> None:
        tokens = part_of(PURSE, TOKENS)
        made = await put(store, make.create(accounts=(*opens(PURSE, 100), *opens(tokens, 50))))
        before = await everything(store, [made], accounts=[PURSE, tokens])
        both = (*reserves(10), AccountMove(account=tokens, reserve=51))
        with pytest.raises(LimitReached) as refusal:
            await store.append([make.append(made, accounts=both).commit])
        found = refusal.value
        assert (found.limit, found.account, found.left, found.asked) == (TOKENS, PURSE, 50, 51)
        assert await everything(store, [made], accounts=[PURSE, tokens]) == before
        fits = (*reserves(10), AccountMove(account=tokens, reserve=50))
        await put(store, make.append(made, accounts=fits))
        assert await store.account(PURSE) == Account(cap=100, reserved=10)
        assert await store.account(tokens) == Account(cap=50, reserved=50)

    async def test_what_was_charged_too_much_is_given_back(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(accounts=opens(PURSE, 100)))
        held = await put(store, make.append(made, accounts=reserves(90)))
        paid = await put(store, make.append(held, accounts=settles(90, 90)))
        await put(store, make.append(paid, accounts=(AccountMove(account=PURSE, spend=-60),)))
        assert await store.account(PURSE) == Account(cap=100, spent=30)

    async def test_an_account_outlives_the_session_that_opened_it(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = make.create(accounts=opens(PURSE, 100))
        other = make.create(accounts=reserves(30))
        await put(store, made, other)
        await store.erase(made.session, ambient.now())
        assert await store.account(PURSE) == Account(cap=100, reserved=30)
