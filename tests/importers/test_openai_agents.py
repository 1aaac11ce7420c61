"""Files of the OpenAI Agents SDK, made by the SDK itself, brought over and gone on with."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.testing import ScriptedModel, assistant_message

import perdure
from perdure import errors
from perdure.adapters.openai_agents import PerdureSession
from perdure.events import Message, Noted
from perdure.importers import openai_agents
from perdure.importers.openai_agents import import_from
from perdure.importers.report import OWN, Imported
from tests.importers.flipping import flipped

TRIP: list[Any] = [
    {"role": "user", "content": "Find me a flight to Zürich"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
    {"type": "function_call", "call_id": "c1", "name": "flights", "arguments": '{"to": "ZRH"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "LX 2085"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "LX 2085", "annotations": []}],
    },
]


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as opened:
        yield opened


def written(path: Path, **sessions: list[Any]) -> Path:
    async def add() -> None:
        for name, items in sessions.items():
            session = SQLiteSession(name, path)
            await session.add_items(items)
            session.close()

    asyncio.run(add())
    return path


def history(db: perdure.Perdure, name: str) -> list[Any]:
    return asyncio.run(PerdureSession(name, db).get_items())


def both(db: perdure.Perdure, path: Path, **more: Any) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    before = list(db.find().items)
    tried = perdure.drive(import_from(db, path, dry_run=True, **more))
    assert list(db.find().items) == before
    found = perdure.drive(import_from(db, path, **more))
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


def test_a_file_is_brought_over_word_for_word(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP, other=[{"role": "user", "content": "Hello"}])
    seen: list[tuple[int, int]] = []
    report = perdure.drive(import_from(db, path, progress=lambda done, total: seen.append((done, total))))
    assert (report.sessions, report.items, report.names, report.skipped) == (2, 6, ["lisbon", "other"], [])
    assert seen == [(1, 2), (2, 2)]
    assert history(db, "lisbon") == TRIP
    (turn,) = db.named("lisbon").turns()
    assert (turn.status, [call.result for call in turn.calls]) == ("finished", ["LX 2085"])


def test_the_sdk_goes_on_with_what_was_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    perdure.drive(import_from(db, written(tmp_path / "a.db", lisbon=TRIP)))
    model = ScriptedModel([[assistant_message("At noon.")]])
    agent = Agent(name="travel", model=model)
    session = PerdureSession("lisbon", db)
    asyncio.run(Runner.run(agent, "When?", session=session, run_config=RunConfig(tracing_disabled=True)))
    assert [item.get("type", item.get("role")) for item in model.calls[0].input] == [
        "user", "reasoning", "function_call", "function_call_output", "message", "user",
    ]  # fmt: skip
    assert len(history(db, "lisbon")) == len(TRIP) + 2


def test_importing_twice_adds_nothing(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    perdure.drive(import_from(db, path))
    version = db.named("lisbon").version()
    report = perdure.drive(import_from(db, path))
    assert (report.sessions, [(one.what, one.why) for one in report.skipped]) == (
        0,
        [("lisbon", "it is there already")],
    )
    assert db.named("lisbon").version() == version


def test_a_dry_run_counts_and_writes_nothing(db: perdure.Perdure, tmp_path: Path) -> None:
    report = perdure.drive(import_from(db, written(tmp_path / "a.db", lisbon=TRIP), dry_run=True))
    assert (report.dry_run, report.sessions, report.items) == (True, 1, 5)
    assert db.count() == 0


def test_an_import_that_was_killed_goes_on(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.db", lisbon=[{"role": "user", "content": str(number)} for number in range(25)])
    monkeypatch.setattr(openai_agents, "BATCH", 10)
    record = perdure.AsyncSession.record

    done: list[int] = []

    async def dying(self: Any, *args: Any, **kwargs: Any) -> int:
        if done:
            raise KeyboardInterrupt
        done.append(await record(self, *args, **kwargs))
        return done[-1]

    with monkeypatch.context() as patch:
        patch.setattr(perdure.AsyncSession, "record", dying)
        with pytest.raises(KeyboardInterrupt):
            perdure.drive(import_from(db, path))
    assert len(history(db, "lisbon")) == 10
    report = both(db, path)
    assert (report.sessions, report.items) == (1, 15)
    assert [item["content"] for item in history(db, "lisbon")] == [str(number) for number in range(25)]


def test_a_branch_becomes_a_session_of_its_own(db: perdure.Perdure, tmp_path: Path) -> None:
    async def write() -> None:
        session = AdvancedSQLiteSession(session_id="lisbon", db_path=tmp_path / "a.db", create_tables=True)
        for word in ("one", "two"):
            await session.add_items([{"role": "user", "content": word}, {"role": "assistant", "content": word.upper()}])
        await session.create_branch_from_turn(2, "again")
        await session.add_items([{"role": "user", "content": "three"}])
        session.close()

    asyncio.run(write())
    report = perdure.drive(import_from(db, tmp_path / "a.db"))
    assert report.names == ["lisbon", "lisbon@again"]
    assert [item["content"] for item in history(db, "lisbon")] == ["one", "ONE", "two", "TWO"]
    assert [item["content"] for item in history(db, "lisbon@again")] == ["one", "ONE", "three"]
    assert db.named("lisbon@again").info().metadata["branch_of"] == "lisbon"


def test_tables_of_other_names_are_found(db: perdure.Perdure, tmp_path: Path) -> None:
    session = SQLiteSession("lisbon", tmp_path / "a.db", sessions_table="s", messages_table="spoken")
    asyncio.run(session.add_items(TRIP))
    session.close()
    perdure.drive(import_from(db, tmp_path / "a.db"))
    assert history(db, "lisbon") == TRIP


def test_rows_that_cannot_be_read_are_named(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP[:1])
    with sqlite3.connect(path) as file:
        odd = json.dumps({"role": "user", "content": "\ud800"})
        for data in ("{broken", "[1]", odd, b"\xff", '{"type": ["x"]}'):
            file.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('lisbon', ?)", (data,))
    file.close()
    report = perdure.drive(import_from(db, path))
    assert report.items == 2
    assert [one.what for one in report.skipped] == [f"row {number} of lisbon" for number in (2, 3, 5, 6)]
    assert history(db, "lisbon")[1] == {"role": "user", "content": "\ud800"}


def test_a_foreign_file_is_refused(db: perdure.Perdure, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as file:
        file.execute("CREATE TABLE things (id INTEGER)")
    file.close()
    (tmp_path / "text.db").write_text("not a database, but long enough to look at" * 50, "utf-8")
    whole = written(tmp_path / "a.db", lisbon=TRIP * 200).read_bytes()
    (tmp_path / "half.db").write_bytes(whole[: len(whole) // 2])
    for name in ("other.db", "text.db", "half.db"):
        with pytest.raises(errors.Invalid, match=name):
            perdure.drive(import_from(db, tmp_path / name))
    with pytest.raises(errors.NotFound, match=r"none\.db"):
        perdure.drive(import_from(db, tmp_path / "none.db"))


# ── what is there already ──

MORE: list[Any] = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "At noon."}]


def test_a_file_that_grew_brings_what_is_new(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    perdure.drive(import_from(db, path))
    written(path, lisbon=MORE)
    report = both(db, path)
    assert (report.sessions, report.items, report.names, report.skipped) == (1, 2, ["lisbon"], [])
    assert history(db, "lisbon") == [*TRIP, *MORE]
    again = both(db, path)
    assert (again.sessions, [one.why for one in again.skipped]) == (0, ["it is there already"])


def test_a_conversation_that_went_on_here_only_is_there_already(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    perdure.drive(import_from(db, path))
    asyncio.run(PerdureSession("lisbon", db).add_items(MORE))
    report = both(db, path)
    assert (report.incomplete, [one.why for one in report.skipped]) == ([], ["it is there already"])


@pytest.mark.parametrize("how", ["said", "popped", "noted", "redacted"])
def test_what_is_new_is_left_out_and_told_where_the_conversation_went_its_own_way(
    db: perdure.Perdure, tmp_path: Path, how: str
) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    perdure.drive(import_from(db, path))
    session = db.named("lisbon")
    if how == "said":
        session.record(Message(role="user", content="Something else"))
    elif how == "noted":
        session.record(Noted(by="langgraph", about="checkpoint", data={}))
    elif how == "popped":
        asyncio.run(PerdureSession("lisbon", db).pop_item())
    else:
        session.redact([session.conversation()[-1].first])
    version = session.version()
    if how == "popped":
        assert [one.why for one in both(db, path).skipped] == ["it is there already"]
    written(path, lisbon=MORE)
    for _ in range(2):
        report = both(db, path)
        assert (report.sessions, report.items, report.incomplete) == (0, 0, ["lisbon"])
        (left,) = report.skipped
        lacks = 3 if how == "redacted" else 2
        assert left.why.startswith(f"{OWN}: {lacks} newer items were not imported")
    assert session.version() == version


def test_another_conversation_of_the_name_is_not_taken_for_this_one(db: perdure.Perdure, tmp_path: Path) -> None:
    db.create(name="trip").record(Message(role="user", content="Said in LangGraph"))
    path = written(tmp_path / "a.db", trip=TRIP)
    report = both(db, path)
    assert (report.sessions, report.incomplete, len(report.skipped)) == (0, ["trip"], 1)
    assert report.skipped[0].why.startswith(OWN)
    assert "--prefix" in report.skipped[0].why
    aside = both(db, path, prefix="openai-")
    assert (aside.names, aside.skipped) == (["openai-trip"], [])
    assert history(db, "openai-trip") == TRIP
    assert len(history(db, "trip")) == 1
    assert both(db, path, prefix="openai-").skipped[0].why == "it is there already"


def test_the_original_times_are_kept_beside_what_was_said(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE agent_messages SET created_at = '2024-03-01 09:00:0' || id")
        file.execute("UPDATE agent_messages SET created_at = 'whenever' WHERE id = 2")
    file.close()
    perdure.drive(import_from(db, path))
    session = db.named("lisbon")
    assert session.info().metadata == {"began_at": "2024-03-01T09:00:01Z"}
    told = [item.payloads[0].metadata.get("said_at") for item in session.conversation()]
    assert told == ["2024-03-01T09:00:01Z", None, *[f"2024-03-01T09:00:0{n}Z" for n in (3, 4, 5)]]
    assert history(db, "lisbon") == TRIP


def test_rows_that_cannot_be_read_are_named_each_time(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE agent_messages SET message_data = '{' WHERE id = 2")
    file.close()
    for _ in range(2):
        report = both(db, path)
        assert (report.incomplete, report.skipped[0].what) == (["lisbon"], "row 2 of lisbon")


def test_the_sdk_is_not_needed_to_read_its_files() -> None:
    told = "import sys; sys.modules['agents'] = None; import perdure.importers.openai_agents"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


# ── what does not fit, and what was damaged ──


def changed(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            file.execute(statement)
    file.close()
    return path


def test_a_session_of_many_bytes_is_brought_over_whole(db: perdure.Perdure, tmp_path: Path) -> None:
    large = [{"role": "user", "content": f"{number}" + "x" * 500_000} for number in range(160)]
    path = written(tmp_path / "a.db", large=large, small=TRIP)
    report = both(db, path)
    assert (report.sessions, report.items, report.skipped) == (2, 165, [])
    assert history(db, "large") == large


def test_an_item_that_is_too_large_is_named_and_the_rest_is_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    huge = {"role": "user", "content": "x" * (17 << 20)}
    path = written(tmp_path / "a.db", lisbon=[TRIP[0], huge, *TRIP[1:]], other=TRIP)
    report = both(db, path)
    assert (report.sessions, report.items, report.incomplete) == (2, 10, ["lisbon"])
    assert [one.what for one in report.skipped] == ["row 2 of lisbon"]
    assert "more than 16777216 bytes" in report.skipped[0].why
    assert history(db, "lisbon") == TRIP
    again = both(db, path)
    assert (again.sessions, again.incomplete, len(again.skipped)) == (0, ["lisbon"], 3)
    written(path, lisbon=MORE)
    assert both(db, path).items == len(MORE)
    assert history(db, "lisbon") == [*TRIP, *MORE]


def test_an_item_that_the_session_takes_from_the_sdk_is_taken_from_a_file(db: perdure.Perdure, tmp_path: Path) -> None:
    large = [{"role": "user", "content": "x" * (12 << 20)}]
    asyncio.run(PerdureSession("said", db).add_items(large))
    assert both(db, written(tmp_path / "a.db", lisbon=large)).skipped == []
    assert history(db, "lisbon") == large


@pytest.mark.parametrize("id", ["hex(zeroblob(600))", "CAST(x'ff41' AS TEXT)", "x'41'", "''"])
def test_a_session_whose_id_cannot_be_a_name_is_named_and_the_others_are_brought_over(
    db: perdure.Perdure, tmp_path: Path, id: str
) -> None:
    path = written(tmp_path / "a.db", a=TRIP, b=TRIP, c=TRIP)
    changed(path, f"UPDATE agent_messages SET session_id = {id} WHERE session_id = 'b'")
    report = both(db, path)
    assert (report.names, len(report.skipped), len(report.incomplete)) == (["a", "c"], 1, 1)


def test_what_was_said_here_while_an_import_was_half_done_is_not_put_in_the_middle(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(25)]
    whole = written(tmp_path / "a.db", lisbon=items)
    perdure.drive(import_from(db, written(tmp_path / "half.db", lisbon=items[:10])))  # as one that was killed leaves it
    asyncio.run(PerdureSession("lisbon", db).add_items([{"role": "user", "content": "new"}]))
    version = db.named("lisbon").version()
    report = both(db, whole)
    assert (report.sessions, report.items, report.incomplete) == (0, 0, ["lisbon"])
    assert report.skipped[0].why.startswith(f"{OWN}: 15 newer items were not imported")
    assert db.named("lisbon").version() == version


def test_a_schema_that_is_no_text_is_told(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", a=TRIP)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE agent_messages", b"CREATE TA\xaeLE agent_messages"))
    with pytest.raises(errors.Invalid, match=r"a\.db"):
        perdure.drive(import_from(db, path))


def test_bytes_that_flipped_stop_nothing_and_a_dry_run_says_the_same(tmp_path: Path) -> None:
    flipped(written(tmp_path / "a.db", a=TRIP * 30, b=TRIP * 30), import_from)


def test_two_conversations_of_one_name_in_a_file_are_told_apart(db: perdure.Perdure, tmp_path: Path) -> None:
    path = written(tmp_path / "a.db", lisbon=TRIP)
    other = SQLiteSession("lisbon", path, sessions_table="s", messages_table="spoken")
    asyncio.run(other.add_items(MORE))
    other.close()
    report = both(db, path)
    assert (report.names, report.incomplete, report.skipped[0].what) == (["lisbon"], ["lisbon"], "lisbon in spoken")
    assert history(db, "lisbon") == TRIP
