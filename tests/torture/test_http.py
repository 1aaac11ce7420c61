"""A taste of `make torture-http`: a real server killed under real clients, and a disk that fills up (R1–R7)."""

import pytest

from torture.callers import Kept
from torture.http import SERVING, STARTING, Options, Siege, fill, judge, kill
from torture.serving import Line


def quietly(_: str) -> None:
    """Progress is for people."""


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_server_is_killed() -> None:
    siege = kill(Options(seed=4, kills=3, minutes=2), quietly)
    assert siege.problems == []
    assert siege.kills.total() >= 3
    assert siege.kills[STARTING], "no server was killed while it started; choose another seed"
    assert siege.ledger.lost, "no answer was lost, so nothing was tested"
    assert siege.prover.proofs > 10


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "clear"])
def test_a_full_disk_is_told_as_such_and_heals_without_a_restart(sealed: bool) -> None:
    try:
        siege = fill(Options(seed=4, full=1, minutes=2, sealed=sealed), quietly)
    except PermissionError as refusal:
        pytest.skip(str(refusal))
    assert siege.problems == []
    assert siege.healed == 1
    assert siege.server.answers[507] > 0
    assert siege.server.lives == 1


def test_a_run_in_which_no_blow_fell_is_a_failed_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("siege")
    options = Options(seed=0, kills=6)
    siege = Siege(folder / "store.db", folder, options)
    siege.kills[SERVING] = 6
    judge(siege, options)
    assert siege.problems == [
        f"never happened: {STARTING}",
        "never happened: an answer that was lost",
        "never happened: an acknowledgement",
    ]


@pytest.mark.slow
def test_a_loss_would_be_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("siege")
    siege = Siege(folder / "store.db", folder, Options(seed=0, sealed=False))
    siege.server.begin()
    try:
        siege.server.ready()
        kept, version = _told(siege)
        for said, found in (
            ([(version, "other")], "LOST: other"),
            ([(version, "said"), (version - 1, "before")], "REORDERED"),
            ([], "nobody was told of: ['said']"),
        ):
            siege.problems.clear()
            kept.said = said
            siege.prover.sessions(everything=True)
            assert any(found in problem for problem in siege.problems), siege.problems
        siege.problems.clear()
        kept.said = [(version, "said")]
        siege.prover.sessions(everything=True)
        assert siege.problems == []
    finally:
        siege.abandon()


def _told(siege: Siege) -> tuple[Kept, int]:
    """A session with one message, as the server keeps it, and the version that has."""
    line = Line(siege.server, siege.server.key)
    made = line.ask("POST", "/v1/sessions", {"vars": {"number": 0}})
    kept = Kept(made.body["session_id"], 2, siege.server.key)
    said = [{"kind": "message", "data": {"role": "user", "content": "said "}}]
    answer = line.ask("POST", f"/v1/sessions/{kept.id}/events", {"events": said, "arrange": True})
    siege.ledger.sessions.append(kept)
    return kept, int(answer.body["version"])
