"""Consolidation on the command line: looked at, tried, named by beginnings of ids, and swept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.edge.cli import exits
from perdure.testing import FixedAmbient
from tests.edge.cli.conftest import HOSTILE, Run, Seeded

Asked = Callable[..., Any]
DAY = 86_400
PAIRS = (
    ("Ana lives in Berlin", "Ana moved to Lisbon"),
    ("The night train leaves at ten", "the night train leaves at ten."),
)


@pytest.fixture
def told(asked: Asked) -> list[str]:
    """Pairs of which the first one gives way; their ids."""
    return [asked("memory", "add", text, "--agent", "ana")["memory"] for pair in PAIRS for text in pair]


@pytest.fixture
def done(asked: Asked, told: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = asked("memory", "consolidate", "--agent", "ana")
    return found


def used(seeded: Seeded, content: str) -> None:
    """Keep what is found often."""
    with perdure.open(seeded.path) as db:
        ana = db.memory("ana")
        ana.add(content, importance=0.2)
        for _ in range(20):
            ana.search("tea")


def rows(shown: str) -> list[str]:
    """The lines of a table, without its head."""
    return [" ".join(line.split()) for line in shown.partition("─\n")[2].splitlines() if line.strip()]


def test_steps_are_decisions_with_the_words_of_both(run: Run, asked: Asked, told: list[str], done: Any) -> None:
    shown = rows(run("memory", "steps", done["run"], "--agent", "ana").stdout)
    assert shown == [
        f"{told[0]} superseded {PAIRS[0][0]} {PAIRS[0][1]} a later statement gives another value",
        f"{told[2]} superseded {PAIRS[1][0]} {PAIRS[1][1]} another one says the same",
    ]
    every = asked("memory", "steps", done["run"], "--agent", "ana")["steps"]
    assert [step["did"] for step in every].count("changed") == 3, "programs get all that was written"
    assert [(step["content"], step["by_content"]) for step in every if step["did"] == "superseded"] == [*PAIRS]
    run("memory", "undo", done["run"], "--agent", "ana")
    assert [row.split()[1] for row in rows(run("memory", "steps", done["run"], "--agent", "ana").stdout)] == [
        "superseded", "superseded", "live", "live"
    ]  # fmt: skip


def test_a_narrow_terminal_has_the_words_rather_than_the_ids(run: Run, told: list[str], done: Any) -> None:
    shown = run("memory", "steps", done["run"], "--agent", "ana", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert (told[0] in shown, "Ana lives" in shown, "Ana moved" in shown) == (False, True, True)


def test_long_words_are_cut_and_none_drive_the_terminal(run: Run, asked: Asked, seeded: Seeded) -> None:
    used(seeded, f"{HOSTILE} tea {'and so on ' * 60}")
    shown = run("memory", "consolidate", "--dry-run", "--agent", "ana").stdout
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert ("…" in shown, "red" in shown) == (True, True)
    assert max(map(len, shown.splitlines())) <= 160


def test_what_was_forgotten_since_says_so(run: Run, asked: Asked, told: list[str], done: Any) -> None:
    assert run("memory", "forget", told[0], "--agent", "ana", "--yes").exit_code == 0
    shown = run("memory", "steps", done["run"], "--agent", "ana").stdout
    assert rows(shown)[0] == f"{told[0]} forgotten (forgotten)"
    assert PAIRS[0][0] not in shown
    assert PAIRS[0][0] not in run("memory", "steps", done["run"], "--agent", "ana", "--json").stdout


def test_another_importance_is_shown_as_that(run: Run, asked: Asked, seeded: Seeded) -> None:
    used(seeded, "Ana likes tea")
    tried = run("memory", "consolidate", "--dry-run", "--agent", "ana").stdout
    assert "importance 0.20 → 0.40 Ana likes tea found 20, cited 0, unused 0 times" in rows(tried)[0]
    done = asked("memory", "consolidate", "--agent", "ana")
    assert rows(run("memory", "steps", done["run"], "--agent", "ana").stdout) == rows(tried)


def test_a_dry_run_lists_what_it_would_do(run: Run, asked: Asked, told: list[str]) -> None:
    shown = run("memory", "consolidate", "--dry-run", "--agent", "ana").stdout
    tried = asked("memory", "consolidate", "--dry-run", "--agent", "ana")
    done = asked("memory", "consolidate", "--agent", "ana")
    assert rows(shown) == rows(run("memory", "steps", done["run"], "--agent", "ana").stdout)
    assert [(step["content"], step["by_content"]) for step in tried["would"]] == [*PAIRS]
    assert {step["version"] for step in tried["would"]} == {None}
    assert "would" not in done


def test_a_plan_without_runs_on_demand_is_tried_all_the_same(run: Run, told: list[str]) -> None:
    run("memory", "plan", "free", "--agent", "ana")
    assert len(rows(run("memory", "consolidate", "--dry-run", "--agent", "ana").stdout)) == len(PAIRS)
    refused = run("memory", "consolidate", "--agent", "ana")
    assert (refused.exit_code, "a server does it (weekly); `perdure sweep`" in refused.stderr) == (exits.CALLER, True)


# ── beginnings of ids ──


def test_a_beginning_of_a_run_will_do(run: Run, asked: Asked, done: Any) -> None:
    part = done["run"][:-6].replace("-", "").upper()
    assert asked("memory", "steps", part, "--agent", "ana")["run"] == done["run"]
    again = asked("memory", "consolidate", "--agent", "ana")
    shared = done["run"][:2]
    assert again["run"].startswith(shared)
    for command in ("steps", "undo"):
        both = run("memory", command, shared, "--agent", "ana")
        assert (both.exit_code, "fits 2 runs; give more of the id" in both.stderr) == (exits.CALLER, True)
        for word in ("ffff", " "):
            none = run("memory", command, word, "--agent", "ana")
            assert (none.exit_code, "perdure memory runs --agent ana lists" in none.stderr) == (exits.NOT_FOUND, True)
    assert asked("memory", "undo", part, "--agent", "ana")["run"] == done["run"]


def test_a_beginning_of_a_proposal_will_do(run: Run, asked: Asked, told: list[str]) -> None:
    first = asked("memory", "propose", told[1], "--agent", "ana", "--to", "clade/the desk", "--evidence", "seen")
    asked("memory", "propose", told[3], "--agent", "ana", "--to", "clade/the desk", "--evidence", "seen")
    desk = ("--clade", "the desk", "--accept")
    both = run("memory", "review", first["proposal"][:2], *desk)
    assert (both.exit_code, "fits 2 proposals" in both.stderr) == (exits.CALLER, True)
    none = run("memory", "review", "ffff", *desk)
    assert none.exit_code == exits.NOT_FOUND
    assert "perdure memory proposals --clade 'the desk' lists those that wait" in none.stderr
    assert asked("memory", "review", first["proposal"][:-4], *desk)["accepted"] is True
    lethe = run("memory", "review", "ffff", "--lethe", "--accept").stderr
    assert "perdure memory proposals --lethe lists" in lethe


# ── on schedule ──


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A store in which something was kept long ago."""
    path = str(tmp_path / "old.db")
    with perdure.open(path, ambient=FixedAmbient(now=1_700_000_000_000_000), seal=False, memory="none") as db:
        for agent in ("ana", "ben"):
            db.memory(agent).plan("free")
        db.memory("ana").add_many([text for pair in PAIRS for text in pair])
    return path


def test_a_sweep_consolidates_what_is_due(run: Run, asked: Asked, old: str) -> None:
    done = asked("sweep", "--store", old)
    (one,) = done["consolidated"]
    assert (one["space"], one["found"], done["unconsolidated"]) == ("vault/ana", {"newer": 1, "same": 1}, [])
    assert [found["run"] for found in asked("memory", "runs", "--agent", "ana", "--store", old)["runs"]] == [one["run"]]
    assert asked("sweep", "--store", old)["consolidated"] == []


def test_a_sweep_says_what_it_consolidated(run: Run, old: str) -> None:
    swept = run("sweep", "--store", old)
    assert (swept.exit_code, "consolidated vault/ana: 1 newer, 1 same" in swept.stdout) == (0, True)


def test_a_sweep_is_told_not_to_consolidate(run: Run, asked: Asked, old: str, tmp_path: Path) -> None:
    config = tmp_path / "here.toml"
    config.write_text("[memory]\nconsolidate = false\n")
    swept = run("sweep", "--store", old, "--json", env={"PERDURE_CONFIG": str(config)})
    assert (swept.exit_code, '"consolidated": []' in swept.stdout) == (0, True)
    assert asked("memory", "runs", "--agent", "ana", "--store", old)["runs"] == []


def test_a_sweep_that_could_not_consolidate_says_so(run: Run, old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise perdure.errors.Damaged("its log cannot be read")

    monkeypatch.setattr("perdure.services.consolidating.Consolidating.run", broken)
    swept = run("sweep", "--store", old)
    assert (swept.exit_code, "could not consolidate vault/ana: its log cannot be read" in swept.stdout) == (5, True)


def test_the_library_s_sweep_does_the_same(old: str) -> None:
    with perdure.open(old, memory={"embedder": "none", "consolidate": False}) as db:
        assert db.sweep().consolidated == {}
    with perdure.open(old, memory="none") as db:
        report = next(db.sweeper())
        assert ([*report.consolidated], report.unconsolidated) == (["vault/ana"], {})
        assert [found.trigger for found in db.memory("ana").runs()] == ["schedule"]


def test_a_sweep_that_is_told_a_time_consolidates_what_is_due_then() -> None:
    with perdure.open(":memory:", memory="none") as db:
        db.memory("ana").add_many([text for pair in PAIRS for text in pair])
        assert db.sweep().consolidated == {}
        later = db.sweep(now=db.now() + 2 * DAY * 1_000_000)
        assert later.consolidated["vault/ana"].found == {"newer": 1, "same": 1}
