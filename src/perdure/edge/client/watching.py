"""The change feed over a connection: server-sent events, rejoined from the last position when the way broke off."""

from collections.abc import AsyncIterator
from typing import Any, Final

from perdure.core.errors import Unreachable
from perdure.core.session.ids import SessionId
from perdure.edge.client.asking import Request
from perdure.edge.client.failures import failure_of
from perdure.edge.client.reading import change_of
from perdure.edge.client.transport import Stream, Transport
from perdure.edge.http.wire import EXACT, EXACTLY, loose
from perdure.ports.store import Change

MEDIA: Final = "text/event-stream"
SILENCE: Final = 60.0
"""Seconds without as much as a heartbeat after which a stream is taken for dead."""
GIVE_UP: Final = 12
"""How often in a row a stream is begun in vain."""


async def changes(transport: Transport, after: int | None, session: SessionId | None) -> AsyncIterator[Change]:
    """Changes as they are committed, from a position on, or from now; of one session if it is named."""
    position: int = after if after is not None else (await transport.get("/v1/position"))["position"]
    failed = 0
    while True:
        try:
            stream = await _joined(transport, position)
            try:
                async for word, data, _ in words(stream):
                    if word != "change":
                        _must_go_on(word, data, transport.place.url)
                        continue
                    change = change_of(loose(data, EXACTLY))
                    position, failed = change.position, 0
                    if session is None or change.session == session:
                        yield change
            finally:
                stream.close()
        except Unreachable:
            if failed >= GIVE_UP:
                raise
        await transport.pause(failed)
        failed += 1


async def _joined(transport: Transport, position: int) -> Stream:
    request = Request(method="GET", target="/v1/changes", headers={"Last-Event-ID": str(position)})
    return await transport.stream(request, accept=f"{MEDIA}, {EXACT}", silence=SILENCE)


async def words(stream: Stream) -> AsyncIterator[tuple[str, bytes, str]]:
    """The events of a stream: what each is called, what it says, and where that stands."""
    word, data, place = "message", b"", ""
    async for raw in stream.lines():
        line = raw.rstrip(b"\r\n")
        if not line:
            if data:
                yield word, data, place
            word, data = "message", b""
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            word = value.decode("utf-8", "replace")
        elif name == b"id":
            place = value.decode("utf-8", "replace")
        elif name == b"data":
            data = data + b"\n" + value if data else value


def _must_go_on(word: str, data: bytes, url: str) -> None:
    """Raise what ends a stream for good: it was refused. That the server leaves is no reason to."""
    if word not in ("problem", "access"):
        return
    told: Any = loose(data, EXACTLY)
    status = told.get("status", 500) if type(told) is dict else 500
    raise failure_of(status if type(status) is int else 500, data, url)
