"""Which calls are left without a result."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.parts.pairing import Open, Step, left_open

CALLS = st.lists(st.sampled_from("abcd"), max_size=2, unique=True).map(tuple)
STEPS = st.lists(st.builds(Step, CALLS, CALLS, st.booleans()), max_size=12)


def asks(*calls: str, own: bool = False) -> Step:
    return Step(calls, (), own)


def answers(*calls: str, own: bool = False) -> Step:
    return Step((), calls, own)


def says(*, own: bool = False) -> Step:
    return Step((), (), own)


def test_a_call_with_a_result_is_not_open_however_late_it_comes() -> None:
    assert left_open([says(), asks("a"), answers("a"), says()]) == []
    assert left_open([asks("a"), says(), answers("a")]) == []


def test_a_call_of_others_is_open_wherever_it_stands() -> None:
    assert left_open([asks("a"), says()]) == [Open("a", 0, 1)]
    assert left_open([says(), asks("a")]) == [Open("a", 1, 2)]


def test_a_call_of_ones_own_is_open_once_others_went_on() -> None:
    assert left_open([asks("a", own=True)]) == []
    assert left_open([asks("a", own=True), says(own=True), says()]) == []
    assert left_open([asks("a", own=True), says()]) == [Open("a", 0, 1)]


def test_a_result_stands_after_those_that_came() -> None:
    assert left_open([asks("a", "b", own=True), answers("b", own=True), says()]) == [Open("a", 0, 2)]


def test_the_same_call_made_again_is_another_one() -> None:
    assert left_open([asks("a"), says(), asks("a"), answers("a")]) == [Open("a", 0, 1)]


@given(STEPS)
def test_with_the_results_in_their_places_nothing_is_open(steps: list[Step]) -> None:
    found = left_open(steps)
    assert [item.step for item in found] == sorted(item.step for item in found)
    assert all(item.step < item.place <= len(steps) for item in found)
    whole = list(steps)
    for item in sorted(found, key=lambda item: item.place, reverse=True):
        whole.insert(item.place, Step((), (item.call,), True))
    assert left_open(whole) == []


@given(STEPS)
def test_in_a_conversation_of_ones_own_nothing_is(steps: list[Step]) -> None:
    assert left_open([step._replace(own=True) for step in steps]) == []
