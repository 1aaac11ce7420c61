"""Ids of calls are as long as a framework makes them: some carry signatures."""

import asyncio
from typing import Any

import pytest
from google.adk.events.event import Event as AdkEvent
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import perdure
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.pydantic_ai import PerdureConversationStore

CALL = "call-" + "é" * 3000


async def langgraph(db: perdure.AsyncPerdure, name: str) -> None:
    asks = AIMessage("", tool_calls=[{"id": CALL, "name": "look", "args": {}}])
    graph = StateGraph(MessagesState).add_node("n", lambda _: {}).add_edge(START, "n")
    found = [HumanMessage("q"), asks, ToolMessage("R", tool_call_id=CALL)]
    await graph.compile(checkpointer=PerdureSaver(db)).ainvoke(
        {"messages": found}, {"configurable": {"thread_id": name}}
    )


async def openai(db: perdure.AsyncPerdure, name: str) -> None:
    items: list[Any] = [
        {"role": "user", "content": "q"},
        {"type": "function_call", "call_id": CALL, "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": CALL, "output": "R"},
    ]
    await PerdureSession(name, db).add_items(items)


async def pydantic(db: perdure.AsyncPerdure, name: str) -> None:
    talk = Conversation(conversation_id=name)
    found: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("q")]),
        ModelResponse(parts=[ToolCallPart(tool_name="look", args={}, tool_call_id=CALL)]),
        ModelRequest(parts=[ToolReturnPart(tool_name="look", content="R", tool_call_id=CALL)]),
    ]
    talk.messages = found
    await PerdureConversationStore(db).save(talk)


async def adk(db: perdure.AsyncPerdure, name: str) -> None:
    service = PerdureSessionService(db)
    session = await service.get_session(app_name="a", user_id="u", session_id=name)
    assert session is not None
    asks = types.FunctionCall(id=CALL, name="look", args={})
    answers = types.FunctionResponse(id=CALL, name="look", response={"result": "R"})
    for author, part in (
        ("user", types.Part(text="q")),
        ("agent", types.Part(function_call=asks)),
        ("agent", types.Part(function_response=answers)),
    ):
        role = "user" if author == "user" or part.function_response else "model"
        event = AdkEvent(author=author, invocation_id="i", content=types.Content(role=role, parts=[part]))
        await service.append_event(session, event)


@pytest.mark.parametrize("begin", [langgraph, openai, pydantic, adk])
def test_a_call_with_a_long_id_is_kept_and_read_by_everybody_under_that_id(begin: Any) -> None:
    async def run() -> None:
        async with await perdure.aopen(":memory:") as db:
            name = (await db.create("talk")).id
            await begin(db, name)
            config: Any = {"configurable": {"thread_id": name}}
            found = await PerdureSaver(db).aget_tuple(config)
            assert found is not None
            messages = found.checkpoint["channel_values"]["messages"]
            assert messages[1].tool_calls[0]["id"] == messages[2].tool_call_id == CALL
            items: Any = await PerdureSession(name, db).get_items()
            assert [item.get("call_id") for item in items] == [None, CALL, CALL]
            talk = await PerdureConversationStore(db).load(name)
            assert talk is not None
            parts: list[Any] = [part for message in talk.messages for part in message.parts]
            assert [getattr(part, "tool_call_id", None) for part in parts] == [None, CALL, CALL]
            session = await PerdureSessionService(db).get_session(app_name="a", user_id="u", session_id=name)
            assert session is not None
            calls = [call.id for event in session.events for call in event.get_function_calls()]
            assert calls == [answer.id for event in session.events for answer in event.get_function_responses()]
            assert calls == [CALL]
            turn = (await db.named(name).turns())[0]
            assert [call.result is not None for call in turn.calls] == [True]

    asyncio.run(run())
