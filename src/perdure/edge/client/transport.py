"""Requests to a server, one code path for both colours: the standard library's HTTP on the thread that may block.

Invariant: a request is sent again only when that cannot do a thing twice: it changes nothing, doing it again changes
nothing more, it carries an idempotency key, or it never left.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus as S
from http.client import HTTPConnection, HTTPException, HTTPResponse
from socket import SHUT_RDWR
from typing import Any, Final

from perdure.core.errors import KeyInFlight, NotFound, PerdureError, StoreClosed, Unreachable
from perdure.core.session import codec
from perdure.core.session.values import Limits
from perdure.edge.client.asking import Reply, Request, key_of, target
from perdure.edge.client.crew import Crew
from perdure.edge.client.failures import disagreement, failure_of
from perdure.edge.client.names import Names
from perdure.edge.client.pool import Place, Pool
from perdure.edge.http.wire import EXACT
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient

WORKERS: Final = 32
STREAMS: Final = 1 << 16
PIECE: Final = 256 << 10
LONGEST_PAUSE: Final = 8.0
LONGEST_WAIT: Final = 60.0
"""Seconds: a server that asks for more patience is told to the caller."""
SHORTEST: Final = 0.05
SUCCESSOR: Final = "x-new-session-token"
"""Whoever comes with a session token instead of a key is given the next one so."""
_DEEP: Final = Limits(max_bytes=1 << 30, max_depth=128, max_items=1 << 24, max_key=1 << 24)
_AGAIN: Final = (S.TOO_MANY_REQUESTS, S.SERVICE_UNAVAILABLE, S.BAD_GATEWAY, S.GATEWAY_TIMEOUT)


class _Unsent(Exception):
    """The request never left."""


class _Lost(Exception):
    """The request left, and no answer came; `fresh` if not a byte ever came on that connection."""

    def __init__(self, fresh: bool) -> None:
        super().__init__()
        self.fresh = fresh


_TROUBLE: Final = (OSError, HTTPException, ssl.SSLError)


class Transport:
    """The way to one server, for one holder of a key."""

    def __init__(self, place: Place, key: str, pool: Pool, ambient: Ambient, *, timeout: float, retries: int) -> None:
        self.place = place
        self.ambient = ambient
        self.names = Names()
        self.timeout = timeout
        self._authorization = f"Bearer {key}"
        self._pool = pool
        self._retries = retries
        self._closed = False
        self._crew = Crew("perdure-client", WORKERS)
        self._streams = Crew("perdure-stream", STREAMS)
        on_fork(self, Forking(_nothing, _nothing, Transport._forked))

    def __repr__(self) -> str:
        return f"Transport({self.place.url})"

    def _forked(self) -> None:
        self._crew.renew()
        self._streams.renew()

    def close(self) -> None:
        """Let go of every connection; harmless when repeated."""
        self._closed = True
        self._pool.close()
        self._crew.dismiss()
        self._streams.dismiss()

    # ── asking ──

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """What the server has at a path."""
        return (await self.call(Request(method="GET", target=target(path, query)))).document

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        expected: Any = None,
        key: str | None = None,
        keyed: bool = False,
        again: bool = False,
    ) -> Any:
        """Ask for a change; `keyed` gives it a fresh idempotency key if the caller chose none."""
        headers: dict[str, str] = {}
        if keyed or key is not None:
            headers["Idempotency-Key"] = f'"{key_of(key) if key is not None else self.fresh_key()}"'
        if expected is not None:
            headers["If-Match"] = f'"{expected}"'
        content = None if body is None else codec.to_json(body, limits=_DEEP)
        reply = await self.call(Request(method=method, target=path, body=content, headers=headers, again=again))
        return reply.document if reply.body else None

    def fresh_key(self) -> str:
        """An idempotency key that nobody has used."""
        return f"auto-{self.ambient.random(16).hex()}"

    async def call(self, request: Request) -> Reply:
        """The server's answer; what it refuses is raised as the embedded library would, `Unreachable` when it does
        not answer.
        """
        attempt = 0
        while True:
            failed, wait, again = await self._attempt(request, attempt)
            if isinstance(failed, Reply):
                return failed
            if not again or attempt >= self._retries:
                raise failed
            await self.pause(attempt, wait)
            attempt += 1

    async def _attempt(self, request: Request, attempt: int) -> tuple[Reply | PerdureError, float | None, bool]:
        """An answer, or why there is none, how long to wait, and whether it may be asked again."""
        self._must_be_open()
        try:
            reply = await self._crew.aside(partial(self._exchange, request))
        except _Unsent as trouble:
            hopeless = disagreement(trouble.__cause__) is not None
            return self.unreachable(trouble.__cause__, "nothing was sent"), None, not hopeless
        except _Lost as trouble:
            known = "nothing was changed by asking" if request.repeatable else "look whether it was done before"
            hopeless = disagreement(trouble.__cause__) is not None
            lost = self.unreachable(trouble.__cause__, known, trouble.fresh)
            return lost, None, request.repeatable and not hopeless
        if reply.status < S.MULTIPLE_CHOICES:
            return reply, None, False
        failed = failure_of(reply.status, reply.body, self.place.url)
        if type(failed) is NotFound:
            failed = self.names.told(failed, request.target)
        busy = reply.status in _AGAIN and (reply.wait is not None or isinstance(failed, Unreachable))
        ours = attempt > 0 and isinstance(failed, KeyInFlight)  # the one whose answer was lost is still at work
        patient = reply.wait is None or reply.wait <= LONGEST_WAIT
        return failed, reply.wait, request.repeatable and (busy or ours) and patient

    async def pause(self, attempt: int, wait: float | None = None) -> None:
        """Wait before asking again: as long as the server says, else longer each time, never all at the same moment."""
        longest = min(LONGEST_PAUSE, SHORTEST * 2**attempt)
        chance = int.from_bytes(self.ambient.random(4), "big") / (1 << 32)
        await self.ambient.sleep((wait or 0.0) + longest * (0.5 + chance / 2))

    def unreachable(self, trouble: BaseException | None, known: str, fresh: bool = False) -> Unreachable:
        """That the server cannot be had, and why; `fresh` if it never said anything on that connection."""
        why = str(trouble) or type(trouble).__name__
        advice = disagreement(trouble)
        if advice is not None:
            return Unreachable(f"{self.place.url} cannot be spoken with: {advice} ({why})", url=self.place.url, why=why)
        told = f"{self.place.url} does not answer: {why}; {known}. Look whether it runs and the address is right"
        hung_up = isinstance(trouble, ConnectionResetError | BrokenPipeError)
        if hung_up and self.place.secure:
            told += ", and whether it wants a certificate, which is given as certificate=(certificate, key)"
        elif hung_up and fresh:
            told += ", and whether it speaks TLS; then write https://…"
        return Unreachable(told, url=self.place.url, why=why)

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreClosed(
                f"the connection to {self.place.url} was closed; open it again with connect", url=self.place.url
            )

    # ── what blocks ──

    def _headers(self, request: Request, accept: str = EXACT) -> dict[str, str]:
        found = {"Authorization": self._authorization, "Accept": accept, "User-Agent": "perdure-python"}
        if request.body is not None:
            found["Content-Type"] = EXACT
        return found | request.headers

    def _exchange(self, request: Request) -> Reply:
        connection, fresh = self._connected()
        try:
            connection.request(request.method, self.place.base + request.target, request.body, self._headers(request))
            answer = connection.getresponse()
            fresh = False
            return self._finished(connection, answer)
        except _TROUBLE as trouble:
            connection.close()
            raise _Lost(fresh) from trouble
        except BaseException:  # an interrupt: whatever the server says now is nobody's answer
            connection.close()
            raise

    def _connected(self) -> tuple[HTTPConnection, bool]:
        """A connection, and whether it is fresh: nothing has come on it yet."""
        connection = self._pool.take()
        fresh = connection.sock is None
        if fresh:
            try:
                connection.connect()
            except _TROUBLE as trouble:
                connection.close()
                raise _Unsent from trouble
        return connection, fresh

    def _finished(self, connection: HTTPConnection, answer: HTTPResponse) -> Reply:
        """The whole answer; the connection goes back to the others if it can be used again."""
        body = answer.read()
        if (successor := answer.getheader(SUCCESSOR)) is not None:
            self._authorization = f"Bearer {successor}"
        if answer.will_close or self._closed:
            connection.close()
        else:
            self._pool.give(connection)
        return Reply(answer.status, body, _wait(answer.getheader("retry-after")))

    # ── bodies in pieces ──

    async def upload(self, request: Request, pieces: AsyncIterator[Any]) -> Reply:
        """Send a body as it comes; once, as what gives it may not give it again."""
        self._must_be_open()
        aside = self._crew.aside
        try:
            connection, fresh = await aside(self._connected)
        except _Unsent as trouble:
            raise self.unreachable(trouble.__cause__, "nothing was sent") from trouble.__cause__
        try:
            await aside(partial(self._begin, connection, request))
            with suppress(ConnectionError):  # it hung up before the end: what it has to say comes before that
                async for piece in _batched(pieces):
                    await aside(partial(_send_chunk, connection, piece))
                await aside(partial(connection.send, b"0\r\n\r\n"))
            reply = await aside(lambda: self._finished(connection, connection.getresponse()))
        except _TROUBLE as trouble:
            connection.close()
            raise self.unreachable(trouble, "it may have arrived", fresh) from trouble
        except BaseException:
            _hang_up(connection)
            raise
        if reply.status >= S.MULTIPLE_CHOICES:
            raise failure_of(reply.status, reply.body, self.place.url)
        return reply

    def _begin(self, connection: HTTPConnection, request: Request) -> None:
        connection.putrequest(request.method, self.place.base + request.target)
        for name, value in self._headers(request).items():
            connection.putheader(name, value)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

    async def stream(self, request: Request, *, accept: str = EXACT, silence: float | None = None) -> "Stream":
        """An answer to be read as it comes; asked for anew until it begins, as `call` does."""
        attempt = 0
        while True:
            self._must_be_open()
            try:
                found = await self._streams.aside(partial(self._opened, request, accept, silence))
            except (_Unsent, _Lost) as trouble:
                why, fresh = trouble.__cause__, isinstance(trouble, _Lost) and trouble.fresh
                if attempt >= self._retries or disagreement(why) is not None:
                    raise self.unreachable(why, "nothing was changed by asking", fresh) from why
                await self.pause(attempt)
            else:
                if isinstance(found, Stream):
                    return found
                busy = found.status in _AGAIN and (found.wait or 0.0) <= LONGEST_WAIT
                if not busy or attempt >= self._retries:
                    raise failure_of(found.status, found.body, self.place.url)
                await self.pause(attempt, found.wait)
            attempt += 1

    def _opened(self, request: Request, accept: str, silence: float | None) -> "Stream | Reply":
        connection, fresh = self._connected()
        try:
            sock = connection.sock
            headers = self._headers(request, accept)
            connection.request(request.method, self.place.base + request.target, request.body, headers)
            answer = connection.getresponse()
            fresh = False
            if answer.status >= S.MULTIPLE_CHOICES:
                return self._finished(connection, answer)
            if silence is not None:
                sock.settimeout(silence)
            return Stream(self, self._streams, connection, sock, answer)
        except _TROUBLE as trouble:
            connection.close()
            raise _Lost(fresh) from trouble
        except BaseException:
            connection.close()
            raise


class Stream:
    """An answer that is read as it comes. Whoever is done with it closes it."""

    def __init__(
        self, transport: Transport, crew: Crew, connection: HTTPConnection, sock: Any, answer: HTTPResponse
    ) -> None:
        self._transport = transport
        self._crew = crew
        self._connection = connection
        self._sock = sock
        self._answer = answer

    async def piece(self) -> bytes:
        """What has come meanwhile; empty at the end, `Unreachable` when it was cut off before."""
        try:
            return await self._crew.aside(partial(self._answer.read1, PIECE))
        except _TROUBLE as trouble:
            raise self._transport.unreachable(trouble, "the answer was cut off") from trouble

    async def lines(self) -> AsyncIterator[bytes]:
        """The answer line by line, each with its newline."""
        held = b""
        while piece := await self.piece():
            *whole, held = (held + piece).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if held:
            yield held

    def close(self) -> None:
        """Hang up; whoever reads just now is woken."""
        with suppress(OSError):
            self._sock.shutdown(SHUT_RDWR)
        self._answer.close()
        self._connection.close()


def _wait(told: str | None) -> float | None:
    return float(told) if told is not None and told.isascii() and told.isdigit() else None


def _send_chunk(connection: HTTPConnection, piece: bytes) -> None:
    connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))


async def _batched(pieces: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of a good size: each costs a call."""
    held = bytearray()
    async for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), PIECE):
            held += view[start : start + PIECE]
            if len(held) >= PIECE:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


def _hang_up(connection: HTTPConnection) -> None:
    """Close a connection that another thread may be busy with."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(SHUT_RDWR)
    connection.close()


def _nothing(_: Transport) -> None:
    """A fork takes nothing from the parent."""
