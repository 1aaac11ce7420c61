"""The tour really happens, and fails when a claim does not hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import perdure
from perdure.edge.cli import offline
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.cli.demo import acts, crash, tampering
from perdure.edge.cli.demo.stage import Stage

SOURCE = str(Path(perdure.__file__).parent.parent)


@pytest.mark.slow
def test_the_demo_runs_without_a_terminal_and_every_claim_holds(tmp_path: Path) -> None:
    keep = str(tmp_path / "trip.db")
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "demo", "--keep", keep],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": SOURCE, "FORCE_COLOR": "1"},
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "✗" not in done.stdout
    assert done.stdout.count("✓") >= 15
    for part in (
        "kill -9",
        "byte for byte",
        "one booking, not two",
        "vars.train",
        "└──",
        "the flipped bit is found",
        keep,
    ):
        assert part in done.stdout
    with perdure.open(keep, read_only=True) as db:
        assert (db.count(), db.verify().ok) == (4, True)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    path.write_text("mine")
    result = CliRunner().invoke(command_line, ["demo", "--keep", str(path)])
    assert (result.exit_code, path.read_text()) == (2, "mine")


def test_the_child_is_not_in_the_help() -> None:
    assert "--child" not in CliRunner().invoke(command_line, ["demo", "--help"]).output


@pytest.mark.slow
def test_a_claim_that_does_not_hold_ends_the_demo_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline.Desk, "bookings", lambda self: {})
    result = CliRunner().invoke(command_line, ["demo", "--fast"])
    assert result.exit_code == 1
    assert "✗ the desk had taken the booking" in result.stdout
    assert "claims did not hold" in result.stderr


@pytest.mark.slow
def test_the_child_dies_in_the_middle_of_its_turn_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    stage = Stage(fast=True)
    store, desk = str(tmp_path / "trip.db"), offline.Desk(str(tmp_path / "desk.json"))
    trip = acts.conversation(stage, store, desk)
    acknowledged, ended = crash.kill_midway(stage, store, trip.session, desk.path)
    assert crash.killed(ended)
    assert [item.kind for item in acknowledged] == ["turn_started", "message", "message", "tool_asked", "tool_started"]
    with perdure.open(store) as db:
        events = db.session(trip.session).events(acknowledged[0].version - 1)
        assert [(event.version, event.digest.hex()) for event in events] == [
            (item.version, item.digest) for item in acknowledged
        ]


def test_a_lost_event_would_be_noticed(tmp_path: Path) -> None:
    stage = Stage(fast=True)
    store, desk = str(tmp_path / "trip.db"), offline.Desk(str(tmp_path / "desk.json"))
    trip = acts.conversation(stage, store, desk)
    acts.recovery(stage, trip, [crash.Acknowledged(999, "message", "00" * 32)])
    assert "all 1 acknowledged events are there, byte for byte" in stage.broken


def test_a_flip_changes_exactly_one_bit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = b"nothing here; Book the night train."
    path.write_bytes(before)
    place = tampering.flip_one_bit(str(path), [b"absent", b"Book", b"nothing"])
    after = path.read_bytes()
    assert place == before.index(b"Book")
    changed = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    assert changed.bit_count() == 1
    assert tampering.flip_one_bit(str(path), [b"absent"]) is None
