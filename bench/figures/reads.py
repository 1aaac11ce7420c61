"""Reading a session back: ready for the next turn, and the whole history (F4)."""

from __future__ import annotations

from collections import defaultdict

from bench.clock import Sample
from bench.run import OURS, RAW, Run, median

ROUNDS = 3


def measure(run: Run, repetition: int) -> None:
    """Needs the stores that `appends.measure` leaves; the three readers alternate."""
    run.say(f"reads-{repetition}")
    samples: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    plan = run.plan

    def ready(name: str, length: str, twin: int) -> None:
        found = run.worker(name, twin=twin).call("ready", last=plan.tail, times=plan.reads)
        for way, taken in found.items():
            samples[f"ready.{way}.{length}", name] += taken

    def history(name: str) -> None:
        for way, taken in run.worker(name).call("history", times=1).items():
            samples[f"history.{way}", name] += taken

    for _ in range(ROUNDS):
        run.each([OURS], lambda name: ready(name, "short", 1))
        run.each([OURS, RAW], lambda name: ready(name, "long", 0))
        run.each([OURS, RAW], history)
    for (metric, name), taken in samples.items():
        run.ledger.add(metric, name, median(taken) * 1e3)
