"""The server: requests are read, counted, and answered as their model's name says."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from upstream import anthropic, chat, responses
from upstream.script import Script, script
from upstream.talk import Asked, Cache, Used, saying

FOREVER = 3_600
BIGGEST = 64 << 20
REMEMBERED = 100
"""Requests that are kept to be looked at."""
AFTER = "retry-after"
_COMMENT = b": thinking\n\n"


class Seen(NamedTuple):
    """A request as it arrived."""

    path: str
    query: str
    headers: dict[str, str]
    body: dict[str, Any]


class Counts(msgspec.Struct):
    """What happened so far: requests in all, by idempotency key, by model; and clients that hung up on us."""

    requests: int = 0
    keys: Counter[str] = msgspec.field(default_factory=Counter)
    models: Counter[str] = msgspec.field(default_factory=Counter)
    disconnects: int = 0
    open: int = 0


class Server:
    """A provider's server. With a key, only who has it is answered."""

    def __init__(self, *, key: str = "", clock: Callable[[], float] = time.time) -> None:
        self.counts = Counts()
        self.seen: deque[Seen] = deque(maxlen=REMEMBERED)
        self.sent: list[bytes] = []
        """The bytes of the last stream, as they were sent."""
        self.asked = asyncio.Event()
        """Set when a request has arrived; for whoever waits for one."""
        self.port = 0
        self._key = key
        self._clock = clock
        self._cache = Cache()
        self._failed_once: set[str] = set()
        self._number = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Listen on the loopback device; port 0 is any that is free."""
        app = web.Application(client_max_size=BIGGEST)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_get("/counts", self._told)
        app.router.add_post("/reset", self._reset)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Hang up on everyone."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # ── endpoints ──

    async def _told(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self.counts), content_type="application/json")

    async def _reset(self, request: web.Request) -> web.Response:
        self.counts = Counts(open=self.counts.open)
        self.seen.clear()
        self._failed_once.clear()
        self._cache = Cache()
        return web.Response()

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get("x-api-key", "")
        if "anthropic-version" not in request.headers:
            return _document(400, anthropic.error(400, "anthropic-version: header is required"))
        return await self._serve(request, anthropic, given)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, chat, request.headers.get("authorization", "").removeprefix("Bearer "))

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, responses, request.headers.get("authorization", "").removeprefix("Bearer "))

    # ── one request ──

    async def _serve(self, request: web.Request, form: ModuleType, given: str) -> web.StreamResponse:
        data = await request.read()
        if self._key and given != self._key:
            return _document(401, form.error(401, f"invalid x-api-key: {given}" if given else "no key"))
        try:
            body = msgspec.json.decode(data, type=dict[str, Any])
            asked: Asked = form.read(body)
        except (msgspec.MsgspecError, ValueError) as error:
            return _document(400, form.error(400, str(error)))
        steps = script(asked.model)
        key = request.headers.get("idempotency-key", "")
        self._count(request, body, key)
        with self._open():
            refusal = await self._refusal(request, form, asked, steps, key or blake2b(data, digest_size=8).hexdigest())
            if refusal is not None:
                return refusal
            self._number += 1
            said = saying(asked, steps, self._number)
            used: Used = form.used(asked, self._cache)
            used.answer = len(said.words) + len(said.thoughts) + sum(-(-len(call) // 4) for _, call in said.calls)
            created = int(self._clock())
            if asked.stream:
                return await self._streamed(request, form, steps, form.frames(asked, said, used, created))
            if steps.delay:
                await asyncio.sleep(steps.delay * max(1, used.answer))
            return await self._answered(request, steps, form.whole(asked, said, used, created))

    def _count(self, request: web.Request, body: dict[str, Any], key: str) -> None:
        self.counts.requests += 1
        self.asked.set()
        self.counts.models[body["model"]] += 1
        if key:
            self.counts.keys[key] += 1
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path, request.query_string, headers, body))

    def _open(self) -> "_Open":
        return _Open(self.counts)

    async def _refusal(
        self, request: web.Request, form: ModuleType, asked: Asked, steps: Script, key: str
    ) -> web.StreamResponse | None:
        """How a request fails before there is an answer, if it does."""
        if steps.window is not None and asked.tokens > steps.window:
            return _document(400, form.too_long(asked, steps))
        status = 500 if self.counts.models[asked.model] <= steps.flaky else steps.status
        if steps.then_ok and key in self._failed_once:
            self._failed_once.discard(key)
            status = 0
        elif steps.then_ok:
            self._failed_once.add(key)
        if status:
            after = 1 if steps.after is None and status == 429 else steps.after
            return _document(status, form.error(status), {} if after is None else {AFTER: str(after)})
        match steps.fault:
            case "overloaded":
                return _document(form.OVERLOADED, form.error(form.OVERLOADED))
            case "hang":
                await asyncio.sleep(FOREVER)
            case "cut-at-start":
                _hang_up(request)
            case "html":
                return web.Response(text="<html><body>Welcome</body></html>", content_type="text/html")
            case "error-200":
                return _document(200, form.error(form.OVERLOADED))
            case "redirect":
                return web.Response(status=302, headers={"location": "http://127.0.0.1:9/v1/messages"})
        return None

    async def _answered(self, request: web.Request, steps: Script, body: bytes) -> web.StreamResponse:
        """A whole answer, or half of it."""
        if steps.fault in ("malformed-chunk", "malformed-first"):
            return _document(200, body[: len(body) // 2])
        if steps.fault not in ("cut-mid-stream", "hang-mid-stream"):
            return _document(200, body)
        response = web.StreamResponse(headers={"content-type": "application/json", "content-length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        if steps.fault == "hang-mid-stream":
            await asyncio.sleep(FOREVER)
        _hang_up(request)
        return response

    async def _streamed(
        self, request: web.Request, form: ModuleType, steps: Script, frames: Iterator[bytes]
    ) -> web.StreamResponse:
        """A streamed answer, with what is to happen in its middle."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        response.headers["cache-control"] = "no-cache"
        await response.prepare(request)
        sent = self.sent = []
        if steps.fault == "malformed-first":
            frames = iter([b"data: {nothing that is JSON\n\n"])
        elif steps.fault == "overloaded-first":
            frames = iter([_COMMENT, form.error_frame()])
        elif steps.fault:
            known = list(frames)
            frames = iter(known[: max(2, len(known) // 2)])
        elif steps.comments:
            frames = (part for frame in frames for part in (_COMMENT, frame.replace(b"\n", b"\r\n")))
        for frame in frames:
            if steps.delay:
                await asyncio.sleep(steps.delay)
            await response.write(frame)
            sent.append(frame)
        match steps.fault:
            case "overloaded-mid-stream":
                await response.write(form.error_frame())
            case "malformed-chunk":
                await response.write(b'data: {"type": "content_block_delta", "ind\n\n')
            case "hang-mid-stream":
                await asyncio.sleep(FOREVER)
            case "cut-mid-stream":
                _hang_up(request)
        return response


class _Open:
    """A request being served: counted while it is, and as hung up on if it is cancelled."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def __enter__(self) -> None:
        self._counts.open += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._counts.open -= 1
        if kind is not None and issubclass(kind, asyncio.CancelledError | ConnectionError):
            self._counts.disconnects += 1


def _document(status: int, body: bytes, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={"request-id": "req_local", **(headers or {})},
    )


def _hang_up(request: web.Request) -> None:
    """Cut the connection, with nothing said."""
    if request.transport is not None:
        request.transport.abort()


@asynccontextmanager
async def serving(*, key: str = "", port: int = 0) -> AsyncIterator[Server]:
    """A server that runs as long as it is needed."""
    server = Server(key=key)
    await server.start(port)
    try:
        yield server
    finally:
        await server.stop()
