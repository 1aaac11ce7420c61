"""A taste of `make torture`: real processes, real kills, and proof that a loss would be noticed (R1–R7, R35)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from torture import powercut
from torture.blows import FAULTS, KILLS, STRACE
from torture.duel import fight
from torture.run import Options, judge, run
from torture.sealing import sealing
from torture.tally import Tally

pytestmark = pytest.mark.slow
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed: NO CRASH IS TESTED HERE")


def quietly(_: str) -> None:
    """Progress is for people."""


@pytest.fixture(params=[True, False], ids=["sealed", "clear"])
def sealed(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Torture both kinds of files."""
    with sealing(request.param):
        yield request.param


@needs_strace
def test_nothing_acknowledged_is_lost_when_processes_are_killed(sealed: bool) -> None:
    tally = run(Options(seed=1, kills=12, minutes=2, quick=True, complete=False, sealed=sealed), quietly)
    assert tally.problems == []
    assert tally.killed >= 12
    assert tally.checks >= 2
    assert any(blow.traced and tally.kills[blow.kind] for blow in KILLS), "no kill came at a system call"


@needs_strace
def test_an_acknowledgement_before_the_commit_is_found() -> None:
    tally = run(Options(seed=2, kills=40, minutes=2, quick=True, plant="early-ack"), quietly)
    assert any("LOST" in problem for problem in tally.problems)


@needs_strace
def test_a_retry_under_a_new_key_is_found() -> None:
    tally = run(Options(seed=3, kills=40, minutes=2, quick=True, plant="double-apply"), quietly)
    assert any("applied twice" in problem for problem in tally.problems)


@pytest.mark.usefixtures("sealed")
def test_a_power_cut_takes_nothing_acknowledged() -> None:
    assert powercut.strike(seed=5, cuts=10) == []


@pytest.mark.usefixtures("sealed")
def test_a_sync_that_failed_is_never_built_upon() -> None:
    assert powercut.strike(seed=5, cuts=10, failing=True) == []


def test_a_log_that_is_never_synced_is_found() -> None:
    # What two threads have written by a cut is theirs to say; one of a few rounds has something to lose.
    rounds = (powercut.strike(seed=seed, cuts=6, plant="no-sync") for seed in range(5, 15))
    assert any("LOST" in problem for problems in rounds for problem in problems)


def test_two_processes_on_one_session_lose_nothing_and_never_find_it_locked(tmp_path: Path, sealed: bool) -> None:
    assert fight(tmp_path / "store.db", 60) == []
    assert (tmp_path / "store.db.keys").exists() is sealed


def test_a_run_in_which_a_fault_never_fell_is_a_failed_run() -> None:
    tally = Tally()
    tally.kills.update(blow.kind for blow in KILLS)
    tally.faults.update(blow.kind for blow in FAULTS[1:])
    judge(Options(seed=0, kills=1), tally)
    assert tally.problems == [f"never happened: {FAULTS[0].kind}"]


def test_a_run_without_strace_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torture.run.STRACE", None)
    assert "strace is missing" in run(Options(seed=0), quietly).problems[0]
