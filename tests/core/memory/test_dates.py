"""The days that a query speaks of."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.dates import Span, closeness, day, spans


def moment(year: int, month: int, number: int) -> int:
    return int(datetime(year, month, number, 12, tzinfo=UTC).timestamp()) * 1_000_000


FIRST, LAST = day(moment(2019, 3, 1)), day(moment(2020, 8, 1))


def meant(query: str, now: int = 0) -> list[tuple[str, str]]:
    return [
        (
            datetime.fromtimestamp(a * 86_400, UTC).date().isoformat(),
            datetime.fromtimestamp(b * 86_400, UTC).date().isoformat(),
        )
        for a, b, _ in spans(query, first=FIRST, last=LAST, now=now)
    ]


@pytest.mark.parametrize(
    "query",
    [
        "on 2020-02-29?",
        "on 29 February 2020",
        "on February 29, 2020",
        "on the 29th of February, 2020?",
        "on Feb 29th 2020",
        "29 feb. 2020",
    ],
)
def test_a_day_is_read_however_it_is_written(query: str) -> None:
    assert meant(query) == [("2020-02-29", "2020-02-29")]


def test_a_month_is_all_its_days() -> None:
    assert meant("in December 2019") == [("2019-12-01", "2019-12-31")]
    assert meant("in 2020-02") == [("2020-02-01", "2020-02-29")]


def test_without_a_year_each_year_is_meant_that_there_is_something_from() -> None:
    assert meant("in june") == [("2019-06-01", "2019-06-30"), ("2020-06-01", "2020-06-30")]


def test_a_bare_year_counts_less_than_a_month() -> None:
    (year,) = spans("back in 2019", first=FIRST, last=LAST)
    (month,) = spans("in May 2019", first=FIRST, last=LAST)
    assert year.weight < month.weight
    assert year.last - year.first == 364


@pytest.mark.parametrize(
    "query", ["may I march on?", "May they?", "room 2019-77", "31 of them", "30 February 2020", ""]
)
def test_what_is_no_date_means_no_day(query: str) -> None:
    assert meant(query) == []


def test_a_word_that_may_be_a_month_is_one_in_its_place() -> None:
    assert meant("in may") == meant("What happened that May?") != []


def test_relative_words_need_to_know_the_day() -> None:
    assert meant("what was said yesterday") == []
    assert meant("what was said yesterday", moment(2020, 3, 1)) == [("2020-02-29", "2020-02-29")]
    assert meant("last week", moment(2020, 3, 4)) == [("2020-02-24", "2020-03-01")]
    assert meant("last month", moment(2020, 3, 31)) == [("2020-02-01", "2020-02-29")]
    assert meant("last year", moment(2020, 3, 31)) == [("2019-01-01", "2019-12-31")]


@given(st.integers(-100_000, 100_000), st.integers(0, 400))
def test_closeness_falls_with_the_distance(first: int, away: int) -> None:
    span = [Span(first, first)]
    assert closeness(first, span) == 1.0
    assert closeness(first + away, span) >= closeness(first + away + 1, span)
    assert closeness(first + away, span) == closeness(first - away, span)


@given(st.text(), st.integers(0, 1 << 60))
def test_no_text_is_too_odd(text: str, now: int) -> None:
    spans(text, first=FIRST, last=LAST, now=now)


@given(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 31))
def test_no_date_is_too_odd(year: int, month: int, number: int) -> None:
    spans(f"{year:04}-{month:02}-{number:02} and {number} December {year}", first=FIRST, last=LAST)
