"""Threads that LangGraph's own savers wrote are brought over and go on through ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command, interrupt

import perdure
from perdure import errors
from perdure.adapters.langgraph import PerdureSaver
from perdure.events import Message
from perdure.importers.langgraph import import_from
from perdure.importers.report import OWN, Imported
from perdure.testing.postgres import running
from tests.adapters.test_langgraph import Point, Somewhere, Talk, at, echo, says, shown
from tests.importers.flipping import flipped


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
    here_only = await import_from(db, file)
    assert ({item.why for item in here_only.skipped}, here_only.incomplete) == ({"it is there already"}, [])


async def both(db: perdure.Perdure, path: Path, **more: Any) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    before = list(db.find().items)
    tried = await import_from(db, path, dry_run=True, **more)
    assert list(db.find().items) == before
    found = await import_from(db, path, **more)
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


async def test_a_thread_that_grew_brings_what_is_new(db: perdure.Perdure, file: Path) -> None:
    await import_from(db, file)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        says(echo(saver), "later")
        report = await both(db, file)
        assert (report.names, [item.what for item in report.skipped]) == (["trip"], ["thread asking"])
        assert seen(PerdureSaver(db), "trip") == seen(saver, "trip")
    assert shown(db)[-2:] == ["later", "you said: later"]


@pytest.mark.parametrize("how", ["langgraph", "others"])
async def test_what_is_new_is_left_out_and_told_where_the_thread_went_its_own_way(
    db: perdure.Perdure, file: Path, how: str
) -> None:
    await import_from(db, file)
    if how == "langgraph":
        says(echo(PerdureSaver(db)), "here")
    else:
        db.named("trip").record(Message(role="user", content="Said elsewhere"))
    with SqliteSaver.from_conn_string(str(file)) as saver:
        says(echo(saver), "there")
    version = db.named("trip").version()
    for _ in range(2):
        report = await both(db, file)
        assert (report.sessions, report.incomplete) == (0, ["trip"])
        assert report.skipped[-1].why.startswith(f"{OWN}: 3 newer checkpoints were not imported")
        assert db.named("trip").version() == version


async def test_another_session_of_the_name_stays_and_a_prefix_makes_room(db: perdure.Perdure, file: Path) -> None:
    db.create(name="trip").record(Message(role="user", content="Said elsewhere"))
    report = await both(db, file)
    assert (report.names, report.incomplete) == (["asking"], ["trip"])
    assert report.skipped[-1].why.startswith(f"{OWN};")
    assert "--prefix" in report.skipped[-1].why
    aside = await both(db, file, prefix="old-")
    assert (aside.names, aside.skipped) == (["old-asking", "old-trip"], [])
    assert shown(db, "old-trip") == ["one", "you said: one", "instead", "you said: instead"]
    assert says(echo(PerdureSaver(db)), "more", at("old-trip"))[-1] == "you said: more"


async def test_the_original_times_are_kept_beside_what_was_said(db: perdure.Perdure, file: Path) -> None:
    await import_from(db, file)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        times = sorted(item.checkpoint["ts"] for item in saver.list(at()))
        told = {time.replace("+00:00", "Z") for time in times}
        assert seen(PerdureSaver(db), "trip") == seen(saver, "trip")
    session = db.named("trip")
    assert session.info().metadata["began_at"] == times[0].replace("+00:00", "Z")
    found = [payload.metadata["said_at"] for item in session.conversation() for payload in item.payloads]
    assert (len(found), found, set(found) <= told) == (4, sorted(found), True)


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


@pytest.mark.parametrize("elsewhere", [[], ["said elsewhere"]])
async def test_older_checkpoints_that_are_filled_in_do_not_become_the_latest(
    db: perdure.Perdure, tmp_path: Path, elsewhere: list[str]
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
        for word in elsewhere:
            db.named("trip").record(Message(role="user", content=word))
        after = await import_from(db, path, serde=serde)
        assert (before.items > 0, after.items > 0, after.skipped) == (True, True, [])
        ours, theirs = PerdureSaver(db, serde=serde), SqliteSaver(saver.conn, serde=serde)
        assert seen(ours, "trip") == seen(theirs, "trip")
    assert shown(db) == ["one", "re", "two", "re", *elsewhere]
    if elsewhere:
        return
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
    unrelated = tmp_path / "unrelated.db"
    with closing(sqlite3.connect(unrelated)) as connection:
        connection.execute("CREATE TABLE things (id TEXT)")
    with pytest.raises(errors.Invalid, match="no checkpoint file of LangGraph's: it has no table checkpoints"):
        await import_from(db, unrelated)
    memories = tmp_path / "store.db"
    with SqliteStore.from_conn_string(str(memories)) as store:
        store.setup()
    with pytest.raises(errors.Invalid, match=r"SqliteStore.*PerdureStore"):
        await import_from(db, memories)
    cut = tmp_path / "cut.db"
    cut.write_bytes(other.read_bytes()[:1000])
    with pytest.raises(errors.Invalid, match=r"backup|lacks"):
        await import_from(db, cut)


@pytest.mark.parametrize(
    ("allow", "told"),
    [
        ("nowhere.at_all:Type", "there is no module nowhere.at_all"),
        ("tests.adapters.test_langgraph:Pont", "has no 'Pont'; did you mean 'Point'?"),
        ("json:loads", "json.loads is no type"),
        ("tests.adapters.test_langgraph.Point", "tests.adapters.test_langgraph:Point"),
        ("Point", "module:Type"),
    ],
)
async def test_what_cannot_be_allowed_is_told_apart(db: perdure.Perdure, file: Path, allow: str, told: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        await import_from(db, file, allow=[allow])
    assert told in str(refused.value)


# ── what does not fit, and what was damaged ──


class Carrying(Talk):
    load: str


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Threads a, b and c, with a word in each."""
    path = tmp_path / "three.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for thread in "abc":
            says(echo(saver), thread, at(thread))
    return path


def altered(path: Path, statement: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    return path


DEEP = "replace(hex(zeroblob(50000)), '0', '[')"
"""100,000 brackets."""


@pytest.mark.parametrize(
    "change",
    [
        "checkpoints SET metadata = 'null'",
        "checkpoints SET metadata = '[]'",
        "checkpoints SET metadata = CAST(x'7bff7d' AS TEXT)",
        f"checkpoints SET metadata = {DEEP}",
        "checkpoints SET checkpoint = x'ff'",
        "checkpoints SET checkpoint = 5",
        "checkpoints SET type = NULL",
        "checkpoints SET checkpoint_id = CAST(checkpoint_id AS BLOB)",
        "checkpoints SET checkpoint_id = 'another ' || checkpoint_id",
        "checkpoints SET checkpoint_ns = x'ff'",
        "checkpoints SET parent_checkpoint_id = x'ff'",
        "writes SET value = 'text'",
        "writes SET value = 1000000000000",
        "writes SET value = 1.5",
        "writes SET idx = 'text'",
        "writes SET channel = x'ff'",
        "writes SET task_id = CAST(x'ff' AS TEXT) || task_id",
    ],
)
async def test_a_damaged_row_is_named_and_the_rest_is_brought_over(
    db: perdure.Perdure, three: Path, change: str
) -> None:
    table = change.partition(" ")[0]
    altered(three, f"UPDATE {change} WHERE rowid = (SELECT max(rowid) FROM {table} WHERE thread_id = 'b')")
    for thread in "bc":  # the last that is told of: what is damaged, then who is there already
        report = await both(db, three)
        assert (report.incomplete, report.skipped[-1].what[:8]) == (["b"], f"thread {thread}")
    assert [shown(db, thread) for thread in "ac"] == [["a", "you said: a"], ["c", "you said: c"]]
    seen(PerdureSaver(db), "b")
    assert db.named("b").verify().ok


@pytest.mark.parametrize("id", ["x'ff'", "''", "hex(zeroblob(600))", "CAST(x'ff41' AS TEXT)"])
async def test_a_thread_that_cannot_have_its_name_is_named_and_the_others_are_brought_over(
    db: perdure.Perdure, three: Path, id: str
) -> None:
    altered(three, f"UPDATE checkpoints SET thread_id = {id} WHERE thread_id = 'b'")
    report = await both(db, three)
    assert (sorted(report.names), len(report.skipped), len(report.incomplete)) == (["a", "c"], 1, 1)


async def test_a_checkpoint_that_is_too_large_is_named_and_the_rest_is_brought_over(
    db: perdure.Perdure, tmp_path: Path
) -> None:
    path = tmp_path / "large.sqlite"

    def go(state: Carrying) -> Any:
        return {"messages": [("ai", "re")], "load": "x" * (17 << 20) if len(state["messages"]) == 3 else ""}

    graph = StateGraph(Carrying).add_node("go", go).add_edge(START, "go")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for word in ("one", "two", "three"):
            says(graph.compile(checkpointer=saver), word, at("a"))
        says(echo(saver), "small", at("b"))
        there = len(seen(saver, "a"))
    report = await both(db, path)
    left = [item.why for item in report.skipped if "checkpoints" in item.why]
    assert (report.names, report.incomplete, len(left)) == (["a", "b"], ["a"], 1)
    assert "more than 16777216 bytes" in left[0]
    assert there > len(seen(PerdureSaver(db), "a")) >= there - 3
    assert shown(db, "a") == ["one", "re", "two", "re", "three", "re"]
    versions = [db.named(thread).version() for thread in "ab"]
    assert (await both(db, path)).items == 0
    assert [db.named(thread).version() for thread in "ab"] == versions


async def test_many_checkpoints_of_many_bytes_are_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "large.sqlite"
    graph = StateGraph(Carrying).add_node("go", lambda _: {"load": "x" * (8 << 20)}).add_edge(START, "go")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for word in ("one", "two", "three"):
            says(graph.compile(checkpointer=saver), word, at("a"))
        assert (await both(db, path)).skipped == []
        assert seen(PerdureSaver(db), "a") == seen(saver, "a")


def test_bytes_that_flipped_stop_nothing_and_a_dry_run_says_the_same(three: Path) -> None:
    flipped(three, import_from)


@pytest.mark.parametrize(
    ("part", "damaged"), [(b"\xa7content", b"\xa7kontent"), (b"tool_calls\x90", b"tool_calls\x05")]
)
async def test_a_message_that_is_damaged_is_not_brought_over_the_next_time_either(
    db: perdure.Perdure, three: Path, part: bytes, damaged: bytes
) -> None:
    with SqliteSaver.from_conn_string(str(three)) as saver:
        says(echo(saver), "again", at("b"))
    with closing(sqlite3.connect(three)) as connection, connection:
        query = "SELECT checkpoint_id, checkpoint FROM checkpoints WHERE thread_id = 'b' ORDER BY 1 LIMIT 1 OFFSET 2"
        id, data = connection.execute(query).fetchone()
        assert part in data
        data = data.replace(part, damaged)
        connection.execute("UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?", (data, id))
    for items in (11, 0):
        report = await both(db, three)
        assert (report.items, report.incomplete) == (items, ["b"])
