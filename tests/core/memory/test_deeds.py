"""What was done to what."""

import pytest

from perdure.core.memory.deeds import NOTHING, read_deed
from perdure.core.memory.statements import read


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("Bob sold his car", "Bob sold his boat", True),
        ("Bob has sold his car in May", "In June Bob sold his old boat to Tim", True),
        ("Bob sold his car", "Bob sold his old car", False),
        ("Bob sold his car", "Bob bought a boat", False),
        ("Ana picked Inter as the font", "Ana picked Lato as the font", False),
        ("Ana booked the Ritz for Rome", "Ana booked the Savoy for Rome", False),
        ("Ana lives in Lisbon", "Ana lives in Porto", False),
        ("Ana moved to Lisbon", "Ana moved to Porto", False),
        ("Ravenna United wears grey", "Ravenna United has existed since 1947", False),
        ("Ana has a dog called Rex", "Ana has a dog called Max", False),
        ("Bob slept", "Bob slept badly", False),
    ],
)
def test_the_same_done_to_another_thing_is_another_deed(one: str, other: str, differ: bool) -> None:
    first, second = (read_deed(read(text).tokens) for text in (one, other))
    assert first.differs(second) is second.differs(first) is differ


def test_what_tells_how_something_is_tells_of_no_deed() -> None:
    assert read_deed(read("Ana lives in Lisbon").tokens) == NOTHING
