"""Connections to one server: opened when needed, kept for the next request, dropped when they have gone stale."""

import os
import select
import socket
import ssl
from collections import deque
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.shown import shown
from perdure.edge.tls import client_context
from perdure.forking import Forking, on_fork
from perdure.ports.ambient import Ambient
from perdure.sealing.given import path_text

IDLE: Final = 20_000_000
"""Microseconds after which a kept connection is not trusted any more: servers hang up after half a minute."""
KEPT: Final = 32
Certificate = str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]]
"""A file that holds a certificate and its key, or one file for each."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is."""

    secure: bool
    host: str
    port: int
    base: str

    @property
    def url(self) -> str:
        """Its address, as people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.base}"


def place_of(url: Any) -> Place:
    """The server an address leads to, or `Invalid`."""
    if type(url) is not str:
        raise Invalid(f"a server's address is a text like https://host:7464, not {shown(url)}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise Invalid(f"{shown(url)} is not an address: {wrong}; write https://host:7464") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(
            f"{shown(url)} is not the address of a server; write https://host:7464, or http://127.0.0.1:7464 for one "
            "on this machine; a store of one's own is opened with perdure.open"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid("a server's address has neither a user nor a query; the key is given beside it")
    secure, base = parts.scheme == "https", parts.path.rstrip("/")
    if base.endswith("/v1"):
        raise Invalid(f"leave /v1 out of {shown(url)}; the address of the server alone is enough")
    return Place(secure=secure, host=parts.hostname, port=port or (443 if secure else 80), base=base)


def context_of(place: Place, ca: Any, certificate: "Certificate | None") -> ssl.SSLContext | None:
    """How to speak TLS with a server: trusting the system's authorities or the given one, showing a certificate if
    there is one. `Invalid` when the files are not there, or the address has no TLS.
    """
    if not place.secure:
        if ca is not None or certificate is not None:
            raise Invalid("ca and certificate are for https; write the address so, or leave them out")
        return None
    what = "ca and certificate are paths of PEM files"
    pair = certificate if isinstance(certificate, tuple) else (certificate, certificate)
    cert, key = (None if item is None else path_text(item, what) for item in pair)
    return client_context(None if ca is None else path_text(ca, what), cert, key)


class Pool:
    """The connections to one server. Safe in threads, and in the child of a fork, which opens its own."""

    def __init__(self, place: Place, context: ssl.SSLContext | None, timeout: float, ambient: Ambient) -> None:
        self._place = place
        self._context = context
        self._timeout = timeout
        self._ambient = ambient
        self._idle: deque[tuple[int, HTTPConnection]] = deque()
        on_fork(self, Forking(_nothing, _nothing, Pool.close))

    def fresh(self) -> HTTPConnection:
        """A connection that is not open yet."""
        place = self._place
        if self._context is not None:
            return HTTPSConnection(place.host, place.port, timeout=self._timeout, context=self._context)
        return HTTPConnection(place.host, place.port, timeout=self._timeout)

    def take(self) -> HTTPConnection:
        """One that was kept and still lives, or a fresh one."""
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                return self.fresh()
            if self._ambient.now() - since < IDLE and _lives(connection.sock):
                return connection
            connection.close()

    def give(self, connection: HTTPConnection) -> None:
        """Keep one for the next request, unless many are kept."""
        if len(self._idle) < KEPT:
            self._idle.append((self._ambient.now(), connection))
        else:
            connection.close()

    def close(self) -> None:
        """Drop those that are kept."""
        while True:
            try:
                self._idle.pop()[1].close()
            except IndexError:
                return


def _nothing(_: Pool) -> None:
    """A fork takes nothing from the parent."""


def _lives(sock: socket.socket | None) -> bool:
    """Whether the other side has not hung up: a connection on which nothing is asked has nothing to say."""
    if sock is None:
        return False
    try:
        asked = select.poll()
        asked.register(sock, select.POLLIN)
        return not asked.poll(0)
    except (OSError, ValueError, AttributeError):
        return False
