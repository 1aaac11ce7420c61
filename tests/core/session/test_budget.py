"""Money: whatever is reserved and settled, in whatever order, the cap holds or the account is paused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BudgetExhausted, Invalid, NotFound
from perdure.core.session.budget import (
    MAX_AMOUNT,
    Account,
    AccountMove,
    Budget,
    Overrun,
    Reserved,
    Settled,
    amount,
    apply,
    evolve,
    moves,
    reserve,
    settle,
)
from perdure.core.session.turns import Message
from tests.core.session.logbook import event_of

amounts = st.integers(0, 60)
names = st.sampled_from(["a", "b", "c"])
actions = st.tuples(st.sampled_from(["reserve", "settle", "raise", "free"]), names, amounts)


def fold(part: Budget, *payloads: Any) -> Budget:
    for payload in payloads:
        part = evolve(part, event_of(payload))
    return part


def charged(account: Account, *payloads: Any) -> Account:
    for move in moves("purse", payloads):
        account = apply(account, move)
    return account


def with_cap(cap: int | None, account: Account | None = None) -> Account:
    return apply(account or Account(), AccountMove(account="purse", cap=cap, sets_cap=True))


# ── any sequence ──────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 100), st.lists(actions, max_size=40))
def test_the_cap_holds_unless_a_cost_overran_its_reservation_and_that_pauses(cap: int, drawn: list[Any]) -> None:
    part, account, overran = Budget(), with_cap(cap), False
    for action, name, micros in drawn:
        try:
            if action == "reserve":
                events: tuple[Any, ...] = (reserve(part, name, micros),)
            elif action == "settle":
                events = settle(part, name, micros)
            else:
                continue
            account = charged(account, *events)
        except (Invalid, NotFound, BudgetExhausted):
            continue
        part = fold(part, *events)
        overran = overran or any(isinstance(event, Overrun) for event in events)
        assert account.reserved == sum(part.open.values())
        assert account.spent == part.spent
        assert account.spent + account.reserved <= cap or overran
        assert account.paused or account.spent + account.reserved <= cap
        assert account.left == max(0, cap - account.spent - account.reserved)


@given(st.lists(actions, max_size=40), st.integers(0, 50))
def test_several_sessions_on_one_account_never_pass_the_cap_by_reserving(drawn: list[Any], cap: int) -> None:
    shares = {name: Budget() for name in "abc"}
    account = with_cap(cap)
    for action, name, micros in drawn:
        part = shares[name]
        try:
            if action == "reserve":
                events: tuple[Any, ...] = (reserve(part, "r", micros),)
            else:
                events = settle(part, "r", min(micros, part.open.get("r", 0)))
            account = charged(account, *events)
        except (Invalid, NotFound, BudgetExhausted):
            continue
        shares[name] = fold(part, *events)
        assert account.spent + account.reserved <= cap
        assert not account.paused
        assert account.spent == sum(share.spent for share in shares.values())
        assert account.reserved == sum(sum(share.open.values()) for share in shares.values())


# ── the account ───────────────────────────────────────────────────────────────────────────────────


def test_a_reservation_that_does_not_fit_says_what_is_left() -> None:
    account = charged(with_cap(100), Reserved(reservation="a", amount=60))
    with pytest.raises(BudgetExhausted, match="40 micro-dollars left, 41 were asked for") as refusal:
        charged(account, Reserved(reservation="b", amount=41))
    assert (refusal.value.account, refusal.value.left, refusal.value.asked) == ("purse", 40, 41)
    assert charged(account, Reserved(reservation="b", amount=40)).left == 0


def test_what_a_settled_reservation_did_not_cost_returns() -> None:
    account = charged(with_cap(100), Reserved(amount=60), Settled(amount=60, cost=10))
    assert account == Account(cap=100, spent=10)
    assert account.left == 90


def test_an_overrun_is_spent_all_the_same_and_pauses_the_account() -> None:
    account = charged(with_cap(100), Reserved(amount=100), Settled(amount=100, cost=130))
    assert account == Account(cap=100, spent=130, paused=True)
    with pytest.raises(BudgetExhausted) as refusal:
        charged(account, Reserved(amount=1))
    assert refusal.value.paused


def test_a_paused_account_refuses_also_what_would_fit() -> None:
    with pytest.raises(BudgetExhausted):
        charged(Account(cap=100, paused=True), Reserved(amount=1))


def test_without_a_cap_there_is_no_limit() -> None:
    account = charged(Account(), Reserved(amount=MAX_AMOUNT), Settled(amount=MAX_AMOUNT, cost=MAX_AMOUNT))
    assert account.left is None
    assert not account.paused


def test_raising_the_cap_above_what_is_spent_ends_the_pause() -> None:
    paused = charged(with_cap(100), Reserved(amount=100), Settled(amount=100, cost=130))
    assert with_cap(129, paused).paused
    assert not with_cap(130, paused).paused
    assert not with_cap(None, paused).paused


def test_lowering_the_cap_below_what_is_spent_pauses() -> None:
    account = charged(with_cap(100), Reserved(amount=60))
    assert with_cap(59, account).paused


# ── the session's share ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong", [-1, MAX_AMOUNT + 1, 1.0, "5", None, True, float("nan")])
def test_what_is_no_amount_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="micro-dollars"):
        amount(wrong)


def test_a_reservation_has_a_name_that_is_free() -> None:
    with pytest.raises(Invalid, match="needs a name"):
        reserve(Budget(), "", 5)
    with pytest.raises(Invalid, match="open already"):
        reserve(Budget(open={"a": 1}), "a", 5)
    assert reserve(Budget(), "a", 5, "why") == Reserved(reservation="a", amount=5, purpose="why")


def test_settling_needs_a_reservation() -> None:
    with pytest.raises(NotFound, match="reserve first"):
        settle(Budget(), "a", 5)


def test_settling_gives_the_cost_and_what_was_held() -> None:
    held = Budget(open={"a": 10})
    assert settle(held, "a", 4) == (Settled(reservation="a", amount=10, cost=4),)
    assert settle(held, "a", 10, estimated=True) == (Settled(reservation="a", amount=10, cost=10, estimated=True),)
    assert settle(held, "a", 13) == (
        Settled(reservation="a", amount=10, cost=13),
        Overrun(reservation="a", excess=3),
    )


def test_a_name_is_free_again_once_settled() -> None:
    part = fold(Budget(), Reserved(reservation="a", amount=5), Settled(reservation="a", amount=5, cost=2))
    assert part == Budget(spent=2)
    assert reserve(part, "a", 1).amount == 1


def test_other_events_cost_nothing() -> None:
    assert moves("purse", (Message(role="user"), Overrun(excess=5))) == ()
    assert fold(Budget(spent=1), Message(role="user")) == Budget(spent=1)
