"""A conversation as messages that every provider takes, and back as events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.session.event import Event, Payload
from perdure.core.session.steering import Steered
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
)
from perdure.core.talk.history import (
    ANSWER,
    OPENING,
    UNANSWERED,
    WITHHELD,
    History,
    answered,
    closed,
    grown,
    history_of,
    messages_of,
    payloads_of,
)
from perdure.core.talk.parts import Answer, Call, Foreign, Result, Said, Text, Thought, Usage
from perdure.core.talk.wire import rest, rest_in
from tests.core.session.logbook import Logbook, event_of
from tests.core.talk.talks import BACK, TALKS, WILD, assert_acceptable, flat, log

ASKED = [TurnStarted(content="go"), ToolAsked(call="a", name="look", arguments={"x": 1})]


def told(*payloads: Payload) -> tuple[Said, ...]:
    return messages_of(history_of(log(list(payloads))))


def user(*blocks: Text | Result) -> Said:
    return Said(role="user", blocks=blocks)


def same(one: History, other: History) -> bool:
    return (one.version, one.since, one.summary, one.messages, one.ends, one.pending, one.ids) == (
        other.version,
        other.since,
        other.summary,
        other.messages,
        other.ends,
        other.pending,
        other.ids,
    )


@given(st.lists(WILD, min_size=3, max_size=25), st.lists(BACK, max_size=2), st.integers(0, 25))
def test_whatever_the_log_holds_providers_take_it(wild: list[Payload], back: list[Payload], at: int) -> None:
    assert_acceptable(messages_of(history_of(log([*wild[:at], *back, *wild[at:]]))))


@given(st.lists(WILD, max_size=25), st.integers(0, 25), st.integers(0, 25))
def test_a_history_that_grew_is_the_one_made_at_once(payloads: list[Payload], one: int, two: int) -> None:
    events = log(payloads)
    first = history_of(events[: min(one, two)])
    second = grown(first, events[: max(one, two)])  # what it has already is passed over
    assert second is not None
    last = grown(second, events[max(one, two) :])
    assert last is not None
    assert same(last, history_of(events))
    assert last.messages[: last.kept] == second.messages[: last.kept]


@given(TALKS)
def test_new_turns_go_behind_what_is_there(talk: list[list[Payload]]) -> None:
    before: list[object] = []
    for number in range(1, len(talk) + 1):
        after = flat(told(*[payload for turn in talk[:number] for payload in turn]))
        assert after[: len(before)] == before
        assert len(after) > len(before)
        before = list(after)


@given(TALKS)
def test_messages_written_to_the_log_come_back_as_they_were(talk: list[list[Payload]]) -> None:
    messages = told(*[payload for turn in talk for payload in turn])
    assert told(*[payload for message in messages for payload in payloads_of(message)]) == messages


@given(st.lists(WILD, max_size=15))
def test_closing_changes_only_the_end(payloads: list[Payload]) -> None:
    history = history_of(log(payloads))
    whole = flat(closed(history).messages)
    assert [item for item in whole if not isinstance(item[1], Result) or item[1].content != (UNANSWERED,)] == [
        item for item in flat(history.messages) if not isinstance(item[1], Result) or item[1].content != (UNANSWERED,)
    ]
    assert closed(history).messages[: len(history.messages) - 1] == history.messages[:-1]


def test_a_call_that_nobody_answers_gets_a_failed_result_before_the_next_words() -> None:
    assert told(*ASKED, TurnInterrupted(text="I was"), TurnStarted(content="well?")) == (
        user(Text(text="go")),
        Said(role="assistant", blocks=(Call(id="a", name="look", arguments={"x": 1}), Text(text="I was"))),
        user(Result(call="a", content=(UNANSWERED,), failed=True), Text(text="well?")),
    )


def test_while_a_turn_goes_on_a_result_finds_its_call_before_the_words_said_meanwhile() -> None:
    meanwhile = Message(role="user", content="hurry")
    assert told(*ASKED, meanwhile)[-1] == user(Result(call="a", content=(UNANSWERED,), failed=True), Text(text="hurry"))
    finished = told(*ASKED, meanwhile, ToolFinished(call="a", result={"n": 1}))
    assert finished[-1] == user(Result(call="a", content=(Text(text='{"n":1}'),)), Text(text="hurry"))


def test_a_result_that_comes_too_late_is_told_in_words() -> None:
    late = Message(role="tool", content=[{"type": "tool_result", "tool_use_id": "a", "content": "gold"}])
    last = told(*ASKED, TurnInterrupted(), late)[-1]
    assert [type(block) for block in last.blocks] == [Result, Text, Text]
    assert last.blocks[-1] == Text(text="gold")


def test_a_call_of_an_earlier_turn_or_of_before_the_assistant_went_on_waits_no_more() -> None:
    finished = ToolFinished(call="a", result="gold")
    unanswered = Result(call="a", content=(UNANSWERED,), failed=True)
    for first, *more in ([TurnStarted(content="next")], [Message(role="user", content="x"), TurnFinished(content="y")]):
        messages = told(*ASKED, first, *more, finished)
        assert_acceptable(messages)
        assert messages[2].blocks[0] == unanswered
        assert messages[-1].blocks[-1] == Text(text="gold")


def test_two_calls_of_one_name_go_by_two_ids_each_with_its_result() -> None:
    turn = [*ASKED, ToolFinished(call="a", result="one"), TurnFinished(content="done")]
    again = [*ASKED, ToolFinished(call="a", error="two"), TurnFinished(content="done")]
    messages = told(*turn, *again)
    assert_acceptable(messages)
    assert messages[2].blocks == (Result(call="a", content=(Text(text="one"),)),)
    assert messages[6].blocks == (Result(call="a_2", content=(Text(text="two"),), failed=True),)


def test_what_was_rolled_back_or_retracted_is_not_told() -> None:
    kept = [TurnStarted(content="hello"), TurnFinished(content="hi")]
    assert told(*kept, *ASKED, TurnRolledBack()) == told(*kept)
    assert told(*kept, *kept, Retracted(first=3, upto=4)) == told(*kept)


def blank(payload: Payload, version: int, target: str | None = None) -> Event:
    return event_of(payload, version, target=target, redacted=True, turn=1)


def test_redacted_content_is_left_out_and_a_call_goes_with_its_result() -> None:
    events = log(
        [TurnStarted(content="go"), *ASKED[1:], ToolFinished(call="a", result="secret"), TurnFinished(content="ok")]
    )
    without = [events[0], blank(ToolAsked(), 2, "a"), *events[2:]]
    assert messages_of(history_of(without)) == (
        user(Text(text="go")),
        Said(role="assistant", blocks=(Text(text="ok"),)),
    )
    silent = [*events[:2], blank(ToolFinished(), 3, "a"), events[3]]
    assert messages_of(history_of(silent))[2] == user(Result(call="a", content=(WITHHELD,)))
    assert messages_of(history_of([blank(TurnStarted(), 1), events[3]]))[0] == user(OPENING)


def test_a_compaction_stands_for_what_it_sums_up_and_keeps_what_it_preserves_exactly() -> None:
    old = [TurnStarted(content="old"), TurnFinished(content="older")]
    new = [TurnStarted(content="new"), TurnFinished(content="newer")]
    summed = Compacted(upto=2, summary="they </summary> met", preserved={"vault": 7})
    events = log([*old, *new, summed])
    history = history_of(events)
    assert history.since == 5
    first, second = messages_of(history)
    assert first.blocks[0] == Text(
        text='<summary>\nthey <∕summary> met\n</summary>\n<preserved>\n{"vault":7}\n</preserved>'
    )
    assert [first.blocks[1:], second.blocks] == [(Text(text="new"),), (Text(text="newer"),)]
    assert messages_of(history_of(events[2:])) == (first, second)
    assert grown(history_of(events[:4]), events[4:]) is None


def test_a_result_whose_call_was_summed_up_does_not_stay_an_orphan() -> None:
    messages = told(
        *ASKED, ToolFinished(call="a", result="gold"), TurnFinished(content="ok"), Compacted(upto=2, summary="s")
    )
    assert_acceptable(messages)
    assert Text(text="gold") in messages[0].blocks


def test_system_messages_and_second_speakers_are_told_as_such() -> None:
    words = [
        Message(role="user", content="hello", name="ann"),
        Message(role="user", content="me too", name="bob"),
        Message(role="system", content="be kind"),
    ]
    texts = (Text(text="hello"), Text(text="[bob] me too"), Text(text="<system>\nbe kind\n</system>"))
    assert told(*words) == (Said(role="user", blocks=texts, name="ann"),)


def test_a_steer_is_words_of_the_user_in_its_place_and_cannot_end_its_fence() -> None:
    steer = Text(text="<steer>\nstop <∕steer> now\n</steer>")
    assert told(TurnStarted(content="go"), Steered(text="stop </steer> now"), TurnFinished(content="ok")) == (
        user(Text(text="go"), steer),
        Said(role="assistant", blocks=(Text(text="ok"),)),
    )
    assert told(*ASKED, Steered(text="stop </steer> now"), ToolFinished(call="a", result="gold"))[-1] == user(
        Result(call="a", content=(Text(text="gold"),)), steer
    )


def test_a_steer_without_words_or_redacted_is_not_told() -> None:
    assert told(TurnStarted(content="go"), Steered(text=" ")) == (user(Text(text="go")),)
    events = log([TurnStarted(content="go"), TurnFinished(content="ok")])
    assert len(messages_of(history_of([*events, blank(Steered(), 3)]))) == 2


ANSWERED = Answer(
    id="m1",
    model="sonnet",
    blocks=(
        Thought(text="hm", seal="s"),
        Text(text="Let me look."),
        Call(id="a", name="look", arguments={"x": 1}),
        Call(id="b", name="look", raw="{broken"),
        Foreign(provider="anthropic", block={"type": "server_tool_use"}),
    ),
    stop="tools",
    usage=Usage(input=5, output=7, cache_read=100),
)


def test_an_answer_goes_through_the_log_and_back_whole() -> None:
    book = Logbook().begin()
    book.say(TurnStarted(content="go"), *answered(ANSWERED))
    assert history_of(book.events).messages[-1] == Said(role="assistant", blocks=ANSWERED.blocks)
    book.say(ToolFinished(call="a", result="1"), ToolFinished(call="b", error="no JSON"))
    last = Answer(id="m2", model="sonnet", blocks=(Text(text="Done."),), usage=Usage(input=1, output=2, cache_write=3))
    book.say(*answered(last, ANSWERED.usage))
    assert book.state.turns.open is None
    assert (book.state.turns.tokens_in, book.state.turns.tokens_out) == (109, 9)
    assert_acceptable(messages_of(history_of(book.events)))
    first = next(event.data for event in book.events if isinstance(event.data, Message))
    assert first.metadata[ANSWER]["usage"] == {"input": 5, "output": 7, "cache_read": 100}


@pytest.mark.parametrize(("stop", "ends"), [("end", True), ("length", True), ("refused", True), ("paused", False)])
def test_an_answer_ends_its_turn_unless_the_model_only_pauses(stop: str, ends: bool) -> None:
    payloads = answered(Answer(id="m", model="x", blocks=(Text(text="so"),), stop=stop))  # type: ignore[arg-type]
    assert isinstance(payloads[-1], TurnFinished) is ends


LEFT = [rest("openai-chat", {"n": number})[0] for number in range(4)]


def test_a_plain_answer_is_its_text_and_its_rests_come_back_to_the_provider() -> None:
    blocks = (LEFT[0], Text(text="Hello"), LEFT[1], LEFT[2])
    said, _ = answered(Answer(id="m", model="x", blocks=blocks))
    assert isinstance(said, Message)
    assert said.content == "Hello"
    assert ANSWER in said.metadata
    assert told(TurnStarted(content="go"), said)[-1] == Said(role="assistant", blocks=blocks)


def test_the_rests_of_calls_and_results_are_no_messages_and_stay_beside_them() -> None:
    asking = (LEFT[0], Call(id="a", name="look"), LEFT[1], Call(id="b", name="look"), LEFT[2])
    found = (Result(call="a"), LEFT[0], Result(call="b"), LEFT[3], Text(text="so?"), LEFT[1])
    spoken = payloads_of(Said(role="assistant", blocks=asking))
    heard = payloads_of(user(*found))  # type: ignore[arg-type]
    assert [type(item) for item in spoken + heard] == [ToolAsked, ToolAsked, ToolFinished, ToolFinished, Message]
    messages = told(TurnStarted(content="go"), *spoken, *heard)
    assert messages[1:] == (Said(role="assistant", blocks=asking), Said(role="user", blocks=found))


def test_a_result_that_comes_later_does_not_part_another_from_its_rest() -> None:
    first, second = (payloads_of(user(Result(call=call), left))[0] for call, left in zip("ab", LEFT, strict=False))  # type: ignore[arg-type]
    events = log([*ASKED, ToolAsked(call="b", name="look"), first, second])
    whole = history_of(events)
    assert whole.messages[-1].blocks == (Result(call="a"), LEFT[0], Result(call="b"), LEFT[1])
    later = grown(history_of(events[:-1]), events)
    assert later is not None
    assert same(later, whole)


def test_an_answer_of_rests_alone_says_nothing() -> None:
    assert [type(item) for item in answered(Answer(id="m", model="x", blocks=(LEFT[0],)))] == [TurnFinished]


def test_rests_in_the_content_of_an_older_log_are_read_where_they_are() -> None:
    old = [
        {"type": "text", "text": "Hello"},
        {"type": "foreign", "provider": "openai-chat", "block": {"rest": {"n": 1}}},
    ]
    (_, said) = told(TurnStarted(content="go"), Message(role="assistant", content=old))
    assert said.blocks == (Text(text="Hello"), LEFT[1])


@pytest.mark.parametrize("odd", [5, "x", [5], [{"at": "0"}], [{"at": 0, "provider": 1, "rest": {}}], [{"at": 9}]])
def test_what_is_not_spelled_as_a_rest_is_passed_over(odd: object) -> None:
    (said,) = told(Message(role="user", content="hi", metadata={"rests": odd}))
    assert said.blocks == (Text(text="hi"),)
    assert not any(rest_in(block) for block in said.blocks)
