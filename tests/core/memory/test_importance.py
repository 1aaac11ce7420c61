"""How much a memory counts: the formula by hand, and what can be said of it whatever the memory."""

from math import exp

import hypothesis.strategies as st
import pytest
from hypothesis import given

from perdure.core.memory.importance import DAY, FEEDBACK, age, composite, weight
from perdure.core.memory.parts import Memory, MemoryType

NOW = 20_000 * DAY


def memory(*, days: float = 0, accesses: int = 0, importance: float = 0.0, cited: int = 0, unused: int = 0) -> Memory:
    return Memory(
        id="m",
        type=MemoryType.FACT,
        content="tea",
        importance=importance,
        recorded_at=NOW - round(days * DAY),
        accesses=accesses,
        cited=cited,
        unused=unused,
    )


@pytest.mark.parametrize(
    ("days", "accesses", "importance", "worth"),
    [
        (0, 0, 0.0, 0.3),
        (0, 0, 1.0, 0.7),
        (0, 10, 1.0, 1.0),
        (0, 25, 1.0, 1.0),
        (0, 5, 0.5, 0.65),
        (30, 0, 0.0, 0.110364),
        (30, 0, 0.5, 0.310364),
        (60, 3, 0.25, 0.230601),
        (365, 0, 0.0, 0.0000016),
        (7, 1, 0.7, 0.547567),
    ],
)
def test_the_composite_is_what_the_formula_gives_by_hand(
    days: float, accesses: int, importance: float, worth: float
) -> None:
    """0.3 e^(-days/30) + 0.3 min(accesses/10, 1) + 0.4 importance."""
    found = composite(memory(days=days, accesses=accesses, importance=importance), NOW)
    assert found == pytest.approx(worth, abs=1e-6)


def test_a_memory_of_tomorrow_is_as_fresh_as_one_of_today() -> None:
    assert composite(memory(days=-1), NOW) == composite(memory(), NOW)


shares = st.floats(0, 1)
counts = st.integers(0, 10_000)
spans = st.floats(0, 10_000)


@given(days=spans, accesses=counts, importance=shares, cited=counts, unused=counts)
def test_both_are_shares_and_feedback_moves_only_so_far(
    days: float, accesses: int, importance: float, cited: int, unused: int
) -> None:
    one = memory(days=days, accesses=accesses, importance=importance, cited=cited, unused=unused)
    assert 0 <= composite(one, NOW) <= 1 + 1e-12
    assert 0 <= weight(one, NOW) <= 1
    assert abs(weight(one, NOW) - composite(one, NOW)) <= FEEDBACK + 1e-9


@given(days=spans, more=st.floats(0.01, 1_000), accesses=st.integers(0, 9), importance=st.floats(0, 0.9))
def test_age_takes_and_use_and_importance_give(days: float, more: float, accesses: int, importance: float) -> None:
    one = composite(memory(days=days, accesses=accesses, importance=importance), NOW)
    assert composite(memory(days=days + more, accesses=accesses, importance=importance), NOW) <= one
    assert composite(memory(days=days, accesses=accesses + 1, importance=importance), NOW) > one
    assert composite(memory(days=days, accesses=accesses, importance=importance + 0.1), NOW) > one


def test_feedback_counts_both_ways_and_is_bounded() -> None:
    plain = 0.3 * exp(-1 / 30)
    assert weight(memory(days=1, cited=3), NOW) == pytest.approx(plain + 0.06)
    assert weight(memory(days=1, unused=3), NOW) == pytest.approx(plain - 0.06)
    assert weight(memory(days=1, cited=500), NOW) == pytest.approx(plain + 0.2)
    assert weight(memory(days=300, unused=500), NOW) == 0


@pytest.mark.parametrize(
    ("days", "told"),
    [(0, "now"), (1 / 1440, "1m"), (59.5 / 1440, "59m"), (1 / 24, "1h"), (0.99, "23h"), (1, "1d"), (29.9, "29d"),
     (30, "1mo"), (364, "12mo"), (365, "1y"), (800, "2y"), (-3, "now")],
)  # fmt: skip
def test_an_age_is_told_in_a_few_letters(days: float, told: str) -> None:
    assert age(memory(days=days), NOW) == told
