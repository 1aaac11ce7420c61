"""perdure on PostgreSQL beside PostgreSQL itself: one session, and many at once (F8)."""

from __future__ import annotations

from functools import partial

from bench import postgres
from bench.run import SERVED as NAMES
from bench.run import Run


def measure(run: Run) -> None:
    if not run.has(*NAMES):
        return
    with postgres.server(run.place("postgres")):
        for repetition in range(1, run.plan.repetitions + 1):
            run.say(f"postgres-{repetition}")
            _one(run, repetition)
            run.each(NAMES, partial(_many, run, repetition))
        for name in NAMES:
            run.dismiss(name)


def _one(run: Run, repetition: int) -> None:
    turns, slices = run.plan.pair, run.plan.slices
    wall, cpu = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)
    run.each(NAMES, lambda name: run.worker(name).ask("open", folder=f"one {name} {repetition}"))
    run.each(NAMES, lambda name: _discard(run, name, turns // slices))

    def one_slice(number: int, name: str) -> None:
        first = number * turns // slices
        sample = run.worker(name).append(first, (number + 1) * turns // slices)
        wall[name] += sample["wall"]
        cpu[name] += sample["cpu"]

    for number in range(1, slices):
        run.each(NAMES, partial(one_slice, number))
    for name in NAMES:
        if run.has(name):
            counted = turns - turns // slices
            run.ledger.add("pg.rate", name, counted / wall[name])
            run.ledger.add("pg.cpu", name, cpu[name] / counted * 1e6)
    run.each(NAMES, lambda name: run.worker(name).ask("verify", last=turns))
    run.each(NAMES, lambda name: run.worker(name).ask("close"))


def _discard(run: Run, name: str, turns: int) -> None:
    """The first slice warms everything up and is not counted."""
    run.worker(name).append(0, turns)


def _many(run: Run, repetition: int, name: str) -> None:
    worker, plan = run.worker(name), run.plan
    worker.ask("open", folder=f"many {name} {repetition}")
    sample = worker.call("concurrent", sessions=plan.sessions, each=plan.each)
    worker.ask("close")
    turns = plan.sessions * plan.each
    run.ledger.add("pgmany.rate", name, turns / sample["wall"])
    run.ledger.add("pgmany.cpu", name, sample["cpu"] / turns * 1e6)
