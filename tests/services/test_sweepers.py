"""Several sweepers on one file, killed at random moments: every step is noted once, every session ends where it should.

Real processes and SIGKILL. The seed is printed; with the same one the same processes are killed after the same pauses.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import perdure
from perdure import events as ev
from perdure.core.session.cleanup import Cleaned
from perdure.testing import FixedAmbient
from tests.services.sweeping import STEPS

ROOT = Path(__file__).resolve().parent.parent.parent
SEED, KILLS, SWEEPERS, SESSIONS = 7, 20, 3, 180
PATIENCE = 90.0
MAIL = "ana@example.org"


def prepared(path: str) -> tuple[list[str], list[str], list[str]]:
    """Sessions that are long overdue: to be suspended and ended, to be ended, to be erased. Neighbours are linked."""
    with perdure.open(path, ambient=FixedAmbient(now=1_700_000_000_000_000), seal=False) as db:
        config = {"timeouts": {"absolute": 60}, "scrub": "pii"}
        active = [db.create(config=config, vars={"mail": MAIL}) for _ in range(SESSIONS // 3)]
        asleep = [db.create(config={"timeouts": {"grace": 60}, "scrub": "pii"}) for _ in range(SESSIONS // 3)]
        over = [db.create(config={"timeouts": {"expiry": 60}}) for _ in range(SESSIONS // 3)]
        for number, (one, two) in enumerate(zip(active, asleep, strict=True)):
            one.append(ev.Linked(other=two.id, relation=ev.Relation.PEER))
            two.append(ev.Linked(other=one.id, relation=ev.Relation.PEER))
            two.append(ev.Message(role="user", content=f"I am {MAIL}"))
            two.append(ev.CompensationRegistered(name="undo", arguments={"n": number}))
            two.suspend()
        for session in over:
            session.complete()
        return [each.id for each in active], [each.id for each in asleep], [each.id for each in over]


class Sweepers:
    """Processes to be killed, each by its own id."""

    def __init__(self, store: str, ledger: str) -> None:
        self._words = (store, ledger)
        self._started = 0
        self.living: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        self._started += 1
        command = [sys.executable, "-m", "tests.services.sweeping", *self._words, str(self._started)]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        )
        self.living.append(process)

    def kill(self, place: int) -> bool:
        """SIGKILL; whether it was at work."""
        process = self.living.pop(place)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return alive and process.returncode == -signal.SIGKILL

    def wait_until_ready(self) -> None:
        for process in self.living:
            assert process.stdout is not None
            if not getattr(process, "ready", False):
                assert process.stdout.readline() == "ready\n"
                process.ready = True  # type: ignore[attr-defined]


@pytest.fixture
def sweepers(tmp_path: Path) -> Iterator[Sweepers]:
    found = Sweepers(str(tmp_path / "store.db"), str(tmp_path / "ledger"))
    yield found
    while found.living:
        found.kill(0)


def left(path: str) -> int:
    """How many sessions have not come to their end."""
    with perdure.open(path, read_only=True) as db:
        return db.count(phase=("active", "suspended", "completed"))


@pytest.mark.slow
def test_killed_sweepers_leave_nothing_undone_and_nothing_done_twice(tmp_path: Path, sweepers: Sweepers) -> None:
    path, chance = str(tmp_path / "store.db"), random.Random(SEED)
    print(f"seed {SEED}")
    active, asleep, over = prepared(path)
    for _ in range(SWEEPERS):
        sweepers.start()
    killed = at_work = 0
    while killed < KILLS:
        sweepers.wait_until_ready()
        time.sleep(chance.random() / 10)
        at_work += left(path) > 0
        assert sweepers.kill(chance.randrange(SWEEPERS))
        killed += 1
        sweepers.start()
    assert at_work >= KILLS // 2, "too many kills came when all was done"
    deadline = time.monotonic() + PATIENCE
    while left(path) and time.monotonic() < deadline:
        time.sleep(0.1)
    while sweepers.living:
        sweepers.kill(0)
    finish(path, str(tmp_path / "ledger"))
    judge(path, active, asleep, over)
    lines = Path(tmp_path / "ledger").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("AGAIN")] == []
    runs = Counter(line for line in lines if not line.startswith("undo"))
    assert len(runs) == len(STEPS) * len([*active, *asleep])
    assert sum(runs.values()) - len(runs) <= KILLS, "a step was repeated without a crash between doing and noting"
    assert {line.split()[1] for line in lines if line.startswith("undo")} == set(asleep)


def finish(path: str, ledger: str) -> None:
    """Much later, the compensations that a dead sweeper had left."""
    with perdure.open(path) as db, open(ledger, "a", encoding="utf-8") as lines:
        db.compensation("undo", lambda session, _: lines.write(f"undo {session.id} later\n"))
        assert db.sweep(now=datetime.now(UTC) + timedelta(hours=1)).count("waiting") == 0


def judge(path: str, active: list[str], asleep: list[str], over: list[str]) -> None:
    """Every session is where it should be, and every step is in its log once."""
    with perdure.open(path, read_only=True) as db:
        assert db.count() == len(active) + len(asleep)
        assert {row.session for row in db.find(limit=1000).items}.isdisjoint(over)
        for name in [*active, *asleep]:
            session = db.session(name)
            assert session.info().phase == "terminated"
            events = session.events()
            notes = Counter((event.data.step, event.data.hook) for event in events if isinstance(event.data, Cleaned))
            assert notes == dict.fromkeys(
                [("flush", ""), ("notify", ""), ("scrub", ""), *((step, "ledger") for step in STEPS)], 1
            )
            assert [event.kind for event in events].count("other_ended") == 1
            assert MAIL not in str(session.state()) + str([event.data for event in events])
            assert [event.kind for event in events if event.kind == "compensated"] == ["compensated"] * (name in asleep)
        assert db.verify().ok
