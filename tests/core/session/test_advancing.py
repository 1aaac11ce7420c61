"""Turns that perdure carries on: what is asked is reserved, what is answered is settled, whatever ends in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BudgetExhausted, Invalid, NotFound, TurnRefused
from perdure.core.session import commands as do
from perdure.core.session.approval import ApprovalAsked, ApprovalGiven, parked
from perdure.core.session.asking import OTHERS, SHARES, ModelAnswered, ModelAsked
from perdure.core.session.budget import Corrected, Overrun, Settled
from perdure.core.session.event import Draft, Payload
from perdure.core.session.origin import Config
from perdure.core.session.steering import FollowedUp, TakenUp
from perdure.core.session.turns import (
    CallStatus,
    Message,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
)
from tests.core.session.logbook import Logbook


def drafts(*payloads: Payload) -> tuple[Draft, ...]:
    return tuple(Draft(payload, target=payload.aim()) for payload in payloads)


def begun(cap: int | None = None) -> Logbook:
    book = Logbook()
    book.begin()
    if cap is not None:
        book.do(do.Configure(config=Config(max_cost=cap)))
    return book


def ask(book: Logbook, name: str = "a", amount: int = 100, *, first: bool = True) -> None:
    start = (TurnStarted(role="user", content="Hi"),) if first else ()
    asked = ModelAsked(ask=name, provider="p", model="m", node="here")
    turn = None if first or book.state.turns.open is None else book.state.turns.open.number
    reserve = do.Reserve(reservation=name, amount=amount, tokens=50, rounds=1)
    book.do(do.Advance(drafts=drafts(*start, asked), reserves=(reserve,), turn=turn))


def test_a_question_and_its_answer_are_two_appends() -> None:
    book = begun()
    ask(book)
    assert book.state.budget.open == {"a": 100}
    assert book.state.budget.asked["a"].node == "here"
    answer = (
        ModelAnswered(ask="a", model="m", tokens_in=3, tokens_out=4, cache_read=5, cost=60, strategy="s"),
        Message(role="assistant", content="Hello"),
        TurnFinished(),
    )
    settle = do.Settle(reservation="a", cost=60, tokens=12, rounds=1)
    events = book.do(do.Advance(drafts=drafts(*answer), settles=(settle,), turn=1))
    assert [event.kind for event in events] == ["settled", "model_answered", "message", "turn_finished"]
    part = book.state.budget
    assert (part.spent, part.open, part.asked, part.rounds) == (60, {}, {}, 1)
    assert (part.tokens_in, part.tokens_out, part.cache_read) == (8, 4, 5)
    assert part.shares == {"model:m": 60, "strategy:s": 60}


def test_money_that_comes_back_may_be_set_aside_again_in_the_same_append() -> None:
    book = begun(cap=120)
    ask(book)
    again = do.Advance(
        drafts=drafts(ModelAnswered(ask="a", cost=10), ModelAsked(ask="b")),
        settles=(do.Settle(reservation="a", cost=10),),
        reserves=(do.Reserve(reservation="b", amount=110),),
        turn=1,
    )
    book.do(again)
    assert (book.state.budget.spent, book.state.budget.open) == (10, {"b": 110})
    with pytest.raises(BudgetExhausted):
        book.do(do.Advance(reserves=(do.Reserve(reservation="c", amount=1),), turn=1))


def test_what_is_over_takes_nothing_more() -> None:
    book = begun()
    ask(book)
    for command, error in (
        (do.Advance(drafts=drafts(Message(role="assistant", content="x")), turn=2), TurnRefused),
        (do.Advance(drafts=drafts(ModelAsked(ask="a")), turn=1), Invalid),
        (do.Advance(drafts=drafts(ModelAsked()), turn=1), Invalid),
        (do.Advance(drafts=drafts(ModelAnswered(ask="b")), turn=1), TurnRefused),
        (do.Advance(settles=(do.Settle(reservation="b", cost=1),), turn=1), NotFound),
    ):
        with pytest.raises(error):
            book.do(command)
    book.do(do.Recover())
    with pytest.raises(TurnRefused, match="turn 1 is over"):
        book.do(do.Advance(drafts=drafts(ModelAnswered(ask="a")), turn=1))


@pytest.mark.parametrize("command", [do.Recover(reason="crash"), do.RollBack(), do.MoveTo(event="suspend")])
def test_whatever_ends_a_turn_charges_what_was_reserved_and_that_may_be_corrected(command: do.Command) -> None:
    book = begun()
    ask(book)
    kinds = {type(event.data) for event in book.do(command)}
    assert {Settled, ModelAnswered} < kinds
    assert kinds & {TurnInterrupted, TurnRolledBack}
    part = book.state.budget
    assert (part.spent, part.open, part.held, part.asked, part.estimated) == (100, {}, {}, {}, {"a": 100})
    if book.state.phase.value == "suspended":
        return
    (corrected,) = book.do(do.Correct(reservation="a", cost=30))
    assert corrected.data == Corrected(reservation="a", before=100, cost=30)
    assert (book.state.budget.spent, book.state.budget.estimated) == (30, {})
    with pytest.raises(NotFound, match="nothing is left to correct"):
        book.do(do.Correct(reservation="a", cost=30))


def test_only_the_requests_that_are_named_are_given_up() -> None:
    book = begun()
    ask(book)
    ask(book, "b", first=False)
    book.do(do.GiveUp(asks=("a", "nothing"), reason="crash"))
    assert (list(book.state.budget.asked), book.state.budget.open) == (["b"], {"b": 100})
    assert book.state.turns.open is not None
    assert not book.do(do.GiveUp(asks=("a",)))


def test_a_cost_above_what_was_reserved_is_an_overrun() -> None:
    book = begun()
    ask(book)
    events = book.do(
        do.Advance(
            drafts=drafts(ModelAnswered(ask="a", cost=130)), settles=(do.Settle(reservation="a", cost=130),), turn=1
        )
    )
    assert Overrun(reservation="a", excess=30) in [event.data for event in events]


def test_an_approval_is_given_once_and_a_denial_is_the_result() -> None:
    book = begun()
    ask(book)
    calls = (ToolAsked(call="x", name="pay"), ToolAsked(call="y", name="pay"))
    waits = (ApprovalAsked(call="x", reason="money"), ApprovalAsked(call="y"))
    answered = drafts(ModelAnswered(ask="a"), *calls, *waits)
    book.do(do.Advance(drafts=answered, settles=(do.Settle(reservation="a", cost=1),), turn=1))
    assert parked(book.state.turns.open) == ("x", "y")
    with pytest.raises(TurnRefused, match="waiting are x, y"):
        book.do(do.Approve(call="z", allowed=True))
    book.do(do.Approve(call="x", allowed=True))
    assert book.state.turns.open is not None
    assert book.state.turns.open.calls["x"].status is CallStatus.ALLOWED
    given, finished = book.do(do.Approve(call="y", allowed=False, note="too much"))
    assert given.data == ApprovalGiven(call="y", allowed=False, note="too much")
    assert finished.data == ToolFinished(call="y", error="denied: too much")
    assert parked(book.state.turns.open) == ()
    with pytest.raises(TurnRefused):
        book.do(do.Approve(call="x", allowed=True))
    book.do(do.Advance(drafts=drafts(ToolStarted(call="x", key="k")), turn=1))
    assert book.state.turns.open.calls["x"].status is CallStatus.STARTED


def test_follow_ups_that_were_taken_up_wait_no_more() -> None:
    book = begun()
    book.say(FollowedUp(text="one"), FollowedUp(text="two"))
    first, second = book.state.steering.waiting
    book.do(do.Advance(drafts=drafts(TakenUp(versions=(first,)))))
    assert book.state.steering.waiting == (second,)


def test_costs_are_attributed_to_so_many_names_and_the_rest_together() -> None:
    book = begun()
    ask(book, "0")
    for number in range(SHARES + 10):
        answered = ModelAnswered(ask=str(number), model=f"m{number}", cost=1)
        following = ModelAsked(ask=str(number + 1))
        book.do(do.Advance(drafts=drafts(answered, following), turn=1))
    shares = book.state.budget.shares
    assert len(shares) == SHARES + 1
    assert shares[f"model:{OTHERS}"] == 10
    assert sum(shares.values()) == SHARES + 10


@given(st.lists(st.sampled_from(("ask", "answer", "fail", "recover")), max_size=20), st.integers(1, 500))
def test_nothing_is_ever_spent_twice_or_forgotten(steps: list[str], cost: int) -> None:
    """Whatever happens in whatever order: each question is settled once, and the sum of what was settled is spent."""
    book, number, open = begun(), 0, ""
    for step in steps:
        turn = book.state.turns.open
        if step == "ask" and not open:
            number += 1
            open = f"q{number}"
            ask(book, open, 500, first=turn is None)
        elif step in ("answer", "fail") and open:
            noted = ModelAnswered(ask=open, cost=cost, error=None if step == "answer" else "provider_down")
            book.do(
                do.Advance(drafts=drafts(noted), settles=(do.Settle(reservation=open, cost=cost),), turn=turn.number)
            )  # type: ignore[union-attr]
            open = ""
        elif step == "recover" and turn is not None:
            book.do(do.Recover())
            open = ""
    if book.state.turns.open is not None:
        book.do(do.Recover())
    settled = [event.data for event in book.events if isinstance(event.data, Settled)]
    assert len(settled) == number == len({item.reservation for item in settled})
    assert book.state.budget.spent == sum(item.cost for item in settled)
    assert (book.state.budget.open, book.state.budget.asked) == ({}, {})
