"""Finding sessions and looking at one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.edge.cli.conftest import HOSTILE, Run, Seeded

Asked = Callable[..., Any]


def ids(document: Any) -> list[str]:
    return [row["session"] for row in document["sessions"]]


def test_a_list_is_newest_first(asked: Asked, seeded: Seeded) -> None:
    assert ids(asked("sessions", "list")) == [seeded.open, seeded.sleeping, seeded.branch, seeded.trip]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--owner", "ben"], ["sleeping"]),
        (["--phase", "suspended"], ["sleeping"]),
        (["--phase", "suspended", "--phase", "active"], ["open", "sleeping", "branch", "trip"]),
        (["--tag", "travel", "--tag", "june"], ["branch", "trip"]),
        (["--tag", "travel", "--tag", "july"], []),
        (["--meta", "n=1"], ["branch", "trip"]),
        (["--meta", 'n="1"'], []),
        (["--title", "vienna"], ["trip"]),
        (["--text", "two trains"], ["trip"]),
        (["--parent", "{trip}"], ["branch"]),
        (["--since", "1h", "--limit", "1"], ["open"]),
        (["--until", "1h"], []),
    ],
    ids=" ".join,
)
def test_a_condition_narrows_the_list(words: list[str], wanted: list[str], asked: Asked, seeded: Seeded) -> None:
    filled = [word.format(trip=seeded.trip) for word in words]
    assert ids(asked("sessions", "list", *filled)) == [getattr(seeded, name) for name in wanted]


def test_the_order_can_be_that_of_activity(asked: Asked, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).write_scratchpad("here again")
    assert ids(asked("sessions", "list", "--order", "active"))[0] == seeded.trip


def test_pages_join_up_to_the_whole_list(asked: Asked) -> None:
    whole = ids(asked("sessions", "list"))
    first = asked("sessions", "list", "--limit", "3")
    second = asked("sessions", "list", "--limit", "3", "--cursor", first["cursor"])
    assert ids(first) + ids(second) == whole
    assert second["cursor"] is None
    assert ids(asked("sessions", "list", "--limit", "1", "--all")) == whole


def test_a_foreign_cursor_is_the_callers_mistake(run: Run) -> None:
    assert run("sessions", "list", "--cursor", "abc").exit_code == 2


def test_a_list_for_people_has_a_row_for_each_session(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "list", "--limit", "3")
    assert [name in result.stdout for name in (seeded.open, seeded.sleeping, seeded.branch)] == [True] * 3
    assert "--cursor" in result.stderr


def test_no_match_is_said_in_words(run: Run) -> None:
    assert run("sessions", "list", "--owner", "nobody").stdout == "no sessions\n"


def test_the_document_of_a_session_has_these_keys(asked: Asked) -> None:
    assert sorted(asked("sessions", "list")["sessions"][0]) == sorted(
        "session name title owner phase version turns open_turn created_at active_at expires_at parent branch_kind "
        "branched_at account tags metadata schema_version digest".split()
    )


def test_show_tells_everything(asked: Asked, seeded: Seeded) -> None:
    document = asked("sessions", "show", seeded.trip)
    assert sorted(document) == ["account", "branches", "checkpoints", "session", "state"]
    assert document["session"]["title"] == "Trip to Vienna"
    assert document["state"]["vars"]["document"] == {"a": 5}
    assert [row["session"] for row in document["branches"]] == [seeded.branch]


def test_show_for_people_names_what_matters(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.session(seeded.trip)
        session.write_scratchpad("remember the lunch")
        session.checkpoint("before lunch")
        session.merge(db.session(seeded.branch))
    shown = run("sessions", "show", seeded.trip).stdout
    for part in (
        "Trip to Vienna",
        "ana",
        "travel, june",
        "1 turn,",
        "remember the lunch",
        "before lunch",
        seeded.branch,
        "vars.a",
    ):
        assert part in shown


def test_show_tells_of_an_open_turn_and_of_money(run: Run, seeded: Seeded) -> None:
    assert "turn 1 is open" in run("sessions", "show", seeded.open).stdout
    with perdure.open(seeded.path) as db:
        capped = db.create("capped", config={"max_cost": 5_000_000}, exit_criteria=["paid"])
        capped.reserve("r", 1000)
        capped.settle("r", 500)
    shown = run("sessions", "show", "latest").stdout
    assert "$4.9995 left of $5" in shown
    assert "not met: paid" in shown


def test_latest_is_the_session_that_was_active_last(asked: Asked, seeded: Seeded) -> None:
    assert asked("sessions", "show", "latest")["session"]["session"] == seeded.open
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).patch_vars(a=9)
    assert asked("sessions", "show", "latest")["session"]["session"] == seeded.trip


def test_a_session_is_found_and_shown_by_its_name(run: Run, asked: Asked, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        bare = db.create(name="cafe").id  # also the beginning an id could have
        titled = db.create("The Lisbon trip", name="lisbon").id
        branch = db.session(titled).branch().id
        assert (db.session(bare).info().title, db.session(titled).info().title) == ("cafe", "The Lisbon trip")
    assert asked("sessions", "show", "cafe")["session"]["session"] == bare
    found = asked("sessions", "show", "lisbon")["session"]
    assert (found["session"], found["name"]) == (titled, "lisbon")
    assert asked("sessions", "show", branch)["session"]["name"] is None
    assert asked("sessions", "show", seeded.trip)["session"]["name"] is None
    assert run("sessions", "history", "lisbon").exit_code == 0
    assert "The Lisbon trip (lisbon)" in run("sessions", "list", env={"COLUMNS": "200"}).stdout
    assert "name" in run("sessions", "show", "lisbon").stdout
    missing = run("sessions", "history", "porto")
    assert (missing.exit_code, "'porto'" in missing.stderr) == (3, True)


def test_a_named_session_that_gets_another_title_keeps_showing_its_name(run: Run, asked: Asked, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create(name="lisbon")
        session.configure(title="The Lisbon trip", metadata={"n": 5})
        assert session.info().name == "lisbon"
        assert [row.name for row in db.find(metadata={"n": 5}).items] == ["lisbon"]
    assert asked("sessions", "show", "lisbon")["session"]["name"] == "lisbon"
    assert "The Lisbon trip (lisbon)" in run("sessions", "list").stdout


def test_an_id_that_is_not_there_is_told_with_a_command_that_is(run: Run) -> None:
    told = run("sessions", "history", "f" * 32).stderr
    assert "perdure sessions list shows those there are" in told
    assert "find lists" not in told


@pytest.mark.parametrize("count", [1, 30])
def test_the_latest_session_is_one_in_which_somebody_talks(count: int, asked: Asked, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        latest = db.create("Talk").id
        for number in range(count):
            db.create(f"shelf {number}", metadata={"by": "langgraph-store"})
            db.create(f"shared {number}", metadata={"adk_shared_by": "shop"})
    assert asked("sessions", "show", "latest")["session"]["session"] == latest


def test_where_nobody_talks_the_latest_is_what_was_active_last(run: Run, tmp_path: Path) -> None:
    with perdure.open(tmp_path / "memory.db", seal=False) as db:
        db.create("older", metadata={"by": "langgraph-store"})
        newer = db.create("newer", metadata={"by": "langgraph-store"}).id
    assert newer in run("sessions", "show", "latest", "--store", str(tmp_path / "memory.db")).stdout


def test_a_beginning_that_one_id_has_names_it(asked: Asked, seeded: Seeded) -> None:
    for name in (seeded.trip, seeded.open):
        assert asked("sessions", "show", name[:-2].upper())["session"]["session"] == name
        assert asked("sessions", "show", name.replace("-", ""))["session"]["session"] == name


def test_a_beginning_that_several_ids_have_lists_them(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "show", seeded.trip[:3], "--json")
    assert result.exit_code == 2
    assert set(json.loads(result.stdout)["error"]["fields"]["candidates"]) == set(seeded[1:])


@pytest.mark.parametrize("name", ["ffff", "f" * 32, "what?", "", "lates", "zzz"])
def test_a_word_that_names_no_session_finds_none(name: str, run: Run) -> None:
    assert run("sessions", "show", name).exit_code == 3


def test_hostile_text_is_shown_inert_and_spelled_in_ascii_json(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        session = db.create(
            HOSTILE, owner=HOSTILE, tags=[HOSTILE], metadata={HOSTILE: HOSTILE}, vars={HOSTILE: HOSTILE}
        )
        with session.turn(HOSTILE) as turn:
            call = turn.ask(HOSTILE, {HOSTILE: HOSTILE}, call=HOSTILE)
            turn.start(call, key=HOSTILE)
            turn.finish(call, error=HOSTILE)
        session.write_scratchpad(HOSTILE, agent=HOSTILE)
        session.checkpoint(HOSTILE)
        other = session.branch(title=HOSTILE)
        other.patch_vars(**{HOSTILE: 1})
        session.patch_vars(**{HOSTILE: 2})
    commands = (
        ["list"],
        ["show", session.id],
        ["history", session.id],
        ["history", session.id, "--events"],
        ["checkpoint", session.id, "--list"],
        ["diff", session.id, other.id],
        ["merge", other.id, session.id],
        ["show", session.id],
    )
    for words in commands:
        for json_too in ([], ["--json"]):
            result = run("sessions", *words, *json_too)
            assert result.exit_code in (0, 4), result.output
            assert not set(result.output) & set("\x1b\x07\x9b\u202e"), words
        assert result.stdout.isascii()
    assert "[bold]trip[/bold]" in run("sessions", "show", session.id).stdout


def test_logs_of_memories_are_listed_only_when_they_are_asked_for(asked: Asked, seeded: Seeded) -> None:
    before = ids(asked("sessions", "list"))
    asked("memory", "add", "Lives in Lisbon", "--agent", "ana")
    assert ids(asked("sessions", "list")) == before
    whole = asked("sessions", "list", "--memories")["sessions"]
    assert [row["session"] for row in whole[1:]] == before
    assert (whole[0]["title"], whole[0]["tags"]) == ("vault/ana", ["memory"])
    assert asked("sessions", "show", whole[0]["session"][:18])["session"]["title"] == "vault/ana"
