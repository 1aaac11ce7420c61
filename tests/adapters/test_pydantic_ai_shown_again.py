"""Entries of Pydantic AI that are shown again: what the log still says of them is read, whatever became of the place
where they were written first.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import perdure
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.pydantic_ai import PerdureConversationStore
from perdure.events import Message, ToolAsked


@pytest.fixture
async def db() -> AsyncIterator[perdure.AsyncPerdure]:
    async with await perdure.aopen(":memory:", seal=False) as opened:
        yield opened


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answered(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def words(messages: list[ModelMessage]) -> list[Any]:
    return [getattr(message.parts[0], "content", None) for message in messages]


async def loaded(db: perdure.AsyncPerdure, name: str = "trip", limit: int | None = None) -> list[ModelMessage]:
    found = await PerdureConversationStore(db).load(name, limit=limit)
    return [] if found is None else found.messages


async def branched(db: perdure.AsyncPerdure, at: int, *messages: ModelMessage, name: str = "trip") -> Conversation:
    """Go back to a place of the line that is shown, and say something else from there."""
    store = PerdureConversationStore(db)
    now = await store.load(name)
    assert now is not None
    found = await store.branch(name, at=at, expected_revision=now.revision)
    found.messages = [*found.messages, *messages]
    await store.save(found)
    return found


async def begun(db: perdure.AsyncPerdure, *messages: ModelMessage) -> None:
    await PerdureConversationStore(db).save(Conversation(conversation_id="trip", messages=list(messages)))


async def first_of(db: perdure.AsyncPerdure, text: str) -> int:
    """The version of the message that said something first."""
    events = await db.named("trip").events()
    return next(event.version for event in events if isinstance(event.data, Message) and event.data.content == text)


async def test_what_langgraph_prunes_stays_where_it_is_shown_again(db: perdure.AsyncPerdure) -> None:
    def answer(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"{state['messages'][-1].content}!")]}

    saver = PerdureSaver(db)
    graph = StateGraph(MessagesState).add_node("n", answer).add_edge(START, "n").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "trip"}}
    for text in ("one", "two"):
        await graph.ainvoke({"messages": [("user", text)]}, config)
    old = (await PerdureConversationStore(db).read_record("trip")).head_id  # type: ignore[union-attr]
    await branched(db, 3, answered("other"))
    await graph.ainvoke({"messages": [("user", "three")]}, config)
    whole = ["one", "one!", "two", "other", "three", "three!"]
    before = await loaded(db)
    assert words(before) == whole
    place = await first_of(db, "two")
    for pruning in (saver, PerdureSaver(db)):  # one that reads the log anew sees what nothing refers to any more
        await pruning.aprune(["trip"])
    assert (await db.named("trip").events(place - 1, place))[0].redacted
    assert [item.payloads[0].content for item in await db.named("trip").conversation()] == whole  # type: ignore[union-attr]
    after = await loaded(db)
    assert words(after) == whole
    assert after[0] == before[0]
    assert words(await loaded(db, limit=5)) == whole[-5:]
    store = PerdureConversationStore(db)
    entries = await store.load_entries("trip") or []
    assert [entry.parent_id for entry in entries] == [None, *[entry.id for entry in entries[:-1]]]
    assert [(await store.read_entry(str(entry.id))).message for entry in entries] == after
    assert words([entry.message for entry in await store.read_history(old)])[:3] == ["one", "one!", "two"]


async def test_entries_of_ones_own_are_read_from_where_they_are_shown_again(db: perdure.AsyncPerdure) -> None:
    searched = ModelResponse(
        parts=[
            NativeToolCallPart("web_search", {"q": "fares"}, tool_call_id="s"),
            NativeToolReturnPart("web_search", ["40"], tool_call_id="s"),
            TextPart("forty"),
        ]
    )
    await begun(db, asked("1"), answered("2"), asked("3"), searched, answered("5"))
    await branched(db, 4, answered("other"))
    assert words(await loaded(db)) == ["1", "2", "3", None, "other"]
    events = await db.named("trip").events()
    hidden = [event.version for event in events if "'id'" in str(getattr(event.data, "metadata", ""))][2:4]
    await db.named("trip").redact(range(hidden[0], hidden[1] + 3))
    found = await loaded(db)
    assert words(found) == ["1", "2", "3", None, "other"]
    assert [type(part) for part in found[3].parts] == [NativeToolCallPart, NativeToolReturnPart, TextPart]
    assert words(await loaded(db, limit=3)) == ["3", None, "other"]
    await branched(db, 3, answered("and another"))
    assert words(await loaded(db)) == ["1", "2", "3", "and another"]
    store = PerdureConversationStore(db)
    await store.fork("trip", at=3, new_conversation_id="fork")
    assert words(await loaded(db, "fork")) == ["1", "2", "3"]
    assert (await db.verify()).ok


async def test_taking_out_what_is_hidden_leaves_what_is_shown(db: perdure.AsyncPerdure) -> None:
    await begun(db, asked("1"), answered("2"))
    session = db.named("trip")
    await branched(db, 1, answered("other"))
    await branched(db, 1, answered("more"))
    first = await first_of(db, "1")
    copies = [event.version for event in await session.events() if "shows" in str(getattr(event.data, "metadata", ""))]
    assert len(copies) == 2
    await session.retract(first, first)
    assert words(await loaded(db)) == ["1", "more"]
    await session.redact([copies[0]])
    assert words(await loaded(db)) == ["1", "more"]
    await session.redact([first])
    assert words(await loaded(db)) == ["1", "more"]
    await session.redact([copies[1]])
    assert words(await loaded(db)) == ["more"]


async def test_a_call_of_others_that_is_shown_again_is_still_told_in_words(db: perdure.AsyncPerdure) -> None:
    session = await db.create(name="trip")
    await session.record(
        [
            Message(role="user", content="look"),
            ToolAsked(call="c", name="look"),
            Message(role="assistant", content="hm"),
        ]
    )
    await branched(db, 2, asked("anything else"))
    place = next(event.version for event in await session.events() if isinstance(event.data, ToolAsked))
    for _ in range(2):
        parts = [part for message in await loaded(db) for part in message.parts]
        assert not any(isinstance(part, ToolCallPart) for part in parts)
        assert "called look" in str(parts)
        await session.redact([place])


async def test_a_call_left_open_in_another_line_is_nobodys_business_in_this_one(db: perdure.AsyncPerdure) -> None:
    """What others said after a line was left does not interrupt the calls in it."""
    waiting = ModelResponse(parts=[ToolCallPart("approve", {}, tool_call_id="w")])
    await begun(db, asked("1"), waiting)
    store = PerdureConversationStore(db)
    tip = str((await store.read_record("trip")).head_id)  # type: ignore[union-attr]
    await branched(db, 1)
    await db.named("trip").record([Message(role="user", content="elsewhere")])
    line = [entry.message for entry in await store.read_history(tip)]
    assert [replace(message, timestamp=None) for message in line[1:]] == [replace(waiting, timestamp=None)]  # type: ignore[type-var]


async def test_an_entry_that_was_taken_out_is_a_key_error(db: perdure.AsyncPerdure) -> None:
    await begun(db, asked("1"), answered("2"))
    store = PerdureConversationStore(db)
    entries = await store.load_entries("trip") or []
    await db.named("trip").retract(await first_of(db, "2"))
    assert (await store.read_entry(str(entries[0].id))).message == entries[0].message
    with pytest.raises(KeyError):
        await store.read_entry(str(entries[1].id))


# ── turns ──

Shown = list[tuple[list[tuple[str, Any]], list[tuple[str, bool, Any]]]]


async def turns(db: perdure.AsyncPerdure) -> Shown:
    """What each turn says, and what became of its calls."""
    return [
        (
            [(message.role, message.content) for message in turn.messages],
            [(call.call, call.done, call.result) for call in turn.calls],
        )
        for turn in await db.named("trip").turns()
    ]


def called(*calls: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id=call) for call in calls])


def returned(*calls: str) -> ModelRequest:
    return ModelRequest(parts=[ToolReturnPart("look", f"found {call}", tool_call_id=call) for call in calls])


@pytest.mark.parametrize("between", [(), ("speak",), ("speak", "answer"), ("answer",)])
@pytest.mark.parametrize("at", range(9))
async def test_a_line_that_was_left_anywhere_is_shown_again_as_the_turns_it_was_saved_as(
    db: perdure.AsyncPerdure, at: int, between: tuple[str, ...]
) -> None:
    line = [asked("1"), answered("2"), asked("ask"), called("a", "b"), returned("a"), returned("b"), answered("7")]
    await begun(db, *line, asked("8"), answered("9"))
    saved = await turns(db)
    assert [len(messages) for messages, _ in saved] == [2, 2, 2]
    store = PerdureConversationStore(db)
    tip = str((await store.read_record("trip")).head_id)  # type: ignore[union-attr]
    for _ in range(2):
        said = {"speak": asked("never mind"), "answer": answered("hm")}
        left = await branched(db, at, *(said[word] for word in between))
        await store.branch("trip", from_entry=tip, expected_revision=left.revision)
        assert await turns(db) == saved
        assert len(await loaded(db)) == 9
    assert (await db.verify()).ok


async def test_a_result_that_is_saved_on_a_line_left_before_it_joins_its_call(db: perdure.AsyncPerdure) -> None:
    await begun(db, asked("ask"), called("a"), asked("never mind"))
    store = PerdureConversationStore(db)
    now = await store.load("trip")
    assert now is not None
    line = [*now.messages[:2], returned("a"), answered("4")]
    await store.save(Conversation(conversation_id="trip", messages=line, revision=now.revision))
    assert await turns(db) == [([("user", "ask"), ("assistant", "4")], [("a", True, "found a")])]
    assert len(await loaded(db)) == 4


async def test_moving_shows_no_more_again_than_the_turn_it_goes_on_in(db: perdure.AsyncPerdure) -> None:
    await begun(db, *[message for n in range(50) for message in (asked(f"q{n}"), answered(f"a{n}"))])
    store = PerdureConversationStore(db)
    tip = str((await store.read_record("trip")).head_id)  # type: ignore[union-attr]
    left = await branched(db, 97, asked("never mind"))
    before = await db.named("trip").version()
    await store.branch("trip", from_entry=tip, expected_revision=left.revision)
    assert await db.named("trip").version() - before < 15
    assert len(await turns(db)) == 50
