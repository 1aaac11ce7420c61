"""Clients of live streams, in this process: a follower of server-sent events, and a surface with a socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import perdure.ambient
from tests.edge.http.world import Client, World, world

PATIENCE = 20.0
"""Seconds after which a test that waits has failed."""


class Clock:
    """Real time and chance, but whoever sleeps long is woken by hand, and time can be put forward."""

    def __init__(self) -> None:
        self._real = perdure.ambient.RealAmbient()
        self._ahead = 0
        self._asleep: list[asyncio.Future[None]] = []

    def now(self) -> int:
        return self._real.now() + self._ahead

    def random(self, count: int) -> bytes:
        return self._real.random(count)

    async def sleep(self, seconds: float) -> None:
        if seconds < 0.5:
            await self._real.sleep(seconds)
            return
        woken = asyncio.get_running_loop().create_future()
        self._asleep.append(woken)
        await woken

    async def pass_by(self, seconds: int) -> None:
        """Let whole seconds pass, one after the other."""
        for _ in range(seconds):
            await until(lambda: bool(self._asleep))
            self._ahead += 1_000_000
            asleep, self._asleep = self._asleep, []
            for woken in asleep:
                if not woken.done():
                    woken.set_result(None)
            await turns()


async def turns(count: int = 5) -> None:
    """Let other tasks have their turns."""
    for _ in range(count):
        await perdure.ambient.RealAmbient().sleep(0)


async def until(holds: Any) -> None:
    """Wait until something holds."""
    for _ in range(int(PATIENCE / 0.002)):
        if holds():
            return
        await perdure.ambient.RealAmbient().sleep(0.002)
    raise AssertionError("it never came to hold")


class Told(NamedTuple):
    """One server-sent event."""

    id: int | None
    event: str
    data: Any


class Follower:
    """Somebody who follows a stream: a connection of which one sees every piece."""

    def __init__(self, client: Client, target: str, headers: dict[str, str] | None = None) -> None:
        self.status = 0
        self.pieces: list[bytes] = []
        self.whole = False
        self.open = asyncio.Event()
        self.open.set()
        """Cleared, the client takes nothing more."""
        self._gone = asyncio.Event()
        self._asked = False
        parts = urlsplit(target)
        sent = {"host": "127.0.0.1:7464", "accept": "text/event-stream", **(headers or {})}
        if client.credential is not None:
            sent["authorization"] = f"Bearer {client.credential}"
        self._scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": (client.address, 50000),
        }
        self.task = asyncio.create_task(client.world.application(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        await self.open.wait()
        self.pieces.append(message["body"])
        self.whole = not message.get("more_body", False)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def told(self) -> list[Told]:
        """What was told so far."""
        found = []
        for block in self.body.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in fields:
                number = int(fields["id"]) if "id" in fields else None
                found.append(Told(number, fields["event"], json.loads(fields["data"])))
        return found

    def ids(self) -> list[int]:
        """The ids that were told, in order."""
        return [item.id for item in self.told() if item.id is not None]

    async def upto(self, version: int) -> list[Told]:
        """What was told once this id was."""
        await until(lambda: f"id: {version}\n".encode() in self.body and self.body.endswith(b"\n\n"))
        return self.told()

    async def ended(self) -> Told:
        """The last word, once the stream is over."""
        await asyncio.wait_for(self.task, PATIENCE)
        assert self.whole
        return self.told()[-1]

    async def hang_up(self) -> None:
        self._gone.set()
        self.open.set()
        await asyncio.wait_for(self.task, PATIENCE)


class Socket:
    """A surface attached by WebSocket."""

    def __init__(self, client: Client, target: str, headers: dict[str, str] | None = None, *offered: str) -> None:
        self.messages: list[Any] = []
        self.accepted: Any = None
        self.refused: Any = None
        self.body = b""
        self.closed: Any = None
        self.open = asyncio.Event()
        self.open.set()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._said.put_nowait({"type": "websocket.connect"})
        parts = urlsplit(target)
        sent = {"host": "127.0.0.1:7464"}
        if client.credential is not None:
            sent["authorization"] = f"Bearer {client.credential}"
        sent |= headers or {}
        scope = {
            "type": "websocket",
            "scheme": "ws",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items() if value],
            "client": (client.address, 50000),
            "subprotocols": list(offered),
            "extensions": {"websocket.http.response": {}},
        }
        self.task = asyncio.create_task(client.world.application(scope, self._said.get, self._send))

    async def _send(self, message: Any) -> None:
        await self.open.wait()
        if message["type"] == "websocket.accept":
            self.accepted = message
        elif message["type"] == "websocket.send":
            self.messages.append(json.loads(message["text"]))
        elif message["type"] == "websocket.http.response.start":
            self.refused = message["status"]
        elif message["type"] == "websocket.http.response.body":
            self.body += message["body"]
        else:
            self.closed = message["code"]

    def say(self, kind: str, **fields: Any) -> None:
        self.say_text(json.dumps({"type": kind, **fields}))

    def say_text(self, text: str) -> None:
        self._said.put_nowait({"type": "websocket.receive", "text": text})

    def say_bytes(self, data: bytes) -> None:
        self._said.put_nowait({"type": "websocket.receive", "bytes": data})

    def heard(self, kind: str) -> list[Any]:
        """The messages of a type so far."""
        return [message for message in self.messages if message["type"] == kind]

    async def hears(self, kind: str, count: int = 1) -> Any:
        """The so-manieth message of a type."""
        await until(lambda: len(self.heard(kind)) >= count or self.task.done())
        return self.heard(kind)[count - 1]

    async def over(self) -> int:
        """How it was closed, or refused."""
        await asyncio.wait_for(self.task, PATIENCE)
        return int(self.closed if self.refused is None else self.refused)

    async def hang_up(self) -> None:
        self._said.put_nowait({"type": "websocket.disconnect", "code": 1006})
        self.open.set()
        await asyncio.wait_for(self.task, PATIENCE)


@asynccontextmanager
async def live(store: str = ":memory:", **facts: Any) -> AsyncIterator[tuple[World, Clock]]:
    """A server whose hub runs, and the clock it runs by."""
    clock = Clock()
    async with world(store, clock, **facts) as here:
        running = asyncio.create_task(here.node.hub.run())
        try:
            yield here, clock
        finally:
            await here.node.hub.leave()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def said(client: Client, session: str, *texts: str) -> int:
    """Append messages, one event each; the version."""
    events = [{"kind": "noted", "data": {"by": "test", "about": "text", "data": {"text": text}}} for text in texts]
    reply = await client.post(f"/v1/sessions/{session}/events", {"events": events})
    assert reply.status == 201, reply
    return int(reply.json["version"])
