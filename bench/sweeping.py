"""What a sweep costs: a hundred sessions due, among a thousand and among a hundred thousand.

`python -m bench.sweeping` makes both stores with the public library, sweeps them in turn and compares the medians. The
sessions that are not due have time-outs too, so every one of them has a timer in the index.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import perdure
from bench import machine
from bench.clock import Sample, Stopwatch

DUE = 100
CROWD = 256
LATER = {"timeouts": {"idle": 30 * 86_400}}
SOON = {"timeouts": {"idle": 60}}
TOLERANCE = 0.2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sweeping", description=__doc__)
    parser.add_argument("--sessions", type=int, nargs=2, default=(1_000, 100_000), metavar=("FEW", "MANY"))
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seal", action="store_true", help="keep the sessions sealed")
    parser.add_argument("--dir", help="where the stores live while they are measured; must be a real disk")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when the two differ by more than a fifth")
    return parser.parse_args()


async def fill(path: Path, sessions: int, seal: bool) -> None:
    """Make the sessions that will not be due, many in one commit."""
    async with await perdure.aopen(path, seal=seal) as db:
        for first in range(0, sessions, CROWD):
            count = min(CROWD, sessions - first)
            await asyncio.gather(*(db.create(f"session {first + n}", config=LATER) for n in range(count)))


async def sweep(path: Path) -> Sample:
    """Make a hundred sessions that will be due, and have one sweep suspend them; the sweep alone is timed."""
    async with await perdure.aopen(path) as db:
        await asyncio.gather(*(db.create("due", config=SOON) for _ in range(DUE)))
    async with await perdure.aopen(path) as db:
        moment = datetime.now(UTC) + timedelta(seconds=61)
        with Stopwatch() as watch:
            report: Any = await db.sweep(now=moment)
        assert (report.looked, report.count("suspended")) == (DUE, DUE), report
    return watch.sample()


def measure(folder: Path, options: argparse.Namespace) -> dict[int, list[Sample]]:
    samples: dict[int, list[Sample]] = {}
    for count in options.sessions:
        print(f"making {count:,} sessions", flush=True)
        asyncio.run(fill(folder / f"{count}.db", count, options.seal))
        samples[count] = []
        asyncio.run(sweep(folder / f"{count}.db"))  # the first one warms the caches
    for repetition in range(options.repetitions):
        order = options.sessions if repetition % 2 else options.sessions[::-1]
        for count in order:
            samples[count].append(asyncio.run(sweep(folder / f"{count}.db")))
    return samples


def main() -> int:
    options = arguments()
    folder = machine.working_folder(options.dir)
    try:
        samples = measure(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    few, many = options.sessions
    ratios = {}
    print(f"\n{'sessions':>10}  {'due':>5}  {'wall ms':>9}  {'CPU ms':>9}")
    for count in (few, many):
        medians = {name: statistics.median(one[name] for one in samples[count]) * 1e3 for name in ("wall", "cpu")}
        ratios[count] = medians
        print(f"{count:>10,}  {DUE:>5}  {medians['wall']:>9.1f}  {medians['cpu']:>9.1f}")
    wall, cpu = (ratios[many][name] / ratios[few][name] for name in ("wall", "cpu"))
    print(f"\n{many:,} against {few:,} sessions: {wall:.2f} × the time, {cpu:.2f} × the CPU")
    return int(options.strict and not 1 - TOLERANCE <= cpu <= 1 + TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
