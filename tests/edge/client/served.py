"""A real server on loopback, in a thread of its own, for tests that are its clients."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import uvicorn

from perdure.core.access.roles import Role
from perdure.core.errors import AlreadyExists
from perdure.edge.http.building import build, opened
from perdure.edge.http.serving import Life, _config, listening
from perdure.edge.http.settings import Settings
from perdure.edge.http.welcome import Welcome
from perdure.waiting import drive

PATIENCE = 30.0


class Served:
    """Where a server is, and keys for whoever is to come in."""

    def __init__(self, life: Life, welcome: Welcome) -> None:
        self._life = life
        self.url = welcome.url
        self.key = welcome.key or ""

    def key_for(self, tenant: str, name: str = "local", *roles: Role) -> str:
        """A key of somebody by that name, who is an admin and an owner unless told otherwise."""
        directory = self._life._known().tenants.directory
        try:
            drive(directory.add_principal(tenant, name, by=None, roles=roles or (Role.OWNER, Role.ADMIN)))
        except AlreadyExists:
            pass
        return drive(directory.add_key(tenant, name, by=None)).spelled


@contextmanager
def served(folder: Path, **more: object) -> Iterator[Served]:
    """A server over a store in a folder, until the block is left."""
    wide = {"rate": 1e6, "burst": 10**6, "session_rate": 1e6, "session_burst": 10**6}
    settings = Settings(store=str(folder / "served.db"), port=0, anomaly="off", **wide, **more)  # type: ignore[arg-type]
    store = opened(settings)
    sock = listening(settings)
    ready, found = Event(), list[Welcome]()
    life = Life(sock, settings, lambda welcome: (found.append(welcome), ready.set())[0])

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await life.leave()
            await super().shutdown(sockets)

    server = Server(_config(uvicorn, build(settings, store, life), settings))
    thread = Thread(target=server.run, kwargs={"sockets": [sock]}, name="served")
    thread.start()
    try:
        assert ready.wait(PATIENCE), life.failed
        yield Served(life, found[0])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        sock.close()
