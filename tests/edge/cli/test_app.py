"""The way in: help, version, the lazy table, and how things end."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import perdure
from perdure.core import errors
from perdure.edge.cli import exits
from perdure.edge.cli.app import COMMANDS, Root
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.sessions import COMMANDS as SESSION_COMMANDS
from tests.edge.cli.conftest import Run, Seeded
from torture.process import environment


def every_error() -> list[type[errors.PerdureError]]:
    found, waiting = [], [errors.PerdureError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += kind.__subclasses__()
    return found


@pytest.mark.parametrize("place", [*COMMANDS.values(), *SESSION_COMMANDS.values()], ids=lambda place: place[0])
def test_every_command_in_the_tables_exists_and_has_help(place: tuple[str, str]) -> None:
    module, _, name = place[0].partition(":")
    command = getattr(import_module(f"perdure.edge.cli.{module}"), name)
    assert isinstance(command, click.Command)
    assert command.help
    assert CliRunner().invoke(command, ["--help"]).exit_code == 0


@pytest.mark.parametrize("name", SESSION_COMMANDS)
def test_every_sessions_command_takes_a_store_and_json(name: str) -> None:
    group = command_line.get_command(click.Context(command_line), "sessions")
    assert isinstance(group, LazyGroup)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert {"store", "as_json"} <= {param.name for param in command.params}


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(command_line, ["--version"]).output == f"perdure {perdure.__version__}\n"


def test_no_arguments_show_the_help() -> None:
    result = CliRunner().invoke(command_line, [])
    assert result.exit_code == exits.CALLER
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Invalid("x"), 2),
        (errors.Refused("x"), 2),
        (errors.BudgetExhausted("x"), 2),
        (errors.NotFound("x"), 3),
        (errors.CheckpointExpired("x"), 3),
        (errors.VersionConflict("x"), 4),
        (errors.MergeConflict("x"), 4),
        (errors.Tampered("x"), 5),
        (errors.NotAStore("x"), 5),
        (errors.DiskFull("x"), 5),
        (OSError("x"), 5),
        (ValueError("x"), 1),
    ],
)
def test_an_error_ends_with_the_code_of_its_kind(error: Exception, code: int) -> None:
    assert exits.exit_code(error) == code


def test_every_error_of_the_tree_but_its_root_has_a_code() -> None:
    codes = {kind.__name__: exits.exit_code(kind("x")) for kind in every_error() if kind is not errors.PerdureError}
    assert set(codes.values()) == {2, 3, 4, 5}


def fails_with(error: BaseException) -> Root:
    @click.command("fail")
    @click.option("--json", is_flag=True)
    def fail(json: bool) -> None:
        raise error

    root = Root("perdure", places={})
    root.get_command = lambda ctx, cmd_name: fail  # type: ignore[method-assign]
    return root


def test_an_error_is_one_line_on_stderr_without_a_traceback() -> None:
    result = CliRunner().invoke(fails_with(errors.NotFound("no such\nthing; look elsewhere", session="s")), ["fail"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "error: no such thing; look elsewhere\n"


def test_with_json_the_error_is_a_document_on_stdout_too() -> None:
    error = errors.VersionConflict("reload", found=3, where=b"\x01", path=("a", 1))
    result = CliRunner().invoke(fails_with(error), ["fail", "--json"])
    assert json.loads(result.stdout) == {
        "error": {
            "code": "version_conflict",
            "message": "reload",
            "fields": {"found": 3, "where": "01", "path": ["a", 1]},
        }
    }
    assert result.stderr == "error: reload\n"


def test_facts_that_no_store_would_take_are_still_spelled() -> None:
    error = errors.Invalid(
        "bad \ud800", big=1 << 80, odd=float("nan"), path="\udcff", nested={1: {b"\x02"}}, deep=[[[Root]]]
    )
    result = CliRunner().invoke(fails_with(error), ["fail", "--json"])
    assert result.exit_code == 2
    fields = json.loads(result.stdout)["error"]["fields"]
    assert (fields["big"], fields["odd"], fields["nested"]) == (1 << 80, "nan", {"1": ["02"]})


def test_hostile_text_in_an_error_is_inert() -> None:
    result = CliRunner().invoke(fails_with(errors.Invalid("bad \x1b[2J name \u202e")), ["fail", "--json"])
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output


def test_a_defect_shows_its_traceback_and_ends_with_one() -> None:
    result = CliRunner().invoke(fails_with(ZeroDivisionError("\x1b[2J")), ["fail", "--json"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "\x1b" not in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "unexpected"


def test_an_interrupt_ends_with_130() -> None:
    assert CliRunner().invoke(fails_with(KeyboardInterrupt()), ["fail"]).exit_code == 130


def test_a_reader_that_left_ends_quietly_with_141() -> None:
    result = CliRunner().invoke(fails_with(BrokenPipeError()), ["fail"])
    assert (result.exit_code, result.output) == (141, "")


def test_a_usage_error_points_to_the_help_and_is_json_when_asked(run: Run) -> None:
    result = run("sessions", "show", "--json")
    assert result.exit_code == 2
    assert "(see perdure sessions show --help)" in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["sessions", "lst"], "list"), (["session", "list"], "sessions"), (["import", "langraph", "x.db"], "langgraph")],
)
def test_a_word_with_a_slip_is_told_what_was_probably_meant(run: Run, words: list[str], meant: str) -> None:
    told = run(*words)
    assert (told.exit_code, f"Did you mean {meant!r}?" in told.stderr) == (2, True)
    assert "Did you mean" not in run("telepathy").stderr


def test_json_after_a_double_dash_is_a_word_like_any_other(run: Run) -> None:
    result = run("sessions", "show", "--", "--json")
    assert result.exit_code == 3
    assert result.stdout == ""


CLOSED = """
import os, sys
os.close(int(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-m", "perdure", *sys.argv[2:]])
"""


def without(number: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process that was started without one of its streams."""
    return subprocess.run(
        [sys.executable, "-c", CLOSED, str(number), *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="a process is started otherwise there")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_process_without_one_of_its_streams_writes_into_no_store(number: int, seeded: Seeded) -> None:
    for words, code in ((["list"], 0), (["list", "--json"], 0), (["show", "zzz", "--json"], 3), (["recover"], 0)):
        done = without(number, "sessions", *words, "--store", seeded.path)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    with perdure.open(seeded.path) as db:
        assert db.verify().ok


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_output_that_nobody_takes_is_an_error_without_a_traceback(more: list[str], seeded: Seeded) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "perdure", "sessions", "list", *more, "--store", seeded.path],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (5, "error: No space left on device\n")


READING = (["list"], ["show", "latest"], ["history", "latest"], ["tail", "--once"], ["diff", "latest"], ["verify"])
WRITING = (["checkpoint", "latest"], ["resume", "latest"], ["branch", "latest"], ["erase", "latest", "--yes"])


@pytest.mark.parametrize("words", [*READING, *WRITING], ids=lambda words: words[0])
def test_a_missing_store_is_an_error_and_is_not_created(words: list[str], run: Run, seeded: Seeded) -> None:
    missing = f"{seeded.path}.missing"
    result = run("sessions", *words, "--store", missing)
    assert result.exit_code == exits.WORLD
    assert "no store at" in result.stderr
    assert not os.path.exists(missing)


def test_a_file_that_is_no_store_is_refused_unchanged(run: Run, seeded: Seeded) -> None:
    other = f"{seeded.path}.txt"
    with open(other, "w") as file:
        file.write("a shopping list\n" * 100)
    result = run("sessions", "list", "--store", other)
    assert result.exit_code == exits.WORLD
    assert "not a perdure store" in result.stderr
    with open(other) as file:
        assert file.read() == "a shopping list\n" * 100


def test_reading_commands_change_nothing_in_the_file(run: Run, seeded: Seeded) -> None:
    def content() -> bytes:
        with open(seeded.path, "rb") as file:
            return file.read()

    before = content()
    for words in (*READING[:5], ["checkpoint", "latest", "--list"]):
        assert run("sessions", *words).exit_code == 0, words
    assert content() == before


def test_the_manual_has_every_command_and_every_exit_code() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "CLI.md").read_text("utf-8")
    commands = [name for name in COMMANDS if name != "sessions"] + [f"sessions {name}" for name in SESSION_COMMANDS]
    assert [name for name in commands if f"perdure {name}" not in manual] == []
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    assert [code for code in codes if f"| {code} |" not in manual] == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("list", "perdure sessions list"),
        ("history trip --last 2", "perdure sessions history trip --last 2"),
        ("--store x sessions list", "perdure sessions list --store x"),
        ("--store=x list", "perdure sessions list --store=x"),
        ("--json --store x doctor", "perdure doctor --json --store x"),
        ("sessions --store x history trip", "perdure sessions history trip --store x"),
        ("--store postgresql://me:secret@host/db sessions list", "perdure sessions list --store …"),
    ],
)
def test_a_habit_of_other_tools_is_told_with_what_was_meant(given: str, meant: str, run: Run) -> None:
    told = run(*given.split())
    assert told.exit_code == exits.CALLER
    assert f"Did you mean: {meant} (see" in told.stderr
    assert "secret" not in told.stderr


@pytest.mark.parametrize("given", ["--store", "--store x", "--stire x sessions list", "--store x telepathy"])
def test_what_leads_nowhere_is_told_as_it_is(given: str, run: Run) -> None:
    told = run(*given.split())
    assert (told.exit_code, "Did you mean: perdure" in told.stderr) == (exits.CALLER, False)
