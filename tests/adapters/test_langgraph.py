"""LangGraph's checkpointer, used by real graphs: what they do with it is what they do with LangGraph's own."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

import perdure
from perdure import errors, events
from perdure.adapters.langgraph import PerdureSaver


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture(params=["memory", "file"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:" if request.param == "memory" else tmp_path / "a.db") as db:
        yield db


def at(thread: str = "trip", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def echo(saver: PerdureSaver) -> Any:
    """A graph that answers every message with its echo."""

    def answer(state: Talk) -> Any:
        return {"messages": [AIMessage(f"you said: {state['messages'][-1].content}")]}

    graph = StateGraph(Talk)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def says(graph: Any, text: str, config: Any = None) -> list[str]:
    found = graph.invoke({"messages": [HumanMessage(text)]}, config or at())
    return [message.content for message in found["messages"]]


def shown(db: perdure.Perdure, thread: str = "trip") -> list[str]:
    """The conversation as everybody sees it."""
    return [
        str(payload.content) if isinstance(payload, events.Message) else f"[{payload.call}]"
        for item in db.named(thread).conversation()
        for payload in item.payloads
    ]


def records(db: perdure.Perdure, thread: str = "trip") -> list[Any]:
    """The checkpoints as they are written."""
    noted = [event.data for event in db.named(thread).events() if isinstance(event.data, events.Noted)]
    return [item.data for item in noted if item.about == "checkpoint"]


def test_a_conversation_goes_on_and_reads_as_turns(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    assert says(echo(PerdureSaver(db)), "two") == ["one", "you said: one", "two", "you said: two"]
    turns = db.named("trip").turns()
    assert [[message.content for message in turn.messages] for turn in turns] == [
        ["one", "you said: one"],
        ["two", "you said: two"],
    ]
    assert {turn.status for turn in turns} == {"finished"}
    assert db.named("trip").verify().ok


async def test_async_graphs_and_blocking_ones_share_a_thread(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    await graph.ainvoke({"messages": [HumanMessage("one")]}, at())
    found = [item async for item in graph.aget_state_history(at())]
    assert len(found) == 3
    assert len(list(graph.get_state_history(at()))) == 3


def test_a_message_is_written_once_and_its_list_refers_to_it(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    for number in range(30):
        says(graph, f"message number {number}")
    lists = [record["values"]["messages"] for record in records(db) if "messages" in record["values"]]
    assert len(lists) == 60
    assert all(part["messages"] == [0] for item in lists for part in item["parts"])
    assert len(db.named("trip").conversation()) == 60


def test_tool_calls_and_results_are_calls_and_results(db: perdure.Perdure) -> None:
    def act(state: Talk) -> Any:
        calls = [{"name": "look", "args": {"where": place}, "id": place} for place in ("here", "there")]
        return {"messages": [AIMessage("Let me look.", tool_calls=calls)]}

    def tools(state: Talk) -> Any:
        return {
            "messages": [
                ToolMessage("nothing", tool_call_id="here"),
                ToolMessage("no such place", tool_call_id="there", status="error"),
            ]
        }

    graph = StateGraph(Talk)
    graph.add_sequence([act, tools])
    graph.add_edge(START, "act")
    app = graph.compile(checkpointer=PerdureSaver(db))
    says(app, "Is it here?")
    (turn,) = db.named("trip").turns()
    assert [(call.call, call.arguments, call.result, call.error) for call in turn.calls] == [
        ("here", {"where": "here"}, "nothing", None),
        ("there", {"where": "there"}, None, "no such place"),
    ]
    again = app.get_state(at()).values["messages"]
    assert [type(message) for message in again] == [HumanMessage, AIMessage, ToolMessage, ToolMessage]
    assert again[3].status == "error"


def test_time_travel_shows_the_line_taken_last_and_keeps_the_others(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    for word in ("one", "two", "three"):
        says(graph, word)
    before = next(item for item in graph.get_state_history(at()) if len(item.values.get("messages", ())) == 2)
    old = graph.get_state(at()).config
    assert says(graph, "other", before.config)[2:] == ["other", "you said: other"]
    assert shown(db) == ["one", "you said: one", "other", "you said: other"]
    assert says(graph, "four", old)[4:] == ["three", "you said: three", "four", "you said: four"]
    assert shown(db)[2:] == ["two", "you said: two", "three", "you said: three", "four", "you said: four"]
    assert says(graph, "five")[-4:] == ["four", "you said: four", "five", "you said: five"]
    assert db.named("trip").verify().ok


def test_messages_removed_and_replaced_leave_the_conversation(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    for word in ("one", "two", "three"):
        says(graph, word)
    kept = graph.get_state(at()).values["messages"]
    graph.update_state(at(), {"messages": [RemoveMessage(id=message.id) for message in kept[:2]]})
    assert shown(db) == ["two", "you said: two", "three", "you said: three"]
    edited = AIMessage("I said: two", id=kept[3].id)
    graph.update_state(at(), {"messages": [edited]})
    assert shown(db) == ["two", "I said: two", "three", "you said: three"]
    assert [message.content for message in graph.get_state(at()).values["messages"]] == shown(db)
    says(graph, "four")
    assert shown(db)[4:] == ["four", "you said: four"]


def test_a_message_changed_in_place_is_stored_as_it_is(db: perdure.Perdure) -> None:
    def scrub(state: Talk) -> Any:
        for message in state["messages"]:
            message.additional_kwargs["seen"] = True
        state["messages"][0].content = "[secret]"
        return {"messages": [state["messages"][0], AIMessage("done")]}

    graph = StateGraph(Talk)
    graph.add_node("scrub", scrub)
    graph.add_edge(START, "scrub")
    app = graph.compile(checkpointer=PerdureSaver(db))
    says(app, "my password")
    says(app, "another")
    found = echo(PerdureSaver(db)).get_state(at()).values["messages"]
    assert [message.content for message in found] == ["[secret]", "done", "another", "done"]
    assert [message.additional_kwargs for message in found] == [{"seen": True}] * 3 + [{}]


def test_interrupts_resume_in_another_process(db: perdure.Perdure) -> None:
    class Form(TypedDict):
        name: str
        log: Annotated[list[str], operator.add]

    def ask(state: Form) -> Any:
        return {"name": interrupt("who?"), "log": ["asked"]}

    def graph() -> Any:
        made = StateGraph(Form)
        made.add_node("ask", ask)
        made.add_node("after", lambda state: {"log": [f"hello {state['name']}"]})
        made.add_edge(START, "ask")
        made.add_edge("ask", "after")
        return made.compile(checkpointer=PerdureSaver(db))

    first = graph().invoke({"log": ["begun"]}, at())
    assert first["__interrupt__"][0].value == "who?"
    assert graph().get_state(at()).next == ("ask",)
    assert graph().invoke(Command(resume="Ana"), at()) == {"name": "Ana", "log": ["begun", "asked", "hello Ana"]}


def test_subgraphs_keep_their_own_checkpoints_and_say_nothing_twice(db: perdure.Perdure) -> None:
    def inner(state: Talk) -> Any:
        return {"messages": [AIMessage(str(interrupt("may I?")))]}

    sub = StateGraph(Talk)
    sub.add_node("inner", inner)
    sub.add_edge(START, "inner")
    outer = StateGraph(Talk)
    outer.add_node("sub", sub.compile())
    outer.add_edge(START, "sub")
    app = outer.compile(checkpointer=PerdureSaver(db))
    says(app, "go")
    state = app.get_state(at(), subgraphs=True)
    assert state.tasks[0].state.next == ("inner",)
    app.invoke(Command(resume="yes"), at())
    assert shown(db) == ["go", "yes"]
    spaces = {item.config["configurable"]["checkpoint_ns"] for item in PerdureSaver(db).list(at())}
    assert len(spaces) == 2


def test_parallel_tasks_keep_their_order_and_their_writes(db: perdure.Perdure) -> None:
    class Sum(TypedDict):
        found: Annotated[list[int], operator.add]

    failing = [True]

    def work(state: Any) -> Any:
        if state["number"] == 3 and failing.pop():
            raise RuntimeError("no")
        return {"found": [state["number"]]}

    graph = StateGraph(Sum)
    graph.add_node("work", work)
    graph.add_conditional_edges(START, lambda _: [Send("work", {"number": number}) for number in range(6)])
    app = graph.compile(checkpointer=PerdureSaver(db))
    failing.append(True)
    with pytest.raises(RuntimeError):
        app.invoke({"found": []}, at())
    failing[:] = [False]
    assert app.invoke(None, at()) == {"found": [0, 1, 2, 3, 4, 5]}


def test_what_was_said_elsewhere_is_there_when_langgraph_goes_on(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    db.named("trip").record(
        [
            events.Message(role="user", content="weather?"),
            *events.native(
                "other",
                {"x": 1},
                [events.Message(role="assistant", content="looking"), events.ToolAsked(call="c", name="w")],
            ),
            events.ToolFinished(call="c", result={"sky": "blue"}),
            events.Message(role="assistant", content="blue"),
        ]
    )
    found = graph.get_state(at()).values["messages"]
    assert [message.type for message in found] == ["human", "ai", "human", "ai", "tool", "ai"]
    assert found[3].tool_calls[0]["name"] == "w"
    assert says(graph, "thanks")[-2:] == ["thanks", "you said: thanks"]
    says(echo(PerdureSaver(db)), "bye")
    assert [item.by for item in db.named("trip").conversation()] == [
        *["langgraph"] * 2,
        *["", "other", "", ""],
        *["langgraph"] * 4,
    ]
    assert len(echo(PerdureSaver(db)).get_state(at()).values["messages"]) == 10


def test_a_conversation_begun_elsewhere_goes_on_in_langgraph(db: perdure.Perdure) -> None:
    session = db.create(name="trip")
    with session.turn("hello") as turn:
        turn.answer("hi")
    assert says(echo(PerdureSaver(db)), "and now?") == ["hello", "hi", "and now?", "you said: and now?"]
    assert shown(db) == ["hello", "hi", "and now?", "you said: and now?"]
    assert [item.config["configurable"]["thread_id"] for item in PerdureSaver(db).list(None)] == ["trip"] * 3


@dataclass
class Point:
    x: int


class Somewhere(TypedDict):
    place: Point


def test_a_type_that_is_not_allowed_is_refused_when_it_is_written(db: perdure.Perdure) -> None:
    graph = StateGraph(Somewhere)
    graph.add_node("go", lambda state: {"place": Point(state["place"].x + 1)})
    graph.add_edge(START, "go")
    with pytest.raises(errors.Invalid, match="allowed_msgpack_modules") as caught:
        graph.compile(checkpointer=PerdureSaver(db)).invoke({"place": Point(1)}, at())
    assert caught.value.name == "Point"
    allowed = PerdureSaver(db).with_allowlist([(Point.__module__, "Point")])
    assert graph.compile(checkpointer=allowed).invoke({"place": Point(1)}, at("new")) == {"place": Point(2)}
    with pytest.raises(errors.Invalid, match="Point is not on the allowlist"):
        PerdureSaver(db).get_tuple(at("new"))
    open = PerdureSaver(db, serde=JsonPlusSerializer(allowed_msgpack_modules=[Point]))
    found = open.get_tuple(at("new"))
    assert found is not None
    assert found.checkpoint["channel_values"]["place"] == Point(2)


def test_a_type_is_refused_wherever_it_stands(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    config = saver.put(at(checkpoint_ns=""), checkpoint("1", said=[HumanMessage("hi")]), {}, {"said": 1})
    for number, value in enumerate([[HumanMessage("hi"), Point(1)], {"a": (Point(1),)}, {UUID(int=1): Point(1)}], 2):
        with pytest.raises(errors.Invalid, match="Point is not on the allowlist"):
            saver.put(config, checkpoint(str(number), said=value), {}, {"said": number})
        with pytest.raises(errors.Invalid, match="Point is not on the allowlist"):
            saver.put_writes(config, [("said", value)], "task")
    later = saver.put(config, checkpoint("9", said=[HumanMessage("hi"), AIMessage("ho")]), {}, {"said": 9})
    assert saver.get_tuple(later) is not None


def test_pickled_state_is_never_loaded(db: perdure.Perdure) -> None:
    lax = PerdureSaver(db, serde=JsonPlusSerializer(pickle_fallback=True))
    config = lax.put(at(checkpoint_ns=""), checkpoint("1", thing=open), {}, {"thing": 1})
    with pytest.raises(errors.Invalid, match="'pickle'"):
        PerdureSaver(db).get_tuple(config)
    with pytest.raises(errors.Invalid, match="cannot write"):
        PerdureSaver(db).put(config, checkpoint("2", thing=open), {}, {"thing": 2})


def checkpoint(id: str, **values: Any) -> Any:
    versions = {name: int(id) for name in values}
    return {
        "v": 4,
        "id": f"{int(id):032x}",
        "ts": "",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }


def test_a_list_that_grows_is_written_as_what_is_added(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    config, items = at(checkpoint_ns="", limit=0), []
    for number in range(1, 60):
        items = [*items, {"number": number, "text": "x" * 50}]
        config = saver.put(config, checkpoint(str(number), items=items), {}, {"items": number})
    largest = max(len(part["data"]) for record in records(db) for part in record["values"]["items"]["parts"])
    assert largest < 100
    for each in (saver, PerdureSaver(db)):
        found = each.get_tuple(at())
        assert found is not None
        assert found.checkpoint["channel_values"]["items"] == items


def test_filters_are_values_not_operators(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    saver.put(at(checkpoint_ns=""), checkpoint("1"), {"source": "loop", "extra": {"a": 1}}, {})  # type: ignore[typeddict-unknown-key]
    assert len(list(saver.list(at(), filter={"extra": {"a": 1}}))) == 1
    assert len(list(saver.list(at(), filter={"source": "' OR 1=1 --"}))) == 0
    with pytest.raises(errors.Invalid, match="equality"):
        list(saver.list(at(), filter={"step": {"$gt": 1}}))


def test_bad_configs_are_refused(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    with pytest.raises(errors.Invalid, match="thread_id"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(errors.Invalid, match="no checkpoint"):
        saver.put_writes(at(), [("a", 1)], "task")
    with pytest.raises(errors.Invalid, match="strategy"):
        saver.prune(["trip"], strategy="some")


def test_versions_of_other_savers_are_continued(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    old = f"{41:032}.0.7312345"
    assert saver.get_next_version(old, None) > old
    assert [saver.get_next_version(None, None), saver.get_next_version(7, None)] == [1, 8]
