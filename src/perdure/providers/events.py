"""Server-sent events cut from a stream of bytes. Invariant: the raw bytes of all events, joined, are the stream."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_BLANK: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINES: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """An event's name and data, either of which may be empty, and the bytes it came in. `torn` where the stream ended
    before the event did.
    """

    name: str
    data: bytes
    raw: bytes
    torn: bool = False


class TooLong(Exception):
    """An event is longer than it may be."""


class Cutting:
    """A stream of bytes, cut into events."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._kept = b""
        self._seen = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that these bytes complete. Raises `TooLong`."""
        kept = self._kept + data if self._kept else data
        start, at = 0, max(0, self._seen - 3)
        while (found := _BLANK.search(kept, at)) is not None:
            at = found.end()
            if at - start > self._longest:
                raise TooLong
            yield _event(kept[start:at])
            start = at
        self._kept = kept[start:]
        self._seen = len(self._kept)
        if self._seen > self._longest:
            raise TooLong

    def rest(self) -> Event | None:
        """What is left when the stream is over: an event that lacks its end, or nothing."""
        kept, self._kept = self._kept, b""
        return _event(kept)._replace(torn=True) if kept.strip() else None


def _event(raw: bytes) -> Event:
    name = ""
    data: list[bytes] = []
    for line in _LINES.split(raw.removeprefix(_MARK)):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    return Event(name, b"\n".join(data), raw)
