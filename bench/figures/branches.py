"""Forking and listing (F5)."""

from __future__ import annotations

from functools import partial

from bench.run import OURS, Run, median, size_of


def measure(run: Run, repetition: int) -> None:
    """Needs the stores that `appends.measure` leaves; runs after the reads, for it adds to them."""
    run.say(f"forks-{repetition}")
    lengths = [("short", 1), ("long", 0)]
    for length, twin in lengths if repetition % 2 else lengths[::-1]:
        run.attempt(OURS, partial(_fork, run, length, twin))
    run.attempt(OURS, partial(_weigh, run))
    run.attempt(OURS, partial(_list, run))


def _fork(run: Run, length: str, twin: int, _: str) -> None:
    samples = run.worker(OURS, twin=twin).call("forks", times=3 * run.plan.reads)
    run.ledger.add(f"fork.{length}", OURS, median(samples["fork"]) * 1e3)
    run.ledger.add(f"single.{length}", OURS, median(samples["append"]) * 1e3)


def _weigh(run: Run, _: str) -> None:
    """Megabytes that a thousand forks add to the closed short store."""
    worker, folder = run.worker(OURS, twin=1), run.place("short")
    where = worker.call("where")
    worker.ask("close")
    before = size_of(folder)
    worker.call("resume", folder=str(folder), **where)
    worker.call("fork_many", count=run.plan.forks)
    worker.ask("close")
    run.ledger.add("forks.size", OURS, (size_of(folder) - before) / run.plan.forks * 1_000 / 1e6)
    worker.call("resume", folder=str(folder), **where)


def _list(run: Run, _: str) -> None:
    """The first page of many sessions; the store is made once and listed in every repetition."""
    worker = run.worker(OURS, twin=2)
    if not run.place("listed").exists():
        run.say(f"making {run.plan.listed:,} sessions to list")
        worker.ask("open", folder=str(run.place("listed")))
        worker.call("populate", sessions=run.plan.listed)
    samples = worker.call("page", limit=50, times=5 * run.plan.reads)
    run.ledger.add("page", OURS, median(samples) * 1e3)
