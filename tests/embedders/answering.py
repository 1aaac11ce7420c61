"""A real endpoint of embeddings on the loopback device, well-behaved and not."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-very-secret"
SHORT = 2_000
"""Characters that one reads who reads little."""


class Server(ThreadingHTTPServer):
    """Answers with vectors of three numbers, backwards, until `behave` says otherwise."""

    daemon_threads = True
    behave: str = ""
    after: str = "7"
    """When it wants to be asked again."""
    asked: list[dict[str, Any]]
    keys: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append({"path": self.path, **body})
        self.server.keys.append(self.headers.get("authorization", ""))
        data = [{"index": at, "embedding": [3.0, 4.0, float(len(text))]} for at, text in enumerate(body["input"])]
        behave = self.server.behave
        status, answer = 200, json.dumps({"data": data[::-1]}).encode()
        if behave.isdigit():
            status, answer = int(behave), f"no, not with {KEY}: {body['input']}".encode()
        elif behave == "garbled":
            answer = b"<html>" + self.raw()
        elif behave == "no protocol":
            self.wfile.write(self.raw() + b"\r\n\r\n")
            return
        elif behave == "huge":
            answer = json.dumps({"data": [{**row, "embedding": [1e308] * 3} for row in data]}).encode()
        elif behave == "drip":
            self.drip()
            return
        elif behave == "fewer":
            answer = json.dumps({"data": data[1:]}).encode()
        elif behave == "guarded" and self.headers.get("authorization") != f"Bearer {KEY}":
            status, answer = 401, b"who are you?"
        elif behave == "short" and max(map(len, body["input"])) > SHORT:
            status, answer = 413, b"a text is too long"
        elif behave == "other size":
            answer = json.dumps({"data": [{**row, "embedding": [1.0]} for row in data]}).encode()
        elif behave == "slow":
            threading.Event().wait(1)
        elif behave == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
            return
        self.send_response(status)
        self.send_header("retry-after", self.server.after)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer)
        except OSError:
            return

    def raw(self) -> bytes:
        """What it was asked last, as it is."""
        return json.dumps(self.server.asked[-1]["input"]).encode()

    def drip(self) -> None:
        """A byte at a time, each in time, for five seconds."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n")
        for _ in range(100):
            threading.Event().wait(0.05)
            try:
                self.wfile.write(b" ")
            except OSError:
                return

    def log_message(self, *args: object) -> None:
        return


@contextmanager
def answering(port: int = 0) -> Iterator[Server]:
    """One that runs until the block is left."""
    server = Server(("127.0.0.1", port), Handler)
    server.asked, server.keys = [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def address(server: Server | int) -> str:
    """Where it is, or would be at a port."""
    return f"http://127.0.0.1:{server if isinstance(server, int) else server.server_port}/v1"


def nobodys_port() -> int:
    """A port at which nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
    return found
