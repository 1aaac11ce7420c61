"""A server in a process of its own, and a crowd that follows one session there: how much is told, and what it costs.

Run by itself it prints the figures: `python -m tests.edge.http.crowd 1000 200`.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import perdure.ambient
import perdure.waiting

AMBIENT = perdure.ambient.RealAmbient()
READY_SECONDS = 30.0
UNHURRIED = ("--burst", "100000", "--session-burst", "100000")
"""Flags of a server that lets one principal ask as often as a crowd does."""


class Served(NamedTuple):
    """Where a server is, a key for it, and its process."""

    url: str
    key: str
    process: subprocess.Popen[bytes]

    @property
    def place(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    @property
    def memory(self) -> int:
        """Bytes of memory the process holds."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def served(folder: Path, *flags: str) -> Iterator[Served]:
    """A server over a new store in a folder, stopped in the end."""
    told = folder / "told.json"
    command = [sys.executable, "-m", "perdure", "serve", "--store", str(folder / "served.db"), "--port", "0"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--announce", str(told), *flags], stdout=log, stderr=log, cwd=folder, env=_environment()
        )
    try:
        for _ in range(int(READY_SECONDS / 0.02)):
            if told.exists() or process.poll() is not None:
                break
            perdure.waiting.drive(AMBIENT.sleep(0.02))
        assert told.exists(), (folder / "server.log").read_text()
        found = json.loads(told.read_text())
        here = Served(found["url"], found["key"], process)
        _await_listening(here)
        yield here
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_listening(here: Served) -> None:
    for _ in range(int(READY_SECONDS / 0.02)):
        try:
            socket.create_connection(here.place).close()
        except ConnectionRefusedError:
            perdure.waiting.drive(AMBIENT.sleep(0.02))
        else:
            return


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}


async def ask(here: Served, method: str, path: str, body: Any = None) -> Any:
    """One request, answered with JSON."""
    data = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(*here.place)
    writer.write(
        f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(here.url).netloc}\r\nauthorization: Bearer {here.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n".encode()
        + data
    )
    answer = await reader.read()
    writer.close()
    head, _, payload = answer.partition(b"\r\n\r\n")
    assert head.split()[1] in (b"200", b"201"), answer
    return json.loads(payload)


class Follower:
    """A raw connection that follows a session; counts what it is told and looks at nothing else."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.raw = b""
        self._writer: asyncio.StreamWriter | None = None

    async def follow(self, here: Served, session: str, after: int, upto: int) -> None:
        """Until a version was told, or the server has enough."""
        reader, self._writer = await asyncio.open_connection(*here.place)
        self._writer.write(
            f"GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: {urlsplit(here.url).netloc}\r\n"
            f"authorization: Bearer {here.key}\r\naccept: text/event-stream\r\nlast-event-id: {after}\r\n\r\n".encode()
        )
        try:
            rest = b""
            while piece := await reader.read(65536):
                assert rest or self.raw or piece.startswith(b"HTTP/1.1 200"), piece
                self.raw = (self.raw + piece)[-2048:]
                *lines, rest = (rest + piece).split(b"\n")
                self.ids += [int(line[4:]) for line in lines if line.startswith(b"id: ")]
                if self.ids and self.ids[-1] >= upto:
                    return
        finally:
            self._writer.close()


class Figures(NamedTuple):
    """What a crowd cost."""

    surfaces: int
    deliveries: int
    seconds: float
    per_second: float
    bytes_per_surface: int


async def crowd(here: Served, surfaces: int, appends: int, writers: int = 4) -> Figures:
    """Have surfaces follow one session while it is written to; `AssertionError` unless each was told everything."""
    session = (await ask(here, "POST", "/v1/sessions", {"title": "crowd"}))["session_id"]
    start = (await ask(here, "GET", f"/v1/sessions/{session}"))["version"]
    before = here.memory
    crowd = [Follower() for _ in range(surfaces)]
    following = [asyncio.create_task(each.follow(here, session, start, start + appends)) for each in crowd]
    while not all(b"retry:" in each.raw for each in crowd):
        for task in following:
            if task.done():
                task.result()
        await AMBIENT.sleep(0.05)
    attached = here.memory
    began = AMBIENT.now()

    async def write(count: int) -> None:
        note = {"kind": "noted", "data": {"by": "crowd", "about": "text", "data": {"text": "x" * 200}}}
        for _ in range(count):
            await ask(here, "POST", f"/v1/sessions/{session}/events", {"events": [note]})

    shares = [appends // writers + (index < appends % writers) for index in range(writers)]
    await asyncio.gather(*map(write, shares))
    await asyncio.gather(*following)
    seconds = (AMBIENT.now() - began) / 1_000_000
    wanted = list(range(start + 1, start + appends + 1))
    assert all(each.ids == wanted for each in crowd)
    deliveries = surfaces * appends
    held = max(attached, here.memory) - before
    return Figures(surfaces, deliveries, seconds, deliveries / seconds, held // surfaces)


def main() -> None:
    """Print the figures of a crowd."""
    surfaces, appends = (int(word) for word in (*sys.argv[1:], "1000", "200")[:2])
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), *UNHURRIED) as here:
        print(asyncio.run(crowd(here, surfaces, appends)))


if __name__ == "__main__":
    main()
