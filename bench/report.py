"""What a run says: aligned tables on stdout, JSON, and docs/BENCHMARKS.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.plan import Plan
from bench.prose import METHOD
from bench.run import Run
from bench.targets import Verdict

_LABELS = {
    "append.rate": ("appending a turn", "turns/s"),
    "append.cpu": ("appending a turn, CPU", "µs"),
    "late.rate": ("appending a turn, late", "turns/s"),
    "late.cpu": ("appending a turn, late, CPU", "µs"),
    "pg.rate": ("appending a turn, PostgreSQL", "turns/s"),
    "pg.cpu": ("appending a turn, PostgreSQL, client's CPU", "µs"),
    "pgmany.rate": ("many sessions at once, PostgreSQL", "turns/s"),
    "pgmany.cpu": ("many sessions at once, PostgreSQL, client's CPU", "µs"),
    "disk": ("bytes on disk per byte of message", "×"),
    "many.rate": ("many sessions at once", "turns/s"),
    "many.cpu": ("many sessions at once, CPU", "µs"),
    "pair.rate": ("two processes on one file", "turns/s"),
    "ready.fresh.short": ("ready, short session, opening the file", "ms"),
    "ready.fresh.long": ("ready, long session, opening the file", "ms"),
    "ready.open.short": ("ready, short session, file open", "ms"),
    "ready.open.long": ("ready, long session, file open", "ms"),
    "ready.select.long": ("last turns, bare select", "ms"),
    "history.verified": ("whole history, chain verified", "ms"),
    "history.decoded": ("whole history, decoded", "ms"),
    "history.select": ("whole history, bare select", "ms"),
    "fork.short": ("fork in the middle, short session", "ms"),
    "fork.long": ("fork in the middle, long session", "ms"),
    "single.short": ("one durable append, short session", "ms"),
    "single.long": ("one durable append, long session", "ms"),
    "forks.size": ("1,000 forks on disk", "MB"),
    "page": ("first page of sessions", "ms"),
    "graph.put": ("LangGraph `put` alone", "ms"),
    "graph.put.cpu": ("LangGraph `put` alone, CPU", "µs"),
    "graph.early": ("LangGraph `put` alone, early step", "ms"),
    "graph.early.cpu": ("LangGraph `put` alone, early step, CPU", "µs"),
    "graph.late": ("LangGraph `put` alone, late step", "ms"),
    "graph.late.cpu": ("LangGraph `put` alone, late step, CPU", "µs"),
    "graph.disk": ("LangGraph thread on disk, a message at each step", "MB"),
    "graph.life.rate": ("LangGraph threads at once, whole lives", "steps/s"),
    "graph.life.cpu": ("LangGraph threads at once, whole lives, CPU", "µs"),
    "graph.new.rate": ("LangGraph new threads at once", "steps/s"),
    "graph.new.cpu": ("LangGraph new threads at once, CPU", "µs"),
    "adk.rate": ("ADK turns of four `append_event`s", "turns/s"),
    "adk.cpu": ("ADK turns of four `append_event`s, CPU", "µs"),
    "adk.many": ("ADK turns of many sessions at once", "turns/s"),
    "adk.refused": ("ADK appends refused as busy, and tried again", ""),
    "adk.list": ("ADK `list_sessions`", "ms"),
    "adk.page": ("ADK sessions, first page from the store", "ms"),
    "agents.rate": ("OpenAI turns of one `add_items`", "turns/s"),
    "agents.cpu": ("OpenAI turns of one `add_items`, CPU", "µs"),
    "agents.many": ("OpenAI turns of many sessions at once", "turns/s"),
    "agents.first": ("OpenAI last items, the first to ask", "ms"),
    "agents.fresh": ("OpenAI last items, new object", "ms"),
    "agents.warm": ("OpenAI last items, object asked before", "ms"),
    "start.bare": ("bare Python start, CPU", "ms"),
    "start.import": ("Python start with `import perdure`, CPU", "ms"),
    "start.cost": ("`import perdure`, CPU", "ms"),
    "distributions": ("distributions installed", ""),
}


@dataclass(frozen=True)
class Outcome:
    """A finished run, ready to be told."""

    command: str
    date: str
    plan: Plan
    machine: dict[str, str]
    run: Run
    verdicts: list[Verdict]
    text: str
    """What the corpus is like."""


def number(value: float) -> str:
    """About three digits, never in exponents; whole numbers whole."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _spread(values: Sequence[float]) -> str:
    return f"{number(min(values))}–{number(max(values))}" if len(values) > 1 else ""


def _metric_rows(run: Run) -> list[list[str]]:
    metrics, names = list(_LABELS), run.order
    rows = sorted(run.ledger.rows(), key=lambda row: (metrics.index(row[0]), names.index(row[1])))
    return [
        [*_LABELS[metric], name, number(statistics.median(values)), _spread(values)] for metric, name, values in rows
    ]


def _verdict_rows(verdicts: Sequence[Verdict]) -> list[list[str]]:
    rows = []
    for verdict in verdicts:
        target, values = verdict.target, verdict.values
        found = number(verdict.value) + target.unit if values else "–"
        bound = f"{target.sense} {target.bound:g}{target.unit}" if target.judged else ""
        rows.append([target.figure, target.claim, found, _spread(values), bound, verdict.word])
    return rows


_METRICS = ["what", "unit", "contender", "median", "min–max"]
_TARGETS = ["", "perdure", "median", "min–max", "target", ""]


def _aligned(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["─" * width for width in widths], *rows]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def table(outcome: Outcome) -> str:
    """Both tables as plain text."""
    metrics, verdicts = _metric_rows(outcome.run), _verdict_rows(outcome.verdicts)
    parts = [_aligned(_METRICS, metrics), _aligned(_TARGETS, verdicts)]
    if outcome.run.failures:
        parts.append("FAILURES\n" + "\n".join(f"  {failure}" for failure in outcome.run.failures))
    return "\n\n".join(parts)


def write_json(outcome: Outcome, path: Path) -> None:
    record: dict[str, Any] = {
        "command": outcome.command,
        "date": outcome.date,
        "plan": asdict(outcome.plan),
        "machine": outcome.machine,
        "text": outcome.text,
        "contenders": outcome.run.facts,
        "metrics": [{"metric": m, "contender": c, "values": v} for m, c, v in outcome.run.ledger.rows()],
        "targets": [{**asdict(v.target), "values": v.values, "verdict": v.word} for v in outcome.verdicts],
        "failures": outcome.run.failures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _contender_rows(run: Run) -> tuple[list[str], list[list[str]]]:
    head = ["version", "sqlite", "durability", "commits per turn"]
    rows = [[name, *(run.facts[name][column] for column in head)] for name in run.order if name in run.facts]
    return ["contender", *head], rows


def write_docs(outcome: Outcome, path: Path) -> None:
    """The page for readers; written by the run, never by hand."""
    plan = outcome.plan
    facts = "\n".join(f"- {name}: {value}" for name, value in outcome.machine.items())
    sections = [
        "# Benchmarks",
        f"Written by `{outcome.command}` on {outcome.date}; do not edit by hand.",
        (
            f"Every number is the median of {plan.repetitions} repetitions of one run; min–max is the scatter. "
            "Where the scatter of a rate straddles its bound, the disk decides more than the code: then the CPU per "
            "turn is what is judged."
        ),
        "## Targets",
        _markdown(_TARGETS, _verdict_rows(outcome.verdicts)),
        "## Measurements",
        f"“Short” is {plan.short:,} turns, “long” {plan.long:,}, “late” turns {plan.late:,}–{plan.long:,}.",
        _markdown(_METRICS, _metric_rows(outcome.run)),
        "## Contenders",
        _markdown(*_contender_rows(outcome.run)),
        "## Machine",
        facts,
        "## Method",
        METHOD.format(**asdict(plan), text=outcome.text).strip(),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
