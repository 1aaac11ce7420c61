"""Archiving, backup and restore killed at random moments: nothing is lost, no half file has a final name, and running
again finishes (R9, R35). Real processes, SIGKILL.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perdure
from perdure import errors, events
from perdure.compose import copying
from perdure.services.backup import Backups
from perdure.services.restore import Restores
from perdure.waiting import drive
from tests.torture.conftest import SmallDisk

pytestmark = pytest.mark.slow
KILLS = 12
MOST = 10 * KILLS
"""On a busy machine a worker may come to nothing before it is killed; then there are more kills, up to so many."""
LONGEST = 0.12
"""Seconds of work before the kill."""
WORKER = Path(__file__).with_name("keeping.py")


def strike(chance: random.Random, *words: str) -> None:
    """Start a worker, let it work for a moment, kill it."""
    worker = subprocess.Popen([sys.executable, str(WORKER), *words], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker.stdout as said:
        assert said.readline() == "ready\n"
        time.sleep(chance.uniform(0, LONGEST))
        assert worker.poll() is None, "the worker ended before it was killed"
        worker.send_signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL


def filled(path: Path, sessions: int = 4) -> dict[str, list[bytes]]:
    """A store of ended sessions; the digests of each."""
    digests = {}
    with perdure.open(path, seal=False) as db:
        for number in range(sessions):
            session = db.create(f"session {number}")
            for turn in range(20):
                session.append([events.Message(role="user", content=f"{number}/{turn} " + "word " * 200)])
            session.checkpoint("last")
            session.complete()
            session.archive()
            digests[session.id] = [event.digest for event in session.events()]
    return digests


def check(path: Path, digests: dict[str, list[bytes]], cold: Path | None = None) -> None:
    """Every session is there, as it was written."""
    with perdure.open(path, cold=cold) as db:
        for session, expected in digests.items():
            found = db.session(session)
            assert [event.digest for event in found.events()] == expected
            assert found.verify().ok, found.verify()
            assert [found.restore(item.id).rebuilt for item in found.checkpoints()] == [False, False]


def test_archiving_and_thawing_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    store, cold = tmp_path / "store.db", tmp_path / "cold"
    digests = filled(store)
    chance = random.Random(1)
    for _ in range(KILLS):
        strike(chance, "archive", str(store), str(cold))
        check(store, digests, cold)
    with perdure.open(store, cold=cold) as db:
        db.archive_ended(1 << 62)
        assert all(row.cold is not None for row in db.find().items)
    bundles = [path for path in cold.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len(bundles) == len(digests)
    check(store, digests, cold)


def test_a_backup_killed_at_random_is_whole_or_not_there(tmp_path: Path) -> None:
    store, target = tmp_path / "store.db", tmp_path / "backup.db"
    digests = filled(store)
    backups, restores = Backups(copying("0")), Restores(copying("0"))
    chance = random.Random(2)
    whole = 0
    for number in range(MOST):
        if number >= KILLS and whole:
            break
        strike(chance, "backup", str(store), str(target))
        if target.exists():
            whole += 1
            rehearsed = drive(restores.restore(str(target), str(tmp_path / "elsewhere.db"), dry_run=True))
            assert rehearsed.manifest.sessions == len(digests)
    assert whole
    made = drive(backups.back_up(str(store), str(target), overwrite=True))
    assert made.manifest.verified == "full"
    assert sorted(path.name for path in tmp_path.iterdir() if "backup" in path.name) == [
        "backup.db",
        "backup.db.manifest.json",
    ]
    drive(restores.restore(str(target), str(tmp_path / "restored.db")))
    check(tmp_path / "restored.db", digests)


def test_a_restore_killed_at_random_leaves_the_old_or_the_new_store(tmp_path: Path) -> None:
    store, backup, target = tmp_path / "store.db", tmp_path / "backup.db", tmp_path / "restored.db"
    digests = filled(store)
    drive(Backups(copying("0")).back_up(str(store), str(backup)))
    chance = random.Random(3)
    there = 0
    for number in range(MOST):
        if number >= KILLS and there:
            break
        strike(chance, "restore", str(backup), str(target))
        if target.exists():
            there += 1
            check(target, digests)
        else:  # killed between setting the old one aside and naming the new one
            assert not there or any(path.name.startswith("restored.db.replaced") for path in tmp_path.iterdir())
    assert there
    try:
        drive(Restores(copying("0")).restore(str(backup), str(target)))
    except errors.AlreadyExists:
        drive(Restores(copying("0")).restore(str(backup), str(target), overwrite=True))
    check(target, digests)
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("restored.db.partial")]
    assert left == []


def test_a_restore_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    store, backup, target = tmp_path / "store.db", tmp_path / "backup.db", tmp_path / "restored.db"
    digests = filled(store)
    drive(Backups(copying("0")).back_up(str(store), str(backup)))
    half = backup.read_bytes()[: backup.stat().st_size // 2]
    partial = Path(f"{target}.partial")
    partial.write_bytes(half)
    before = os.stat(partial)
    drive(Restores(copying("0")).restore(str(backup), str(target)))
    assert os.stat(target).st_ino == before.st_ino
    check(target, digests)


def test_full_cold_storage_keeps_the_session_in_the_store(tmp_path: Path, small_disk: SmallDisk) -> None:
    with perdure.open(tmp_path / "store.db", seal=False, cold=small_disk.folder / "cold") as db:
        session = db.create("large")
        session.append(events.Message(role="user", content=os.urandom(1 << 20)))
        session.complete()
        small_disk.fill(leaving=100_000)
        with pytest.raises(errors.DiskFull):
            session.archive()
        assert (session.info().phase, session.info().cold) == ("archived", None)
        assert session.verify().ok
        small_disk.free()
        session.archive()
        assert session.info().cold is not None
        assert session.verify().ok


def test_a_full_disk_leaves_no_backup_and_the_next_run_makes_one(tmp_path: Path, small_disk: SmallDisk) -> None:
    store, target = tmp_path / "store.db", small_disk.folder / "backup.db"
    digests = filled(store)
    small_disk.fill(leaving=100_000)
    with pytest.raises(errors.DiskFull):
        drive(Backups(copying("0")).back_up(str(store), str(target)))
    assert not target.exists()
    small_disk.free()
    drive(Backups(copying("0")).back_up(str(store), str(target)))
    small_disk.writable(False)
    drive(Restores(copying("0")).restore(str(target), str(tmp_path / "rehearsed.db"), dry_run=True))
    drive(Restores(copying("0")).restore(str(target), str(tmp_path / "restored.db")))
    check(tmp_path / "restored.db", digests)
    small_disk.writable(True)
