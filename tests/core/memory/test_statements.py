"""Statements are read so that paraphrases meet and different things do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.statements import exchanged, read
from perdure.core.memory.tokens import unadorned

PARAPHRASES = [
    ("Morpho USDC vault base APY: 2.3%", "The base APY of the Morpho USDC vault is currently 2.30 percent"),
    ("Morpho USDC vault base APY: 2.3%", "Base APY on the Morpho USDC vault is 230 bps. Updated 2026-03-08."),
    ("The budget is $1,500", "The budget is 1500 USD"),
    ("The budget is 1.5k dollars", "Note that the budget is $1,500"),
    ("Ana lives in Berlin", "Ana resides in Berlin"),
    ("Ana has three kids", "Ana has 3 children"),
    ("User hates olives", "The user does not like olives"),
    ("The launch is on March 8, 2026", "The launch is on 2026-03-08"),
    ("Ana lives in Berlin", "For the record: Ana lives in Berlin"),
    ("Ana lives in Berlin", "As of this week, Ana lives in Berlin (heard again in the call)"),
    ("Ana trades with at most 5x leverage", "Ana trades with no more than 5x leverage"),
    ("The retry limit is 5", "The retry limit is **5**"),
    ("The proxy runs on Caddy", "The proxy runs on `Caddy`."),
    ("Call Ana first", "Still valid: call Ana first"),
    ("Ana signs with a Ledger", "It bears repeating: Ana signs with a Ledger"),
    ("Café Central opens at 8", "cafe central opens at 8"),
]


@pytest.mark.parametrize(("one", "other"), PARAPHRASES)
def test_paraphrases_have_the_same_terms(one: str, other: str) -> None:
    assert (read(one).bag, read(one).denied) == (read(other).bag, read(other).denied)
    assert (read(one).symbols, read(one).marks.mood) == (read(other).symbols, read(other).marks.mood)


@pytest.mark.parametrize("text", ["*.txt, *.md", "2 * 3 * 4", "a*b*c", "**kwargs and **options", "x ** 2 ** y", "5 *"])
def test_signs_that_set_nothing_off_stay(text: str) -> None:
    assert unadorned(text) == text


ONE_THING = [
    ("Morpho USDC vault base APY: 2.3%", "Base APY for Morpho's USDC vault rose to 3.1%"),
    ("Ana lives in Berlin", "Ana moved to Lisbon last month"),
    ("Ana lives in Berlin", "Ana moved from Berlin to Lisbon"),
    ("Ana is based in Rome", "Ana's home is in Lisbon"),
    ("The user prefers dark mode", "The user now prefers light mode"),
    ("Prefers Aave over Compound", "Prefers Compound over Aave"),
    ("Ana's favourite colour is blue", "The favorite color of Ana is green"),
    ("The budget is $500", "The budget was raised from $500 to $800"),
    ("The deadline of the report is Friday", "The deadline of the report is Monday"),
    ("Ana works at Acme", "Ana works for Globex"),
]


@pytest.mark.parametrize(("one", "other"), ONE_THING)
def test_two_values_of_one_thing_have_one_key(one: str, other: str) -> None:
    before, after = read(one).frame, read(other).frame
    assert before is not None
    assert after is not None
    assert before.key == after.key
    assert before.value != after.value


SEVERAL = [
    ("Ana bought 3 ETH", "Ana bought 5 ETH"),
    ("Wallet 5 has a balance of 20 ETH", "Wallet 6 has a balance of 30 ETH"),
    ("Ana likes coffee", "Ana likes tea"),
    ("Ana visited Berlin", "Ana visited Lisbon"),
    ("Aave USDC vault APY: 2.3%", "Morpho USDC vault APY: 3.1%"),
    ("Ana lives in Berlin", "Bruno lives in Lisbon"),
    ("Ana moved 5 ETH to a cold wallet", "Ana moved 5 ETH to an exchange"),
    ("Ana is tall", "Ana is kind"),
    ("Ana works at Acme", "Ana works as a nurse"),
    ("The user prefers window seats", "The user prefers vegan food"),
]


@pytest.mark.parametrize(("one", "other"), SEVERAL)
def test_different_things_have_no_key_in_common(one: str, other: str) -> None:
    before, after = read(one).frame, read(other).frame
    assert before is None or after is None or before.key != after.key


@given(st.text(max_size=300))
def test_any_text_can_be_read_and_its_names_and_numbers_are_among_its_terms(text: str) -> None:
    statement = read(text)
    assert all(statement.terms)
    assert statement.numbers <= statement.bag
    assert {*statement.names} <= statement.bag


@given(st.lists(st.sampled_from("Ana lives in Berlin 2.3% $5 : is not from to 2026-03-08 March 8, was # -".split())))
def test_any_words_of_a_statement_can_be_read(words: list[str]) -> None:
    statement = read(" ".join(words))
    assert statement.frame is None or (statement.frame.key and statement.frame.value)


def test_a_denial_said_twice_over_is_a_denial() -> None:
    assert read("User doesn't like horror movies anymore").denied
    assert not read("The user does not dislike olives").denied


def test_a_part_is_exchanged_whatever_order_words_are_kept_in() -> None:
    there, back = frozenset({("from", "porto"), ("to", "lisbon")}), frozenset({("from", "lisbon"), ("to", "porto")})
    several = frozenset({("to", "lisbon"), ("to", "ana"), ("from", "porto")})
    assert exchanged(there, back)
    assert not exchanged(there, several)
    assert exchanged(several, there)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Isaac Drummond is the executive sponsor of Project Meridian.",
            "The executive sponsor of Project Meridian is Kim.",
        ),
        ("Saxo Bank is the broker of account IB-9862", "The broker of account IB-9862 is Tastytrade."),
    ],
)
def test_who_is_the_one_is_read_from_either_side(one: str, other: str) -> None:
    first, second = read(one).frame, read(other).frame
    assert first is not None
    assert second is not None
    assert first.key == second.key
    assert first.value != second.value


@pytest.mark.parametrize(
    "text",
    [
        "Helen Whitfield is the proud owner of an allotment by the canal.",
        "Ana Weber is the friend of Ben Adler.",
        "For appointments with Agnes Ivarsson, before noon is the time to aim at.",
        "Coffee is the drink of choice.",
    ],
)
def test_where_there_may_be_several_nobody_is_the_one(text: str) -> None:
    assert read(text).frame is None
