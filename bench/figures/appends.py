"""Appending turns to one session: rate, CPU, growth with length, bytes on disk (F1, F3).

Leaves the long store of perdure and of raw SQLite open in their workers, and a copy of perdure's short one in
the folder `short`, for the figures that read and fork.
"""

from __future__ import annotations

import shutil
from functools import partial

from bench.clock import Sample
from bench.run import FRAMEWORKS, OURS, RAW, SERVED, Run, size_of

GRAPH = "langgraph"
SLOW = "adk"


def span(run: Run, name: str) -> tuple[int, int]:
    """The turns over which a contender's appends are measured."""
    plan = run.plan
    if name == GRAPH:
        return plan.graph_step - plan.graph_steps // 2, plan.graph_step + plan.graph_steps // 2
    if name == SLOW:
        return plan.slow_peer, 2 * plan.slow_peer
    return plan.short, plan.stop


def measure(run: Run, repetition: int) -> None:
    here = f"appends-{repetition}"
    run.say(f"{here}: filling to the start")
    names = [name for name in run.names if name not in (*SERVED, *FRAMEWORKS)]
    run.each(names, lambda name: _fill(run, here, name))
    run.say(f"{here}: measuring")
    spans = {name: span(run, name) for name in names if run.has(name)}
    measure_slices(run, spans, "append")
    for name in [name for name in names if name not in (OURS, RAW)]:
        run.attempt(name, lambda name: _finish_peer(run, here, name))
    run.say(f"{here}: on to turn {run.plan.late:,}")
    plan = run.plan
    run.attempt(RAW, lambda name: run.worker(name).call("fill", first=plan.stop, last=plan.late))
    run.attempt(OURS, lambda name: _discard(run.worker(name).append(plan.stop, plan.late)))
    measure_slices(run, {name: (plan.late, plan.long) for name in (OURS, RAW) if run.has(name)}, "late")
    run.each([OURS, RAW], lambda name: run.worker(name).ask("verify", last=plan.long))


def _discard(_: Sample) -> None:
    """Filling is timed like everything, and nobody asks."""


def _fill(run: Run, here: str, name: str) -> None:
    worker = run.worker(name)
    folder = run.place(here, name)
    worker.ask("open", folder=str(folder))
    if name not in run.facts:
        run.facts[name] = worker.ask("facts")
    worker.append(0, span(run, name)[0])
    if name == OURS:
        _weigh_and_copy(run, here)


def _weigh_and_copy(run: Run, here: str) -> None:
    worker, folder, plan = run.worker(OURS), run.place(here, OURS), run.plan
    where = worker.call("where")
    worker.ask("close")
    run.ledger.add("disk", OURS, size_of(folder) / run.message_bytes(plan.short))
    run.drop("short")
    shutil.copytree(folder, run.place("short"))
    worker.call("resume", folder=str(folder), **where)
    run.worker(OURS, twin=1).call("resume", folder=str(run.place("short")), **where)


def measure_slices(run: Run, spans: dict[str, tuple[int, int]], metric: str) -> None:
    """Each contender over its span, in slices that alternate between them."""
    wall = dict.fromkeys(spans, 0.0)
    cpu = dict.fromkeys(spans, 0.0)

    def one_slice(number: int, name: str) -> None:
        first, last = spans[name]
        step = (last - first) // run.plan.slices
        start = first + number * step
        end = last if number == run.plan.slices - 1 else start + step
        sample = run.worker(name).append(start, end)
        wall[name] += sample["wall"]
        cpu[name] += sample["cpu"]

    for number in range(run.plan.slices):
        run.each(list(spans), partial(one_slice, number))
    for name, (first, last) in spans.items():
        if run.has(name):
            run.ledger.add(f"{metric}.rate", name, (last - first) / wall[name])
            run.ledger.add(f"{metric}.cpu", name, cpu[name] / (last - first) * 1e6)


def _finish_peer(run: Run, here: str, name: str) -> None:
    worker, turns = run.worker(name), span(run, name)[1]
    worker.ask("verify", last=turns)
    worker.ask("close")
    run.ledger.add("disk", name, size_of(run.place(here, name)) / run.message_bytes(turns))
    run.drop(here, name)


def finish(run: Run, repetition: int) -> None:
    """Closes what `measure` left open."""
    here = f"appends-{repetition}"
    run.each([OURS, RAW], lambda name: run.worker(name).ask("close"))
    if run.has(RAW):
        run.ledger.add("disk", RAW, size_of(run.place(here, RAW)) / run.message_bytes(run.plan.long))
    run.attempt(OURS, lambda name: run.worker(name, twin=1).ask("close"))
    run.drop(here)
    run.drop("short")
