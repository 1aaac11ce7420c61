"""A server that says what it is told to, line by line: for answers that no honest server gives."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

Say = bytes | None | Callable[[socket.socket], None]
"""An answer; None hangs up without one."""
EXACT = "application/vnd.perdure+json"


def answer(status: int, document: Any, *headers: str) -> bytes:
    """An answer whole."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} So", f"content-length: {len(body)}", f"content-type: {EXACT}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def problem(status: int, code: str, *headers: str, **fields: Any) -> bytes:
    """A refusal."""
    told = {"type": f"urn:perdure:problem:{code}", "title": code, "status": status, "detail": "no", "code": code}
    return answer(status, told | {"fields": fields}, *headers)


ME = answer(200, {"tenant": "local", "principal": "p", "name": "ana"})
NOW = answer(200, {"position": 0, "now": 0})
DONE = answer(201, {"session_id": "0192f0c4-7d1e-7abc-8def-0123456789ab", "version": 7, "turn": None, "events": None})


class Scripted:
    """What was asked, head and body, and where."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[tuple[str, bytes]] = []
        self.connections = 0

    def keys(self, path: str) -> list[str]:
        """The idempotency keys of the requests to a path."""
        heads = [head for head, _ in self.asked if path in head.splitlines()[0]]
        return [
            line.partition(":")[2].strip()
            for head in heads
            for line in head.splitlines()
            if line.lower().startswith("idempotency-key")
        ]

    def count(self, path: str) -> int:
        """How many requests there were to a path."""
        return sum(path in head.splitlines()[0] for head, _ in self.asked)


@contextmanager
def scripted(*script: Say) -> Iterator[Scripted]:
    """A server that greets, and then gives these answers one after the other, whoever asks."""
    left: list[Say] = [ME, NOW, *script]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Scripted(listener.getsockname()[1])

        def serve() -> None:
            with suppress(OSError):
                while left:
                    sock, _ = listener.accept()
                    found.connections += 1
                    with sock:
                        sock.settimeout(20)
                        _converse(sock, left, found)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            left.clear()
            with suppress(OSError), socket.create_connection(listener.getsockname(), 1):
                pass
            thread.join(20)


def _converse(sock: socket.socket, left: list[Say], found: Scripted) -> None:
    file = sock.makefile("rb")
    with file:
        while left:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = file.readline()
                if not line:
                    return
                head += line
            length = next(
                (int(line.split(b":")[1]) for line in head.splitlines() if b"content-length" in line.lower()), 0
            )
            found.asked.append((head.decode(), file.read(length)))
            say = left.pop(0)
            if say is None:
                return
            if callable(say):
                say(sock)
                return
            sock.sendall(say)
