"""Fingerprints: the same ask has one, whatever changes no answer; another ask or another scope has another."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.fingerprints import (
    QUESTION,
    Scope,
    fingerprint,
    is_keepable,
    is_sampled,
    question,
    self_contained,
)
from perdure.core.talk.parts import Answer, Ask, Block, Call, Foreign, Media, Result, Said, Text, Thought, Tool
from perdure.core.talk.wire import rest
from tests.core.talk.saying import CALL, NAMES, OBJECTS, TEXT, UNKNOWN, said

SCOPE = Scope(tenant="t", access="ann", provider="p")
TOOL = Tool(name="look", schema={"type": "object"})
ASK = Ask(
    model="m",
    system=(Text(text="be brief"),),
    messages=(said("user", Text(text="hello")), said("assistant", Text(text="hi")), said("user", Text(text="Rome?"))),
    tools=(TOOL,),
    max_tokens=100,
    temperature=0,
    top_p=1.0,
    stop=("END",),
    extra={"anthropic": {"thinking": {"type": "enabled"}}},
)
_replace = msgspec.structs.replace


def of(ask: Ask, scope: Scope = SCOPE) -> bytes | None:
    return fingerprint(scope, ask)


def marked(block: Any) -> Any:
    found = _replace(block, cached=True)
    return _replace(found, content=tuple(map(marked, block.content))) if isinstance(block, Result) else found


BLOCKS: st.SearchStrategy[Block] = st.one_of(
    TEXT,
    CALL,
    st.builds(lambda call, text: Result(call=call, content=(text,)), NAMES, TEXT),
    st.builds(lambda block: Foreign(provider="anthropic", block={"type": "odd", **block}), UNKNOWN),
)
ASKS = st.builds(
    lambda messages, tools, extra: Ask(model="m", messages=tuple(messages), tools=tuple(tools), extra={"chat": extra}),
    st.lists(
        st.builds(lambda role, blocks: said(role, *blocks), st.sampled_from(["user", "assistant"]), st.lists(BLOCKS)),
        max_size=3,
    ),
    st.lists(st.builds(Tool, name=NAMES, schema=OBJECTS), max_size=2),
    UNKNOWN,
)


@given(ASKS)
def test_marks_for_caches_streaming_and_who_the_user_is_change_nothing(ask: Ask) -> None:
    messages = tuple(_replace(message, blocks=tuple(map(marked, message.blocks))) for message in ask.messages)
    other = _replace(
        ask,
        messages=messages,
        tools=tuple(_replace(tool, cached=True) for tool in ask.tools),
        stream=True,
        metadata={"user_id": "bob"},
        extra={name: {**told, "user": "bob", "stream_options": {}} for name, told in ask.extra.items()},
    )
    assert of(other) == of(ask) is not None


@given(ASKS, ASKS)
def test_two_asks_have_one_fingerprint_only_if_they_ask_the_same(one: Ask, other: Ask) -> None:
    assert (of(one) == of(other)) is (plain(one) == plain(other))


def plain(ask: Ask) -> Any:
    told = _replace(ask, extra={name: document for name, document in ask.extra.items() if document})
    return msgspec.json.encode(told, order="deterministic")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"system": ()},
        {"messages": ASK.messages[:1]},
        {"messages": (*ASK.messages[:2], said("user", Text(text="Rome")))},
        {"messages": (*ASK.messages[:2], _replace(ASK.messages[2], name="ann"))},
        {"messages": (*ASK.messages[:2], said("system", Text(text="Rome?")))},
        {"tools": ()},
        {"tools": (_replace(TOOL, description="see"),)},
        {"tools": (_replace(TOOL, foreign={"anthropic": {"strict": True}}),)},
        {"max_tokens": None},
        {"temperature": None},
        {"temperature": 0.5},
        {"top_p": None},
        {"stop": ()},
        {"extra": {}},
        {"extra": {"anthropic": {"thinking": None}}},
    ],
)
def test_whatever_may_change_the_answer_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert of(_replace(ASK, **change)) != of(ASK)


@pytest.mark.parametrize("change", [{"tenant": "u"}, {"access": "bob"}, {"provider": "q"}])
def test_another_scope_is_another_fingerprint(change: dict[str, str]) -> None:
    other = _replace(SCOPE, **change)
    assert of(ASK, other) != of(ASK)
    one, two = question(SCOPE, ASK), question(other, ASK)
    assert one is not None
    assert two is not None
    assert one.frame != two.frame


def test_parts_of_a_scope_do_not_run_into_each_other() -> None:
    assert of(ASK, Scope(tenant="a", access="bc", provider="p")) != of(
        ASK, Scope(tenant="ab", access="c", provider="p")
    )


@pytest.mark.parametrize("mark", [{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
def test_a_mark_of_any_length_is_no_difference_in_a_real_request(mark: dict[str, str]) -> None:
    def body(*more: tuple[str, Any]) -> dict[str, Any]:
        block = {"type": "text", "text": "hello", **dict(more)}
        odd = {"type": "search_result", "content": [{"type": "text", "text": "x", **dict(more)}], **dict(more)}
        tool = {"name": "look", "input_schema": {"type": "object"}, **dict(more)}
        message = {"role": "user", "content": [block, odd]}
        return {"model": "m", "max_tokens": 5, "system": [block], "messages": [message], "tools": [tool]}

    assert of(anthropic.ask_from(body(("cache_control", mark)))) == of(anthropic.ask_from(body()))


def test_the_same_ask_in_another_wire_form_is_the_same() -> None:
    message = {"role": "user", "content": "hello"}
    asks = [
        anthropic.ask_from({"model": "m", "max_tokens": 5, "messages": [message]}),
        chat.ask_from({"model": "m", "max_completion_tokens": 5, "messages": [message], "user": "bob"}),
        responses.ask_from({"model": "m", "max_output_tokens": 5, "input": "hello"}),
    ]
    assert len({of(ask) for ask in asks}) == 1


@pytest.mark.parametrize("odd", [Text(text="\ud800"), Call(id="a", name="b", arguments={"n": object()})])
def test_what_has_no_canonical_form_has_no_fingerprint(odd: Block) -> None:
    ask = _replace(ASK, messages=(said("assistant", odd), said("user", Text(text="so?"))))
    assert of(ask) is None
    assert question(SCOPE, ask) is None


def test_documents_without_a_bottom_have_no_fingerprint() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    ask = _replace(ASK, messages=(said("user", Foreign(provider="anthropic", block={"type": "odd", "x": deep})),))
    assert of(ask) is None


# ── questions ──


def asked(text: str, **change: Any) -> Any:
    return question(SCOPE, _replace(ASK, **{"messages": (*ASK.messages[:2], said("user", Text(text=text)))} | change))


def test_questions_after_the_same_history_share_a_frame() -> None:
    one, other = asked("Where is Rome?"), asked("and Oslo")
    assert (one.text, other.text) == ("Where is Rome?", "and Oslo")
    assert one.frame == other.frame


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"system": ()},
        {"tools": ()},
        {"max_tokens": 7},
        {"temperature": None},
        {"messages": (said("user", Text(text="hello")), said("user", Text(text="Rome?")))},
        {"messages": (*ASK.messages[:2], said("user", Text(text="Rome?"), *rest("anthropic", {"citations": True})))},
    ],
)
def test_with_anything_else_changed_the_frame_is_another(change: dict[str, Any]) -> None:
    assert asked("Rome?", **change).frame != asked("Rome?").frame


@pytest.mark.parametrize("other", ["What is 2 + 3?", "What is 2 +?", "What is two + 2?", "What is 22?"])
def test_figures_that_differ_are_another_frame(other: str) -> None:
    assert asked(other).frame != asked("What is 2 + 2?").frame
    assert asked("what is (2 + 2)").frame == asked("What is 2 + 2?").frame


@pytest.mark.parametrize(
    "message",
    [
        said("assistant", Text(text="x")),
        said("user", Text(text=" ")),
        said("user", Text(text="x" * (QUESTION + 1))),
        said("user", Text(text="x"), Media(media_type="image/png", data=b"1")),
        said("user", Result(call="a"), Text(text="x")),
    ],
)
def test_only_short_words_of_the_user_are_a_question(message: Said) -> None:
    assert question(SCOPE, _replace(ASK, messages=(message,))) is None
    assert question(SCOPE, _replace(ASK, messages=())) is None


# ── what may be kept ──


@pytest.mark.parametrize(
    "extra", ["previous_response_id", "conversation", "mcp_servers", "container", "logprobs", "web_search_options"]
)
def test_an_ask_that_is_not_all_there_is_to_it_is_told_apart(extra: str) -> None:
    assert self_contained(ASK)
    assert not self_contained(_replace(ASK, extra={"anthropic": {extra: {"x": 1}}}))
    assert self_contained(_replace(ASK, extra={"anthropic": {extra: None}}))


@pytest.mark.parametrize(
    "block",
    [
        Media(media_type="image/png", url="https://example.org/x.png"),
        Foreign(provider="anthropic", block={"type": "document", "source": {"type": "url", "url": "x"}}),
        Foreign(provider="openai-responses", block={"type": "input_file", "file_id": "f"}),
        Result(call="a", content=(Media(media_type="image/png", url="https://example.org/x.png"),)),
    ],
)
def test_what_the_provider_fetches_is_not_in_the_ask(block: Block) -> None:
    assert not self_contained(_replace(ASK, messages=(said("user", block),)))
    assert self_contained(_replace(ASK, messages=(said("user", Media(media_type="image/png", data=b"1")),)))


def test_several_answers_to_one_ask_are_not_kept() -> None:
    assert [self_contained(_replace(ASK, extra={"openai-chat": {"n": n}})) for n in (None, 1, 2)] == [True, True, False]


def test_only_a_temperature_above_zero_wants_answers_that_differ() -> None:
    assert [is_sampled(_replace(ASK, temperature=value)) for value in (None, 0, 0.0, 0.1, 1)] == [
        False,
        False,
        False,
        True,
        True,
    ]


def answer(*blocks: Block, stop: Any = "end") -> Answer:
    return Answer(id="a", model="m", blocks=blocks, stop=stop)


@pytest.mark.parametrize(
    ("found", "keepable"),
    [
        (answer(Text(text="Rome")), True),
        (answer(Thought(text="hm"), Text(text="Rome"), *rest("anthropic", {"citations": None})), True),
        (answer(Text(text="Rome"), stop="sequence"), True),
        (answer(), False),
        (answer(Text(text=" ")), False),
        (answer(Text(text="Let me see"), Call(id="a", name="look")), False),
        (answer(Text(text="Rome"), Foreign(provider="anthropic", block={"type": "server_tool_use"})), False),
        *((answer(Text(text="Rome"), stop=stop), False) for stop in ("tools", "length", "refused", "paused", "window")),
    ],
)
def test_only_whole_answers_in_words_are_kept(found: Answer, keepable: bool) -> None:
    assert is_keepable(found) is keepable
