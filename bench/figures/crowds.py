"""Many writers: 64 sessions in one event loop, and two processes on one file (F2)."""

from __future__ import annotations

from pathlib import Path

from bench.client import Worker, run_together
from bench.run import OURS, RAW, RAW_JSON, Run


def measure(run: Run, repetition: int) -> None:
    here = f"crowds-{repetition}"
    run.say(here)
    run.each([OURS, RAW, RAW_JSON], lambda name: _many(run, run.place(here, f"{name}-many"), name))
    run.each([OURS, RAW, RAW_JSON], lambda name: _pair(run, run.place(here, f"{name}-pair"), name))
    run.drop(here)


def _many(run: Run, folder: Path, name: str) -> None:
    worker, plan = run.worker(name), run.plan
    worker.ask("open", folder=str(folder))
    sample = worker.call("concurrent", sessions=plan.sessions, each=plan.each)
    worker.ask("close")
    turns = plan.sessions * plan.each
    run.ledger.add("many.rate", name, turns / sample["wall"])
    run.ledger.add("many.cpu", name, sample["cpu"] / turns * 1e6)


def _pair(run: Run, folder: Path, name: str) -> None:
    pair = [run.worker(name, twin=3), run.worker(name, twin=4)]
    for number, worker in enumerate(pair):
        worker.ask("open", folder=str(folder))
        _separate(worker, name, number)
    run.ledger.add("pair.rate", name, run_together(pair, 0, run.plan.pair))
    for worker in pair:
        worker.ask("verify", last=run.plan.pair)
        worker.ask("close")


def _separate(worker: Worker, name: str, number: int) -> None:
    """Raw SQLite has no sessions of its own: tell the two writers which rows are theirs."""
    if name != OURS:
        worker.call("become", session=f"process {number}")
