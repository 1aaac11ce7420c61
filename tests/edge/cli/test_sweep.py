"""`perdure sweep`: once or over and over, for people and for programs."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import perdure
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.cli.sweep import duration, limit, target
from perdure.testing import FixedAmbient

LONG_AGO = FixedAmbient(now=1_700_000_000_000_000)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two sessions whose time came long ago, one without time-outs, one that is fresh."""
    path = str(tmp_path / "store.db")
    with perdure.open(path, ambient=LONG_AGO, seal=False) as db:
        db.create("one", config={"timeouts": {"idle": 60}})
        db.create("two", config={"timeouts": {"idle": 60, "grace": 60}}).suspend()
        db.create("three")
    with perdure.open(path) as db:
        db.create("four", config={"timeouts": {"idle": 3600}})
    return path


@pytest.fixture
def sweep(store: str) -> Callable[..., Result]:
    def call(*words: str, **options: Any) -> Result:
        return CliRunner().invoke(command_line, ["sweep", "--store", store, *words], **options)

    return call


def test_a_sweep_shows_what_was_done(sweep: Callable[..., Result]) -> None:
    result = sweep()
    assert result.exit_code == 0, result.output
    assert "suspended" in result.stdout
    assert "ended" in result.stdout
    assert "looked at 2 sessions: 1 suspended, 1 ended" in result.stdout
    assert "nothing to do" in sweep().stdout


def test_programs_get_a_document(sweep: Callable[..., Result]) -> None:
    document = json.loads(sweep("--json", "--once").stdout)
    assert (document["looked"], document["suspended"], document["ended"], document["erased"]) == (2, 1, 1, 0)
    assert [item["reason"] for item in document["done"]] == ["idle", "grace"]
    assert document["done"][0]["due_at"] == "2023-11-14T22:14:20.000000Z"
    assert json.loads(sweep("--json").stdout)["done"] == []


def test_a_limit_leaves_the_rest_for_the_next_time(sweep: Callable[..., Result]) -> None:
    assert "there may be more to do" in sweep("--limit", "1").stdout


def test_defaults_take_hold_with_rearming(sweep: Callable[..., Result], store: str) -> None:
    sweep()
    assert json.loads(sweep("--json", "--default", "idle=30m").stdout)["looked"] == 0
    result = sweep("--json", "--default", "idle=30m", "--default", "grace=1w", "--rearm")
    assert json.loads(result.stdout)["suspended"] == 1
    assert "armed" in result.stderr
    with perdure.open(store, read_only=True) as db:
        (row,) = db.find(title="three").items
        assert row.phase == "suspended"


def test_a_session_left_waiting_is_told_and_the_code_says_so(sweep: Callable[..., Result]) -> None:
    secret = {"PERDURE_WEBHOOK_SECRET": "sixteen bytes, at least"}
    result = sweep("--json", "--webhook", "notify=http://127.0.0.1:9/x", env=secret)
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert (document["suspended"], document["waiting"]) == (1, 1)
    assert "127.0.0.1" in document["done"][1]["error"]


def test_the_secret_comes_from_a_file_or_the_environment(sweep: Callable[..., Result], tmp_path: Path) -> None:
    refused = sweep("--webhook", "notify=http://127.0.0.1:9/x", env={"PERDURE_WEBHOOK_SECRET": ""})
    assert refused.exit_code == 2
    assert "need a secret" in refused.stderr
    file = tmp_path / "secret"
    file.write_text("sixteen bytes, at least\n", "utf-8")
    words = ("--webhook", "analytics=http://127.0.0.1:9/x", "--secret-file", str(file))
    assert sweep(*words).exit_code == 5


@pytest.mark.parametrize(
    "words",
    [
        ("--once", "--every", "60"),
        ("--every", "soon"),
        ("--default", "idle"),
        ("--default", "idel=5m"),
        ("--webhook", "notify"),
        ("--webhook", "notify=ftp://x"),
        ("--webhook", "shout=https://example.org"),
        ("--limit", "0"),
    ],
)
def test_nonsense_is_refused(sweep: Callable[..., Result], words: tuple[str, ...]) -> None:
    result = sweep(*words, env={"PERDURE_WEBHOOK_SECRET": "sixteen bytes, at least"})
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("default", ["nonsense", "idel=5m", "=5m", "background=1", "idle", "idle=999999999w"])
def test_a_default_that_is_none_is_a_typed_error_that_says_what_is_allowed(
    sweep: Callable[..., Result], default: str
) -> None:
    result = sweep("--default", default, "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "invalid"
    assert "idle, absolute, max_active, grace, expiry" in error["message"]
    assert "idle=30m" in error["message"]
    assert error["fields"]["allowed"] == ["idle", "absolute", "max_active", "grace", "expiry"]


def test_a_default_of_no_length_says_how_lengths_are_written(sweep: Callable[..., Result]) -> None:
    result = sweep("--default", "idle=soon")
    assert result.exit_code == 2
    assert "90, 90s, 15m, 2h, 7d or 4w" in result.stderr


def test_a_webhook_has_a_time_out(sweep: Callable[..., Result]) -> None:
    secret = {"PERDURE_WEBHOOK_SECRET": "sixteen bytes, at least"}
    words = ("--webhook", "notify=http://127.0.0.1:9/x", "--hook-timeout")
    assert json.loads(sweep("--json", *words, "1s", env=secret).stdout)["waiting"] == 1
    refused = sweep(*words, "0", env=secret)
    assert refused.exit_code == 2
    assert "timeout is a number of seconds above zero" in refused.stderr


def test_a_missing_store_is_not_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(command_line, ["sweep", "--store", str(tmp_path / "none.db")])
    assert result.exit_code == 5
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("0.2", 0.2)]
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration(text) == seconds
    assert limit(f"idle={text}") == ("idle", round(seconds))
    assert target(f"notify=https://example.org/?a={text}") == ("notify", f"https://example.org/?a={text}")


@pytest.mark.slow
def test_sweeping_goes_on_until_it_is_stopped(store: str) -> None:
    command = [sys.executable, "-m", "perdure", "sweep", "--store", store, "--every", "0.05", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(2)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.startswith("sweeping every 0.05 seconds; stop it with Ctrl-C\n")
    assert [line["looked"] for line in lines] == [2, 0, 0]
