"""What passes the gates of memory, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory import gates
from perdure.core.memory.gates import is_recalled, junk, says_again, without_recalled
from tests.core.memory.test_suspecting import ORDINARY, SECRETS

JUNK = [
    ("", gates.EMPTY),
    ("   \n\t ", gates.EMPTY),
    ("… — !!! ---", gates.EMPTY),
    ("👍👍", gates.EMPTY),
    ("Hi!", gates.GREETING),
    ("Hello there, good morning everyone", gates.GREETING),
    ("Thanks so much!", gates.GREETING),
    ("ok, sounds good", gates.GREETING),
    ("Yes please, go ahead", gates.GREETING),
    ("LGTM", gates.GREETING),
    ("Okay, that makes sense.", gates.GREETING),
    ("Zürich", gates.SHORT),
    ("the thing", gates.SHORT),
    ("42", gates.SHORT),
    ("As an AI language model, I cannot have opinions about cheese.", gates.BOILERPLATE),
    ("I'm sorry, but I can't help with that request.", gates.BOILERPLATE),
    ("Let me know if you need more details about the plan.", gates.BOILERPLATE),
    ("I hope this helps with your garden", gates.BOILERPLATE),
    ("Feel free to ask about the invoice", gates.BOILERPLATE),
    ("Copyright (c) 2026 Acme Corporation", gates.BOILERPLATE),
    ("Traceback (most recent call last): ValueError", gates.BOILERPLATE),
    ("Where is the report from March?", gates.QUESTION),
    ("what does the pool pay on Mondays", gates.QUESTION),
    ("Could you look at the failing build", gates.QUESTION),
    ("So, how do we deploy to staging", gates.QUESTION),
    ("```python\nx = 1\nprint(x)\n```", gates.CODE),
    ("def add(a, b):\n    return a + b\n", gates.CODE),
    ("import os\nimport sys\nprint(os.name)\n", gates.CODE),
    ('{"name": "ana", "roles": ["admin", "owner"]}', gates.CODE),
    ("const a = 1;\nlet b = 2;\nfunction f() {\n}\n", gates.CODE),
    ("for (i=0;i<n;i++){a[i]=b[i];}", gates.CODE),
    ("my key is AKIAIOSFODNN7EXAMPLE for the bucket", gates.SECRET),
    ("postgres://app:s3cr3tpw@db/prod is the database", gates.SECRET),
    ("word " * 1_000, gates.LONG),
]


@pytest.mark.parametrize(("text", "reason"), JUNK)
def test_junk_is_told_as_what_it_is(text: str, reason: str) -> None:
    assert junk(text) == reason


@pytest.mark.parametrize("text", SECRETS)
def test_whatever_holds_a_secret_is_refused_as_one(text: str) -> None:
    assert junk(text) == gates.SECRET


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_statements_pass(text: str) -> None:
    assert junk(text) == ""


@given(st.text(max_size=300))
def test_any_text_is_answered_with_a_known_reason(text: str) -> None:
    assert junk(text) in ("", *gates.REASONS)


def test_what_is_quoted_from_memory_is_left_out() -> None:
    block = '<agent_memory>\n  <memory type="fact" importance="0.70" age="1d">\n    Ana lives in Rome.\n  </memory>\n'
    assert without_recalled(f"before {block}</agent_memory> after").split() == ["before", "after"]
    assert without_recalled(f"before {block}").split() == ["before"]
    assert without_recalled('a <search_result source="x">Ana lives in Rome</search_result> b').split() == ["a", "b"]
    assert without_recalled("3 < 4 and 5 > 2") == "3 < 4 and 5 > 2"


@pytest.mark.parametrize(
    "again",
    [
        "Never LP in pools with less than $100K TVL",
        "never LP in pools with less than $100K TVL!",
        "In pools with less than $100K TVL never LP.",
        "Never LP in pools with less than $100K TVL, slippage.",
    ],
)
def test_what_says_nearly_the_same_as_a_shown_memory_is_recalled(again: str) -> None:
    shown = ["Ana lives in Rome.", "Never LP in pools with less than $100K TVL. Slippage was high."]
    assert is_recalled(again, shown)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("The vault pays 3.1% now", "The vault pays 2.3% now"),
        ("Ana no longer lives in Rome", "Ana lives in Rome"),
        ("Ana lives in Rome", "Ana does not live in Rome"),
        ("Ana lives in Oslo with two cats", "Ana lives in Rome with two cats and a dog"),
        ("Ben drinks tea", "Ana lives in Rome"),
    ],
)
def test_what_says_something_new_about_the_same_is_not_recalled(said: str, shown: str) -> None:
    assert not is_recalled(said, [shown])


@given(st.sampled_from(ORDINARY))
def test_everything_says_itself_again(text: str) -> None:
    assert says_again(text, text)
    assert says_again(text.upper(), text)


def test_the_same_said_in_another_order_has_the_same_key() -> None:
    assert gates.key_of("Use uv, not pip") == gates.key_of("not pip: use UV!")
    assert gates.key_of("Use uv") != gates.key_of("Use pip")
