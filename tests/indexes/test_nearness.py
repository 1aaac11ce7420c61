"""How near texts are, compared with how near any two of them are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from perdure.indexes.nearness import Nearness


class Letters:
    """An embedder by the letters of a text."""

    name, dimensions = "letters", 26

    def __init__(self) -> None:
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.batches.append(len(texts))
        rows = np.array([[text.count(chr(97 + k)) for k in range(26)] for text in texts], dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)[:, None]


def near(*texts: tuple[str, str]) -> Nearness:
    return Nearness(Letters(), texts)


def test_what_is_nearer_than_by_chance_is_above_nought() -> None:
    many = [(chr(97 + k) * 3, chr(122 - k) * 3) for k in range(20)]
    found = near(("abab", "xyz"), ("abba", "zzz"), *many)(0, 1)
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] > found[1] > 3


def test_a_text_that_is_not_there_is_near_to_none() -> None:
    assert near(("ab", ""), ("ba", "x"), ("", ""))(0, 1)[1] is None
    assert near(("ab", ""), ("ba", "x"), ("", ""))(0, 2) == (None, None)


def test_few_texts_and_texts_that_are_all_the_same_can_be_compared() -> None:
    assert near()  # nothing is asked of it
    for found in near(("a", "a"), ("a", "a"))(0, 1):
        assert found is not None
        assert found >= 0


def test_each_text_is_embedded_once_and_in_batches() -> None:
    embedder = Letters()
    Nearness(embedder, [(f"t{n % 600}", "same") for n in range(1_000)])
    assert embedder.batches == [512, 88, 1]


def test_the_nearest_of_some_are_told_and_nobody_is_nearest_to_itself() -> None:
    told = [(chr(97 + k) * 3 + chr(97 + k // 2 * 2), "") for k in range(20)]
    found = [*near(*told).nearest([0, 7], 1)]
    assert (0, 1) in found
    assert (7, 6) in found
    assert all(one in (0, 7) and one != other for one, other in found)


def test_of_few_all_are_near_and_what_says_nothing_is_near_to_none() -> None:
    assert {*near(("ab", ""), ("ba", ""), ("", "")).nearest([0, 1, 2], 6)} == {(0, 1), (1, 0)}
    assert [*near().nearest([], 6)] == []
