"""A connection that does not get on is let go; one that does is served, however long it stays."""

import asyncio
from typing import Any

import pytest

from perdure.edge.http import protocol
from perdure.edge.http.protocol import Patient


class Timer:
    """A timer that can be called off."""

    def __init__(self, timers: list[Any], timer: Any) -> None:
        self._timers, self._timer = timers, timer

    def cancel(self) -> None:
        if self._timer in self._timers:
            self._timers.remove(self._timer)


class Clock:
    """An event loop's clock and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Any) -> Any:
        timer = (self.now + seconds, call)
        self.timers.append(timer)

        return Timer(self.timers, timer)

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and min(at for at, _ in self.timers) <= end:
            due = min(self.timers, key=lambda item: item[0])
            self.timers.remove(due)
            self.now = due[0]
            due[1]()
        self.now = end


class Transport:
    """What is written, and whether it was closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _: str, default: Any = None) -> Any:
        return default

    def set_protocol(self, _: Any) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@pytest.fixture
async def connected(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A protocol with a connection, its transport and its clock; requests go nowhere."""
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    async def nowhere(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    config = Config(nowhere, lifespan="off", log_config=None, http=Patient)
    config.load()
    clock, transport = Clock(), Transport()
    found = Patient(config, ServerState(), {}, asyncio.get_running_loop())
    monkeypatch.setattr(found, "loop", clock)
    monkeypatch.setattr(found, "_start_asgi_task", lambda *_: None)
    found.connection_made(transport)
    yield found, transport, clock
    found.connection_lost(None)
    assert not clock.timers


HEAD = b"POST /v1/sessions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n"


async def test_one_who_says_nothing_is_let_go(connected: Any) -> None:
    _, transport, clock = connected
    clock.pass_by(protocol.HEAD_SECONDS - 1)
    assert not transport.closed
    clock.pass_by(protocol.LOOK_SECONDS + 2)
    assert transport.closed


async def test_one_who_spells_the_head_byte_by_byte_is_let_go(connected: Any) -> None:
    found, transport, clock = connected
    for byte in HEAD[:30]:
        found.data_received(bytes([byte]))
        clock.pass_by(1)
    assert transport.closed


async def test_a_streamed_body_may_take_its_time_as_long_as_it_keeps_coming(connected: Any) -> None:
    found, transport, clock = connected
    found.data_received(HEAD.replace(b"/v1/sessions", b"/v1/blobs"))
    for _ in range(20):
        clock.pass_by(protocol.IDLE_SECONDS - 5)
        found.data_received(b"x")
    assert not transport.closed
    clock.pass_by(protocol.IDLE_SECONDS + protocol.LOOK_SECONDS + 1)
    assert transport.closed


async def test_any_other_body_must_be_there_in_time(connected: Any) -> None:
    found, transport, clock = connected
    found.data_received(HEAD)
    for _ in range(10):
        clock.pass_by(4)
        if not transport.closed:
            found.data_received(b"x")
    assert transport.closed


async def test_a_stream_that_waits_for_news_stays(connected: Any) -> None:
    found, transport, clock = connected
    found.data_received(b"GET /v1/changes HTTP/1.1\r\nhost: a\r\n\r\n")
    clock.pass_by(3600)
    assert not transport.closed


async def test_a_head_without_end_is_refused(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(b"GET / HTTP/1.1\r\nx: ")
    for _ in range(20):
        if not transport.closed:
            found.data_received(b"y" * 8192)
    assert transport.closed
    assert transport.written.startswith(b"HTTP/1.1 400")


async def test_a_large_body_in_one_piece_with_its_head_is_no_large_head(connected: Any) -> None:
    found, transport, _ = connected
    body = b"z" * (2 * protocol.MAX_HEAD)
    found.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    assert not transport.closed
