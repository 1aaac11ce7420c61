"""HTTP that is none, or hardly: what a socket can be sent that no client would send."""

import random
from collections.abc import Callable

Pieces = tuple[list[bytes], float, bool]
"""What to send piece by piece, the pause between the pieces, and whether to hold the line open afterwards."""


def broken(chance: random.Random, host: str, key: str, paths: list[str]) -> tuple[str, Pieces]:
    """One broken request, and what is wrong with it."""
    make = chance.choice(_KINDS)
    found = make(chance, f"Host: {host}\r\nAuthorization: Bearer {key}\r\n".encode(), chance.choice(paths).encode())
    pieces, pause, hold = found if isinstance(found, tuple) else ([found], 0.0, False)
    return make.__name__.strip("_"), (pieces, pause, hold)


def _request_line(chance: random.Random, head: bytes, path: bytes) -> bytes:
    lines = (
        b"",
        b"GET",
        b"GET " + path,
        b"GET  " + path + b"  HTTP/1.1",
        b"GET " + path + b" HTTP/9.9",
        b"GET " + path + b" HTTP/1.1 HTTP/1.1",
        b"GET " + path + b" http/1.1",
        b"GET " + path + b" HTCPCP/1.0",
        b"get " + path + b" HTTP/1.1",
        b"G\x00T " + path + b" HTTP/1.1",
        b"\xff\xfe " + path + b" HTTP/1.1",
        b"X" * 70_000 + b" " + path + b" HTTP/1.1",
        b"GET " + b"/" + b"a" * chance.choice((5_000, 70_000, 200_000)) + b" HTTP/1.1",
        b"GET http://elsewhere.example" + path + b" HTTP/1.1",
        b"GET //elsewhere.example" + path + b" HTTP/1.1",
        b"GET * HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT elsewhere.example:443 HTTP/1.1",
        b"TRACE " + path + b" HTTP/1.1",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET " + path + b" HTTP/1.0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(40),
        b"*1\r\n$4\r\nPING",
        b"GET\t" + path + b"\tHTTP/1.1",
        b"GET " + path + b"#fragment HTTP/1.1",
        b"GET " + path + b"\x00 HTTP/1.1",
        b"GET \\" + path + b" HTTP/1.1",
    )
    return chance.choice(lines) + b"\r\n" + head + b"\r\n"


def _path_bytes(chance: random.Random, head: bytes, path: bytes) -> bytes:
    odd = chance.choice(
        (
            b"\xff\xfe",
            b"\xc0\xaf",
            b"\xed\xa0\x80",
            b"%ff%fe",
            b"%00",
            b"%",
            b"%u0041",
            b"/../..",
            b"/./",
            b"//",
            b";a=b",
            b"\xe2\x82",
        )
    )
    at = chance.randrange(1, len(path) + 1)
    return b"GET " + path[:at] + odd + path[at:] + b" HTTP/1.1\r\n" + head + b"\r\n"


def _query_bytes(chance: random.Random, head: bytes, path: bytes) -> bytes:
    odd = chance.choice(
        (
            b"?",
            b"??",
            b"?=",
            b"?&&&",
            b"?a",
            b"?a=%ff",
            b"?a=\xff",
            b"?%00=%00",
            b"?limit=%",
            b"?" + b"a=1&" * 5_000,
            b"?limit=" + b"9" * 60_000,
            b"?limit=1&limit=2",
            b"?a[b][c]=1",
            b"?limit=1;after=2",
            b"?after=\xc2\xb2",
        )
    )
    return b"GET " + path + odd + b" HTTP/1.1\r\n" + head + b"\r\n"


def _header_flood(chance: random.Random, head: bytes, path: bytes) -> bytes:
    count = chance.choice((101, 1_000, 5_000))
    more = b"".join(b"X-%d: %s\r\n" % (n, b"y" * chance.randrange(20)) for n in range(count))
    return b"GET " + path + b" HTTP/1.1\r\n" + head + more + b"\r\n"


def _huge_header(chance: random.Random, head: bytes, path: bytes) -> bytes:
    name = chance.choice(
        (b"X-Big", b"Cookie", b"Authorization", b"If-Match", b"Idempotency-Key", b"Accept", b"Content-Type")
    )
    return (
        b"POST "
        + path
        + b" HTTP/1.1\r\n"
        + head
        + name
        + b": "
        + b"z" * chance.choice((9_000, 70_000, 300_000))
        + b"\r\n\r\n"
    )


def _odd_header(chance: random.Random, head: bytes, path: bytes) -> bytes:
    odd = chance.choice(
        (
            b"NoColon\r\n",
            b": empty\r\n",
            b"Bad Name: x\r\n",
            b"X: a\x00b\r\n",
            b"X: a\x0bb\r\n",
            b"X: \xff\xfe\r\n",
            b"X\xff: y\r\n",
            b"X: a\r\n folded\r\n",
            b" Leading: x\r\n",
            b"X : y\r\n",
            b"X: y\n",
            b"X: y\rZ: w\r\n",
            b"Host: other.example\r\n",
            b"Expect: 100-continue\r\n",
            b"Expect: 200-maybe\r\n",
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n",
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 99\r\nSec-WebSocket-Key: AA==\r\n",
            b"Connection: keep-alive, close, x\r\n",
            b"Trailer: X\r\n",
            b"Forwarded: for=unknown\r\nX-Forwarded-For: 1.2.3.4, ::1\r\n",
        )
    )
    return b"GET " + path + b" HTTP/1.1\r\n" + head + odd + b"\r\n"


def _wrong_length(chance: random.Random, head: bytes, path: bytes) -> bytes:
    told = chance.choice(
        (
            b"-1",
            b"+2",
            b"0x2",
            b"2.0",
            b"",
            b"two",
            b"2, 2",
            b"2, 3",
            b"99999999999999999999999",
            b"9" * 200,
            b"1",
            b"50",
            b"\xc2\xb2",
            b"1 1",
        )
    )
    return (
        b"POST "
        + path
        + b" HTTP/1.1\r\n"
        + head
        + b"Content-Type: application/json\r\nContent-Length: "
        + told
        + b"\r\n\r\n{}"
    )


def _two_lengths(chance: random.Random, head: bytes, path: bytes) -> bytes:
    second = chance.choice(
        (b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n")
    )
    return b"POST " + path + b" HTTP/1.1\r\n" + head + b"Content-Length: 2\r\n" + second + b"\r\n{}\r\n0\r\n\r\n"


def _chunks(chance: random.Random, head: bytes, path: bytes) -> bytes:
    body = chance.choice(
        (
            b"2\r\n{}\r\n",
            b"2\r\n{}",
            b"zz\r\n{}\r\n0\r\n\r\n",
            b"-2\r\n{}\r\n0\r\n\r\n",
            b"0x2\r\n{}\r\n0\r\n\r\n",
            b"2;ext=" + b"e" * 50_000 + b"\r\n{}\r\n0\r\n\r\n",
            b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            b"7fffffffffffffff\r\n{}\r\n0\r\n\r\n",
            b"2\n{}\n0\n\n",
            b"2\r\n{}\r\n0\r\nX-Trailer: y\r\n\r\n",
            b"2\r\n{}\r\n0\r\n" + b"T: u\r\n" * 3_000 + b"\r\n",
            b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            b"3\r\n{}\r\n0\r\n\r\n",
            b" 2\r\n{}\r\n0\r\n\r\n",
            b"0\r\n\r\n",
            b"\r\n\r\n",
        )
    )
    coding = chance.choice(
        (b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"xchunked", b"\x0bchunked", b"chunked\r\nX: y")
    )
    return b"POST " + path + b" HTTP/1.1\r\n" + head + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + body


def _slow(chance: random.Random, head: bytes, path: bytes) -> Pieces:
    whole = b"POST " + path + b" HTTP/1.1\r\n" + head + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
    step = max(1, len(whole) // 40)
    return [whole[at : at + step] for at in range(0, len(whole), step)], 0.002, False


def _cut(chance: random.Random, head: bytes, path: bytes) -> bytes:
    whole = b"POST " + path + b" HTTP/1.1\r\n" + head + b"Content-Length: 20\r\n\r\n" + b"{" + b" " * 18 + b"}"
    return whole[: chance.randrange(1, len(whole))]


def _pipelined(chance: random.Random, head: bytes, path: bytes) -> bytes:
    good = b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n"
    bad = chance.choice(
        (b"GARBAGE\r\n\r\n", b"POST " + path + b" HTTP/1.1\r\n" + head + b"Content-Length: 5\r\n\r\n{", b"\r\n\r\n\r\n")
    )
    return good * chance.randrange(1, 30) + bad + good * chance.randrange(3)


def _noise(chance: random.Random, head: bytes, path: bytes) -> bytes:
    return chance.randbytes(chance.randrange(1, 3_000))


def _mutated(chance: random.Random, head: bytes, path: bytes) -> bytes:
    whole = bytearray(
        b"POST " + path + b" HTTP/1.1\r\n" + head + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(whole))
        roll = chance.random()
        if roll < 0.5:
            whole[at] = chance.randrange(256)
        elif roll < 0.75:
            del whole[at]
        else:
            whole[at:at] = bytes(chance.randbytes(chance.randrange(1, 4)))
    return bytes(whole)


_Maker = Callable[[random.Random, bytes, bytes], bytes | Pieces]
_KINDS: tuple[_Maker, ...] = (
    _request_line,
    _path_bytes,
    _query_bytes,
    _header_flood,
    _huge_header,
    _odd_header,
    _wrong_length,
    _two_lengths,
    _chunks,
    _slow,
    _cut,
    _pipelined,
    _noise,
    _mutated,
)
