"""Memory beside its peers on LoCoMo, in one run: `python -m evals.peers DATA --venv FOLDER [--embedder …] [--json]`.

Ours, mem0 (`infer=False`) and LangGraph's stores keep the same memories, share one embedder and are asked the same
questions, each in a process of its own without a network. The peers' packages are those of another environment.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from evals.contenders import CONTENDERS, DEEP, OURS, Answer, Dialog, K, Task
from evals.locomo import Conversation, Question, conversations
from evals.scoring import mean, median, recall, reciprocal

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "MEMORY-EVAL.md"
NAMES = {
    "perdure": "perdure, a sealed store in a file",
    "perdure-index": "perdure, its index alone, in RAM",
    "mem0": "mem0, `infer=False`, Qdrant in a folder",
    "mem0-words": "mem0, the same with its search by words",
    "langgraph-memory": "LangGraph `InMemoryStore`",
    "langgraph-sqlite": "LangGraph `SqliteStore`",
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_ONE_CORE = dict.fromkeys(_THREADS, "1") | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


class Row(msgspec.Struct, frozen=True):
    """A contender's measures; times are milliseconds of CPU."""

    recall_10: float
    mrr: float
    cpu: float
    cpu_p50: float
    keeping: float


class Run(msgspec.Struct, frozen=True):
    """One embedder's rows, and the versions of whatever was measured."""

    embedder: str
    questions: int
    memories: int
    rows: dict[str, Row]
    versions: dict[str, str]


def task(data: Iterable[Conversation], embedder: str) -> Task:
    """What every contender is handed."""
    dialogs = [Dialog(each.items, [question.text for question in each.questions]) for each in data]
    return Task(embedder, dialogs)


def row(answer: Answer, questions: Sequence[Question]) -> Row:
    """What an answer is worth."""
    pairs = list(zip(answer.found, questions, strict=True))
    return Row(
        mean([recall(found, question.evidence, K) for found, question in pairs]),
        mean([reciprocal(found, question.evidence) for found, question in pairs]),
        1e3 * mean(answer.cpu),
        1e3 * median(answer.cpu),
        1e3 * answer.keeping / max(answer.kept, 1),
    )


def asked(name: str, python: Path, given: Task) -> Answer:
    """Run one contender in a process of its own."""
    command = [str(python), "-W", "ignore", "-m", "evals.contenders", name]
    done = subprocess.run(
        command,
        input=msgspec.json.encode(given),
        capture_output=True,
        cwd=ROOT,
        env=os.environ | _ONE_CORE,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr.decode('utf-8', 'replace')[-4_000:]}")
    return msgspec.json.decode(done.stdout, type=Answer)


def measured(data: Sequence[Conversation], embedder: str, pythons: Mapping[str, Path]) -> Run:
    """Each contender by the interpreter named for it, one after the other."""
    given = task(data, embedder)
    questions = [question for each in data for question in each.questions]
    rows: dict[str, Row] = {}
    versions: dict[str, str] = {}
    for name, python in pythons.items():
        answer = asked(name, python, given)
        rows[name] = row(answer, questions)
        versions |= answer.versions
    return Run(embedder, len(questions), sum(len(each.items) for each in data), rows, versions)


def behind(run: Run) -> list[str]:
    """Where a peer is not behind our store: in recall, in MRR or in CPU for a query."""
    ours = run.rows["perdure"]
    found = []
    for name, peer in run.rows.items():
        if name in OURS:
            continue
        if peer.recall_10 >= ours.recall_10:
            found.append(f"{name}: recall@10 {peer.recall_10:.3f}, ours {ours.recall_10:.3f}")
        if peer.mrr >= ours.mrr:
            found.append(f"{name}: MRR {peer.mrr:.3f}, ours {ours.mrr:.3f}")
        if peer.cpu <= ours.cpu:
            found.append(f"{name}: {peer.cpu:.2f} ms of CPU for a query, ours {ours.cpu:.2f}")
    return found


def table(run: Run) -> str:
    """The rows as Markdown, which reads well in a terminal, too."""
    width = max(len(NAMES[name]) for name in run.rows)
    lines = [
        f"| {run.embedder:{width}} | recall@{K} | MRR | CPU a query, ms | p50 | CPU a memory kept, ms |",
        f"|{'-' * (width + 2)}|---|---|---|---|---|",
    ]
    lines += [
        f"| {NAMES[name]:{width}} | {one.recall_10:.3f} | {one.mrr:.3f} | {one.cpu:.2f} | {one.cpu_p50:.2f} "
        f"| {one.keeping:.2f} |"
        for name, one in run.rows.items()
    ]
    return "\n".join(lines)


def page(runs: Sequence[Run], day: str) -> str:
    """The page of docs/ that these runs make."""
    versions = {name: number for run in runs for name, number in run.versions.items()}
    found = [f"- {run.embedder}: {line}" for run in runs for line in behind(run)]
    parts = [
        _HEAD.format(
            arguments=_arguments(runs),
            day=day,
            python=".".join(map(str, sys.version_info[:2])),
            versions=", ".join(f"{name} {number}" for name, number in sorted(versions.items())),
            memories=runs[0].memories,
            questions=runs[0].questions,
        ),
        *(table(run) for run in runs),
    ]
    if found:
        parts.append("\n".join(["Where a peer is not behind:", "", *found]))
    return "\n\n".join([*parts, _HOW]) + "\n"


def _arguments(runs: Sequence[Run]) -> str:
    """What such runs are asked for with; those left out show by whom it was narrowed to."""
    there = {name for run in runs for name in run.rows}
    some = [name for name in CONTENDERS if name in there and name != "perdure"] if there != set(CONTENDERS) else []
    return " ".join([f"--embedder {run.embedder}" for run in runs] + [f"--only {name}" for name in some])


_HEAD = """# Memory beside its peers

Each table is one run of all that stand in it: `make eval-peers DATA=… ARGS="{arguments} --write-docs"`, on {day}.
Python {python}; {versions}.

DATA is a file of the LoCoMo benchmark, which is not ours to hand on: {memories:,} turns of dialog are memories, and
{questions:,} questions that have an answer each search their own conversation for the evidence."""

_HOW = f"""## How it is measured

- One run, one core, no network: every contender runs in a process of its own in which connections are refused, and a
  run in which one is tried fails. No model is asked.
- All share one embedder, named in a table's corner and run in their process; embedding the query is part of its CPU.
- Peers get each memory as one text with its speaker and date before it. perdure has fields for these.
- Every conversation has a fresh store, so nobody pays for filtering out the others.
- recall@{K} is the share of a question's evidence among the first {K}. MRR is the mean of one over the rank of the
  first evidence, looked for among the first {DEEP}. CPU is that of the process, all threads, for a search of {K}: the
  mean, and the median.
- mem0 searches by vectors alone unless `fastembed` is installed, which fetches a list of stop words at its first use;
  where a second row of mem0 stands, it is given ours instead. What mem0 does with spaCy's models is left out, since
  they have to be fetched, too. Its threshold is 0, so that nothing is left out.
- LangGraph's stores search by vectors alone."""


def pythons(venv: Path, only: Sequence[str]) -> dict[str, Path]:
    """Which interpreter runs whom: ours this one, the peers that of their environment."""
    peers = venv / "bin" / "python"
    names = [name for name in CONTENDERS if not only or name in only or name == "perdure"]
    if not peers.exists() and set(names) - set(OURS):
        sys.exit(f"{peers} is not there; `make eval-peers` makes it")
    return {name: Path(sys.executable) if name in OURS else peers for name in names}


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print tables or a document; 1 if somebody is not behind us."""
    parser = argparse.ArgumentParser(prog="evals.peers", description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="LoCoMo's file, or with --again what --json wrote")
    parser.add_argument("--again", action="store_true", help="measure nothing: tell of earlier runs")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-mem0", help="the environment of the peers")
    parser.add_argument("--embedder", action="append", help="wordllama (if none is named), minilm; may be repeated")
    parser.add_argument("--only", action="append", default=[], choices=sorted(CONTENDERS), help="beside perdure itself")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write-docs", action="store_true", help="write docs/MEMORY-EVAL.md")
    given = parser.parse_args(arguments)
    if given.again:
        runs = [run for path in given.data for run in msgspec.json.decode(path.read_bytes(), type=list[Run])]
    else:
        data = [each for path in given.data for each in conversations(path)]
        who = pythons(given.venv, given.only)
        runs = [measured(data, embedder, who) for embedder in given.embedder or ["wordllama"]]
    if given.json:
        json.dump(msgspec.to_builtins(runs), sys.stdout, indent=1)
    else:
        print("\n\n".join(table(run) for run in runs))
    if given.write_docs:
        PAGE.write_text(page(runs, f"{datetime.now(UTC):%Y-%m-%d}"), encoding="utf-8")
    found = [f"{run.embedder}: {line}" for run in runs for line in behind(run)]
    for line in found:
        print(f"not behind us: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
