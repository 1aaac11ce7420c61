"""LangGraph's threads kept, pruned, raced for and judged: what its own suite asks, and what it does not."""

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import copy_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

import perdure
from perdure import errors, events
from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.parts.checkpoints import Thread
from perdure.adapters.parts.langgraph_configs import Bytes
from perdure.adapters.parts.langgraph_upkeep import Upkeep
from perdure.adapters.parts.snapshots import RECENT, Snapshot
from perdure.testing.postgres import Server, running
from tests.adapters.test_langgraph import at, checkpoint, echo, records, says, shown

CAPABILITIES = {"put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.mark.parametrize("where", ["memory", "clear", "sealed", "postgres"])
async def test_langgraphs_own_suite_finds_and_passes_all_capabilities(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stores = iter(range(100))

    @checkpointer_test(name=f"perdure-{where}")
    async def make() -> AsyncIterator[PerdureSaver]:
        number = next(stores)
        path = ":memory:" if where == "memory" else str(tmp_path / f"{number}.db")
        sealed: dict[str, Any] = {"seal": where != "clear"}
        if where == "postgres":
            path = request.getfixturevalue("server").database()
            sealed = {"key": str(tmp_path / "master"), "vault": str(tmp_path / f"{number}.keys")}
        async with await perdure.aopen(path, **sealed) as db:
            yield PerdureSaver(db)

    report = await validate(make)
    assert {name for name, result in report.results.items() if result.detected} == CAPABILITIES
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[perdure.Perdure]:
    with perdure.open(tmp_path / "a.db", seal=False) as db:
        yield db


def contents(db: perdure.Perdure) -> bytes:
    """Everything that can be read of a thread's log."""
    return repr([event.data for event in db.named("trip").events()]).encode()


def test_pruning_destroys_what_nothing_needs_and_nothing_else(db: perdure.Perdure, tmp_path: Path) -> None:
    graph = echo(PerdureSaver(db))
    for word in ("first", "second", "third"):
        says(graph, word)
    kept = graph.get_state(at()).values
    old = next(item for item in graph.get_state_history(at()) if len(item.values.get("messages", ())) == 4)
    says(graph, "elsewhere", old.config)
    PerdureSaver(db).prune(["trip"])
    left = contents(db)
    assert b"third" not in left
    assert b"first" in left
    assert len(records(db)) == 1
    for saver in (graph.checkpointer, PerdureSaver(db)):
        found = echo(saver).get_state(at()).values["messages"]
        assert [message.content for message in found][:4] == [message.content for message in kept["messages"]][:4]
        assert len(list(saver.list(at()))) == 1
    assert says(graph, "fourth")[-2:] == ["fourth", "you said: fourth"]
    assert shown(db)[:4] == ["first", "you said: first", "second", "you said: second"]
    assert db.named("trip").verify().ok


def test_pruning_destroys_what_the_latest_checkpoint_replaced(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    config: Any = at(checkpoint_ns="")
    lists = [["one", "two", "secret"], ["one", "two", "open"], ["one", "more"]]
    for number, words in enumerate(lists, 1):
        said = [HumanMessage(word, id=f"{place}{word}") for place, word in enumerate(words)]
        config = saver.put(config, checkpoint(str(number), messages=said), {}, {"messages": number})
    saver.prune(["trip"])
    left = contents(db)
    assert [word for word in ("secret", "open", "two") if word.encode() in left] == []
    for again in (saver, PerdureSaver(db)):
        found = again.get_tuple(at())
        assert found is not None
        assert [message.content for message in found.checkpoint["channel_values"]["messages"]] == ["one", "more"]


def test_a_prune_that_was_killed_is_finished_by_the_next(db: perdure.Perdure, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = echo(PerdureSaver(db))
    for word in ("first", "second"):
        says(graph, word)

    async def killed(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(perdure.AsyncSession, "redact", killed)
        with pytest.raises(KeyboardInterrupt):
            PerdureSaver(db).prune(["trip"], strategy="delete")
    assert PerdureSaver(db).get_tuple(at()) is None
    PerdureSaver(db).prune(["trip"], strategy="delete")
    assert b"second" not in contents(db)
    assert shown(db) == []


def test_deleting_a_thread_erases_its_session(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    graph.checkpointer.delete_thread("trip")
    with pytest.raises(errors.NotFound):
        db.named("trip").info()
    assert says(graph, "again") == ["again", "you said: again"]


def test_a_copy_goes_its_own_way(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    db.named("trip").record(events.Message(role="user", content="from elsewhere"))
    says(graph, "two")
    graph.checkpointer.copy_thread("trip", "copy")
    assert says(graph, "three", at("copy"))[:-2] == says(graph, "four")[:-2]
    assert shown(db, "copy")[:-2] == shown(db)[:-2]
    with pytest.raises(errors.AlreadyExists, match="copy"):
        graph.checkpointer.copy_thread("trip", "copy")
    assert {item.config["configurable"]["thread_id"] for item in PerdureSaver(db).list(None)} == {"trip", "copy"}


@pytest.mark.parametrize("begun", ["in LangGraph", "elsewhere"])
def test_a_thread_that_has_something_takes_no_copy_and_stays_as_it_is(begun: str, db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    if begun == "elsewhere":
        db.create(name="taken").record(events.Message(role="user", content="mine"))
    else:
        says(graph, "mine", at("taken"))
    before = list(graph.checkpointer.list(at("taken"))), shown(db, "taken")
    with pytest.raises(errors.AlreadyExists, match="delete it first") as refused:
        graph.checkpointer.copy_thread("trip", "taken")
    assert refused.value.thread == "taken"
    assert (list(graph.checkpointer.list(at("taken"))), shown(db, "taken")) == before
    graph.checkpointer.delete_thread("taken")
    graph.checkpointer.copy_thread("trip", "taken")
    assert shown(db, "taken") == shown(db)


def test_a_thread_copied_onto_itself_is_what_it_was(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    version = db.named("trip").version()
    graph.checkpointer.copy_thread("trip", "trip")
    graph.checkpointer.copy_thread("trip", db.named("trip").id)
    assert db.named("trip").version() == version


@pytest.mark.parametrize("source", ["a graph's", "a talk's"])
def test_two_who_copy_to_one_thread_do_not_mix(
    source: str, db: perdure.Perdure, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    db.create(name="talk").record(events.Message(role="user", content="from elsewhere"))
    opened = Upkeep.opened

    async def overtaken(self: Upkeep, *given: Any) -> Any:
        found = await opened(self, *given)
        monkeypatch.setattr(Upkeep, "opened", opened)
        await PerdureSaver(db).acopy_thread("talk", "copy")
        return found

    monkeypatch.setattr(Upkeep, "opened", overtaken)
    with pytest.raises(errors.VersionConflict):
        graph.checkpointer.copy_thread("trip" if source == "a graph's" else "talk", "copy")
    assert shown(db, "copy") == ["from elsewhere"]
    assert list(graph.checkpointer.list(at("copy"))) == []


def test_a_thread_that_was_only_talked_in_elsewhere_is_copied_too(db: perdure.Perdure) -> None:
    db.create(name="trip").record(events.Message(role="user", content="from elsewhere"))
    graph = echo(PerdureSaver(db))
    graph.checkpointer.copy_thread("trip", "copy")
    assert shown(db, "copy") == ["from elsewhere"]
    assert says(graph, "one", at("copy")) == ["from elsewhere", "one", "you said: one"]


def test_a_branch_of_a_session_is_a_thread_of_its_own(db: perdure.Perdure) -> None:
    graph = echo(PerdureSaver(db))
    says(graph, "one")
    branch = db.named("trip").branch()
    assert says(graph, "two", at(branch.id)) == ["one", "you said: one", "two", "you said: two"]
    assert shown(db) == ["one", "you said: one"]


# ── channels that store changes only ──


def joined(state: list[str], writes: Any) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


class Notes(TypedDict):
    notes: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]


def notes(saver: Any) -> Any:
    graph = StateGraph(Notes)
    graph.add_node("one", lambda state: {"notes": [f"one {len(state['notes'])}"]})
    graph.add_node("two", lambda state: {"notes": [f"two {len(state['notes'])}"]})
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    return graph.compile(checkpointer=saver)


def test_channels_of_changes_survive_pruning_and_copying(db: perdure.Perdure) -> None:
    saver, reference = PerdureSaver(db), InMemorySaver()
    for number in range(5):
        for each in (saver, reference):
            notes(each).invoke({"notes": [f"input {number}"]}, at())
        wanted = notes(reference).get_state(at()).values
        assert notes(saver).get_state(at()).values == wanted
        assert notes(PerdureSaver(db)).get_state(at()).values == wanted
    history = [item.values for item in notes(saver).get_state_history(at())]
    assert history == [item.values for item in notes(reference).get_state_history(at())]
    saver.prune(["trip"])
    assert len(list(saver.list(at()))) == 1
    for each in (saver, PerdureSaver(db)):
        assert notes(each).get_state(at()).values == wanted
    saver.copy_thread("trip", "copy")
    assert notes(PerdureSaver(db)).get_state(at("copy")).values == wanted
    for each in (saver, reference):
        notes(each).invoke({"notes": ["more"]}, at())
    assert notes(saver).get_state(at()).values == notes(reference).get_state(at()).values


# ── two at once ──


def test_who_goes_on_from_a_stale_latest_is_told(db: perdure.Perdure) -> None:
    mine, yours = PerdureSaver(db), PerdureSaver(db)
    says(echo(mine), "one")
    read = mine.get_tuple(at())
    assert read is not None
    says(echo(yours), "two")
    stale = copy_checkpoint(read.checkpoint) | {"id": "f" * 32}
    with pytest.raises(errors.VersionConflict, match="gone on meanwhile") as caught:
        mine.put(read.config, stale, {"source": "loop"}, {})  # type: ignore[arg-type]
    assert caught.value.thread == "trip"
    assert says(echo(mine), "three")[2:4] == ["two", "you said: two"]
    named = mine.get_tuple(at(checkpoint_id=read.config["configurable"]["checkpoint_id"]))
    assert named is not None
    mine.put(named.config, stale, {"source": "fork"}, {})  # type: ignore[arg-type]


def test_two_who_begin_a_thread_do_not_hide_each_other(db: perdure.Perdure) -> None:
    mine, yours = PerdureSaver(db), PerdureSaver(db)
    assert mine.get_tuple(at()) is None
    says(echo(yours), "one")
    with pytest.raises(errors.VersionConflict):
        mine.put(at(checkpoint_ns=""), checkpoint("1"), {"source": "input"}, {})


def test_a_run_that_is_overtaken_on_its_way_is_told(db: perdure.Perdure) -> None:
    saver = PerdureSaver(db)
    graph = echo(saver)
    inside = [False]

    def slow(state: Any) -> Any:
        if not inside[0]:
            inside[0] = True
            other = threading.Thread(target=says, args=(echo(PerdureSaver(db)), "meanwhile"))
            other.start()
            other.join()
        return {"messages": [AIMessage("late")]}

    made = StateGraph(graph.builder.state_schema)
    made.add_node("slow", slow)
    made.add_edge(START, "slow")
    with pytest.raises(errors.VersionConflict):
        made.compile(checkpointer=saver).invoke({"messages": [HumanMessage("one")]}, at(), durability="sync")
    assert [message.content for message in graph.get_state(at()).values["messages"]] == shown(db)
    assert shown(db)[-2:] == ["meanwhile", "you said: meanwhile"]


RUN = """
import json, sys
import perdure
from perdure import errors
from perdure.adapters.langgraph import PerdureSaver
from tests.adapters.test_langgraph import at, echo, says
done, refused = [], 0
with perdure.open(sys.argv[1]) as db:
    graph = echo(PerdureSaver(db))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(12):
        try:
            says(graph, f"{sys.argv[2]} {number}")
        except errors.VersionConflict:
            refused += 1
        else:
            done.append(f"{sys.argv[2]} {number}")
print(json.dumps([done, refused]))
"""


@pytest.mark.slow
def test_two_processes_on_one_thread_lose_nothing_of_what_they_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with perdure.open(path, seal=False) as db:
        command = [sys.executable, "-W", "ignore", "-c", RUN, str(path)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running = [subprocess.Popen([*command, name], **pipes) for name in ("left", "right")]
        for each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in running:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        results = [json.loads(each.communicate(timeout=120)[0]) for each in running]
        graph = echo(PerdureSaver(db))
        said = [message.content for message in graph.get_state(at()).values["messages"]]
        finished = [word for done, _ in results for word in done]
        assert len(finished) + sum(refused for _, refused in results) == 24
        assert finished
        for word in finished:
            assert said[said.index(word) + 1] == f"you said: {word}"
        assert shown(db) == said
        stored = {item.config["configurable"]["checkpoint_id"]: item for item in PerdureSaver(db).list(at())}
        tip = max(stored)
        line = []
        while tip in stored:
            line.append(tip)
            parent = stored[tip].parent_config
            tip = parent["configurable"]["checkpoint_id"] if parent else ""
        assert sorted(line) == sorted(stored)  # one line, nothing beside it


# ── lists ──


def test_a_snapshot_notices_every_change() -> None:
    codec = Bytes(PerdureSaver.serde)
    items = [HumanMessage("a"), AIMessage("b", additional_kwargs={"x": [1]}), {"y": 1}, 7, "text"]
    taken = Snapshot(items, codec)
    assert taken.shared(items) == 5
    assert taken.shared([*items, 8]) == 5
    assert taken.shared([*items[:3], True, "text"]) == 3
    assert taken.shared(items[:2]) == 2
    items[1].additional_kwargs["x"].append(2)  # type: ignore[union-attr]
    assert taken.shared(items) == 1
    shorter = taken.followed(1, [items[0], "new"])
    assert shorter.shared([items[0], "new", 7]) == 2
    assert shorter.shared([items[0], "old"]) == 1


def test_a_snapshot_looks_into_what_is_no_longer_the_same_object_and_into_the_last_items() -> None:
    codec = Bytes(PerdureSaver.serde)
    items = [HumanMessage(f"{number}") for number in range(4 * RECENT)]
    taken = Snapshot(items[:-1], codec).followed(4 * RECENT - 1, items)
    assert taken.speaks
    assert taken.shared([item.model_copy() for item in items]) == 4 * RECENT
    others = [*items[:5], HumanMessage("other"), *items[6:]]
    assert taken.shared(others) == 5
    items[-RECENT].content = "changed in place"
    assert taken.shared(items) == 3 * RECENT
    assert not taken.followed(3, [*items[:3], 1]).speaks
    assert taken.followed(3, [*items[:3], 1]).followed(3, items[:3]).speaks


def test_a_chain_of_ten_thousand_lists_is_read_in_one_walk() -> None:
    view = Thread()
    value = view.value({"v": 0, "parts": [{"n": 1, "type": "x", "data": b""}]}, None, iter(()))
    for number in range(1, 10_000):
        value = view.value(
            {"v": number, "keep": number, "parts": [{"n": 1, "type": "x", "data": b""}]}, value, iter(())
        )
    assert len(value.stretches()) == value.length == 10_000
