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
from bench.clock import Sample, Stopwatch
from bench.corpus import Corpus, Turn
from bench.worker import Differs, compare

_KEY = {"app_name": "bench", "user_id": "u"}
LISTED = {"app_name": "bench", "user_id": "many"}
CROWD = 64
"""So many sessions are made at once."""


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


def _turns(stored: Any) -> list[Turn]:
    """The corpus' form of a session's events."""
    parts: list[Any] = [event.content.parts[0] for event in stored.events if event.content] if stored else []
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


def _state(number: int) -> dict[str, Any]:
    """The state of a session that is listed."""
    return {"title": f"bench {number}", "number": number}


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._loop = asyncio.new_event_loop()
        self._service: Any = None

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._connect()
        self._session = self._loop.run_until_complete(self._service.create_session(**_KEY, session_id="s"))

    def _connect(self) -> None:
        """Open the store and make the service."""
        self._path = str(self._folder / "adk.db")
        self._service = SqliteSessionService(self._path)

    def append(self, turns: list[Turn]) -> None:
        self._loop.run_until_complete(self._append(turns))

    async def _append(self, turns: list[Turn]) -> None:
        for one in turns:
            for event in _events(one):
                await self._service.append_event(self._session, event)

    def read(self) -> list[Turn]:
        return _turns(self._loop.run_until_complete(self._service.get_session(**_KEY, session_id="s")))

    def concurrent(self, sessions: int) -> dict[str, Any]:
        """A turn for each of many sessions at once. What the store refuses as busy is tried again, and counted."""
        return self._loop.run_until_complete(self._concurrent(sessions))

    async def _concurrent(self, sessions: int) -> dict[str, Any]:
        made = [await self._service.create_session(**_KEY, session_id=f"at once {n}") for n in range(sessions)]
        refused = 0

        async def one_session(number: int) -> None:
            nonlocal refused
            for event in _events(self._corpus[number]):
                while True:
                    try:
                        await self._service.append_event(made[number], event)
                    except sqlite3.OperationalError:
                        refused += 1
                    else:
                        break

        with Stopwatch() as watch:
            await asyncio.gather(*map(one_session, range(sessions)))
        for number, one in enumerate(made):
            stored = await self._service.get_session(**_KEY, session_id=one.id)
            compare(_turns(stored), self._corpus, number, number + 1)
        return {**watch.sample(), "refused": refused}

    def populate(self, sessions: int) -> None:
        """Sessions with a small state and no events, for listing."""
        self._loop.run_until_complete(self._populate(sessions))

    async def _populate(self, sessions: int) -> None:
        """Made in memory and then copied to the file, for one by one on disk they take half a minute."""
        memory = SqliteSessionService(":memory:")
        await self._create(memory, sessions)
        file = sqlite3.connect(self._path, check_same_thread=False)
        async with memory._get_db_connection() as made:
            await made.backup(file)
        file.close()
        await memory.close()

    @staticmethod
    async def _create(service: Any, sessions: int) -> None:
        for first in range(0, sessions, CROWD):
            numbers = range(first, min(sessions, first + CROWD))
            made = (service.create_session(**LISTED, session_id=f"s{n}", state=_state(n)) for n in numbers)
            await asyncio.gather(*made)

    def listing(self, sessions: int, times: int) -> list[Sample]:
        """All sessions of the user who has many."""
        return self._loop.run_until_complete(self._listing(sessions, times))

    async def _listing(self, sessions: int, times: int) -> list[Sample]:
        samples: list[Sample] = []
        for _ in range(times):
            with Stopwatch() as watch:
                found = await self._service.list_sessions(**LISTED)
            samples.append(watch.sample())
            if {one.id: one.state for one in found.sessions} != {f"s{n}": _state(n) for n in range(sessions)}:
                raise Differs(f"{len(found.sessions)} sessions listed are not the {sessions} that were made")
        return samples

    def close(self) -> None:
        self._loop.run_until_complete(self._service.close())

    def facts(self) -> dict[str, str]:
        return {
            "version": f"google-adk {version('google-adk')}",
            "sqlite": sqlite3.sqlite_version,
            "durability": durability.defaults(self._path),
            "commits per turn": "4",
        }
