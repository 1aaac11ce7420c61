"""Two texts read beside each other: what they are to each other, the same however they were batched."""

from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")

from perdure.core.errors import Invalid  # noqa: E402 - after the packages it needs
from perdure.core.memory.rereading import either  # noqa: E402
from perdure.embedders.encoding import is_installed  # noqa: E402
from perdure.embedders.reader import DOWN, UP, PairReader, Turned  # noqa: E402

if not is_installed():
    pytest.skip("the weights are not installed", allow_module_level=True)

SAME = ("Ana Berg lives in Porto.", "Porto is where Ana Berg has her home.")
NEWER = ("Ana Berg works for Initech.", "Ana Berg left Initech and works for Globex now.")
APART = ("Ana Berg likes ramen.", "Omar Diaz plays the cello on Sundays.")


@pytest.fixture(scope="module")
def reader() -> PairReader:
    return PairReader()


def test_it_tells_what_is_the_same_what_is_newer_and_what_is_apart(reader: PairReader) -> None:
    same, newer, apart = reader.read([SAME, NEWER, APART])
    assert same[0] > max(same[1], 0)
    assert newer[1] > max(newer[0], 0)
    assert max(apart) < -2
    assert either(apart) < 0 < either(same)


def test_a_pair_is_read_the_same_whatever_it_is_batched_with(reader: PairReader) -> None:
    pairs = [SAME, NEWER, APART, ("", ""), ("a", "word " * 900), ("日本の猫", "🐈")]
    alone = [reader.read([pair])[0] for pair in pairs]
    assert np.abs(np.array(reader.read(pairs)) - np.array(alone)).max() < 0.01
    assert np.isfinite(np.array(alone)).all()


def test_no_pairs_are_no_sums(reader: PairReader) -> None:
    assert reader.read([]) == []


def test_what_was_learnt_is_added_or_takes_the_place_of_what_was_there() -> None:
    weights: dict[str, Any] = {"wide": np.ones((4, 3)), "kinds": np.zeros(2), "left": np.ones(1)}
    learnt = {
        f"wide{UP}": np.ones((4, 2)),
        f"wide{DOWN}": np.full((2, 3), 0.5),
        "kinds": np.ones(2),
        "head": np.ones(9),
    }
    found = Turned(weights, learnt)
    assert [*found] == [*weights]
    assert len(found) == 3
    assert found["wide"].tolist() == [[2.0] * 3] * 4
    assert (found["kinds"].tolist(), found["left"].tolist()) == ([1.0, 1.0], [1.0])
    assert weights["wide"].tolist() == [[1.0] * 3] * 4


def test_a_folder_without_weights_is_named(tmp_path: Any) -> None:
    with pytest.raises(Invalid, match="is not there"):
        PairReader(tmp_path)
