"""A whole barrage: a server, its sessions, the shots, and the looks at it before, between and after."""

import asyncio
import json
import random
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barrage import malformed
from barrage.fuzz import schemathesis
from barrage.judge import Tally, judged
from barrage.operations import Operations, Parts, Pool
from barrage.server import Server
from barrage.wire import Line, throw

LANES = 12
"""Connections at once."""
WARM = 0.2
"""The part of the inputs after which the server is as large as it should ever be."""
GROWTH = 160 * 1024 * 1024
"""Bytes by which its memory may still grow from then on: caches that are bounded, not yet full. After 20,000 sessions
they are: the keys of 16,384, the habits of 10,000, the states of 1,024; from there on one more takes about a kilobyte.
"""
RAW = 0.2
"""The part of the inputs that is no readable HTTP."""
FRESH = 500
"""After so many inputs there are fresh sessions, because many of the old ones have ended."""
SESSIONS = 8
MOST_PROBLEMS = 40


@dataclass(frozen=True)
class Options:
    """What is wanted of a run."""

    seed: int
    inputs: int
    minutes: float
    fuzz: int = 0
    """Examples of schemathesis per operation; 0 leaves it out."""
    fuzz_seconds: int = 600
    phases: str = "examples,coverage,fuzzing,stateful"
    first: int = 0
    """The number of the first input: one input alone is `first` and `inputs=1`."""


def run(options: Options, say: Callable[[str], None]) -> Tally:
    """Shoot, and tell what was found."""
    tally = Tally()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-barrage-") as name:
        server = Server(Path(name))
        try:
            barrage = _Barrage(server, options, tally, say)
            asyncio.run(barrage.run())
            if options.fuzz and server.alive:
                say("barrage: schemathesis")
                found, closings = schemathesis(
                    server, barrage.pool, options.seed, options.fuzz, options.fuzz_seconds, options.phases
                )
                tally.problems += found
                tally.notes += [f"schemathesis: {closing}" for closing in closings]
            if not server.alive:
                tally.problems.append(f"the server died; it said:\n{server.said()[-3000:]}")
        finally:
            code = server.end()
        if code not in (0, -signal.SIGTERM):  # the signal is passed on once all is in order
            tally.problems.append(f"the server left with {code}; it said:\n{server.said()[-3000:]}")
        tally.problems += server.complaints()
    tally.seconds = time.monotonic() - began
    return tally


class _Barrage:
    """The shots of one run."""

    def __init__(self, server: Server, options: Options, tally: Tally, say: Callable[[str], None]) -> None:
        self._server = server
        self._options = options
        self._tally = tally
        self._say = say
        self.pool = Pool(key=server.key, host=f"{server.host}:{server.port}")
        self._next = options.first
        self._end = options.first + options.inputs
        self._deadline = time.monotonic() + options.minutes * 60
        self._store = str(server.folder).encode()

    async def run(self) -> None:
        """All lanes, to the end of the inputs or of the time."""
        line = Line(self._server.host, self._server.port)
        document = await self._asked(line, "GET", "/openapi.json")
        await self._supplied(line)
        await self._remembered(line)
        self._operations = Operations(document, self.pool)
        await asyncio.gather(*(self._lane() for _ in range(LANES)))
        self._tally.after = self._server.resident()
        if not self._tally.before:
            self._tally.before = self._tally.after
        grown = self._tally.after - self._tally.before
        if grown > GROWTH:
            self._tally.problems.append(f"the server grew by {grown / 1024 / 1024:.0f} MiB after it was warm")
        if self._server.alive:
            await self._asked(line, "GET", "/readyz")
            await self._supplied(line)
        await line.close()

    async def _lane(self) -> None:
        line = Line(self._server.host, self._server.port)
        while self._next < self._end and time.monotonic() < self._deadline:
            number, self._next = self._next, self._next + 1
            if len(self._tally.problems) >= MOST_PROBLEMS or not self._server.alive:
                break
            done = number - self._options.first
            if done == int(self._options.inputs * WARM):
                self._tally.before = self._server.resident()
            if done and done % FRESH == 0:
                await self._supplied(line)
            if done and done % 20_000 == 0:
                self._say(f"barrage: {done:,} inputs, {self._server.resident() / 1024 / 1024:.0f} MiB")
            await self._shoot(line, number)
        await line.close()

    async def _shoot(self, line: Line, number: int) -> None:
        chance = random.Random(f"{self._options.seed}:{number}")
        try:
            if chance.random() < RAW:
                kind, (pieces, pause, hold) = malformed.broken(
                    chance, self.pool.host, self.pool.key, self._operations.paths
                )
                sent, readable = b"".join(pieces), False
                reply = await throw(self._server.host, self._server.port, pieces, pause, hold)
                self._tally.sent["http"] += 1
            else:
                shot = self._operations.shot(chance)
                kind, sent, readable = f"{shot.kind} of {shot.operation}", shot.request, True
                reply = await line.ask(sent, shot.bare)
                self._tally.sent[shot.kind] += 1
        except OSError as trouble:
            self._tally.problems.append(f"input {number}: the server does not take connections: {trouble}")
            return
        self._tally.answers[reply.status] += 1
        found = judged(reply, f"input {number}, {kind}", sent, readable=readable, store=self._store)
        if found is not None:
            self._tally.problems.append(found)

    # ── what is there to shoot at ──

    async def _supplied(self, line: Line) -> None:
        """Fresh sessions with a checkpoint each, a blob, a cursor; the policy as it was, so that one may shoot on."""
        pool = self.pool
        await self._asked(line, "PUT", "/v1/policies", {})
        made = []
        for n in range(SESSIONS):
            found = await self._asked(
                line, "POST", "/v1/sessions", {"title": f"target {n}", "vars": {"city": "Lisbon"}}
            )
            event = {"kind": "message", "data": {"role": "user", "content": "hello"}}
            place = f"/v1/sessions/{found['session_id']}"
            await self._asked(line, "POST", f"{place}/events", {"events": [event], "arrange": True})
            point = await self._asked(line, "POST", f"{place}/checkpoint", {"label": "here"})
            made.append((found["session_id"], point["checkpoint_id"]))
        pool.sessions[:] = [session for session, _ in made]
        pool.checkpoints[:] = [point for _, point in made]
        blob = await self._asked(line, "POST", "/v1/blobs", {"some": "content"}, "application/octet-stream")
        pool.blobs[:] = [blob["sha256"]]
        page = await self._asked(line, "GET", "/v1/sessions?limit=1")
        pool.cursors[:] = [page["cursor"]] if page["cursor"] else []

    async def _remembered(self, line: Line) -> None:
        """Notes that are searched and laid beside each other: what is loaded for that, once, is no growth."""
        for content in ("Prefers a window seat on night trains", "On night trains a window seat is preferred"):
            await self._asked(line, "POST", "/v1/memory", {"content": content, "memory_type": "preference"})
        await self._asked(line, "POST", "/v1/memory/search", {"query": "Which seat?"})
        await self._asked(line, "POST", "/v1/memory/consolidate", {})

    async def _asked(
        self, line: Line, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> dict[str, Any]:
        """An honest request, which must be answered well."""
        headers = {"Host": self.pool.host, "Authorization": f"Bearer {self.pool.key}", "Content-Type": media}
        parts = Parts(method, path, headers=headers, body=None if body is None else json.dumps(body).encode())
        reply = await line.ask(parts.bytes())
        if not 200 <= reply.status < 300:
            raise Unserved(f"{method} {path} was answered with {reply.status}: {reply.body[:1000]!r}")
        found: dict[str, Any] = json.loads(reply.body)
        return found


class Unserved(RuntimeError):
    """An honest request between the shots was not served."""
