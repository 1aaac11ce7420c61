"""What is a slip of the pen, and what is another word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.comparing import likeness
from perdure.core.memory.slips import is_slip
from perdure.core.memory.statements import read


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("The SNX holdings are stored at Fireblocks", "The SNX holdigns are stored at Fireblocks", True),
        ("The owner of the contract is Lucia", "The owner of the cnotract is Lucia", True),
        ("The owner of the contract is Lucia", "The owner of the contract is Lucia", False),
        ("The owner of the contract is Lucia", "The onwer of the cnotract is Lucia", False),  # two of them
        ("The team is in the county hall", "The team is in the country hall", False),
        ("The clients are united", "The clients are untied", False),
        ("The complaint client is Ana", "The compliant client is Ana", False),
        ("The form is on the desk", "The from is on the desk", False),
        ("The boat of Mariela is red", "The boat of Mareila is red", False),  # perhaps somebody else
        ("The code is abc123 today", "The code is acb123 today", False),
        ("The order is 123456 today", "The order is 123465 today", False),
    ],
)
def test_neighbouring_letters_that_changed_places_are_a_slip(one: str, other: str, slip: bool) -> None:
    first, second = read(one), read(other)
    assert is_slip(first.tokens, second.tokens) is slip
    assert is_slip(second.tokens, first.tokens) is slip
    if slip:
        assert likeness(first, second) == likeness(second, first) == "same"


@given(st.text("abcdefg", min_size=6, max_size=9), st.integers(1, 7))
def test_a_slip_is_one_whichever_way_it_is_looked_at(word: str, at: int) -> None:
    slipped = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    one, other = (read(f"the {each} is here").tokens for each in (word, slipped))
    assert is_slip(one, other) is is_slip(other, one)
    assert is_slip(one, other) is (word != slipped)
