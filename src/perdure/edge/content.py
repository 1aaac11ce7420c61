"""Content that callers hand in, in every form it may have, and what they say of it; checked at the door."""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from io import IOBase
from stat import S_IFREG, S_ISDIR, S_ISREG
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.core.session.values import check
from perdure.edge import files
from perdure.edge.given import path_of
from perdure.ports.blobs import CHUNK, Note, Source
from perdure.waiting import blocking

Content = bytes | bytearray | memoryview | str | os.PathLike[str] | Iterable[bytes] | AsyncIterable[bytes] | Any
"""Bytes, the path of a file, a file opened in binary mode, or pieces of bytes from any iterator."""
MAX_NAME: Final = 255
_MEDIA_TYPE: Final = r"[a-zA-Z0-9_.+-]+/[a-zA-Z0-9_.+-]+( *;[ -~]*)?"


class _Bytes:
    """Content in memory."""

    repeatable = True

    def __init__(self, content: Any) -> None:
        from perdure.services.blobstream import viewed

        self._content = viewed(content)
        self.size: int | None = len(self._content)

    async def pieces(self) -> AsyncGenerator[Any, None]:
        """All of it at once: whoever cuts it copies no more than a chunk."""
        yield self._content


class _Path:
    """A file by its name."""

    repeatable = True

    def __init__(self, path: str) -> None:
        self._path = path
        kind = os.stat(path).st_mode if os.path.exists(path) else S_IFREG  # what is not there, reading it will say
        if not S_ISREG(kind) and not S_ISDIR(kind):
            raise Invalid(f"{shown(path)} is a pipe or a device, which may never end; open it, and put the open file")
        self.size: int | None = os.path.getsize(path) if os.path.isfile(path) else None

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """What is in it."""
        return files.pieces(self._path)


class _Pieces:
    """Whatever gives bytes, once."""

    repeatable = False

    def __init__(self, given: Callable[[], AsyncGenerator[bytes, None]]) -> None:
        self.size: int | None = None
        self.pieces = given


def source_of(source: Any) -> Source:
    """Where content comes from, or `Invalid`."""
    if isinstance(source, bytes | bytearray | memoryview):
        return _Bytes(source)
    if isinstance(source, str | os.PathLike):
        return _Path(path_of(source))
    if callable(getattr(source, "read", None)):
        _must_be_readable(source)
        return _Pieces(lambda: _read(source))
    if isinstance(source, AsyncIterable):
        return _Pieces(lambda: _each_of(source))
    if isinstance(source, Iterable) and not isinstance(source, dict | set | frozenset):
        return _Pieces(lambda: _each(source))
    raise Invalid(f"put bytes, a path, a file opened in binary mode or pieces of bytes, not {shown(source)}")


def _must_be_readable(file: Any) -> None:
    """A file of Python's own says whether it can be read; others are asked by reading."""
    if isinstance(file, IOBase):
        if file.closed:
            raise Invalid("the file is closed; open it again and put it then")
        if not file.readable():
            raise Invalid("the file was not opened for reading; open it in mode rb")


async def _read(file: Any) -> AsyncGenerator[Any, None]:
    while True:
        piece = await _aside(lambda: file.read(CHUNK))
        if hasattr(piece, "__await__"):
            piece = await piece
        if piece is None:
            raise Invalid("the file has nothing to read yet; open it in blocking mode")
        if not len(piece):
            return
        yield piece


async def _aside(work: Callable[[], Any]) -> Any:
    """Do what may block: here, or on another thread when an event loop runs here."""
    if blocking():
        return work()
    import asyncio

    return await asyncio.to_thread(work)


async def _each(pieces: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for piece in pieces:
        yield piece


async def _each_of(pieces: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    async for piece in pieces:
        yield piece


def note_of(source: Any, media_type: Any, name: Any) -> Note:
    """What is said of content, or `Invalid`; from a path, what its name tells."""
    if name is None and isinstance(source, str | os.PathLike):
        last = os.path.basename(path_of(source))
        name = os.fsencode(last).decode("utf-8", "replace")[:MAX_NAME]
    said = _name(name) if name is not None else ""
    if media_type is None:
        return Note(_guessed(said) if said else "", said)
    if type(media_type) is not str or len(media_type) > MAX_NAME or not re.fullmatch(_MEDIA_TYPE, media_type):
        raise Invalid(f"a media type looks like image/png, not {shown(media_type)}")
    return Note(media_type, said)


def _name(name: Any) -> str:
    if type(name) is not str or len(name) > MAX_NAME:
        raise Invalid(f"a blob's name is a text of at most {MAX_NAME} characters, not {shown(name)}")
    check(name)
    return name


def _guessed(name: str) -> str:
    """The media type a name tells of, the same on every machine; nothing when it tells none."""
    from mimetypes import MimeTypes

    kind, packed = MimeTypes(filenames=()).guess_type(name, strict=False)
    return kind if kind is not None and packed is None else ""
