"""A load on loopback: so many connections, each with its own session, one request after the other on each.

`python -m bench.load URL KEY CONNECTIONS SECONDS` prints requests per second, and how many were not answered as wanted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

CONTENT = "The quick brown fox jumps over the lazy dog, and then it rests for a while. " * 5


def body() -> bytes:
    """What is appended: two messages, as a turn has them."""
    said = [{"kind": "message", "data": {"role": role, "content": CONTENT}} for role in ("user", "assistant")]
    return json.dumps({"events": said}).encode()


class Caller(asyncio.Protocol):
    """One connection: sends the same request again as soon as it was answered."""

    def __init__(self, request: bytes, done: asyncio.Event) -> None:
        self._request = request
        self._done = done
        self._buffer = b""
        self.answered = 0
        self.odd = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lowered = head.lower()
        start = lowered.index(b"content-length:") + 15
        length = int(lowered[start:].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self._buffer = b""
        self.answered += 1
        self.odd += not head.startswith(b"HTTP/1.1 20")
        if not self._done.is_set():
            self._transport.write(self._request)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self.odd += not self._done.is_set()


def request(host: str, path: str, key: str, data: bytes) -> bytes:
    """A POST of JSON."""
    head = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def sessions(url: str, key: str, count: int) -> list[str]:
    """New sessions."""
    from http.client import HTTPConnection

    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port)
    made = []
    for _ in range(count):
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/sessions", b"{}", headers)
        made.append(json.loads(connection.getresponse().read())["session_id"])
    connection.close()
    return made


async def load(url: str, key: str, paths: list[str], seconds: float) -> tuple[float, int]:
    """Requests per second on all connections together, and how many went wrong."""
    place = urlsplit(url)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    callers: list[Caller] = []
    for path in paths:
        one = Caller(request(place.netloc, path, key, body()), done)
        await loop.create_connection(lambda one=one: one, place.hostname, place.port)  # type: ignore[misc]
        callers.append(one)
    await asyncio.sleep(seconds / 4)  # warm
    before, began = sum(caller.answered for caller in callers), time.perf_counter()
    print("begin", flush=True)
    await asyncio.sleep(seconds)
    after, ended = sum(caller.answered for caller in callers), time.perf_counter()
    print("end", flush=True)
    done.set()
    await asyncio.sleep(0.3)
    return (after - before) / (ended - began), sum(caller.odd for caller in callers)


def main() -> None:
    url, key, connections, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    if key == "-":
        paths = ["/append"] * connections
    else:
        paths = [f"/v1/sessions/{session}/events" for session in sessions(url, key, connections)]
    import uvloop

    rate, odd = uvloop.run(load(url, key, paths, seconds))
    print(json.dumps({"rate": rate, "odd": odd}))


if __name__ == "__main__":
    main()
