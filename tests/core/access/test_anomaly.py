"""The detector flags a session that was taken over within a few requests, and almost nothing of what people do."""

from collections import Counter
from itertools import islice
from math import isfinite
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access.anomaly import (
    ADDRESS,
    MAX_NETWORKS,
    MAX_OPERATIONS,
    OPERATIONS,
    RATE,
    SIZE,
    WARM_UP,
    Profile,
    Profiles,
    Sight,
    Verdict,
    network,
    observe,
)
from tests.core.access import traffic

SESSIONS = 8
REQUESTS = 2_000
FEW = 10


def after(style: str, seed: int, requests: int) -> tuple[Profile, int, list[Verdict]]:
    """The profile of a session after so many requests in its style, when the last one came, and every verdict."""
    profile, verdicts, at = Profile(), list[Verdict](), 0
    for sight in islice(traffic.STYLES[style](Random(f"{style} {seed}")), requests):
        profile, verdict = observe(profile, sight)
        verdicts.append(verdict)
        at = sight.at
    return profile, at, verdicts


def caught(profile: Profile, sights: traffic.Traffic) -> tuple[int, Verdict] | None:
    """At which of the first few requests somebody was flagged, if at all."""
    for number, sight in enumerate(islice(sights, FEW), 1):
        profile, verdict = observe(profile, sight)
        if verdict.flagged:
            return number, verdict
    return None


def test_at_most_one_in_a_thousand_requests_is_flagged_that_should_not_be() -> None:
    flagged = Counter[str]()
    for style in traffic.STYLES:
        for seed in range(SESSIONS):
            flagged[style] += sum(verdict.flagged for verdict in after(style, seed, REQUESTS)[2])
    requests = len(traffic.STYLES) * SESSIONS * REQUESTS
    assert requests >= 100_000
    assert flagged.total() / requests <= 0.001, flagged
    assert max(flagged.values()) / (SESSIONS * REQUESTS) <= 0.002, flagged


TAKEOVERS = (traffic.new_place, traffic.bulk_export, traffic.bulk_read, traffic.huge_payloads)
INDISTINCT = {("bulk_read", "batch_job")}
"""A job that always asks as fast as it goes: nothing tells it from somebody who does the same."""


def test_a_takeover_is_flagged_within_a_few_requests_whatever_the_session_did_before() -> None:
    caughts, tried = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for style in traffic.STYLES:
        for seed in range(2 * SESSIONS):
            profile, at, _ = after(style, 100 + seed, Random(seed).randint(200, 1000))
            for takeover in TAKEOVERS:
                cell = takeover.__name__, style
                if cell not in INDISTINCT:
                    tried[cell] += 1
                    caughts[cell] += caught(profile, takeover(Random(seed), at + 3 * traffic.SECOND)) is not None
    assert caughts.total() >= tried.total() * 0.95, caughts
    assert all(caughts[cell] > tried[cell] / 2 for cell in tried), caughts


@pytest.mark.parametrize(
    ("takeover", "tells"),
    [("new_place", {OPERATIONS, ADDRESS}), ("bulk_read", {RATE}), ("huge_payloads", {SIZE})],
)
def test_the_verdict_tells_which_signal_it_was(takeover: str, tells: set[str]) -> None:
    for seed in range(SESSIONS):
        profile, at, _ = after("bursty_human", seed, 600)
        found = caught(profile, getattr(traffic, takeover)(Random(seed), at + 3 * traffic.SECOND))
        assert found is not None
        assert found[1].signals[0] in tells
        assert tells <= set(found[1].signals)
        assert found[1].sigma >= 4


def test_every_takeover_of_a_steady_agent_is_flagged() -> None:
    for takeover in TAKEOVERS:
        for seed in range(30):
            profile, at, _ = after("steady_agent", seed, 300)
            assert caught(profile, takeover(Random(seed), at + traffic.SECOND)) is not None


def test_nothing_is_flagged_before_a_session_is_known() -> None:
    for seed in range(SESSIONS):
        profile, at, _ = after("steady_agent", seed, WARM_UP - FEW)
        assert caught(profile, traffic.huge_payloads(Random(seed), at)) is None
    profile, at, _ = after("steady_agent", 0, WARM_UP)
    assert caught(profile, traffic.huge_payloads(Random(0), at)) is not None


def test_a_new_address_alone_is_not_enough_and_one_of_the_same_network_is_none() -> None:
    profile, at, _ = after("steady_agent", 1, 500)
    usual = Sight(at + 2 * traffic.SECOND, "turns.append", 2_000, "203.0.113.99")
    same, verdict = observe(profile, usual)
    assert (verdict.flagged, len(same.networks)) == (False, 1)
    moved, verdict = observe(profile, Sight(usual.at, usual.operation, usual.size, "192.0.2.1"))
    assert (verdict.flagged, len(moved.networks)) == (False, 2)


def test_two_requests_at_once_are_no_rate() -> None:
    profile, at, _ = after("long_pauses", 1, 500)
    for _ in range(3):
        profile, verdict = observe(profile, Sight(at, "turns.list", 0, traffic.OFFICE))
        assert not verdict.flagged


def test_what_was_flagged_and_served_is_news_only_once() -> None:
    profile, at, _ = after("steady_agent", 1, 500)
    verdicts = []
    for sight in islice(traffic.huge_payloads(Random(1), at), 20):
        profile, verdict = observe(profile, sight)
        verdicts.append(verdict.flagged)
    assert verdicts == [True] + [False] * 19


def test_what_is_refused_is_never_learned_until_the_session_begins_anew() -> None:
    profiles, usual = Profiles(), islice(traffic.steady_agent(Random(1)), 500)
    at = 0
    for sight in usual:
        assert not profiles.observe("ses_1", sight, block=True).flagged
        at = sight.at
    huge = traffic.first(traffic.huge_payloads(Random(1), at), 100)
    assert all(profiles.observe("ses_1", sight, block=True).flagged for sight in huge)
    later = Sight(huge[-1].at, "turns.append", 2_000, traffic.OFFICE)
    assert not profiles.observe("ses_1", later, block=True).flagged, "what is usual is served all the while"
    profiles.forget("ses_1")
    assert not profiles.observe("ses_1", huge[-1], block=True).flagged


def test_a_clock_that_is_set_back_flags_nobody() -> None:
    profile, at, _ = after("steady_agent", 3, 500)
    chance = Random(3)
    for shift in (-3_600, 7_200, -86_400, 86_400, -1):
        at += shift * traffic.SECOND
        for _ in range(100):
            at += traffic.us(traffic.about(chance, 2, 0.4))
            profile, verdict = observe(profile, Sight(at, "turns.append", 2_000, traffic.OFFICE))
            assert RATE not in verdict.signals


SIGHTS = st.builds(
    Sight,
    st.integers(-(2**63), 2**63),
    st.sampled_from("abcdefgh") | st.text(max_size=8),
    st.integers(-5, 2**63),
    st.none() | st.ip_addresses().map(str) | st.text(max_size=8),
)


@given(st.lists(SIGHTS, min_size=1, max_size=150))
def test_whatever_is_seen_a_profile_keeps_its_size_and_its_numbers(sights: list[Sight]) -> None:
    profile = Profile()
    for number, sight in enumerate(sights):
        old = profile
        profile, verdict = observe(old, sight)
        assert (profile, verdict) == observe(old, sight)
        assert isfinite(verdict.nats)
        assert verdict.nats >= 0
        assert isfinite(verdict.sigma)
        assert bool(verdict.signals) == verdict.flagged
        assert not verdict.flagged or number >= WARM_UP
        assert len(profile.operations) <= MAX_OPERATIONS
        assert len(profile.networks) <= MAX_NETWORKS
        assert len(profile.clock.recent) <= 9
        assert len(profile.clock.strides) <= 9


def test_the_habit_that_weighs_least_makes_room() -> None:
    profile = Profile()
    for number in range(500):
        profile, _ = observe(profile, Sight(number, "usual", 0, "203.0.113.1"))
        profile, _ = observe(profile, Sight(number, f"odd {number}", 0, f"10.0.{number % 256}.1"))
    assert (len(profile.operations), "usual" in profile.operations) == (MAX_OPERATIONS, True)
    assert (len(profile.networks), "203.0.113" in profile.networks) == (MAX_NETWORKS, True)


def test_the_number_of_profiles_is_bounded_and_the_one_unheard_of_longest_goes_first() -> None:
    profiles = Profiles(keep=3)
    for session in (1, 2, 3, 1, 4):
        profiles.observe(session, Sight(1, "turns.list"))
    assert list(profiles._profiles) == [3, 1, 4]
    assert len(profiles) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("203.0.113.7", "203.0.113.250", True),
        ("203.0.113.7", "203.0.114.7", False),
        ("2001:db8:1:2::17", "2001:db8:1:2:ffff::1", True),
        ("2001:db8:1:2::17", "2001:db8:1:3::17", False),
        ("::ffff:203.0.113.7", "203.0.113.9", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("unix", "unix", True),
    ],
)
def test_addresses_of_one_network_are_one_place(one: str, other: str, same: bool) -> None:
    assert (network(one) == network(other)) is same
