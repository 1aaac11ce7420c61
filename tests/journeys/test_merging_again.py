"""Merging the same branch more than once, and turns that end in odd ways."""

from collections.abc import Iterator

import pytest

import perdure
from perdure import errors
from tests.journeys.conftest import Place


@pytest.fixture
def db(place: Place) -> Iterator[perdure.Perdure]:
    with perdure.open(place.at("sessions.db")) as opened:
        yield opened


def test_merging_again_does_not_undo_what_was_decided_since(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    branch.patch_vars(a=2)
    assert session.merge(branch).merged
    session.patch_vars(a=1)
    assert session.merge(branch).merged
    assert session.vars() == {"a": 1}


def test_merging_again_takes_over_only_what_is_new(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    branch.patch_vars(a=2)
    session.merge(branch)
    session.patch_vars(a=3)
    branch.patch_vars(b=4)
    assert session.merge(branch).merged
    assert session.vars() == {"a": 3, "b": 4}


def test_a_merge_with_nothing_new_writes_nothing(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    branch.patch_vars(a=2)
    version = session.merge(branch).version
    assert session.merge(branch).version == version == session.version()


def test_a_settled_conflict_does_not_come_back(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    branch.patch_vars(a=2)
    session.patch_vars(a=3)
    conflict = session.merge(branch).conflict_id
    assert conflict is not None
    session.resolve(conflict, {"vars.a": "ours"}, summary="kept ours")
    assert session.merge(branch).merged
    assert session.vars() == {"a": 3}
    assert session.turns()[-1].messages[-1].content == "kept ours"


def test_a_merge_by_another_policy_settles_the_waiting_conflict(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": 1})
    branch = session.branch()
    branch.patch_vars(a=2)
    session.patch_vars(a=3)
    assert not session.merge(branch).merged
    assert session.merge(branch, "theirs").merged
    assert (session.vars(), session.state().links.conflicts) == ({"a": 2}, {})


def test_a_turn_block_with_an_unanswered_call_ends_interrupted(db: perdure.Perdure) -> None:
    session = db.create()
    with pytest.raises(errors.TurnRefused), session.turn("go") as turn:
        turn.ask("search")
    assert [turn.status for turn in session.turns()] == ["interrupted"]
    with session.turn("again"):
        pass


def test_a_turn_that_is_over_takes_no_more(db: perdure.Perdure) -> None:
    session = db.create()
    with session.turn("go") as turn:
        turn.answer("done")
    with pytest.raises(errors.TurnRefused, match="is over"):
        turn.answer("late")


def test_plain_vars_are_a_document_of_ones_own(db: perdure.Perdure) -> None:
    session = db.create(vars={"a": [1]})
    document = session.vars()
    document["a"].append(2)
    assert session.vars() == {"a": [1]}
