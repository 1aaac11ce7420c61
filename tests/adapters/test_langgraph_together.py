"""LangGraph beside others in one session: what one says, replaces and takes back is so for everybody."""

import asyncio
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import EventActions
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import perdure
from perdure.adapters.google_adk import PerdureSessionService, app_state_name
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph_store import PerdureStore
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.pydantic_ai import PerdureConversationStore
from perdure.events import Message

MOVES = ["lg", "oa", "pyd", "adk", "pop", "clear", "branch", "prune", "anew", "rm", "rep", "update"]


def words(content: Any) -> str:
    return content if isinstance(content, str) else str(content[0]["text"])


class Together:
    """One conversation, and what it should be."""

    def __init__(self, db: perdure.AsyncPerdure, name: str) -> None:
        self.db = db
        self.name = name
        self.model: list[str] = []
        self.config: Any = {"configurable": {"thread_id": name}}
        self.openai = PerdureSession(name, db)
        self.pydantic = PerdureConversationStore(db)
        self.anew()

    def anew(self) -> None:
        graph = StateGraph(MessagesState).add_node("n", lambda state: {}).add_edge(START, "n")
        self.saver = PerdureSaver(self.db)
        self.graph = graph.compile(checkpointer=self.saver)

    async def messages(self) -> list[Any]:
        return list((await self.graph.aget_state(self.config)).values.get("messages", []))

    async def do(self, move: str, at: int, text: str) -> None:
        found = await self.messages()
        at %= max(1, len(found))
        match move:
            case "lg":
                await self.graph.ainvoke({"messages": [HumanMessage(text, id=text)]}, self.config)
                self.model.append(text)
            case "oa":
                await self.openai.add_items([{"role": "user", "content": text}])
                self.model.append(text)
            case "pyd":
                talk = await self.pydantic.load(self.name) or Conversation(conversation_id=self.name)
                talk.messages = [*talk.messages, ModelRequest(parts=[UserPromptPart(text)])]
                await self.pydantic.save(talk)
                self.model.append(text)
            case "adk":
                service = PerdureSessionService(self.db)
                there = await service.get_session(app_name="a", user_id="u", session_id=self.name)
                if there is not None:
                    content = types.Content(role="user", parts=[types.Part(text=text)])
                    await service.append_event(there, AdkEvent(author="user", invocation_id=text, content=content))
                    self.model.append(text)
            case "pop":
                popped: Any = await self.openai.pop_item()
                assert (None if popped is None else words(popped["content"])) == (
                    self.model.pop() if self.model else None
                )
            case "clear":
                await self.openai.clear_session()
                self.model.clear()
            case "branch":
                await self.branch(at, text)
            case "prune":
                await self.saver.aprune([self.name])
            case "anew":
                self.anew()
            case "rm" if found:
                await self.graph.ainvoke({"messages": [RemoveMessage(id=found[at].id)]}, self.config)
                self.model.pop(at)
            case "rep" if found:
                await self.graph.ainvoke({"messages": [HumanMessage(text, id=found[at].id)]}, self.config)
                self.model[at] = text
            case "update" if found:
                gone = {"messages": [RemoveMessage(id=found[at].id)]}
                await self.graph.aupdate_state(self.config, gone, as_node="n")
                self.model.pop(at)

    async def branch(self, at: int, text: str) -> None:
        talk = await self.pydantic.load(self.name)
        if talk is not None and len(talk.messages) == len(self.model):
            branch = await self.pydantic.branch(self.name, at=at, expected_revision=talk.revision)
            branch.messages = [*branch.messages, ModelRequest(parts=[UserPromptPart(text)])]
            await self.pydantic.save(branch)
            self.model = [*self.model[:at], text]

    async def agree(self) -> None:
        assert [words(message.content) for message in await self.messages()] == self.model
        items: Any = await self.openai.get_items()
        assert [words(item["content"]) for item in items] == self.model
        try:
            turns = await self.db.named(self.name).turns()
        except perdure.errors.NotFound:
            turns = []
        assert [words(message.content) for turn in turns for message in turn.messages] == self.model


async def played(moves: list[tuple[str, int]]) -> list[str]:
    """Play these moves; everybody agrees after each."""
    async with await perdure.aopen(":memory:", seal=False) as db:
        talk = Together(db, (await db.create("talk")).id)
        for number, (move, at) in enumerate(moves):
            await talk.do(move, at, f"{move}{number}")
            await talk.agree()
        return talk.model


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        ("lg oa rep:0 lg", ["rep2", "oa1", "lg3"]),
        ("lg oa rm:1 lg", ["lg0", "lg3"]),
        ("lg oa update:1 lg", ["lg0", "lg3"]),
        ("lg oa rm:0 lg", ["oa1", "lg3"]),
        ("lg lg pop lg", ["lg0", "lg3"]),
        ("lg lg pop anew lg", ["lg0", "lg4"]),
        ("lg clear lg", ["lg2"]),
        ("lg clear oa lg", ["oa2", "lg3"]),
        ("oa oa lg branch:2 lg", ["oa0", "oa1", "branch3", "lg4"]),
        ("lg lg oa pop pop rep:0 lg", ["rep5", "lg6"]),
        ("lg oa lg clear prune oa lg", ["oa5", "lg6"]),
    ],
)
def test_what_others_say_and_take_back_is_so_in_langgraph_and_the_other_way_round(moves: str, left: list[str]) -> None:
    steps = [move.partition(":") for move in moves.split()]
    assert asyncio.run(played([(move, int(at or 0)) for move, _, at in steps])) == left


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 5)), min_size=1, max_size=12))
def test_whoever_speaks_or_takes_back_everybody_agrees(moves: list[tuple[str, int]]) -> None:
    left = asyncio.run(played(moves))
    spoken = [f"{move}{number}" for number, (move, _) in enumerate(moves)]
    assert set(left) <= set(spoken), "nobody hears what nobody said"
    assert len(set(left)) == len(left), "nothing is heard twice"


def silent(saver: PerdureSaver) -> Any:
    return StateGraph(MessagesState).add_node("n", lambda state: {}).add_edge(START, "n").compile(checkpointer=saver)


async def test_a_message_replaced_before_a_tools_result_leaves_the_result_behind_its_call() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    async with await perdure.aopen(":memory:") as db:
        graph, openai = silent(PerdureSaver(db)), PerdureSession("t", db)
        asks = AIMessage("", id="a", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
        await graph.ainvoke({"messages": [HumanMessage("q", id="q"), asks]}, config)
        result: Any = {"type": "function_call_output", "call_id": "c1", "output": "R"}
        await openai.add_items([result, {"role": "assistant", "content": "done"}])
        await graph.ainvoke({"messages": [HumanMessage("edited", id="q")]}, config)
        found = (await graph.aget_state(config)).values["messages"]
        assert [(message.type, message.content) for message in found] == [
            ("human", "edited"),
            ("ai", ""),
            ("tool", "R"),
            ("ai", "done"),
        ]
        items: Any = await openai.get_items()
        assert [item.get("call_id", item.get("content")) for item in items] == ["edited", "c1", "c1", "done"]


async def test_what_is_taken_back_while_a_run_goes_on_does_not_come_back_with_its_end() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    async with await perdure.aopen(":memory:") as db:
        openai = PerdureSession("t", db)

        async def clears(state: MessagesState) -> Any:
            if len(state["messages"]) > 2:
                await openai.clear_session()
            return {"messages": [AIMessage("answer")]}

        graph = (
            StateGraph(MessagesState).add_node("n", clears).add_edge(START, "n").compile(checkpointer=PerdureSaver(db))
        )
        await graph.ainvoke({"messages": [HumanMessage("one", id="1")]}, config)
        await graph.ainvoke({"messages": [HumanMessage("two", id="2")]}, config)
        found = (await graph.aget_state(config)).values["messages"]
        assert [message.content for message in found] == ["answer"]
        assert [words(item["content"]) for item in await openai.get_items()] == ["answer"]  # type: ignore[typeddict-item]
        await graph.ainvoke({"messages": [HumanMessage("one", id="1")]}, config)  # said again, it is said again
        assert len((await graph.aget_state(config)).values["messages"]) == 3


async def test_what_is_said_while_a_run_goes_on_is_kept_though_the_run_did_not_see_it() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    async with await perdure.aopen(":memory:") as db:
        openai = PerdureSession("t", db)

        async def hears(state: MessagesState) -> Any:
            await openai.add_items([{"role": "user", "content": "meanwhile"}])
            return {"messages": [HumanMessage("edited", id="1")]}

        graph = (
            StateGraph(MessagesState).add_node("n", hears).add_edge(START, "n").compile(checkpointer=PerdureSaver(db))
        )
        await graph.ainvoke({"messages": [HumanMessage("one", id="1")]}, config)
        found = (await graph.aget_state(config)).values["messages"]
        assert sorted(message.content for message in found) == ["edited", "meanwhile"]
        assert sorted(words(item["content"]) for item in await openai.get_items()) == ["edited", "meanwhile"]  # type: ignore[typeddict-item]


async def test_a_graph_without_messages_takes_nothing_out_of_the_conversation() -> None:
    from typing import TypedDict

    class Other(TypedDict):
        number: int

    config: Any = {"configurable": {"thread_id": "t"}}
    async with await perdure.aopen(":memory:") as db:
        saver, openai = PerdureSaver(db), PerdureSession("t", db)
        talks = silent(saver)
        counts = StateGraph(Other).add_node("n", lambda state: {}).add_edge(START, "n").compile(checkpointer=saver)
        await talks.ainvoke({"messages": [HumanMessage("one"), HumanMessage("two")]}, config)
        await openai.pop_item()
        await openai.add_items([{"role": "user", "content": "three"}])
        await counts.ainvoke({"number": 1}, config)
        assert [words(item["content"]) for item in await openai.get_items()] == ["one", "three"]  # type: ignore[typeddict-item]
        assert [message.content for message in (await talks.aget_state(config)).values["messages"]] == ["one", "three"]


# ── one by one ────────────────────────────────────────────────────────────────────────────────────


def at(thread: str = "t") -> Any:
    return {"configurable": {"thread_id": thread}}


def echo(saver: PerdureSaver) -> Any:
    def answer(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"re {state['messages'][-1].content}")]}

    return StateGraph(MessagesState).add_node("n", answer).add_edge(START, "n").compile(checkpointer=saver)


def says(graph: Any, text: str, config: Any = None) -> list[str]:
    return told(graph.invoke({"messages": [HumanMessage(text)]}, config or at())["messages"])


def told(messages: list[Any]) -> list[str]:
    return [str(message.content) for message in messages]


def shown(graph: Any) -> list[str]:
    return told(graph.get_state(at()).values["messages"])


def heard(db: perdure.Perdure) -> list[str]:
    """What the OpenAI SDK is given of the same conversation."""
    return [words(item["content"]) for item in asyncio.run(PerdureSession("t", db).get_items())]  # type: ignore[typeddict-item]


def test_every_piece_of_what_another_framework_said_at_once_is_a_message() -> None:
    with perdure.open(":memory:") as db:
        asked = [ToolCallPart(tool_name="f", args={}, tool_call_id=call) for call in ("c", "d")]
        returns = [ToolReturnPart(tool_name="f", content=f"of {call}", tool_call_id=call) for call in ("c", "d")]
        talk = Conversation(
            conversation_id="t",
            messages=[
                ModelRequest(parts=[SystemPromptPart("be brief"), UserPromptPart("look")]),
                ModelResponse(parts=[TextPart("I look"), TextPart("twice"), *asked]),
                ModelRequest(parts=[*returns, UserPromptPart("and?")]),
                ModelResponse(parts=[TextPart("found")]),
            ],
        )
        asyncio.run(PerdureConversationStore(db).save(talk))
        graph = echo(PerdureSaver(db))
        messages = graph.get_state(at()).values["messages"]
        assert [(message.type, message.content) for message in messages] == [
            ("system", "be brief"),
            ("human", "look"),
            ("ai", "I look\ntwice"),
            ("tool", "of c"),
            ("tool", "of d"),
            ("human", "and?"),
            ("ai", "found"),
        ]
        assert [call["id"] for call in messages[2].tool_calls] == ["c", "d"]
        says(graph, "next")
        items = asyncio.run(PerdureSession("t", db).get_items())
        results = [item["output"] for item in items if item.get("type") == "function_call_output"]  # type: ignore[typeddict-item]
        assert results == ["of c", "of d"]


@pytest.mark.parametrize("between", [False, True])
def test_a_fork_after_others_spoke_has_one_order_for_everybody(between: bool) -> None:
    with perdure.open(":memory:") as db:
        graph = echo(PerdureSaver(db))
        for word in ("one", "two"):
            says(graph, word)
        db.named("t").record([Message(role="user", content="else"), Message(role="assistant", content="where")])
        if between:
            shown(graph)
        old = next(item for item in graph.get_state_history(at()) if len(item.values.get("messages", ())) == 2)
        assert says(graph, "fork", old.config) == ["one", "re one", "fork", "re fork"]
        expected = ["one", "re one", "else", "where", "fork", "re fork"]
        assert (shown(graph), heard(db)) == (expected, expected)
        assert says(graph, "on") == [*expected, "on", "re on"]
        assert heard(db) == [*expected, "on", "re on"]


def test_nothing_comes_between_a_call_of_langgraphs_and_its_result() -> None:
    with perdure.open(":memory:") as db:
        saver = PerdureSaver(db)
        call = {"name": "f", "args": {}, "id": "c"}
        graph = StateGraph(MessagesState)
        graph.add_node("ask", lambda state: {"messages": [AIMessage("", tool_calls=[call])]})
        graph.add_node("tell", lambda state: {"messages": [ToolMessage("done", tool_call_id="c")]})
        graph.add_edge(START, "ask").add_edge("ask", "tell")
        compiled = graph.compile(checkpointer=saver, interrupt_before=["tell"])
        compiled.invoke({"messages": [HumanMessage("go")]}, at())
        state = compiled.get_state(at())
        db.named("t").record([Message(role="user", content="meanwhile")])
        compiled.update_state(state.config, {"messages": [ToolMessage("done", tool_call_id="c")]}, as_node="tell")
        messages = compiled.get_state(at()).values["messages"]
        assert [message.type for message in messages] == ["human", "ai", "tool", "human"]


def test_a_put_that_edits_is_one_append() -> None:
    with perdure.open(":memory:") as db:
        graph = echo(PerdureSaver(db))
        for word in ("one", "two"):
            says(graph, word)
        first = graph.get_state(at()).values["messages"][0]
        before = db.named("t").version()
        graph.update_state(at(), {"messages": [HumanMessage("edited", id=first.id)]})
        appends: dict[int, set[str]] = {}
        for event in db.named("t").events(before):
            appends.setdefault(event.shared.first, set()).add(event.kind)
        (edit,) = [kinds for kinds in appends.values() if "retracted" in kinds]
        assert {"retracted", "noted"} < edit
        assert heard(db) == ["edited", "re one", "two", "re two"]


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_pruned_log_leaves_a_shorter_thread_that_goes_on(kept: int) -> None:
    with perdure.open(":memory:") as db:
        graph = echo(PerdureSaver(db))
        for word in ("one", "two", "three", "four"):
            says(graph, word)
        session = db.named("t")
        starts = [turn.first for turn in session.turns()]
        session.prune(starts[-kept] - 1)
        fresh = echo(PerdureSaver(db))
        left = [text for word in ("one", "two", "three", "four")[-kept:] for text in (word, f"re {word}")]
        assert shown(fresh) == left
        assert says(fresh, "five") == [*left, "five", "re five"]
        assert shown(echo(PerdureSaver(db))) == heard(db) == [*left, "five", "re five"]


async def test_adk_is_given_one_result_for_a_call() -> None:
    async with await perdure.aopen(":memory:") as db:
        openai = PerdureSession("t", db)
        asked: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        await openai.add_items([{"role": "user", "content": "look"}, asked])
        await openai.add_items([{"role": "user", "content": "never mind"}])
        await echo(PerdureSaver(db)).ainvoke({"messages": [HumanMessage("on")]}, at())
        service = PerdureSessionService(db)
        session = await service.get_session(app_name="a", user_id="u", session_id=db.named("t").id)
        assert session is not None
        answers = [event for event in session.events if event.get_function_responses()]
        assert len(answers) == 1


async def test_a_picture_that_cannot_be_read_is_told_in_words() -> None:
    async with await perdure.aopen(":memory:") as db:
        made = await db.create(name="t")
        for data in ("AAA", "\u00e9"):
            source = {"type": "base64", "media_type": "image/png", "data": data}
            await made.record([Message(role="user", content=[{"type": "image", "source": source}])])
        session = await PerdureSessionService(db).get_session(app_name="a", user_id="u", session_id=made.id)
        assert session is not None
        parts = [part for event in session.events if event.content for part in event.content.parts or ()]
        assert [part.text for part in parts] == ["(image/png that cannot be read)"] * 2


async def test_arguments_nested_too_deep_to_read_are_handed_on_as_text() -> None:
    async with await perdure.aopen(":memory:") as db:
        deep = "[" * 5000 + "]" * 5000
        asked: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": deep}
        await PerdureSession("t", db).add_items([{"role": "user", "content": "look"}, asked])
        found = await PerdureSaver(db).aget_tuple(at())
        assert found is not None
        (call,) = found.checkpoint["channel_values"]["messages"][1].tool_calls
        assert call["args"] == {"input": deep}


async def test_what_adks_sessions_share_may_be_erased_underneath() -> None:
    async with await perdure.aopen(":memory:") as db:
        service = PerdureSessionService(db)
        session = await service.create_session(app_name="a", user_id="u", session_id="s", state={"app:rate": 1})
        await db.named(app_state_name("a")).erase()
        changed = EventActions(state_delta={"app:rate": 2})
        await service.append_event(session, AdkEvent(author="agent", invocation_id="i", actions=changed))
        found = await service.get_session(app_name="a", user_id="u", session_id="s")
        assert found is not None
        assert found.state == {"app:rate": 2}


async def test_a_shelf_of_the_store_is_no_conversation() -> None:
    async with await perdure.aopen(":memory:") as db:
        store = PerdureStore(db)
        await store.aput(("memories", "ana"), "k", {"likes": "tulips"})
        (row,) = (await db.find()).items
        service = PerdureSessionService(db)
        assert await service.get_session(app_name="a", user_id="u", session_id=row.session) is None
        await service.delete_session(app_name="a", user_id="u", session_id=row.session)
        assert await store.aget(("memories", "ana"), "k") is not None
