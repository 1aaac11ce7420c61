"""From one provider's form to another's: what is meant stays, and what only one understands goes nowhere else."""

from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.folding import folded, pieces_of
from perdure.core.talk.parts import Answer, Ask, Call, Foreign, Media, Result, Said, Text, Thought, Tool, Usage
from tests.core.talk.saying import NAMES, OBJECTS, TEXT, USAGE, WORDS, common, events, heard, said
from tests.core.talk.test_anthropic import ASK as ANTHROPIC
from tests.core.talk.test_chat import ASK as CHAT
from tests.core.talk.test_responses import ASK as RESPONSES

PROVIDERS = [anthropic, chat, responses]
READ = {anthropic: ANTHROPIC, chat: CHAT, responses: RESPONSES}
TALKS = [pytest.param(one, other, id=f"{one.__name__}-{other.__name__}") for one in PROVIDERS for other in PROVIDERS]
PICTURE = Media(media_type="image/png", data=b"\0\1\2")


def results(ask: Ask) -> list[tuple[str, str]]:
    """Which call got which words."""
    return [
        (block.call, "".join(part.text for part in block.content if isinstance(part, Text)))
        for message in ask.messages
        for block in message.blocks
        if isinstance(block, Result)
    ]


def calls(ask: Ask) -> list[Call]:
    return [block for message in ask.messages for block in message.blocks if isinstance(block, Call)]


def words(ask: Ask, *roles: str) -> list[str]:
    return [b.text for m in ask.messages if m.role in roles for b in m.blocks if isinstance(b, Text)]


WHOLE_CALL = st.builds(Call, id=NAMES, name=NAMES, arguments=OBJECTS)
TURN = st.builds(
    lambda text, calls, content: (
        said("assistant", *text, *calls),
        said("user", *(Result(call=call.id, content=content) for call in calls)),
    ),
    st.lists(TEXT, max_size=1),
    st.lists(WHOLE_CALL, min_size=1, max_size=3),
    st.lists(TEXT, min_size=1, max_size=2).map(tuple),
)
ASKS = st.builds(
    lambda question, turns, system, tools: Ask(
        model="m",
        messages=(said("user", question), *(message for turn in turns for message in turn)),
        system=tuple(system),
        tools=tuple(tools),
        max_tokens=7,
    ),
    TEXT,
    st.lists(TURN, max_size=3),
    st.lists(TEXT, max_size=1),
    st.lists(st.builds(Tool, name=NAMES, description=WORDS, schema=st.just({"type": "object"})), max_size=2),
).filter(lambda ask: all(text.strip() for text in words(ask, "user", "assistant")))
"""Asks made here. Texts without any words are not among them: Anthropic does not take those."""


@pytest.mark.parametrize("provider", PROVIDERS)
@given(ask=ASKS)
def test_an_ask_made_here_reads_the_same_wherever_it_was_written(provider: Any, ask: Ask) -> None:
    again = provider.ask_from(provider.ask_to(ask))
    tools = [msgspec.structs.replace(tool, foreign=None) for tool in again.tools]
    assert (again.messages, again.system, tuple(tools)) == (ask.messages, ask.system, ask.tools)
    assert again.max_tokens == 7


@pytest.mark.parametrize(("one", "other"), TALKS)
@given(ask=ASKS)
@settings(max_examples=25)
def test_an_ask_crosses_and_comes_back(one: Any, other: Any, ask: Ask) -> None:
    there = other.ask_from(other.ask_to(one.ask_from(one.ask_to(ask))))
    assert (there.messages, there.system) == (ask.messages, ask.system)


@pytest.mark.parametrize(("one", "other"), TALKS)
def test_real_requests_keep_their_calls_results_and_words(one: Any, other: Any) -> None:
    ask = one.ask_from(READ[one])
    if one is chat:
        ask = without_sound(ask)
    if other is not responses and one is not other:
        ask = without_addresses(ask)
    there = other.ask_from(other.ask_to(ask))
    assert [(call.id, call.name) for call in calls(there)] == [(call.id, call.name) for call in calls(ask)]
    assert [call for call, _ in results(there)] == [call for call, _ in results(ask)]
    for (_, before), (_, after) in zip(results(ask), results(there), strict=True):
        assert before in after
    for text in words(ask, "user", "assistant"):
        assert text in words(there, "user", "assistant")
    pictures = [b for m in ask.messages for b in m.blocks if isinstance(b, Media) and b.data == PICTURE.data]
    for picture in pictures:
        shown = [b for m in there.messages for b in m.blocks if isinstance(b, Media)]
        assert (picture.media_type, picture.data) in [(media.media_type, media.data) for media in shown]
    instructions = [block.text for block in ask.system if isinstance(block, Text)] + words(ask, "system")
    heard_there = " ".join(
        [block.text for block in there.system if isinstance(block, Text)] + words(there, "system", "user")
    )
    assert all(instruction in heard_there for instruction in instructions)


def keeping(ask: Ask, keep: Any) -> Ask:
    messages = tuple(Said(role=m.role, blocks=tuple(b for b in m.blocks if keep(b)), name=m.name) for m in ask.messages)
    return msgspec.structs.replace(ask, messages=messages)


def without_sound(ask: Ask) -> Ask:
    return keeping(ask, lambda block: not (isinstance(block, Media) and block.media_type.startswith("audio/")))


def without_addresses(ask: Ask) -> Ask:
    return keeping(ask, lambda b: not (isinstance(b, Media) and b.url and not b.media_type.startswith("image/")))


@pytest.mark.parametrize(("one", "other"), [pair for pair in TALKS if pair.values[0] is not pair.values[1]])
def test_nothing_that_only_one_provider_knows_reaches_another(one: Any, other: Any) -> None:
    ask = without_addresses(without_sound(one.ask_from(READ[one])))
    body = other.ask_to(ask)
    allowed = {"model", "messages", "input", "instructions", "system", "max_tokens", "max_completion_tokens"}
    allowed |= {"max_output_tokens", "temperature", "top_p", "stop", "stop_sequences", "stream", "stream_options"}
    allowed |= {"tools", "tool_choice", "parallel_tool_calls", "metadata"}
    if anthropic not in (one, other):
        allowed |= {"reasoning", "reasoning_effort", "text", "response_format", "verbosity"}
    assert set(body) <= allowed
    assert [tool for tool in body["tools"] if tool.get("type", "custom") not in ("custom", "function")] == []
    assert '"rest"' not in msgspec.json.encode(body).decode()
    assert "c2ln" not in msgspec.json.encode(body).decode(), "a seal is only for whoever sealed"


def test_chat_becomes_what_anthropic_takes() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
    body = anthropic.ask_to(
        chat.ask_from(
            {
                "model": "m",
                "messages": [
                    {"role": "developer", "content": "You are terse."},
                    {"role": "system", "content": "Today is Monday."},
                    {"role": "user", "content": "Look."},
                    {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "c2"}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
                    {"role": "tool", "tool_call_id": "c2", "content": "a dog"},
                    {"role": "system", "content": "Be kind."},
                ],
                "tools": [{"type": "function", "function": {"name": "look", "strict": True}}],
                "tool_choice": {"type": "function", "function": {"name": "look"}},
                "parallel_tool_calls": False,
                "temperature": 1.5,
                "seed": 7,
            }
        )
    )
    assert body == {
        "model": "m",
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "You are terse."}, {"type": "text", "text": "Today is Monday."}],
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}},
                    {"type": "tool_use", "id": "c2", "name": "look", "input": {"at": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a cat"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "a dog"},
                ],
            },
            {"role": "user", "content": "<system>\nBe kind.\n</system>"},
        ],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        "temperature": 1.0,
    }


def test_a_result_with_a_picture_becomes_words_and_a_message_that_shows_it() -> None:
    shown = Result(call="c", content=(Text(text="see"), PICTURE), failed=True)
    ask = Ask(model="m", messages=(said("user", Text(text="and now?"), shown),))
    assert chat.ask_to(ask)["messages"] == [
        {"role": "tool", "tool_call_id": "c", "content": "Error: see"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}},
                {"type": "text", "text": "and now?"},
            ],
        },
    ]
    assert responses.ask_to(ask)["input"] == [
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "Error:"},
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAEC"},
            ],
        },
        {"type": "message", "role": "user", "content": "and now?"},
    ]


@pytest.mark.parametrize(
    ("from_anthropic", "to_chat", "to_responses"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
            {"tool_choice": {"type": "function", "function": {"name": "look"}}, "parallel_tool_calls": False},
            {"tool_choice": {"type": "function", "name": "look"}, "parallel_tool_calls": False},
        ),
    ],
)
def test_which_tool_must_be_taken_is_told_to_everyone(
    from_anthropic: dict[str, Any], to_chat: dict[str, Any], to_responses: dict[str, Any]
) -> None:
    document = {"model": "m", "max_tokens": 1, "messages": [], "tools": [{"name": "look", "input_schema": {}}]}
    ask = anthropic.ask_from({**document, "tool_choice": from_anthropic})
    keys = ("tool_choice", "parallel_tool_calls")
    assert {key: value for key, value in chat.ask_to(ask).items() if key in keys} == to_chat
    assert {key: value for key, value in responses.ask_to(ask).items() if key in keys} == to_responses
    for there in (chat.ask_from(chat.ask_to(ask)), responses.ask_from(responses.ask_to(ask))):
        assert anthropic.ask_to(there)["tool_choice"] == from_anthropic


def test_a_thought_goes_back_only_to_whoever_thought_it() -> None:
    sealed = anthropic.ask_from(
        {
            "model": "m",
            "max_tokens": 1,
            "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
                {"role": "user", "content": "hi"},
            ],
        }
    )
    assert chat.ask_to(sealed)["messages"] == [{"role": "user", "content": "hi"}]
    assert responses.ask_to(sealed)["input"] == [{"type": "message", "role": "user", "content": "hi"}]
    reasoned = responses.ask_from(
        {"model": "m", "input": [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}]}
    )
    assert anthropic.ask_to(reasoned)["messages"] == []
    assert chat.ask_to(reasoned)["messages"] == []


def test_a_sound_that_cannot_be_sent_is_refused_and_not_left_out() -> None:
    ask = Ask(model="m", messages=(said("user", Media(media_type="audio/wav", data=b"x")),))
    for provider in (anthropic, responses):
        with pytest.raises(Invalid, match="no sound"):
            provider.ask_to(ask)
    with pytest.raises(Invalid, match="send its bytes"):
        chat.ask_to(Ask(model="m", messages=(said("user", Media(media_type="application/pdf", url="https://e.org")),)))


def test_what_a_user_sent_that_only_one_provider_knows_is_told_as_words() -> None:
    unknown = Foreign(provider="anthropic", block={"type": "search_result", "title": "t"})
    ask = Ask(model="m", messages=(said("user", unknown), said("assistant", unknown)))
    assert chat.ask_to(ask)["messages"] == [{"role": "user", "content": '{"type":"search_result","title":"t"}'}]


@pytest.mark.parametrize(("one", "other"), TALKS)
@given(blocks=st.builds(list.__add__, st.lists(TEXT, max_size=1), st.lists(WHOLE_CALL, max_size=2)), usage=USAGE)
@settings(max_examples=25)
def test_an_answer_crosses_whole_and_in_pieces(one: ModuleType, other: ModuleType, blocks: Any, usage: Usage) -> None:
    stop = "tools" if any(isinstance(block, Call) for block in blocks) else "end"
    answer = Answer(id="a", model="m", blocks=tuple(blocks), stop=stop, usage=usage)
    whole = other.answer_from(other.answer_to(one.answer_from(one.answer_to(answer))))
    assert (whole.stop, whole.usage) == (stop, usage)
    assert common(whole.blocks) == blocks
    writing = other.Writing(include_usage=True) if other is chat else other.Writing()
    frames = [frame for piece in pieces_of(one.answer_from(one.answer_to(answer))) for frame in writing.written(piece)]
    again = folded(heard(other.Reading(), events(frames)))
    assert (common(again.blocks), again.stop, again.usage) == (common(whole.blocks), stop, usage)


def test_what_anthropic_thought_aloud_is_shown_but_its_seal_is_not() -> None:
    answer = Answer(id="a", model="m", blocks=(Thought(text="hm", seal="s"), Text(text="so")))
    writing = responses.Writing()
    frames = [frame for piece in pieces_of(answer) for frame in writing.written(piece)]
    assert common(folded(heard(responses.Reading(), events(frames))).blocks) == [Thought(text="hm"), Text(text="so")]
    assert "encrypted_content" not in responses.answer_to(answer)["output"][0]


def test_arguments_that_are_no_object_cross_as_their_text() -> None:
    call = Call(id="c", name="n", raw="{broken")
    answer = Answer(id="a", model="m", blocks=(call,), stop="tools")
    assert anthropic.answer_to(answer)["content"][0]["input"] == {"raw": "{broken"}
    assert chat.answer_from(chat.answer_to(answer)).blocks == (call,)
    assert common(responses.answer_from(responses.answer_to(answer)).blocks) == [call]


def test_a_tool_that_was_not_strict_does_not_become_so() -> None:
    ask = Ask(model="m", messages=(), tools=(Tool(name="look", schema={"type": "object"}),))
    assert responses.ask_to(ask)["tools"] == [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    ]
