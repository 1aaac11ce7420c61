"""The runner's end of a worker: start it, ask it, wait for it, stop it."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clock import Sample

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300
"""Seconds after which a worker that does not answer is ended."""


class Failed(RuntimeError):
    """The worker answered with an error, or is gone."""


@dataclass(frozen=True)
class Entry:
    """A contender as the runner knows it: its name in tables, and its module."""

    name: str
    module: str


class Worker:
    """One contender process. `ask` waits for the answer; `post` and `collect` split that in two."""

    def __init__(self, entry: Entry, corpus: Path, log: Path) -> None:
        self.entry = entry
        self.name = entry.name
        self.store = 0
        paths = [str(ROOT), str(ROOT / "src")]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker", entry.module, str(corpus)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def on(self, store: int) -> Worker:
        """The same process, asked about another store that it has open."""
        other = copy.copy(self)
        other.store = store
        return other

    def post(self, op: str, **fields: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, "store": self.store, **fields}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{self.name} is gone") from None

    def collect(self) -> Any:
        assert self._process.stdout is not None
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Failed(f"{self.name} ended without an answer, see the log")
        answer = json.loads(line)
        if not answer["ok"]:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer["value"]

    def ask(self, op: str, **fields: Any) -> Any:
        self.post(op, **fields)
        return self.collect()

    def call(self, method: str, **args: Any) -> Any:
        return self.ask("call", name=method, args=args)

    def append(self, first: int, last: int) -> Sample:
        """Turns `first..last`, each durable before the next; the sample covers the appending alone."""
        self.ask("prepare", first=first, last=last)
        sample: Sample = self.ask("run")
        return sample

    def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def run_together(workers: Sequence[Worker], first: int, last: int) -> float:
    """All append turns `first..last` at the same time; turns per second of them together."""
    for worker in workers:
        worker.ask("prepare", first=first, last=last)
    for worker in workers:
        worker.post("run")
    samples: list[Sample] = []
    failures: list[Failed] = []
    for worker in workers:
        try:
            samples.append(worker.collect())
        except Failed as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return len(workers) * (last - first) / (max(s["end"] for s in samples) - min(s["start"] for s in samples))
