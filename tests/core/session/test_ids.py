"""Ids: pure functions of a clock and of chance, sortable, and spelled in one way."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session.ids import RANDOM_BYTES, raw, session_id, step, text, unix_ms, uuid7

clocks = st.integers(0, 2**48 - 1)
chances = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
ids = st.binary(min_size=16, max_size=16)


def test_a_known_clock_and_known_chance_give_a_known_id() -> None:
    made = uuid7(0x017F22E279B0, bytes.fromhex("33" * 10))
    assert text(made) == "017f22e2-79b0-7333-b333-333333333333"
    assert text(uuid7(0, bytes(10))) == "00000000-0000-7000-8000-000000000000"
    assert text(uuid7(2**48 - 1, b"\xff" * 10)) == "ffffffff-ffff-7fff-bfff-ffffffff7fff"


@given(clocks, chances)
def test_an_id_says_version_seven_variant_two_and_when_it_was_made(at: int, chance: bytes) -> None:
    made = uuid7(at, chance)
    assert len(made) == 16
    assert made[6] >> 4 == 7
    assert made[8] >> 6 == 0b10
    assert unix_ms(made) == at


@given(clocks, clocks, chances, chances)
def test_ids_sort_by_the_time_they_were_made(early: int, late: int, one: bytes, other: bytes) -> None:
    if early < late:
        assert uuid7(early, one) < uuid7(late, other)
        assert text(uuid7(early, one)) < text(uuid7(late, other))


@given(clocks, chances)
def test_counting_on_inside_an_append_never_carries_into_the_random_part(at: int, chance: bytes) -> None:
    base = uuid7(at, chance)
    last = step(base, 0x7FFF)
    assert last[:14] == base[:14]
    assert all(before < after for before, after in pairwise(step(base, count) for count in (0, 1, 2, 4096, 0x7FFF)))


@given(ids, st.integers(0, 2**16), st.integers(0, 2**16))
def test_steps_add_up(base: bytes, one: int, other: int) -> None:
    assert step(base, 0) == base
    assert step(step(base, one), other) == step(base, one + other)
    assert len(step(base, one)) == 16


@given(ids)
def test_an_id_survives_being_spelled(made: bytes) -> None:
    spelled = text(made)
    assert raw(spelled) == made
    assert raw(spelled.replace("-", "")) == made
    assert session_id(spelled.upper()) == spelled


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nope",
        "0192f0c4-7d1e-7abc-8def-0123456789a",
        "0192f0c4-7d1e-7abc-8def-0123456789abc",
        "0192f0c4-7d1e-7abc-8def-0123456789ag",
        "0192f0c47d1e7abc8def0123456789ab----extra",
        "{0192f0c4-7d1e-7abc-8def-0123456789ab}",
        "\uff10192f0c4-7d1e-7abc-8def-0123456789ab",
        "\ud800" * 36,
        None,
        5,
        b"0192f0c4-7d1e-7abc-8def-0123456789ab",
    ],
)
def test_what_is_no_id_is_refused_with_an_example(wrong: object) -> None:
    with pytest.raises(Invalid, match="ids look like"):
        raw(wrong)  # type: ignore[arg-type]


@given(st.text(max_size=40))
def test_no_text_is_refused_in_another_way(wrong: str) -> None:
    try:
        assert len(raw(wrong)) == 16
    except Invalid:
        return
