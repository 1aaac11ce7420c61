"""google-adk's SqliteSessionService: `append_event` four times a turn, once per event as its runner does.

As shipped it opens a connection per event and keeps SQLite's default rollback journal, synchronous=FULL.
"""

from __future__ import annotations

import asyncio
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from bench import durability
from bench.corpus import Corpus, Turn

_KEY = {"app_name": "bench", "user_id": "u"}


def _events(one: Turn) -> list[Event]:
    call = types.FunctionCall(id=one["call"], name=one["tool"], args=one["arguments"])
    response = types.FunctionResponse(id=one["call"], name=one["tool"], response=one["result"])
    parts = [
        ("user", "user", types.Part(text=one["user"])),
        ("agent", "model", types.Part(function_call=call)),
        ("agent", "user", types.Part(function_response=response)),
        ("agent", "model", types.Part(text=one["answer"])),
    ]
    return [
        Event(invocation_id=one["call"], author=author, content=types.Content(role=role, parts=[part]))
        for author, role, part in parts
    ]


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        self._loop = asyncio.new_event_loop()

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = str(folder / "adk.db")
        self._service = SqliteSessionService(self._path)
        self._session = self._loop.run_until_complete(self._service.create_session(**_KEY, session_id="s"))

    def append(self, turns: list[Turn]) -> None:
        self._loop.run_until_complete(self._append(turns))

    async def _append(self, turns: list[Turn]) -> None:
        for one in turns:
            for event in _events(one):
                await self._service.append_event(self._session, event)

    def read(self) -> list[Turn]:
        stored = self._loop.run_until_complete(self._service.get_session(**_KEY, session_id="s"))
        if stored is None:
            return []
        parts: list[Any] = [event.content.parts[0] for event in stored.events if event.content]
        return [
            {
                "user": user.text,
                "call": asked.function_call.id,
                "tool": asked.function_call.name,
                "arguments": asked.function_call.args,
                "result": finished.function_response.response,
                "answer": answer.text,
            }
            for user, asked, finished, answer in zip(*[iter(parts)] * 4, strict=True)
        ]

    def close(self) -> None:
        self._loop.run_until_complete(self._service.close())

    def facts(self) -> dict[str, str]:
        return {
            "version": f"google-adk {version('google-adk')}",
            "sqlite": sqlite3.sqlite_version,
            "durability": durability.defaults(self._path),
            "commits per turn": "4",
        }
