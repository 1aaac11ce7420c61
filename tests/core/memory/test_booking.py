"""When something is booked that can be booked at other times too."""

import pytest

from perdure.core.memory.booking import are_two
from perdure.core.memory.statements import read


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("Room 12 is booked on Monday", {"monday"}),
        ("The hall has been reserved for May 3", {"@05-03"}),
        ("Court 2 is taken from nine", {"#9"}),
        ("The van is rented in May", {"may"}),
        ("Another visit is scheduled for Tuesday", {"tuesday"}),
        ("The visit is scheduled for Tuesday", set()),
        ("The appointment is booked for Tuesday", set()),
        ("The kiln is booked out until Sunday", set()),
        ("Ana booked a table for Sunday", set()),
        ("The weekly sync is on Monday", set()),
        ("Booked", set()),
        ("", set()),
    ],
)
def test_what_can_be_booked_again_has_the_times_it_is_booked(text: str, times: set[str]) -> None:
    assert read(text).booked == times


def test_bookings_are_two_when_each_has_a_time_of_its_own() -> None:
    monday, tuesday = frozenset({"monday"}), frozenset({"tuesday"})
    assert are_two(monday, tuesday)
    assert not are_two(monday, monday)
    assert not are_two(monday, monday | tuesday)
    assert not are_two(monday, frozenset())
