"""The state: folding takes any event on any state, and equal states have equal bytes however they came about."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, Refused
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.budget import Budget, Overrun, Settled
from perdure.core.session.checkpoints import Adaptive, CheckpointPolicy, Checkpoints
from perdure.core.session.codec import encode_struct
from perdure.core.session.event import Event
from perdure.core.session.kinds import KINDS, blank, decode
from perdure.core.session.lifecycle import Life, Phase
from perdure.core.session.links import Links
from perdure.core.session.origin import SINGLE_LEVEL, BranchKind, Config, Created, Lineage
from perdure.core.session.quality import VerificationResult
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import BLANK, State, evolve, fold, from_bytes, to_bytes, to_document
from perdure.core.session.steering import FollowedUp, OutcomeKnown, Steered
from perdure.core.session.tools import ToolBound
from perdure.core.session.turns import Message, TurnFinished, TurnStarted
from perdure.core.session.vars import Vars
from tests.core.session.logbook import NOON, SECOND, SESSION, Logbook, event_of
from tests.core.session.payloads import names, payloads

envelopes = st.fixed_dictionaries(
    {"agent": st.none() | names, "target": st.none() | names, "turn": st.none() | st.integers(0, 5)}
)
steps = st.tuples(payloads, envelopes, st.integers(-5, 100), st.booleans())


def events_of(drawn: list[Any]) -> list[Event]:
    """Events as a log would give them: stored and read again, some of them redacted."""
    found, at = [], NOON
    for version, (payload, envelope, seconds, redacted) in enumerate(drawn, 1):
        at += seconds * SECOND
        kept = blank(payload.kind) if redacted else decode(payload.kind, payload.kind_version, encode_struct(payload))
        found.append(event_of(kept, version, at=at, redacted=redacted, **envelope))
    return found


# ── any history ───────────────────────────────────────────────────────────────────────────────────


@given(st.lists(steps, max_size=25))
def test_folding_takes_any_event_on_any_state(drawn: list[Any]) -> None:
    state = BLANK
    for event in events_of(drawn):
        state = evolve(state, event)
        assert state.version == event.version


@given(st.lists(steps, max_size=25))
def test_a_state_survives_its_bytes_at_every_step(drawn: list[Any]) -> None:
    state = BLANK
    for event in events_of(drawn):
        state = evolve(state, event)
        stored = to_bytes(state)
        again = from_bytes(stored)
        assert again == state
        assert to_bytes(again) == stored


@given(st.lists(steps, max_size=25), st.integers(0, 25))
def test_going_on_from_stored_bytes_leads_to_the_same_bytes(drawn: list[Any], stop: int) -> None:
    events = events_of(drawn)
    whole = fold(BLANK, events)
    half = from_bytes(to_bytes(fold(BLANK, events[:stop])))
    assert to_bytes(fold(half, events[stop:])) == to_bytes(whole)


@given(steps, st.lists(steps, max_size=8))
def test_folding_changes_no_earlier_state(step: Any, drawn: list[Any]) -> None:
    *before, last = events_of([*drawn, step])
    state = fold(BLANK, before)
    stored = to_bytes(state)
    evolve(state, last)
    assert to_bytes(state) == stored


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_blank_folds_and_counts_as_a_version(kind: str) -> None:
    book = Logbook()
    book.begin()
    state = evolve(book.state, event_of(blank(kind), 3, redacted=True))
    assert state.version == 3
    assert to_bytes(from_bytes(to_bytes(state))) == to_bytes(state)


def test_an_event_of_no_aspect_moves_the_version_alone() -> None:
    state = evolve(State(version=4), event_of(Redacted(versions=(1,)), 5))
    assert state == State(version=5)


# ── bytes ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_blank_state_has_these_bytes() -> None:
    assert to_document(BLANK) == {
        "schema": "1.0.0",
        "tenant": "",
        "session": "",
        "version": 0,
        "checkpoints": {"seq": 0, "last_full": 0, "last_at": 0, "last_version": 0, "rate": 0.0, "rate_at": 0},
        **{
            name: {}
            for name in (
                "origin", "life", "turns", "vars", "scratchpads", "budget", "tools", "children", "agents", "steering",
                "links", "quality",
            )
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        Config(checkpoints=CheckpointPolicy(periodic=5)),
        Config(checkpoints=CheckpointPolicy(adaptive=Adaptive(base=60, most=600))),
        Config(extra={"a": 1.0, "b": (1, 2), "c": {1, 2}}),
        Config(max_cost=0, max_tokens=300, system_prompt="".join(["be ", "brief"])),
    ],
)
def test_what_was_set_and_what_is_read_again_have_the_same_bytes(config: Config) -> None:
    book = Logbook()
    book.begin(config=config, tags=tuple(["x"]), title="".join(["a", "b"]), metadata={"t": (1, [2])})  # noqa: C409
    stored = to_bytes(book.state)
    assert to_bytes(from_bytes(stored)) == stored
    assert to_bytes(fold(BLANK, [again(event) for event in book.events])) == stored


def again(event: Event) -> Event:
    return msgspec.structs.replace(event, payload=None)


@pytest.mark.parametrize("stored", [b"", b"\x80garbage", b"\xc1", b"\x81\xa7version\xa1x"])
def test_bytes_that_are_no_state_are_refused(stored: bytes) -> None:
    with pytest.raises(Invalid):
        from_bytes(stored)


def test_counts_stay_storable_whatever_callers_report() -> None:
    most = 2**64 - 1
    state = BLANK
    for version in range(1, 4):
        state = evolve(state, event_of(TurnFinished(tokens_in=most, tokens_out=most), version))
        state = evolve(state, event_of(VerificationResult(checked=most, unsupported=most), version))
    assert from_bytes(to_bytes(state)).turns.tokens_in == most


# ── beginning ─────────────────────────────────────────────────────────────────────────────────────


def test_a_session_begins_with_nothing_but_who_it_is() -> None:
    created = Created(owner="ana", title="Lisbon", exit_criteria=("booked",))
    state = evolve(BLANK, event_of(created, 1))
    assert (state.session, state.tenant, state.version, state.phase) == (SESSION, "tenant", 1, Phase.INIT)
    assert state.life == Life(since=NOON, criteria={"booked": False})
    assert state.config == Config()


def parent() -> Logbook:
    book = Logbook()
    book.begin(config=Config(model="large"), exit_criteria=("booked",), vars={"a": 1})
    book.say(TurnStarted(), Message(role="user"), ToolBound(name="search", version="1"), FollowedUp(text="later"))
    book.do(do.WriteScratchpad(content="notes"))
    book.do(do.Reserve(reservation="r", amount=5))
    book.do(do.TakeCheckpoint(label="x"))
    return book


@pytest.mark.parametrize("kind", BranchKind)
def test_a_branch_keeps_the_context_and_starts_a_life_of_its_own(kind: BranchKind) -> None:
    before = parent().state
    lineage = Lineage(parent=SESSION, version=before.version, digest=b"d", kind=kind)
    state = evolve(before, event_of(Created(owner="bo", lineage=lineage), before.version + 1, at=NOON + 9))
    assert (state.version, state.origin.owner, state.origin.created_at) == (before.version + 1, "bo", NOON + 9)
    assert state.config.model == "large"
    assert state.life == Life(since=NOON + 9, criteria={"booked": False})
    assert (state.turns.count, state.turns.open, state.turns.messages) == (1, None, 1)
    assert state.vars == (Vars() if kind in SINGLE_LEVEL else before.vars)
    assert (state.scratchpads, state.tools, state.agents, state.steering) == (
        before.scratchpads,
        before.tools,
        before.agents,
        before.steering,
    )
    assert (state.budget, state.checkpoints, state.links) == (Budget(), Checkpoints(), Links())


def test_a_branch_adds_its_own_exit_criteria() -> None:
    before = parent().state
    lineage = Lineage(parent=SESSION, version=before.version, digest=b"d", kind=BranchKind.CHECKPOINT)
    created = Created(lineage=lineage, exit_criteria=("paid",))
    assert evolve(before, event_of(created, 99)).life.criteria == {"booked": False, "paid": False}


# ── aspects that have no file of their own ────────────────────────────────────────────────────────


def test_follow_ups_wait_until_their_outcome_is_known() -> None:
    events = [
        event_of(Steered(text="stop"), 1),
        event_of(FollowedUp(text="a"), 2),
        event_of(FollowedUp(text="b"), 3),
        event_of(OutcomeKnown(of=2), 4),
        event_of(OutcomeKnown(of=99), 5),
    ]
    assert fold(BLANK, events).steering == states.Steering(waiting=(3,), steers=1, outcomes=2)


def test_the_rate_of_mutations_is_kept_only_where_the_interval_adapts() -> None:
    for adaptive in (None, Adaptive()):
        book = Logbook()
        book.begin(config=Config(checkpoints=CheckpointPolicy(adaptive=adaptive)))
        for count in range(4):
            book.at += SECOND
            book.do(do.SetVars(document={"n": count}))
        assert (book.state.checkpoints.rate > 0) is (adaptive is not None)


@given(st.lists(st.sampled_from(["suspend", "resume", "reactivate", "terminate", "complete", "activate"]), max_size=12))
def test_the_phase_of_a_state_is_where_its_moves_led(moves: list[str]) -> None:
    book = Logbook()
    book.begin(activate=False)
    for move in moves:
        try:
            book.do(do.MoveTo(event=move))
        except Refused:
            continue
    assert book.state.phase is book.state.life.phase
    assert to_bytes(fold(BLANK, book.events)) == to_bytes(book.state)


def test_money_stays_storable_whatever_a_log_says() -> None:
    most = 2**64 - 1
    state = BLANK
    for version in range(1, 4):
        state = evolve(state, event_of(Settled(reservation="r", cost=most), version))
        state = evolve(state, event_of(Overrun(reservation="r", excess=most), version))
    assert from_bytes(to_bytes(state)).budget == Budget(spent=most, overrun=most)
