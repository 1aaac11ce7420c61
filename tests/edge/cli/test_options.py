"""What the options make of words."""

import click
import pytest

from perdure.edge.cli import options


@pytest.mark.parametrize(
    ("word", "micros"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59Z", -1_000_000),
    ],
)
def test_a_time_without_a_zone_is_utc(word: str, micros: int) -> None:
    assert options.when(word) == micros


def test_a_relative_time_lies_that_far_back() -> None:
    assert options.when("1h") - options.when("2h") == pytest.approx(3_600_000_000, abs=60_000_000)


def test_what_is_true_until_then_is_so_from_now_on_and_since_then_was_so_before() -> None:
    now = options.when("0s")
    for made, away in ((options.since("1h"), -3600), (options.until("1h"), 3600)):
        assert made.timestamp() - now / 1e6 == pytest.approx(away, abs=60)
    assert options.until("1970-06-01") == options.since("1970-06-01T00:00:00Z")
    for of in (options.since, options.until):
        with pytest.raises(click.BadParameter, match="1 to 9999"):
            of("999999w")


@pytest.mark.parametrize(
    "word", ["yesterday", "", "-2h", "2 parsecs", "2026-13-01", "99999999h", "0001-01-01T00:00:00+23:59x"]
)
def test_a_word_that_is_no_time_is_refused(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        options.when(word)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("k=v", ("k", "v")),
        ("k=3", ("k", 3)),
        ("k=1.5", ("k", 1.5)),
        ("k=true", ("k", True)),
        ("k=null", ("k", None)),
        ('k="3"', ("k", "3")),
        ("k=[1]", ("k", "[1]")),
        ("k=NaN", ("k", "NaN")),
        ("k=Infinity", ("k", "Infinity")),
        ("k=a=b", ("k", "a=b")),
        ("k=", ("k", "")),
        ("k=" + "[" * 100_000, ("k", "[" * 100_000)),
    ],
)
def test_a_value_is_a_json_scalar_or_its_own_text(word: str, wanted: tuple[str, object]) -> None:
    assert options.pair(word) == wanted


@pytest.mark.parametrize("word", ["k", "=v", ""])
def test_a_pair_needs_a_key_and_a_sign(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is not key=value"):
        options.pair(word)


def test_a_choice_is_parted_at_its_last_sign() -> None:
    assert options.choice("vars['a=b']=theirs") == ("vars['a=b']", "theirs")


@pytest.mark.parametrize("word", ["vars.a", "vars.a=mine", "=ours"])
def test_a_choice_names_a_path_and_a_side(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is not path="):
        options.choice(word)
