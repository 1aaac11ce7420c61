import pytest

from perdure.core.memory.contraries import contrary, denies_else
from perdure.core.memory.statements import read

ELSE = [
    ("Tom is single", "Tom is not married"),
    ("The door is not open", "The door is locked"),
    ("Ken is unemployed", "Ken has no job"),
]
THAT = [
    ("Tom is married", "Tom is not married"),
    ("The shop is open", "The shop is closed"),
    ("Mia drives a car", "Mia does not drive"),
]


@pytest.mark.parametrize("pair", ELSE)
def test_what_is_denied_may_be_something_else(pair: tuple[str, str]) -> None:
    one, other = map(read, pair)
    assert denies_else(one, other)
    assert denies_else(other, one)


@pytest.mark.parametrize("pair", THAT)
def test_or_just_what_the_other_says(pair: tuple[str, str]) -> None:
    one, other = map(read, pair)
    assert contrary(one, other)
    assert not denies_else(one, other)


def test_where_neither_denies_or_both_do_nothing_else_is_denied() -> None:
    assert not denies_else(read("Tom is single"), read("Tom is married"))
    assert not denies_else(read("Tom is not single"), read("Tom is not tall"))
