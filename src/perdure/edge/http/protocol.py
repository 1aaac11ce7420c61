"""Connections that are let go when their clients do not get on: uvicorn's protocol with patience that ends.

A request's head must be there within seconds and within a size, and its body must keep coming. One timer a connection
looks now and then; a request costs a look at the clock.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS: Final = 15.0
"""From the first byte of a request, or from connecting, to the end of its head."""
IDLE_SECONDS: Final = 30.0
"""Without a byte, in the middle of a body."""
STREAMED: Final = (b"/v1/blobs", b"/v1/import")
LOOK_SECONDS: Final = 5.0
MAX_HEAD: Final = 64 * 1024


class Patient(HttpToolsProtocol):
    """One connection."""

    body_seconds = 30.0
    """For a whole body, but for those that are streamed."""
    _heading: float | None = None
    """Since when a head is awaited; None when none is."""
    _waiting: float | None = None
    """When the last bytes of a body came that is not complete; None outside one."""
    _until: float | None = None
    """When a body must be there."""
    _size = 0
    _timer: asyncio.TimerHandle | None = None

    @classmethod
    def within(cls, seconds: float) -> type["Patient"]:
        """Connections that wait so long for a body."""
        return type("Patient", (cls,), {"body_seconds": seconds})

    def connection_made(self, transport: Any) -> None:
        """Somebody connected, and should say something."""
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
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there; the body may follow."""
        now = self.loop.time()
        self._heading, self._size, self._waiting = None, 0, now
        self._until = None if self.url.startswith(STREAMED) else now + self.body_seconds
        super().on_headers_complete()

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
        slow = self._heading is not None and now - self._heading > HEAD_SECONDS
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
