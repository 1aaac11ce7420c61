"""What a model is asked about pairs of memories, and what counts as its answer."""

import pytest

from perdure.core.memory.judging import MAX_QUOTED, shared_out, verdicts
from perdure.core.memory.parts import Memory, MemoryType, Trust
from perdure.core.memory.steps import Doubt
from perdure.core.talk.parts import Answer, Text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"1": "same", "2": "newer"}', ("same", "newer")),
        ('```json\n{"1": "Same", "2": " apart "}\n```', ("same", "apart")),
        ('<think>{"x"} and {"1": "same"}</think>{"1": "apart", "2": "newer"}', ("apart", "newer")),
        ('{"1": "apart", "2": "newer"} That is {all}.', ("apart", "newer")),
        ('{"1": null, "2": "newer", "3": "same"}', ("", "newer")),
        ('{"1": ["same"], "2": {"1": "same"}}', ("", "")),
        ('{"one": "same"}', ("", "")),
        ("{" * 100_000, ("", "")),
        ('{"1":' * 5_000, ("", "")),
        ('{"1": "same", "2": "ne', ("", "")),
        ("", ("", "")),
    ],
)
def test_the_words_are_found_wherever_the_object_stands(said: str, words: tuple[str, ...]) -> None:
    answer = Answer(id="a", model="m", blocks=(Text(text=said),), stop="end")
    assert verdicts(answer, 2) == words


def memories(*told: tuple[str, Trust]) -> dict[str, Memory]:
    return {
        str(number): Memory(id=str(number), type=MemoryType.FACT, version=number, content=text, trust=trust)
        for number, (text, trust) in enumerate(told)
    }


def test_pairs_of_one_question_are_trusted_alike() -> None:
    known = memories(("a", "high"), ("b", "high"), ("c", "low"), ("d", "high"), ("e", "low"), ("f", "low"))
    doubts = [Doubt("0", "1"), Doubt("2", "3"), Doubt("4", "5"), Doubt("1", "3")]
    assert shared_out(doubts, known, 10, 10) == ([[doubts[0], doubts[3]], doubts[1:3]], [])
    assert shared_out(doubts, known, 1, 3) == ([[doubts[0]], [doubts[1]], [doubts[2]]], [doubts[3]])


def test_what_is_gone_or_cannot_be_shown_whole_is_asked_of_nobody() -> None:
    known = memories(("a" * MAX_QUOTED, "low"), ("b", "low"), ("c" * (MAX_QUOTED + 1), "low"))
    doubts = [Doubt("0", "1"), Doubt("1", "2"), Doubt("0", "9")]
    assert shared_out(doubts, known, 10, 10) == ([doubts[:1]], doubts[1:])
