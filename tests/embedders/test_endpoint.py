"""Vectors from an endpoint: a real server on the loopback device, well-behaved and not."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from perdure.core.errors import (
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)
from perdure.embedders.endpoint import Endpoint
from perdure.embedders.making import made

KEY = "sk-very-secret"


class Server(ThreadingHTTPServer):
    """Answers with vectors of three numbers, backwards, until `behave` says otherwise."""

    daemon_threads = True
    behave: str = ""
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
            status, answer = int(behave), f"no, not with {KEY}".encode()
        elif behave == "garbled":
            answer = b"<html>"
        elif behave == "fewer":
            answer = json.dumps({"data": data[1:]}).encode()
        elif behave == "other size":
            answer = json.dumps({"data": [{**row, "embedding": [1.0]} for row in data]}).encode()
        elif behave == "slow":
            threading.Event().wait(1)
        elif behave == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
            return
        self.send_response(status)
        self.send_header("retry-after", "7")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer)
        except OSError:
            return

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.asked, server.keys = [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def test_vectors_come_in_the_order_of_the_texts_and_have_length_one(server: Server) -> None:
    embedder = Endpoint(address(server), "m", key=KEY)
    assert embedder.dimensions == 3
    rows = embedder.embed(["", "twelve chars"])
    assert rows[1] == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    assert sum(value * value for value in rows[0]) == pytest.approx(1)
    assert server.asked[-1]["path"] == "/v1/embeddings"
    assert server.asked[-1]["model"] == "m"
    assert server.keys[-1] == f"Bearer {KEY}"


def test_many_texts_are_asked_for_in_batches(server: Server) -> None:
    embedder = Endpoint(address(server), "m", dimensions=3)
    assert server.asked == []
    assert len(embedder.embed([str(at) for at in range(300)])) == 300
    assert [len(each["input"]) for each in server.asked] == [128, 128, 44]


def test_its_name_tells_where_and_what_but_no_secret(server: Server) -> None:
    embedder = made(f"http://user:pass@127.0.0.1:{server.server_port}/v1#m", key=KEY)
    assert embedder is not None
    assert embedder.name == f"{address(server)}#m"


@pytest.mark.parametrize(
    ("behave", "error"),
    [
        ("400", ProviderRefused),
        ("401", ProviderDenied),
        ("404", ProviderRefused),
        ("429", ProviderBusy),
        ("500", ProviderDown),
        ("503", ProviderBusy),
        ("301", ProviderDown),
        ("garbled", ProviderGarbled),
        ("fewer", ProviderGarbled),
        ("other size", ProviderGarbled),
        ("slow", ProviderSlow),
        ("cut", ProviderCut),
    ],
)
def test_a_failure_is_told_as_what_it_is(server: Server, behave: str, error: type[PerdureError]) -> None:
    embedder = Endpoint(address(server), "m", key=KEY, dimensions=3, timeout=0.3)
    server.behave = behave
    with pytest.raises(error) as failed:
        embedder.embed(["one", "two"])
    assert KEY not in failed.value.message
    assert failed.value.fields["provider"] == embedder.name
    assert KEY not in repr(failed.value.fields)
    if behave == "429":
        assert failed.value.fields["retry_after"] == 7


def test_nobody_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ProviderDown):
        Endpoint(f"http://127.0.0.1:{port}/v1", "m")
