"""Measure perdure, SQLite itself and the peers in one run; docs/BENCHMARKS.md is such a result."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import machine, postgres
from bench.client import ROOT, Entry
from bench.corpus import deflated, message_bytes
from bench.figures import appends, branches, crowds, frameworks, install, reads, servers
from bench.plan import FULL, QUICK
from bench.report import Outcome, table, write_docs, write_json
from bench.run import FRAMEWORKS, OURS, OURS_PG, RAW, RAW_JSON, RAW_PG, SEALED, Run
from bench.targets import judge, targets

_PEERS = {"openai": "openai_session", "langgraph": "langgraph_saver", "adk": "adk_service"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers, two repetitions")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--no-peers", action="store_true", help="only perdure and raw SQLite")
    parser.add_argument("--only", choices=PARTS, help="measure only these figures")
    parser.add_argument("--repetitions", type=int, help="instead of five (two with --quick)")
    parser.add_argument("--dir", help="where the databases live while they are measured; must be a real disk")
    parser.add_argument("--json", default="build/bench.json", help="where the samples go (%(default)s)")
    parser.add_argument(
        "--write-docs", nargs="?", const="docs/BENCHMARKS.md", metavar="PATH", help="write %(const)s or PATH"
    )
    return parser.parse_args()


def contenders(with_peers: bool) -> list[Entry]:
    """Those that can be measured here; says which cannot."""
    entries = [Entry(RAW, "raw"), Entry(RAW_JSON, "raw_json")]
    if machine.has_perdure():
        entries.insert(0, Entry(OURS, "ours"))
        entries.append(Entry(SEALED, "ours_sealed"))
        if postgres.available():
            entries += [Entry(OURS_PG, "ours_postgres"), Entry(RAW_PG, "raw_postgres")]
    else:
        print("perdure cannot be imported: its figures stay empty")
    if with_peers and not machine.has_peers():
        print("the peers are not installed (`make setup` does it): their figures stay empty")
    elif with_peers:
        peers = {**_PEERS, **FRAMEWORKS} if machine.has_perdure() else _PEERS
        entries += [Entry(name, module) for name, module in peers.items()]
    return entries


def measure(run: Run, only: str | None) -> None:
    for part in [only] if only else PARTS:
        PARTS[part][0](run)


def sessions(run: Run) -> None:
    """Everything about one store of perdure and one of raw SQLite."""
    for repetition in range(1, run.plan.repetitions + 1):
        run.say(f"repetition {repetition} of {run.plan.repetitions}")
        appends.measure(run, repetition)
        reads.measure(run, repetition)
        branches.measure(run, repetition)
        appends.finish(run, repetition)
        crowds.measure(run, repetition)


PARTS = {
    "sessions": (sessions, ("F1", "F2", "F3", "F4", "F5", "F7")),
    "servers": (servers.measure, ("F8",)),
    "install": (install.measure, ("F6",)),
    "frameworks": (frameworks.measure, ("F9", "F10", "F11")),
}
"""What can be measured alone, and the figures it is judged by."""


def about_text(run: Run) -> str:
    """One sentence on the size and the compressibility of the corpus."""
    turns = run.corpus.turns(0, min(256, len(run.corpus)))
    size = statistics.mean(map(message_bytes, turns))
    alone = statistics.mean(deflated([one]) for one in turns)
    together = deflated(turns[:64])
    return (
        f"A turn is {size / 1e3:.1f} kB of question, tool call, result and answer; zlib at level 6 shrinks"
        f" a single one to {alone:.2f} of its size, 64 in one piece to {together:.2f}."
    )


def command(options: argparse.Namespace) -> str:
    """What to type to get this again, without machine paths."""
    words = ["python -m bench"]
    words += ["--quick"] if options.quick else []
    words += ["--no-peers"] if options.no_peers else []
    words += [f"--only {options.only}"] if options.only else []
    words += [f"--repetitions {options.repetitions}"] if options.repetitions else []
    return " ".join([*words, "--write-docs"] if options.write_docs else words)


def main() -> int:
    options = arguments()
    plan = QUICK if options.quick else FULL
    if options.repetitions:
        plan = plan.with_repetitions(options.repetitions)
    folder = machine.working_folder(options.dir)
    run = None
    try:
        about = {**machine.facts(folder), "load before": machine.load()}
        run = Run(plan, contenders(not options.no_peers), folder)
        measure(run, options.only)
        about |= {"load after": machine.load(), "duration": f"{run.elapsed():.0f} s"}
        figures = PARTS[options.only][1] if options.only else None
        judged = [target for target in targets(plan) if figures is None or target.figure in figures]
        verdicts = [judge(target, run.ledger) for target in judged]
        date = datetime.now(UTC).date().isoformat()
        outcome = Outcome(command(options), date, plan, about, run, verdicts, about_text(run))
    finally:
        if run is not None:
            run.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{table(outcome)}\n")
    write_json(outcome, ROOT / options.json)
    if options.write_docs:
        write_docs(outcome, ROOT / Path(options.write_docs))
    if run.failures:
        return 1
    return int(options.strict and any(verdict.word in ("FAIL", "not measured") for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
