"""What a session has cost, as its budget tells it."""

from perdure.core.session.asking import ModelAnswered, ModelAsked
from perdure.core.session.budget import Account, Budget, Reserved, Settled
from perdure.core.session.costs import Costs, costs
from perdure.core.session.state import BLANK, evolve
from tests.core.session.logbook import event_of


def test_nothing_has_cost_nothing() -> None:
    assert costs(Budget(), {}) == Costs()


def test_costs_are_told_by_model_agent_and_strategy() -> None:
    answered = ModelAnswered(ask="a", model="m:1", tokens_in=50, tokens_out=7, cache_read=3, cost=40, strategy="cheap")
    state = BLANK
    for payload in (
        Reserved(reservation="a", amount=90, tokens=200, rounds=1),
        ModelAsked(ask="a", model="m:1"),
        Settled(
            reservation="a", amount=90, cost=40, estimated=True, held_tokens=200, tokens=60, held_rounds=1, rounds=1
        ),
        answered,
        Reserved(reservation="b", amount=25, tokens=100, rounds=2),
    ):
        state = evolve(state, event_of(payload, agent="researcher"))
    limits = {"cost": Account(cap=500, spent=300, reserved=25)}
    assert costs(state.budget, limits) == Costs(
        spent=40,
        reserved=25,
        estimated=40,
        tokens=60,
        held_tokens=100,
        rounds=1,
        held_rounds=2,
        asked=1,
        tokens_in=53,
        tokens_out=7,
        cache_read=3,
        by_model={"m:1": 40},
        by_agent={"researcher": 40},
        by_strategy={"cheap": 40},
        limits=limits,
    )
