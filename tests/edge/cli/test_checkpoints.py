"""Points to come back to, and coming back."""

from collections.abc import Callable
from typing import Any

import perdure
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def test_a_checkpoint_is_taken_with_label_metadata_and_pin(asked: Asked, seeded: Seeded) -> None:
    taken = asked(
        "sessions", "checkpoint", seeded.trip, "--label", "here", "--meta", "why=test", "--meta", "n=1", "--pin"
    )
    assert (taken["label"], taken["metadata"], taken["pinned"]) == ("here", {"why": "test", "n": 1}, True)
    assert taken in asked("sessions", "checkpoint", seeded.trip, "--list")["checkpoints"]


def test_listing_takes_none(asked: Asked, run: Run, seeded: Seeded) -> None:
    assert asked("sessions", "checkpoint", seeded.trip, "--list") == {"checkpoints": []}
    assert run("sessions", "checkpoint", seeded.trip, "--list").stdout == "no checkpoints\n"


def test_people_are_told_how_long_it_is_kept(run: Run, seeded: Seeded) -> None:
    assert "kept until 20" in run("sessions", "checkpoint", seeded.trip).stdout
    assert "as long as the session lives" in run("sessions", "checkpoint", seeded.trip, "--pin").stdout
    assert "pinned" in run("sessions", "checkpoint", seeded.trip, "--list").stdout


def test_resuming_wakes_a_sleeping_session_in_place(run: Run, seeded: Seeded) -> None:
    assert run("sessions", "resume", seeded.sleeping).stdout == f"session {seeded.sleeping} is active again\n"
    with perdure.open(seeded.path) as db:
        assert db.session(seeded.sleeping).info().phase == "active"


def test_waking_a_session_that_is_awake_is_refused(run: Run, seeded: Seeded) -> None:
    assert run("sessions", "resume", seeded.trip).exit_code == 2


def test_resuming_from_a_checkpoint_makes_a_branch_with_overrides(asked: Asked, seeded: Seeded) -> None:
    taken = asked("sessions", "checkpoint", seeded.trip)
    row = asked(
        *("sessions", "resume", seeded.trip, "--checkpoint", taken["checkpoint"], "--model", "small"),
        *("--system-prompt", "be brief", "--max-cost", "1000", "--title", "again"),
    )["session"]
    assert (row["parent"], row["branched_at"], row["title"]) == (seeded.trip, taken["version"], "again")
    with perdure.open(seeded.path) as db:
        config = db.session(row["session"]).state().config
        assert (config.model, config.system_prompt, config.max_cost) == ("small", "be brief", 1000)


def test_overrides_without_a_checkpoint_are_a_usage_error(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "resume", seeded.sleeping, "--model", "small")
    assert result.exit_code == 2
    assert "--checkpoint" in result.stderr


def test_an_unknown_checkpoint_is_not_found(run: Run, seeded: Seeded) -> None:
    assert run("sessions", "resume", seeded.trip, "--checkpoint", "nope").exit_code == 3
