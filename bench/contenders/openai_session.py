"""openai-agents' SQLiteSession: one `add_items` per turn, with the four items the SDK's runner makes of it.

As shipped it asks for WAL and leaves `synchronous` at SQLite's default; that default is read from a
connection opened the same way and must be FULL.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import durability
from bench.clock import Sample, Stopwatch
from bench.corpus import Corpus, Turn, compact
from bench.worker import Differs, compare

# Before the import, which would start the thread that sends traces.
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

from agents import SQLiteSession


def _items(one: Turn) -> list[Any]:
    call, asked = one["call"], compact(one["arguments"])
    said = [{"type": "output_text", "text": one["answer"], "annotations": []}]
    done = {"role": "assistant", "status": "completed"}
    return [
        {"role": "user", "content": one["user"]},
        {"type": "function_call", "call_id": call, "name": one["tool"], "arguments": asked},
        {"type": "function_call_output", "call_id": call, "output": compact(one["result"])},
        {"type": "message", "id": f"msg_{call}", **done, "content": said},
    ]


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._loop = asyncio.new_event_loop()

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._connect()
        self._session = self._made()

    def _connect(self) -> None:
        """Open the store; here every session does that for itself."""
        self._path = self._folder / "openai.db"

    def _reopen(self) -> None:
        """Forget whatever is remembered between sessions; here nothing is."""

    def _made(self, name: str = "s") -> Any:
        """A fresh session object."""
        return SQLiteSession(name, self._path)

    def _done(self, session: Any) -> None:
        session.close()

    def append(self, turns: list[Turn]) -> None:
        self._loop.run_until_complete(self._append(turns))

    async def _append(self, turns: list[Turn]) -> None:
        for one in turns:
            await self._session.add_items(_items(one))

    def read(self) -> list[Turn]:
        return self._read(self._session)

    def concurrent(self, sessions: int, each: int) -> Sample:
        """Turns of many sessions at once, each of them one after the other."""
        made = [self._made(f"at once {n}") for n in range(sessions)]
        work = [[_items(one) for one in self._corpus.iterate(n * each, n * each + each)] for n in range(sessions)]

        async def one_session(session: Any, turns: list[list[Any]]) -> None:
            for items in turns:
                await session.add_items(items)

        async def all_sessions() -> Sample:
            with Stopwatch() as watch:
                await asyncio.gather(*map(one_session, made, work))
            return watch.sample()

        sample = self._loop.run_until_complete(all_sessions())
        for n, session in enumerate(made):
            compare(self._read(session), self._corpus, n * each, n * each + each)
            self._done(session)
        return sample

    def _read(self, session: Any) -> list[Turn]:
        items: list[Any] = self._loop.run_until_complete(session.get_items())
        return [
            {
                "user": user["content"],
                "call": asked["call_id"],
                "tool": asked["name"],
                "arguments": json.loads(asked["arguments"]),
                "result": json.loads(finished["output"]),
                "answer": answer["content"][0]["text"],
            }
            for user, asked, finished, answer in zip(*[iter(items)] * 4, strict=True)
        ]

    def latest(self, limit: int, end: int, times: int) -> dict[str, list[Sample]]:
        """The last items of a session of `end` turns: by the first who asks since the store was opened, by a fresh
        object, and by one that was asked before.
        """
        return self._loop.run_until_complete(self._latest(limit, end, times))

    async def _latest(self, limit: int, end: int, times: int) -> dict[str, list[Sample]]:
        turns = self._corpus.turns(end - limit // 4 - 1, end)
        expected = [item for one in turns for item in _items(one)][-limit:]
        samples: dict[str, list[Sample]] = {"first": [], "fresh": [], "warm": []}
        for _ in range(times):
            self._reopen()
            session: Any = None
            for way, taken in samples.items():
                with Stopwatch() as watch:
                    session = self._made() if way != "warm" else session
                    found = await session.get_items(limit)
                taken.append(watch.sample())
                if way != "fresh":
                    self._done(session)
                if found != expected:
                    raise Differs(f"the last {limit} items read back differ from what was stored")
        return samples

    def close(self) -> None:
        self._done(self._session)

    def facts(self) -> dict[str, str]:
        return {
            "version": f"openai-agents {version('openai-agents')}",
            "sqlite": sqlite3.sqlite_version,
            "durability": durability.defaults(str(self._path)),
            "commits per turn": "1",
        }
