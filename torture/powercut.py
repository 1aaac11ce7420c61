"""Power cuts (R1): a kill leaves the page cache alive, so what was never synced would survive it; here it does not.

A run of the library is recorded write by write and sync by sync; then the store is put together as a disk might hold
it if the power had failed at some moment, and the checker must find every acknowledgement given before that moment.
With `--failing`, syncs fail in the recorded run (R3): what they were to make sure is gone for good, and the library
must not build on it. `strike` does all this in a process of its own.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

import perdure
from perdure.stores.sqlite import connection
from torture.ailing import Ailing
from torture.checker import check
from torture.disk import Disk, Recorder
from torture.lane import Lane, together
from torture.ledger import Ledger
from torture.line import Line, Task, read
from torture.process import ROOT, environment
from torture.sealing import seal_of

WAL_PAGES = 60
"""Checkpoints come this often while recording, so that cuts fall into them and into a log that starts over."""


class Script:
    """Speaks like a worker's `Voice`, into the recording."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def say(self, do: str, **facts: Any) -> None:
        """One line, at its place among the writes."""
        self._recorder.said(msgspec.json.encode(Line(do=do, **facts)))


def record(store: Path, seed: int, recorder: Recorder) -> None:
    """Open, work with two threads, close; three times over."""
    connection.WAL_PAGES = WAL_PAGES  # type: ignore[misc]
    own: tuple[str, ...] = ()
    for life in range(3):
        task = Task(name=f"p{life}", store=str(store), seed=f"{seed}/{life}", lanes=2, steps=25, own=own)
        with perdure.open(store, seal=seal_of(store)) as db:
            lanes = [Lane(task, number, db, Script(recorder), blocking=True) for number in range(task.lanes)]  # type: ignore[arg-type]
            together(lanes)
            own = tuple(row.session for row in db.find(limit=9, tags=("torture",)).items if row.parent is None)[:2]


def record_failing(store: Path, seed: int, recorder: Recorder) -> None:
    """One writer on a disk whose syncs fail now and then; it retries until each append is acknowledged."""
    connection.WAL_PAGES = WAL_PAGES  # type: ignore[misc]
    voice: Any = Script(recorder)
    with perdure.open(store, seal=seal_of(store)) as db:
        voice.say("try", op="create", name="create.p.0.1")
        session = db.create(title="create.p.0.1", key="create.p.0.1", tags=("torture",)).id
        voice.say("mark", op="create", name="create.p.0.1", session=session, last=1)
    task = Task(name="p", store=str(store), seed=f"{seed}", mode="ailing", steps=60, own=(session,))
    Ailing(task, lambda: perdure.open(store, seal=seal_of(store)), voice).run()


def cut(recorder: Recorder, seed: int, cuts: int, folder: Path) -> list[str]:
    """Fail the power at `cuts` moments, half of them just after an acknowledgement; what was lost."""
    rng, steps = random.Random(seed), recorder.steps
    answers = [index for index, step in enumerate(steps) if step[0] == "said" and b'"ack"' in step[3]]
    moments = set(rng.sample(answers, min(len(answers), cuts // 2)))
    moments |= set(rng.sample(range(len(steps)), min(len(steps), cuts - len(moments))))
    disk, said, problems = Disk(rng), [], []
    for index, step in enumerate(steps):
        if step[0] == "said":
            said.append(read(step[3]))
        else:
            disk.play(step)
        if index in moments:
            problems += [f"power cut at step {index}: {found}" for found in _left(disk, said, folder / f"{index}")]
    return problems


def _left(disk: Disk, said: list[Line], folder: Path) -> list[str]:
    folder.mkdir()
    disk.image(folder)
    if seal_of(folder) is None:
        shutil.copy(folder.parent / "store.db.master", folder)  # written once, before all else, and not by SQLite
    ledger = Ledger()
    ledger.take(said)
    try:
        return check(str(folder / "store.db"), ledger).problems
    except perdure.PerdureError as error:
        return [f"the store does not open: {type(error).__name__}: {error}"]
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def strike(seed: int, cuts: int, plant: str | None = None, *, failing: bool = False) -> list[str]:
    """Record and cut in a fresh process; what was lost."""
    command = [sys.executable, "-m", "torture.powercut", str(seed), str(cuts)]
    command += [*(["--plant", plant] if plant else []), *(["--failing"] if failing else [])]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    return done.stderr.strip().splitlines() or [f"ended with {done.returncode}"] if done.returncode else []


def main() -> int:
    """The command line: prints how many moments were tried, exits with 1 if one of them lost something."""
    parser = argparse.ArgumentParser(prog="python -m torture.powercut", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("cuts", type=int)
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--plant", choices=["no-sync"])
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perdure-powercut-") as name:
        folder = Path(name)
        broken = frozenset(random.Random(chosen.seed).sample(range(20, 88), 6) if chosen.failing else ())
        with Recorder(forget_syncs=chosen.plant == "no-sync", broken_syncs=broken) as recorder:
            (record_failing if chosen.failing else record)(folder / "store.db", chosen.seed, recorder)
        problems = cut(recorder, chosen.seed, chosen.cuts, folder)
    counted = Counter(step[0] for step in recorder.steps)
    if chosen.failing and not counted["broken"]:
        problems.append("never happened: a sync that fails")
    print(f"{chosen.cuts} power cuts, {dict(counted)}")
    for problem in problems[:10]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
