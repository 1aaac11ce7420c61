"""One run: the workers, the folder their databases live in, and the ledger of what was measured.

Contenders take turns: `each` goes through them in an order that rotates, and a contender that fails is put
aside with its reason while the others go on.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.client import Entry, Failed, Worker
from bench.clock import Sample
from bench.corpus import Corpus, message_bytes
from bench.plan import Plan

OURS = "perdure"
RAW = "raw"
RAW_JSON = "raw+json"
SEALED = "perdure sealed"
OURS_PG = "perdure+postgres"
RAW_PG = "raw postgres"
SERVED = (OURS_PG, RAW_PG)
"""Contenders that need a server, and are measured apart."""
FRAMEWORKS = {
    "SqliteSaver": "langgraph_saver",
    "PerdureSaver": "ours_langgraph",
    "PerdureSaver clear": "ours_langgraph_clear",
    "SqliteSessionService": "adk_service",
    "PerdureSessionService": "ours_adk",
    "PerdureSessionService clear": "ours_adk_clear",
    "SQLiteSession": "openai_session",
    "PerdureSession": "ours_openai",
    "PerdureSession clear": "ours_openai_clear",
}
"""Contenders that go through a framework's interface, to its store or ours, with their modules; also measured apart."""
SAVERS, SERVICES, SESSIONS = (tuple(list(FRAMEWORKS)[start : start + 3]) for start in (0, 3, 6))
"""Those of LangGraph, Google's ADK and the OpenAI Agents SDK: theirs, ours as it is by default, ours in the clear."""
SPARE = 100
"""Turns of text beyond the longest session, for appends after everything else."""


class Ledger:
    """Values by metric and contender, one for each repetition."""

    def __init__(self) -> None:
        self._values: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, metric: str, contender: str, value: float) -> None:
        self._values[metric][contender].append(value)

    def get(self, metric: str, contender: str) -> list[float]:
        return self._values[metric].get(contender, [])

    def rows(self) -> list[tuple[str, str, list[float]]]:
        return [(metric, name, values) for metric, by in self._values.items() for name, values in by.items()]


def median(samples: Iterable[Sample], field: str = "wall") -> float:
    return statistics.median(sample[field] for sample in samples)


class Run:
    def __init__(self, plan: Plan, entries: list[Entry], folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.ledger = Ledger()
        self.failures: list[str] = []
        self.facts: dict[str, dict[str, str]] = {}
        self.names = [entry.name for entry in entries]
        self.order = tuple(self.names)
        self._entries = {entry.name: entry for entry in entries}
        self._workers: dict[tuple[str, int], Worker] = {}
        self._began = time.monotonic()
        self._turn = 0
        self._corpus_path = folder / "corpus.jsonl"
        self.say(f"writing {plan.long:,} turns of text")
        Corpus.write(self._corpus_path, plan.long + SPARE)
        self.corpus = Corpus(self._corpus_path)
        sizes = (message_bytes(one) for one in self.corpus.iterate(0, plan.long))
        self._bytes_before = [0, *itertools.accumulate(sizes)]

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def message_bytes(self, turns: int) -> int:
        """Bytes of the messages of the first `turns` turns."""
        return self._bytes_before[turns]

    def has(self, *names: str) -> bool:
        return all(name in self.names for name in names)

    def worker(self, name: str, twin: int = 0) -> Worker:
        """The process of this contender; a `twin` is another one of the same contender."""
        if (name, twin) not in self._workers:
            log = self.folder / f"{name} {twin}.log"
            self._workers[name, twin] = Worker(self._entries[name], self._corpus_path, log)
        return self._workers[name, twin]

    def dismiss(self, name: str) -> None:
        """End the processes of a contender that is no longer needed."""
        for key in [key for key in self._workers if key[0] == name]:
            self._workers.pop(key).stop()

    def each(self, names: Iterable[str], work: Callable[[str], None]) -> None:
        """`work` for every contender that is still in, starting one further on every time."""
        present = [name for name in names if name in self.names]
        self._turn += 1
        shift = self._turn % max(1, len(present))
        for name in present[shift:] + present[:shift]:
            self.attempt(name, work)

    def attempt(self, name: str, work: Callable[[str], None]) -> None:
        """`work` for one contender if it is in; if it fails, that contender takes no further part."""
        if name not in self.names:
            return
        try:
            work(name)
        except Failed as failure:
            self.failures.append(str(failure))
            self.names.remove(name)
            self.say(f"{name} takes no further part: {failure}")
            self._show_log(name)

    def _show_log(self, name: str) -> None:
        for log in sorted(self.folder.glob(f"{name} [0-9].log")):
            for line in log.read_text(errors="replace").splitlines()[-12:]:
                print(f"    {line}")

    def place(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    def drop(self, *parts: str) -> None:
        shutil.rmtree(self.place(*parts), ignore_errors=True)

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()


def size_of(folder: Path) -> int:
    """Bytes of all files of a store."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
