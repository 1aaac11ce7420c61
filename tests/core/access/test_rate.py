"""GCRA admits a burst and then one request per interval, says exactly how long to wait, and survives its clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access.rate import Limit, Rates, admit, admit_all, per_second
from perdure.core.errors import Invalid

INTERVALS = st.integers(1, 10_000_000)
BURSTS = st.integers(1, 50)
STEPS = st.lists(st.integers(0, 30_000_000), max_size=200)
NOW = 1_700_000_000_000_000


@given(INTERVALS, BURSTS, STEPS)
def test_no_more_is_admitted_in_any_stretch_than_a_burst_and_one_per_interval(
    interval: int, burst: int, steps: list[int]
) -> None:
    now, tat, admitted = NOW, 0, list[int]()
    for step in steps:
        now += step
        tat, wait = admit(tat, now, interval, burst)
        if not wait:
            admitted.append(now)
    for first, begun in enumerate(admitted):
        for last in range(first, len(admitted)):
            assert last - first + 1 <= burst + (admitted[last] - begun) // interval


@given(INTERVALS, BURSTS, STEPS)
def test_whoever_keeps_to_the_interval_is_never_refused(interval: int, burst: int, steps: list[int]) -> None:
    now, tat = NOW, 0
    for step in steps:
        now += interval + step
        tat, wait = admit(tat, now, interval, burst)
        assert wait == 0


@given(INTERVALS, BURSTS)
def test_a_rest_earns_one_burst_and_no_more(interval: int, burst: int) -> None:
    tat, waits = 0, list[int]()
    for _ in range(burst + 1):
        tat, wait = admit(tat, NOW, interval, burst)
        waits.append(wait)
    assert waits == [0] * burst + [interval]


@given(INTERVALS, BURSTS, STEPS)
def test_the_wait_is_exact_to_the_microsecond_and_a_refusal_takes_nothing(
    interval: int, burst: int, steps: list[int]
) -> None:
    now, tat = NOW, 0
    for step in steps:
        now += step
        new, wait = admit(tat, now, interval, burst)
        if wait:
            assert new == tat
            assert admit(new, now + wait - 1, interval, burst)[1] == 1
            assert admit(new, now + wait, interval, burst)[1] == 0
        tat = new


@given(INTERVALS, BURSTS, st.lists(st.integers(-(10**12), 10**9), max_size=200))
def test_a_clock_that_goes_back_neither_locks_anyone_out_nor_gives_anything_away(
    interval: int, burst: int, steps: list[int]
) -> None:
    now, tat, admitted, forward = NOW, 0, 0, 0
    for step in steps:
        now += step
        forward += max(0, step)
        tat, wait = admit(tat, now, interval, burst)
        admitted += not wait
        assert 0 <= wait <= interval, "no more than one interval, however far it went back"
        assert not wait or admit(tat, now + wait, interval, burst)[1] == 0
        assert admitted <= burst + forward // interval


def test_a_limit_per_second_is_an_interval() -> None:
    assert per_second(50, 100) == Limit(20_000, 100)
    assert per_second(0.5, 1) == Limit(2_000_000, 1)
    for rate, burst in ((0, 1), (-1, 1), (2e6, 1), (float("nan"), 1), (5, 0)):
        with pytest.raises(Invalid):
            per_second(rate, burst)


def test_keys_do_not_share_their_allowance() -> None:
    rates = Rates(Limit(1_000_000, 2))
    assert [rates.admit(("ses_1", "append"), NOW) for _ in range(3)] == [0, 0, 1_000_000]
    assert rates.admit(("ses_1", "read"), NOW) == 0
    assert rates.admit(("ses_1", "append"), NOW + 999_999) == 1
    assert rates.admit(("ses_1", "append"), NOW + 1_000_000) == 0


def test_looking_takes_nothing() -> None:
    rates = Rates(Limit(1_000_000, 1))
    assert [rates.wait("a", NOW) for _ in range(5)] == [0] * 5
    assert len(rates) == 0
    assert rates.admit("a", NOW) == 0
    assert rates.wait("a", NOW) == 1_000_000


@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 10))
def test_the_number_of_keys_is_bounded_and_the_one_unheard_of_longest_goes_first(asked: list[int], keep: int) -> None:
    rates = Rates(Limit(1_000_000, 1), keep=keep)
    for key in asked:
        rates.admit(key, NOW)
        assert len(rates) <= keep
    latest = list(dict.fromkeys(reversed(asked)))[:keep]
    assert [rates.wait(key, NOW) > 0 for key in latest] == [True] * len(latest)
    assert all(rates.wait(key, NOW) == 0 for key in set(range(31)) - set(latest))


def test_a_key_that_is_refused_all_the_time_is_not_forgotten_for_it() -> None:
    rates = Rates(Limit(1_000_000, 1), keep=3)
    rates.admit("flood", NOW)
    for other in range(100):
        rates.admit(other, NOW)
        assert rates.admit("flood", NOW) > 0


def test_keys_whose_allowance_is_whole_again_are_forgotten_without_loss() -> None:
    rates, plain = Rates(Limit(1000, 3)), Rates(Limit(1000, 3))
    for n in range(5_000):
        assert rates.admit(n, now=n * 500) == 0
        assert len(rates) <= 10
    for _ in range(5):
        assert rates.admit(0, now=5_000_000) == plain.admit(0, now=5_000_000)


def test_under_several_limits_a_request_takes_from_all_or_from_none() -> None:
    wide, narrow = Rates(Limit(1_000_000, 3)), Rates(Limit(5_000_000, 1))
    asked = [(wide, "ann"), (narrow, "ses_1")]
    assert admit_all(asked, NOW) == 0
    assert [admit_all(asked, NOW) for _ in range(10)] == [5_000_000] * 10
    assert [wide.admit("ann", NOW) for _ in range(3)] == [0, 0, 1_000_000], "the refused ones took nothing"
    assert admit_all([], NOW) == 0


def test_a_memory_for_nothing_is_refused() -> None:
    with pytest.raises(Invalid):
        Rates(Limit(1, 1), keep=0)
