"""Who is asked again, when, and who is left alone: decided from given time and given chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import (
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)
from perdure.core.talk.retrying import (
    BOUND,
    CLOSED,
    FIRST,
    LONGEST,
    MICROSECONDS,
    Breaker,
    Fuse,
    admitted,
    delay,
    failed,
    released,
    seconds_left,
    succeeded,
    weighs,
    worth,
)

CHANCE = st.binary(min_size=4, max_size=4)
FUSE = Fuse(failures=3, pause=5.0, longest=15.0)


@pytest.mark.parametrize(
    ("error", "what", "heavy"),
    [
        (ProviderBusy("", status=429), "again", False),
        (ProviderBusy("", status=529), "again", True),
        (ProviderDown("", status=500), "again", True),
        (ProviderSlow(""), "elsewhere", True),
        (ProviderGarbled(""), "elsewhere", True),
        (ProviderCut(""), "again", True),
        (ProviderDenied("", status=401), "elsewhere", False),
        (ProviderFailed(""), "elsewhere", False),
        (ProviderRefused("", status=404), "elsewhere", False),
        (ProviderRefused("", status=400), "nothing", False),
        (PerdureError(""), "nothing", False),
    ],
)
def test_each_error_says_what_it_is_worth(error: PerdureError, what: str, heavy: bool) -> None:
    assert worth(error) == what
    assert weighs(error) is heavy


@given(st.integers(1, 1000), CHANCE)
def test_a_pause_is_within_half_and_all_of_a_time_that_doubles(attempt: int, chance: bytes) -> None:
    most = min(LONGEST, FIRST * 2 ** min(attempt - 1, 20))
    assert most / 2 <= (delay(attempt, chance) or 0) <= most


def test_chance_spreads_a_pause_over_all_of_its_room() -> None:
    assert delay(1, b"\x00" * 4) == FIRST / 2
    assert FIRST > (delay(1, b"\xff" * 4) or 0) > FIRST * 0.999
    assert delay(2, b"\x80\x00\x00\x00") == FIRST * 1.5


@given(st.integers(1, 20), CHANCE, st.floats(0, 100))
def test_a_provider_is_not_asked_before_the_time_it_told_nor_waited_for_beyond_the_bound(
    attempt: int, chance: bytes, told: float
) -> None:
    pause = delay(attempt, chance, told=told)
    if told > BOUND:
        assert pause is None
    else:
        assert pause is not None
        assert told <= pause <= BOUND


def test_a_breaker_opens_after_failures_in_a_row_tries_once_and_heals() -> None:
    breaker = failed(failed(CLOSED, 0, FUSE), 0, FUSE)
    assert admitted(breaker, 0, FUSE) == breaker
    assert succeeded(breaker) == CLOSED
    opened = failed(breaker, 100, FUSE)
    assert opened.state == "open"
    assert admitted(opened, 100, FUSE) is None
    assert seconds_left(opened, 100, FUSE) == 5.0
    after = 100 + 5 * MICROSECONDS
    trying = admitted(opened, after, FUSE)
    assert trying is not None
    assert trying.state == "half-open"
    assert admitted(trying, after, FUSE) is None, "one tries at a time"
    assert succeeded(trying) == CLOSED
    worse = failed(trying, after, FUSE)
    assert seconds_left(worse, after, FUSE) == 10.0, "twice as long as before"


def test_a_try_that_was_given_up_lets_the_next_one_try() -> None:
    trying = Breaker(state="half-open", failures=3, openings=1, until=10, since=20)
    again = admitted(released(trying), 21, FUSE)
    assert again is not None
    assert again.state == "half-open"
    assert released(CLOSED) == CLOSED


def test_a_try_that_nothing_is_heard_of_does_not_bar_the_way_for_ever() -> None:
    trying = Breaker(state="half-open", failures=3, openings=1, since=0)
    assert admitted(trying, 5 * MICROSECONDS - 1, FUSE) is None
    assert admitted(trying, 5 * MICROSECONDS, FUSE) is not None


def test_those_let_through_before_it_opened_do_not_keep_it_open_longer() -> None:
    opened = failed(Breaker(failures=2), 0, FUSE)
    assert failed(opened, 4 * MICROSECONDS, FUSE) == opened


@given(st.lists(st.tuples(st.sampled_from(["ask", "fail", "succeed", "give up"]), st.integers(0, 20)), max_size=60))
def test_whatever_happens_a_breaker_lets_somebody_through_in_the_end(history: list[tuple[str, int]]) -> None:
    breaker, now = CLOSED, 0
    for what, seconds in history:
        now += seconds * MICROSECONDS
        match what:
            case "ask":
                breaker = admitted(breaker, now, FUSE) or breaker
            case "fail":
                breaker = failed(breaker, now, FUSE)
            case "succeed":
                breaker = succeeded(breaker)
            case "give up":
                breaker = released(breaker)
        left = seconds_left(breaker, now, FUSE)
        assert 0 <= left <= FUSE.longest
        assert admitted(breaker, now + round(left * MICROSECONDS), FUSE) is not None
        assert left == 0 or admitted(breaker, now, FUSE) is None
