"""One conversation in one sealed file, carried on by one framework after the other: each model is handed all that was
said and done before it, and everybody reads the same turns.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from click.testing import CliRunner
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import perdure
from perdure.adapters.google_adk import PerdureSessionService
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.openai_agents import PerdureSession
from perdure.adapters.parts.pairing import INTERRUPTED, in_words
from perdure.adapters.pydantic_ai import PerdureConversationStore
from perdure.edge.cli.app import perdure as command_line

TRIP = "trip-to-lisbon"
LANGGRAPH = ["Find me a flight", "call find", "TP 123", "TP 123 flies at nine"]
OPENAI = ["Book it", "call book", "booked as K7", "It is booked: K7"]
PYDANTIC = ["And a hotel?", "call hotels", "Bairro", "The Bairro has a room"]


def words(content: Any) -> str:
    """The words of a content, whether it is a text, blocks of text, or data."""
    if isinstance(content, list) and all(isinstance(block, dict) and "text" in block for block in content):
        return "\n".join(block["text"] for block in content)
    return content if isinstance(content, str) else json.dumps(content)


# ── LangGraph ──


def told_langchain(messages: Sequence[BaseMessage]) -> list[str]:
    """What a model of LangChain was handed, one line a word, a call or a result."""
    found: list[str] = []
    for message in messages:
        found += [words(message.content)] if message.content else []
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        found += [f"call {call['name']}" for call in calls]
    return found


class Scripted(BaseChatModel):
    """A chat model that says its lines, and remembers what it was handed."""

    lines: list[AIMessage]
    handed: list[list[str]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.handed.append(told_langchain(messages))
        return ChatResult(generations=[ChatGeneration(message=self.lines.pop(0))])


@tool
def find(city: str) -> str:
    """Find a flight."""
    return "TP 123"


def in_langgraph(db: perdure.Perdure, text: str, *lines: AIMessage) -> list[list[str]]:
    """Run a graph with a model and a tool; what the model was handed."""
    model = Scripted(lines=list(lines), handed=[])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([find]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    config: Any = {"configurable": {"thread_id": TRIP}}
    graph.compile(checkpointer=PerdureSaver(db)).invoke({"messages": [HumanMessage(text)]}, config)
    return model.handed


def begin_in_langgraph(db: perdure.Perdure) -> None:
    asks = AIMessage("", tool_calls=[{"id": "lg1", "name": "find", "args": {"city": "Lisbon"}}])
    handed = in_langgraph(db, LANGGRAPH[0], asks, AIMessage(LANGGRAPH[3]))
    assert handed == [LANGGRAPH[:1], LANGGRAPH[:3]]


# ── OpenAI Agents ──


def told_openai(items: Any) -> list[str]:
    found: list[str] = []
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            found.append(f"call {item['name']}")
        elif kind == "function_call_output":
            found.append(item["output"])
        else:
            found.append(words(item["content"]))
    return found


@function_tool
def book(flight: str) -> str:
    """Book a flight."""
    return "booked as K7"


def go_on_in_openai(db: perdure.Perdure, before: list[str], call: str = "oa1") -> None:
    model = ScriptedModel(
        [
            ModelStep(output=[function_call("book", {"flight": "TP 123"}, call_id=call)]),
            ModelStep(output=[assistant_message(OPENAI[3])]),
        ]
    )
    agent = OpenAIAgent(name="booking", model=model, tools=[book])
    silent = RunConfig(tracing_disabled=True)
    result = asyncio.run(Runner.run(agent, OPENAI[0], session=PerdureSession(TRIP, db), run_config=silent))
    assert result.final_output == OPENAI[3]
    model.assert_complete()
    assert [told_openai(call.input) for call in model.calls] == [[*before, *OPENAI[:1]], [*before, *OPENAI[:3]]]


# ── Pydantic AI ──


def told_pydantic(messages: Sequence[ModelMessage]) -> list[str]:
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case ToolCallPart():
                    found.append(f"call {part.tool_name}")
                case UserPromptPart() | TextPart() | ToolReturnPart():
                    found.append(words(part.content))
                case _:
                    found.append(type(part).__name__)
    return found


def go_on_in_pydantic(db: perdure.Perdure, before: list[str]) -> None:
    handed: list[list[str]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        handed.append(told_pydantic(messages))
        if len(handed) == 1:
            return ModelResponse(parts=[ToolCallPart(tool_name="hotels", args={"city": "Lisbon"}, tool_call_id="pa1")])
        return ModelResponse(parts=[TextPart(content=PYDANTIC[3])])

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    def hotels(city: str) -> str:
        return "Bairro"

    async def run() -> None:
        store = PerdureConversationStore(db)
        found = await store.load(TRIP) or Conversation(conversation_id=TRIP)
        await store.save(await agent.run(PYDANTIC[0], conversation=found))

    asyncio.run(run())
    assert handed == [[*before, *PYDANTIC[:1]], [*before, *PYDANTIC[:3]]]


# ── everybody ──


def turns(db: perdure.Perdure) -> list[tuple[str, list[str], list[str]]]:
    """How each turn stands, what was said in it, and what its tools answered."""
    return [
        (
            turn.status,
            [words(message.content) for message in turn.messages if message.content],
            [words(call.result) for call in turn.calls],
        )
        for turn in db.named(TRIP).turns()
    ]


@pytest.mark.slow
def test_a_conversation_goes_from_framework_to_framework_and_back(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with perdure.open(path) as db:
        begin_in_langgraph(db)
    with perdure.open(path) as db:
        go_on_in_openai(db, LANGGRAPH)
    with perdure.open(path) as db:
        go_on_in_pydantic(db, LANGGRAPH + OPENAI)
    with perdure.open(path) as db:
        so_far = LANGGRAPH + OPENAI + PYDANTIC
        assert in_langgraph(db, "Thanks", AIMessage("You are welcome")) == [[*so_far, "Thanks"]]
        go_on_in_openai(db, [*so_far, "Thanks", "You are welcome"], "oa2")
        wanted = [
            *[("finished", [each[0], each[3]], [each[2]]) for each in (LANGGRAPH, OPENAI, PYDANTIC)],
            ("finished", ["Thanks", "You are welcome"], []),
            ("finished", [OPENAI[0], OPENAI[3]], [OPENAI[2]]),
        ]
        assert turns(db) == wanted
        assert db.verify().ok
        session = db.named(TRIP).id
    shown = CliRunner().invoke(command_line, ["sessions", "history", session, "--store", str(path)])
    assert shown.exit_code == 0, shown.output
    place = 0
    for line in [*so_far, "Thanks", "You are welcome"]:
        place = shown.output.index(line.removeprefix("call "), place)
    assert "Find me a flight" not in path.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_what_one_framework_takes_back_is_not_handed_to_the_next(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "sessions.db") as db:
        begin_in_langgraph(db)
        popped = asyncio.run(PerdureSession(TRIP, db).pop_item())
        assert popped is not None
        go_on_in_pydantic(db, LANGGRAPH[:3])

        async def regenerate() -> None:
            store = PerdureConversationStore(db)
            found = await store.load(TRIP)
            assert found is not None
            again = await store.branch(TRIP, at=len(found.messages) - 1, expected_revision=found.revision)
            again.messages.append(ModelResponse(parts=[TextPart(content="The Tejo has a room")]))
            await store.save(again)

        asyncio.run(regenerate())
        go_on_in_openai(db, [*LANGGRAPH[:3], *PYDANTIC[:3], "The Tejo has a room"])
        assert db.verify().ok


def paused_in_langgraph(db: perdure.Perdure) -> Any:
    """A graph that has stopped before its tools."""
    asks = AIMessage("", tool_calls=[{"id": "lg1", "name": "find", "args": {"city": "Lisbon"}}])
    model = Scripted(lines=[asks, AIMessage("As you like")], handed=[])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([find]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    made = graph.compile(checkpointer=PerdureSaver(db), interrupt_before=["tools"])
    made.invoke({"messages": [HumanMessage("Find me a flight")]}, {"configurable": {"thread_id": TRIP}})
    return made


@pytest.mark.slow
def test_a_call_that_nobody_answered_is_handed_to_no_model_without_a_result(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "sessions.db") as db:
        graph = paused_in_langgraph(db)
        service = PerdureSessionService(db)
        seen = asyncio.run(service.get_session(app_name="trips", user_id="ana", session_id=db.named(TRIP).id))
        assert seen is not None
        parts = [part for event in seen.events if event.content for part in event.content.parts or ()]
        assert [part.function_response.response for part in parts if part.function_response] == [{"error": INTERRUPTED}]
        go_on_in_openai(db, ["Find me a flight", "call find", INTERRUPTED])
        go_on_in_pydantic(db, ["Find me a flight", in_words("find"), *OPENAI])
        config: Any = {"configurable": {"thread_id": TRIP}}
        told = told_langchain(graph.get_state(config).values["messages"])
        assert told == ["Find me a flight", "call find", INTERRUPTED, *OPENAI, *PYDANTIC]
        after = graph.invoke({"messages": [HumanMessage("Never mind")]}, config)["messages"]
        assert told_langchain(after) == [*told, "Never mind", "As you like"]
        again = told_langchain(graph.get_state(config).values["messages"])
        assert again == [*told, "Never mind", "As you like"]
        assert sorted(told_openai(asyncio.run(PerdureSession(TRIP, db).get_items()))) == sorted(again)
        assert db.verify().ok


@pytest.mark.slow
def test_what_is_only_text_is_a_plain_text_to_everybody(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "sessions.db") as db:
        go_on_in_openai(db, [])
        go_on_in_pydantic(db, OPENAI)
        found = PerdureSaver(db).get_tuple({"configurable": {"thread_id": TRIP}})
        assert found is not None
        messages = found.checkpoint["channel_values"]["messages"]
        assert all(type(message.content) is str for message in messages)
        assert all(type(message.content) is str for turn in db.named(TRIP).turns() for message in turn.messages)
