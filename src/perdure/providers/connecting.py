"""Connections to one address over HTTP/1.1, which post a body, hear the answer and are used again.

That is all that asking a model takes, and a client library made for everything spends more on it than the rest of a
call does. The parser is httptools', as in the server. Invariants: one question is under way on a connection at a time;
after anything but a whole answer that lets it live, a connection is gone; nothing is decoded, followed or remembered.
"""

import asyncio
import select
from collections.abc import Mapping
from typing import Any, Final

import httptools

from perdure.ports.provider import Gate
from perdure.providers.posting import Address

HEAD: Final = 64 << 10
"""Bytes that say nothing, at most: of a head, between parts of a body, after it."""
AHEAD: Final = 256 << 10
"""Bytes that may have come before anybody reads them; then the sender has to wait."""
IDLE: Final = 15.0
"""Seconds after which an idle connection is not trusted to be there still."""


class NotHttp(ValueError):
    """What came is no answer."""


class Unreached(OSError):
    """There was no connection in time."""


class Cut(OSError):
    """The connection was closed too early."""


class Reply:
    """An answer, from its head on. Whoever does not read it to its end closes it."""

    def __init__(self, connection: "Connection") -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.began = False
        self.ended = False
        self.failed: Exception | None = None
        self._connection = connection
        self._parts: list[bytes] = []
        self._size = 0
        self.paused = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def content_type(self) -> str:
        """What it says it is, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def head(self) -> None:
        """Return when its head has come; raise what came instead."""
        while not self.began:
            await self._more()

    async def read(self) -> bytes:
        """All that has come since the last time, at least something; nothing at its end."""
        while not self._parts:
            if self.ended:
                return b""
            await self._more()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self.paused:
            self.paused = False
            self._connection.go_on()
        return data

    def close(self) -> None:
        """Hang up, unless all has come."""
        if not self.ended:
            self._connection.drop(Cut("nobody listened any more"))

    async def _more(self) -> None:
        if self.failed is not None:
            raise self.failed
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # ── told by the connection ──

    def take(self, data: bytes) -> bool:
        """More of the body; whether that is enough for now."""
        self._parts.append(data)
        self._size += len(data)
        self.paused = self._size > AHEAD
        self.wake()
        return self.paused

    def fail(self, error: Exception) -> None:
        """What broke it off."""
        self.failed = error
        self.wake()

    def wake(self) -> None:
        """Have whoever waits look again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Connection(asyncio.Protocol):
    """One connection. Its parser calls the methods that begin with `on_`."""

    def __init__(self, connections: "Connections") -> None:
        self.since = 0.0
        self._connections = connections
        self._transport: Any = None
        self._reply: Reply | None = None
        self._parser: Any = None
        self._heard = 0
        self._interim = self._keeps = self._stray = False

    @property
    def open(self) -> bool:
        """Whether it can be asked by."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def quiet(self) -> bool:
        """Whether it can be asked by, and has nothing to say unasked: not even that it is closed, or an answer nobody
        has heard yet because the event loop was busy.
        """
        return self.open and not _readable(self._transport.get_extra_info("socket").fileno())

    def ask(self, request: bytes) -> Reply:
        """Send a request; its answer is on the way."""
        reply = Reply(self)
        self._parser = httptools.HttpResponseParser(self)
        self._heard, self._interim, self._keeps, self._stray = 0, False, False, False
        self._transport.write(request)
        self._reply = reply
        return reply

    def drop(self, error: Exception) -> None:
        """Hang up."""
        self._left(error)
        if self._transport is not None:
            self._transport.abort()

    def go_on(self) -> None:
        """Hear more."""
        if self.open and self._reply is not None:
            self._transport.resume_reading()

    def _left(self, error: Exception | None) -> None:
        """The question under way, if there is one, is over."""
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if error is not None:
            reply.fail(error)
        keep = error is None and self._keeps and not self._stray and self.open
        if reply.paused:
            reply.paused = False
            if keep:
                self._transport.resume_reading()
        # Who answers before hearing all of a question may never hear the rest, and the next one stands behind it.
        self._connections.left(self, keep=keep and not self._transport.get_write_buffer_size())

    # ── asyncio's ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of an answer; what nobody asked for ends the connection."""
        reply = self._reply
        if reply is None:
            self._transport.abort()
            return
        self._heard += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.drop(NotHttp(str(error) or "it wants to speak something else"))
            return
        if reply.ended:
            self._left(None)
        elif self._heard > HEAD:
            self.drop(NotHttp(f"there is nothing said in more than {HEAD} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone. An answer that has no length of its own is whole then."""
        reply = self._reply
        if reply is not None and reply.began and exc is None and not _measured(reply.headers):
            reply.ended = True
            reply.wake()
        self._left(None if reply is not None and reply.ended else exc or Cut("the connection was closed"))
        self._connections.lost(self)
        self._transport = None

    # ── the parser's ──

    def on_message_begin(self) -> None:
        """One more answer; there should be no second one."""
        self._stray = self._reply is None or self._reply.ended

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what comes after the body is passed over."""
        if self._reply is not None and not self._reply.began:
            key, told = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
            before = self._reply.headers.get(key)
            self._reply.headers[key] = told if before is None else f"{before}, {told}"

    def on_headers_complete(self) -> None:
        """Its head, or one that only says that there will be one."""
        reply = self._reply
        if reply is None or reply.ended:
            return
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
            reply.headers.clear()
            return
        reply.status, reply.began = status, True
        reply.wake()

    def on_body(self, data: bytes) -> None:
        """Some of its body."""
        self._heard = 0
        if self._reply is not None and not self._reply.ended and self._reply.take(data):
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Its end."""
        if self._interim:
            self._interim = False
        elif self._reply is not None and not self._reply.ended:
            self._keeps = self._parser.should_keep_alive()
            self._reply.ended = True
            self._reply.wake()


class Connections:
    """Those to one address, at most `limit` at a time. On one event loop. Raises `Unsayable` for what is no address."""

    def __init__(self, address: str, *, limit: int, patience: float) -> None:
        self._address = Address(address)
        self._patience = patience
        self._room = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._context: Any = None
        self._closed = False

    async def post(self, path: str, headers: Mapping[str, str], body: bytes, after: Gate | None = None) -> Reply:
        """Post a body; the answer, from its head on. Before `after` has come not a byte is sent."""
        request = self._address.post(path, headers, body)
        await self._room.acquire()
        connection: Connection | None = None
        try:
            self._must_be_open()
            connection = self._reused() or await self._connected()
            if after is not None:
                await after.wait()
                self._must_be_open()
                if not connection.quiet:
                    connection = await self._connected()
            reply = connection.ask(request)
        except BaseException:
            self._room.release()
            if connection is not None and connection.open and not self._closed:
                self._idle.append(connection)
            raise
        try:
            await reply.head()
        except BaseException:
            reply.close()
            raise
        return reply

    def left(self, connection: Connection, *, keep: bool) -> None:
        """A connection's question is over."""
        self._room.release()
        if keep and not self._closed:
            connection.since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        elif connection.open:
            connection.drop(Cut("it is not used again"))

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Hang up everywhere, and ask no more."""
        self._closed = True
        for connection in tuple(self._all):
            connection.drop(Cut("the client was closed"))

    # ── making and keeping ──

    def _must_be_open(self) -> None:
        if self._closed:
            raise Cut("the client was closed")

    def _reused(self) -> Connection | None:
        """The one that was used last: the others may rest."""
        while self._idle:
            connection = self._idle.pop()
            if connection.quiet and asyncio.get_running_loop().time() - connection.since < IDLE:
                return connection
            connection.drop(Cut("it was idle for too long"))
        return None

    async def _connected(self) -> Connection:
        loop = asyncio.get_running_loop()
        host, port = self._address.host, self._address.port
        more: dict[str, Any] = {"ssl": self._secured(), "server_hostname": host} if self._address.tls else {}
        try:
            async with asyncio.timeout(self._patience):
                _, connection = await loop.create_connection(lambda: Connection(self), host, port, **more)
        except TimeoutError as late:
            raise Unreached(f"no connection within {self._patience:g} seconds") from late
        connection.since = loop.time()
        self._all.add(connection)
        if self._closed:  # meanwhile
            connection.drop(Cut("the client was closed"))
            self._must_be_open()
        return connection

    def _secured(self) -> Any:
        if self._context is None:
            import ssl

            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


def _measured(headers: Mapping[str, str]) -> bool:
    """Whether an answer says by itself where it ends."""
    last = headers.get("transfer-encoding", "").lower().rpartition(",")[2].strip()
    return "content-length" in headers or last == "chunked"


def _readable(number: int) -> bool:
    """Whether there is something to hear on a socket, or its end."""
    if not hasattr(select, "poll"):  # Windows, which takes any number here
        return bool(select.select([number], [], [], 0)[0])
    look = select.poll()
    look.register(number, select.POLLIN)
    return bool(look.poll(0))
