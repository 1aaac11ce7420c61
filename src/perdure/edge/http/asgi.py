"""Requests and answers of HTTP, as plain as ASGI hands them over: no framework between the socket and the table."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from perdure.core.errors import Invalid, TooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

STALL: Final = 60.0
"""Seconds after which a piece of an answer must have been taken."""
MAX_FIELDS: Final = 200
"""How many fields a query string may have."""


class Gone(Exception):
    """The client hung up before its request was whole."""


class Hands:
    """How many requests are being worked on; those that wait for their bodies are not."""

    __slots__ = ("busy",)

    def __init__(self) -> None:
        self.busy = 0


class Request:
    """One request: its head at once, its body when it is asked for."""

    __slots__ = ("_body", "_hands", "_headers", "_receive", "limit", "method", "path", "scope", "streams")

    def __init__(self, scope: Scope, receive: Receive, limit: int, hands: Hands | None = None) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._receive = receive
        self.limit = limit
        """How many bytes its body may have."""
        self.streams = False
        """Whether its answer was counted among those that come in pieces."""
        self._hands = hands or Hands()
        self._headers: dict[str, str] | None = None
        self._body: bytes | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Names in lower case; of a name sent twice the values are joined, as HTTP says."""
        found = self._headers
        if found is None:
            found = self._headers = {}
            for raw, value in self.scope["headers"]:
                name = raw.decode("latin-1")
                spelled = value.decode("latin-1")
                found[name] = f"{found[name]}, {spelled}" if name in found else spelled
        return found

    def segments(self) -> list[str]:
        """The path in pieces, each decoded by itself: an encoded slash stays inside its piece."""
        raw = self.scope.get("raw_path")
        text = self.path if raw is None else raw.decode("latin-1").split("?", 1)[0]
        return [unquote(piece, errors="replace") if "%" in piece else piece for piece in text.split("/")[1:]]

    def query(self) -> list[tuple[str, str]]:
        """The fields of the query string, in order; `Invalid` when it is none."""
        raw = self.scope["query_string"]
        if not raw:
            return []
        try:
            return parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=MAX_FIELDS,
            )
        except ValueError:
            raise Invalid("the query is not a list of name=value pairs in UTF-8; encode it") from None

    @property
    def address(self) -> str | None:
        """Where the request comes from."""
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def declared(self) -> int | None:
        """How many bytes the client says its body has; None when it does not say."""
        told = self.headers.get("content-length", "")
        return int(told) if told.isascii() and told.isdigit() else None

    async def body(self) -> bytes:
        """The whole body; `TooLarge` beyond the limit, which is known from its head if the client says."""
        if self._body is None:
            first = await self._received()
            if first["type"] != "http.disconnect" and not first.get("more_body", False):  # as most bodies come
                self._body = first.get("body", b"")
                if len(self._body) > self.limit:
                    raise _too_large(self.limit)
            else:
                self._body = b"".join([piece async for piece in self.pieces(self.limit, first)])
        return self._body

    async def _received(self) -> MutableMapping[str, Any]:
        """What comes next of the body. Whoever is slow to send it keeps no hands busy."""
        self._hands.busy -= 1
        try:
            return await self._receive()
        finally:
            self._hands.busy += 1

    async def pieces(
        self, limit: int | None = None, first: MutableMapping[str, Any] | None = None
    ) -> AsyncIterator[bytes]:
        """The body as it comes in; without a limit, however much it is. `first` is what was received of it already."""
        if limit is not None and (self.declared or 0) > limit:
            raise _too_large(limit)
        total = 0
        while True:
            message = first or await self._received()
            first = None
            if message["type"] == "http.disconnect":
                raise Gone
            piece: bytes = message.get("body", b"")
            total += len(piece)
            if limit is not None and total > limit:
                raise _too_large(limit)
            if piece:
                yield piece
            if not message.get("more_body", False):
                return

    async def gone(self) -> None:
        """Returns when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes; send less, or put it as a blob", limit=limit)


Headers = list[tuple[bytes, bytes]]
JSON: Final = b"application/json"
NOTHING: Final = b"default-src 'none'; frame-ancestors 'none'"
"""What a browser may load for an answer that is no page."""


class Answer:
    """A status, headers and a body, whole or in pieces."""

    __slots__ = ("body", "headers", "pieces", "policy", "status")

    def __init__(
        self,
        status: int = HTTPStatus.OK,
        body: bytes = b"",
        media: bytes = JSON,
        headers: Headers | None = None,
        pieces: AsyncGenerator[bytes, None] | None = None,
        policy: bytes = NOTHING,
    ) -> None:
        self.status = int(status)
        self.body = body
        self.headers: Headers = headers if headers is not None else []
        if media:
            self.headers.append((b"content-type", media))
        self.pieces = pieces
        self.policy = policy

    async def send(self, send: Send, bare: bool = False) -> None:
        """Hand it to the server; `bare` leaves the body out, as HEAD wants it. `TimeoutError` when whoever asked takes
        nothing of it for too long.
        """
        if self.pieces is not None and not bare:
            async with aclosing(self.pieces) as pieces:
                await _taken(send, {"type": "http.response.start", "status": self.status, "headers": self.headers})
                async for piece in pieces:
                    await _taken(send, {"type": "http.response.body", "body": piece, "more_body": True})
                await _taken(send, {"type": "http.response.body", "body": b""})
            return
        if self.pieces is None and self.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            self.headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"" if bare else self.body})


async def _taken(send: Send, message: MutableMapping[str, Any]) -> None:
    """Send something that must be taken in time."""
    async with asyncio.timeout(STALL):
        await send(message)
