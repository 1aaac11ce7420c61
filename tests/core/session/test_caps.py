"""Caps: which there are, and what they do to an account."""

import pytest

from perdure.core.errors import BudgetExhausted, Invalid, LimitReached
from perdure.core.session import commands as do
from perdure.core.session.budget import Account, AccountMove, Budget, apply
from perdure.core.session.caps import admit, caps_of, carried, fitting, opened, returned
from perdure.core.session.origin import Config
from tests.core.session.logbook import SESSION, Logbook


def test_a_configuration_has_the_caps_it_names() -> None:
    assert caps_of(None) == caps_of(Config(model="m")) == {}
    assert caps_of(Config(max_cost=0, max_rounds=3)) == {"cost": 0, "rounds": 3}
    assert admit(Config(max_tokens=5)) == {"tokens": 5}


@pytest.mark.parametrize("config", [Config(max_cost=-1), Config(max_tokens=-1), Config(max_rounds=1 << 60)])
def test_a_cap_that_is_no_amount_is_refused_wherever_it_comes_from(config: Config) -> None:
    with pytest.raises(Invalid, match="not an amount"):
        admit(config)
    with pytest.raises(Invalid, match="not an amount"):
        Logbook().begin(config=config)
    with pytest.raises(Invalid, match="not an amount"):
        Logbook().begin().do(do.Configure(config=config))


def test_what_must_fit_changes_nothing() -> None:
    account = Account(cap=10, spent=2, reserved=3)
    for move in fitting("purse", {"cost": 5}):
        account = apply(account, move)
    assert account == Account(cap=10, spent=2, reserved=3)
    with pytest.raises(BudgetExhausted):
        apply(account, fitting("purse", {"cost": 6})[0])


def test_an_owner_brings_along_what_its_account_does_not_know_of() -> None:
    part = Budget(settled_tokens=30, held={"a": 12})
    (move,) = carried("purse", "tokens", None, part)
    assert move == AccountMove(account="purse#tokens", reserve=12, spend=30)
    assert carried("purse", "tokens", Account(spent=30, reserved=12), part) == ()
    assert carried("purse", "tokens", Account(cap=50), part) == ()
    assert carried("purse", "rounds", None, part) == ()


def test_all_that_was_set_aside_is_given_back() -> None:
    part = Budget(open={"a": 5, "b": 6}, held={"a": 7}, spent=100)
    assert returned("purse", part) == (
        AccountMove(account="purse", release=11),
        AccountMove(account="purse#tokens", release=7),
    )


@pytest.mark.parametrize("config", [Config(max_cost=5), Config(max_tokens=5), Config(max_rounds=5)])
def test_the_first_cap_of_any_kind_brings_an_account(config: Config) -> None:
    book = Logbook().begin(account=None)
    book.do(do.Configure(config=config))
    assert book.state.origin.account == SESSION


def test_an_account_is_opened_with_every_cap() -> None:
    assert opened("purse", {"cost": 5, "rounds": 2}) == (
        AccountMove(account="purse", cap=5, sets_cap=True),
        AccountMove(account="purse#rounds", cap=2, sets_cap=True),
    )


def test_a_refused_step_of_a_turn_leaves_everything_as_it_was() -> None:
    book = Logbook().begin(config=Config(max_cost=1000, max_tokens=100))
    wanted = do.Reserve(reservation="r", amount=10, tokens=101, rounds=1)
    for command in (wanted, do.Advance(reserves=(wanted,))):
        with pytest.raises(LimitReached) as refusal:
            book.do(command)
        assert (refusal.value.limit, refusal.value.left, refusal.value.asked) == ("tokens", 100, 101)
    assert (book.account, len(book.records)) == (Account(cap=1000), 1)


def test_a_step_that_settles_makes_room_for_what_it_reserves() -> None:
    book = Logbook().begin(config=Config(max_cost=100, max_tokens=100, max_rounds=2))
    book.do(do.Advance(reserves=(do.Reserve(reservation="one", amount=100, tokens=100, rounds=1),)))
    book.do(
        do.Advance(
            settles=(do.Settle(reservation="one", cost=40, tokens=30, rounds=1),),
            reserves=(do.Reserve(reservation="two", amount=60, tokens=70, rounds=1),),
        )
    )
    assert book.accounts == {
        "purse": Account(cap=100, spent=40, reserved=60),
        "purse#tokens": Account(cap=100, spent=30, reserved=70),
        "purse#rounds": Account(cap=2, spent=1, reserved=1),
    }
