"""OpenAI's Responses: what was read is written back, streams are told event by event, errors say where."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.folding import folded, pieces_of
from perdure.core.talk.parts import (
    Answer,
    Began,
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
from perdure.core.talk.responses import (
    Reading,
    Writing,
    answer_from,
    answer_to,
    ask_from,
    ask_to,
    error_from,
    error_to,
)
from tests.core.talk.saying import CALL, TEXT, UNKNOWN, WORDS, answers, common, events, heard

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    "encrypted_content": "c2ln",
}
ASK: dict[str, Any] = {
    "model": "gpt-5",
    "instructions": "You are terse.",
    "input": [
        {"type": "message", "role": "developer", "content": "Today is Monday."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAEC", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAEC"},
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "I look", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "not there"},
            ],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "*** begin"},
        {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAEC"},
            ],
        },
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "done"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "message", "role": "assistant", "content": "A cat."},
        {"type": "message", "role": "assistant", "content": "Really."},
        {"type": "message", "role": "user", "content": "Why?"},
    ],
    "tools": [
        {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": True},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "function", "name": "look"},
    "max_output_tokens": 100,
    "temperature": 0.5,
    "top_p": 1,
    "stream": True,
    "metadata": {"k": "v"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low"},
}
ANSWER: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "model": "gpt-5",
    "output": [
        REASONING,
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"at":1}',
            "status": "completed",
        },
    ],
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "usage": {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 27,
    },
    "truncation": "disabled",
}


def told(*bodies: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(body["type"], {**body, "sequence_number": at}) for at, body in enumerate(bodies)]


MESSAGE = ANSWER["output"][1]
CALLED = ANSWER["output"][2]
PART = MESSAGE["content"][0]
STREAM = told(
    {"type": "response.created", "response": {**ANSWER, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.in_progress", "response": {**ANSWER, "status": "in_progress", "output": [], "usage": None}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "reasoning", "id": "rs_1", "summary": []},
    },
    {
        "type": "response.reasoning_summary_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 0,
        "delta": "a",
    },
    {
        "type": "response.reasoning_summary_text.delta",
        "item_id": "rs_1",
        "output_index": 0,
        "summary_index": 1,
        "delta": "b",
    },
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {**MESSAGE, "status": "in_progress", "content": []},
    },
    {
        "type": "response.content_part.added",
        "item_id": "msg_1",
        "output_index": 1,
        "content_index": 0,
        "part": {**PART, "text": ""},
    },
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 1,
        "content_index": 0,
        "delta": "I ",
        "logprobs": [],
    },
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 1,
        "content_index": 0,
        "delta": "look",
        "logprobs": [],
    },
    {
        "type": "response.output_text.done",
        "item_id": "msg_1",
        "output_index": 1,
        "content_index": 0,
        "text": "I look",
        "logprobs": [],
    },
    {
        "type": "response.content_part.done",
        "item_id": "msg_1",
        "output_index": 1,
        "content_index": 0,
        "part": PART,
    },
    {"type": "response.output_item.done", "output_index": 1, "item": MESSAGE},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {**CALLED, "arguments": "", "status": "in_progress"},
    },
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": '{"at":'},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2, "delta": "1}"},
    {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 2, "arguments": '{"at":1}'},
    {"type": "response.output_item.done", "output_index": 2, "item": CALLED},
    {"type": "response.completed", "response": ANSWER},
)
USAGE = Usage(input=13, output=7, cache_read=5, cache_write=2)


def test_a_request_is_written_back_to_the_last_unknown_field() -> None:
    before = copy.deepcopy(ASK)
    assert ask_to(ask_from(ASK)) == ASK
    assert before == ASK, "reading changes nothing"


def test_a_request_is_understood_and_not_only_kept() -> None:
    ask = ask_from(ASK)
    assert ask.system == (Text(text="You are terse."),)
    roles = ["system", "user", "assistant", "user", "assistant", "assistant", "user"]
    assert [message.role for message in ask.messages] == roles
    for media in (
        Media(media_type="image/png", data=b"\0\1\2"),
        Media(media_type="image/*", url="https://example.org/a.png"),
        Media(media_type="application/pdf", data=b"\0\1\2", name="a.pdf"),
        Media(media_type="application/pdf", url="https://example.org/a.pdf"),
    ):
        assert media in ask.messages[1].blocks
    assert common(ask.messages[2].blocks) == [
        Thought(text="a\n\nb", seal="c2ln"),
        Text(text="I look"),
        Text(text="not there"),
        Call(id="c1", name="look", arguments={"at": 1}),
        Call(id="c2", name="look"),
        Call(id="c3", name="patch", raw="*** begin"),
    ]
    assert [block for block in ask.messages[3].blocks if isinstance(block, Result)] == [
        Result(call="c1", content=(Text(text="a cat"),)),
        Result(call="c2", content=(Text(text="see"), Media(media_type="image/png", data=b"\0\1\2"))),
        Result(call="c3", content=(Text(text="done"),)),
    ]
    assert (ask.max_tokens, ask.stream, ask.metadata) == (100, True, {"k": "v"})


def test_a_sound_sent_as_a_file_stays_as_it_was() -> None:
    part = {"type": "input_file", "filename": "a.wav", "file_data": "data:audio/wav;base64,AAEC"}
    document = {"model": "m", "input": [{"type": "message", "role": "user", "content": [part]}]}
    assert ask_to(ask_from(document)) == document


def test_a_request_may_be_a_single_string() -> None:
    ask = ask_from({"model": "m", "input": "hi"})
    assert ask.messages[0].blocks == (Text(text="hi"),)
    assert ask_to(ask)["input"] == [{"type": "message", "role": "user", "content": "hi"}]
    assert ask_from({"model": "m", "previous_response_id": "resp_1"}).messages == ()


SPOKEN = st.builds(
    lambda text, more: {"type": "output_text", "text": text, "annotations": [], **more}, WORDS, UNKNOWN
) | st.builds(lambda text: {"type": "refusal", "refusal": text}, WORDS)
HEARD = st.builds(lambda text, more: {"type": "input_text", "text": text, **more}, WORDS, UNKNOWN) | st.builds(
    lambda more: {"type": "never_heard_of", **more}, UNKNOWN
)
ITEM = (
    st.builds(
        lambda role, content, more: {"type": "message", "role": role, "content": content, **more},
        st.sampled_from(["user", "system", "developer"]),
        WORDS | st.lists(HEARD, min_size=2, max_size=3),
        UNKNOWN,
    )
    | st.builds(
        lambda content, more: {"type": "message", "role": "assistant", "content": content, **more},
        WORDS | st.lists(SPOKEN, min_size=2, max_size=3),
        UNKNOWN,
    )
    | st.builds(
        lambda call, more: {"type": "function_call", "call_id": call, "name": "n", "arguments": "{}", **more},
        WORDS,
        UNKNOWN,
    )
    | st.builds(
        lambda call, text, kind, more: {"type": kind, "call_id": call, "output": text, **more},
        WORDS,
        WORDS,
        st.sampled_from(["function_call_output", "custom_tool_call_output"]),
        UNKNOWN,
    )
    | st.builds(
        lambda texts, more: {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in texts],
            **more,
        },
        st.lists(WORDS, max_size=2),
        UNKNOWN,
    )
    | st.builds(lambda kind, more: {"type": kind, **more}, st.sampled_from(["x_call", "x_call_output"]), UNKNOWN)
)


@given(st.lists(ITEM, max_size=6), UNKNOWN)
def test_whatever_a_request_holds_comes_back(items: list[Any], more: dict[str, Any]) -> None:
    document = {"model": "m", "input": items, **more}
    assert ask_to(ask_from(document)) == document


def test_an_answer_is_written_back_as_it_was() -> None:
    answer = answer_from(ANSWER)
    assert answer_to(answer) == ANSWER
    assert (answer.stop, answer.usage) == ("tools", USAGE)


@pytest.mark.parametrize(("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "refused")])
def test_an_answer_that_was_cut_off_says_why(reason: str, stop: Any) -> None:
    document = {**ANSWER, "status": "incomplete", "incomplete_details": {"reason": reason}}
    answer = answer_from(document)
    assert answer.stop == stop
    assert answer_to(answer) == document
    made = answer_to(Answer(id="r", model="m", blocks=(), stop=stop))
    assert (made["status"], made["incomplete_details"]) == ("incomplete", {"reason": reason})


def test_a_refusal_is_words_and_a_reason_to_stop() -> None:
    said = {**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}
    answer = answer_from({**ANSWER, "output": [said]})
    assert (common(answer.blocks), answer.stop) == ([Text(text="No.")], "refused")
    assert answer_to(answer) == {**ANSWER, "output": [said]}


def test_a_failure_is_no_answer() -> None:
    failed = {**ANSWER, "status": "failed", "error": {"code": "server_error", "message": "gone"}}
    with pytest.raises(Invalid) as caught:
        answer_from(failed)
    assert caught.value.fields["where"] == "answer.status"
    assert error_from(failed) == Failed(type="server_error", message="gone")
    assert error_to(400, "", "no")["error"]["type"] == "invalid_request_error"


def test_a_stream_is_read_piece_by_piece_and_makes_the_same_answer() -> None:
    pieces = heard(Reading(), STREAM)
    assert pieces[0] == Began(id="resp_1", model="gpt-5")
    assert pieces[-1] == Ended(stop="tools", usage=USAGE)
    assert [piece for piece in pieces if isinstance(piece, Delta)] == [
        Delta(index=0, thought="a"),
        Delta(index=0, thought="\n\n"),
        Delta(index=0, thought="b"),
        Delta(index=0, seal="c2ln"),
        Delta(index=2, text="I "),
        Delta(index=2, text="look"),
        Delta(index=4, json='{"at":'),
        Delta(index=4, json="1}"),
    ]
    assert folded(pieces).blocks == answer_from(ANSWER).blocks


def test_what_was_never_told_bit_by_bit_is_told_when_it_is_done() -> None:
    said = {"response.output_text.delta", "response.function_call_arguments.delta"}
    said |= {"response.reasoning_summary_text.delta", "response.content_part.added"}
    quiet = [pair for pair in STREAM if pair[0] not in said]
    assert common(folded(heard(Reading(), quiet)).blocks) == common(answer_from(ANSWER).blocks)


def test_a_stream_is_written_event_by_event() -> None:
    writing = Writing(created=1700000000)
    pieces = heard(Reading(), STREAM[:2] + STREAM[6:])
    written = events([frame for piece in pieces for frame in writing.written(piece)])
    kinds = [pair[0] for pair in STREAM[:2] + STREAM[6:]]
    assert [event for event, _ in written] == kinds
    assert [data["type"] for _, data in written] == kinds
    assert [data["sequence_number"] for _, data in written] == list(range(len(kinds)))
    assert written[-1][1]["response"]["usage"] == {**ANSWER["usage"], "output_tokens_details": {"reasoning_tokens": 0}}
    assert written[-1][1]["response"]["output"] == [
        {**MESSAGE, "id": "msg_resp_1_0"},
        {**CALLED, "id": "fc_resp_1_1"},
    ]
    for (_, mine), (_, theirs) in zip(written[2:-1], STREAM[6:-1], strict=True):
        assert set(mine) == set(theirs)
        assert [mine.get(key) for key in ("delta", "text", "arguments", "part")] == [
            theirs.get(key) for key in ("delta", "text", "arguments", "part")
        ]


@given(answers(TEXT, CALL, st.builds(Thought, text=WORDS)))
def test_an_answer_survives_being_streamed(answer: Answer) -> None:
    writing = Writing()
    frames = [frame for piece in pieces_of(answer) for frame in writing.written(piece)]
    again = folded(heard(Reading(), events(frames)))
    assert common(again.blocks) == list(answer.blocks)
    assert (again.id, again.model, again.stop, again.usage) == (answer.id, answer.model, answer.stop, answer.usage)


def test_a_stream_that_breaks_off_says_so() -> None:
    failed = Failed(type="server_error", message="gone")
    ((event, data),) = events(Writing().written(failed))
    assert (event, data["response"]["status"]) == ("response.failed", "failed")
    assert data["response"]["error"] == {"code": "server_error", "message": "gone"}
    assert heard(Reading(), [*STREAM[:9], (event, data)])[-1] == failed
    plain = {"type": "error", "code": "server_error", "message": "gone", "param": None, "sequence_number": 9}
    assert heard(Reading(), [*STREAM[:9], ("error", plain)])[-1] == failed
    assert isinstance(heard(Reading(), STREAM[:9])[-1], Failed), "and one that just falls silent"


def test_a_streamed_refusal_is_known() -> None:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "refusal", "refusal": "No."}
    stream = told(
        {"type": "response.content_part.added", **place, "part": {"type": "refusal", "refusal": ""}},
        {"type": "response.refusal.delta", **place, "delta": "No."},
        {"type": "response.output_item.done", "output_index": 0, "item": {**MESSAGE, "content": [part]}},
        {"type": "response.completed", "response": {**ANSWER, "output": []}},
    )
    answer = folded(heard(Reading(), stream))
    assert (common(answer.blocks), answer.stop) == ([Text(text="No.")], "refused")


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
        ("hi", "body"),
        (changed("model"), "body.model"),
        (changed("input"), "body.input"),
        (changed("input", to={}), "input"),
        (changed("input", 0, to=[]), "input[0]"),
        (changed("input", 0, "role", to="nobody"), "input[0].role"),
        (changed("input", 0, "content"), "input[0].content"),
        (changed("input", 1, "content", 0, "text"), "input[1].content[0].text"),
        (changed("input", 1, "content", 1, "image_url", to={"url": "u"}), "input[1].content[1].image_url"),
        (changed("input", 2, "summary", to="a"), "input[2].summary"),
        (changed("input", 4, "call_id"), "input[4].call_id"),
        (changed("input", 4, "arguments", to={}), "input[4].arguments"),
        (changed("input", 7, "output"), "input[7].output"),
        (changed("tools", 0, "name"), "tools[0].name"),
        (changed("tools", 0, "parameters", to=[]), "tools[0].parameters"),
        (changed("instructions", to=1), "body.instructions"),
        (changed("metadata", to="m"), "body.metadata"),
    ],
)
def test_a_bad_request_is_refused_and_told_where(document: Any, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask_from(document)
    assert caught.value.fields["where"] == where
    assert where in caught.value.message


def test_openais_own_types_take_what_is_written() -> None:
    types = pytest.importorskip("openai.types.responses")
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.ResponseStreamEvent)
    answer = Answer(
        id="r",
        model="m",
        blocks=(Thought(text="hm"), Text(text="I look"), Call(id="c", name="look", arguments={"at": 1})),
        stop="tools",
    )
    writing = Writing(created=1700000000)
    frames = [frame for piece in pieces_of(answer) for frame in writing.written(piece)]
    for event, data in events(frames):
        assert adapter.validate_python(data).type == event
    for _, data in events([*writing.written(Failed(type="server_error")), *writing.written(Ended(stop="length"))]):
        adapter.validate_python(data)
    types.Response.model_validate(answer_to(answer, created=1700000000))
