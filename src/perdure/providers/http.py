"""The way to one upstream: a pool of connections, requests with time limits, answers with size limits.

Neither proxies nor redirects are followed, no cookies are kept, nothing is compressed: what was sent is what arrives,
byte for byte. Whoever stops reading hangs up. The connections' parser is loaded with the first request.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core.errors import (
    PerdureError,
    ProviderCut,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderSlow,
)
from perdure.core.talk.routes import Upstream
from perdure.ports.provider import Gate
from perdure.providers.events import Cutting, Event, TooLong
from perdure.providers.failing import Telling, said

if TYPE_CHECKING:
    from perdure.providers.connecting import Connections, Reply

WHOLE: Final = 64 << 20
"""Bytes of a whole answer, at most."""
STREAM: Final = 256 << 20
"""Bytes of a streamed answer, at most."""
EVENT: Final = 16 << 20
"""Bytes of one event, at most."""
ERROR: Final = 1 << 20
"""Bytes of an error that are read."""
LONGER: Final = 5
"""A whole answer may take this many times as long as the first byte of a stream."""
LINGER: Final = 0.25
"""Seconds that a stream which has said all may take to end, so that its connection can be used again."""
OK: Final = 200


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """One request: where to, and what. The model is told when it fails."""

    path: str
    headers: dict[str, str]
    body: bytes
    model: str
    after: Gate | None = None
    """Before that not a byte is sent."""


class Line:
    """Requests to one upstream. Every failure is a `ProviderFailed` or a `ProviderRefused`."""

    def __init__(self, upstream: Upstream, telling: Telling) -> None:
        self._upstream = upstream
        self._telling = telling
        self._connections: Connections | None = None

    async def whole(self, post: Post) -> bytes:
        """The whole answer."""
        patience = self._upstream.first_byte_timeout * LONGER
        response: Reply | None = None
        try:
            async with asyncio.timeout(patience):
                response = await self._sent(post)
                if response.status != OK:
                    raise await self._refusal(post, response)
                return await self._read(post, response, WHOLE)
        except (OSError, ValueError) as error:
            raise self._meant(post, error, patience, begun=response is not None) from error
        finally:
            if response is not None:
                response.close()  # which leaves a connection alone that has delivered everything

    async def events(self, post: Post) -> AsyncGenerator[Event, None]:
        """The answer, event by event, until the stream ends."""
        patience = self._upstream.first_byte_timeout
        async with self._asked(post, patience) as response:
            await self._must_stream(post, response)
            cutting, size = Cutting(EVENT), 0
            while True:
                async with self._within(post, patience, begun=size > 0):
                    data = await response.read()
                if not data:
                    break
                size += len(data)
                patience = self._upstream.idle_timeout
                if size > STREAM:
                    raise self._error(ProviderGarbled, post, f"its answer is longer than {STREAM} bytes")
                try:
                    for event in cutting.feed(data):
                        yield event
                except TooLong:
                    raise self._error(ProviderGarbled, post, f"an event is longer than {EVENT} bytes") from None
            torn = cutting.rest()
            if torn is not None:
                yield torn

    async def close(self) -> None:
        """Let go of all connections."""
        if self._connections is not None:
            self._connections.close()

    # ── one request ──

    @asynccontextmanager
    async def _asked(self, post: Post, patience: float) -> "AsyncIterator[Reply]":
        """The answer to a request, from its headers on; hung up when left early."""
        async with self._within(post, patience, begun=False):
            response = await self._sent(post)
        try:
            if response.status != OK:
                async with self._within(post, patience):
                    raise await self._refusal(post, response)
            yield response
        finally:
            response.close()

    async def _refusal(self, post: Post, response: "Reply") -> PerdureError:
        body = await self._read(post, response, ERROR, cut=True)
        return self._telling.refused(post.model, response.status, response.headers, body)

    async def _sent(self, post: Post) -> "Reply":
        if self._connections is None:
            self._connections = self._opened(post)
        response = await self._connections.post(post.path, post.headers, post.body, post.after)
        coded = response.headers.get("content-encoding", "").strip()
        if coded.lower() not in ("", "identity"):
            response.close()
            raise self._error(ProviderGarbled, post, f"its answer is in {coded:.20}, which nobody asked for")
        return response

    def _opened(self, post: Post) -> "Connections":
        try:
            from perdure.providers.connecting import Connections
        except ModuleNotFoundError as missing:
            what = "asking it needs the extra: pip install 'perdure[gateway]'"
            raise self._error(ProviderFailed, post, what) from missing
        upstream = self._upstream
        return Connections(upstream.address, limit=upstream.max_connections, patience=upstream.connect_timeout)

    async def _must_stream(self, post: Post, response: "Reply") -> None:
        """A document instead of a stream tells of a failure, or is nothing that belongs here."""
        if response.content_type not in ("application/json", "text/html"):
            return
        async with self._within(post, self._upstream.idle_timeout):
            body = await self._read(post, response, ERROR, cut=True)
        try:
            document = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError):
            document = None
        if isinstance(document, dict) and document.get("error"):
            raise self._telling.failed(post.model, *said(document))
        raise self._error(ProviderGarbled, post, f"a stream was asked for, and {response.content_type} came")

    async def _read(self, post: Post, response: "Reply", limit: int, *, cut: bool = False) -> bytes:
        """What the answer holds; more than the limit is cut off, or refused."""
        parts: list[bytes] = []
        size = 0
        while data := await response.read():
            parts.append(data)
            size += len(data)
            if size > limit and cut:
                break
            if size > limit:
                raise self._error(ProviderGarbled, post, f"its answer is longer than {limit} bytes")
        return b"".join(parts)[:limit]

    # ── what can go wrong ──

    @asynccontextmanager
    async def _within(self, post: Post, seconds: float, *, begun: bool = True) -> AsyncIterator[None]:
        """Errors of the network and of the clock as perdure's. `begun` says whether some of the answer has come."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except (OSError, ValueError) as error:  # of connections, of TLS, of the clock
            raise self._meant(post, error, seconds, begun=begun) from error

    def _meant(self, post: Post, error: OSError | ValueError, seconds: float, *, begun: bool) -> PerdureError:
        from perdure.providers.connecting import NotHttp, Unreached
        from perdure.providers.posting import Unsayable

        match error:
            case Unreached():
                return self._error(ProviderDown, post, str(error))
            case TimeoutError():
                return self._error(ProviderSlow, post, f"nothing came for {seconds:g} seconds")
            case NotHttp():
                return self._error(ProviderGarbled, post, f"what came is no HTTP: {error}")
            case Unsayable():
                return self._error(ProviderFailed, post, f"its address cannot be asked ({error}); correct its base_url")
            case _:
                why = str(error) or type(error).__name__
                return self._error(ProviderCut if begun else ProviderDown, post, why)

    def _error(self, kind: type[ProviderFailed], post: Post, why: str) -> PerdureError:
        return self._telling.error(kind, post.model, why)
