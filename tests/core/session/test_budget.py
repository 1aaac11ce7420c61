"""Money: whatever is reserved and settled, in whatever order, the cap holds or the account is paused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BudgetExhausted, Invalid, LimitReached, NotFound
from perdure.core.session.budget import (
    COST,
    LIMITS,
    MAX_AMOUNT,
    Account,
    AccountMove,
    Budget,
    Corrected,
    Overrun,
    Reserved,
    Settled,
    amount,
    apply,
    correct,
    evolve,
    limit_of,
    moves,
    must_fit,
    part_of,
    reserve,
    settle,
    use_of,
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


# ── tokens and rounds ─────────────────────────────────────────────────────────────────────────────


def test_each_part_of_an_account_has_an_id_that_tells_what_it_limits() -> None:
    parts = {limit: part_of("purse", limit) for limit in LIMITS}
    assert parts == {"cost": "purse", "tokens": "purse#tokens", "rounds": "purse#rounds"}
    assert {limit_of(part): part for part in parts.values()} == parts
    assert limit_of("purse#other") == limit_of("tokens") == COST


def test_only_the_parts_that_are_spoken_of_are_moved() -> None:
    assert moves("purse", (Reserved(amount=5),)) == (AccountMove(account="purse", reserve=5),)
    assert moves("purse", (Reserved(tokens=7, rounds=1),)) == (
        AccountMove(account="purse#tokens", reserve=7),
        AccountMove(account="purse#rounds", reserve=1),
    )
    assert moves("purse", (Settled(cost=3, held_tokens=7, tokens=4, held_rounds=1),)) == (
        AccountMove(account="purse", spend=3),
        AccountMove(account="purse#tokens", release=7, spend=4),
        AccountMove(account="purse#rounds", release=1),
    )
    assert moves("purse", (Reserved(), Settled())) == ()


def test_a_correction_gives_back_or_takes() -> None:
    assert moves("purse", (Corrected(before=9, cost=4),)) == (AccountMove(account="purse", spend=-5),)
    assert moves("purse", (Corrected(before=4, cost=9),)) == (AccountMove(account="purse", spend=5),)


@pytest.mark.parametrize("limit", ["tokens", "rounds"])
def test_tokens_and_rounds_that_do_not_fit_say_what_to_raise(limit: str) -> None:
    account = Account(cap=100, spent=40, reserved=20)
    with pytest.raises(LimitReached, match=f"40 {limit} left, 41 were asked for; raise max_{limit}") as refusal:
        apply(account, AccountMove(account=f"purse#{limit}", reserve=41))
    found = refusal.value
    assert (found.limit, found.account, found.left, found.asked) == (limit, "purse", 40, 41)
    assert apply(account, AccountMove(account=f"purse#{limit}", reserve=40)).left == 0


def test_a_reservation_holds_tokens_and_rounds_until_it_is_settled() -> None:
    part = fold(Budget(), reserve(Budget(), "a", 5, tokens=70, rounds=1))
    assert use_of(part, "tokens") == (0, 70)
    assert use_of(part, "rounds") == (0, 1)
    (settled,) = settle(part, "a", 5, tokens=30, rounds=1)
    assert settled == Settled(reservation="a", amount=5, cost=5, held_tokens=70, tokens=30, held_rounds=1, rounds=1)
    after = fold(part, settled)
    assert after == Budget(spent=5, settled_tokens=30, settled_rounds=1)


def test_a_cap_of_the_sessions_own_holds_for_each_of_them() -> None:
    part = Budget(spent=40, open={"a": 10}, settled_tokens=400, held={"a": 100}, settled_rounds=4, held_rounds={"a": 1})
    caps = {"cost": 60, "tokens": 600, "rounds": 6}
    must_fit(part, Reserved(amount=10, tokens=100, rounds=1), caps)
    must_fit(part, Reserved(amount=11, tokens=101, rounds=2), {})
    with pytest.raises(BudgetExhausted, match="max_cost"):
        must_fit(part, Reserved(amount=11), caps)
    for limit, wanted in (("tokens", Reserved(tokens=101)), ("rounds", Reserved(rounds=2))):
        with pytest.raises(LimitReached, match=f"raise its max_{limit}") as refusal:
            must_fit(part, wanted, caps)
        assert refusal.value.limit == limit


@pytest.mark.parametrize("limit", ["tokens", "rounds"])
@pytest.mark.parametrize("wrong", [-1, MAX_AMOUNT + 1, 1.0, "5", None, True])
def test_what_is_no_number_of_tokens_or_rounds_is_refused(limit: str, wrong: Any) -> None:
    with pytest.raises(Invalid, match=f"whole {limit}"):
        reserve(Budget(), "a", 5, **{limit: wrong})
    with pytest.raises(Invalid, match=f"whole {limit}"):
        settle(Budget(open={"a": 5}), "a", 5, **{limit: wrong})


def test_an_estimate_can_be_corrected_once() -> None:
    part = fold(Budget(open={"a": 10}), *settle(Budget(open={"a": 10}), "a", 10, estimated=True))
    corrected = correct(part, "a", 4)
    after = fold(part, corrected)
    assert (after.spent, after.estimated) == (4, {})
    with pytest.raises(NotFound, match="nothing is left to correct"):
        correct(after, "a", 3)


def test_other_events_cost_nothing() -> None:
    assert moves("purse", (Message(role="user"), Overrun(excess=5))) == ()
    assert fold(Budget(spent=1), Message(role="user")) == Budget(spent=1)
