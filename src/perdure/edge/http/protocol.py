"""Connections: uvicorn's protocol with patience that ends, and with answers that go out in one piece.

A request's head must be there within seconds and within a size, its body must keep coming, and whoever says nothing
after an answer, or takes nothing of it, is let go. One timer a connection looks now and then; a request costs a look at
the clock. Requests that are sent ahead wait their turn, and nothing more is read meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS: Final = 15.0
"""From the first byte of a request, or from connecting, to the end of its head."""
IDLE_SECONDS: Final = 30.0
"""Without a byte, in the middle of a body."""
STREAMED: Final = (b"/v1/blobs", b"/v1/import")
STALL_SECONDS: Final = 60.0
"""Without a byte of an answer being taken."""
LOOK_SECONDS: Final = 5.0
MAX_HEAD: Final = 64 * 1024
"""Bytes of a head; also of what else is neither a head nor a body, such as trailers."""
MAX_AHEAD: Final = 1000
"""Requests that may be sent before the first of them was answered."""
_NO_ROOM: Final = STATUS_LINE[503] + b"retry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Flow(FlowControl):
    """Whether more may be read: nothing while requests wait their turn."""

    held = False

    def resume_reading(self) -> None:
        """Read on, unless it is held."""
        if not self.held:
            super().resume_reading()


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
    _silent = 0
    """Bytes that came since the last head was complete or a piece of a body came."""
    _unsent: tuple[int, float] | None = None
    """How much of what was written is not taken, and since when it is as much."""
    _over = False
    """Whether what followed on the request that is being answered was none."""
    _ignored = False
    """Whether the head at hand asks for a protocol that there is not: it is read again without that."""
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
        self.flow = self._flow = Flow(transport)
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
        self._silent += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as found:
            before: Any = self.cycle
            if self._ignored:
                self._read_again(data[found.args[0] :])
            elif before is not None and not before.response_complete:  # both cannot have the connection
                self.send_400_response("Invalid HTTP request received.")
            else:
                self.handle_websocket_upgrade()
            return
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._silent > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("Invalid HTTP request received.")

    def _read_again(self, rest: bytes) -> None:
        """Read a head again without its wish for another protocol, which is no reason not to read its body."""
        self._ignored, self._silent = False, 0
        scope = self.scope
        head = [b"%b %b HTTP/%b" % (scope["method"].encode(), self.url, scope["http_version"].encode())]
        head += [b"%b: %b" % field for field in self.headers if field[0] not in (b"connection", b"upgrade")]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*head, b"", b""]) + rest)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request. While another one is being answered nobody could tell what the refusal is about:
        then the connection is over after that.
        """
        before: Any = self.cycle
        broken = before is not None and not self.pipeline and before.more_body and not before.response_started
        if before is None or before.response_complete or broken:
            super().send_400_response(msg)
            return
        self._over = True
        self.pipeline.clear()
        self._flow.held = True
        self._flow.pause_reading()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; trailers say nothing that anybody here wants to know."""
        if self._heading is not None:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A piece of a body came."""
        self._silent = 0
        super().on_body(body)

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
        self._heading, self._silent, self._waiting = None, 0, now
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
        if parser.should_upgrade():
            self._ignored = not self._should_upgrade()
        else:
            self._begin(version != "1.0" and parser.should_keep_alive())

    def _should_upgrade(self) -> bool:
        """Whether it is another protocol that is wanted, and one that there is."""
        return self.scope["method"] == "GET" and super()._should_upgrade()

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
            self.pipeline.appendleft((found, self.app))
            self._flow.held = True
            self._flow.pause_reading()
            if len(self.pipeline) > MAX_AHEAD:
                self.transport.abort()
        else:
            self._start_asgi_task(found, self.app)

    def on_response_complete(self) -> None:
        """A request was answered; the next one may wait already."""
        self.server_state.total_requests += 1
        if self._over:
            self.transport.close()
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle = self.loop.time()
        self._flow.held = bool(self.pipeline)
        self._flow.resume_reading()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._waiting = None
        if not self._ignored:
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
        if self._stuck(now):
            self.transport.abort()
            return
        if slow and not self.transport.is_closing():
            self.transport.close()
        self._look_later()

    def _stuck(self, now: float) -> bool:
        """Whether nothing of what was written has been taken for too long."""
        size = self.transport.get_write_buffer_size()
        if not size or self._unsent is None or self._unsent[0] != size:
            self._unsent = (size, now) if size else None
            return False
        return now - self._unsent[1] > STALL_SECONDS

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _longer(since: float | None, seconds: float, now: float) -> bool:
    """Whether something has lasted longer than that."""
    return since is not None and now - since > seconds
