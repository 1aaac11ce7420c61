"""Connections: uvicorn's protocol with patience that ends, and with answers that go out in one piece.

A request's head must be there within seconds and within a size, its body must keep coming, and whoever says nothing
after an answer is let go. One timer a connection looks now and then; a request costs a look at the clock.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS: Final = 15.0
"""From the first byte of a request, or from connecting, to the end of its head."""
IDLE_SECONDS: Final = 30.0
"""Without a byte, in the middle of a body."""
STREAMED: Final = (b"/v1/blobs", b"/v1/import")
LOOK_SECONDS: Final = 5.0
MAX_HEAD: Final = 64 * 1024
_NO_ROOM: Final = STATUS_LINE[503] + b"retry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Exchange(RequestResponseCycle):
    """One request and its answer. A head that tells the length of a body waits for it, and both go out together."""

    _head: bytes | None = None

    async def send(self, message: Any) -> None:
        """Send the head of an answer, or of its body what there is."""
        if message["type"] == "http.response.start" and not self.response_started:
            headers = message["headers"]
            if headers and headers[-1][0] == b"content-length":
                self._head = self._made(message["status"], headers)
                self.expected_content_length, self.chunked_encoding = int(headers[-1][1]), False
                self.response_started, self.waiting_for_100_continue = True, False
                return
        elif self._head is not None:
            if not message.get("more_body", False):
                await self._whole(message["body"])
                return
            self.transport.write(self._head)
            self._head = None
        await super().send(message)

    def _made(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The head of an answer."""
        fields = [b"%b: %b\r\n" % field for field in (*self.default_headers, *headers)]
        if not self.keep_alive:
            fields.append(b"connection: close\r\n")
        found = b"".join(fields)
        if found.count(b"\n") != len(fields):
            raise ValueError("a header of an answer has a line break in it")
        return b"%b%b\r\n" % (STATUS_LINE[status], found)

    async def _whole(self, body: bytes) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.transport.write((self._head or b"") + body)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class Patient(HttpToolsProtocol):
    """One connection."""

    body_seconds = 30.0
    """For a whole body, but for those that are streamed."""
    room = 1 << 20
    """How many connections there may be at once."""
    _heading: float | None = None
    """Since when a head is awaited; None when none is."""
    _waiting: float | None = None
    """When the last bytes of a body came that is not complete; None outside one."""
    _until: float | None = None
    """When a body must be there."""
    _idle: float | None = None
    """Since when nothing is asked for; None while something is."""
    _size = 0
    _timer: asyncio.TimerHandle | None = None

    @classmethod
    def within(cls, seconds: float, room: int) -> type["Patient"]:
        """Connections that wait so long for a body, so many of them."""
        return type("Patient", (cls,), {"body_seconds": seconds, "room": room})

    def connection_made(self, transport: Any) -> None:
        """Somebody connected, and should say something; where there is no room, they are told so."""
        if len(self.connections) >= self.room:
            self.transport = transport
            transport.write(_NO_ROOM)
            transport.close()
            return
        super().connection_made(transport)
        self._heading = self.loop.time()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if self._waiting is not None:
            self._waiting = self.loop.time()
        super().data_received(data)
        if self._heading is not None:
            self._size += len(data)
            if self._size > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response("Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._heading is None:
            self._heading = self.loop.time()
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """The head is there; the body may follow."""
        now = self.loop.time()
        self._heading, self._size, self._waiting = None, 0, now
        self._until = None if self.url.startswith(STREAMED) else now + self.body_seconds
        parser, url = self.parser, httptools.parse_url(self.url)
        version, path = parser.get_http_version(), url.path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": parser.get_method().decode("ascii"),
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self.headers,
        }
        self.scope = scope  # type: ignore[assignment]  # uvicorn's is a typed dictionary
        if not (parser.should_upgrade() and self._should_upgrade()):
            self._begin(version != "1.0" and parser.should_keep_alive())

    def _begin(self, keep_alive: bool) -> None:
        """Have a request answered, after those that came before it."""
        before: Any = self.cycle  # None at first, whatever uvicorn's types say
        self._idle = None
        self.cycle = found = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        if before is not None and not before.response_complete:
            self.flow.pause_reading()
            self.pipeline.appendleft((found, self.app))
        else:
            self._start_asgi_task(found, self.app)

    def on_response_complete(self) -> None:
        """A request was answered; the next one may wait already."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle = self.loop.time()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._waiting = None
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Another protocol takes the connection over, and has its own patience."""
        self._stop()
        super().handle_websocket_upgrade()

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self.loop.time()
        slow = self._waiting is None and (
            _longer(self._heading, HEAD_SECONDS, now) or _longer(self._idle, self.timeout_keep_alive, now)
        )
        if self._waiting is not None:
            slow = now - self._waiting > IDLE_SECONDS or (self._until is not None and now > self._until)
        if slow:
            self.transport.close()
        else:
            self._look_later()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _longer(since: float | None, seconds: float, now: float) -> bool:
    """Whether something has lasted longer than that."""
    return since is not None and now - since > seconds
