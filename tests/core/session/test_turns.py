"""Turns: at most one is open, a tool's result never comes without its call, and a crash leaves a list to retry."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, Refused, TurnRefused
from perdure.core.session.admission import admit_turn
from perdure.core.session.event import Payload
from perdure.core.session.turns import (
    CallStatus,
    Compacted,
    Message,
    OpenCall,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    Turns,
    TurnStarted,
    Unfinished,
    evolve,
    follow,
    interrupt,
    said,
)
from tests.core.session.logbook import NOON, event_of


def after(*payloads: Payload) -> Turns:
    """The turns after these, each admitted first."""
    part = Turns()
    for version, payload in enumerate(payloads, 1):
        admit_turn(part.open, payload)
        part = follow(part, payload, payload.aim(), NOON + version, version)
    return part


OPEN = (TurnStarted(),)
ASKED = (*OPEN, ToolAsked(call="c", name="search"))
STARTED = (*ASKED, ToolStarted(call="c", key="k"))
FINISHED = (*STARTED, ToolFinished(call="c", result=1))


# ── what fits ─────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_runs_from_its_start_to_its_end() -> None:
    part = after(*OPEN, Message(role="user"), *FINISHED[1:], TurnFinished(tokens_in=5, tokens_out=7))
    assert part == Turns(count=1, messages=1, tools=1, tokens_in=5, tokens_out=7, last_at=NOON + 6)


def test_an_open_turn_knows_its_number_when_it_began_and_its_calls() -> None:
    part = after(TurnStarted(), TurnFinished(), *STARTED)
    assert part.open is not None
    assert (part.open.number, part.open.since, part.open.version) == (2, NOON + 3, 3)
    assert part.open.calls == {"c": OpenCall("search", CallStatus.STARTED, "k")}


def test_a_tool_may_finish_without_saying_that_it_started() -> None:
    assert after(*ASKED, ToolFinished(call="c")).tools == 1


def test_tools_may_run_side_by_side() -> None:
    part = after(*ASKED, ToolAsked(call="d", name="mail"), ToolStarted(call="d"), ToolFinished(call="c"))
    assert part.open is not None
    assert part.open.calls == {"d": OpenCall("mail", CallStatus.STARTED)}


def test_a_message_needs_no_turn() -> None:
    assert after(Message(role="system")).messages == 1


# ── what does not ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "payload", "error", "words"),
    [
        (OPEN, TurnStarted(), TurnRefused, "turn 1 is still open"),
        ((), TurnFinished(), TurnRefused, "no turn is open"),
        ((), TurnInterrupted(), TurnRefused, "no turn is open"),
        ((), TurnRolledBack(), TurnRefused, "no turn is open"),
        ((), ToolAsked(call="c"), TurnRefused, "no turn is open"),
        ((), ToolStarted(call="c"), TurnRefused, "no turn is open"),
        ((), ToolFinished(call="c"), TurnRefused, "no turn is open"),
        (OPEN, ToolAsked(), Invalid, "id of its call"),
        (OPEN, ToolStarted(), Invalid, "id of its call"),
        (OPEN, ToolFinished(), Invalid, "id of its call"),
        (ASKED, ToolAsked(call="c"), Invalid, "already asked"),
        (OPEN, ToolStarted(call="c"), TurnRefused, "tool_asked first"),
        (OPEN, ToolFinished(call="c"), TurnRefused, "tool_asked first"),
        (ASKED, ToolFinished(call="d"), TurnRefused, "tool_asked first"),
        (FINISHED, ToolFinished(call="c"), TurnRefused, "tool_asked first"),
        (ASKED, TurnFinished(), TurnRefused, "without a result: c"),
        (OPEN, TurnFinished(tokens_in=-1), Invalid, "negative"),
        (OPEN, TurnFinished(tokens_out=-1), Invalid, "negative"),
        ((), Message(), Invalid, "role"),
    ],
)
def test_what_does_not_fit_says_what_to_do(
    before: tuple[Payload, ...], payload: Payload, error: type[Exception], words: str
) -> None:
    part = after(*before)
    with pytest.raises(error, match=words):
        admit_turn(part.open, payload)


calls = st.sampled_from(["", "c", "d"])
steps: st.SearchStrategy[Any] = st.one_of(
    st.just(TurnStarted()),
    st.just(TurnFinished()),
    st.just(TurnInterrupted()),
    st.just(TurnRolledBack()),
    st.just(Message(role="user")),
    st.builds(Compacted, upto=st.integers(0, 9)),
    st.builds(ToolAsked, call=calls, name=calls),
    st.builds(ToolStarted, call=calls),
    st.builds(ToolFinished, call=calls),
)


@given(st.lists(steps, max_size=40))
def test_no_admitted_history_has_a_result_without_its_call(drawn: list[Payload]) -> None:
    part, admitted = Turns(), []
    for payload in drawn:
        try:
            admit_turn(part.open, payload)
        except (Refused, Invalid):
            continue
        admitted.append(payload)
        part = follow(part, payload, payload.aim(), NOON, len(admitted))
    waiting: set[str] = set()
    is_open = False
    for payload in admitted:
        match payload:
            case TurnStarted():
                assert not is_open
                is_open = True
            case ToolAsked(call=call):
                assert is_open
                assert call not in waiting
                waiting.add(call)
            case ToolStarted(call=call):
                assert call in waiting
            case ToolFinished(call=call):
                waiting.remove(call)
            case TurnFinished():
                assert not waiting
                is_open = False
            case TurnInterrupted() | TurnRolledBack():
                assert is_open
                waiting.clear()
                is_open = False
            case _:
                pass
    assert (part.open is not None) is is_open
    assert set(part.open.calls if part.open else ()) == waiting


# ── closing for a writer that died ────────────────────────────────────────────────────────────────


def test_no_open_turn_needs_no_interruption() -> None:
    assert interrupt(Turns(), "crash") is None
    assert interrupt(after(*OPEN, TurnFinished()), "crash") is None


def test_an_interruption_names_the_tools_to_retry_under_their_keys() -> None:
    part = after(*STARTED, ToolAsked(call="d", name="mail"), ToolAsked(call="e", name="x"), ToolFinished(call="e"))
    assert interrupt(part, "crash", "so far") == TurnInterrupted(
        reason="crash",
        text="so far",
        unfinished=(Unfinished("c", "search", "k", started=True), Unfinished("d", "mail", None, started=False)),
    )


@pytest.mark.parametrize(("ending", "interrupted"), [(TurnInterrupted(), 1), (TurnRolledBack(), 0)])
def test_an_ended_turn_leaves_no_call_open(ending: Payload, interrupted: int) -> None:
    part = after(*STARTED, ending)
    assert (part.open, part.count, part.interrupted) == (None, 1, interrupted)
    assert after(*STARTED, ending, TurnStarted()).count == 2


# ── folding ───────────────────────────────────────────────────────────────────────────────────────


def test_compaction_only_moves_forward() -> None:
    part = after(Compacted(upto=7), Compacted(upto=3))
    assert (part.compactions, part.compacted_to) == (2, 7)


def test_folding_takes_the_call_from_the_envelope_so_that_redacted_pairs_still_meet() -> None:
    part = after(*OPEN)
    part = evolve(part, event_of(ToolAsked(), 2, redacted=True, target="c"))
    assert part.open is not None
    assert part.open.calls == {"c": OpenCall("", CallStatus.ASKED)}
    part = evolve(part, event_of(ToolStarted(key="k"), 3, target="c"))
    part = evolve(part, event_of(ToolFinished(), 4, redacted=True, target="c"))
    assert part.open is not None
    assert (part.open.calls, part.tools) == ({}, 1)


@pytest.mark.parametrize("payload", [ToolAsked(call="c"), ToolStarted(call="c"), ToolFinished(call="c")])
def test_a_tool_event_outside_any_turn_folds_into_nothing(payload: Payload) -> None:
    assert evolve(Turns(), event_of(payload)) == Turns()


# ── turns that carry their first and last message ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (Message(role="tool", content=1), Message(role="tool", content=1)),
        (TurnStarted(content="hello"), Message(role="user", content="hello")),
        (TurnStarted(role="system", content=["wake"]), Message(role="system", content=["wake"])),
        (TurnStarted(), None),
        (TurnFinished(content="done"), Message(role="assistant", content="done")),
        (TurnFinished(), None),
        (ToolFinished(call="c", result="x"), None),
    ],
)
def test_what_begins_or_ends_a_turn_may_say_something(payload: Payload, message: Message | None) -> None:
    assert said(payload) == message


def test_a_carried_message_counts_as_one() -> None:
    part = after(TurnStarted(content="hello"), Message(role="user"), TurnFinished(content="done", tokens_in=3))
    assert (part.messages, part.count, part.open, part.tokens_in) == (3, 1, None, 3)


@pytest.mark.parametrize("wrong", ["many", None, 1.5, True])
def test_counts_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(Invalid, match="whole number"):
        admit_turn(after(*OPEN).open, TurnFinished(tokens_in=wrong))
    with pytest.raises(Invalid, match="whole number"):
        admit_turn(None, Compacted(upto=wrong))


@pytest.mark.parametrize("wrong", [[1], {}, 5, None])
def test_a_call_is_named_by_a_text(wrong: Any) -> None:
    for payload in (ToolAsked(call=wrong), ToolStarted(call=wrong), ToolFinished(call=wrong)):
        with pytest.raises(Invalid, match="set call="):
            admit_turn(after(*ASKED).open, payload)
