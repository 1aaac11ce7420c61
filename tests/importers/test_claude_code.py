"""Transcripts on disk, brought over: what the real command line wrote, and what is cut, foreign or still growing."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

import perdure
from perdure import errors
from perdure.adapters.claude_agent import PerdureSessionStore, place_of
from perdure.events import Message
from perdure.importers.claude_code import import_from
from perdure.importers.report import OWN, Imported
from tests.adapters.claude_transcripts import OTHER, PROJECT, SESSION, exchange, line, model, uid
from tests.importers.flipping import flipped

MAIN: Any = {"project_key": PROJECT, "session_id": SESSION}


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:") as opened:
        yield opened


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """Two projects: one with nested agents, new and old, one with a conversation of its own."""
    root = tmp_path / ".claude" / "projects"
    write(root / PROJECT / f"{SESSION}.jsonl", exchange())
    below = root / PROJECT / SESSION / "subagents"
    write(below / "agent-a1.jsonl", [line(31, "user", "Look", None, isSidechain=True)])
    (below / "agent-a1.meta.json").write_text(json.dumps({"agentType": "Explore"}))
    write(below / "workflows" / "w1" / "agent-a2.jsonl", [line(32, "user", "Look more", None, isSidechain=True)])
    write(root / PROJECT / "agent-old.jsonl", [line(33, "user", "Look, as of old", None, isSidechain=True)])
    write(root / "-other" / f"{OTHER}.jsonl", [line(41, "user", "Hello", sessionId=OTHER)])
    return root


def write(path: Path, entries: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")


def load(db: perdure.Perdure, key: Any) -> Any:
    return perdure.drive(PerdureSessionStore(db).load(key))


def both(db: perdure.Perdure, source: Path, **more: Any) -> Imported:
    """The report of an import, which a dry run before it has told already."""
    before = list(db.find().items)
    tried = perdure.drive(import_from(db, source, dry_run=True, **more))
    assert list(db.find().items) == before
    found = perdure.drive(import_from(db, source, **more))
    assert msgspec.structs.replace(tried, dry_run=False) == found
    return found


def test_a_whole_tree_is_brought_over_with_its_nested_agents(db: perdure.Perdure, projects: Path) -> None:
    told: list[tuple[int, int]] = []
    report = perdure.drive(import_from(db, projects, progress=lambda *at: told.append(at)))
    assert (report.sessions, report.items, report.skipped) == (5, 13, [])
    assert told == [(number, 5) for number in range(1, 6)]
    assert load(db, MAIN) == exchange()
    assert load(db, {**MAIN, "subpath": "subagents/agent-a1"})[-1] == {"type": "agent_metadata", "agentType": "Explore"}
    assert perdure.drive(PerdureSessionStore(db).list_subkeys(MAIN)) == [
        "subagents/agent-a1",
        "subagents/workflows/w1/agent-a2",
        "subagents/agent-old",
    ]
    assert load(db, {"project_key": "-other", "session_id": OTHER})[0]["uuid"] == uid(41)
    assert [turn.status for turn in db.named(place_of(MAIN).name).turns()] == ["finished"]


@pytest.mark.parametrize("given", ["..", ".", PROJECT, f"{PROJECT}/{SESSION}.jsonl"])
def test_any_part_of_the_tree_can_be_given(given: str, db: perdure.Perdure, projects: Path) -> None:
    perdure.drive(import_from(db, projects / given))
    assert load(db, MAIN) == exchange()
    assert load(db, {**MAIN, "subpath": "subagents/agent-a1"}) is not None


def test_a_dry_run_says_the_same_and_does_nothing(db: perdure.Perdure, projects: Path) -> None:
    planned = perdure.drive(import_from(db, projects, dry_run=True))
    assert db.count() == 0
    done = perdure.drive(import_from(db, projects))
    assert (planned.sessions, planned.items, planned.names) == (done.sessions, done.items, done.names)


def test_importing_twice_adds_nothing_and_says_so(db: perdure.Perdure, projects: Path) -> None:
    perdure.drive(import_from(db, projects))
    before = {row.session: row.version for row in db.find().items}
    again = perdure.drive(import_from(db, projects))
    assert (again.sessions, again.items, len(again.skipped)) == (0, 0, 5)
    assert {row.session: row.version for row in db.find().items} == before


def test_a_file_that_has_grown_goes_on_where_it_ended(db: perdure.Perdure, projects: Path) -> None:
    path = projects / PROJECT / f"{SESSION}.jsonl"
    whole = [*exchange(), line(50, "user", "Thanks", 7), {"type": "mode", "mode": "normal"}]
    perdure.drive(import_from(db, path))
    write(path, whole)
    report = perdure.drive(import_from(db, path))
    assert (report.sessions, report.items) == (1, 2)
    assert load(db, MAIN) == whole


@pytest.mark.parametrize("how", ["others", "claude", "retracted"])
def test_a_file_that_has_grown_is_left_out_where_the_conversation_went_its_own_way(
    db: perdure.Perdure, projects: Path, how: str
) -> None:
    path = projects / PROJECT / f"{SESSION}.jsonl"
    perdure.drive(import_from(db, path))
    session = db.named(place_of(MAIN).name)
    if how == "others":
        session.record(Message(role="user", content="Said elsewhere"))
    elif how == "claude":
        perdure.drive(PerdureSessionStore(db).append(MAIN, [line(60, "user", "Resumed here", 7)]))  # type: ignore[list-item]
    else:
        session.retract(session.conversation()[-1].first)
    gone = both(db, path)
    assert (gone.incomplete, "is there already" in gone.skipped[0].why) == ([], True)
    version = session.version()
    write(path, [*exchange(), line(50, "user", "Thanks", 7), {"type": "mode", "mode": "normal"}])
    for _ in range(2):
        report = both(db, path)
        assert (report.sessions, report.items, report.incomplete) == (0, 0, [place_of(MAIN).name])
        assert report.skipped[0].why.startswith(f"{OWN}: 2 newer entries were not imported")
        assert session.version() == version


def test_another_session_of_the_name_is_left_alone(db: perdure.Perdure, projects: Path) -> None:
    name = place_of(MAIN).name
    db.create(name=name).record(Message(role="user", content="Said elsewhere"))
    report = both(db, projects / PROJECT / f"{SESSION}.jsonl")
    assert name in report.incomplete
    assert report.skipped[0].why.startswith(f"{OWN};")
    assert len(db.named(name).conversation()) == 1


def test_an_import_that_was_killed_between_two_appends_goes_on(
    db: perdure.Perdure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / PROJECT / f"{SESSION}.jsonl"
    whole = [{"type": "mode", "mode": str(number)} for number in range(6)]
    write(path, [*exchange(), *whole])
    monkeypatch.setattr("perdure.adapters.claude_agent.MAX_EVENTS", 10)
    record, left = perdure.AsyncSession.record, [1]

    async def dying(self: Any, *given: Any, **more: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return await record(self, *given, **more)

    with monkeypatch.context() as during:
        during.setattr(perdure.AsyncSession, "record", dying)
        with pytest.raises(KeyboardInterrupt):
            perdure.drive(import_from(db, path))
    assert 0 < len(load(db, MAIN)) < len(whole) + 9
    both(db, path)
    assert load(db, MAIN) == [*exchange(), *whole]


def test_a_nested_transcript_that_has_grown_behind_its_note_goes_on(db: perdure.Perdure, projects: Path) -> None:
    path = projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl"
    perdure.drive(import_from(db, path))
    write(path, [line(31, "user", "Look", None, isSidechain=True), line(34, "user", "More", 31, isSidechain=True)])
    report = both(db, path)
    assert (report.sessions, report.items, report.skipped) == (1, 1, [])


def test_names_begin_with_the_prefix_and_claude_finds_the_session_by_its_id(
    db: perdure.Perdure, projects: Path
) -> None:
    perdure.drive(import_from(db, projects))
    report = both(db, projects, prefix="old-")
    assert (report.sessions, report.skipped) == (5, [])
    name = f"old-{place_of(MAIN).name}"
    assert name in report.names
    id = db.named(name).id
    store = PerdureSessionStore(db)
    assert {item["session_id"] for item in perdure.drive(store.list_sessions(PROJECT))} == {SESSION, id}
    assert load(db, {**MAIN, "session_id": id}) == exchange()
    more: Any = line(60, "user", "Go on", 7)
    perdure.drive(store.append({**MAIN, "session_id": id}, [more]))  # type: ignore[typeddict-item]
    assert load(db, {**MAIN, "session_id": id}) == [*exchange(), more]
    assert load(db, MAIN) == exchange()
    assert f"{name} is there already" in [item.why for item in both(db, projects, prefix="old-").skipped]


def test_the_original_times_are_kept_beside_what_was_said(db: perdure.Perdure, projects: Path) -> None:
    perdure.drive(import_from(db, projects / PROJECT / f"{SESSION}.jsonl"))
    session = db.named(place_of(MAIN).name)
    assert session.info().metadata["began_at"] == "2026-11-15T12:00:01Z"
    told = [payload.metadata["said_at"] for item in session.conversation() for payload in item.payloads]
    assert told == [f"2026-11-15T12:00:0{number}Z" for number in (1, 3, 4, 5, 6, 7)]
    assert load(db, MAIN) == exchange()


def test_entries_that_no_log_takes_keep_their_times_too(
    db: perdure.Perdure, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.adapters.parts.claude_entries.LARGE", 1000)
    path = projects / PROJECT / f"{SESSION}.jsonl"
    whole = [line(1, "user", "half \ud83d"), line(2, "assistant", "long " * 500, 1)]
    write(path, whole)
    perdure.drive(import_from(db, path))
    items = db.named(place_of(MAIN).name).conversation()
    assert [item.payloads[0].metadata["said_at"][-4:] for item in items] == [":01Z", ":02Z"]
    assert load(db, MAIN) == whole


def test_a_conversation_mirrored_live_is_left_alone(db: perdure.Perdure, projects: Path) -> None:
    perdure.drive(PerdureSessionStore(db).append(MAIN, [line(1, "user", "Find a flight")]))  # type: ignore[list-item]
    report = perdure.drive(import_from(db, projects / PROJECT / f"{SESSION}.jsonl"))
    assert "is there already, not from an import" in report.skipped[0].why
    assert report.incomplete == [place_of(MAIN).name]
    assert len(load(db, MAIN)) == 1
    perdure.drive(PerdureSessionStore(db).append(MAIN, exchange()))  # type: ignore[arg-type]
    whole = perdure.drive(import_from(db, projects / PROJECT / f"{SESSION}.jsonl"))
    assert (whole.incomplete, "is there already" in whole.skipped[0].why) == ([], True)


def test_lines_that_are_no_entries_are_passed_over_and_named(db: perdure.Perdure, tmp_path: Path) -> None:
    path = tmp_path / PROJECT / f"{SESSION}.jsonl"
    path.parent.mkdir()
    good = [json.dumps(entry).encode() for entry in exchange()[:2]]
    path.write_bytes(b"\n".join([good[0], b"no json", b"\xff\xfe", b"[1]", b"", good[1], good[1][:40]]))
    report = both(db, path)
    assert [item.what.rsplit(":", 1)[1] for item in report.skipped] == ["2", "3", "4", "7"]
    assert "still being written" in report.skipped[-1].why
    assert load(db, MAIN) == exchange()[:2]
    again = both(db, path)
    assert [item.what.rsplit(":", 1)[-1] for item in again.skipped[:4]] == ["2", "3", "4", "7"]
    assert report.incomplete == again.incomplete == [place_of(MAIN).name]
    path.write_bytes(
        b"\n".join([good[0], b"no json", b"\xff\xfe", b"[1]", b"", good[1], json.dumps(exchange()[3]).encode()])
    )
    perdure.drive(import_from(db, path))
    assert load(db, MAIN) == [*exchange()[:2], exchange()[3]]


def test_what_holds_no_transcripts_is_refused(db: perdure.Perdure, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for wrong, kind in (
        (tmp_path, errors.Invalid),
        (tmp_path / "notes.txt", errors.Invalid),
        (tmp_path / "no", errors.NotFound),
    ):
        with pytest.raises(kind):
            perdure.drive(import_from(db, wrong))
    write(tmp_path / "p" / "agent-lost.jsonl", [{"type": "x"}])
    report = perdure.drive(import_from(db, tmp_path))
    assert "which session" in report.skipped[0].why


@pytest.mark.slow
async def test_what_the_real_command_line_wrote_is_imported_and_goes_on_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))]:
        monkeypatch.delenv(name)
    work, home, empty = tmp_path / "work", tmp_path / "home", tmp_path / "empty"
    for folder in (work, home, empty):
        folder.mkdir()
    with model() as (address, asked):

        async def ask(prompt: str, where: Path, **options: Any) -> ResultMessage:
            env = {
                "HOME": str(where),
                "CLAUDE_CONFIG_DIR": str(where / "config"),
                "ANTHROPIC_BASE_URL": address,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            }
            asking = ClaudeAgentOptions(cwd=work, env=env, allowed_tools=["Bash"], setting_sources=[], **options)
            found = [item async for item in query(prompt=prompt, options=asking)]
            assert isinstance(found[-1], ResultMessage)
            return found[-1]

        first = await ask("use a tool", home)
        async with await perdure.aopen(tmp_path / "s.db") as db:
            report = await import_from(db, home / "config")
            assert (report.sessions, report.skipped) == (1, [])
            second = await ask("and now?", empty, resume=first.session_id, session_store=PerdureSessionStore(db))
            assert second.session_id == first.session_id
            assert all(
                text in json.dumps(asked[-1]) for text in ("use a tool", "from-the-tool", "Answer 2.", "and now?")
            )
            turns = await db.named(report.names[0]).turns()
            assert [turn.status for turn in turns] == ["finished", "finished"]


# ── what does not fit, and what was damaged ──


def deep(levels: int) -> str:
    """An entry with so many levels, as a line of JSON."""
    return '{"type": "user", "uuid": "deep", "message": {"role": "user", "content": [{"type": "odd", "deep": %s}]}}' % (
        "[" * levels + "]" * levels
    )


@pytest.mark.parametrize("levels", [100, 900, 990, 100_000])
def test_an_entry_of_any_depth_keeps_no_other_from_coming(db: perdure.Perdure, tmp_path: Path, levels: int) -> None:
    folder = tmp_path / "projects" / PROJECT
    write(folder / f"{SESSION}.jsonl", exchange())
    with (folder / f"{SESSION}.jsonl").open("a") as file:
        file.write(deep(levels) + "\n" + json.dumps(line(90, "user", "After")) + "\n")
    write(folder / f"{OTHER}.jsonl", [line(41, "user", "Hello", sessionId=OTHER)])
    report = both(db, tmp_path)
    assert report.sessions == 2
    entries = load(db, MAIN)
    assert entries[-1]["message"]["content"] == "After"
    assert len(entries) + len(report.skipped) == len(exchange()) + 2
    assert both(db, tmp_path).items == 0


def test_a_file_whose_name_cannot_be_one_here_is_named_and_the_others_are_brought_over(
    db: perdure.Perdure, projects: Path
) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    write(projects / PROJECT / f"{odd}.jsonl", [line(51, "user", "Hello")])
    write(projects / PROJECT / ("%" * 250) / "%" / f"{OTHER}.jsonl", [line(52, "user", "Hello")])
    write(projects / ("%" * 200) / f"{'%' * 200}.jsonl", [line(53, "user", "Hello")])
    report = both(db, projects)
    assert (report.sessions, len(report.incomplete), len(report.skipped)) == (5, 2, 2)
    json.dumps(msgspec.to_builtins(report)).encode()
    msgspec.json.encode(report)


def test_a_file_that_went_away_meanwhile_is_named(
    db: perdure.Perdure, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = projects / PROJECT / f"{SESSION}.jsonl"
    opened = Path.open

    def opening(self: Path, *given: Any, **more: Any) -> Any:
        if self == gone:
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *given, **more)

    monkeypatch.setattr(Path, "open", opening)
    report = both(db, projects)
    assert (report.sessions, len(report.incomplete), len(report.skipped)) == (4, 1, 1)


def test_bytes_that_flipped_stop_nothing_and_a_dry_run_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(path, exchange())
    write(path.with_name(f"{OTHER}.jsonl"), [line(41, "user", "Hello", sessionId=OTHER)])
    flipped(tmp_path, import_from, path)
