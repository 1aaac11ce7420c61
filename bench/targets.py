"""The targets, as data: what is divided by what, and the bound. Ratios are taken inside each repetition."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.plan import Plan
from bench.run import OURS, OURS_PG, RAW, RAW_JSON, RAW_PG, SAVERS, SEALED, SERVICES, SESSIONS, Ledger


@dataclass(frozen=True)
class Target:
    """`metric` of perdure, divided by `against` of `other` if given, compared with `bound`."""

    figure: str
    claim: str
    metric: str
    sense: str
    bound: float
    against: str = ""
    other: str = ""
    unit: str = "×"
    judged: bool = True
    """False for a ratio that is shown and has no target."""
    ours: str = OURS
    by_cpu: bool = False
    """Where the scatter of the wall clock straddles the bound, the row with the CPU per turn decides instead."""


@dataclass(frozen=True)
class Verdict:
    target: Target
    values: list[float]
    """One per repetition; empty when something that is needed was not measured."""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def word(self) -> str:
        target = self.target
        if not target.judged:
            return ""
        if not self.values:
            return "not measured"
        if self._meets(self.value):
            return "PASS"
        return "wavers: see CPU" if target.by_cpu and any(map(self._meets, self.values)) else "FAIL"

    def _meets(self, value: float) -> bool:
        return value >= self.target.bound if self.target.sense == "≥" else value <= self.target.bound


def judge(target: Target, ledger: Ledger) -> Verdict:
    values = ledger.get(target.metric, target.ours)
    if target.against:
        below = ledger.get(target.against, target.other)
        values = [a / b for a, b in zip(values, below, strict=False)]
    return Verdict(target, values)


def _shown(figure: str, claim: str, metric: str, other: str, against: str = "", ours: str = OURS) -> Target:
    return Target(figure, claim, metric, "", 0, against or metric, other, judged=False, ours=ours)


def targets(plan: Plan) -> list[Target]:
    return [
        *_append_targets(plan),
        *_read_targets(plan),
        *_branch_targets(plan),
        *_install_targets(),
        *_keeping_targets(plan),
        *_graph_targets(plan),
        *_service_targets(plan),
        *_session_targets(plan),
    ]


def _append_targets(plan: Plan) -> list[Target]:
    span = f"turns {plan.short:,}–{plan.stop:,}"
    late = f"turns {plan.late:,}–{plan.long:,}"
    step = f"LangGraph's at step {plan.graph_step}"
    many = f"{plan.sessions} sessions at once"
    rate, cpu = "append.rate", "append.cpu"
    return [
        Target("F1", f"turns/s, {span}, of raw commits (b)", rate, "≥", 0.5, rate, RAW_JSON, by_cpu=True),
        _shown("F1", f"turns/s, {span}, of the same encoded by msgspec", rate, RAW),
        Target("F1", f"turns/s, {span}, of OpenAI's", rate, "≥", 1.2, rate, "openai", by_cpu=True),
        Target("F1", f"turns/s, {span}, of {step}", rate, "≥", 10, rate, "langgraph"),
        Target("F1", f"CPU per turn, {span}, of raw commits (b)", cpu, "≤", 3, cpu, RAW_JSON),
        _shown("F1", f"CPU per turn, {span}, of the same encoded by msgspec", cpu, RAW),
        Target("F1", f"CPU per turn, {span}, of OpenAI's", cpu, "≤", 0.8, cpu, "openai"),
        Target("F1", f"CPU per turn, {late}, of that at {span}", "late.cpu", "≤", 1.1, cpu, OURS),
        Target("F2", f"turns/s, {many}, of raw batches (d)", "many.rate", "≥", 0.3, "many.rate", RAW_JSON),
        _shown("F2", f"turns/s, {many}, of the same encoded by msgspec", "many.rate", RAW),
        Target("F2", "turns/s, two processes, of raw (b) with two", "pair.rate", "≥", 0.5, "pair.rate", RAW_JSON),
        _shown("F2", "turns/s, two processes, of the same encoded by msgspec", "pair.rate", RAW),
        Target("F3", f"bytes on disk after {plan.short:,} turns, of message bytes", "disk", "≤", 0.7),
    ]


def _read_targets(plan: Plan) -> list[Target]:
    fresh, opened = "ready.fresh.long", "ready.open.long"
    ready, history = f"ready at {plan.long:,} turns", f"whole history of {plan.long:,}, verified"
    raw = f"raw last {plan.tail}, decoded"
    return [
        Target("F4", f"{ready}, of that at {plan.short:,}", fresh, "≤", 1.2, "ready.fresh.short", OURS),
        Target("F4", f"{ready}, of {raw}; both open the file", fresh, "≤", 4, fresh, RAW),
        Target("F4", f"{ready}, of {raw}; file open in both", opened, "≤", 4, opened, RAW),
        _shown("F4", f"{ready}, opening, of {raw}, file open", fresh, RAW, opened),
        _shown("F4", f"{ready}, opening, of the bare select, file open", fresh, RAW, "ready.select.long"),
        Target("F4", f"{history}, of raw, decoded", "history.verified", "≤", 2, "history.decoded", RAW),
        _shown("F4", f"{history}, of the bare select", "history.verified", RAW, "history.select"),
    ]


def _branch_targets(plan: Plan) -> list[Target]:
    short, long = (f"fork in the middle of {turns:,}, of one append" for turns in (plan.short, plan.long))
    return [
        Target("F5", short, "fork.short", "≤", 2, "single.short", OURS),
        Target("F5", long, "fork.long", "≤", 2, "single.long", OURS),
        Target("F5", "1,000 forks on disk", "forks.size", "≤", 4, unit=" MB"),
        Target("F5", f"first 50 of {plan.listed:,} sessions", "page", "≤", 2, unit=" ms"),
    ]


def _keeping_targets(plan: Plan) -> list[Target]:
    cpu, one, many = "append.cpu", "pg.rate", "pgmany.rate"
    crowd = f"turns/s, PostgreSQL, {plan.sessions} sessions at once"
    return [
        Target("F7", "CPU per turn, sealed, of that in the clear", cpu, "≤", 1.2, cpu, OURS, ours=SEALED),
        Target("F8", "turns/s, PostgreSQL, of raw commits", one, "≥", 0.5, one, RAW_PG, ours=OURS_PG),
        Target("F8", f"{crowd}, of as many raw", many, "≥", 0.7, many, RAW_PG, ours=OURS_PG),
    ]


def _install_targets() -> list[Target]:
    return [
        Target("F6", "CPU of `import perdure` above bare Python", "start.cost", "≤", 100, unit=" ms"),
        Target("F6", "distributions installed, perdure included", "distributions", "≤", 12, unit=""),
    ]


def _faster(
    figure: str, claim: str, metric: str, bound: float, theirs: str, ours: str, against: str = "", judged: bool = True
) -> Target:
    """How many times as fast ours is, where times are measured: theirs divided by ours."""
    return Target(figure, claim, against or metric, "≥", bound, metric, ours, ours=theirs, judged=judged)


def _graph_targets(plan: Plan) -> list[Target]:
    theirs, ours, clear = SAVERS
    put, disk, life, new = "graph.put", "graph.disk", "graph.life.rate", "graph.new.rate"
    step = f"LangGraph `put` at step {plan.graph_step}, speed of {theirs}'s"
    late = f"LangGraph `put` at step {plan.graph_late:,}, time at step {plan.graph_early}"
    kept = f"LangGraph bytes on disk, {4 * plan.graph_kept:,} steps of a message each, of {theirs}'s"
    at_once, other = f"LangGraph steps/s, {plan.sessions} threads at once", "of AsyncSqliteSaver's"
    whole = f"{at_once}, {plan.graph_life} steps each from the first on, {other}"
    begun = f"{at_once}, their first {plan.graph_each} steps, {other}"
    return [
        _faster("F9", step, put, 5, theirs, ours),
        _faster("F9", f"{step}, in the clear", put, 0, theirs, clear, judged=False),
        Target("F9", late, "graph.late", "≤", 1.2, "graph.early", ours, ours=ours),
        _shown("F9", f"{late}, CPU", "graph.late.cpu", ours, "graph.early.cpu", ours),
        Target("F9", kept, disk, "≤", 0.05, disk, theirs, ours=ours),
        Target("F9", whole, life, "≥", 5, life, theirs, ours=ours),
        _shown("F9", f"{whole}, in the clear", life, theirs, ours=clear),
        Target("F9", begun, new, "≥", 5, new, theirs, ours=ours),
        _shown("F9", f"{begun}, in the clear", new, theirs, ours=clear),
    ]


def _service_targets(plan: Plan) -> list[Target]:
    theirs, ours, clear = SERVICES
    rate, cpu, many, listing = "adk.rate", "adk.cpu", "adk.many", "adk.list"
    append = f"ADK `append_event`s/s, one session, of {theirs}'s"
    at_once = f"ADK `append_event`s/s, {plan.sessions} sessions at once, of {theirs}'s"
    page = f"ADK first {plan.tail} of {plan.listed:,} sessions by `list_page`, speed of all by {theirs}"
    whole = f"ADK `list_sessions` of {plan.listed:,}, speed of {theirs}'s"
    return [
        Target("F10", append, rate, "≥", 10, rate, theirs, ours=ours),
        _shown("F10", f"{append}, in the clear", rate, theirs, ours=clear),
        _shown("F10", f"a bare insert for each, committed by another thread, of {theirs}'s", rate, theirs, ours=RAW),
        _shown("F10", f"ADK CPU per `append_event`, of {theirs}'s", cpu, theirs, ours=ours),
        Target("F10", at_once, many, "≥", 10, many, theirs, ours=ours),
        _shown("F10", f"{at_once}, in the clear", many, theirs, ours=clear),
        _faster("F10", whole, listing, 50, theirs, ours),
        _faster("F10", f"{whole}, in the clear", listing, 0, theirs, clear, judged=False),
        _faster("F10", page, "adk.page", 50, theirs, ours, listing),
    ]


def _session_targets(plan: Plan) -> list[Target]:
    theirs, ours, clear = SESSIONS
    rate, cpu, first, fresh, warm = "agents.rate", "agents.cpu", "agents.first", "agents.fresh", "agents.warm"
    add = f"OpenAI `add_items`/s, one session, of {theirs}'s"
    at_once, many = f"OpenAI `add_items`/s, {plan.sessions} sessions at once, of {theirs}'s", "agents.many"
    last = f"OpenAI last {plan.tail} of {plan.items:,} items, speed of {theirs}'s"
    return [
        Target("F11", add, rate, "≥", 1, rate, theirs, ours=ours, by_cpu=True),
        _shown("F11", f"{add}, in the clear", rate, theirs, ours=clear),
        Target("F11", f"OpenAI CPU per `add_items`, of {theirs}'s", cpu, "≤", 1, cpu, theirs, ours=ours),
        Target("F11", at_once, many, "≥", 1, many, theirs, ours=ours),
        _shown("F11", f"{at_once}, in the clear", many, theirs, ours=clear),
        _faster("F11", f"{last}; new objects, theirs opens the file, ours has it open", fresh, 2, theirs, ours),
        _faster("F11", f"{last}; the same in the clear", fresh, 0, theirs, clear, judged=False),
        _faster("F11", f"{last}; the first to ask since the store was opened", first, 2, theirs, ours),
        _faster("F11", f"{last}; the first to ask, in the clear", first, 0, theirs, clear, judged=False),
        _faster(
            "F11", f"{last}; new object, theirs asked before, file open", fresh, 0, theirs, ours, warm, judged=False
        ),
        _faster("F11", f"{last}; both asked before", warm, 0, theirs, ours, judged=False),
    ]
