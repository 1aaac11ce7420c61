"""A contender in a process of its own: reads requests as JSON lines on stdin, answers on stdout.

`python -m bench.worker MODULE CORPUS` imports `bench.contenders.MODULE` and serves its `Contender`:

    {"op": "open", "folder": …}             a store in this folder, new or existing
    {"op": "prepare", "first": a, "last": b}  decode the turns a..b, so that this is not measured
    {"op": "run"}                           append the prepared turns one durable turn at a time → a sample
    {"op": "verify", "last": b}             read everything back and compare with turns 0..b
    {"op": "facts"} {"op": "close"}
    {"op": "call", "name": …, "args": {…}}  anything else this contender can be asked

A request may name a "store", a number: then another instance of the contender in the same process is asked.
Every answer is `{"ok": true, "value": …}` or `{"ok": false, "error": …}`. Whatever libraries print goes to
stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Protocol

from bench.clock import Stopwatch
from bench.corpus import Corpus, Turn


class Contender(Protocol):
    """What every contender can do; each module in `bench.contenders` has one class of this name."""

    def __init__(self, corpus: Corpus) -> None: ...

    def open(self, folder: Path) -> None:
        """Open the store in `folder`, and in it the one session that `append` writes to."""

    def append(self, turns: list[Turn]) -> None:
        """Store each turn so that it survives a power cut before the next one is touched."""

    def read(self) -> list[Turn]:
        """Everything stored in the session, oldest first, through the contender's own reading path."""

    def close(self) -> None: ...

    def facts(self) -> dict[str, str]:
        """Versions and durability settings in force."""


class Differs(AssertionError):
    """What was read back is not what was stored."""


def compare(found: list[Turn], corpus: Corpus, first: int, last: int) -> None:
    """Raises `Differs` unless `found` is exactly the turns `first..last` of the corpus."""
    if len(found) != last - first:
        raise Differs(f"{len(found)} turns read back, {last - first} stored")
    for index, one in enumerate(found, start=first):
        if one != corpus[index]:
            raise Differs(f"turn {index} read back differs from what was stored")


class Server:
    def __init__(self, contender: Contender, corpus: Corpus) -> None:
        self._contender = contender
        self._corpus = corpus
        self._prepared: list[Turn] = []

    def answer(self, request: dict[str, Any]) -> Any:
        op = request["op"]
        if op == "open":
            return self._contender.open(Path(request["folder"]))
        if op == "prepare":
            self._prepared = self._corpus.turns(request["first"], request["last"])
            return len(self._prepared)
        if op == "run":
            turns, self._prepared = self._prepared, []
            with Stopwatch() as watch:
                self._contender.append(turns)
            return {**watch.sample(), "turns": len(turns)}
        if op == "verify":
            return compare(self._contender.read(), self._corpus, 0, request["last"])
        if op == "facts":
            return self._contender.facts()
        if op == "close":
            return self._contender.close()
        if op == "call":
            return getattr(self._contender, request["name"])(**request["args"])
        raise ValueError(f"unknown op {op!r}")


def main(module: str, corpus_path: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # a library that prints must not break the protocol
    corpus = Corpus(Path(corpus_path))
    servers: dict[int, Server] = {}
    for line in sys.stdin:
        try:
            request = json.loads(line)
            store = request.get("store", 0)
            if store not in servers:
                contender = importlib.import_module(f"bench.contenders.{module}").Contender(corpus)
                servers[store] = Server(contender, corpus)
            answer = {"ok": True, "value": servers[store].answer(request)}
        except Exception as error:  # the edge of the process: the runner decides what a failure means
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
