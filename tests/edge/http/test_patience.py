"""A connection that does not get on is let go; one that does is served, however long it stays."""

import asyncio
from typing import Any

import pytest

from perdure.edge.http import asgi, protocol
from perdure.edge.http.protocol import Patient
from tests.edge.http.world import Client, World, world


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
        self.writes: list[bytes] = []
        self.closed = False
        self.aborted = False
        self.reading = True
        self.unsent = 0

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _: str, default: Any = None) -> Any:
        return default

    def set_protocol(self, _: Any) -> None:
        pass

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


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


async def test_where_there_is_no_room_one_is_told_so(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, transport, _ = connected
    monkeypatch.setattr(Patient, "room", 1)
    late, turned_away = Patient(found.config, found.server_state, {}, asyncio.get_running_loop()), Transport()
    late.connection_made(turned_away)
    late.connection_lost(None)
    assert turned_away.written.startswith(b"HTTP/1.1 503")
    assert turned_away.closed
    assert not transport.closed
    found.data_received(GET)
    await answered(found, LENGTH)
    assert transport.written.startswith(b"HTTP/1.1 200")


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


async def answered(connection: Any, *headers: tuple[bytes, bytes], status: int = 200, body: bytes = b"{}") -> None:
    """Answer the request that came last, as an application does."""
    await connection.cycle.send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await connection.cycle.send({"type": "http.response.body", "body": body})


LENGTH = (b"content-length", b"2")
GET = b"GET /v1/sessions?limit=1 HTTP/1.1\r\nhost: a\r\n\r\n"


async def test_one_who_asks_for_nothing_more_is_let_go(connected: Any) -> None:
    found, transport, clock = connected
    for _ in range(3):
        found.data_received(GET)
        await answered(found, LENGTH)
        clock.pass_by(found.timeout_keep_alive - 1)
        assert not transport.closed
    clock.pass_by(protocol.LOOK_SECONDS + 2)
    assert transport.closed


async def test_one_whose_next_request_had_begun_before_the_answer_stays(connected: Any) -> None:
    found, transport, clock = connected
    found.data_received(GET + GET[:20])
    await answered(found, LENGTH)
    found.data_received(GET[20:])
    clock.pass_by(3600)
    assert not transport.closed


async def test_an_answer_goes_out_in_one_piece(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET)
    await answered(found, (b"x-a", b"1"), LENGTH)
    assert len(transport.writes) == 1
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nx-a: 1" in head
    assert body == b"{}"


async def test_the_head_of_a_stream_does_not_wait_for_news(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET)
    await found.cycle.send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
    assert b"transfer-encoding: chunked" in transport.written


async def test_a_body_in_pieces_may_have_a_length(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET)
    await found.cycle.send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
    await found.cycle.send({"type": "http.response.body", "body": b"{", "more_body": True})
    await found.cycle.send({"type": "http.response.body", "body": b"}"})
    assert transport.written.endswith(b"\r\n\r\n{}")
    assert found.cycle.response_complete


async def test_a_header_cannot_be_smuggled_into_an_answer(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET)
    with pytest.raises(ValueError, match="line break"):
        await answered(found, (b"x-a", b"1\r\nx-b: 2"), LENGTH)
    assert not transport.written


async def test_requests_sent_at_once_are_answered_in_turn(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found, transport, _ = connected
    begun: list[Any] = []
    monkeypatch.setattr(found, "_start_asgi_task", lambda cycle, _: begun.append(cycle))
    found.data_received(GET + GET.replace(b"limit=1", b"limit=2"))
    assert [cycle.scope["query_string"] for cycle in begun] == [b"limit=1"]
    await begun[0].send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
    await begun[0].send({"type": "http.response.body", "body": b"{}"})
    assert [cycle.scope["query_string"] for cycle in begun] == [b"limit=1", b"limit=2"]
    assert not transport.closed


async def test_while_requests_wait_their_turn_nothing_more_is_read(
    connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, transport, _ = connected
    begun: list[Any] = []
    monkeypatch.setattr(found, "_start_asgi_task", lambda cycle, _: begun.append(cycle))
    found.data_received(GET * 3)
    assert not transport.reading
    for left in (2, 1, 0):
        assert len(found.pipeline) == left
        await begun[-1].send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        await begun[-1].send({"type": "http.response.body", "body": b"{}"})
        assert transport.reading is (left <= 1)


async def test_who_sends_too_far_ahead_is_cut_off(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET * (protocol.MAX_AHEAD + 5))
    assert transport.aborted


async def test_trailers_and_what_belongs_to_no_body_end_somewhere(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
    before = len(found.headers)
    for number in range(2000):
        if not transport.closed:
            found.data_received(b"a%d: %b\r\n" % (number, b"x" * 100))
    assert transport.closed
    assert transport.written.startswith(b"HTTP/1.1 400")
    assert len(found.headers) == before


async def test_one_who_takes_nothing_of_an_answer_is_cut_off(connected: Any) -> None:
    found, transport, clock = connected
    found.data_received(GET)
    transport.unsent = 5_000_000
    await answered(found, LENGTH)
    clock.pass_by(protocol.STALL_SECONDS - protocol.LOOK_SECONDS)
    assert not transport.aborted
    transport.unsent = 4_000_000
    clock.pass_by(protocol.STALL_SECONDS - protocol.LOOK_SECONDS)
    assert not transport.aborted
    clock.pass_by(3 * protocol.LOOK_SECONDS)
    assert transport.aborted


@pytest.mark.parametrize("wish", [b"h2c", b"foo", b"websocket"])
async def test_a_wish_for_another_protocol_does_not_make_a_body_a_request(connected: Any, wish: bytes) -> None:
    found, transport, _ = connected
    body = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
    head = b"POST /v1/sessions HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: %b\r\ncontent-length: %d\r\n\r\n"
    asked = head % (wish, len(body)) + body
    for cut in (len(asked), len(asked) - len(body), len(asked) - 5, 30):
        found.data_received(asked[:cut])
        found.data_received(asked[cut:]) if cut < len(asked) else None
        assert found.cycle.scope["path"] == "/v1/sessions"
        assert bytes(found.cycle.body) == body
        assert not found.cycle.more_body
        assert not found.pipeline
        await answered(found, LENGTH)
        assert not transport.closed


async def test_garbage_after_a_request_does_not_overtake_its_answer(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET + b"\x00\x01garbage\r\n\r\n")
    assert not transport.written
    await answered(found, LENGTH)
    assert transport.written.startswith(b"HTTP/1.1 200")
    assert transport.closed


async def test_garbage_in_a_body_is_refused_at_once(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    found.data_received(b"no chunk\r\n")
    assert transport.written.startswith(b"HTTP/1.1 400")
    assert transport.closed


async def test_a_large_request_with_the_beginning_of_the_next_is_answered(connected: Any) -> None:
    found, transport, _ = connected
    body = b"z" * (2 * protocol.MAX_HEAD)
    found.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body + GET[:10])
    assert not transport.closed
    assert not transport.written


async def test_one_who_wants_to_close_is_told_so_and_let_go(connected: Any) -> None:
    found, transport, _ = connected
    found.data_received(GET.replace(b"host: a", b"host: a\r\nconnection: close"))
    await answered(found, LENGTH)
    assert b"\r\nconnection: close\r\n" in transport.written
    assert transport.closed


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


# ── answers in pieces ──


class Stalled:
    """An export whose reader takes nothing."""

    def __init__(self, there: World, client: Client, session: str) -> None:
        self.status = 0
        self.taking = asyncio.Event()
        self.began = asyncio.Event()
        path = f"/v1/sessions/{session}/export"
        headers = [(b"host", b"127.0.0.1:7464"), (b"authorization", f"Bearer {client.credential}".encode())]
        scope = {"type": "http", "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode()}
        scope |= {"query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
        self.task = asyncio.create_task(there.application(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        if message["type"] == "http.response.body" and self.status == 200:
            self.began.set()
            await self.taking.wait()


async def test_only_so_many_exports_are_on_their_way() -> None:
    async with world(max_streams=2) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        stalled = [Stalled(there, ana, session) for _ in range(2)]
        for each in stalled:
            await each.began.wait()
        refused = await ana.get(f"/v1/sessions/{session}/export")
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        assert (await ana.get(f"/v1/sessions/{session}")).status == 200
        for each in stalled:
            each.taking.set()
            await each.task
        assert (await ana.get(f"/v1/sessions/{session}/export")).status == 200


async def test_exports_that_come_together_are_counted_together() -> None:
    async with world(max_streams=2, rate=1e6, burst=10**6) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        stalled = [Stalled(there, ana, session) for _ in range(6)]
        done, left = await asyncio.wait([each.task for each in stalled], timeout=5)
        assert (len(done), len(left)) == (4, 2)
        for each in stalled:
            each.taking.set()
        await asyncio.wait(left)
        assert (await ana.get(f"/v1/sessions/{session}/export")).status == 200


async def test_those_who_are_slow_to_send_their_bodies_keep_nobody_else_waiting() -> None:
    async with world(max_concurrent=2) as there:
        ana = await there.principal("ana")
        sending = asyncio.Event()

        async def receive() -> Any:
            await sending.wait()
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(_: Any) -> None:
            pass

        headers = [(b"host", b"127.0.0.1:7464"), (b"content-type", b"application/json"), (b"content-length", b"2")]
        scope = {"type": "http", "method": "POST", "scheme": "http", "path": "/v1/tokens/refresh"}
        scope |= {"raw_path": b"/v1/tokens/refresh", "query_string": b"", "headers": headers, "client": ("10.0.0.1", 1)}
        slow = [asyncio.create_task(there.application(scope, receive, send)) for _ in range(9)]
        await asyncio.sleep(0.05)
        assert (await ana.get("/v1/sessions")).status == 200
        sending.set()
        await asyncio.wait(slow)
        assert (await ana.get("/v1/sessions")).status == 200


async def test_whom_nobody_knows_sends_no_large_body() -> None:
    async with world() as there:
        body = {"refresh_token": "x" * 100_000}
        assert (await Client(there).post("/v1/tokens/refresh", body)).status == 413


async def test_an_export_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "STALL", 0.05)
    async with world(max_streams=1) as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        stalled = Stalled(there, ana, session)
        await stalled.began.wait()
        await stalled.task
        assert (await ana.get(f"/v1/sessions/{session}/export")).status == 200
