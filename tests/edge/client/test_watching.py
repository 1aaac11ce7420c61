"""The change feed over a connection that breaks off: it is rejoined where it ended."""

import json
import socket
from collections.abc import Callable

import pytest

import perdure
from perdure import errors
from perdure.core.errors import Unreachable
from perdure.testing import FixedAmbient
from tests.edge.client.scripted import answer, problem, scripted

SESSION = "0192f0c4-7d1e-7abc-8def-0123456789ab"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def change(position: int) -> bytes:
    told = {"position": position, "session_id": SESSION, "first": position, "last": position, "at": 5}
    data = json.dumps(told | {"kinds": ["message"], "erased": False})
    return f"id: {position}\nevent: change\ndata: {data}\n\n".encode()


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def streaming(*pieces: bytes, end: bytes = b"") -> Callable[[socket.socket], None]:
    return lambda sock: sock.sendall(HEAD + b"".join(map(chunk, pieces)) + end)


def watched(script: list[object], after: int, count: int) -> tuple[list[int], list[str]]:
    """The positions that a watcher sees, and where it asked to begin each time."""
    with scripted(*script) as server, perdure.connect(server.url, "pdk_key", ambient=FixedAmbient()) as db:  # type: ignore[arg-type]
        seen = []
        for found in db.watch(after):
            seen.append(found.position)
            if len(seen) == count:
                break
        heads = [head for head, _ in server.asked if "/v1/changes" in head]
        return seen, [line.split(":")[1].strip() for head in heads for line in head.splitlines() if "Event-ID" in line]


def test_a_stream_that_was_cut_is_rejoined_after_the_last_change_that_came() -> None:
    whole = change(4) + change(5)
    script = [
        streaming(b"retry: 1000\n\n", change(3)),
        streaming(b": still here\n\n", whole[:40], whole[40:], end=b"0\r\n\r\n"),
        None,
        streaming(b"event: leaving\ndata: {}\n\n", end=b"0\r\n\r\n"),
        streaming(change(6)),
    ]
    assert watched(script, 2, 4) == ([3, 4, 5, 6], ["2", "3", "5", "5", "5"])


def test_a_refusal_ends_a_stream() -> None:
    told = problem(401, "token_revoked").partition(b"\r\n\r\n")[2]
    with pytest.raises(errors.TokenRevoked):
        watched([streaming(change(3), b"event: access\ndata: " + told + b"\n\n")], 2, 9)
    with pytest.raises(errors.Denied):
        watched([problem(403, "denied")], 2, 9)


def test_a_stream_that_never_begins_is_given_up() -> None:
    with pytest.raises(Unreachable):
        watched([answer(502, b"no")] * 200, 2, 9)
