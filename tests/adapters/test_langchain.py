"""LangChain's messages and perdure's events say the same, in both directions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from perdure.adapters.parts.langchain import foreign_id, foreign_span, joins, message_of, payloads_of, plain
from perdure.adapters.parts.texts import all_text
from perdure.events import Message, ToolAsked, ToolFinished

texts = st.text(min_size=1, max_size=20)
ids = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, data, max_size=3)
calls = st.lists(
    st.builds(
        lambda id, name, args: {"type": "tool_call", "id": id, "name": name, "args": args}, ids, texts, arguments
    ),
    max_size=3,
    unique_by=lambda call: call["id"],
)
images = st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}) | st.just(
    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
)
blocks = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts) | images, min_size=1, max_size=3)
contents: Any = texts | blocks
messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(lambda content, name: HumanMessage(content, name=name), contents, st.none() | ids),
    st.builds(SystemMessage, contents),
    st.builds(lambda content, calls: AIMessage(content, tool_calls=calls), contents, calls),
    st.builds(lambda calls: AIMessage("", tool_calls=calls), calls.filter(bool)),
    st.builds(
        lambda text, id, bad: ToolMessage(text, tool_call_id=id, status=bad),
        texts,
        ids,
        st.sampled_from(["success", "error"]),
    ),
)


@given(messages)
def test_a_message_read_by_somebody_else_says_the_same(message: BaseMessage) -> None:
    read = message_of(payloads_of(message), "x")
    assert type(read) is type(message)
    assert read.content == all_text(message.content)  # what is all text is one text
    assert read.name == message.name
    assert getattr(read, "tool_calls", None) == getattr(message, "tool_calls", None)
    assert getattr(read, "status", None) == getattr(message, "status", None)
    assert getattr(read, "tool_call_id", None) == getattr(message, "tool_call_id", None)


@given(messages)
def test_a_message_becomes_plain_data(message: BaseMessage) -> None:
    for payload in payloads_of(message):
        body = payload.content if isinstance(payload, Message) else getattr(payload, "arguments", None)
        assert plain(body) == body


def test_calls_among_the_words_are_not_said_twice() -> None:
    words = [{"type": "text", "text": "so"}, {"type": "tool_use", "id": "c", "name": "look", "input": {}}]
    found = payloads_of(AIMessage(words, tool_calls=[{"id": "c", "name": "look", "args": {}}]))  # type: ignore[arg-type]
    assert [type(item) for item in found] == [Message, ToolAsked]
    assert isinstance(found[0], Message)
    assert found[0].content == "so"


def test_rare_messages_find_their_role() -> None:
    assert [
        payloads_of(message)[0].role  # type: ignore[union-attr]
        for message in (
            ChatMessage(content="a", role="assistant"),
            ChatMessage(content="a", role="critic"),
            FunctionMessage("a", name="f"),
        )
    ] == ["assistant", "user", "tool"]


def test_what_has_no_plain_form_is_shown_as_text() -> None:
    odd = {1: float("inf"), "big": 2**70, "set": {1}, "lone": "\ud800", "pair": (1, 2.5)}
    assert plain(odd) == {"1": "inf", "big": str(2**70), "set": "{1}", "lone": "?", "pair": [1, 2.5]}


def test_results_and_calls_of_others_become_messages() -> None:
    asked = [Message(role="assistant", content="so"), ToolAsked(call="c", name="look", arguments='{"a": 1}')]
    assert joins(asked[:1], asked[1:], together=False)
    assert not joins(asked[:1], asked[:1], together=False)
    assert joins(asked[:1], asked[:1], together=True)
    assert not joins(asked, [ToolFinished(call="c")], together=True)
    found = message_of(asked, "x")
    assert isinstance(found, AIMessage)
    assert found.tool_calls[0]["args"] == {"a": 1}
    lone = Message(
        role="tool", content=[{"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}]
    )
    read = message_of([lone], "x")
    assert isinstance(read, ToolMessage)
    assert (read.status, read.tool_call_id, read.content) == ("error", "c", "no")
    told = message_of([ToolFinished(call="c", result={"sky": "blue"})], "x")
    assert told.content == '{"sky": "blue"}'


def test_the_id_of_a_translated_message_names_its_events() -> None:
    assert foreign_span(foreign_id(3, 12)) == (3, 12)
    assert foreign_span("perdure-3") is None
    assert foreign_span(None) is None
