"""Slices, as the parent's budget and the child's account see them."""

import pytest

from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.slices import Slice, account_of, closing, opening


def test_a_slice_is_set_aside_in_the_parent_and_capped_for_the_child() -> None:
    command, moves = opening("p", "kid", Slice(cost=50, tokens=400), ("cost", "tokens"))
    assert command == do.Reserve(reservation="kid", amount=50, purpose="slice", tokens=400)
    assert moves == (
        AccountMove(account="p#slice:kid", cap=50, sets_cap=True),
        AccountMove(account="p#slice:kid#tokens", cap=400, sets_cap=True),
    )


def test_what_is_limited_has_to_be_given_out_by_number() -> None:
    with pytest.raises(Invalid, match="rounds are limited here") as refusal:
        opening("p", "kid", Slice(cost=50), ("cost", "rounds"))
    assert refusal.value.limit == "rounds"


@pytest.mark.parametrize("name", ["", "a#b", "#tokens"])
def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="needs a name"):
        opening("p", name, Slice(cost=1), ())


@pytest.mark.parametrize("wrong", [Slice(cost=-1), Slice(tokens=-1), Slice(rounds=1 << 60)])
def test_a_slice_of_no_amount_is_refused(wrong: Slice) -> None:
    with pytest.raises(Invalid, match="not an amount"):
        opening("p", "kid", wrong, ())


def test_closing_settles_what_was_spent_and_leaves_nothing_to_spend() -> None:
    found = closing("p", "kid", {"cost": Account(cap=50, spent=20), "tokens": Account(spent=90)})
    account = account_of("p", "kid")
    assert found.settle == do.Settle(reservation="kid", cost=20, tokens=90)
    assert found.guard == (AccountMove(account=account, reserve=30), AccountMove(account=account, release=30))
    assert found.moves == (
        AccountMove(account=account, cap=20, sets_cap=True),
        AccountMove(account=f"{account}#tokens", cap=90, sets_cap=True),
    )


def test_what_is_still_set_aside_counts_as_used_by_estimate() -> None:
    found = closing("p", "kid", {"cost": Account(cap=50, spent=20, reserved=5)})
    assert found.settle == do.Settle(reservation="kid", cost=25, estimated=True)


def test_a_paused_slice_gives_nothing_out_and_needs_no_guard() -> None:
    assert closing("p", "kid", {"cost": Account(cap=50, spent=10, paused=True)}).guard == ()
