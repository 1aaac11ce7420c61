"""When a checkpoint is due, what it holds, and when it expires."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session.checkpoints import (
    DEFAULT_POLICY,
    Adaptive,
    CheckpointPolicy,
    Checkpoints,
    CheckpointTaken,
    Trigger,
    adaptive_interval,
    count_mutation,
    due,
    evolve,
    expiry,
    is_full,
    next_rate,
)
from perdure.core.session.codec import decoder, encode_struct
from perdure.core.session.turns import Message
from tests.core.session.logbook import NOON, SECOND, event_of

positive = st.floats(1e-3, 1e6)
rates = st.floats(0, 1e6)
adaptives = st.builds(
    lambda base, least, spread, rate: Adaptive(base=base, least=least, most=least + spread, reference_rate=rate),
    positive,
    positive,
    positive,
    positive,
)


# ── the adaptive interval ─────────────────────────────────────────────────────────────────────────


@given(adaptives, rates)
def test_the_interval_is_the_base_over_one_plus_the_relative_rate_clamped(adaptive: Adaptive, rate: float) -> None:
    wanted = adaptive.base / (1 + rate / adaptive.reference_rate)
    expected = adaptive.least if wanted < adaptive.least else adaptive.most if wanted > adaptive.most else wanted
    assert adaptive_interval(adaptive, rate) == expected


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 300.0), (1.0, 150.0), (2.0, 100.0), (59.0, 5.0), (1e9, 5.0)])
def test_the_defaults_give_these_intervals(rate: float, seconds: float) -> None:
    assert adaptive_interval(Adaptive(), rate) == seconds


@given(adaptives, rates, rates)
def test_the_faster_the_state_changes_the_sooner(adaptive: Adaptive, one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    assert adaptive_interval(adaptive, fast) <= adaptive_interval(adaptive, slow)


@given(rates, st.integers(0, 10**6), st.integers(0, 100))
def test_the_rate_moves_towards_what_is_seen_and_never_below_zero(rate: float, elapsed: int, mutations: int) -> None:
    seen = mutations / max(elapsed, 1.0)
    found = next_rate(rate, NOON, NOON + elapsed * SECOND, mutations)
    assert min(rate, seen) - 1e-6 <= found <= max(rate, seen) + 1e-6


@given(st.floats(0, 1e6), st.integers(0, 10**9))
def test_a_clock_set_back_breaks_no_rate(rate: float, back: int) -> None:
    assert 0 <= next_rate(rate, NOON, NOON - back, 1) <= rate + 1


def test_mutations_are_counted_from_the_second_one_on() -> None:
    first = count_mutation(Checkpoints(), NOON)
    assert (first.rate, first.rate_at) == (0.0, NOON)
    second = count_mutation(first, NOON + 60 * SECOND)
    assert second.rate == pytest.approx(1 / 60 * (1 - 2.718281828**-1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"reference_rate": 0},
        {"reference_rate": -1.0},
        {"base": 0.0},
        {"least": -1.0},
        {"least": 10.0, "most": 5.0},
        {"base": float("nan")},
        {"most": float("inf")},
        {"most": 10**400},
        {"base": "often"},
    ],
)
def test_an_adaptive_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Adaptive(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"full_every": 0},
        {"periodic": 0},
        {"periodic": -5.0},
        {"periodic": float("nan")},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": 10**18},
        {"full_every": "all"},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        CheckpointPolicy(**wrong)


@pytest.mark.parametrize("policy", [CheckpointPolicy(periodic=5), CheckpointPolicy(adaptive=Adaptive(base=9, most=60))])
def test_whole_seconds_are_stored_as_the_same_bytes_they_are_read_as(policy: CheckpointPolicy) -> None:
    stored = encode_struct(policy)
    assert encode_struct(decoder(CheckpointPolicy)(stored)) == stored


# ── what is due ───────────────────────────────────────────────────────────────────────────────────


def at(seconds: float) -> int:
    return NOON + int(seconds * SECOND)


BEFORE = Checkpoints(last_at=NOON)


@pytest.mark.parametrize(
    ("policy", "seconds", "kinds", "expected"),
    [
        ({}, 1e9, {"message"}, None),
        ({"periodic": 60.0}, 59.9, {"message"}, None),
        ({"periodic": 60.0}, 60, {"message"}, Trigger.PERIODIC),
        ({"on_kinds": ("feedback",)}, 0, {"message"}, None),
        ({"on_kinds": ("feedback",)}, 0, {"message", "feedback"}, Trigger.EVENT),
        ({"on_kinds": ("feedback",), "periodic": 1.0}, 5, {"feedback"}, Trigger.EVENT),
        ({"adaptive": Adaptive()}, 299, {"message"}, None),
        ({"adaptive": Adaptive()}, 300, {"message"}, Trigger.ADAPTIVE),
        ({"adaptive": Adaptive(), "periodic": 300.0}, 300, {"message"}, Trigger.ADAPTIVE),
        ({"pre_mutation": True}, 1e9, {"vars_patched"}, None),
    ],
)
def test_a_checkpoint_is_due_when_the_policy_says_so(
    policy: dict[str, Any], seconds: float, kinds: set[str], expected: Trigger | None
) -> None:
    assert due(CheckpointPolicy(**policy), BEFORE, at(seconds), kinds) is expected


def test_a_busy_session_is_due_sooner() -> None:
    policy = CheckpointPolicy(adaptive=Adaptive())
    busy = msgspec.structs.replace(BEFORE, rate=2.0)
    assert due(policy, busy, at(99), set()) is None
    assert due(policy, busy, at(100), set()) is Trigger.ADAPTIVE


# ── full or delta ─────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 12), st.integers(1, 60))
def test_every_kth_is_full(full_every: int, count: int) -> None:
    policy, part, fulls = CheckpointPolicy(full_every=full_every), Checkpoints(), []
    for _ in range(count):
        full = is_full(policy, part, Trigger.MANUAL, has_base=part.seq > 0)
        fulls.append(full)
        part = evolve(part, event_of(CheckpointTaken(seq=part.seq + 1, full=full)))
    assert fulls == [index % full_every == 0 for index in range(count)]


@pytest.mark.parametrize("trigger", Trigger)
def test_without_a_base_it_is_full(trigger: Trigger) -> None:
    assert is_full(DEFAULT_POLICY, Checkpoints(seq=3, last_full=3), trigger, has_base=False)


@pytest.mark.parametrize("trigger", Trigger)
@pytest.mark.parametrize("critical", [False, True])
def test_lifecycle_migration_and_critical_mutations_are_full(trigger: Trigger, critical: bool) -> None:
    policy = CheckpointPolicy(critical=critical)
    expected = trigger in {Trigger.LIFECYCLE, Trigger.MIGRATION} or (trigger is Trigger.PRE_MUTATION and critical)
    assert is_full(policy, Checkpoints(seq=3, last_full=3), trigger, has_base=True) is expected


# ── expiry and folding ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trigger", Trigger)
def test_all_but_lifecycle_ones_expire_after_a_day(trigger: Trigger) -> None:
    expected = None if trigger is Trigger.LIFECYCLE else NOON + 86_400 * SECOND
    assert expiry(DEFAULT_POLICY, trigger, NOON) == expected
    assert expiry(CheckpointPolicy(ttl=None), trigger, NOON) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=20))
def test_the_bookkeeping_knows_the_last_one_and_the_last_full_one(taken: list[tuple[bool, int]]) -> None:
    assume(taken)
    part, now, version = Checkpoints(), NOON, 0
    for seq, (full, seconds) in enumerate(taken, 1):
        now += seconds * SECOND
        version += seconds
        part = evolve(part, event_of(CheckpointTaken(seq=seq, full=full, state_version=version), at=now))
    fulls = [seq for seq, (full, _) in enumerate(taken, 1) if full]
    assert (part.seq, part.last_full, part.last_at, part.last_version) == (
        len(taken),
        max(fulls, default=0),
        now,
        version,
    )


def test_other_events_leave_the_bookkeeping_alone() -> None:
    part = Checkpoints(seq=3)
    assert evolve(part, event_of(Message(role="user"))) is part
