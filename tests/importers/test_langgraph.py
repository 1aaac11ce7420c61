"""Threads that LangGraph's own savers wrote are brought over and go on through ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import perdure
from perdure import errors
from perdure.adapters.langgraph import PerdureSaver
from perdure.importers.langgraph import import_from
from perdure.testing.postgres import running
from tests.adapters.test_langgraph import Point, Somewhere, Talk, at, echo, says, shown


class Wandering(Talk):
    place: Any


def ask(state: Talk) -> Any:
    return {"messages": [("ai", f"hello {interrupt('who?')}")]}


def asking(saver: Any) -> Any:
    graph = StateGraph(Talk)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def talk(saver: Any) -> None:
    """Two threads: one with a branch in it, one that waits for an answer."""
    graph = echo(saver)
    for word in ("one", "two", "three"):
        says(graph, word)
    old = next(item for item in graph.get_state_history(at()) if len(item.values.get("messages", ())) == 2)
    says(graph, "instead", old.config)
    says(asking(saver), "may I?", at("asking"))


def seen(saver: Any, thread: str) -> list[Any]:
    return [
        (
            item.checkpoint,
            item.metadata,
            item.parent_config and item.parent_config["configurable"]["checkpoint_id"],
            item.pending_writes,
        )
        for item in saver.list({"configurable": {"thread_id": thread}})
    ]


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as db:
        yield db


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk(saver)
    return path


def goes_on(db: perdure.Perdure, theirs: Any) -> None:
    ours = PerdureSaver(db)
    for thread in ("trip", "asking"):
        assert seen(ours, thread) == seen(theirs, thread)
    assert shown(db) == ["one", "you said: one", "instead", "you said: instead"]
    assert says(echo(ours), "more")[-4:] == ["instead", "you said: instead", "more", "you said: more"]
    asking(ours).invoke(Command(resume="Ana"), at("asking"))
    assert shown(db, "asking") == ["may I?", "hello Ana"]


async def test_a_sqlite_file_is_brought_over_and_goes_on(db: perdure.Perdure, file: Path) -> None:
    steps: list[tuple[int, int]] = []
    trial = await import_from(db, file, dry_run=True)
    assert db.count() == 0
    report = await import_from(db, file, progress=lambda *step: steps.append(step))
    assert (report.sessions, report.names, report.skipped) == (2, ["asking", "trip"], [])
    assert (trial.sessions, trial.items) == (report.sessions, report.items)
    assert steps == [(0, 2), (1, 2), (2, 2)]
    with SqliteSaver.from_conn_string(str(file)) as saver:
        goes_on(db, saver)


async def test_a_postgresql_database_is_brought_over_and_goes_on(db: perdure.Perdure) -> None:
    with running() as server:
        address = server.database()
        with pytest.raises(errors.Invalid, match="PostgresSaver"):
            await import_from(db, address)
        with PostgresSaver.from_conn_string(address) as saver:
            saver.setup()
            talk(saver)
            report = await import_from(db, address)
            assert (report.sessions, report.skipped) == (2, [])
            goes_on(db, saver)


@pytest.mark.parametrize("puts", [1, 2, 5])
async def test_importing_again_adds_nothing_and_a_cut_import_goes_on(
    db: perdure.Perdure, file: Path, monkeypatch: pytest.MonkeyPatch, puts: int
) -> None:
    put, left = PerdureSaver.aput, [puts]

    async def killed(self: Any, *given: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return await put(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(PerdureSaver, "aput", killed)
        with pytest.raises(KeyboardInterrupt):
            await import_from(db, file)
    assert (await import_from(db, file)).names[-1] == "trip"
    again = await import_from(db, file)
    assert (again.sessions, again.items) == (0, 0)
    assert {item.why for item in again.skipped} == {"it is there already"}
    with SqliteSaver.from_conn_string(str(file)) as saver:
        goes_on(db, saver)
    assert {item.why for item in (await import_from(db, file)).skipped} == {
        "a session of this name is there, with things of its own"
    }


async def test_what_cannot_be_read_is_skipped_and_said(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    graph = StateGraph(Somewhere)
    graph.add_node("go", lambda state: {"place": Point(state["place"].x + 1)})
    graph.add_edge(START, "go")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph.compile(checkpointer=saver).invoke({"place": Point(1)}, at("points"))
    report = await import_from(db, path)
    assert report.sessions == 0
    assert any("Point is not on the allowlist" in item.why for item in report.skipped)
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Point])
    assert (await import_from(db, path, serde=serde)).names == ["points"]
    state = graph.compile(checkpointer=PerdureSaver(db, serde=serde)).get_state(at("points"))
    assert state.values == {"place": Point(2)}


async def test_older_checkpoints_that_are_filled_in_do_not_become_the_latest(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoints.sqlite"

    def go(state: Wandering) -> Any:
        return {"messages": [("ai", "re")], "place": Point(1) if len(state["messages"]) < 3 else None}

    graph = StateGraph(Wandering).add_node("go", go).add_edge(START, "go")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for word in ("one", "two"):
            says(graph.compile(checkpointer=saver), word)
        serde = JsonPlusSerializer(allowed_msgpack_modules=[Point])
        before = await import_from(db, path)
        after = await import_from(db, path, serde=serde)
        assert (before.items > 0, after.items > 0, after.skipped) == (True, True, [])
        ours, theirs = PerdureSaver(db, serde=serde), SqliteSaver(saver.conn, serde=serde)
        assert seen(ours, "trip") == seen(theirs, "trip")
    assert shown(db) == ["one", "re", "two", "re"]
    ours.copy_thread("trip", "copy")
    for thread in ("trip", "copy"):
        assert says(graph.compile(checkpointer=ours), "more", at(thread))[-3:] == ["re", "more", "re"]
        assert shown(db, thread) == ["one", "re", "two", "re", "more", "re"]


async def test_other_files_are_refused(db: perdure.Perdure, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="no file"):
        await import_from(db, tmp_path / "none")
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(errors.Invalid, match="no SQLite file"):
        await import_from(db, text)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    with pytest.raises(errors.Invalid, match="lacks"):
        await import_from(db, other)
    cut = tmp_path / "cut.db"
    cut.write_bytes(other.read_bytes()[:1000])
    with pytest.raises(errors.Invalid, match=r"backup|lacks"):
        await import_from(db, cut)
