"""Connections to an upstream against servers that speak byte by byte: what arrives is what was sent, what is odd ends
the connection, and nothing is sent before it may be.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.ambient import RealAmbient
from perdure.core.errors import ProviderDown, ProviderGarbled
from perdure.edge.certificates import make
from perdure.providers import connecting
from perdure.providers.connecting import AHEAD, HEAD, Connections, Cut, NotHttp, Unreached
from perdure.providers.posting import Unsayable
from tests.providers.asking import provider_of, sending

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"Content-Length: 5\r\nX-Told: one\r\nx-told: two\r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;note=1\r\nlo\r\n0\r\nX-Trailer: t\r\n\r\n"
UNTIL_CLOSED = OK + b"Content-Type: Text/Plain; charset=utf-8\r\n\r\nhello"


class Heard:
    """What a server heard, and on how many connections."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = asyncio.Event()


@asynccontextmanager
async def speaking(
    *answers: bytes, closing: bool = False, bytewise: bool = False
) -> AsyncIterator[tuple[Connections, Heard]]:
    """A server that gives these answers, one to each request, and connections to it."""
    heard, left = Heard(), list(answers)

    async def serve(reader: Reader, writer: Writer) -> None:
        heard.connections += 1
        try:
            while left:
                heard.requests.append(await _request(reader))
                answer = left.pop(0)
                for piece in [answer[at : at + 1] for at in range(len(answer))] if bytewise else [answer]:
                    writer.write(piece)
                    await writer.drain()
                    if bytewise:
                        await asyncio.sleep(0)
                if closing:
                    break
            else:
                await reader.read()
        finally:
            heard.closed.set()
            writer.close()

    async with served(serve) as connections:
        yield connections, heard


@asynccontextmanager
async def served(
    serve: Callable[[Reader, Writer], Awaitable[None]], *, limit: int = 4, patience: float = 5.0
) -> AsyncIterator[Connections]:
    """Connections to a server that does this with each."""
    async with listening(serve) as port:
        connections = Connections(f"http://127.0.0.1:{port}/v1", limit=limit, patience=patience)
        try:
            yield connections
        finally:
            connections.close()


@asynccontextmanager
async def listening(serve: Callable[[Reader, Writer], Awaitable[None]], **more: Any) -> AsyncIterator[int]:
    """A server that does this with each connection, until it is left; its port."""
    writers: list[Writer] = []
    tasks: list[asyncio.Task[Any] | None] = []

    async def one(reader: Reader, writer: Writer) -> None:
        writers.append(writer)
        tasks.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)

    async with await asyncio.start_server(one, "127.0.0.1", 0, **more) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for task in filter(None, tasks):
                task.cancel()
            for writer in writers:
                writer.transport.abort()
            await asyncio.sleep(0.01)


async def _request(reader: Reader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(size)


async def whole(connections: Connections, body: bytes = b"{}", **more: Any) -> bytes:
    """All of an answer."""
    async with asyncio.timeout(10):
        reply = await connections.post("/ask?a=1", more.pop("headers", {}), body, **more)
        parts = []
        while data := await reply.read():
            parts.append(data)
    return b"".join(parts)


# ── what goes out ──


async def test_a_request_is_what_was_asked_for() -> None:
    async with speaking(WHOLE) as (connections, heard):
        headers = {"X-Key": "käse", "User-Agent": "me", "Content-Length": "999", "connection": "close", "Host": "other"}
        assert await whole(connections, b'{"a": 1}', headers=headers) == b"hello"
    head, _, body = heard.requests[0].partition(b"\r\n\r\n")
    lines = head.decode("utf-8").split("\r\n")
    assert lines[0] == "POST /v1/ask?a=1 HTTP/1.1"
    assert lines[1].startswith("host: 127.0.0.1:")
    assert sorted(lines[2:]) == [
        "accept-encoding: identity",
        "accept: */*",
        "content-length: 8",
        "user-agent: me",
        "x-key: käse",
    ]
    assert body == b'{"a": 1}'


@pytest.mark.parametrize(
    "headers", [{"a": "b\r\nc: d"}, {"a": "b\n"}, {"a\r\nb": "c"}, {"a b": "c"}, {"": "c"}, {"a": "b\0"}]
)
async def test_no_header_smuggles_another(headers: dict[str, str]) -> None:
    async with speaking(WHOLE) as (connections, heard):
        with pytest.raises(Unsayable):
            await whole(connections, headers=headers)
        assert await whole(connections) == b"hello"
    assert heard.connections == 1


async def test_a_path_stays_one() -> None:
    async with speaking(WHOLE) as (connections, _):
        for path in ("/a b", "/a\r\nb", "/ä", "/\0"):
            with pytest.raises(Unsayable):
                await connections.post(path, {}, b"")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "ftp://host",
        "http://",
        "http://a:b@host",
        "http://host:99999",
        "http://host:0",
        "http://[::1",
        "https://h/?q",
        "//h",
    ],
)
def test_what_is_no_address_cannot_be_asked(address: str) -> None:
    with pytest.raises(Unsayable):
        Connections(address, limit=1, patience=1)


async def test_before_its_gate_opens_nothing_is_sent_and_who_gives_up_leaves_the_connection() -> None:
    async with speaking(WHOLE, WHOLE, WHOLE) as (connections, heard):
        await whole(connections)
        gate = asyncio.Event()
        waiting = asyncio.create_task(whole(connections, b"held", after=gate))
        await asyncio.sleep(0.05)
        assert len(heard.requests) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        assert await whole(connections, b"sent", after=gate) == b"hello"
    assert [request[-4:] for request in heard.requests[1:]] == [b"sent"]
    assert heard.connections == 1


async def test_a_connection_that_went_while_its_question_was_held_is_made_anew() -> None:
    async with speaking(WHOLE, WHOLE, closing=True) as (connections, heard):
        gate = asyncio.Event()
        waiting = asyncio.create_task(whole(connections, after=gate))
        assert await whole(connections) == b"hello"
        await asyncio.sleep(0.02)
        for connection in tuple(connections._all):
            connection.drop(Cut("by the test"))
        await asyncio.sleep(0)
        gate.set()
        assert await waiting == b"hello"
    assert len(heard.requests) == 2


# ── what comes back ──


@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
async def test_an_answer_is_whole_however_it_comes_and_its_connection_is_used_again(
    answer: bytes, bytewise: bool
) -> None:
    async with speaking(answer, answer, answer, bytewise=bytewise) as (connections, heard):
        assert [await whole(connections) for _ in range(3)] == [b"hello"] * 3
    assert heard.connections == 1


@pytest.mark.parametrize("bytewise", [False, True])
async def test_an_answer_without_a_length_ends_with_its_connection(bytewise: bool) -> None:
    async with speaking(UNTIL_CLOSED, UNTIL_CLOSED, closing=True, bytewise=bytewise) as (connections, heard):
        reply = await connections.post("/", {}, b"")
        assert (reply.status, reply.content_type) == (200, "text/plain")
        assert await _rest(reply) == b"hello"
        assert await whole(connections) == b"hello"
    assert heard.connections == 2


async def test_a_header_said_twice_is_heard_twice() -> None:
    async with speaking(WHOLE) as (connections, _):
        reply = await connections.post("/", {}, b"")
        assert reply.headers["x-told"] == "one, two"


@pytest.mark.parametrize("bytewise", [False, True])
async def test_a_word_before_the_answer_is_none(bytewise: bool) -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with speaking(hints + WHOLE, WHOLE, bytewise=bytewise) as (connections, heard):
        reply = await connections.post("/", {}, b"")
        assert (reply.status, "link" in reply.headers) == (200, False)
        assert await _rest(reply) == b"hello"
        assert await whole(connections) == b"hello"
    assert heard.connections == 1


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_ends_at_once(status: int) -> None:
    bare = b"HTTP/1.1 %d No\r\n\r\n" % status
    async with speaking(bare, bare) as (connections, heard):
        assert [await whole(connections), await whole(connections)] == [b"", b""]
    assert heard.connections == 1


@pytest.mark.parametrize(
    "answer", [WHOLE[:-2], CHUNKED[:-3], CHUNKED[:-30], OK, b"", UNTIL_CLOSED[:20]], ids=lambda answer: str(len(answer))
)
async def test_what_breaks_off_is_no_answer(answer: bytes) -> None:
    async with speaking(answer, closing=True) as (connections, _):
        with pytest.raises(Cut):
            await whole(connections)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0 hello\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"no colon\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n",
        OK + b"X-Long: " + b"a" * 2 * HEAD,
    ],
    ids=lambda answer: answer[:40].decode(),
)
async def test_what_is_no_http_is_told_so(answer: bytes) -> None:
    async with speaking(answer, WHOLE) as (connections, heard):
        with pytest.raises(NotHttp):
            await whole(connections)
        assert await whole(connections) == b"hello"
    assert heard.connections == 2


@pytest.mark.parametrize("odd", [WHOLE + WHOLE, WHOLE + b"garbage", OK + b"Connection: close\r\n" + WHOLE[len(OK) :]])
async def test_a_connection_with_more_to_say_than_was_asked_is_not_used_again(odd: bytes) -> None:
    async with speaking(odd, WHOLE) as (connections, heard):
        answers = []
        for _ in range(2):
            try:
                answers.append(await whole(connections))
            except NotHttp:
                answers.append(b"hello")
        assert answers == [b"hello", b"hello"]
    assert heard.connections == 2


async def test_what_comes_unasked_ends_an_idle_connection() -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        await _request(reader)
        writer.write(WHOLE)
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    async with served(serve) as connections:
        assert await whole(connections) == b"hello"
        await asyncio.sleep(0.1)
        assert not connections._idle
        assert await whole(connections) == b"hello"


async def test_an_old_connection_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with speaking(WHOLE, WHOLE) as (connections, heard):
        await whole(connections)
        monkeypatch.setattr(connecting, "IDLE", 0.0)
        await whole(connections)
    assert heard.connections == 2


# ── how much, and how many ──


async def test_who_does_not_read_is_not_sent_everything() -> None:
    sent, size = [0], 64 << 20

    async def serve(reader: Reader, writer: Writer) -> None:
        await _request(reader)
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        while sent[0] < size:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent[0] += 65_536

    async with served(serve) as connections:
        reply = await connections.post("/", {}, b"")
        await asyncio.sleep(0.3)
        held = sent[0]
        assert held < size // 2
        assert reply._size < 2 * AHEAD + 65_536 * 4
        assert len(await _rest(reply)) == size


@pytest.mark.parametrize("read", [True, False])
async def test_a_connection_listens_again_after_an_answer_that_had_to_wait(read: bool) -> None:
    size = AHEAD + 30_000

    async def serve(reader: Reader, writer: Writer) -> None:
        while True:
            await _request(reader)
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)

    async with served(serve, limit=1) as connections:
        for _ in range(3):
            async with asyncio.timeout(5):
                reply = await connections.post("/", {}, b"")
            for _ in range(100):  # slowly: all of it has come before any of it is read
                await asyncio.sleep(0.005)
                if reply.ended:
                    break
            assert reply.ended
            if read:
                assert len(await _rest(reply)) == size
            reply.close()


@pytest.mark.parametrize("trailer", [b"X-%d: y\r\n", b"X-Same: %d\r\n", b"%d"])
async def test_what_follows_a_body_without_an_end_is_cut_off(trailer: bytes) -> None:
    sent = [0]

    async def serve(reader: Reader, writer: Writer) -> None:
        await _request(reader)
        writer.write(CHUNKED.partition(b"0\r\n")[0] + b"0\r\n" + (b"" if b":" in trailer else b"X-Endless: "))
        while sent[0] < 16 << 20:
            piece = b"".join(trailer % number for number in range(1_000))
            writer.write(piece)
            await writer.drain()
            sent[0] += len(piece)

    async with served(serve) as connections:
        with pytest.raises(NotHttp):
            await whole(connections)
    assert sent[0] < 16 << 20


async def test_a_header_that_comes_after_the_body_changes_nothing() -> None:
    late = CHUNKED.replace(b"X-Trailer: t", b"Content-Type: x\r\nContent-Encoding: gzip")
    async with speaking(late) as (connections, _):
        reply = await connections.post("/", {}, b"")
        assert await _rest(reply) == b"hello"
        assert reply.headers == {"transfer-encoding": "chunked"}


async def test_an_answer_nobody_asked_for_is_not_taken_for_one_though_the_loop_was_busy() -> None:
    def serve(listening: socket.socket) -> None:
        for number in (b"first", b"other"):
            connection = listening.accept()[0]
            with connection:
                connection.recv(65_536)
                connection.sendall(OK + b"Content-Length: 5\r\n\r\n" + number)
                time.sleep(0.05)
                connection.sendall(OK + b"Content-Length: 5\r\n\r\nSTRAY")
                time.sleep(0.2)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, args=(listening,), daemon=True)
        serving.start()
        connections = Connections(f"http://127.0.0.1:{listening.getsockname()[1]}", limit=1, patience=5)
        assert await whole(connections) == b"first"
        time.sleep(0.1)  # noqa: ASYNC251 - the loop is busy
        assert await whole(connections) == b"other"
        connections.close()
        serving.join(5)


async def test_who_answers_before_the_end_of_a_question_is_not_asked_again_behind_it() -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        if b"content-length: 2\r\n" in await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(2)
        writer.write(WHOLE)
        await asyncio.sleep(60)

    async with served(serve, limit=1) as connections:
        assert await whole(connections, b"x" * (32 << 20)) == b"hello"
        assert await whole(connections) == b"hello"


async def test_who_waits_when_all_is_closed_asks_nobody() -> None:
    async with speaking(WHOLE, WHOLE, WHOLE) as (connections, heard):
        connections._room = asyncio.Semaphore(1)
        gate = asyncio.Event()
        waiting = [asyncio.create_task(whole(connections, after=gate)), asyncio.create_task(whole(connections))]
        await asyncio.sleep(0.02)
        connections.close()
        gate.set()
        found = await asyncio.gather(*waiting, whole(connections), return_exceptions=True)
        assert [type(each) for each in found] == [Cut] * 3
        assert heard.requests == []
        assert not connections._all - {each for each in connections._all if not each.open}


async def test_giving_up_makes_no_old_connection_young() -> None:
    async with speaking(WHOLE, WHOLE) as (connections, _):
        await whole(connections)
        connections._idle[0].since = since = connections._idle[0].since - 10
        waiting = asyncio.create_task(whole(connections, after=asyncio.Event()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert [each.since for each in connections._idle] == [since]


async def test_so_many_at_a_time_and_no_more() -> None:
    now, most = [0], [0]

    async def serve(reader: Reader, writer: Writer) -> None:
        while True:
            await _request(reader)
            now[0] += 1
            most[0] = max(most[0], now[0])
            await asyncio.sleep(0.01)
            now[0] -= 1
            writer.write(WHOLE)

    async with served(serve, limit=3) as connections:
        tasks = [asyncio.create_task(whole(connections)) for _ in range(20)]
        await asyncio.sleep(0.005)
        tasks[-1].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found.count(b"hello") == 19
        assert most[0] == 3
        assert len(connections._all) <= 3


async def test_who_gives_up_in_the_middle_leaves_room() -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        body = (await _request(reader))[-4:]
        await asyncio.sleep(0 if body == b"soon" else 60)
        writer.write(WHOLE)

    async with served(serve, limit=1) as connections:
        for _ in range(3):
            late = asyncio.create_task(whole(connections, b"late"))
            await asyncio.sleep(0.01)
            late.cancel()
            assert await whole(connections, b"soon") == b"hello"


async def test_who_stops_listening_hangs_up() -> None:
    async with speaking(OK + b"Content-Length: 50\r\n\r\nhello") as (connections, heard):
        reply = await connections.post("/", {}, b"")
        assert await reply.read() == b"hello"
        reply.close()
        async with asyncio.timeout(5):
            await heard.closed.wait()
        assert not connections._idle
        with pytest.raises(Cut):
            await reply.read()


async def test_a_server_that_never_lets_in_is_given_up() -> None:
    async def serve(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with served(serve, patience=0.05) as plain:
        port = plain._address.port
        secured = Connections(f"https://127.0.0.1:{port}", limit=1, patience=0.05)
        for _ in range(3):  # a place that was taken in vain is free again
            with pytest.raises(Unreached):
                await secured.post("/", {}, b"")


# ── TLS ──


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[str]:
    """A server with a certificate of a CA of its own; its address."""
    make(str(folder), ["127.0.0.1"], RealAmbient())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    async def serve(reader: Reader, writer: Writer) -> None:
        await _request(reader)
        writer.write(WHOLE)
        writer.close()

    async with listening(serve, ssl=context) as port:
        yield f"https://127.0.0.1:{port}"


async def test_a_server_is_asked_by_tls_if_its_certificate_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with secured(tmp_path) as address:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        connections = Connections(address, limit=1, patience=5)
        assert await whole(connections) == b"hello"
        connections.close()


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    async with secured(tmp_path) as address:
        connections = Connections(address, limit=1, patience=5)
        with pytest.raises(ssl.SSLCertVerificationError):
            await whole(connections)
        provider = provider_of(address, "anthropic", retries=0)
        with pytest.raises(ProviderDown, match="CERTIFICATE_VERIFY_FAILED"):
            await provider.whole(sending("echo"))


async def test_an_answer_in_a_code_nobody_asked_for_is_garbled() -> None:
    async with speaking(OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello") as (connections, _):
        provider = provider_of(f"http://127.0.0.1:{connections._address.port}", "anthropic", retries=0)
        with pytest.raises(ProviderGarbled, match="gzip"):
            await provider.whole(sending("echo"))
        await provider.close()


async def _rest(reply: Any) -> bytes:
    parts = []
    while data := await reply.read():
        parts.append(data)
    return b"".join(parts)
