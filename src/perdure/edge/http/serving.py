"""Serving: from settings to a listening socket, and back in order when it is time to leave.

Leaving: readiness says no, live streams are told, requests under way finish, the audit log is written out, the store
is closed.
"""

import asyncio
import gc
import logging
import os
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.compose import Services
from perdure.compose.tenants import Tenants
from perdure.core.errors import Invalid, PerdureError, Refused, WorldError
from perdure.edge.http.asgi import Receive, Scope, Send
from perdure.edge.http.building import build
from perdure.edge.http.configuring import masked
from perdure.edge.http.node import Node
from perdure.edge.http.settings import Settings
from perdure.edge.http.welcome import Welcome, welcome
from perdure.edge.library import AsyncPerdure
from perdure.edge.tls import server_context

if TYPE_CHECKING:
    from perdure.services.timeouts import SweepReport

log: Final = logging.getLogger("perdure.server")
KEEP_ALIVE: Final = 30
BACKLOG: Final = 2048
ROOM: Final = 60_000
"""Connections at once, if the system has files for so many."""
RESERVED: Final = 200
"""Files that are kept for the store, its readers and webhooks."""
PATIENCE: Final = 5.0
COLLECTING: Final = (20_000, 10, 20)
"""How many new objects set the collector going; a request makes a few hundred."""
Told = Callable[[Welcome], None]


def serve(
    settings: Settings, opened: Callable[[], Tenants], told: Told, stopped: Callable[[], None], *, keys: bool = True
) -> None:
    """Serve a store until told to stop; it is opened once nothing else is known to stand in the way.

    `told` hears where to click once the server is ready, `stopped` that the store is closed. Without `keys` nobody is
    made a key or a link, whatever the address.
    """
    import uvicorn

    must_be_startable(settings)
    sock = listening(settings)
    life = Life(sock, settings, told, stopped, keys=keys)
    try:
        application = build(settings, opened(), life)

        class Server(uvicorn.Server):
            """uvicorn's server, which lets our streams end before it waits for them."""

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                await life.leave()
                await super().shutdown(sockets)

        Server(_config(uvicorn, application, settings)).run(sockets=[sock])
    except SystemExit:
        if life.failed is None:
            raise
    finally:
        sock.close()
    if life.failed is not None:
        raise life.failed


def _config(uvicorn: Any, application: Any, settings: Settings) -> Any:
    from perdure.edge.http.protocol import Patient

    tls: dict[str, Any] = {}
    if settings.tls_cert is not None:
        tls["ssl_context_factory"] = lambda *_: server_context(settings)
    return uvicorn.Config(
        application,
        loop="auto",
        http=Patient.within(settings.request_timeout, room()),
        ws="websockets-sansio",
        ws_max_size=settings.max_body,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace)),
        ws_per_message_deflate=False,
        backlog=BACKLOG,
        **tls,
    )


def room() -> int:
    """How many connections there are files for: all that the system gives, but for those that the store needs."""
    if sys.platform == "win32":
        return ROOM
    import resource

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ROOM + RESERVED if most == resource.RLIM_INFINITY else min(most, ROOM + RESERVED)
    if 0 <= files < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            files = wanted
    return max(1, min(ROOM, (ROOM if files < 0 else files) - RESERVED))


def listening(settings: Settings) -> socket.socket:
    """The socket to serve on; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.host, settings.port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as wrong:
        sock.close()
        told = f"cannot listen on {settings.host}:{settings.port} ({wrong}); choose another --port or --host"
        raise Refused(told, host=settings.host, port=settings.port) from wrong
    return sock


class Life:
    """A server's life, as ASGI tells it."""

    def __init__(
        self,
        sock: socket.socket,
        settings: Settings,
        told: Told,
        stopped: Callable[[], None] = lambda: None,
        *,
        keys: bool = True,
    ) -> None:
        self._sock = sock
        self._settings = settings
        self._told = told
        self._stopped = stopped
        self._keys = keys
        self._node: Node | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.failed: BaseException | None = None

    def __call__(self, node: Node) -> Any:
        """The ASGI application for the life of this node."""
        self._node = node
        return self._live

    async def _live(self, _: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._begin()
        except BaseException as error:  # uvicorn only wants to know that it failed; `serve` raises what it was
            self.failed = error
            await self._end()
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._end()
        log.info("stopped")
        self._stopped()
        await send({"type": "lifespan.shutdown.complete"})

    async def _begin(self) -> None:
        node = self._known()
        await node.begin()
        await must_know_somebody(node)
        found = await welcome(node, self._sock.getsockname()[1], keys=self._keys)
        self._tasks = [
            asyncio.create_task(node.hub.run(), name="perdure-hub"),
            asyncio.create_task(self._sweep(node), name="perdure-sweeper"),
            asyncio.create_task(self._reembed(node), name="perdure-reembedding"),
            asyncio.create_task(node.tenants.auditing.run(), name="perdure-audit"),
            asyncio.create_task(self._post(node), name="perdure-webhooks"),
        ]
        _settle_memory()
        log.info("ready", extra={"url": found.url, "store": "sqlite" if is_file(self._settings) else "postgresql"})
        self._told(found)

    async def _sweep(self, node: Node) -> None:
        """See to sessions whose time has come, of every tenant."""

        async def sweep(services: Services, tenant: str) -> None:
            tell_of_memories(await AsyncPerdure(services).sweep(), tenant)

        await self._again(node, sweep, "a sweep broke off")

    async def _reembed(self, node: Node) -> None:
        """Make vectors that memories lack, of every tenant: beside the sweeper, since that may take long."""
        await self._again(node, reembedded, "making vectors broke off")

    async def _again(self, node: Node, see_to: Callable[[Services, str], Awaitable[None]], broke: str) -> None:
        """See to every tenant, again and again. What fails keeps neither others from their turn nor the next round."""
        if not self._settings.sweep_interval:
            return
        tenants = node.tenants
        while True:
            await tenants.ambient.sleep(self._settings.sweep_interval)
            with _going_on(broke):
                principals = (await tenants.directory.book()).principals.values()
                for tenant in sorted({one.tenant for one in principals}):
                    with _going_on(broke, tenant):
                        await see_to(tenants.services(tenant), tenant)

    async def _post(self, node: Node) -> None:
        """Tell webhooks what happens. What breaks off is taken up again."""
        while True:
            try:
                await node.tenants.posting.run()
                return  # the store was closed
            except PerdureError as trouble:
                log.warning("delivering webhooks broke off", extra={"code": trouble.code})
            except Exception:  # whatever it was, what waits is still to be delivered
                log.exception("delivering webhooks broke off")
            await node.tenants.ambient.sleep(PATIENCE)

    async def leave(self) -> None:
        """Say that the server leaves, and end what would never end by itself."""
        node = self._node
        if node is not None and not node.leaving:
            node.leaving = True
            log.info("leaving")
            await node.hub.leave()

    async def _end(self) -> None:
        await self.leave()
        for task in self._tasks:
            task.cancel()
        for task, ended in zip(self._tasks, await asyncio.gather(*self._tasks, return_exceptions=True), strict=True):
            if isinstance(ended, Exception):
                log.error("a task had broken off", exc_info=ended, extra={"task": task.get_name()})
        if self._node is not None:
            try:
                with suppress(WorldError):
                    await self._node.tenants.auditing.flush()
            finally:
                await self._node.tenants.close()

    def _known(self) -> Node:
        if self._node is None:
            raise Invalid("a life without a node; build the application first")
        return self._node


@contextmanager
def _going_on(broke: str, tenant: str | None = None) -> Iterator[None]:
    """What fails in the block is told in the log, and no more than that comes of it."""
    try:
        yield
    except PerdureError as trouble:
        log.warning(broke, extra={"tenant": tenant, "code": trouble.code})
    except Exception:  # whatever it was, others wait for their turn
        log.exception(broke, extra={"tenant": tenant})


def _settle_memory() -> None:
    """What is there now stays: the collector need not look at it again, and looks less often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTING)


def must_be_startable(settings: Settings) -> None:
    """`Refused` or `Invalid` for what can be known to go wrong before a store is opened, or even made."""
    settings.must_be_safe()
    if settings.tls_cert is not None:
        server_context(settings)
    if not settings.on_loopback and not settings.issuers and is_file(settings) and not os.path.exists(settings.store):
        raise _nobody(settings, "--create ")


async def must_know_somebody(node: Node) -> None:
    """`Refused` when others could reach the server and nobody could come in, which is no use to anyone."""
    settings = node.settings
    if settings.on_loopback or settings.issuers:
        return
    book = await node.tenants.directory.book()
    if not any(key.revoked_at is None for key in book.keys.values()):
        raise _nobody(settings)


def is_file(settings: Settings) -> bool:
    """Whether the store is a file of this machine."""
    return "://" not in settings.store


def first_key(settings: Settings, more: str = "") -> str:
    """The command that makes somebody who may do everything, and a key for them."""
    store = shlex.quote(masked(settings.store))
    return f"perdure principals add NAME --role admin --role owner --key {more}--store {store}"


def _nobody(settings: Settings, more: str = "") -> Refused:
    told = (
        f"{settings.host} can be reached by others, and nobody has a key yet: make one with "
        f"`{first_key(settings, more)}`, or name an issuer of tokens in the configuration"
    )
    return Refused(told, host=settings.host)


def announce(path: str, found: Welcome) -> None:
    """Write down where the server is, for programs that started it, in a file nobody else can read."""
    draft = f"{path}.part"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(found))
    os.replace(draft, path)


def tell_of_memories(report: "SweepReport", tenant: str) -> None:
    """Say in the log which memories of a tenant a sweep brought into order, because their plans said it was time."""
    for space, run in report.consolidated.items():
        log.info("memories were consolidated", extra={"tenant": tenant, "space": space, "found": run.found})
    for space, why in report.unconsolidated.items():
        log.warning("memories were not consolidated", extra={"tenant": tenant, "space": space, "why": why})


async def reembedded(services: Services, tenant: str) -> None:
    """Make the vectors that memories of a tenant lack, as after another embedder was chosen."""
    swept = await services.memories.reembedding.sweep()
    for space, count in swept.made.items():
        log.info("memories were embedded", extra={"tenant": tenant, "space": space, "memories": count})
    for space, why in swept.failed.items():
        log.warning("memories were not embedded", extra={"tenant": tenant, "space": space, "why": why})
