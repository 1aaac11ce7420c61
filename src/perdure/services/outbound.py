"""Posting to addresses that clients of a server gave: only where that may lead.

Invariant: a connection is made to an address that was looked at just before, never to a name that is resolved anew.
Neither redirects nor proxies are followed: both would lead somewhere that nobody looked at.
"""

import socket
import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from perdure.core.access.outbound import refusal
from perdure.core.errors import Invalid
from perdure.services.foreign import Late, asked

PATIENCE: Final = 2.0
"""Seconds that a name may take to be resolved when a webhook is added; it is looked at again with each delivery."""
_PORTS: Final = {"http": 80, "https": 443}

Resolve: TypeAlias = Callable[[str, int], list[str]]
"""The addresses of a host, in order; `OSError` when there are none."""


class Outbound:
    """The way out of a server. `private` says whether it leads to addresses of private networks and of the machine."""

    def __init__(self, *, private: bool = False, resolve: Resolve | None = None) -> None:
        self.private = private
        self._resolve = resolve or resolved

    async def must_reach(self, url: str) -> None:
        """`Invalid` when nothing may be posted to an address. A name that leads nowhere right now may come to lead
        somewhere: it is taken, and looked at when there is something to post.
        """
        parts = urlsplit(url)
        try:
            found = await asked(self._resolve, parts.hostname or "", _port(parts), seconds=PATIENCE)
        except (Late, OSError, UnicodeError):
            found = []
        if not found and parts.scheme != "https" and not self.private:
            raise Invalid("a webhook's address is https; give such an address")
        why = refusal(parts.scheme, found, private=self.private) if found else None
        if why is not None:
            raise Invalid(f"this address cannot be told: {why}")

    def post(self, url: str, headers: dict[str, str], body: bytes, seconds: float) -> tuple[int, str]:
        """One attempt: the status, 0 if there was no answer, and what was wrong. Blocks; meant for a thread."""
        parts = urlsplit(url)
        try:
            found = self._resolve(parts.hostname or "", _port(parts))
            why = refusal(parts.scheme, found, private=self.private)
            if why is not None or not found:
                return 0, why or "its name leads nowhere"
            connection = _connection(parts, found[0], seconds)
            try:
                connection.request("POST", _target(parts), body, headers)
                status = connection.getresponse().status
                return status, f"status {status}"
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            return 0, f"{type(error).__name__}: {error}"


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, as this machine finds them; so odd spellings of numbers are read as it reads them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _connection(parts: SplitResult, address: str, seconds: float) -> HTTPConnection:
    """A connection that is asked for by its name and made to this address. With TLS the certificate is for the name."""
    host, port = parts.hostname or "", _port(parts)
    if parts.scheme == "https":
        return _Secure(host, port, address, seconds)
    return _Plain(host, port, address, seconds)


class _Plain(HTTPConnection):
    def __init__(self, host: str, port: int, address: str, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds)
        self._place = (address, port)

    def connect(self) -> None:
        self.sock = socket.create_connection(self._place, self.timeout)


class _Secure(HTTPSConnection):
    def __init__(self, host: str, port: int, address: str, seconds: float) -> None:
        self._trust = ssl.create_default_context()
        super().__init__(host, port, timeout=seconds, context=self._trust)
        self._place = (address, port)

    def connect(self) -> None:
        bare = socket.create_connection(self._place, self.timeout)
        try:
            self.sock = self._trust.wrap_socket(bare, server_hostname=self.host)
        except BaseException:
            bare.close()
            raise
