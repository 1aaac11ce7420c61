"""Bytes to the server and back, as plain as sockets are: nothing here minds what it sends."""

import asyncio
import contextlib
from dataclasses import dataclass, field

DEADLINE = 20.0
"""Seconds after which no answer is a hang."""
_LONGEST = 64 * 1024 * 1024


@dataclass
class Reply:
    """What came back: the first answer of the connection, or nothing before it was closed."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes = b""
    hung: bool = False
    """Neither an answer nor an end within the deadline."""


class Line:
    """One connection, made anew when it is needed."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes, bare: bool = False) -> Reply:
        """Send a request that HTTP can read and take its answer; once more if the connection had been closed idle."""
        for fresh in (False, True):
            if self._writer is None or fresh:
                await self._open()
            reply = await self._exchange(request, bare)
            if reply.status or reply.hung:
                return reply
            await self.close()
        return reply

    async def _open(self) -> None:
        await self.close()
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 20)

    async def _exchange(self, request: bytes, bare: bool) -> Reply:
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            return Reply()
        try:
            async with asyncio.timeout(DEADLINE) as patience:
                with contextlib.suppress(ConnectionError):  # an answer may come before all was read
                    writer.write(request)
                    await writer.drain()
                reply = await read(reader, bare, patience)
        except TimeoutError:
            await self.close()
            return Reply(hung=True)
        if not reply.status or reply.headers.get("connection", "").lower() == "close":
            await self.close()
        return reply

    async def close(self) -> None:
        """Hang up."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()


async def throw(host: str, port: int, pieces: list[bytes], pause: float, hold: bool = False) -> Reply:
    """Send pieces on a connection of their own, then say that nothing follows, and take all that comes back.

    With `hold` nothing is said: the server itself has to end it, or answer.
    """
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    try:
        async with asyncio.timeout(DEADLINE) as patience:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    if pause:
                        await asyncio.sleep(pause)
                if not hold and writer.can_write_eof():
                    with contextlib.suppress(OSError):  # it may have hung up already
                        writer.write_eof()
            reply = await read(reader, False, patience)
            if not hold:
                with contextlib.suppress(ConnectionError):
                    reply.raw += await reader.read(1 << 20)
            return reply
    except TimeoutError:
        return Reply(hung=True)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()


async def read(reader: asyncio.StreamReader, bare: bool, patience: asyncio.Timeout) -> Reply:
    """One answer; an empty one when the connection ends without. As long as more of it comes, it does not hang."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        return Reply(raw=ended.partial)
    except (asyncio.LimitOverrunError, ConnectionError):
        return Reply()
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    reply = Reply(status, headers, b"", head)
    if status == 100:
        return await read(reader, bare, patience)
    if headers.get("content-type", "").startswith("text/event-stream"):
        headers["connection"] = "close"  # it would go on for ever: that it began is enough
    elif not bare and status not in (204, 304):
        try:
            reply.body = await _body(reader, headers, patience)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            reply.status = 0
    return reply


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], patience: asyncio.Timeout) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces, clock = [], asyncio.get_running_loop()
        while size := int((await reader.readline()).strip() or b"0", 16):
            pieces.append(await reader.readexactly(size))
            await reader.readline()
            patience.reschedule(clock.time() + DEADLINE)
        await reader.readline()
        return b"".join(pieces)
    if "content-length" in headers:
        return await reader.readexactly(min(_LONGEST, int(headers["content-length"])))
    return await reader.read(_LONGEST)
