"""LangGraph's SqliteSaver: one graph step per turn, stored as the engine stores it.

The step's output goes to `put_writes`, then the checkpoint with the whole `messages` channel to `put`. A
graph with a tool loop takes several steps for such a turn and pays for each; here a turn is one step.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from bench import durability
from bench.corpus import Corpus, Turn, compact


def _messages(one: Turn) -> list[AnyMessage]:
    call = one["call"]
    asked = {"name": one["tool"], "args": one["arguments"], "id": call, "type": "tool_call"}
    return [
        HumanMessage(one["user"], id=f"{call}-0"),
        AIMessage("", id=f"{call}-1", tool_calls=[asked]),
        ToolMessage(compact(one["result"]), id=f"{call}-2", tool_call_id=call, name=one["tool"]),
        AIMessage(one["answer"], id=f"{call}-3"),
    ]


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        pass

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
        self._saver = SqliteSaver(self._db)
        self._saver.setup()
        self._db.execute("PRAGMA synchronous=FULL")
        self._config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        self._history: list[AnyMessage] = []
        self._step = 0
        self._put()

    def append(self, turns: list[Turn]) -> None:
        for one in turns:
            new = _messages(one)
            task = str(uuid6(clock_seq=self._step))
            self._saver.put_writes(self._config, [("messages", new)], task, "~__pregel_pull, agent")
            self._history = [*self._history, *new]
            self._step += 1
            self._put()

    def _put(self) -> None:
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
        metadata: Any = {"source": "loop", "step": self._step, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, channel)

    def read(self) -> list[Turn]:
        found = self._saver.get_tuple({"configurable": {"thread_id": "s", "checkpoint_ns": ""}})
        if found is None:
            return []
        messages: list[Any] = found.checkpoint["channel_values"]["messages"]
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

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        return {
            "version": f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}",
            "sqlite": sqlite3.sqlite_version,
            "durability": durability.settings(self._db),
            "commits per turn": "2",
        }
