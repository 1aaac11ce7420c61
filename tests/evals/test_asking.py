"""The cheap model of evaluations."""

from evals.asking import recorded
from evals.planted import truth, worded
from evals.wordings import HELD_OUT
from perdure.core.memory.judging import VERDICTS


def test_what_a_language_model_said_is_said_of_pairs_of_the_sets_nothing_is_learnt_from() -> None:
    said = recorded()
    texts = {one.asked.content for name in HELD_OUT for one in worded(name)}
    assert {*said.values()} == {*VERDICTS}
    assert all({earlier, later} <= texts for earlier, later in said)


def test_the_truth_tells_of_each_pair_that_was_planted() -> None:
    told = truth(worded("general"))
    assert len(told) == 666
    assert {*told.values()} == {"same", "newer"}
