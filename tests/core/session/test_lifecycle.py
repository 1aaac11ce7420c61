"""The lifecycle: every cell of the table, every guard, and the time spent in each phase."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import GuardFailed, MoveRefused, Suspended, Terminal
from perdure.core.session import lifecycle
from perdure.core.session.event import Payload
from perdure.core.session.lifecycle import (
    MOVE_NAMES,
    TABLE,
    TERMINAL,
    Compensated,
    Compensation,
    CompensationRegistered,
    Effect,
    ExitCriterion,
    Life,
    Moved,
    MoveFacts,
    Phase,
    allowed,
    decide_move,
    evolve,
    find_move,
    must_be_awake,
)
from perdure.core.session.turns import Message
from tests.core.session.logbook import NOON, SECOND, event_of

# Written down a second time, from the design: the phases, the moves, where they lead.
EXPECTED = {
    ("init", "activate"): "active",
    ("init", "terminate"): "terminated",
    ("active", "suspend"): "suspended",
    ("active", "timeout"): "suspended",
    ("active", "complete"): "completed",
    ("active", "terminate"): "terminated",
    ("suspended", "resume"): "resumed",
    ("suspended", "expire"): "terminated",
    ("suspended", "terminate"): "terminated",
    ("resumed", "reactivate"): "active",
    ("resumed", "terminate"): "terminated",
    ("completed", "archive"): "archived",
    ("terminated", "archive"): "archived",
}
EVENTS = sorted({event for _, event in EXPECTED})
CELLS = [(phase.value, event) for phase in Phase for event in EVENTS]


def test_the_table_has_these_phases_and_these_moves() -> None:
    assert {phase.value for phase in Phase} == {
        "init", "active", "suspended", "resumed", "completed", "terminated", "archived",
    }  # fmt: skip
    assert list(MOVE_NAMES) == EVENTS
    assert {(move.source.value, move.event): move.to.value for move in TABLE} == EXPECTED
    assert len(TABLE) == len(EXPECTED)


@pytest.mark.parametrize(("phase", "event"), CELLS)
def test_every_cell_leads_where_it_should_or_names_what_is_allowed(phase: str, event: str) -> None:
    life = Life(phase=Phase(phase))
    to = EXPECTED.get((phase, event))
    if to is not None:
        moved = decide_move(life, event, MoveFacts(), "why")
        assert moved == Moved(event=event, source=Phase(phase), to=Phase(to), reason="why")
        assert evolve(life, event_of(moved)).phase is Phase(to)
        return
    with pytest.raises(MoveRefused) as refusal:
        decide_move(life, event, MoveFacts())
    options = tuple(name for source, name in EXPECTED if source == phase)
    assert (refusal.value.phase, refusal.value.event, refusal.value.allowed) == (phase, event, options)
    assert all(name in refusal.value.message for name in options)
    if not options:
        assert "nothing leads on" in refusal.value.message


@pytest.mark.parametrize("phase", Phase)
def test_a_move_that_does_not_exist_names_what_does(phase: Phase) -> None:
    with pytest.raises(MoveRefused) as refusal:
        find_move(phase, "levitate")
    assert refusal.value.allowed == allowed(phase)


# ── guards and effects ────────────────────────────────────────────────────────────────────────────

REFUSALS: list[tuple[str, str, dict[str, Any], str]] = [
    ("init", "activate", {"vars_valid": False}, "vars"),
    ("init", "activate", {"unbound_tools": ("search", "mail")}, "search, mail"),
    ("active", "complete", {"turn_open": True}, "turn is open"),
    ("active", "complete", {"open_children": ("a", "b")}, "2 children"),
    ("active", "complete", {"unmet_criteria": ("tests pass",)}, "tests pass"),
    ("suspended", "resume", {"consistent": False}, "verify"),
    ("resumed", "reactivate", {"consistent": False}, "verify"),
]


@pytest.mark.parametrize(("phase", "event", "facts", "words"), REFUSALS)
def test_a_guard_says_why_not(phase: str, event: str, facts: dict[str, Any], words: str) -> None:
    with pytest.raises(GuardFailed, match=words) as refusal:
        decide_move(Life(phase=Phase(phase)), event, MoveFacts(**facts))
    assert (refusal.value.event, refusal.value.phase) == (event, phase)


GUARDED = {(phase, event): {name for *cell, facts, _ in REFUSALS if cell == [phase, event] for name in facts}
           for phase, event, *_ in REFUSALS}  # fmt: skip
WORST: dict[str, Any] = {
    "turn_open": True,
    "vars_valid": False,
    "unbound_tools": ("search",),
    "open_children": ("a",),
    "unmet_criteria": ("done",),
    "consistent": False,
}


@pytest.mark.parametrize(("phase", "event"), sorted(EXPECTED))
def test_guards_ask_about_nothing_else(phase: str, event: str) -> None:
    others = {name: fact for name, fact in WORST.items() if name not in GUARDED.get((phase, event), set())}
    moved = decide_move(Life(phase=Phase(phase)), event, MoveFacts(**others))
    assert moved == Moved(event=event, source=Phase(phase), to=Phase(EXPECTED[phase, event]))


def test_completing_suspending_and_terminating_checkpoint_first() -> None:
    for move in TABLE:
        saves = Effect.CHECKPOINT in move.effects
        assert saves is (move.event in {"suspend", "timeout", "complete", "terminate", "expire"}), move


def test_only_terminating_compensates_and_only_completing_seals() -> None:
    for move in TABLE:
        assert (Effect.COMPENSATE in move.effects) is (move.to is Phase.TERMINATED)
        assert (Effect.SEAL in move.effects) is (move.to is Phase.COMPLETED)
        assert (Effect.MOVE_TO_COLD in move.effects) is (move.to is Phase.ARCHIVED)
        assert (Effect.REHYDRATE in move.effects) is (move.to is Phase.RESUMED)


def test_moves_that_can_meet_an_open_turn_interrupt_it() -> None:
    for move in TABLE:
        ends = move.to in {Phase.SUSPENDED, Phase.TERMINATED}
        assert (Effect.INTERRUPT_TURN in move.effects) is ends


# ── who may be worked on ──────────────────────────────────────────────────────────────────────────


def test_an_active_session_is_awake() -> None:
    must_be_awake(Life(phase=Phase.ACTIVE), "s")


@pytest.mark.parametrize(
    ("phase", "error", "words"),
    [
        (Phase.INIT, Suspended, "activate it first"),
        (Phase.SUSPENDED, Suspended, "resume it first"),
        (Phase.RESUMED, Suspended, "reactivate it first"),
        (Phase.COMPLETED, Terminal, "branch it"),
        (Phase.TERMINATED, Terminal, "branch it"),
        (Phase.ARCHIVED, Terminal, "branch it"),
    ],
)
def test_any_other_session_says_what_would_help(phase: Phase, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        must_be_awake(Life(phase=phase), "s")


def test_terminal_phases_are_those_that_only_archive() -> None:
    assert {phase for phase in Phase if set(allowed(phase)) <= {"archive"}} == TERMINAL


# ── folding ───────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 1000)), max_size=30))
def test_the_time_in_each_phase_adds_up(steps: list[tuple[str, int]]) -> None:
    life, at = Life(since=NOON), NOON
    suspensions = 0
    for event, seconds in steps:
        at += seconds * SECOND
        try:
            moved = decide_move(life, event, MoveFacts())
        except MoveRefused:
            continue
        life = evolve(life, event_of(moved, at=at))
        suspensions += moved.to is Phase.SUSPENDED
        assert life.since == at
        assert sum(life.spent.values()) == at - NOON
    assert life.suspensions == suspensions


def test_a_clock_set_back_takes_no_time_away() -> None:
    life = evolve(Life(phase=Phase.ACTIVE, since=NOON), event_of(Moved(to=Phase.SUSPENDED), at=NOON - SECOND))
    assert life.spent == {"active": 0}


def test_compensations_are_kept_in_order_and_marked_once_run() -> None:
    life = Life()
    for name in ("a", "b", "a"):
        life = evolve(life, event_of(CompensationRegistered(name=name, arguments={"of": name})))
    life = evolve(life, event_of(Compensated(name="a", index=2)))
    assert life.compensations == (
        Compensation("a", {"of": "a"}),
        Compensation("b", {"of": "b"}),
        Compensation("a", {"of": "a"}, done=True),
    )


def test_a_criterion_is_met_when_last_said_so() -> None:
    life = Life(criteria={"tests": False})
    for name, met in (("tests", True), ("docs", False), ("tests", False), ("docs", True)):
        life = evolve(life, event_of(ExitCriterion(name=name, met=met)))
    assert life.criteria == {"tests": False, "docs": True}


@pytest.mark.parametrize("payload", [Message(role="user"), Moved(), Moved(event="suspend")])
def test_what_moves_nothing_leaves_the_life_alone(payload: Payload) -> None:
    life = Life(phase=Phase.ACTIVE, since=5)
    assert evolve(life, event_of(payload)) is life


def test_the_module_says_what_happens_to_each_phase() -> None:
    """Every phase but the last can be left, and every phase but the first can be reached."""
    assert {move.source for move in TABLE} == set(Phase) - {Phase.ARCHIVED}
    assert {move.to for move in TABLE} == set(Phase) - {Phase.INIT}
    assert {(move.source, move.event): move for move in TABLE} == lifecycle.MOVES
