"""The built-in model: it hears, calls tools, keeps to its script and its limits, and never surprises."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BadScript, Invalid
from perdure.core.talk.offline import HINT, SCRIPT, SHOWN, Offline, Step, Wanted, script
from perdure.core.talk.parts import (
    Ask,
    Began,
    Block,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Piece,
    Result,
    Said,
    Text,
    Thought,
    Tool,
    Usage,
)
from perdure.core.talk.tokens import estimate, estimate_ask

WEATHER = Tool(name="weather", schema={"type": "object", "properties": {"city": {"type": "string"}}})
ROUTE = Tool(name="route", schema={"properties": {"from": {"type": "string"}, "to": {"type": "string"}}})
WORDS = st.text(st.characters(codec="utf-8"), max_size=80)
STEPS = st.builds(
    Step,
    think=WORDS,
    say=WORDS,
    calls=st.lists(
        st.builds(Wanted, name=st.sampled_from(["weather", "x"]), arguments=st.dictionaries(WORDS, WORDS, max_size=2)),
        max_size=2,
    ).map(tuple),
    split=st.integers(0, 5),
)


def user(*blocks: Block | str) -> Said:
    return Said(role="user", blocks=tuple(Text(text=block) if isinstance(block, str) else block for block in blocks))


def asked(*messages: Said | str, **fields: Any) -> Ask:
    said = tuple(user(message) if isinstance(message, str) else message for message in messages)
    return Ask(model="offline", messages=said, **fields)


def told(pieces: list[Piece]) -> tuple[str, str, list[tuple[str, str]]]:
    """Thoughts, words, and calls with the text of their arguments."""
    thought, words, calls = "", "", []
    for piece in pieces:
        if isinstance(piece, BlockBegan) and isinstance(piece.block, Call):
            calls.append((piece.block.name, ""))
        if isinstance(piece, Delta):
            thought, words = thought + piece.thought, words + piece.text
            if piece.json:
                calls[-1] = (calls[-1][0], calls[-1][1] + piece.json)
    return thought, words, calls


def ended(pieces: list[Piece]) -> Ended:
    last = pieces[-1]
    assert isinstance(last, Ended)
    return last


def answered(pieces: list[Piece]) -> Said:
    """The answer as the message that a client sends back."""
    thought, words, _ = told(pieces)
    calls = [piece.block for piece in pieces if isinstance(piece, BlockBegan) and isinstance(piece.block, Call)]
    blocks: list[Block] = [
        *([Thought(text=thought)] if thought else []),
        *([Text(text=words)] if words else []),
        *calls,
    ]
    return Said(role="assistant", blocks=tuple(blocks))


# ── by itself ──


def test_it_shows_that_it_heard_and_says_how_to_get_a_real_model() -> None:
    pieces = Offline().pieces(asked("How high is Monte Rosa?"))
    assert told(pieces)[1] == f"You said: “How high is Monte Rosa?” {HINT}"
    assert ended(pieces).stop == "end"


def test_a_long_question_is_repeated_in_part() -> None:
    words = told(Offline().pieces(asked("long " * 1000)))[1]
    assert len(words) < SHOWN + len(HINT) + 30
    assert "…”" in words


def test_what_is_put_beside_the_question_is_not_the_question() -> None:
    beside = "<working_memory>\ncall weather Rome\n</working_memory>"
    pieces = Offline().pieces(asked(user("hello there", beside), tools=(WEATHER,)))
    assert told(pieces)[1].startswith("You said: “hello there”")
    assert told(pieces)[2] == []


@pytest.mark.parametrize("messages", [(), (Said(role="assistant", blocks=(Text(text="hi"),)),), (user(),)])
def test_it_answers_even_where_nothing_is_asked(messages: tuple[Said, ...]) -> None:
    assert HINT in told(Offline().pieces(asked(*messages)))[1]


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ('call weather {"city": "Rome"}', {"city": "Rome"}),
        ("Please do.\n  Call `weather` Rome, Italy", {"city": "Rome, Italy"}),
        ("call weather", {}),
    ],
)
def test_a_tool_asked_for_by_name_is_called_and_answered_from(line: str, arguments: dict[str, str]) -> None:
    first = asked(line, tools=(WEATHER, ROUTE))
    pieces = Offline().pieces(first)
    assert ended(pieces).stop == "tools"
    assert [(name, json.loads(text)) for name, text in told(pieces)[2]] == [("weather", arguments)]
    call = next(piece.block for piece in pieces if isinstance(piece, BlockBegan))
    assert isinstance(call, Call)
    result = user(Result(call=call.id, content=(Text(text="sunny, 24 °C"),)))
    after = Offline().pieces(asked(*first.messages, answered(pieces), result, tools=(WEATHER, ROUTE)))
    assert told(after) == ("", "weather answered: sunny, 24 °C.", [])
    assert ended(after).stop == "end"


def test_two_lines_are_two_calls_with_names_of_their_own() -> None:
    pieces = Offline().pieces(asked('call weather Rome\ncall route {"to": "Rome"}', tools=(WEATHER, ROUTE)))
    calls = [piece.block for piece in pieces if isinstance(piece, BlockBegan) and isinstance(piece.block, Call)]
    assert [call.name for call in calls] == ["weather", "route"]
    assert len({call.id for call in calls}) == 2


def test_a_failed_result_is_told_as_one_and_a_steer_beside_it_is_heard() -> None:
    result = Result(call="c1", content=(Text(text="no such city"),), failed=True)
    called = Said(role="assistant", blocks=(Call(id="c1", name="weather"),))
    pieces = Offline().pieces(asked("call weather X", called, user(result, "stop that"), tools=(WEATHER,)))
    assert told(pieces)[1] == "weather failed: no such city. You said: “stop that”"


@pytest.mark.parametrize(
    ("line", "tools", "words"),
    [
        ('call weather {"city": "Rome"}', (), "The tool weather is not offered; none is."),
        ("call snow", (WEATHER, ROUTE), "The tool snow is not offered; these are: route, weather."),
        ('call weather {"city": ', (WEATHER,), "I cannot read the arguments of weather"),
        ("call route Rome", (ROUTE,), "I cannot read the arguments of route"),
        ("call weather " + "[" * 100_000, (ROUTE, Tool(name="weather")), "I cannot read the arguments of weather"),
        ("call me when it is done", (WEATHER,), "You said: “call me when it is done”"),
    ],
)
def test_what_cannot_be_called_is_said(line: str, tools: tuple[Tool, ...], words: str) -> None:
    pieces = Offline().pieces(asked(line, tools=tools))
    assert told(pieces)[1].startswith(words)
    assert told(pieces)[2] == []


# ── by its script ──


def test_a_script_of_the_constructors_has_a_step_for_every_answer_of_a_conversation() -> None:
    model = Offline([Step(say="one"), Step(say="two")])
    one = model.pieces(asked("a"))
    two = model.pieces(asked("a", answered(one), "b"))
    rest = model.pieces(asked("a", answered(one), "b", answered(two), "c"))
    assert [told(pieces)[1] for pieces in (one, two)] == ["one", "two"]
    assert told(rest)[1].startswith("You said: “c”")


@pytest.mark.parametrize("written", [lambda steps: steps, json.dumps])
def test_a_script_in_the_metadata_has_a_step_for_every_answer_of_a_turn(written: Any) -> None:
    steps = [{"calls": [{"name": "weather", "arguments": {"city": "Rome"}, "id": "c1"}]}, {"say": "done"}]
    fields = {"metadata": {SCRIPT: written(steps)}}
    history = (user("earlier"), Said(role="assistant", blocks=(Text(text="yes"),)), user("now"))
    model = Offline([Step(say="not this")])
    one = model.pieces(asked(*history, **fields))
    assert told(one)[2] == [("weather", '{"city":"Rome"}')]
    two = model.pieces(asked(*history, answered(one), user(Result(call="c1")), **fields))
    assert told(two)[1] == "done"


def test_a_step_thinks_says_and_calls_in_this_order_in_pieces_of_its_size() -> None:
    step = Step(think="hmm", say="hello", calls=(Wanted(name="x", raw="{oops", id="c"),), split=2, usage=Usage(input=9))
    pieces = Offline([step]).pieces(asked("hi"))
    assert pieces[1:] == [
        BlockBegan(index=0, block=Thought()),
        Delta(index=0, thought="hm"),
        Delta(index=0, thought="m"),
        BlockEnded(index=0),
        BlockBegan(index=1, block=Text(text="")),
        Delta(index=1, text="he"),
        Delta(index=1, text="ll"),
        Delta(index=1, text="o"),
        BlockEnded(index=1),
        BlockBegan(index=2, block=Call(id="c", name="x")),
        Delta(index=2, json="{o"),
        Delta(index=2, json="op"),
        Delta(index=2, json="s"),
        BlockEnded(index=2),
        Ended(stop="tools", usage=Usage(input=9)),
    ]


def test_a_step_fails_at_once_or_in_the_middle() -> None:
    failed = Failed(type="overloaded_error", message="later")
    assert Offline([Step(fail="overloaded_error", message="later")]).pieces(asked("hi")) == [failed]
    pieces = Offline([Step(say="half", fail="overloaded_error", message="later")]).pieces(asked("hi"))
    assert told(pieces)[1] == "half"
    assert pieces[-1] == failed
    assert not any(isinstance(piece, Ended) for piece in pieces)


def test_a_step_says_why_it_stops() -> None:
    assert ended(Offline([Step(say="no", stop="refused")]).pieces(asked("hi"))).stop == "refused"


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([{"sai": "x"}], r"unknown field `sai` - at `\$\[0\]`"),
        ([{"say": 1}], r"at `\$\[0\]\.say`"),
        ([{"split": -1}], r"at `\$\[0\]\.split`"),
        ([{"stop": "bored"}], r"at `\$\[0\]\.stop`"),
        ("not json", "no script"),
        (b'["\xff"]', "no script"),
        (5, "no script"),
    ],
)
def test_a_script_that_is_none_is_refused_with_the_place(steps: Any, problem: str) -> None:
    with pytest.raises(BadScript, match=problem):
        script(steps)
    with pytest.raises(BadScript):
        Offline().pieces(Ask(model="offline", messages=(), metadata={SCRIPT: steps}))


# ── within its limits ──


@given(STEPS, st.none() | st.integers(0, 40), st.lists(st.sampled_from(["a", " ", "0", "\n", ""]), max_size=2))
def test_every_stream_is_well_formed_within_max_tokens_and_without_stop_sequences(
    step: Step, most: int | None, stops: list[str]
) -> None:
    ask = asked("hi", max_tokens=most, stop=tuple(stops))
    pieces = Offline([step]).pieces(ask)
    assert isinstance(pieces[0], Began)
    index, is_open = 0, False
    for piece in pieces[1:-1]:
        assert not isinstance(piece, Began | Ended | Failed)
        assert piece.index == index
        assert is_open is not isinstance(piece, BlockBegan)
        assert not isinstance(piece, Delta) or piece.text + piece.json + piece.thought
        is_open = not isinstance(piece, BlockEnded)
        index += isinstance(piece, BlockEnded)
    thought, words, calls = told(pieces)
    last = ended(pieces)
    assert not any(sequence and sequence in words for sequence in stops)
    assert step.think.startswith(thought)
    assert step.say.startswith(words)
    assert last.usage.input == estimate_ask(ask)
    assert most is None or last.usage.output <= most
    said = estimate(thought) + estimate(words) + sum(estimate(name) + estimate(text) for name, text in calls)
    assert said <= last.usage.output
    if last.stop not in ("length", "sequence"):
        assert (thought, words, len(calls)) == (step.think, step.say, len(step.calls))
        assert [json.loads(text) for _, text in calls] == [wanted.arguments for wanted in step.calls]
    assert (last.stop == "sequence") == bool(last.sequence)


def test_an_answer_breaks_off_where_max_tokens_is_reached() -> None:
    pieces = Offline([Step(say="one two three four", calls=(Wanted(name="x"),))]).pieces(asked("hi", max_tokens=2))
    assert told(pieces) == ("", "one two ", [])
    assert ended(pieces) == Ended(stop="length", usage=Usage(input=estimate_ask(asked("hi")), output=2))


def test_the_first_stop_sequence_that_is_met_ends_the_answer() -> None:
    step = Step(say="one two three", calls=(Wanted(name="x"),))
    pieces = Offline([step]).pieces(asked("hi", stop=("three", "two", "")))
    assert told(pieces) == ("", "one ", [])
    assert (ended(pieces).stop, ended(pieces).sequence) == ("sequence", "two")


def test_max_tokens_before_a_stop_sequence_is_why_it_stops() -> None:
    pieces = Offline([Step(say="one two three")]).pieces(asked("hi", stop=("three",), max_tokens=1))
    assert (ended(pieces).stop, ended(pieces).sequence) == ("length", "")


# ── and never surprises ──


@given(WORDS, st.dictionaries(st.sampled_from("abc"), st.integers()))
def test_the_same_ask_has_the_same_answer_to_the_byte(words: str, extra: dict[str, int]) -> None:
    one = asked(words, extra=extra, tools=(WEATHER,))
    other = msgspec.structs.replace(one, extra=dict(reversed(extra.items())))
    assert msgspec.json.encode(Offline().pieces(one)) == msgspec.json.encode(Offline().pieces(other))


def test_another_ask_has_another_id() -> None:
    one, other = Offline().pieces(asked("a"))[0], Offline().pieces(asked("b"))[0]
    assert isinstance(one, Began)
    assert isinstance(other, Began)
    assert one.id != other.id


def test_half_a_character_is_refused_as_the_callers_mistake() -> None:
    with pytest.raises(Invalid, match="half a character"):
        Offline().pieces(asked("\ud800"))
