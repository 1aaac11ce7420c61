"""Time-outs: what is due, and when; and who may have more time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.core.errors import BudgetExhausted, Invalid, NotOwner, RenewalRefused, Terminal
from perdure.core.session import commands as do
from perdure.core.session.agents import RoomMessage, Round
from perdure.core.session.budget import Account
from perdure.core.session.checkpoints import CheckpointPolicy
from perdure.core.session.cleanup import Cleaned
from perdure.core.session.event import Payload
from perdure.core.session.lifecycle import MOVES, CompensationRegistered, Life, Phase
from perdure.core.session.links import Linked, Relation
from perdure.core.session.origin import Config, Origin, Timeouts
from perdure.core.session.quality import Retrieval, VerificationResult
from perdure.core.session.state import State
from perdure.core.session.steering import Feedback, FollowedUp, Steered
from perdure.core.session.timeouts import (
    COMPENSATED,
    FIELDS,
    FOREVER,
    LATEST,
    OFF,
    SECOND,
    Due,
    admit,
    admit_moment,
    admit_names,
    deadlines,
    due_at,
    effective,
    ended_at,
    overdue,
    renewal,
)
from perdure.core.session.tools import ToolBound
from perdure.core.session.turns import (
    Compacted,
    Message,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.core.session.logbook import NOON, Logbook

ALL = Timeouts(idle=60, absolute=1000, max_active=300, grace=120, expiry=500)


def begun(limits: Timeouts | None = ALL, **fields: Any) -> Logbook:
    config = Config(timeouts=limits) if limits is not None else None
    return Logbook().begin(**{"config": config, **fields})


def after(state: State, seconds: float) -> int:
    """How many seconds of the session's life these are, as a time."""
    return state.origin.created_at + round(seconds * SECOND)


def moved(book: Logbook, *events: str, each: int = 0) -> Logbook:
    for event in events:
        book.at += each * SECOND
        book.do(do.MoveTo(event=event))
    return book


# ── each limit ────────────────────────────────────────────────────────────────────────────────────


def test_all_is_off_unless_asked_for() -> None:
    book = begun(None)
    for event in ("suspend", "resume", "reactivate", "complete", "archive"):
        assert due_at(book.state) is None
        assert overdue(book.state, FOREVER) is None
        moved(book, event, each=10**6)
    assert due_at(book.state) is None


@pytest.mark.parametrize(
    ("limits", "seconds", "reason"),
    [
        (Timeouts(idle=60), 60, "idle"),
        (Timeouts(max_active=300), 300, "max_active"),
        (Timeouts(absolute=1000), 1000, "absolute"),
        (ALL, 60, "idle"),
        (Timeouts(idle=60, absolute=30), 30, "absolute"),
    ],
)
def test_a_session_at_work_is_suspended(limits: Timeouts, seconds: int, reason: str) -> None:
    state = begun(limits).state
    assert due_at(state) == after(state, seconds)
    assert overdue(state, after(state, seconds) - 1) is None
    action = overdue(state, after(state, seconds))
    assert action is not None
    assert (action.due, action.move, action.reason, action.since) == (
        Due.SUSPEND, "timeout", reason, after(state, seconds),
    )  # fmt: skip


@pytest.mark.parametrize(("events", "move"), [(("suspend",), "expire"), (("suspend", "resume"), "terminate")])
def test_absolute_ends_a_session_that_is_not_at_work(events: tuple[str, ...], move: str) -> None:
    book = moved(begun(Timeouts(absolute=1000)), *events, each=10)
    assert due_at(book.state) == after(book.state, 1000)
    action = overdue(book.state, after(book.state, 1000))
    assert action is not None
    assert (action.due, action.move, action.reason) == (Due.END, move, "absolute")


def test_grace_counts_from_the_suspension_by_whomever() -> None:
    for event in ("suspend", "timeout"):
        book = moved(begun(Timeouts(grace=120)), event, each=7)
        assert due_at(book.state) == after(book.state, 127)
        action = overdue(book.state, after(book.state, 127))
        assert action is not None
        assert (action.due, action.move, action.reason) == (Due.END, "expire", "grace")


def test_a_session_that_was_never_activated_waits_for_idle_and_grace_together() -> None:
    assert due_at(begun(Timeouts(idle=60), activate=False).state) is None
    assert due_at(begun(Timeouts(grace=60), activate=False).state) is None
    state = begun(Timeouts(idle=60, grace=120), activate=False).state
    action = overdue(state, after(state, 180))
    assert due_at(state) == after(state, 180)
    assert action is not None
    assert (action.due, action.move) == (Due.END, "terminate")


def test_a_session_stuck_in_resuming_is_ended_in_the_end() -> None:
    book = moved(begun(Timeouts(idle=60, grace=120)), "suspend", "resume")
    assert due_at(book.state) == after(book.state, 180)
    book = moved(begun(Timeouts(grace=120)), "suspend", "resume")
    action = overdue(book.state, after(book.state, 120))
    assert action is not None
    assert (action.due, action.move) == (Due.END, "terminate")


@pytest.mark.parametrize("ends", [("complete",), ("terminate",), ("suspend", "expire")])
def test_expiry_counts_from_the_end_also_when_archived_since(ends: tuple[str, ...]) -> None:
    book = moved(begun(Timeouts(expiry=500)), *ends, each=10)
    ended = book.at
    assert due_at(book.state) == ended + 500 * SECOND
    moved(book, "archive", each=100)
    assert ended_at(book.state.life) == ended
    assert due_at(book.state) == ended + 500 * SECOND
    action = overdue(book.state, ended + 500 * SECOND)
    assert action is not None
    assert (action.due, action.move, action.reason) == (Due.ERASE, "", "expiry")


def test_max_active_is_a_window_that_opens_anew_with_every_resumption() -> None:
    book = moved(begun(Timeouts(max_active=300)), "suspend", each=200)
    assert due_at(book.state) is None
    moved(book, "resume", "reactivate", each=50)
    assert due_at(book.state) == book.at + 300 * SECOND
    book.at += 299 * SECOND
    book.say(TurnStarted())
    assert due_at(book.state) == book.state.life.since + 300 * SECOND


def test_a_moment_of_expiry_suspends_and_then_ends() -> None:
    book = begun(None, expires_at=NOON + 50 * SECOND)
    assert due_at(book.state) == NOON + 50 * SECOND
    action = overdue(book.state, NOON + 50 * SECOND)
    assert action is not None
    assert (action.due, action.reason) == (Due.SUSPEND, "expires_at")
    moved(book, "timeout", each=50)
    action = overdue(book.state, book.at)
    assert action is not None
    assert (action.due, action.reason) == (Due.END, "expires_at")


# ── what counts as an interaction ─────────────────────────────────────────────────────────────────

TALK: list[list[Payload]] = [
    [Message(role="user", content="x")],
    [Message(role="assistant", content="x")],
    [TurnStarted()],
    [Steered(text="x")],
    [FollowedUp(text="x")],
    [RoomMessage(sender="a", text="x")],
    [Feedback(rating=1)],
]
NO_TALK: list[list[Payload]] = [
    [ToolBound(name="t", version="1")],
    [Round()],
    [VerificationResult(passed=True)],
    [Compacted(upto=1)],
    [Linked(other="o", relation=Relation.PEER)],
    [CompensationRegistered(name="c")],
]
BACKGROUND: list[list[Payload]] = [[Retrieval(query="q")], [ToolFinished(call="c")]]


def heard(limits: Timeouts, payloads: list[Payload]) -> bool:
    """Whether this moved the idle time-out."""
    book = begun(limits)
    if isinstance(payloads[0], ToolFinished):
        book.say(TurnStarted(), ToolAsked(call="c", name="n"), ToolStarted(call="c"))
    before = due_at(book.state)
    book.at += 10 * SECOND
    book.say(*payloads)
    assert due_at(book.state) in (before, before + 10 * SECOND if before is not None else None)
    return due_at(book.state) != before


@pytest.mark.parametrize("payloads", TALK, ids=lambda payloads: payloads[0].kind)
def test_an_interaction_moves_the_idle_time_out(payloads: list[Payload]) -> None:
    assert heard(Timeouts(idle=60), payloads)


@pytest.mark.parametrize("payloads", NO_TALK, ids=lambda payloads: payloads[0].kind)
def test_what_is_no_interaction_leaves_the_idle_time_out(payloads: list[Payload]) -> None:
    assert not heard(Timeouts(idle=60), payloads)
    assert not heard(Timeouts(idle=60, background=True), payloads)


@pytest.mark.parametrize("payloads", BACKGROUND, ids=lambda payloads: payloads[0].kind)
def test_results_that_come_by_themselves_count_only_if_asked_for(payloads: list[Payload]) -> None:
    assert not heard(Timeouts(idle=60), payloads)
    assert heard(Timeouts(idle=60, background=True), payloads)


@pytest.mark.parametrize(
    "command",
    [
        do.TakeCheckpoint(),
        do.Configure(title="x"),
        do.SetVars(document={"a": 1}),
        do.WriteScratchpad(content="x"),
        do.Reserve(reservation="r", amount=1),
        do.Recover(),
        do.Redact(versions=(1,)),
        do.Renew(expires_at=NOON + 10**6 * SECOND),
        do.NoteEnded(other="o"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_upkeep_leaves_the_idle_time_out(command: do.Command) -> None:
    book = begun(Timeouts(idle=60))
    before = due_at(book.state)
    book.at += 10 * SECOND
    book.do(command)
    assert due_at(book.state) == before


def test_the_turn_a_time_out_interrupts_is_no_interaction() -> None:
    book = begun(Timeouts(idle=60))
    book.say(TurnStarted())
    book.at += 60 * SECOND
    book.do(do.MoveTo(event="timeout"))
    assert book.state.turns.interrupted == 1
    assert book.state.turns.last_at == NOON


def test_sessions_without_time_outs_of_their_own_keep_no_trace_of_talk() -> None:
    """Their states have the bytes they always had."""
    book = Logbook().begin(config=Config(checkpoints=CheckpointPolicy(periodic=60)))
    for payloads in TALK[3:]:
        book.say(*payloads)
    assert book.state.life.heard_at == 0


# ── any history ───────────────────────────────────────────────────────────────────────────────────

seconds = st.none() | st.integers(0, 400)
timeouts = st.builds(
    Timeouts,
    idle=seconds,
    absolute=seconds,
    max_active=seconds,
    grace=seconds,
    expiry=seconds,
    background=st.booleans(),
)
lives = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.sampled_from(
            ["suspend", "timeout", "resume", "reactivate", "complete", "terminate", "expire", "archive", "activate",
             "talk", "turn", "tool", "checkpoint", "configure", "renew", "retrieval"]
        ),
    ),
    max_size=25,
)  # fmt: skip


def lived(limits: Timeouts, life: list[tuple[int, str]], *, activate: bool = True) -> Logbook:
    """A session that went through this; what cannot be done then is left out."""
    book = begun(limits, activate=activate)
    for pause, deed in life:
        book.at += pause * SECOND
        if (book.state.phase, deed) in MOVES:
            book.do(do.MoveTo(event=deed))
        elif book.state.phase is Phase.ACTIVE and deed == "talk":
            book.say(Message(role="user", content="x"))
        elif book.state.phase is Phase.ACTIVE and deed == "turn":
            book.say(TurnStarted(), TurnFinished()) if book.state.turns.open is None else book.say(TurnFinished())
        elif book.state.phase is Phase.ACTIVE and deed == "retrieval":
            book.say(Retrieval(query="q"))
        elif book.state.phase in (Phase.ACTIVE, Phase.SUSPENDED, Phase.INIT) and deed == "renew":
            book.do(do.Renew(expires_at=book.at + 77 * SECOND))
        elif book.state.phase in (Phase.ACTIVE, Phase.SUSPENDED) and deed == "checkpoint":
            book.do(do.TakeCheckpoint())
    return book


@given(timeouts, timeouts | st.just(OFF), lives, st.booleans(), st.integers(-2, 2))
def test_there_is_something_to_do_exactly_from_when_it_is_due(
    limits: Timeouts, defaults: Timeouts, life: list[tuple[int, str]], activate: bool, offset: int
) -> None:
    state = lived(limits, life, activate=activate).state
    due = due_at(state, defaults)
    if due is None:
        assert overdue(state, FOREVER, defaults) is None
        return
    action = overdue(state, due + offset, defaults)
    assert (action is not None) == (offset >= 0)
    if action is not None:
        assert action.since == due
        assert action.due in (Due.ERASE, Due.COMPENSATE) or (state.phase, action.move) in MOVES


@given(timeouts, lives)
def test_the_absolute_limit_never_moves(limits: Timeouts, life: list[tuple[int, str]]) -> None:
    limits = replace(limits, absolute=5000)
    book = lived(limits, life)
    found = [item.at for item in deadlines(book.state) if item.reason == "absolute"]
    assert found in ([], [NOON + 5000 * SECOND])
    assert bool(found) == (book.state.phase not in (Phase.COMPLETED, Phase.TERMINATED, Phase.ARCHIVED))


@given(timeouts, lives, st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["checkpoint", "configure"]))))
def test_heartbeats_never_extend_anything(
    limits: Timeouts, life: list[tuple[int, str]], beats: list[tuple[int, str]]
) -> None:
    book = lived(replace(limits, background=False), life)
    assume(book.state.phase not in (Phase.COMPLETED, Phase.TERMINATED, Phase.ARCHIVED))
    before = due_at(book.state)
    for pause, beat in beats:
        book.at += pause * SECOND
        book.do(do.TakeCheckpoint() if beat == "checkpoint" else do.Configure(metadata={"beat": book.at}))
    assert due_at(book.state) == before


@given(timeouts, lives)
def test_time_ends_every_session_step_by_step_and_then_rests(limits: Timeouts, life: list[tuple[int, str]]) -> None:
    """Doing what is due, again and again, never stands still and leaves nothing that is due."""
    book = lived(limits, life)
    for _ in range(4):
        due = due_at(book.state)
        if due is None:
            return
        book.at = max(book.at, due)
        action = overdue(book.state, book.at)
        assert action is not None
        if action.due is Due.ERASE:
            return
        before = book.state.phase
        book.do(do.MoveTo(event=action.move, reason=action.reason))
        assert book.state.phase is not before
    raise AssertionError("there is always something more to do")


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.sampled_from(list(Phase)))
def test_whatever_stands_in_a_log_a_deadline_can_be_stored(length: int, created: int, phase: Phase) -> None:
    limits = Timeouts(idle=length, absolute=length, max_active=length, grace=length, expiry=length)
    state = State(
        version=1,
        session="s",
        origin=Origin(created_at=created, config=Config(timeouts=limits), expires_at=length),
        life=Life(phase=phase, since=created),
    )
    due = due_at(state)
    assert due is None or 0 <= due <= FOREVER
    assert overdue(state, FOREVER) is None or due is not None


# ── defaults ──────────────────────────────────────────────────────────────────────────────────────


def test_a_deployment_has_defaults_and_a_session_may_switch_them_off() -> None:
    defaults = Timeouts(idle=60, grace=10)
    assert due_at(begun(None).state, defaults) == NOON + 60 * SECOND
    assert due_at(begun(Timeouts(idle=5)).state, defaults) == NOON + 5 * SECOND
    assert due_at(begun(Timeouts(idle=0)).state, defaults) is None
    assert effective(begun(Timeouts(idle=5, background=True)).state, defaults) == Timeouts(
        idle=5, grace=10, background=True
    )


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "60", 10**10 + 1])
def test_a_limit_is_a_length_of_time(wrong: Any) -> None:
    for name in ("idle", "absolute", "max_active", "grace", "expiry"):
        config = Config(timeouts=Timeouts(**{name: wrong}))
        with pytest.raises(Invalid, match=name):
            Logbook().begin(config=config)
        with pytest.raises(Invalid, match=name):
            begun().do(do.Configure(config=config, fields=("timeouts",)))


def test_what_to_scrub_is_one_of_three() -> None:
    for what in ("pii", "credentials", "all", None):
        admit(Config(scrub=what))
    with pytest.raises(Invalid, match="pii, credentials, all"):
        Logbook().begin(config=Config(scrub="some"))


# ── compensations a dead sweeper left ─────────────────────────────────────────────────────────────


def test_compensations_left_undone_by_a_sweeper_are_due_until_the_session_is_erased() -> None:
    book = begun(Timeouts(grace=10, expiry=1000))
    book.say(CompensationRegistered(name="undo"))
    moved(book, "suspend")
    book.do(do.CleanUp(step="flush", since=book.state.life.since))
    moved(book, "expire", each=10)
    ended = book.at
    assert overdue(book.state, ended + (COMPENSATED - 1) * SECOND) is None
    action = overdue(book.state, ended + COMPENSATED * SECOND)
    assert action is not None
    assert (action.due, action.reason) == (Due.COMPENSATE, "compensations")
    action = overdue(book.state, ended + 1000 * SECOND)
    assert action is not None
    assert action.due is Due.ERASE
    book.do(do.NoteCompensation(index=0, name="undo"))
    assert due_at(book.state) == ended + 1000 * SECOND


def test_compensations_of_a_session_somebody_terminated_are_their_business() -> None:
    book = begun(None)
    book.say(CompensationRegistered(name="undo"))
    moved(book, "terminate")
    assert due_at(book.state) is None


# ── renewal ───────────────────────────────────────────────────────────────────────────────────────


def renewed(book: Logbook, seconds: int, **facts: Any) -> int:
    """Until when the session may live if it is renewed for so long, in seconds from now."""
    given: dict[str, Any] = {"at": book.at, "actor": "ana", "account": Account(), **facts}
    return (renewal(book.state, book.at + seconds * SECOND, **given) - book.at) // SECOND


def test_a_renewal_lasts_as_long_as_asked_within_the_absolute_limit() -> None:
    book = begun(Timeouts(absolute=1000), owner="ana")
    assert renewed(book, 100) == 100
    assert renewed(book, 5000) == 1000
    book.at += 999 * SECOND
    assert renewed(book, 100) == 1
    assert renewed(begun(None, owner="ana"), 5000) == 5000
    assert renewed(begun(None, owner="ana"), 5000, defaults=Timeouts(absolute=50)) == 50


def test_a_session_past_its_absolute_limit_is_not_renewed() -> None:
    book = begun(Timeouts(absolute=1000), owner="ana")
    book.at += 1000 * SECOND
    with pytest.raises(RenewalRefused, match="absolute limit"):
        renewed(book, 100)


def test_only_the_owner_renews_and_without_one_anybody_may() -> None:
    with pytest.raises(NotOwner, match="only 'ana'"):
        renewed(begun(owner="ana"), 10, actor="ben")
    assert renewed(begun(owner=""), 10, actor="ben") == 10


@pytest.mark.parametrize(
    ("config", "account", "budget"),
    [
        (Config(), Account(cap=5, spent=5), "cost"),
        (Config(), Account(cap=5, spent=1, paused=True), "cost"),
        (Config(max_cost=0), Account(cap=9), "cost"),
        (Config(max_tokens=7), Account(), "tokens"),
        (Config(max_rounds=1), Account(), "rounds"),
    ],
)
def test_a_session_without_means_is_not_renewed(config: Config, account: Account, budget: str) -> None:
    book = Logbook().begin(owner="ana", config=config)
    book.say(TurnStarted(), TurnFinished(tokens_in=3, tokens_out=4), Round())
    with pytest.raises(BudgetExhausted, match=budget) as refusal:
        renewed(book, 10, account=account)
    assert refusal.value.budget == budget


def test_an_ended_session_is_not_renewed_nor_one_into_the_past() -> None:
    with pytest.raises(Terminal):
        renewed(moved(begun(owner="ana"), "terminate"), 10)
    with pytest.raises(Invalid, match="past"):
        renewed(begun(owner="ana"), 0)


def test_renewing_a_sleeping_session_replaces_its_grace() -> None:
    book = moved(begun(Timeouts(grace=10)), "suspend")
    book.do(do.Renew(expires_at=book.at + 500 * SECOND))
    assert due_at(book.state) == book.at + 500 * SECOND
    moved(book, "resume", "reactivate", "suspend", each=1)
    assert due_at(book.state) == book.at + 10 * SECOND


# ── the notes of a clean-up ───────────────────────────────────────────────────────────────────────


def test_notes_last_for_a_stay_and_through_the_end() -> None:
    book = moved(begun(), "suspend")
    book.do(do.CleanUp(step="flush", since=book.state.life.since))
    assert book.do(do.CleanUp(step="flush", since=book.state.life.since)) == ()
    assert [event.kind for event in book.events].count(Cleaned.kind) == 1
    moved(book, "resume", each=1)
    assert book.state.life.cleanup == {}
    moved(book, "reactivate", "suspend", each=1)
    book.do(do.CleanUp(step="flush", since=book.state.life.since))
    moved(book, "expire", "archive", each=1)
    assert book.state.life.cleanup["flush"].done


# ── what somebody names ───────────────────────────────────────────────────────────────────────────

START = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers() | st.floats() | st.booleans() | st.none() | st.text())
def test_a_moment_lies_between_1970_and_9998(value: Any) -> None:
    if type(value) is int and 0 <= value < LATEST:
        assert admit_moment(value, "until") == value
        assert 1970 <= (START + timedelta(microseconds=value)).year <= 9998
    else:
        with pytest.raises(Invalid, match="until is a moment"):
            admit_moment(value, "until")


def test_the_year_9999_begins_when_we_say() -> None:
    assert START + timedelta(microseconds=LATEST) == datetime(9999, 1, 1, tzinfo=UTC)


@given(st.dictionaries(st.sampled_from([*FIELDS, "idel", "", 5, None]), st.integers(), max_size=3))
def test_a_time_out_nobody_knows_is_refused_by_name(given: Any) -> None:
    unknown = [name for name in given if name not in FIELDS]
    if not unknown:
        admit_names(given)
        return
    with pytest.raises(Invalid, match="there are idle, absolute, max_active, grace, expiry, background") as refusal:
        admit_names(given)
    assert refusal.value.allowed == FIELDS
