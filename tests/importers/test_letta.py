"""Letta agent files, brought over. `mira.af` was written by the schema classes of letta 0.16.8."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import errors
from perdure.events import Message, Noted, ToolAsked, ToolFinished
from perdure.importers import letta
from perdure.importers.dating import moment
from perdure.importers.letta import import_from
from perdure.importers.report import OWN, Imported
from tests.importers.flipping import flipped

FILE = Path(__file__).parent.parent / "fixtures" / "letta" / "mira.af"


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as opened:
        yield opened


def older() -> dict[str, Any]:
    """An agent as files of the first spelling have it."""
    call = {"id": "c1", "type": "function", "function": {"name": "send_message", "arguments": '{"message": "Hi Ana"}'}}
    return {
        "name": "Old one",
        "agent_type": "memgpt_agent",
        "system": "You are old.",
        "llm_config": {"model": "gpt-4"},
        "core_memory": [{"label": "human", "value": "Ana", "limit": 2000}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": '{"type": "user_message", "message": "Hello"}'}]},
            {"role": "assistant", "content": [{"type": "text", "text": "A greeting."}], "tool_calls": [call]},
            {"role": "tool", "content": [{"type": "text", "text": '{"status": "OK"}'}], "tool_call_id": "c1"},
        ],
        "tags": [{"tag": "old"}],
        "tools": [{"name": "send_message", "source_code": None}],
        "tool_exec_environment_variables": [{"key": "K", "value": "hidden"}],
        "version": "0.6.50",
    }


def test_an_agent_becomes_a_session_of_turns(db: perdure.Perdure) -> None:
    report = perdure.drive(import_from(db, FILE))
    assert (report.sessions, report.items) == (1, 11)
    session = db.named(report.names[0])
    first, second = [turn for turn in session.turns() if turn.number is not None]
    assert [(item.role, item.content) for item in first.messages] == [
        ("user", "Which book is on the desk?"),
        ("assistant", "The desk first, then I tell."),
        ("assistant", [{"type": "thinking", "thinking": "It is Middlemarch."}]),
        ("assistant", "Middlemarch is on the desk."),
    ]
    assert second.messages[-1].content == "I could not look."
    spoken = [payload for item in session.conversation() for payload in item.payloads]
    assert [(item.name, item.arguments) for item in spoken if isinstance(item, ToolAsked)] == [
        ("archival_memory_search", {"query": "desk"}),
        ("look_under", {}),
    ]
    assert [(item.result, item.error) for item in spoken if isinstance(item, ToolFinished)] == [
        ("Middlemarch", None),
        (None, "no such tool"),
    ]
    assert isinstance(spoken[0], Message)
    assert spoken[0].role == "system"


def test_every_message_block_and_tool_is_kept_as_it_was(db: perdure.Perdure) -> None:
    report = perdure.drive(import_from(db, FILE))
    session = db.named(report.names[0])
    file = json.loads(FILE.read_text())
    notes = [event.data for event in session.events() if isinstance(event.data, Noted)]
    natives = [item.native for item in session.conversation()]
    kept = sorted(
        [*natives, *[note.data for note in notes if note.about == "tool" and "role" in note.data]],
        key=lambda m: m["created_at"],
    )
    assert kept == file["agents"][0]["messages"]
    assert [note.data for note in notes if note.about == "block"] == file["blocks"]
    assert [note.data["name"] for note in notes if note.about == "tool" and "role" not in note.data] == [
        "archival_memory_search"
    ]
    assert session.scratchpad() == "# persona\nI am Mira.\n\n# human\nLikes long novels."
    assert session.info().title == "Mira"
    assert session.info().tags == ("library",)
    assert session.state().config.system_prompt == "You are Mira, a librarian."
    assert session.state().config.model == "gpt-4o-mini"


def test_secrets_stay_behind_and_that_is_said(db: perdure.Perdure) -> None:
    report = perdure.drive(import_from(db, FILE))
    assert any("secrets" in item.why for item in report.skipped)
    assert b"not-to-be-imported" not in b"".join(db.named(report.names[0]).export())


def test_the_older_spelling_is_read_too(db: perdure.Perdure, tmp_path: Path) -> None:
    (tmp_path / "old.af").write_text(json.dumps(older()))
    report = perdure.drive(import_from(db, tmp_path))
    session = db.named(report.names[0])
    (turn,) = session.turns()
    assert [item.content for item in turn.messages] == [
        "Hello",
        [{"type": "thinking", "thinking": "A greeting."}],
        "Hi Ana",
    ]
    assert turn.status == "finished"
    assert session.scratchpad() == "# human\nAna"
    assert session.info().tags == ("old",)
    assert b"hidden" not in b"".join(session.export())


def test_importing_twice_adds_nothing(db: perdure.Perdure) -> None:
    planned = perdure.drive(import_from(db, FILE, dry_run=True))
    assert db.count() == 0
    done = perdure.drive(import_from(db, FILE))
    assert planned.names == done.names
    version = db.named(done.names[0]).version()
    again = perdure.drive(import_from(db, FILE))
    assert (again.sessions, again.skipped[-1].why) == (0, "it is there already")
    assert db.named(done.names[0]).version() == version


def test_an_import_that_was_killed_goes_on(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letta, "BATCH", 2)
    with perdure.open(":memory:") as untouched:
        report = perdure.drive(import_from(untouched, FILE))
        expected = [item.native for item in untouched.named(report.names[0]).conversation()]
    told = 0

    async def dying(self: Any, *given: Any, **more: Any) -> int:
        nonlocal told
        told += 1
        if told == 4:
            raise KeyboardInterrupt
        return await recorded(self, *given, **more)

    recorded = perdure.AsyncSession.record
    monkeypatch.setattr(perdure.AsyncSession, "record", dying)
    with pytest.raises(KeyboardInterrupt):
        perdure.drive(import_from(db, FILE))
    report = perdure.drive(import_from(db, FILE))
    assert report.sessions == 1
    assert [item.native for item in db.named(report.names[0]).conversation()] == expected


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"agents": [3]}', '{"agents": [{"name": '])
def test_a_file_that_is_none_is_refused(content: str, db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "wrong.af"
    path.write_text(content)
    with pytest.raises(errors.Invalid):
        perdure.drive(import_from(db, path))
    assert perdure.drive(import_from(db, tmp_path)).skipped[0].what == str(path)
    with pytest.raises(errors.NotFound):
        perdure.drive(import_from(db, tmp_path / "none.af"))


def test_messages_that_are_none_are_passed_over_and_named(db: perdure.Perdure, tmp_path: Path) -> None:
    agent = {
        **older(),
        "tools": 5,
        "tags": 5,
        "messages": [
            3,
            {"role": None},
            {"role": "approval", "approve": True},
            {"role": "assistant", "tool_calls": 5},
            {"role": "tool", "tool_returns": 5},
            {"role": "user", "content": "half \ud83d"},
        ],
    }
    path = tmp_path / "odd.af"
    path.write_text(json.dumps(agent))
    report = perdure.drive(import_from(db, path))
    assert len([item for item in report.skipped if " message " in item.what]) == 2
    assert report.items == 4
    (item,) = db.named(report.names[0]).conversation()
    assert item.payloads[0].content == "half ?"  # type: ignore[union-attr]


def test_the_original_times_are_kept_beside_what_was_said(db: perdure.Perdure) -> None:
    report = perdure.drive(import_from(db, FILE))
    session = db.named(report.names[0])
    items = session.conversation()
    times = [str(moment(item.native["created_at"])) for item in items]
    assert [item.payloads[-1].metadata["said_at"] for item in items] == times
    assert all(time.endswith("Z") for time in times)
    assert session.info().metadata["began_at"] == min(times)


def test_names_begin_with_the_prefix(db: perdure.Perdure) -> None:
    first = perdure.drive(import_from(db, FILE))
    planned = perdure.drive(import_from(db, FILE, prefix="old-", dry_run=True))
    aside = perdure.drive(import_from(db, FILE, prefix="old-"))
    assert planned.names == aside.names == [f"old-{first.names[0]}"]
    assert db.count() == 2


def test_another_session_of_the_name_is_left_alone(db: perdure.Perdure) -> None:
    (name,) = perdure.drive(import_from(db, FILE, dry_run=True)).names
    db.create(name=name).record(Message(role="user", content="Said elsewhere"))
    for dry_run in (True, False):
        report = perdure.drive(import_from(db, FILE, dry_run=dry_run))
        assert (report.sessions, report.incomplete, report.skipped[-1].why.startswith(OWN)) == (0, [name], True)


def test_messages_that_cannot_be_read_are_named_each_time(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / "odd.af"
    path.write_text(json.dumps({**older(), "messages": [3, {"role": "user", "content": "Hello"}]}))
    told = [perdure.drive(import_from(db, path)) for _ in range(2)]
    assert told[0].incomplete == told[1].incomplete == told[0].names


# ── what does not fit, and what was damaged ──


def both(db: perdure.Perdure, source: Path) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    tried = perdure.drive(import_from(db, source, dry_run=True))
    found = perdure.drive(import_from(db, source))
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


def stored(path: Path, *agents: Any, **more: Any) -> Path:
    path.write_text(json.dumps({"agents": list(agents), **more}), "utf-8")
    return path


def agent(name: str, *messages: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "messages": [{"role": "user", "content": text} for text in messages], **more}


def test_an_agent_of_many_bytes_is_brought_over_whole(db: perdure.Perdure, tmp_path: Path) -> None:
    texts = [f"{number}" + "x" * 300_000 for number in range(240)]
    report = both(db, stored(tmp_path / "a.af", agent("large", *texts), agent("small", "Hi")))
    assert (report.sessions, report.items, report.skipped) == (2, 241, [])
    assert [item.payloads[0].content for item in db.named(report.names[0]).conversation()] == texts  # type: ignore[union-attr]


def test_what_is_too_large_is_named_and_the_rest_is_brought_over(db: perdure.Perdure, tmp_path: Path) -> None:
    large = "x" * (17 << 20)
    block = {"id": "block-0", "label": "human", "value": large}
    whole = agent("whole", "Hi", large, "Ho", block_ids=["block-0"], system=large)
    path = stored(tmp_path / "a.af", whole, agent("other", "Hi"), blocks=[block])
    report = both(db, path)
    assert (report.sessions, report.items, len(report.incomplete)) == (2, 3, 1)
    assert [one.what.rpartition("/")[2][17:] for one in report.skipped] == [
        "system prompt", "agent", "block 1", "message 2",
    ]  # fmt: skip
    session = db.named(report.names[0])
    assert [item.payloads[0].content for item in session.conversation()] == ["Hi", "Ho"]  # type: ignore[union-attr]
    version = session.version()
    assert both(db, path).sessions == 0
    assert session.version() == version


@pytest.mark.parametrize("odd", [5, None, [], {"name": "\ud800", "messages": 5, "tags": [{"tag": {}}]}])
def test_an_agent_that_is_damaged_keeps_no_other_from_coming(db: perdure.Perdure, tmp_path: Path, odd: Any) -> None:
    report = both(db, stored(tmp_path / "a.af", agent("a", "Hi"), odd, agent("b", "Hi")))
    assert [name.split("/")[1] for name in report.names if name.split("/")[1] in "ab"] == ["a", "b"]
    assert type(odd) is dict or len(report.incomplete) == 1


def test_values_that_are_too_deep_are_named(db: perdure.Perdure, tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    whole = agent("a", "Hi")
    whole["messages"].append({"role": "user", "content": [{"type": "odd", "deep": deep}]})
    report = both(db, stored(tmp_path / "a.af", whole, agent("b", "Hi", deep=deep)))
    assert (report.sessions, report.items, len(report.incomplete)) == (2, 2, 2)


def test_a_name_that_is_too_long_with_its_prefix_is_named(db: perdure.Perdure, tmp_path: Path) -> None:
    report = perdure.drive(import_from(db, stored(tmp_path / "a.af", agent("a", "Hi")), prefix="x" * 1000))
    assert (report.sessions, len(report.incomplete)) == (0, 1)


def test_bytes_that_flipped_stop_nothing_and_a_dry_run_says_the_same(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.af", agent("a", "Hi"), older())
    flipped(path, import_from)
    path.write_bytes(FILE.read_bytes())
    flipped(path, import_from)
