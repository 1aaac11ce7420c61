"""LangGraph beside others in one session: what one says, replaces and takes back is so for everybody."""

import asyncio
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

import perdure
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.pydantic_ai import PerdureConversationStore

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
