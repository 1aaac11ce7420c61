"""The frameworks' own SQLite stores beside ours, same calls: LangGraph, ADK, OpenAI Agents (F9, F10, F11)."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from bench.clock import Sample
from bench.figures.appends import measure_slices
from bench.run import FRAMEWORKS, RAW, SAVERS, SERVICES, SESSIONS, Run, median, size_of

ROUNDS = 3
AT_EARLY, AT_LATE, LISTED = 1, 2, 3
"""Which store of a contender holds the thread at an early step, that at a late one, and what is listed."""
EVERY = 16
"""Of threads that lived long, every so many are read back at the end."""
LIVES = 2
"""So often threads live from their beginning to their end, however many repetitions there are."""


def measure(run: Run) -> None:
    if not run.has(*FRAMEWORKS):
        return
    run.say("frameworks: making what is read again and again")
    run.each(SAVERS, partial(_weigh, run))
    run.attempt(SAVERS[1], partial(_fill, run, ("late",), AT_LATE, run.plan.graph_late))
    run.each(SERVICES, partial(_populate, run))
    run.each(SESSIONS, partial(_fill_items, run))
    for repetition in range(1, run.plan.repetitions + 1):
        run.say(f"frameworks-{repetition}")
        here = f"frameworks-{repetition}"
        _graph(run, here)
        _service(run, here)
        _session(run, here)
        if repetition <= LIVES:
            _lives(run, here)
        run.drop(here)
    late = run.plan.graph_late + run.plan.repetitions * _taken(run)
    run.attempt(SAVERS[1], partial(_close, run, AT_LATE, late))
    for name in FRAMEWORKS:
        run.dismiss(name)


def _open(run: Run, name: str, *place: str, twin: int = 0, store: int = 0) -> None:
    worker = run.worker(name, twin=twin).on(store)
    worker.ask("open", folder=str(run.place(*place, name)))
    if name not in run.facts:
        run.facts[name] = worker.ask("facts")


# ── LangGraph ──


def _weigh(run: Run, name: str) -> None:
    """Megabytes of a thread that took a step for every message; the same in every repetition, so weighed once."""
    worker = run.worker(name)
    _open(run, name, "kept")
    worker.call("single", turns=run.plan.graph_kept)
    worker.ask("verify", last=run.plan.graph_kept)
    worker.ask("close")
    run.ledger.add("graph.disk", name, size_of(run.place("kept", name)) / 1e6)
    run.drop("kept", name)


def _graph(run: Run, here: str) -> None:
    plan, (_, ours, _) = run.plan, SAVERS
    half = plan.graph_steps // 2
    run.each(SAVERS, partial(_fill, run, (here, "put"), 0, plan.graph_step - half))
    _steps(run, [("graph.put", SAVERS, 0, plan.graph_step - half)])
    run.each(SAVERS, partial(_close, run, 0, plan.graph_step - half + _taken(run)))
    run.attempt(ours, partial(_fill, run, (here, "early"), AT_EARLY, plan.graph_early - half))
    done = len(run.ledger.get("graph.late", ours)) * _taken(run)
    spans = [("graph.early", AT_EARLY, plan.graph_early - half), ("graph.late", AT_LATE, plan.graph_late + done)]
    _steps(run, [(metric, (ours,), store, first) for metric, store, first in spans])
    run.attempt(ours, partial(_close, run, AT_EARLY, plan.graph_early - half + _taken(run)))
    run.each(SAVERS, partial(_new_threads, run, here))


def _fill(run: Run, place: tuple[str, ...], store: int, turns: int, name: str) -> None:
    _open(run, name, *place, store=store)
    run.worker(name).on(store).append(0, turns)


def _close(run: Run, store: int, turns: int, name: str) -> None:
    worker = run.worker(name).on(store)
    worker.ask("verify", last=turns)
    worker.ask("close")


def _taken(run: Run) -> int:
    """Steps that one measurement takes: the same number in every slice."""
    return run.plan.graph_steps // run.plan.slices * run.plan.slices


def _steps(run: Run, spans: list[tuple[str, tuple[str, ...], int, int]]) -> None:
    """`put` alone over some steps, in slices that alternate between all who are measured."""
    samples: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    size = run.plan.graph_steps // run.plan.slices

    def one_slice(metric: str, store: int, start: int, name: str) -> None:
        samples[metric, name] += run.worker(name).on(store).call("puts", first=start, last=start + size)

    for number in range(run.plan.slices):
        for metric, names, store, first in spans:
            run.each(names, partial(one_slice, metric, store, first + number * size))
    for (metric, name), taken in samples.items():
        run.ledger.add(metric, name, median(taken) * 1e3)
        run.ledger.add(f"{metric}.cpu", name, median(taken, "cpu") * 1e6)


def _new_threads(run: Run, here: str, name: str) -> None:
    _begin_threads(run, here, "new threads", name)
    sample = run.worker(name).call("walk", steps=run.plan.graph_each)
    _end_threads(run, name, 1)
    _note_walk(run, "graph.new", name, [sample])


def _lives(run: Run, here: str) -> None:
    """Many threads at once from their beginning to their end, a few steps by each contender in turn."""
    run.each(SAVERS, partial(_begin_threads, run, here, "lives"))
    walked: defaultdict[str, list[Sample]] = defaultdict(list)

    def walk(name: str) -> None:
        walked[name].append(run.worker(name).call("walk", steps=run.plan.graph_each))

    for _ in range(run.plan.graph_life // run.plan.graph_each):
        run.each(SAVERS, walk)
    run.each(SAVERS, lambda name: _end_threads(run, name, EVERY))
    for name, samples in walked.items():
        _note_walk(run, "graph.life", name, samples)


def _begin_threads(run: Run, here: str, place: str, name: str) -> None:
    _open(run, name, here, place)
    run.worker(name).call("gather", threads=run.plan.sessions)


def _end_threads(run: Run, name: str, every: int) -> None:
    run.worker(name).call("scatter", every=every)
    run.worker(name).ask("close")


def _note_walk(run: Run, metric: str, name: str, samples: list[Sample]) -> None:
    steps = run.plan.sessions * run.plan.graph_each * len(samples)
    run.ledger.add(f"{metric}.rate", name, steps / sum(sample["wall"] for sample in samples))
    run.ledger.add(f"{metric}.cpu", name, sum(sample["cpu"] for sample in samples) / steps * 1e6)


# ── Google's ADK ──


def _populate(run: Run, name: str) -> None:
    """The sessions to list stay open."""
    _open(run, name, "sessions", store=LISTED)
    run.worker(name).on(LISTED).call("populate", sessions=run.plan.listed)


def _service(run: Run, here: str) -> None:
    plan = run.plan
    _rates(run, here, SERVICES, "adk", (plan.slow_peer, 2 * plan.slow_peer))
    run.each((RAW,), partial(_handed, run, here))
    run.each(SERVICES, partial(_sessions, run, here))
    run.each(SERVICES, partial(_list, run))
    run.each(SERVICES[1:], partial(_page, run))


def _handed(run: Run, here: str, name: str) -> None:
    """What is left of an append when nothing is done but to have another thread commit a row."""
    worker = run.worker(name)
    worker.ask("open", folder=str(run.place(here, "handed", name)))
    sample = worker.call("handed", commits=4 * run.plan.slow_peer)
    worker.ask("close")
    run.ledger.add("adk.rate", name, run.plan.slow_peer / sample["wall"])


def _sessions(run: Run, here: str, name: str) -> None:
    worker = run.worker(name)
    _open(run, name, here, "at once")
    sample = worker.call("concurrent", sessions=run.plan.sessions)
    worker.ask("close")
    run.ledger.add("adk.many", name, run.plan.sessions / sample["wall"])
    run.ledger.add("adk.refused", name, sample["refused"])


def _page(run: Run, name: str) -> None:
    samples = run.worker(name).on(LISTED).call("page", limit=run.plan.tail, times=run.plan.reads)
    run.ledger.add("adk.page", name, median(samples) * 1e3)


def _list(run: Run, name: str) -> None:
    samples = run.worker(name).on(LISTED).call("listing", sessions=run.plan.listed, times=1)
    run.ledger.add("adk.list", name, median(samples) * 1e3)


def _rates(run: Run, here: str, names: tuple[str, ...], metric: str, span: tuple[int, int]) -> None:
    """Turns appended over a span, by all in slices."""

    def fill(name: str) -> None:
        _open(run, name, here)
        run.worker(name).append(0, span[0])

    def finish(name: str) -> None:
        run.worker(name).ask("verify", last=span[1])
        run.worker(name).ask("close")

    run.each(names, fill)
    measure_slices(run, {name: span for name in names if run.has(name)}, metric)
    run.each(names, finish)


# ── OpenAI Agents ──


def _fill_items(run: Run, name: str) -> None:
    """The session whose last items are read stays open."""
    _open(run, name, "items", store=LISTED)
    run.worker(name).on(LISTED).append(0, run.plan.items // 4)


def _conversations(run: Run, here: str, name: str) -> None:
    worker = run.worker(name)
    _open(run, name, here, "at once")
    sample = worker.call("concurrent", sessions=run.plan.sessions, each=run.plan.graph_each)
    worker.ask("close")
    run.ledger.add("agents.many", name, run.plan.sessions * run.plan.graph_each / sample["wall"])


def _session(run: Run, here: str) -> None:
    plan = run.plan
    _rates(run, here, SESSIONS, "agents", (plan.each, plan.each + plan.pair))
    run.each(SESSIONS, partial(_conversations, run, here))
    samples: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)

    def latest(name: str) -> None:
        worker = run.worker(name).on(LISTED)
        for way, taken in worker.call("latest", limit=plan.tail, end=plan.items // 4, times=plan.reads).items():
            samples[f"agents.{way}", name] += taken

    for _ in range(ROUNDS):
        run.each(SESSIONS, latest)
    for (metric, name), taken in samples.items():
        run.ledger.add(metric, name, median(taken) * 1e3)
