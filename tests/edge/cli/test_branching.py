"""Ways that part and meet again."""

import json
from collections.abc import Callable
from typing import Any

import perdure
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def vars_of(seeded: Seeded, session: str) -> dict[str, Any]:
    with perdure.open(seeded.path) as db:
        return db.session(session).state().vars.document


def test_a_branch_starts_where_it_is_told(asked: Asked, seeded: Seeded) -> None:
    row = asked("sessions", "branch", seeded.trip, "--at", "3", "--name", "what-if", "--title", "What if")["session"]
    assert (row["parent"], row["branched_at"], row["title"], row["branch_kind"]) == (
        seeded.trip,
        3,
        "What if",
        "checkpoint",
    )
    with perdure.open(seeded.path) as db:
        lineage = db.session(row["session"]).lineage()
        assert lineage is not None
        assert lineage.name == "what-if"


def test_a_branch_of_a_simulation_is_refused_and_one_at_no_version_not_found(
    run: Run, asked: Asked, seeded: Seeded
) -> None:
    sim = asked("sessions", "branch", seeded.trip, "--kind", "sim")["session"]["session"]
    assert run("sessions", "branch", sim).exit_code == 2
    assert run("sessions", "branch", seeded.trip, "--at", "999").exit_code == 3
    assert "branches from version" in run("sessions", "branch", seeded.trip).stdout


def test_a_diff_of_two_sessions_leads_from_the_first_to_the_second(run: Run, asked: Asked, seeded: Seeded) -> None:
    assert run("sessions", "diff", seeded.trip, seeded.branch).stdout.splitlines() == [
        "~ vars.a: 5 → 2",
        "+ vars.b = 3",
    ]
    assert run("sessions", "diff", seeded.branch, seeded.trip).stdout.splitlines() == [
        "~ vars.a: 2 → 5",
        "- vars.b was 3",
    ]
    assert asked("sessions", "diff", seeded.trip, seeded.branch)["ops"] == [
        {"op": "replace", "path": ["vars", "a"], "at": "vars.a", "old": 5, "new": 2},
        {"op": "add", "path": ["vars", "b"], "at": "vars.b", "value": 3},
    ]


def test_a_diff_of_one_session_leads_from_where_it_began(run: Run, seeded: Seeded) -> None:
    assert run("sessions", "diff", seeded.branch).stdout.splitlines() == ["~ vars.a: 1 → 2", "+ vars.b = 3"]
    assert run("sessions", "diff", seeded.trip).stdout.splitlines() == ["+ vars.a = 5"]
    assert run("sessions", "diff", seeded.trip, "--from", "4", "--to", "5").stdout == "no difference\n"


def test_a_diff_compares_versions_of_two_sessions(run: Run, seeded: Seeded) -> None:
    with perdure.open(seeded.path) as db:
        parted = db.session(seeded.branch).info().branched_at
    shown = run("sessions", "diff", seeded.trip, seeded.branch, "--from", str(parted), "--to", str(parted)).stdout
    assert shown == "no difference\n"
    assert run("sessions", "diff", seeded.trip, "--to", "999").exit_code == 3


def test_a_merge_with_conflicts_lists_them_and_says_how_to_settle_them(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "merge", seeded.branch, seeded.trip)
    assert result.exit_code == 4
    assert "--choose 'vars.a=ours|theirs|base'" in result.stdout
    assert vars_of(seeded, seeded.trip) == {"a": 5, "b": 3}


def test_repeating_a_merge_does_not_pile_up_conflicts(run: Run, seeded: Seeded) -> None:
    first = json.loads(run("sessions", "merge", seeded.branch, seeded.trip, "--json").stdout)
    again = json.loads(run("sessions", "merge", seeded.branch, seeded.trip, "--json").stdout)
    assert first == again
    assert (first["merged"], [item["at"] for item in first["conflicts"]]) == (False, ["vars.a"])


def test_choosing_settles_what_an_earlier_merge_left(run: Run, asked: Asked, seeded: Seeded) -> None:
    run("sessions", "merge", seeded.branch, seeded.trip)
    assert asked("sessions", "merge", seeded.branch, seeded.trip, "--choose", "vars.a=theirs")["merged"] is True
    assert vars_of(seeded, seeded.trip) == {"a": 2, "b": 3}


def test_choosing_at_once_merges_and_settles(run: Run, seeded: Seeded) -> None:
    assert "merged into" in run("sessions", "merge", seeded.branch, seeded.trip, "--choose", "vars.a=base").stdout
    assert vars_of(seeded, seeded.trip) == {"a": 1, "b": 3}


def test_a_policy_settles_without_asking_and_a_summary_is_left(run: Run, seeded: Seeded) -> None:
    words = ("sessions", "merge", seeded.branch, seeded.trip, "--policy", "theirs", "--summary", "took the day train")
    assert run(*words).exit_code == 0
    assert vars_of(seeded, seeded.trip) == {"a": 2, "b": 3}
    assert "took the day train" in run("sessions", "history", seeded.trip).stdout


def test_a_policy_is_not_held_up_by_a_conflict_that_waits(run: Run, seeded: Seeded) -> None:
    run("sessions", "merge", seeded.branch, seeded.trip)
    assert run("sessions", "merge", seeded.branch, seeded.trip, "--policy", "theirs").exit_code == 0
    assert vars_of(seeded, seeded.trip)["a"] == 2


def test_a_choice_for_a_path_without_conflict_is_the_callers_mistake(run: Run, seeded: Seeded) -> None:
    result = run("sessions", "merge", seeded.branch, seeded.trip, "--choose", "vars.b=ours")
    assert result.exit_code == 2
    assert "vars.b is not in conflict" in result.stderr


def test_a_merge_without_conflicts_needs_no_choice(run: Run, asked: Asked, seeded: Seeded) -> None:
    fresh = asked("sessions", "branch", seeded.trip)["session"]["session"]
    assert asked("sessions", "merge", fresh, seeded.trip)["conflicts"] == []
    assert run("sessions", "merge", seeded.trip, seeded.trip).exit_code == 2
