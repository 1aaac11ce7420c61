"""Where memories come from, on the command line: by source, along with a session, and under an answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perdure
from perdure.edge.cli import exits
from perdure.edge.cli.sourcing import COMMANDS
from perdure.edge.cli.sourcing import source as group
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]
GOLD = "Gold is dug in the northern hills near Velm"


@pytest.fixture
def learnt(seeded: Seeded) -> Seeded:
    """Two vaults have learnt from one session, one of them something else besides."""
    with perdure.open(seeded.path, memory="none") as db:
        for agent in ("ana", "ben"):
            db.memory(agent).add(f"{GOLD}, says {agent}", source={"kind": "user", "session": seeded.trip, "version": 2})
        db.memory("ana").add("Lives in Lisbon")
    return seeded


def contents(asked: Asked, agent: str = "ana") -> list[str]:
    return [one["content"] for one in asked("memory", "list", "--agent", agent)["memories"]]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_with_help(name: str) -> None:
    result = CliRunner().invoke(group, [name, "--help"])
    assert result.exit_code == 0
    assert all(word in result.output for word in ("--session", "--writer", "--uri", "--json"))


def test_a_source_is_counted_quarantined_and_released(run: Run, asked: Asked, learnt: Seeded) -> None:
    named = ("--session", learnt.trip)
    told = asked("memory", "source", "report", *named)
    assert (told["memories"], told["spaces"]) == (2, {"vault/ana": 1, "vault/ben": 1})
    assert "1 in vault/ben" in run("memory", "source", "report", *named).stdout
    assert asked("memory", "source", "quarantine", *named, "--reason", "it lies")["memories"] == 2
    assert (contents(asked), contents(asked, "ben")) == (["Lives in Lisbon"], [])
    assert run("memory", "source", "release", *named).stdout.startswith("brought back 2 memories\n")
    assert len(contents(asked)) == 2


def test_a_source_is_erased_when_somebody_says_yes(run: Run, asked: Asked, learnt: Seeded) -> None:
    named = ("memory", "source", "erase", "--session", learnt.trip)
    refused = run(*named, input="n\n")
    assert (refused.exit_code, "nothing was erased" in refused.stderr) == (exits.CALLER, True)
    assert "Erase 2 memories for good?" in refused.stderr
    assert len(contents(asked)) == 2
    assert run(*named, "--yes").stdout.startswith("erased 2 memories\n")
    assert (contents(asked), contents(asked, "ben")) == (["Lives in Lisbon"], [])


def test_a_session_is_named_as_a_source_as_everywhere(run: Run, asked: Asked, learnt: Seeded) -> None:
    with perdure.open(learnt.path, memory="none") as db:
        named = db.create("Porto", name="porto")
    added = asked("memory", "add", "Trams run until one", "--agent", "ana", "--session", "porto")
    assert added["source"]["session"] == named.id
    for word in ("porto", named.id, named.id[:-4]):
        assert asked("memory", "source", "report", "--session", word)["memories"] == 1
        assert len(asked("memory", "list", "--agent", "ana", "--session", word)["memories"]) == 1
        assert len(asked("memory", "search", "trams", "--agent", "ana", "--session", word)["memories"]) == 1
    assert run("sessions", "erase", "porto", "--yes", "--memories").exit_code == 0
    assert "Trams run until one" not in contents(asked)
    assert asked("memory", "source", "report", "--session", named.id)["memories"] == 0


@pytest.mark.parametrize(
    "command",
    [
        ("add", "Lost"),
        ("list",),
        ("search", "gold"),
        ("source", "report"),
        ("source", "quarantine"),
        ("source", "erase", "--yes"),
    ],
)
def test_a_source_that_is_no_session_is_not_found(
    run: Run, asked: Asked, learnt: Seeded, command: tuple[str, ...]
) -> None:
    result = run("memory", *command, "--session", "no-such")
    assert (result.exit_code, "no session is named 'no-such'" in result.stderr) == (exits.NOT_FOUND, True)
    assert len(contents(asked)) == 2


def test_what_came_from_elsewhere_is_found_by_what_it_was_kept_under(asked: Asked, learnt: Seeded) -> None:
    with perdure.open(learnt.path, memory="none") as db:
        db.memory("ana").add("Takes the ferry", source={"kind": "user", "session": "crm-77"})
    assert asked("memory", "source", "report", "--session", "crm-77")["memories"] == 1
    assert len(asked("memory", "list", "--agent", "ana", "--session", "crm-77")["memories"]) == 1


def test_a_source_is_named_once(run: Run, learnt: Seeded) -> None:
    for words in ((), ("--writer", "x", "--uri", "y")):
        result = run("memory", "source", "report", *words)
        assert result.exit_code == exits.CALLER
        assert "name one source" in result.stderr


def test_a_session_is_erased_with_what_was_learnt_from_it(run: Run, asked: Asked, learnt: Seeded) -> None:
    result = run("sessions", "erase", learnt.trip, "--yes", "--memories")
    assert result.exit_code == 0, result.stderr
    assert "and 2 memories that came from it" in result.stdout
    assert contents(asked) == ["Lives in Lisbon"]
    assert asked("sessions", "erase", learnt.open, "--yes", "--memories")["memories"] == 0


def test_an_answer_tells_which_memories_it_rests_on(run: Run, asked: Asked, learnt: Seeded) -> None:
    with perdure.open(learnt.path, memory="none") as db:
        session = db.create("Digging", config={"model": "offline/echo", "memory": {"agent": "ana"}})
        session.send(f"They say that {GOLD}, says ana")
        plain = db.create("Plain", config={"model": "offline/echo"})
        plain.send("hello")
    found = asked("memory", "why", session.id, "1")
    [ground] = found["grounds"]
    assert (found["turn"], ground["how"], ground["source"]["session"]) == (1, "words", learnt.trip)
    table = run("memory", "why", session.id, "1").stdout
    assert ground["memory"] in table
    assert f"user {learnt.trip}"[:20] in table
    assert "no memories were shown" in run("memory", "why", plain.id, "1").stdout
    assert run("memory", "why", session.id, "7").exit_code == exits.NOT_FOUND
    assert asked("memory", "why", session.id) == found, "the last turn, if none is named"


def test_where_no_model_has_answered_there_is_nothing_to_ask_why(run: Run, learnt: Seeded, tmp_path: Path) -> None:
    alone = str(tmp_path / "alone.db")
    with perdure.open(alone, memory="none") as db:
        db.memory("ana").add("Lives in Lisbon")
    for words in (("latest",), ("latest", "1")):
        result = run("memory", "why", *words, "--store", alone)
        assert result.exit_code == exits.NOT_FOUND
        assert "vault/ana is a space of memories, in which there are no turns" in result.stderr
        assert "perdure talk" in result.stderr
    quiet = run("memory", "why", learnt.sleeping)
    assert (quiet.exit_code, "has no turns yet" in quiet.stderr) == (exits.NOT_FOUND, True)


def test_a_space_says_whether_what_passes_all_gates_is_reviewed(run: Run, asked: Asked, learnt: Seeded) -> None:
    named = ("memory", "auto-accept")
    assert asked(*named, "--agent", "ana") == {"space": "vault/ana", "auto": False}
    assert "becomes a memory of vault/ana" in run(*named, "on", "--agent", "ana").stdout
    assert asked(*named, "--agent", "ana")["auto"] is True
    assert "is reviewed for vault/ana" in run(*named, "off", "--agent", "ana").stdout


@pytest.mark.parametrize("named", [("--writer", "nobody"), ("--uri", "https://example.com"), ("--session", "nothing")])
def test_a_source_that_nothing_came_from_is_told_with_the_kinds_there_are(
    run: Run, learnt: Seeded, named: tuple[str, str]
) -> None:
    told = run("memory", "source", "report", *named)
    assert told.exit_code == (exits.NOT_FOUND if "--session" in named else 0)
    for word in ("came from there", "--session", "--writer", "--uri", "local"):
        assert word in told.stderr, word
