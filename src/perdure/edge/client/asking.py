"""What is asked of a server and what it answers, as plain data."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.edge.http.wire import EXACTLY, loose


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the server. `again` says that asking twice does no more than asking once."""

    method: str
    target: str
    body: bytes | None = None
    headers: dict[str, str] = {}
    again: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent a second time when nobody knows what became of the first."""
        return self.again or self.method == "GET" or "Idempotency-Key" in self.headers


class Reply(msgspec.Struct, frozen=True):
    """What the server answered, and the version it named."""

    status: int
    body: bytes
    wait: float | None = None

    @property
    def document(self) -> Any:
        """The answer as plain data, exact to the last type."""
        return loose(self.body, EXACTLY)


def target(path: str, query: Mapping[str, Any] | None = None) -> str:
    """A path with what is asked for; what is None is left out, and each of a list is named."""
    found = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(found, doseq=True)}" if found else path


def piece_of(text: str) -> str:
    """A text as one piece of a path."""
    return quote(text, safe="")


def key_of(key: Any) -> str:
    """An idempotency key as a header carries it, or `Invalid`."""
    if type(key) is not str or not 0 < len(key) <= 256 or not (key.isascii() and key.isprintable()):
        raise Invalid(f"over a connection, an idempotency key is 1 to 256 printable ASCII characters, not {shown(key)}")
    return key
