"""OpenAI's Chat Completions: what was read is written back, streams are told chunk by chunk, errors say where."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.chat import (
    DONE,
    Reading,
    Writing,
    answer_from,
    answer_to,
    ask_from,
    ask_to,
    error_from,
    error_to,
)
from perdure.core.talk.folding import folded, pieces_of
from perdure.core.talk.parts import (
    Answer,
    Began,
    BlockBegan,
    BlockEnded,
    Call,
    Delta,
    Ended,
    Failed,
    Media,
    Result,
    Text,
    Thought,
    Usage,
)
from tests.core.talk.saying import CALL, UNKNOWN, WORDS, answers, common, events, heard

ASK: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "developer", "content": "You are terse."},
        {"role": "system", "content": "Today is Monday."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAEC"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{broken"}},
                {"id": "c3", "type": "custom", "custom": {"name": "patch", "input": "*** begin"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"role": "tool", "tool_call_id": "c3", "content": "done", "name": "patch"},
        {"role": "assistant", "content": None, "refusal": "I will not."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Why?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": True},
        },
        {"type": "custom", "custom": {"name": "patch"}},
    ],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_completion_tokens": 100,
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["END"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "metadata": {"k": "v"},
    "reasoning_effort": "low",
    "logit_bias": {"50256": -100},
}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-4.1-2025-04-14",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "I look.",
                "refusal": None,
                "annotations": [],
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 20,
        "completion_tokens": 7,
        "total_tokens": 27,
        "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return "", {**HEAD, "choices": [choice], "usage": None, **more}


HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-4.1"}
STREAM: list[tuple[str, Any]] = [
    chunk({"role": "assistant", "content": "", "refusal": None}),
    chunk({"content": "I "}),
    chunk({"content": "look"}),
    chunk(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}]}
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"at"'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
    chunk(
        {"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "peek", "arguments": ""}}]}
    ),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
    (
        "",
        {
            **HEAD,
            "choices": [],
            "usage": {
                "prompt_tokens": 20,
                "completion_tokens": 7,
                "total_tokens": 27,
                "prompt_tokens_details": {"cached_tokens": 5},
            },
        },
    ),
    ("", "[DONE]"),
]


def test_a_request_is_written_back_to_the_last_unknown_field() -> None:
    before = copy.deepcopy(ASK)
    assert ask_to(ask_from(ASK)) == ASK
    assert before == ASK, "reading changes nothing"


def test_a_request_is_understood_and_not_only_kept() -> None:
    ask = ask_from(ASK)
    assert Text(text="You are terse.") in ask.system
    assert [message.role for message in ask.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "system",
        "user",
    ]
    assert ask.messages[1].name == "ann"
    for media in (
        Media(media_type="image/png", data=b"\0\1\2"),
        Media(media_type="image/*", url="https://example.org/a.png"),
        Media(media_type="audio/wav", data=b"\0\1\2"),
        Media(media_type="application/pdf", data=b"\0\1\2", name="a.pdf"),
    ):
        assert media in ask.messages[1].blocks
    assert common(ask.messages[2].blocks) == [
        Thought(text="hm"),
        Call(id="c1", name="look", arguments={"at": 1}),
        Call(id="c2", name="look", raw="{broken"),
        Call(id="c3", name="patch", raw="*** begin"),
    ]
    assert [block for block in ask.messages[3].blocks if isinstance(block, Result)] == [
        Result(call="c1", content=(Text(text="a cat"),)),
        Result(call="c2", content=(Text(text="a"), Text(text="b"))),
        Result(call="c3", content=(Text(text="done"),)),
    ]
    assert common(ask.messages[4].blocks) == [Text(text="I will not.")]
    assert (ask.max_tokens, ask.stop, ask.stream) == (100, ("END",), True)


def test_the_limit_goes_back_under_the_name_it_came_with() -> None:
    old = {"model": "m", "messages": [], "max_tokens": 5}
    assert ask_to(ask_from(old)) == old
    assert ask_to(ask_from({**old, "max_completion_tokens": 3})) == {
        "model": "m",
        "messages": [],
        "max_completion_tokens": 3,
    }
    assert ask_to(ask_from({**old, "stop": "END"}))["stop"] == ["END"]


PART = st.builds(lambda words, more: {"type": "text", "text": words, **more}, WORDS, UNKNOWN) | st.builds(
    lambda more: {"type": "never_heard_of", **more}, UNKNOWN
)
CONTENT = WORDS | st.lists(PART, min_size=2, max_size=3)
MESSAGE = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    st.sampled_from(["user", "assistant", "system", "developer"]),
    CONTENT,
    UNKNOWN,
) | st.builds(
    lambda call, content, more: {"role": "tool", "tool_call_id": call, "content": content, **more},
    WORDS,
    CONTENT,
    UNKNOWN,
)


@given(st.lists(MESSAGE, max_size=5), UNKNOWN)
def test_whatever_a_request_holds_comes_back(messages: list[Any], more: dict[str, Any]) -> None:
    document = {"model": "m", "messages": messages, **more}
    assert ask_to(ask_from(document)) == document


@pytest.mark.parametrize(
    "text",
    ['{"a": 12345678901234567890123}', '{"a": 1.0}', '{"a": 1e400}', "[1]", '"a"', "NaN", '{"a":"\\ud800"}', "{"],
)
def test_arguments_say_the_same_whatever_they_are(text: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "n", "arguments": text}}
    document = {"model": "m", "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    again = ask_to(ask_from(document))["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert again.replace(" ", "") == text.replace(" ", "")


def test_an_answer_is_written_back_as_it_was() -> None:
    answer = answer_from(ANSWER)
    assert answer_to(answer) == ANSWER
    assert (answer.stop, answer.usage) == ("tools", Usage(input=15, output=7, cache_read=5))
    assert common(answer.blocks) == [
        Text(text="I look."),
        Call(id="c1", name="look", arguments={"at": 1}),
        Call(id="c2", name="look"),
    ]


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "end"), ("length", "length"), ("content_filter", "refused"), ("tool_calls", "tools")]
)
def test_every_reason_to_stop_is_known_and_comes_back(reason: str, stop: str) -> None:
    document = copy.deepcopy(ANSWER)
    document["choices"][0]["finish_reason"] = reason
    del document["choices"][0]["message"]["tool_calls"]
    answer = answer_from(document)
    assert answer.stop == stop
    assert answer_to(answer) == document


def test_a_server_that_calls_tools_and_says_stop_is_understood() -> None:
    document = copy.deepcopy(ANSWER)
    document["choices"][0]["finish_reason"] = "stop"
    answer = answer_from(document)
    assert answer.stop == "tools"
    assert answer_to(answer) == document


def test_a_refusal_is_words_and_a_reason_to_stop() -> None:
    document = copy.deepcopy(ANSWER)
    document["choices"][0] = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "refusal": "No."},
        "logprobs": None,
        "finish_reason": "stop",
    }
    answer = answer_from(document)
    assert (common(answer.blocks), answer.stop) == ([Text(text="No.")], "refused")
    assert answer_to(answer) == document


def test_a_stream_is_read_piece_by_piece() -> None:
    assert heard(Reading(), STREAM) == [
        Began(id="chatcmpl-1", model="gpt-4.1"),
        BlockBegan(index=0, block=Text(text="")),
        Delta(index=0, text="I "),
        Delta(index=0, text="look"),
        BlockEnded(index=0),
        BlockBegan(index=1, block=Call(id="c1", name="look")),
        Delta(index=1, json='{"at"'),
        Delta(index=1, json=":1}"),
        BlockBegan(index=2, block=Call(id="c2", name="peek")),
        Delta(index=2, json="{}"),
        BlockEnded(index=1),
        BlockEnded(index=2),
        Ended(stop="tools", usage=Usage(input=15, output=7, cache_read=5)),
    ]


def test_a_stream_is_written_as_it_was_read() -> None:
    writing = Writing(created=1700000000, include_usage=True)
    frames = [frame for piece in heard(Reading(), STREAM) for frame in writing.written(piece)]
    assert events(frames) == STREAM
    assert frames[-1] == DONE == b"data: [DONE]\n\n"


def test_usage_is_told_only_to_those_who_asked() -> None:
    writing = Writing()
    frames = [frame for piece in heard(Reading(), STREAM) for frame in writing.written(piece)]
    assert not [data for _, data in events(frames) if "usage" in data]


def test_calls_that_share_an_index_are_kept_apart_by_their_ids() -> None:
    calls = [
        {"id": call, "function": {"name": "look", "arguments": f'{{"at":"{call}"}}'}, **where}
        for call, where in [("a", {"index": 0}), ("b", {"index": 0}), ("c", {})]
    ]
    told = [chunk({"tool_calls": [call]}) for call in calls]
    answer = folded(heard(Reading(), [*told, chunk({}, "stop")]))
    assert answer.blocks == tuple(Call(id=name, name="look", arguments={"at": name}) for name in "abc")
    assert answer.stop == "tools"


def test_fragments_of_calls_may_come_in_any_order() -> None:
    begun = [
        {"index": at, "id": name, "type": "function", "function": {"name": name, "arguments": ""}}
        for at, name in enumerate("ab")
    ]
    more = [{"index": at, "function": {"arguments": text}} for text in ('{"k":', "1}") for at in (1, 0)]
    answer = folded(heard(Reading(), [chunk({"tool_calls": [item]}) for item in begun + more] + [chunk({}, "stop")]))
    assert answer.blocks == tuple(Call(id=name, name=name, arguments={"k": 1}) for name in "ab")


def test_thoughts_and_refusals_stream_too() -> None:
    told = [chunk({"reasoning_content": "h"}), chunk({"reasoning": "m"}), chunk({"refusal": "No."}), chunk({}, "stop")]
    answer = folded(heard(Reading(), told))
    assert (common(answer.blocks), answer.stop) == ([Thought(text="hm"), Text(text="No.")], "refused")
    assert answer_to(answer)["choices"][0]["message"]["refusal"] == "No."


ONE_TEXT = st.builds(
    lambda text, calls: (*([Text(text=text)] if text else []), *calls), WORDS | st.just(""), st.lists(CALL, max_size=3)
)


@given(answers(CALL), ONE_TEXT)
def test_an_answer_survives_being_streamed(answer: Answer, blocks: Any) -> None:
    stop = "tools" if any(isinstance(block, Call) for block in blocks) else "end"
    answer = Answer(id=answer.id, model=answer.model, blocks=blocks, stop=stop, usage=answer.usage)
    writing = Writing(include_usage=True)
    frames = [frame for piece in pieces_of(answer) for frame in writing.written(piece)]
    assert folded(heard(Reading(), events(frames))) == answer


def test_a_stream_that_breaks_off_says_so() -> None:
    failed = Failed(type="server_error", message="gone")
    told = events(Writing().written(failed))
    assert told == [("", {"error": {"message": "gone", "type": "server_error", "param": None, "code": None}})]
    assert heard(Reading(), [*STREAM[:3], *told])[-1] == failed
    assert isinstance(heard(Reading(), STREAM[:3])[-1], Failed), "and one that just falls silent"


def test_errors_are_told_in_their_own_form() -> None:
    error = {
        "error": {"message": "slow", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"},
    }
    assert error_to(429, "", "slow") == error
    assert error_from(error) == Failed(type="rate_limit_error", message="slow")
    assert error_to(404, "", "no")["error"]["type"] == "invalid_request_error"
    assert error_to(500, "", "no")["error"]["type"] == "server_error"


def changed(*path: Any, to: Any = ...) -> dict[str, Any]:
    document: Any = copy.deepcopy(ASK)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    if to is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return dict(document)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (None, "body"),
        (changed("model"), "body.model"),
        (changed("messages"), "body.messages"),
        (changed("messages", to="hi"), "messages"),
        (changed("messages", 2, to=1), "messages[2]"),
        (changed("messages", 2, "role"), "messages[2].role"),
        (changed("messages", 2, "role", to="nobody"), "messages[2].role"),
        (changed("messages", 2, "content"), "messages[2].content"),
        (changed("messages", 2, "content", to=None), "messages[2].content"),
        (changed("messages", 2, "content", 0, "text", to=1), "messages[2].content[0].text"),
        (changed("messages", 2, "content", 1, "image_url", to="u"), "messages[2].content[1].image_url"),
        (
            changed("messages", 2, "content", 1, "image_url", "url", to="data:image/png;base64,%"),
            "messages[2].content[1].image_url.url",
        ),
        (changed("messages", 3, "tool_calls", 0, "id"), "messages[3].tool_calls[0].id"),
        (
            changed("messages", 3, "tool_calls", 0, "function", "arguments", to={}),
            "messages[3].tool_calls[0].function.arguments",
        ),
        (changed("messages", 4, "tool_call_id"), "messages[4].tool_call_id"),
        (changed("tools", 0, "function"), "tools[0].function"),
        (changed("max_completion_tokens", to="many"), "body.max_completion_tokens"),
        (changed("stop", to=[1]), "stop[0]"),
        (changed("stream", to=1), "body.stream"),
    ],
)
def test_a_bad_request_is_refused_and_told_where(document: Any, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask_from(document)
    assert caught.value.fields["where"] == where
    assert where in caught.value.message


def test_openais_own_types_take_what_is_written() -> None:
    types = pytest.importorskip("openai.types.chat")
    writing = Writing(created=1700000000, include_usage=True)
    frames = [frame for piece in heard(Reading(), STREAM) for frame in writing.written(piece)]
    for _, data in events(frames)[:-1]:
        types.ChatCompletionChunk.model_validate(data, strict=True)
    types.ChatCompletion.model_validate(answer_to(folded(heard(Reading(), STREAM))), strict=True)
