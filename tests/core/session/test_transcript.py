"""Transcripts: events grouped into turns, each tool call beside its result."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, Refused
from perdure.core.session import commands as do
from perdure.core.session.event import Payload
from perdure.core.session.steering import Feedback, Steered
from perdure.core.session.transcript import ToolCall, Turn, turns_of
from perdure.core.session.turns import (
    Message,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from tests.core.session.logbook import Logbook, event_of


def conversation(*appends: tuple[Payload, ...] | do.Command) -> Logbook:
    book = Logbook()
    book.begin()
    for item in appends:
        if isinstance(item, do.Command):
            book.do(item)
        else:
            book.say(*item)
    return book


def shown(turns: list[Turn]) -> list[tuple[Any, ...]]:
    return [(turn.number, turn.status, [message.content for message in turn.messages]) for turn in turns]


def said(text: str, role: str = "user") -> Message:
    return Message(role=role, content=text)


def test_a_turn_holds_what_was_said_in_it() -> None:
    book = conversation(
        (TurnStarted(), said("hello"), said("hi", "assistant"), TurnFinished()),
        (TurnStarted(), said("bye"), TurnFinished()),
    )
    turns = turns_of(book.events)
    assert shown(turns) == [(1, "finished", ["hello", "hi"]), (2, "finished", ["bye"])]
    assert (turns[0].first, turns[0].last, turns[0].at) == (3, 6, book.at)


def test_a_turn_over_many_appends_is_one_turn() -> None:
    book = conversation((TurnStarted(),), (said("a"),), (said("b"),), (TurnFinished(),))
    assert shown(turns_of(book.events)) == [(1, "finished", ["a", "b"])]


def test_what_is_said_outside_any_turn_stands_aside() -> None:
    book = conversation(
        (said("before"),),
        (TurnStarted(), said("in"), TurnFinished()),
        (Feedback(rating=5),),
        (said("between"), said("again")),
        (TurnStarted(), said("last")),
    )
    assert shown(turns_of(book.events)) == [
        (None, "aside", ["before"]),
        (1, "finished", ["in"]),
        (None, "aside", ["between", "again"]),
        (2, "open", ["last"]),
    ]


def test_each_call_stands_beside_its_result() -> None:
    book = conversation(
        (TurnStarted(), ToolAsked(call="a", name="search", arguments={"q": 1}), ToolAsked(call="b", name="mail")),
        (ToolStarted(call="a"), ToolAsked(call="c", name="clock")),
        (ToolFinished(call="b", error="bounced"), ToolFinished(call="a", result=[1])),
    )
    (turn,) = turns_of(book.events)
    assert turn.calls == (
        ToolCall(call="a", name="search", arguments={"q": 1}, result=[1], done=True),
        ToolCall(call="b", name="mail", arguments=None, error="bounced", done=True),
        ToolCall(call="c", name="clock", arguments=None),
    )


def test_interrupted_turns_are_shown_and_rolled_back_ones_only_on_demand() -> None:
    book = conversation(
        (TurnStarted(), said("lost")),
        do.Recover(),
        (TurnStarted(), said("unsaid")),
        do.RollBack(),
        (TurnStarted(), said("kept"), TurnFinished()),
    )
    assert shown(turns_of(book.events)) == [(1, "interrupted", ["lost"]), (3, "finished", ["kept"])]
    assert shown(turns_of(book.events, rolled_back=True))[1] == (2, "rolled_back", ["unsaid"])


def test_a_redacted_message_is_blank_and_a_redacted_result_is_still_done() -> None:
    events = [
        event_of(TurnStarted(), 1, turn=1),
        event_of(Message(), 2, turn=1, redacted=True),
        event_of(ToolAsked(), 3, turn=1, redacted=True, target="a"),
        event_of(ToolFinished(), 4, turn=1, redacted=True, target="a"),
    ]
    (turn,) = turns_of(events)
    assert turn.messages == (Message(),)
    assert turn.calls == (ToolCall(call="a", name="", arguments=None, done=True),)


def test_no_events_have_no_turns() -> None:
    assert turns_of([]) == []
    assert turns_of(conversation().events) == []


call_ids = st.sampled_from(["a", "b"])
steps: st.SearchStrategy[Any] = st.one_of(
    st.just(TurnStarted()),
    st.just(TurnFinished()),
    st.just(said("x")),
    st.just(do.Recover()),
    st.just(do.RollBack()),
    st.just(do.SetVars(document={"x": 1})),
    st.builds(ToolAsked, call=call_ids),
    st.builds(ToolFinished, call=call_ids),
)


@given(st.lists(steps, max_size=40))
def test_every_event_of_a_turn_is_in_that_turn_and_no_other(drawn: list[Any]) -> None:
    book = Logbook()
    book.begin()
    for step in drawn:
        try:
            book.do(step) if isinstance(step, do.Command) else book.say(step)
        except (Refused, Invalid):
            continue
    turns = turns_of(book.events, rolled_back=True)
    numbered = [turn for turn in turns if turn.number is not None]
    assert [turn.number for turn in numbered] == list(range(1, book.state.turns.count + 1))
    for turn in numbered:
        assert list(turn.events) == [event for event in book.events if event.turn == turn.number]
        asked = [event.target for event in turn.events if event.kind == "tool_asked"]
        finished = [event.target for event in turn.events if event.kind == "tool_finished"]
        assert {call.call for call in turn.calls} == set(asked)
        assert set(finished) <= set(asked)
        assert turn.status != "finished" or all(call.done for call in turn.calls)


def test_a_turn_may_carry_its_first_and_last_message() -> None:
    book = conversation((TurnStarted(content="hello"), said("hm", "assistant"), TurnFinished(content="hi")))
    (turn,) = turns_of(book.events)
    assert [(message.role, message.content) for message in turn.messages] == [
        ("user", "hello"),
        ("assistant", "hm"),
        ("assistant", "hi"),
    ]


def test_a_steer_and_the_words_of_an_answer_that_was_cut_short_are_among_what_was_said() -> None:
    book = conversation((TurnStarted(role="user", content="go"),), (Steered(text="left"),), do.Recover(text="I we"))
    (turn,) = turns_of(book.events)
    assert [(message.role, message.content) for message in turn.messages] == [
        ("user", "go"),
        ("user", "left"),
        ("assistant", "I we"),
    ]
    assert [message.metadata for message in turn.messages][:2] == [{}, {"steer": True}]
    assert set(turn.messages[2].metadata) == {"interrupted"}


def test_an_interruption_without_words_says_nothing_and_a_steer_outside_any_turn_stands_aside() -> None:
    book = conversation((TurnStarted(), said("go")), do.Recover(), (Steered(text="left"),))
    assert shown(turns_of(book.events)) == [(1, "interrupted", ["go"]), (None, "aside", ["left"])]
    (event,) = [event for event in book.events if event.kind == Steered.kind]
    hidden = event_of(Steered(), event.version, redacted=True)
    assert shown(turns_of([hidden])) == [(None, "aside", [None])]
