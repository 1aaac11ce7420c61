"""Taking away for good, and proving that what is there is whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import errors
from perdure.edge.cli.demo.tampering import copied, flip_one_bit
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def is_there(seeded: Seeded, session: str) -> bool:
    with perdure.open(seeded.path) as db:
        try:
            db.session(session)
        except errors.NotFound:
            return False
        return True


def test_erasing_with_yes_gives_branches_their_copy(asked: Asked, seeded: Seeded) -> None:
    assert asked("sessions", "erase", seeded.trip, "--yes") == {"erased": seeded.trip, "copies": 1}
    assert not is_there(seeded, seeded.trip)
    with perdure.open(seeded.path) as db:
        assert [turn.number for turn in db.session(seeded.branch).turns()] == [1]


def test_the_question_tells_what_would_go_and_who_gets_a_copy(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "erase", seeded.trip, input="n\n")
    assert '"Trip to Vienna"' in result.stderr
    assert "1 branch will be given a copy" in result.stderr
    assert (result.exit_code, result.stdout) == (2, "")
    assert is_there(seeded, seeded.trip)


def test_no_answer_is_a_no(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "erase", seeded.open, input="")
    assert result.exit_code == 2
    assert "nothing was erased" in result.stderr
    assert is_there(seeded, seeded.open)


def test_a_yes_erases(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "erase", seeded.open, input="y\n")
    assert (result.exit_code, result.stdout) == (0, f"erased {seeded.open}\n")
    assert not is_there(seeded, seeded.open)


def test_a_whole_store_verifies(asked: Asked, run: Run) -> None:
    found = asked("sessions", "verify")
    assert (found["ok"], found["sessions"], found["problems"], found["damaged"]) == (True, 4, [], [])
    assert run("sessions", "verify").stdout.startswith("✓ ok  4 sessions, ")


def test_one_session_verifies_alone(asked: Asked, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        count = db.session(seeded.trip).version()
    found = asked("sessions", "verify", seeded.trip)
    assert (found["ok"], found["sessions"], found["events"]) == (True, 1, count)


@pytest.fixture
def damaged(seeded: Seeded, tmp_path: Path) -> str:
    """A copy of the store in which one bit of a stored digest is flipped."""
    with perdure.open(seeded.path) as db:
        digests = [event.digest for event in db.session(seeded.trip).events()]
    copy = copied(seeded.path, str(tmp_path / "damaged.db"))
    assert flip_one_bit(copy, digests) is not None
    return copy


def test_a_flipped_bit_is_found_and_named(run: Run, seeded: Seeded, damaged: str) -> None:
    result = run("sessions", "verify", "--store", damaged, "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"]) == (5, False)
    assert {report["session"] for report in found["damaged"]} == {seeded.trip, seeded.branch}
    assert found["damaged"][0]["problems"][0]["place"] == "log"


def test_people_are_told_what_is_wrong_and_what_to_do(run: Run, seeded: Seeded, damaged: str) -> None:
    result = run("sessions", "verify", seeded.trip, "--store", damaged)
    assert result.exit_code == 5
    assert "✗ fail" in result.stdout
    assert f"session {seeded.trip}" in result.stdout
    assert "→ " in result.stdout


def test_what_is_whole_verifies_beside_what_is_damaged(run: Run, seeded: Seeded, damaged: str) -> None:
    assert run("sessions", "verify", seeded.sleeping, "--store", damaged).exit_code == 0


def test_reading_damaged_history_is_refused_with_five(run: Run, seeded: Seeded, damaged: str) -> None:
    result = run("sessions", "history", seeded.trip, "--store", damaged)
    assert result.exit_code == 5
    assert result.stderr.startswith("error: ")
