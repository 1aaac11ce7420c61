"""Memory on the command line with an embedder at an address where nobody answers."""

import json
from typing import Any

import pytest

from perdure.edge.cli import exits
from tests.edge.cli.conftest import Run
from tests.embedders.answering import KEY, address, answering, nobodys_port

LACKING = "by words alone: the embedder failed"


def test_it_keeps_and_finds_and_says_what_was_lacking(run: Run) -> None:
    port = nobodys_port()
    env = {"PERDURE_MEMORY": json.dumps({"embedder": f"{address(port)}#m"})}
    assert run("memory", "add", "Prefers a window seat", env=env).exit_code == 0
    found = run("memory", "search", "a seat", "--json", env=env)
    (item,) = json.loads(found.stdout)["memories"]
    assert (item["content"], item["lacking"]) == ("Prefers a window seat", LACKING)
    assert f"note: found {LACKING}" in found.stderr
    assert run("memory", "stats", env=env).exit_code == 0
    failed = run("memory", "reembed", env=env)
    assert (failed.exit_code, "cannot be reached" in failed.stderr) == (exits.WORLD, True)
    with answering(port):
        assert "embedded 1 of 1 memory" in run("memory", "reembed", env=env).stdout
        found = run("memory", "search", "a seat", "--json", env=env)
    assert (json.loads(found.stdout)["memories"][0]["lacking"], found.stderr) == (None, "")


@pytest.mark.parametrize("settings", [{"embedder": "bogus"}, {"embedder": "none", "key_env": "NOT_THERE"}])
def test_settings_that_cannot_be_are_told(run: Run, settings: dict[str, Any]) -> None:
    told = run("memory", "add", "Prefers a window seat", env={"PERDURE_MEMORY": json.dumps(settings)})
    assert told.exit_code == exits.CALLER
    assert any(word in told.stderr for word in ("there is no embedder", "NOT_THERE"))


def test_a_key_comes_from_the_environment(run: Run) -> None:
    with answering() as server:
        server.behave = "guarded"
        said = json.dumps({"embedder": f"{address(server)}#m", "key_env": "OUR_KEY"})
        env = {"PERDURE_MEMORY": said, "OUR_KEY": KEY}
        assert run("memory", "add", "Prefers a window seat", env=env).exit_code == 0
        assert json.loads(run("memory", "stats", "--json", env=env).stdout)["embedded"] == 1
