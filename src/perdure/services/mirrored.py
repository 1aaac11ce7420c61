"""What a mirror holds: reading back a file of JSON lines that may have been torn by a crash.

Invariant: what is written to a mirror between two syncs is at most `BATCH` bytes or a single line, so a crash can only
have damaged that much at the file's end, and looking at that much is enough.
"""

from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from perdure.core.errors import BadExport
from perdure.core.session import jsonl
from perdure.core.session.jsonl import Footer, Header, Line
from perdure.ports.files import Files

BATCH: Final = 1 << 20
_BLOCK: Final = 1 << 16
_BEGINNING: Final = b'{"perdure":"session"'


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file has come: `end` bytes hold whole events up to `version`; a closed one has its footer after them.

    `position` is the place in the change feed up to which redactions of inherited events are known to be in the file.
    """

    header: Header
    size: int
    end: int
    version: int
    digest: str
    closed: bool
    position: int = -1


class Glance(msgspec.Struct, frozen=True):
    """As much of an event's line as tells whether it was redacted; the header has version 0."""

    version: int = 0
    redacted: bool = False


_glance = msgspec.json.Decoder(Glance).decode


async def look(files: Files, path: str) -> Mirrored | None:
    """What a file holds; None when there is nothing yet. `BadExport` when it is not a mirror at all."""
    size = await files.size(path)
    first = await _first_line(files, path, size) if size else None
    if size is None or first is None:
        return None
    header = _read_header(first, path)
    begin = len(first) + 1
    start = await _line_start(files, path, begin, max(begin, size - BATCH))
    start = await _line_start(files, path, begin, max(begin, start - 1))  # one line more: it was synced before
    content = await files.read(path, start, size - start)
    anchor = header.anchor
    version, digest = (anchor.version, anchor.digest) if anchor is not None else (0, "")
    end, closed, seen = start, False, start == begin
    for number, text in enumerate(content.split(b"\n")[:-1], 2):
        try:
            line = jsonl.read(text, number)
        except BadExport:
            break
        if isinstance(line, Footer):
            closed = line.digest == digest and end + len(text) + 1 == size
            break
        if not isinstance(line, Line) or (seen and line.version != version + 1):
            break
        version, digest, seen = line.version, line.digest, True
        end += len(text) + 1
    if not seen:
        raise BadExport(f"{path} is damaged beyond its last lines; delete it and mirror the session again", path=path)
    return Mirrored(header=header, size=size, end=end, version=version, digest=digest, closed=closed)


async def _first_line(files: Files, path: str, size: int) -> bytes | None:
    """The first line, or None when a crash has torn it."""
    content, wanted = b"", _BLOCK
    while b"\n" not in content and len(content) < min(size, jsonl.MAX_LINE):
        content = await files.read(path, 0, wanted)
        wanted *= 4
    first, newline, _ = content.partition(b"\n")
    if first[: len(_BEGINNING)] != _BEGINNING[: len(first)]:
        raise _foreign(path)
    return first if newline else None


def _read_header(text: bytes, path: str) -> Header:
    line = jsonl.read(text, 1)
    if not isinstance(line, Header):
        raise _foreign(path)
    return line


async def _line_start(files: Files, path: str, least: int, place: int) -> int:
    """Where the line begins that a place lies in."""
    while place > least:
        block = max(least, place - _BLOCK)
        newline = (await files.read(path, block, place - block)).rfind(b"\n")
        if newline >= 0:
            return block + newline + 1
        place = block
    return place


async def lines_of(files: Files, path: str, end: int) -> AsyncGenerator[tuple[Glance, bytes], None]:
    """The whole lines in the first `end` bytes of a file, newlines included, and a glance at each."""
    rest, place, header = b"", 0, True
    while place < end:
        block = await files.read(path, place, min(BATCH, end - place))
        if not block:
            return
        place += len(block)
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            try:
                glance = Glance() if header else _glance(line)
            except msgspec.DecodeError as wrong:
                raise BadExport(f"{path} has a damaged line; delete it and mirror the session again") from wrong
            header = False
            yield glance, line + b"\n"


def _foreign(path: str) -> BadExport:
    return BadExport(f"{path} is not a mirror of a session; choose another file, nothing was changed", path=path)
