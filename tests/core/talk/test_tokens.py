"""Offline token counts: bounded, additive, and corrected by what providers report."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Ask, Call, Foreign, Media, Result, Said, Text, Thought, Tool, Usage
from perdure.core.talk.tokens import (
    LEAST,
    MESSAGE,
    MOST,
    ONE,
    PICTURE,
    SEAM,
    TELLING,
    TOOLS,
    Calibration,
    calibrated,
    count,
    estimate,
    estimate_ask,
    estimate_block,
    fitting,
    learned,
    sent,
)
from perdure.core.talk.wire import rest

ANY = st.text(st.characters(codec=None, exclude_categories=()))  # half characters, too
CODE = st.text("aAbB z\t\n09{}=-—é漢ก😀", max_size=60)
TEXTS = st.one_of(ANY, CODE)
COUNTS = st.integers(0, 10**9)
CALIBRATIONS = st.builds(Calibration, model=st.just("m"), ratio=st.integers(LEAST, MOST), seen=st.integers(0, 16))


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@given(TEXTS)
@example("\ud800")
@example(" ")
@example("\x00")
def test_a_text_counts_at_least_one_token_and_at_most_its_bytes(text: str) -> None:
    assert (1 if text else 0) <= estimate(text) <= size(text)


@given(TEXTS, TEXTS)
@example("\u0e01", "漢" * 1000)  # a run never takes in what is of another class
@example("a", "é" * 1000)
@example("—", "\u0e01" * 1000)
@example("A", "a" * 1000)
@example("A" * 1000, "a")
@example("A", "A" * 1000 + "a")
@example(" ", " " * 1000)
@example("-", "-" * 1000)
def test_two_texts_together_count_what_they_count_apart_but_for_the_seam(one: str, other: str) -> None:
    assert abs(estimate(one + other) - estimate(one) - estimate(other)) <= SEAM


@given(TEXTS)
@example("é" * 1000)
@example("\u0e01a" * 1000)
def test_every_character_but_a_single_blank_is_counted(text: str) -> None:
    words = [word for word in text.split() if word]
    assert estimate(text) >= len(words)


@given(TEXTS, TEXTS)
def test_more_text_never_counts_less(one: str, other: str) -> None:
    assert estimate(one) <= estimate(one + other)


@given(TEXTS, st.integers(-1, 30))
def test_what_fits_is_the_longest_beginning_that_does(text: str, tokens: int) -> None:
    kept = fitting(text, max(0, tokens))
    assert text.startswith(kept)
    assert estimate(kept) <= max(0, tokens)
    if kept != text:
        assert estimate(text[: len(kept) + 1]) > max(0, tokens)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10, 13),
        ("def greet(name: str) -> str:\n    return f'hello {name}'\n", 17, 32),
        ('{"city": "Rome", "days": 3}', 10, 20),
        ("Die Würde des Menschen ist unantastbar.", 9, 17),
        ("人人生而自由在尊严和权利上一律平等", 14, 30),
        ("כל בני האדם נולדו בני חורין", 10, 24),
    ],
)
def test_prose_and_code_count_about_what_tokenizers_count_and_rather_more(text: str, least: int, most: int) -> None:
    assert least <= estimate(text) <= most


def test_an_ask_counts_all_that_is_said_and_offered() -> None:
    words = "some words to be counted here"
    bare = Ask(model="m", messages=(Said(role="user", blocks=(Text(text=words),)),))
    assert estimate_ask(bare) == MESSAGE + estimate(words)
    tool = Tool(name="weather", description=words, schema={"type": "object"})
    with_tool = Ask(model="m", messages=bare.messages, tools=(tool,), system=(Text(text=words),))
    assert estimate_ask(with_tool) > estimate_ask(bare) + TOOLS + 2 * estimate(words)


@pytest.mark.parametrize(
    ("block", "least"),
    [
        (Call(id="c", name="weather", arguments={"city": "Rome"}), 5),
        (Call(id="c", name="weather", raw="not json at all"), 5),
        (
            Result(call="c", content=(Text(text="sunny and warm"), Media(media_type="image/png", data=b"1"))),
            PICTURE + 3,
        ),
        (Thought(text="let me see"), 3),
        (Thought(seal="s" * 60), 10),
        (Media(media_type="application/pdf", data=b"x" * 100_000), 5_000),
        (Foreign(provider="anthropic", block={"type": "search_result", "title": "a title"}), 5),
    ],
)
def test_every_kind_of_block_counts(block: Call | Result | Thought | Media | Foreign, least: int) -> None:
    assert estimate_block(block) >= least


def test_a_rest_counts_nothing_wherever_it_stands() -> None:
    left = rest("anthropic", {"citations": {"enabled": True}})
    text = Text(text="sunny and warm")
    bare = Ask(model="m", messages=(Said(role="user", blocks=(text, Result(call="c", content=(text,)))),))
    blocks = (*left, text, *left, Result(call="c", content=(text, *left)), *left)
    full = Ask(model="m", messages=(Said(role="user", blocks=blocks),), system=left)
    assert estimate_ask(full) == estimate_ask(bare)


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=30))
def test_no_report_moves_the_ratio_out_of_its_bounds(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration(model="m")
    for estimated, reported in reports:
        calibration = learned(calibration, estimated, reported)
        assert LEAST <= calibration.ratio <= MOST


@given(CALIBRATIONS, st.integers(ONE // 2, ONE * 2), st.integers(1_000, 1_000_000))
def test_steady_reports_are_believed_in_the_end(calibration: Calibration, true: int, estimated: int) -> None:
    for _ in range(200):
        calibration = learned(calibration, estimated, estimated * true // ONE)
    assert abs(calibration.ratio - true) <= ONE // 200


def test_the_first_report_counts_whole_and_a_later_one_a_sixteenth() -> None:
    first = learned(Calibration(model="m"), 1000, 1500)
    assert first.ratio == ONE * 3 // 2
    settled = Calibration(model="m", ratio=ONE, seen=16)
    assert learned(settled, 1000, 2600).ratio == ONE + ONE // 10


@pytest.mark.parametrize(("estimated", "reported"), [(TELLING - 1, 900), (1000, 0), (0, 5)])
def test_a_report_that_says_nothing_changes_nothing(estimated: int, reported: int) -> None:
    before = Calibration(model="m", ratio=ONE * 2, seen=3)
    assert learned(before, estimated, reported) is before


def test_negative_reports_are_refused() -> None:
    with pytest.raises(Invalid, match="not negative"):
        learned(Calibration(model="m"), 100, -1)


@given(CALIBRATIONS, TEXTS)
def test_a_calibrated_count_is_bounded_like_an_estimate(calibration: Calibration, text: str) -> None:
    assert (1 if text else 0) <= count(text, calibration) <= size(text)


@given(CALIBRATIONS, COUNTS, COUNTS)
def test_calibrating_keeps_the_order(calibration: Calibration, one: int, more: int) -> None:
    assert calibrated(calibration, one) <= calibrated(calibration, one + more)
    assert calibrated(Calibration(model="m"), one) == one


def test_all_that_was_sent_is_what_was_cached_and_what_was_not() -> None:
    assert sent(Usage(input=1, output=1000, cache_read=20, cache_write=300)) == 321
