"""Anthropic's Messages: what was read is written back, streams are told frame by frame, errors say where."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.anthropic import (
    PING,
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
    Foreign,
    Media,
    Result,
    Text,
    Thought,
    Usage,
)
from tests.core.talk.saying import CALL, OBJECTS, TEXT, UNKNOWN, WORDS, answers, events, heard

ASK: dict[str, Any] = {
    "model": "claude-opus-4-1",
    "max_tokens": 32000,
    "system": [
        {"type": "text", "text": "You are terse."},
        {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {"role": "system", "content": "Today is Monday."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "plain"},
                    "title": "Notes",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "aGlk"},
                {"type": "text", "text": "I look.", "citations": None},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}, "caller": {"type": "direct"}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "a cat"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [
                        {"type": "text", "text": "broken"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}},
                        {"type": "search_result", "source": "x", "title": "t", "content": []},
                    ],
                    "is_error": True,
                    "cache_control": {"type": "ephemeral"},
                },
            ],
        },
    ],
    "tools": [
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, "eager_input_streaming": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "temperature": 1,
    "top_p": 0.9,
    "stop_sequences": ["END"],
    "stream": True,
    "metadata": {"user_id": "u1"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "context_management": {"edits": []},
}
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-1",
    "content": [
        {"type": "text", "text": "Look:", "citations": [{"type": "char_location", "cited_text": "x"}]},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": [1, 2]}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 5,
        "output_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    },
    "container": None,
}
STREAM: list[tuple[str, dict[str, Any]]] = [
    (data["type"], data)
    for data in [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-4-1",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {
                    "input_tokens": 10,
                    "cache_creation_input_tokens": 3,
                    "cache_read_input_tokens": 5,
                    "output_tokens": 1,
                },
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look"}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"at"'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 5,
                "output_tokens": 9,
            },
        },
        {"type": "message_stop"},
    ]
]


def test_a_request_is_written_back_to_the_last_unknown_field() -> None:
    before = copy.deepcopy(ASK)
    assert ask_to(ask_from(ASK)) == ASK
    assert before == ASK, "reading changes nothing"


def test_a_request_is_understood_and_not_only_kept() -> None:
    ask = ask_from(ASK)
    assert [said.role for said in ask.messages] == ["system", "user", "assistant", "user"]
    spoken = ask.messages[2].blocks
    assert [block for block in spoken if isinstance(block, Call)] == [
        Call(id="t1", name="look", arguments={"at": 1}),
        Call(id="t2", name="look"),
    ]
    assert Thought(seal="aGlk") in spoken
    results = [block for block in ask.messages[3].blocks if isinstance(block, Result)]
    assert results[0] == Result(call="t1", content=(Text(text="a cat"),))
    assert results[1].failed
    assert results[1].cached
    assert Media(media_type="image/png", data=b"\0\1\2") in results[1].content
    assert Media(media_type="image/*", url="https://example.org/a.png") in ask.messages[1].blocks
    assert Media(media_type="text/plain", data=b"plain", name="Notes") in ask.messages[1].blocks
    assert (ask.system[0], ask.system[1].cached) == (Text(text="You are terse."), True)
    assert [tool.name for tool in ask.tools] == ["look", "web_search"]
    assert (ask.max_tokens, ask.stop, ask.stream, ask.metadata) == (32000, ("END",), True, {"user_id": "u1"})


BLOCK = (
    st.builds(lambda words, more: {"type": "text", "text": words, **more}, WORDS, UNKNOWN)
    | st.builds(
        lambda words, given, more: {"type": "tool_use", "id": words, "name": "n", "input": given, **more},
        WORDS,
        OBJECTS,
        UNKNOWN,
    )
    | st.builds(
        lambda words, seal, more: {"type": "thinking", "thinking": words, "signature": seal, **more},
        WORDS | st.just(""),
        WORDS,
        UNKNOWN,
    )
    | st.builds(lambda more: {"type": "redacted_thinking", "data": "d", **more}, UNKNOWN)
    | st.builds(lambda more: {"type": "never_heard_of", **more}, UNKNOWN)
    | st.builds(
        lambda inner, failed, more: {"type": "tool_result", "tool_use_id": "t", "content": inner, **failed, **more},
        st.lists(st.builds(lambda words, more: {"type": "text", "text": words, **more}, WORDS, UNKNOWN), min_size=2),
        st.sampled_from([{}, {"is_error": True}]),
        UNKNOWN,
    )
)
MESSAGE = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    st.sampled_from(["user", "assistant", "system"]),
    WORDS | st.lists(BLOCK, min_size=2, max_size=4),
    UNKNOWN,
)


@given(st.lists(MESSAGE, max_size=4), UNKNOWN)
def test_whatever_a_request_holds_comes_back(messages: list[Any], more: dict[str, Any]) -> None:
    document = {"model": "m", "max_tokens": 1, "messages": messages, **more}
    assert ask_to(ask_from(document)) == document


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAEC"}},
        {"type": "document", "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"}},
        {"type": "document", "source": {"type": "base64", "media_type": "audio/wav", "data": "AAEC"}},
        {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "AAEC"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org", "x_more": 1}},
    ],
)
def test_media_that_would_change_on_the_way_stay_as_they_were(block: dict[str, Any]) -> None:
    document = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block]}]}
    ask = ask_from(document)
    assert ask.messages[0].blocks == (Foreign(provider="anthropic", block=block),)
    assert ask_to(ask) == document


def test_an_answer_is_written_back_as_it_was() -> None:
    answer = answer_from(ANSWER)
    assert answer_to(answer) == ANSWER
    assert (answer.stop, answer.usage) == ("tools", Usage(input=10, output=7, cache_read=5, cache_write=3))
    assert Call(id="t1", name="look", arguments={"at": [1, 2]}) in answer.blocks


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("tool_use", "tools"),
        ("max_tokens", "length"),
        ("stop_sequence", "sequence"),
        ("refusal", "refused"),
        ("pause_turn", "paused"),
        ("model_context_window_exceeded", "window"),
        ("something_new", "end"),
    ],
)
def test_every_reason_to_stop_is_known_and_comes_back(reason: str, stop: str) -> None:
    answer = answer_from({**ANSWER, "stop_reason": reason})
    assert answer.stop == stop
    assert answer_to(answer)["stop_reason"] == reason


def test_a_stream_is_read_piece_by_piece() -> None:
    assert heard(Reading(), STREAM) == [
        Began(id="msg_1", model="claude-opus-4-1", usage=Usage(input=10, output=1, cache_read=5, cache_write=3)),
        BlockBegan(index=0, block=Thought()),
        Delta(index=0, thought="hm"),
        Delta(index=0, seal="c2ln"),
        BlockEnded(index=0),
        BlockBegan(index=1, block=Text(text="")),
        Delta(index=1, text="I "),
        Delta(index=1, text="look"),
        BlockEnded(index=1),
        BlockBegan(index=2, block=Call(id="t1", name="look")),
        Delta(index=2, json='{"at"'),
        Delta(index=2, json=":1}"),
        BlockEnded(index=2),
        Ended(stop="tools", usage=Usage(input=10, output=9, cache_read=5, cache_write=3)),
    ]


def test_a_stream_is_written_as_it_was_read() -> None:
    writing = Writing()
    frames = [frame for piece in heard(Reading(), STREAM) for frame in writing.written(piece)]
    assert events(frames) == [pair for pair in STREAM if pair[0] != "ping"]
    assert PING == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert frames[-1] == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def test_what_a_streamed_block_has_beyond_its_words_is_in_the_answer() -> None:
    start = {"type": "text", "text": "", "citations": []}
    cited = {"type": "citations_delta", "citation": {"cited_text": "x"}}
    used = {"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}}
    told: list[dict[str, Any]] = [
        STREAM[0][1],
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": cited},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": used},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    ]
    answer = folded(heard(Reading(), [(data["type"], data) for data in told]))
    assert answer_to(answer)["content"] == [{"type": "text", "text": "a", "citations": [{"cited_text": "x"}]}, used]
    assert answer.usage == Usage(input=10, output=2, cache_read=5, cache_write=3), "what is not told again stays"


def test_a_tool_that_the_provider_runs_streams_through() -> None:
    searching = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    pieces = [
        BlockBegan(index=0, block=Foreign(provider="anthropic", block=searching)),
        Delta(index=0, json='{"query":"q"}'),
        BlockEnded(index=0),
    ]
    writing = Writing()
    told = events([frame for piece in pieces for frame in writing.written(piece)])
    assert told[0][1] == {"type": "content_block_start", "index": 0, "content_block": searching}
    assert told[1][1]["delta"] == {"type": "input_json_delta", "partial_json": '{"query":"q"}'}
    again = folded(heard(Reading(), told))
    assert again.blocks == (Foreign(provider="anthropic", block={**searching, "input": {"query": "q"}}),)


THOUGHT = st.builds(Thought, text=WORDS, seal=WORDS) | st.builds(Thought, seal=WORDS)


@given(answers(TEXT, CALL, THOUGHT))
def test_an_answer_survives_being_streamed(answer: Answer) -> None:
    writing = Writing()
    frames = [frame for piece in pieces_of(answer) for frame in writing.written(piece)]
    assert folded(heard(Reading(), events(frames))) == answer


def test_a_stream_that_breaks_off_says_so() -> None:
    told = [*STREAM[:8], ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]
    failed = Failed(type="overloaded_error", message="Overloaded")
    assert heard(Reading(), told)[-1] == failed
    assert events(Writing().written(failed)) == [told[-1]]
    assert isinstance(heard(Reading(), STREAM[:8])[-1], Failed), "and one that just falls silent"


def test_errors_are_told_in_their_own_form() -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    assert error_to(429, "", "slow down") == error
    assert error_from(error) == Failed(type="rate_limit_error", message="slow down")
    assert error_to(418, "", "no")["error"]["type"] == "invalid_request_error"
    assert error_to(500, "", "no")["error"]["type"] == "api_error"
    assert error_to(500, "own_words", "no")["error"]["type"] == "own_words"


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
        ([], "body"),
        (changed("model"), "body.model"),
        (changed("model", to=3), "body.model"),
        (changed("messages"), "body.messages"),
        (changed("max_tokens"), "body.max_tokens"),
        (changed("max_tokens", to=True), "body.max_tokens"),
        (changed("max_tokens", to=-1), "body.max_tokens"),
        (changed("messages", to={}), "messages"),
        (changed("messages", 0, to="hi"), "messages[0]"),
        (changed("messages", 0, "role", to="tool"), "messages[0].role"),
        (changed("messages", 1, "content"), "messages[1].content"),
        (changed("messages", 1, "content", to=7), "messages[1].content"),
        (changed("messages", 1, "content", 0, "text"), "messages[1].content[0].text"),
        (changed("messages", 1, "content", 1, "source", "data", to="%"), "messages[1].content[1].source.data"),
        (changed("messages", 2, "content", 4, "input", to="{}"), "messages[2].content[4].input"),
        (changed("messages", 3, "content", 1, "is_error", to="yes"), "messages[3].content[1].is_error"),
        (changed("messages", 3, "content", 1, "content", 0, "text", to=None), "messages[3].content[1].content[0].text"),
        (changed("tools", 0, "input_schema"), "tools[0].input_schema"),
        (changed("stop_sequences", to=["a", 1]), "stop_sequences[1]"),
        (changed("temperature", to="hot"), "body.temperature"),
        (changed("system", to=3), "system"),
    ],
)
def test_a_bad_request_is_refused_and_told_where(document: Any, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask_from(document)
    assert caught.value.fields["where"] == where
    assert where in caught.value.message
