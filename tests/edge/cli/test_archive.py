"""Ended sessions put away, listed and taken back from the command line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cold storage, named in the environment."""
    monkeypatch.setenv("PERDURE_COLD", str(tmp_path / "cold"))
    return tmp_path / "cold"


@pytest.fixture
def ended(seeded: Seeded) -> str:
    """A session of the seeded store that has ended; it has a branch."""
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).complete()
    return seeded.trip


def test_one_session_goes_away_and_is_read_as_before(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    before = asked("sessions", "history", ended)
    done = asked("archive", ended)
    assert (done["session"], done["bytes"]) == (ended, (cold / done["cold"]).stat().st_size)
    assert asked("sessions", "history", ended) == before
    assert asked("sessions", "verify")["ok"]
    assert run("archive", "put", ended[:13]).stdout.startswith(f"archived {ended} as {done['cold']}")


def test_a_place_can_be_named_for_one_command(asked: Asked, ended: str, tmp_path: Path) -> None:
    done = asked("archive", ended, "--cold", str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / done["cold"]).is_file()


def test_without_cold_storage_the_log_stays_and_that_is_said(run: Run, ended: str) -> None:
    result = run("archive", ended)
    assert result.exit_code == 0
    assert result.stdout == f"archived {ended}; its log stays in the store (no cold storage)\n"


def test_what_has_not_ended_is_refused(run: Run, seeded: Seeded, cold: Path) -> None:
    result = run("archive", seeded.sleeping, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert (error["code"], error["fields"]["phase"]) == ("move_refused", "suspended")
    assert f"session {seeded.sleeping} is suspended, and only what has ended is put away; end it" in error["message"]
    assert 'over HTTP, POST /v1/sessions/ID/transitions {"event": "terminate"}' in error["message"]
    assert "no command" in error["message"]
    assert not cold.exists()


def test_all_that_are_old_enough_go_away(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    assert asked("archive", "--older-than", "1d") == {"archived": [], "failed": []}
    assert run("archive", "--older-than", "0s").stdout.startswith("archived 1 session, ")
    assert [row["cold"] is not None for row in asked("archive", "list")["sessions"]] == [True]


def test_one_session_or_a_time_but_not_both(run: Run, ended: str) -> None:
    assert run("archive", "put").exit_code == 2
    assert run("archive", ended, "--older-than", "1d").exit_code == 2


def test_the_list_tells_where_each_lies_and_what_is_missing(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    assert asked("archive", "list") == {"sessions": [], "missing": []}
    where = asked("archive", ended)["cold"]
    row = asked("archive", "list", "--check")["sessions"][0]
    assert (row["session"], row["cold"], row["bytes"]) == (ended, where, (cold / where).stat().st_size)
    assert "cold storage" in run("archive", "list").stdout
    shutil.rmtree(cold)
    result = run("archive", "list", "--check")
    assert (result.exit_code, "MISSING" in result.stdout) == (5, True)
    result = run("archive", "list", "--check", "--json")
    assert json.loads(result.stdout)["missing"] == [ended]


def test_a_missing_bundle_ends_with_five_and_its_name(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    where = asked("archive", ended)["cold"]
    shutil.rmtree(cold)
    result = run("sessions", "history", ended)
    assert result.exit_code == 5
    assert where in result.stderr
    result = run("sessions", "history", ended, env={"PERDURE_COLD": ""})
    assert "open the store with --cold (or PERDURE_COLD)" in result.stderr
    for words in (("verify", ended), ("verify",)):
        result = run("sessions", *words, "--json")
        (problem,) = json.loads(result.stdout)["damaged"][0]["problems"]
        assert (result.exit_code, problem["place"]) == (5, "log")
        assert "bring the bundle back" in problem["advice"]


def test_every_command_that_reads_sessions_can_be_told_where_the_archived_ones_are(
    asked: Asked, run: Run, ended: str, tmp_path: Path
) -> None:
    cold = ("--cold", str(tmp_path / "named"))
    asked("archive", ended, *cold)
    for words in (
        ("sessions", "show", ended),
        ("sessions", "verify"),
        ("sessions", "export", ended, "-o", str(tmp_path / "out.jsonl")),
        ("sessions", "branch", ended),
        ("sessions", "diff", ended),
        ("sessions", "recover"),
        ("blobs", "export", ended, str(tmp_path / "blobs")),
        ("archive", "list", "--check"),
        ("sweep",),
    ):
        result = run(*words, *cold)
        assert result.exit_code == 0, (words, result.output)
    assert len(run("sessions", "history", ended, "--json", *cold).stdout.splitlines()) == 1
    assert asked("sessions", "erase", ended, "--yes", *cold)["erased"] == ended


def test_bundles_cannot_be_looked_for_without_their_place(asked: Asked, run: Run, ended: str, tmp_path: Path) -> None:
    assert asked("archive", "list", "--check")["missing"] == []
    cold = str(tmp_path / "named")
    asked("archive", ended, "--cold", cold)
    result = run("archive", "list", "--check")
    assert result.exit_code == 2
    assert "name it with --cold or PERDURE_COLD" in result.stderr
    assert "MISSING" not in result.output
    assert asked("archive", "list", "--check", "--cold", cold)["missing"] == []


def test_a_session_comes_back(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    asked("archive", ended)
    assert asked("archive", "thaw", ended) == {"session": ended, "thawed": True}
    assert asked("archive", "thaw", ended) == {"session": ended, "thawed": False}
    shutil.rmtree(cold)
    assert asked("sessions", "verify")["ok"]
    assert "does not lie in cold storage" in run("archive", "thaw", ended).stdout


def test_erasing_takes_the_bundle_along(run: Run, asked: Asked, ended: str, cold: Path) -> None:
    asked("archive", ended)
    assert asked("sessions", "erase", ended, "--yes")["copies"] == 1
    assert list(cold.rglob("*.bundle")) == []
    assert asked("sessions", "verify")["ok"]


def test_help_is_there_for_every_command(run: Run) -> None:
    for words in ([], ["put"], ["list"], ["thaw"]):
        result = run("archive", *words, "--help")
        assert result.exit_code == 0
        assert "Usage: perdure archive" in result.stdout
