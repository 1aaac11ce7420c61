"""LangGraph's SqliteSaver: one graph step per turn, stored as the engine stores it.

The step's output goes to `put_writes`, then the checkpoint with the whole `messages` channel to `put`. A
graph with a tool loop takes several steps for such a turn and pays for each; here a turn is one step, except
where a step is said to be one message. Many threads at once go through AsyncSqliteSaver.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from bench import durability
from bench.clock import Sample, Stopwatch
from bench.corpus import Corpus, Turn, compact
from bench.worker import compare

APART = 7
"""So many turns of text lie between where one thread begins and where the next does."""


def _messages(one: Turn) -> list[AnyMessage]:
    call = one["call"]
    asked = {"name": one["tool"], "args": one["arguments"], "id": call, "type": "tool_call"}
    return [
        HumanMessage(one["user"], id=f"{call}-0"),
        AIMessage("", id=f"{call}-1", tool_calls=[asked]),
        ToolMessage(compact(one["result"]), id=f"{call}-2", tool_call_id=call, name=one["tool"]),
        AIMessage(one["answer"], id=f"{call}-3"),
    ]


def _turns(found: Any) -> list[Turn]:
    """The corpus' form of the messages of a checkpoint."""
    messages: list[Any] = found.checkpoint["channel_values"]["messages"] if found is not None else []
    return [
        {
            "user": user.content,
            "call": asked.tool_calls[0]["id"],
            "tool": asked.tool_calls[0]["name"],
            "arguments": asked.tool_calls[0]["args"],
            "result": json.loads(finished.content),
            "answer": answer.content,
        }
        for user, asked, finished, answer in zip(*[iter(messages)] * 4, strict=True)
    ]


class Thread:
    """One thread as the engine carries it along: what it hands to the saver at every step."""

    def __init__(self, saver: Any, name: str) -> None:
        self._saver = saver
        self.latest: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self.config: Any = self.latest
        self._history: list[AnyMessage] = []
        self._step = 0

    def writes(self, new: list[AnyMessage]) -> tuple[Any, ...]:
        """The arguments of `put_writes` for a step that adds these messages, which are taken up."""
        self._history = [*self._history, *new]
        self._step += 1
        return self.config, [("messages", new)], str(uuid6(clock_seq=self._step)), "~__pregel_pull, agent"

    def checkpoint(self) -> tuple[Any, ...]:
        """The arguments of `put` for where the thread stands."""
        channel = {"messages": self._saver.get_next_version(f"{self._step:032}.0", None)}
        checkpoint: Any = {
            "v": 4,
            "ts": datetime.now(UTC).isoformat(),
            "id": str(uuid6(clock_seq=self._step)),
            "channel_values": {"messages": self._history},
            "channel_versions": channel,
            "versions_seen": {"__input__": {}, "agent": channel},
            "updated_channels": ["messages"],
        }
        return self.config, checkpoint, {"source": "loop", "step": self._step, "parents": {}}, channel


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._saver: Any = None

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._connect()
        self._thread = Thread(self._saver, "s")
        self._put()

    def _connect(self) -> None:
        """Open the store and make the saver."""
        self._db = sqlite3.connect(self._folder / "langgraph.db", check_same_thread=False)
        self._saver = SqliteSaver(self._db)
        self._saver.setup()
        self._db.execute("PRAGMA synchronous=FULL")

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """The same for the async saver."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(self._folder / "langgraph.db")) as saver:
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous=FULL")
            found = await (await saver.conn.execute("PRAGMA synchronous")).fetchone()
            durability.require_full(found[0] if found else 0)
            yield saver

    def append(self, turns: list[Turn]) -> None:
        for one in turns:
            self._step(_messages(one))

    def _step(self, new: list[AnyMessage]) -> None:
        self._saver.put_writes(*self._thread.writes(new))
        self._put()

    def _put(self) -> None:
        self._thread.config = self._saver.put(*self._thread.checkpoint())

    def puts(self, first: int, last: int) -> list[Sample]:
        """A step for every turn; each sample covers its `put` alone."""
        samples: list[Sample] = []
        for one in self._corpus.turns(first, last):
            self._saver.put_writes(*self._thread.writes(_messages(one)))
            arguments = self._thread.checkpoint()
            with Stopwatch() as watch:
                self._thread.config = self._saver.put(*arguments)
            samples.append(watch.sample())
        return samples

    def single(self, turns: int) -> None:
        """The first turns in four steps each, a message at a time."""
        for one in self._corpus.iterate(0, turns):
            for message in _messages(one):
                self._step([message])

    def gather(self, threads: int) -> None:
        """Begin many threads in one event loop."""
        self._loop = asyncio.new_event_loop()
        self._taken = 0
        self._loop.run_until_complete(self._gather(threads))

    async def _gather(self, threads: int) -> None:
        self._open_saver = self._connected()
        self._async_saver = await self._open_saver.__aenter__()
        self._threads = [Thread(self._async_saver, f"thread {n}") for n in range(threads)]
        for thread in self._threads:
            thread.config = await self._async_saver.aput(*thread.checkpoint())

    def walk(self, steps: int) -> Sample:
        """Every thread takes its steps one after the other, all threads at once."""
        return self._loop.run_until_complete(self._walk(steps))

    async def _walk(self, steps: int) -> Sample:
        saver, start = self._async_saver, self._taken
        firsts = [n * APART + start for n in range(len(self._threads))]
        work = [[_messages(one) for one in self._corpus.iterate(first, first + steps)] for first in firsts]

        async def one_thread(thread: Thread, turns: list[list[AnyMessage]]) -> None:
            for new in turns:
                await saver.aput_writes(*thread.writes(new))
                thread.config = await saver.aput(*thread.checkpoint())

        with Stopwatch() as watch:
            await asyncio.gather(*map(one_thread, self._threads, work))
        self._taken += steps
        return watch.sample()

    def scatter(self, every: int) -> None:
        """Read back every so many of the threads whole, and close the store."""
        self._loop.run_until_complete(self._scatter(every))

    async def _scatter(self, every: int) -> None:
        for n, thread in list(enumerate(self._threads))[::every]:
            found = _turns(await self._async_saver.aget_tuple(thread.latest))
            compare(found, self._corpus, n * APART, n * APART + self._taken)
        await self._open_saver.__aexit__(None, None, None)

    def read(self) -> list[Turn]:
        return _turns(self._saver.get_tuple(self._thread.latest))

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        return {
            "version": f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}",
            "sqlite": sqlite3.sqlite_version,
            "durability": durability.settings(self._db),
            "commits per turn": "2",
        }
