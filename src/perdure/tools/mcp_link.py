"""One connection to an MCP server, over stdio or streamable HTTP.

The connection lives in a task of its own, which opens and closes it: whoever calls a tool may come and go. Invariant:
when the task has ended or the server has hung up, the link is dead and stays so.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TextIO, TypeAlias

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import told

if TYPE_CHECKING:
    from mcp import Client

LARGEST: Final = 64 * 1024 * 1024
"""The longest message a server may send over HTTP as an event."""
CLOSING: Final = 10.0
"""How long a server has to go when it is told to."""
Era: TypeAlias = Literal["auto", "legacy"]
"""Whether the newest form of the protocol is tried first, or only the handshake of old servers."""


class StdioServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server that is started as a process and spoken to over its pipes.

    Of our environment it sees only what every program needs, and `env`. `log` is a file for what it writes to stderr.
    """

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    log: str = ""
    protocol: Era = "auto"
    connect_timeout: float = 30.0

    def __repr__(self) -> str:
        return f"StdioServer(command={self.command!r})"  # args and env may hold secrets


class HttpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server that is spoken to over streamable HTTP."""

    url: str
    headers: dict[str, str] = {}
    protocol: Era = "auto"
    connect_timeout: float = 30.0

    def __repr__(self) -> str:
        return "HttpServer()"  # the address and the headers may hold secrets


Server: TypeAlias = StdioServer | HttpServer


class Broken(Exception):
    """The server cannot be reached, or does not speak MCP."""


class Link:
    """One connection. `unsent` says that it broke before anything was sent that could have run a tool."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.in_flight = 0
        self.unsent = False
        self._hung_up = asyncio.Event()
        self._end = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name="perdure-mcp")

    @property
    def dead(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return self._task.done() or self._hung_up.is_set()

    async def client(self) -> "Client":
        """The client, once the server has answered; `Broken` when it does not."""
        await asyncio.wait({self._client}, timeout=self.server.connect_timeout)
        if not self._client.done():
            await self.close()
            raise Broken(f"it did not answer within {self.server.connect_timeout:g} s")
        return self._client.result()

    async def ended(self, seconds: float) -> None:
        """Wait until the task has ended, for so long at most."""
        await asyncio.wait({self._task}, timeout=seconds)

    async def close(self) -> None:
        """Hang up; a server that was started here is ended."""
        self._end.set()
        if not self._client.done():
            self._task.cancel()
        await self.ended(CLOSING)
        if not self._task.done():
            self._task.cancel()
            await self.ended(CLOSING)

    async def _live(self) -> None:
        try:
            await asyncio.to_thread(import_module, "mcp")  # takes a second, in which the loop goes on
            from mcp import Client
            from mcp.types import Implementation

            client = Client(
                self._transport(),
                mode=self.server.protocol,
                client_info=Implementation(name="perdure", version="1"),
                read_timeout_seconds=self.server.connect_timeout,
                cache=None,
            )
            async with client:
                if not self._client.done():
                    self._client.set_result(client)
                await self._end.wait()
        except Exception as error:  # whatever ends a connection is told to those who wait for it
            self._note(error)
        finally:
            if not self._client.done():
                self._client.set_exception(Broken("the connection was given up"))
                self._client.exception()  # seen, even if nobody waits

    def _note(self, error: Exception) -> None:
        found = list(_leaves(error))
        names = {kind.__name__ for leaf in found for kind in type(leaf).__mro__}
        self.unsent = self.in_flight <= 1 and not names.isdisjoint({"ConnectError", "ConnectTimeout"})
        if not self._client.done():
            self._client.set_exception(Broken("; ".join(dict.fromkeys(map(_words, found)))))
            self._client.exception()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        if isinstance(self.server, StdioServer):
            async with self._piped(self.server) as streams:
                yield streams
        else:
            async with self._posted(self.server) as streams:
                yield streams

    @asynccontextmanager
    async def _piped(self, server: StdioServer) -> AsyncIterator[tuple[Any, Any]]:
        from mcp import StdioServerParameters, stdio_client

        started = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
        )
        with _log(server.log) as log:
            async with stdio_client(started, errlog=log) as (read, write):
                yield _Heard(read, self._hung_up), write

    @asynccontextmanager
    async def _posted(self, server: HttpServer) -> AsyncIterator[tuple[Any, Any]]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # Reading has no limit of its own: every call has one, and some tools take their time.
        limits = httpx2.Timeout(server.connect_timeout, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(server.headers), timeout=limits) as client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=LARGEST) as streams,
        ):
            yield streams


class _Heard:
    """A stream of messages that notes when the other side has hung up."""

    def __init__(self, stream: Any, hung_up: asyncio.Event) -> None:
        self._stream = stream
        self._hung_up = hung_up

    def __aiter__(self) -> "_Heard":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._hung_up.set()
            raise

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)


@contextmanager
def _log(path: str) -> Iterator[TextIO]:
    with open(path or os.devnull, "a", encoding="utf-8") as log:
        yield log


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _words(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in ("mcp", "httpx2"):
        return "MCP servers need the extra: pip install 'perdure[mcp]'"
    return error.message if isinstance(error, Invalid) else told(error)
