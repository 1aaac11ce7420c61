"""Files of the OpenAI Agents SDK, made by the SDK itself, brought over and gone on with."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.testing import ScriptedModel, assistant_message

import perdure
from perdure import errors
from perdure.adapters.openai_agents import PerdureSession
from perdure.importers import openai_agents
from perdure.importers.openai_agents import import_from

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

    async def dying(self: Any, *args: Any, **kwargs: Any) -> int:
        if kwargs["key"].endswith("/1"):
            raise KeyboardInterrupt
        return await record(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(perdure.AsyncSession, "record", dying)
        with pytest.raises(KeyboardInterrupt):
            perdure.drive(import_from(db, path))
    assert len(history(db, "lisbon")) == 10
    report = perdure.drive(import_from(db, path))
    assert (report.sessions, report.items) == (1, 25)
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
    for name in ("other.db", "text.db", "half.db", "none.db"):
        with pytest.raises(errors.Invalid, match=name):
            perdure.drive(import_from(db, tmp_path / name))
