"""Text that was stored cannot drive the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.edge.cli import text

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_nothing_but_newlines_survives_of_control_and_format_characters(given_text: str) -> None:
    joiners = "\u200c\u200d\n"  # emoji and some scripts need the joiners; they move and hide nothing
    kept = [
        char for char in text.clean(given_text) if unicodedata.category(char) in ("Cc", "Cs") and char not in joiners
    ]
    assert kept == []


@given(ANY_TEXT)
def test_one_line_is_one_line_of_at_most_its_width(given_text: str) -> None:
    line = text.one_line(given_text, 20)
    assert len(line) <= 20
    assert line.splitlines() in ([], [line])


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\x08", "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800"],
)
def test_what_acts_is_shown_as_an_escape(hostile: str) -> None:
    shown = text.clean(f"before{hostile}after")
    assert shown.startswith("before\\")
    assert shown.endswith("after")
    assert hostile[0] not in shown


def test_ordinary_text_is_left_alone() -> None:
    assert text.clean("Größe 5 µm, 寿司 👩‍🚀\nnext line") == "Größe 5 µm, 寿司 👩‍🚀\nnext line"


@pytest.mark.parametrize(
    ("micros", "spelled"),
    [(0, "1970-01-01T00:00:00.000000Z"), (1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z")],
)
def test_a_moment_is_spelled_to_the_microsecond_in_utc(micros: int, spelled: str) -> None:
    assert text.moment(micros) == spelled


@pytest.mark.parametrize(
    ("seconds", "spelled"), [(0, "now"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago"), (172_800, "2 d ago")]
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, spelled: str) -> None:
    assert text.ago(1_000_000, 1_000_000 + seconds * 1_000_000) == spelled


def test_a_time_to_come_is_not_told_as_past() -> None:
    assert text.ago(61_000_000, 1_000_000) == "in 1 min"


@pytest.mark.parametrize(("count", "spelled"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB")])
def test_a_size_is_told_in_its_largest_unit(count: int, spelled: str) -> None:
    assert text.size(count) == spelled


@pytest.mark.parametrize(("micros", "spelled"), [(0, "$0"), (5_000_000, "$5"), (500, "$0.0005"), (1_250_000, "$1.25")])
def test_money_is_told_exactly(micros: int, spelled: str) -> None:
    assert text.dollars(micros) == spelled


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("name another place with key= or PERDURE_KEY_FILE", "name another place with --key-file or PERDURE_KEY_FILE"),
        ("with vault= or x", "with --vault or x"),
        ("name it with vault=", "name it with --vault"),
        ("open it with cold= (or PERDURE_COLD)", "open it with --cold (or PERDURE_COLD)"),
        ("open it without seal, key and vault, or export", "open it without --key-file and --vault, or export"),
        ("or make it with seal=False, if", "or make it in a program, with seal=False, if"),
        ("/safe/key=x and vault=y and monkey= stay", "/safe/key=x and vault=y and monkey= stay"),
    ],
)
def test_messages_of_the_library_speak_of_options(said: str, shown: str) -> None:
    assert text.as_options(said) == shown
