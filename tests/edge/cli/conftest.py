"""A store with something in it, and a way to run commands on it without a process of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import perdure
from perdure import events as ev
from perdure.edge.cli.app import perdure as command_line

Run = Callable[..., Result]
HOSTILE = "\x1b[31mred\x1b[0m [bold]trip[/bold] \u202eevil\x07\x9b2J"


class Seeded(NamedTuple):
    """The sessions of the seeded store, by what they are."""

    path: str
    trip: str
    branch: str
    sleeping: str
    open: str


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have told them how wide a terminal is: here there is none."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def seeded(tmp_path: Path) -> Seeded:
    """A conversation with tool calls, a branch that disagrees, a sleeping session, and one with an open turn."""
    path = str(tmp_path / "seeded.db")
    with perdure.open(path) as db:
        trip = db.create("Trip to Vienna", owner="ana", tags=["travel", "june"], metadata={"n": 1}, vars={"a": 1})
        with trip.turn("Find me a train.") as turn:
            call = turn.ask("find_trains", {"to": "Vienna"})
            turn.start(call, key="k1")
            turn.finish(call, {"trains": 2})
            turn.answer("There are two trains.")
        branch = trip.branch(title="By day")
        branch.patch_vars(a=2, b=3)
        trip.patch_vars(a=5)
        sleeping = db.create("Sleeping", owner="ben")
        sleeping.suspend("night")
        opened = db.create("Open")
        opened.append([ev.TurnStarted(), ev.Message(role="user", content="my secret")])
        opened.append([ev.ToolAsked(call="c1", name="pay"), ev.ToolStarted(call="c1", key="pay-1")])
        return Seeded(path, trip.id, branch.id, sleeping.id, opened.id)


@pytest.fixture
def run(seeded: Seeded) -> Run:
    """Run the command line on the seeded store; other stores are named with --store."""

    def call(*words: str, **options: Any) -> Result:
        environment = {"PERDURE_STORE": seeded.path, **options.pop("env", {})}
        return CliRunner().invoke(command_line, list(words), env=environment, **options)

    return call


@pytest.fixture
def asked(run: Run) -> Callable[..., Any]:
    """Run a command that must succeed, with --json, and read its document."""

    def call(*words: str) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call
