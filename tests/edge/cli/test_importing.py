"""`perdure import`: another store's conversations, in a line."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from agents import SQLiteSession
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

import perdure
from perdure.edge.cli import importing
from perdure.events import Message
from tests.adapters.test_langgraph import Point, Somewhere, at
from tests.edge.cli.conftest import Run, Seeded

LETTA = Path(__file__).parents[2] / "fixtures" / "letta" / "mira.af"


def test_an_import_says_what_it_brought_and_a_second_one_brings_nothing(run: Run, tmp_path: Path) -> None:
    store = str(tmp_path / "new.db")
    first = run("import", "letta", str(LETTA), "--store", store)
    assert first.exit_code == 0
    assert first.stdout.startswith("imported 1 session with ")
    again = json.loads(run("import", "letta", str(LETTA), "--store", store, "--json").stdout)
    assert (again["sessions"], again["items"]) == (0, 0)
    assert again["skipped"]
    with perdure.open(store) as db:
        assert db.count() >= 1


def test_a_dry_run_makes_no_store(run: Run, tmp_path: Path) -> None:
    store = tmp_path / "new.db"
    told = run("import", "letta", str(LETTA), "--store", str(store), "--dry-run")
    assert (told.exit_code, told.stdout.split()[:3]) == (0, ["would", "import", "1"])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("new")]


def test_what_is_no_source_is_refused(run: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.af"
    wrong.write_text("{")
    assert run("import", "letta", str(wrong), "--store", str(tmp_path / "new.db")).exit_code == 2
    assert run("import", "telepathy", str(wrong), "--store", str(tmp_path / "new.db")).exit_code == 2


@pytest.mark.parametrize("words", [("import", "letta"), ("sessions", "import")])
def test_a_failed_import_leaves_no_new_store_and_no_keys(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    wrong = tmp_path / "wrong.af"
    wrong.write_text("{")
    there = sorted(tmp_path.iterdir())
    told = run(*words, str(wrong), "--store", str(tmp_path / "new.db"))
    assert (told.exit_code, "master key" in told.stderr) == (2, False)
    assert sorted(tmp_path.iterdir()) == there


def test_a_failed_import_into_a_store_that_was_there_leaves_it(run: Run, tmp_path: Path, seeded: Seeded) -> None:
    wrong = tmp_path / "wrong.af"
    wrong.write_text("{")
    assert run("import", "letta", str(wrong)).exit_code == 2
    with perdure.open(seeded.path) as db:
        assert db.count() == 4


def test_a_dry_run_leaves_nothing_beside_the_source(run: Run, tmp_path: Path) -> None:
    source = points(tmp_path / "theirs")
    before = sorted(source.parent.iterdir())
    assert run("import", "langgraph", str(source), "--dry-run", "--store", str(tmp_path / "new.db")).exit_code == 5
    assert sorted(source.parent.iterdir()) == before


def test_a_thread_with_types_of_its_own_is_told_as_incomplete_until_they_are_allowed(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, store = points(tmp_path / "theirs"), str(tmp_path / "new.db")
    first = run("import", "langgraph", str(source), "--store", store)
    assert (first.exit_code, first.stdout.splitlines()[1:]) == (5, ["  points (incomplete)"])
    assert "cannot be read: tests.adapters.test_langgraph.Point is not on the allowlist" in first.stderr
    assert "1 session not imported whole" in first.stderr
    assert "Blocked" not in caplog.text
    again = run("import", "langgraph", str(source), "--store", store)
    assert (again.exit_code, again.stdout.split()[1]) == (5, "0")
    assert "there already" not in again.stderr
    allowed = ("--allow", "tests.adapters.test_langgraph:Point")
    told = run("import", "langgraph", str(source), "--store", store, *allowed, "--json")
    assert (told.exit_code, json.loads(told.stdout)["incomplete"]) == (0, [])
    last = run("import", "langgraph", str(source), "--store", store, *allowed)
    assert (last.exit_code, "it is there already" in last.stderr) == (0, True)


@pytest.mark.parametrize(
    ("kind", "allow"), [("langgraph", "nowhere.at_all:Type"), ("langgraph", "json:loads"), ("letta", "a:B")]
)
def test_what_cannot_be_allowed_is_refused(run: Run, tmp_path: Path, kind: str, allow: str) -> None:
    told = run("import", kind, str(LETTA), "--store", str(tmp_path / "new.db"), "--allow", allow)
    assert (told.exit_code, allow.partition(":")[0] in told.stderr or "langgraph" in told.stderr) == (2, True)


def spoken(path: Path, name: str, *texts: str) -> None:
    """Add to a file of the OpenAI Agents SDK."""

    async def add() -> None:
        session = SQLiteSession(name, path)
        await session.add_items([{"role": "user", "content": text} for text in texts])
        session.close()

    asyncio.run(add())


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_conversation_of_another_framework_by_the_name_is_told_with_the_way_out(
    run: Run, tmp_path: Path, dry: tuple[str, ...]
) -> None:
    store, source = str(tmp_path / "new.db"), tmp_path / "openai.db"
    threads = points(tmp_path / "theirs", "trip")
    assert run("import", "langgraph", str(threads), "--store", store).exit_code == 5
    spoken(source, "trip", "Hello")
    told = run("import", "openai-agents", str(source), "--store", store, *dry)
    assert (told.exit_code, "import 0 sessions with 0 items" in told.stdout.replace("imported", "import")) == (5, True)
    assert "a session of this name is there, with things of its own" in told.stderr
    assert "--prefix TEXT" in told.stderr
    aside = run("import", "openai-agents", str(source), "--store", store, "--prefix", "openai-", "--json", *dry)
    assert (aside.exit_code, json.loads(aside.stdout)["names"]) == (0, ["openai-trip"])


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_source_that_grew_is_brought_or_told_as_incomplete(run: Run, tmp_path: Path, dry: tuple[str, ...]) -> None:
    store, source = str(tmp_path / "new.db"), tmp_path / "openai.db"
    command = ("import", "openai-agents", str(source), "--store", store)
    spoken(source, "trip", "One")
    assert run(*command).exit_code == 0
    spoken(source, "trip", "Two")
    grown = run(*command, "--json", *dry)
    assert (grown.exit_code, json.loads(grown.stdout)["items"]) == (0, 1)
    run(*command)
    with perdure.open(store) as db:
        db.named("trip").record(Message(role="user", content="Said here"))
    spoken(source, "trip", "Three")
    apart = run(*command, *dry)
    assert apart.exit_code == 5
    assert "1 newer item was not imported" in apart.stderr
    assert "1 session not imported whole" in apart.stderr


def test_a_transcript_with_a_line_cut_off_is_incomplete_each_time(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "project" / "0b6f7f0e-57b4-4c6f-8f5d-2f3f0a6f5a11.jsonl"
    path.parent.mkdir()
    path.write_text('{"type": "mode", "mode": "normal"}\n{"type": "us')
    for _ in range(2):
        told = run("import", "claude-code", str(path), "--store", str(tmp_path / "new.db"))
        assert (told.exit_code, "still being written" in told.stderr) == (5, True)


@pytest.mark.parametrize("kind", list(importing.KINDS))
def test_a_source_that_is_not_there_ends_alike_for_all(run: Run, tmp_path: Path, kind: str) -> None:
    told = run("import", kind, str(tmp_path / "nowhere"), "--store", str(tmp_path / "new.db"))
    assert (told.exit_code, "there is no" in told.stderr) == (3, True)


def points(folder: Path, thread: str = "points") -> Path:
    """A file of LangGraph's with a thread whose later state holds a type of the application's."""
    folder.mkdir()
    path = folder / "checkpoints.sqlite"
    graph = StateGraph(Somewhere)
    graph.add_node("go", lambda state: {"place": Point(1)})
    graph.add_edge(START, "go")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph.compile(checkpointer=saver).invoke({"place": None}, at(thread))
    return path


def test_a_framework_that_is_not_installed_is_named_with_its_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'langgraph'", name="langgraph")

    monkeypatch.setattr(importing, "import_module", missing)
    told = run("import", "langgraph", "old.db", "--store", str(tmp_path / "new.db"))
    assert told.exit_code == 2
    assert "pip install 'perdure[langgraph]'" in told.stderr


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_what_does_not_fit_is_named_and_the_rest_is_imported(run: Run, tmp_path: Path, how: tuple[str, ...]) -> None:
    path = tmp_path / os.fsdecode(b"agents\xff.db")
    for name, words in (("large", "x" * (17 << 20)), ("n" * 1200, "hi"), ("small", "hi")):
        session = SQLiteSession(name, path)
        asyncio.run(session.add_items([{"role": "user", "content": "first"}, {"role": "user", "content": words}]))
        session.close()
    words = ("import", "openai-agents", str(path), "--store", str(tmp_path / "new.db"), *how)
    told = run(*words, "--json")
    found = json.loads(told.stdout)
    assert (told.exit_code, found["sessions"], found["items"], found["names"]) == (5, 2, 3, ["large", "small"])
    assert [item["what"] for item in found["skipped"]] == ["row 2 of large", "n" * 1000]
    shown = run(*words)
    assert (shown.exit_code, "2 sessions not imported whole" in shown.stderr) == (5, True)
