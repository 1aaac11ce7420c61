"""Transcript entries as the Claude command line writes them, and a server that speaks for the model."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

SESSION = "0b6f7f0e-57b4-4c6f-8f5d-2f3f0a6f5a11"
OTHER = "9d1c7c52-1b0e-4c0b-a6a0-3f5d7d1f6c22"
PROJECT = "-srv-trip"
KEY: Any = {"project_key": PROJECT, "session_id": SESSION}


def uid(number: int) -> str:
    """A uuid of one's own."""
    return str(UUID(int=number, version=4))


def line(number: int, kind: str, content: Any, after: int | None = None, **more: Any) -> dict[str, Any]:
    """What the user or the model said, as one line of a transcript."""
    return {
        "parentUuid": None if after is None else uid(after),
        "isSidechain": False,
        "type": kind,
        "message": {"role": kind, "content": content, **more.pop("message", {})},
        "uuid": uid(number),
        "timestamp": f"2026-11-15T12:00:{number % 60:02}.000Z",
        "cwd": "/srv/trip",
        "sessionId": SESSION,
        "version": "2.1.325",
        "gitBranch": "main",
        **more,
    }


def exchange() -> list[dict[str, Any]]:
    """A turn with thoughts, a tool and an answer, and what the command line notes around it."""

    def answer(number: int, block: dict[str, Any], stop: str) -> dict[str, Any]:
        message = {"id": f"msg_{stop}", "type": "message", "model": "claude-opus-5-5", "stop_reason": stop}
        return line(number, "assistant", [block], number - 1, message=message)

    return [
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": "Find a flight"},
        line(1, "user", "Find a flight"),
        {**line(2, "attachment", None, 1), "message": None, "attachment": {"type": "date", "date": "2026-11-15"}},
        answer(3, {"type": "thinking", "thinking": "Flights…", "signature": "c2ln"}, "tool_use"),
        answer(4, {"type": "text", "text": "I look."}, "tool_use"),
        answer(5, {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "flights"}}, "tool_use"),
        line(6, "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "TP 123", "is_error": False}], 5),
        answer(7, {"type": "text", "text": "TP 123 at nine."}, "end_turn"),
        {"type": "last-prompt", "lastPrompt": "Find a flight", "leafUuid": uid(7), "sessionId": SESSION},
    ]


class _Model(BaseHTTPRequestHandler):
    """Streams an answer to every request: a tool's call when asked for one, words otherwise."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(404, b"", "text/plain")

    def do_HEAD(self) -> None:
        self._answer(200, b"", "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            self._answer(404, b"{}", "application/json")
            return
        self.server.asked.append(body["messages"])
        number = len(self.server.asked)
        last = json.dumps(body["messages"][-2:])
        if "use a tool" in last and "tool_result" not in last:
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {}}
            given = json.dumps({"command": "echo from-the-tool", "description": "say it"})
            pieces = [(call, {"type": "input_json_delta", "partial_json": given})]
            stop = "tool_use"
        else:
            pieces = [({"type": "text", "text": ""}, {"type": "text_delta", "text": f"Answer {number}."})]
            stop = "end_turn"
        events = "".join(
            f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" for item in _stream(number, pieces, stop)
        )
        self._answer(200, events.encode(), "text/event-stream")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _stream(number: int, pieces: list[tuple[dict[str, Any], dict[str, Any]]], stop: str) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 5, "output_tokens": 7}
    empty = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {
        "type": "message_start",
        "message": {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted", **empty},
    }
    for index, (block, delta) in enumerate(pieces):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


@contextmanager
def model() -> Iterator[tuple[str, list[Any]]]:
    """The address of a model that runs here, and what it was asked."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
