"""A server in this process, without a socket: requests go to the ASGI application as uvicorn would hand them over."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from perdure.compose.tenants import Tenants
from perdure.core.access.roles import Role
from perdure.edge.http.app import Application
from perdure.edge.http.building import build, opened
from perdure.edge.http.node import Node
from perdure.edge.http.settings import Settings
from perdure.ports.ambient import Ambient


class Reply:
    """What came back."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"Reply({self.status}, {self.body[:500]!r})"


class World:
    """An application over a store, and clients of it."""

    def __init__(self, application: Application, store: Tenants) -> None:
        self.application = application
        self.node: Node = application.node
        self.store = store

    async def principal(self, name: str, *roles: Role, tenant: str = "local", **facts: Any) -> "Client":
        """Somebody new, with a key."""
        directory = self.store.directory
        made = await directory.add_principal(tenant, name, by=None, roles=roles or (Role.OWNER,), **facts)
        key = await directory.add_key(tenant, made.id, by=None)
        return Client(self, key.spelled)


class Client:
    """Somebody who asks with a credential."""

    def __init__(self, world: World, credential: str | None = None, address: str = "127.0.0.1") -> None:
        self.world = world
        self.credential = credential
        self.address = address

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        leaves: asyncio.Event | None = None,
    ) -> Reply:
        """One request, whole. Whoever asks hangs up as soon as it is sent, or when `leaves` says so; who got no answer
        has the status 0.
        """
        parts = urlsplit(target)
        sent = {"host": "127.0.0.1:7464", "user-agent": "tests"}
        if self.credential is not None:
            sent["authorization"] = f"Bearer {self.credential}"
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        if body is not None:
            sent["content-type"] = "application/json"
        if data:
            sent["content-length"] = str(len(data))
        sent |= headers or {}
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": (self.address, 50000),
        }
        asked = [{"type": "http.request", "body": data, "more_body": False}]
        told: list[Any] = []

        async def receive() -> Any:
            if not asked and leaves is not None:
                await leaves.wait()
            return asked.pop(0) if asked else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            told.append(message)

        await self.world.application(scope, receive, send)
        if leaves is not None and not told:
            return Reply(0, [], b"")
        body_sent = b"".join(item.get("body", b"") for item in told[1:])
        return Reply(told[0]["status"], told[0]["headers"], body_sent)

    async def get(self, target: str, **more: Any) -> Reply:
        return await self.ask("GET", target, **more)

    async def post(self, target: str, body: Any = None, **more: Any) -> Reply:
        return await self.ask("POST", target, body, **more)

    async def patch(self, target: str, body: Any = None, **more: Any) -> Reply:
        return await self.ask("PATCH", target, body, **more)

    async def put(self, target: str, body: Any = None, **more: Any) -> Reply:
        return await self.ask("PUT", target, body, **more)

    async def delete(self, target: str, **more: Any) -> Reply:
        return await self.ask("DELETE", target, **more)

    async def begun(self, **body: Any) -> str:
        """A new session's id."""
        reply = await self.post("/v1/sessions", body)
        assert reply.status == 201, reply
        return str(reply.json["session_id"])


@asynccontextmanager
async def world(store: str = ":memory:", ambient: Ambient | None = None, **facts: Any) -> AsyncIterator[World]:
    """A server over a store, closed in the end."""
    settings = msgspec.structs.replace(Settings(), store=store, **facts)
    tenants = opened(settings, ambient)
    application = build(settings, tenants, lambda _: _no_life)
    await application.node.begin()
    try:
        yield World(application, tenants)
    finally:
        await application.node.hub.leave()
        await tenants.close()


async def _no_life(_: Any, __: Any, ___: Any) -> None:
    raise AssertionError("nobody asks for a life here")
