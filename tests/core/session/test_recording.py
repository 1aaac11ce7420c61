"""Recording: whatever a framework hands over is taken, in order, in turns that hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.session import commands as do
from perdure.core.session import turns
from perdure.core.session.admission import admit_turn
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Draft, Payload
from perdure.core.session.recording import Noted, arranged
from perdure.core.session.state import State
from perdure.core.session.turns import (
    CallStatus,
    Message,
    OpenCall,
    OpenTurn,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnStarted,
)

CALLS = st.sampled_from(["a", "b", "c"])
PAYLOADS = st.one_of(
    st.builds(Message, role=st.sampled_from(["user", "assistant", "system", "tool", "critic"]), content=st.text()),
    st.builds(ToolAsked, call=CALLS, name=st.just("search"), arguments=st.integers()),
    st.builds(ToolFinished, call=CALLS, result=st.text(), error=st.none() | st.text(min_size=1)),
    st.builds(Noted, by=st.just("here"), data=st.integers()),
    st.builds(TurnStarted, content=st.none() | st.text()),
)
OPEN = st.none() | st.builds(
    OpenTurn,
    number=st.just(3),
    since=st.just(0),
    version=st.just(7),
    calls=st.dictionaries(CALLS, st.just(OpenCall("search", CallStatus.ASKED)), max_size=2),
)


def essence(payload: Payload) -> Any:
    """What must come through, whatever form it takes."""
    match payload:
        case ToolAsked():
            return ("asked", payload.call, payload.arguments)
        case ToolFinished():
            return ("finished", payload.call, payload.error if payload.error is not None else payload.result)
        case Message(role="assistant", content=[{"type": "tool_use"} as block]):
            return ("asked", block["id"], block["input"])
        case Message(role="tool", content=[{"type": "tool_result"} as block]):
            return ("finished", block["tool_use_id"], block["content"])
        case _:
            return payload


def marks(payload: Payload) -> bool:
    return isinstance(payload, TurnFinished | TurnInterrupted) or payload == TurnStarted()


@given(OPEN, st.lists(PAYLOADS, max_size=12), st.booleans())
def test_everything_comes_through_in_order_and_every_turn_holds(
    open: OpenTurn | None, payloads: list[Payload], more: bool
) -> None:
    made = arranged(open, [Draft(item) for item in payloads], more=more)
    number = 3
    for item in made:
        admit_turn(open, item.payload)  # nothing is recorded that an append would refuse
        open = turns.flight(open, number + 1, item.payload, item.payload.aim(), 0, 8)
        number = open.number if open is not None else number
    kept = [essence(item.payload) for item in made if not marks(item.payload)]
    assert kept == [essence(item) for item in payloads if not marks(item)]


def kinds(open: OpenTurn | None, *payloads: Payload, more: bool = False) -> list[str]:
    return [item.payload.kind for item in arranged(open, [Draft(item) for item in payloads], more=more)]


def said(role: str) -> Message:
    return Message(role=role, content="…")


def test_a_question_and_its_answer_are_a_turn() -> None:
    assert kinds(None, said("user"), said("assistant")) == ["turn_started", "message", "message", "turn_finished"]


def test_a_turn_stays_open_while_a_tool_is_awaited_or_more_follows() -> None:
    assert kinds(None, said("user"), ToolAsked(call="a", name="f")) == ["turn_started", "message", "tool_asked"]
    assert kinds(None, said("user"), said("assistant"), more=True) == ["turn_started", "message", "message"]


def test_a_tool_that_was_never_answered_leaves_its_turn_interrupted() -> None:
    waiting = OpenTurn(number=1, since=0, version=1, calls={"a": OpenCall("f", CallStatus.ASKED)})
    assert kinds(waiting, said("user")) == ["turn_interrupted", "turn_started", "message"]


def test_two_questions_in_a_row_share_a_turn_and_two_answered_ones_do_not() -> None:
    assert kinds(None, said("user"), said("user")) == ["turn_started", "message", "message"]
    pair = ["turn_started", "message", "message", "turn_finished"]
    assert kinds(None, said("user"), said("assistant"), said("user"), said("assistant")) == pair + pair


def test_a_result_without_its_call_is_kept_as_a_message_with_its_metadata() -> None:
    made = arranged(None, [Draft(ToolFinished(call="x", result=1, metadata={"of": "it"}))], more=False)
    assert [item.payload for item in made] == [
        Message(
            role="tool",
            content=[{"type": "tool_result", "tool_use_id": "x", "content": 1}],
            metadata={"of": "it"},
        )
    ]


def test_retracting_the_start_of_the_open_turn_closes_it_and_retracting_a_call_forgets_it() -> None:
    waiting = OpenTurn(number=1, since=0, version=4, calls={"a": OpenCall("f", CallStatus.ASKED)})
    assert turns.flight(waiting, 2, Retracted(first=3, upto=9), None, 0, 10) is None
    left = turns.flight(waiting, 2, Retracted(first=6, upto=9, calls=("a",)), None, 0, 10)
    assert left is not None
    assert left.calls == {}
    assert turns.flight(waiting, 2, Retracted(first=6, upto=9), None, 0, 10) is waiting


def test_a_session_that_does_not_exist_records_nothing() -> None:
    with pytest.raises(Invalid, match="begins with create"):
        decide(State(), do.Record(drafts=(Draft(said("user")),)), Facts(at=1))
