"""A session out of one store and into another."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def digests(path: str, session: str) -> list[bytes]:
    with perdure.open(path, read_only=True) as db:
        return [event.digest for event in db.session(session).events()]


@pytest.mark.parametrize("name", ["trip", "branch", "open"])
def test_an_export_rebuilds_the_session_exactly_elsewhere(
    name: str, run: Run, asked: Asked, seeded: Seeded, tmp_path: Path
) -> None:
    session, file, other = getattr(seeded, name), str(tmp_path / "out.jsonl"), str(tmp_path / "other.db")
    document = asked("sessions", "export", session, "-o", file)
    assert (document["file"], document["bytes"]) == (file, Path(file).stat().st_size)
    assert asked("sessions", "import", file, "--store", other)["session"]["session"] == session
    assert digests(other, session) == digests(seeded.path, session)
    assert run("sessions", "verify", "--store", other).exit_code == 0


def test_an_export_to_stdout_is_what_a_file_would_hold(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    assert "exported" in run("sessions", "export", seeded.trip, "-o", str(file)).stdout
    shown = run("sessions", "export", seeded.trip)
    assert shown.stdout_bytes == file.read_bytes()
    assert [json.loads(line) for line in shown.stdout.splitlines()]


def test_an_export_can_come_from_stdin(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    lines = run("sessions", "export", seeded.trip).stdout_bytes
    other = str(tmp_path / "other.db")
    result = run("sessions", "import", "-", "--store", other, input=lines)
    assert result.stdout.startswith(f"imported {seeded.trip} at version ")
    assert digests(other, seeded.trip) == digests(seeded.path, seeded.trip)


def test_importing_what_is_there_already_changes_nothing(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    file = str(tmp_path / "out.jsonl")
    run("sessions", "export", seeded.trip, "-o", file)
    before = digests(seeded.path, seeded.trip)
    result = run("sessions", "import", file)
    assert result.exit_code == 0
    assert f"{seeded.trip} is there already" in result.stdout
    assert "imported" not in result.stdout
    assert json.loads(run("sessions", "import", file, "--json").stdout)["existed"] is True
    assert digests(seeded.path, seeded.trip) == before


def test_another_history_under_the_same_id_is_a_conflict(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    file = str(tmp_path / "out.jsonl")
    run("sessions", "export", seeded.trip, "-o", file)
    with perdure.open(seeded.path) as db:
        db.session(seeded.trip).write_scratchpad("later")
    assert run("sessions", "import", file).exit_code == 4


def test_a_changed_export_is_refused_and_brings_no_session(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    lines = run("sessions", "export", seeded.trip).stdout_bytes
    assert b"two trains" in lines
    other = str(tmp_path / "other.db")
    result = run(
        "sessions", "import", "-", "--store", other, "--json", input=lines.replace(b"two trains", b"ten trains")
    )
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "bad_export"
    assert not Path(other).exists()


def test_a_file_that_is_not_there_makes_no_store(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert run("sessions", "import", str(tmp_path / "none.jsonl"), "--store", str(other)).exit_code == 2
    assert not other.exists()


def test_a_place_that_cannot_be_written_is_said_so(run: Run, seeded: Seeded, tmp_path: Path) -> None:
    result = run("sessions", "export", seeded.trip, "-o", str(tmp_path / "nowhere" / "out.jsonl"))
    assert result.exit_code in (3, 5)
    assert result.stderr.startswith("error: ")
