"""Vectors from an endpoint elsewhere that speaks OpenAI's form of embeddings.

It is a plain call that blocks: whoever is on an event loop makes it on a thread. Every failure is one of the errors of
a model's provider, in words of ours: an endpoint may repeat what it was given, which is nobody else's to read.
"""

import http.client
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite, sqrt
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from perdure.core.errors import (
    Invalid,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)

_BATCH: Final = 128
"""Texts that are asked for at once."""
_LONGEST: Final = 8_000
"""Characters of a text that are sent: endpoints refuse what is longer than their model reads."""
_SHORTEST: Final = 1_000
"""Characters that every model reads."""
_UNFIT: Final = (400, 413, 422)
"""What endpoints say of texts that they do not take."""
_CONNECT: Final = 5.0
"""Seconds until it must be connected."""
_DIGITS: Final = 9
"""Of the seconds that it wants to be left alone."""
_LARGEST: Final = 64 << 20
"""Bytes of an answer that are read."""
_STATUSES: Final[dict[int, type[ProviderFailed]]] = {
    401: ProviderDenied,
    402: ProviderDenied,
    403: ProviderDenied,
    408: ProviderSlow,
    409: ProviderBusy,
    425: ProviderBusy,
    429: ProviderBusy,
    503: ProviderBusy,
}
_CAUSES: Final[tuple[tuple[type[OSError], str], ...]] = (
    (socket.gaierror, "nobody knows its host"),
    (ssl.SSLCertVerificationError, "its certificate does not count here"),
    (ssl.SSLError, "it does not speak TLS as we do"),
    (ConnectionRefusedError, "nobody listens there"),
    (ConnectionError, "it hung up"),
)

_Error = TypeVar("_Error", bound=ProviderFailed | ProviderRefused)


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int


class _Answer(msgspec.Struct):
    data: list[_Row]


class Endpoint:
    """An embedder at an address such as `https://host/v1`; its first answer tells `dimensions`, if nobody has."""

    def __init__(self, address: str, model: str, *, key: str = "", dimensions: int = 0, timeout: float = 30.0) -> None:
        """`timeout` is how many seconds a request may take, with its whole answer. `Invalid` if nobody can be asked at
        that address, or no request can carry the key.
        """
        parts = _parts(address)
        if parts is None or not model or not model.isprintable():
            shown = _shown(address)
            told = f"nobody can be asked at the embedder {shown!r}: its address and model are as https://host/v1#model"
            raise Invalid(f"{told}, in letters that an address can have", embedder=shown)
        key = key.strip()
        if not can_be_sent(key):
            raise Invalid(f"the key for {parts.hostname} has signs that no request can carry; correct it")
        self._parts = parts
        self._model = model
        self._key = key
        self._timeout = timeout
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}#{model}"
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, of length one."""
        rows: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            rows += [_unit(row) for row in self._read(texts[start : start + _BATCH])]
        return rows

    def _read(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of as much of these as is read there: of what is refused, the beginning may be taken."""
        most = _LONGEST
        while True:
            some = [_whole(text[:most]) or " " for text in texts]
            try:
                return self._asked(some)
            except ProviderRefused as refused:
                most = max(map(len, some)) // 2
                if refused.fields["status"] not in _UNFIT or most < _SHORTEST:
                    raise

    def _asked(self, texts: list[str]) -> list[list[float]]:
        body = self._post(msgspec.json.encode({"model": self._model, "input": texts, "encoding_format": "float"}))
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise self._error(
                ProviderGarbled, "does not say what belongs there; see whether its address is right"
            ) from None
        rows = sorted(answer.data, key=lambda row: row.index)
        whole = [row.index for row in rows] == list(range(len(texts)))
        wanted = self.dimensions or (len(rows[0].embedding) if rows else 0)
        if not whole or not wanted or any(len(row.embedding) != wanted or not _is_sound(row.embedding) for row in rows):
            raise self._error(ProviderGarbled, "gave other vectors than were asked for; see whether its model is right")
        self.dimensions = wanted
        return [row.embedding for row in rows]

    def _post(self, body: bytes) -> bytes:
        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=min(self._timeout, _CONNECT))
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        limit = _Limit(self._timeout)
        try:
            with limit:
                connection.connect()
                limit.holds(connection.sock)
                connection.sock.settimeout(self._timeout)
                connection.request("POST", f"{parts.path.rstrip('/')}/embeddings", body, headers)
                answer = connection.getresponse()
                told = answer.read(_LARGEST)
        except (OSError, http.client.HTTPException, ValueError) as broken:
            raise self._broken(broken, limit) from None
        finally:
            connection.close()
        if answer.length:  # so many bytes are still to come
            raise self._broken(http.client.IncompleteRead(b""), limit)
        if answer.status != http.client.OK:
            raise self._refused(answer.status, answer.getheader("retry-after", ""))
        return told

    def _broken(self, error: Exception, limit: "_Limit") -> ProviderFailed:
        if limit.over or isinstance(error, TimeoutError):
            return self._error(ProviderSlow, "did not answer in time; ask again later")
        if isinstance(error, http.client.HTTPException):
            return self._error(ProviderCut, "broke off in the middle; ask again")
        cause = next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "")
        return self._error(ProviderDown, "cannot be reached; ask again later", cause)

    def _refused(self, status: int, after: str) -> ProviderFailed | ProviderRefused:
        kind = _STATUSES.get(status)
        if kind is None and 400 <= status < 500:
            return self._error(
                ProviderRefused, "says that the request is wrong; correct it", f"status {status}", status=status
            )
        what = "fails on its side; ask again later"
        if kind is ProviderDenied:
            wrong = "does not take our key for this" if self._key else "wants a key"
            what = f"{wrong}; name the variable of the environment that has it: key_env beside embedder"
        return self._error(kind or ProviderDown, what, f"status {status}", status=status, retry_after=_seconds(after))

    def _error(self, kind: type[_Error], what: str, cause: str = "", **fields: Any) -> _Error:
        shown = f" ({cause})" if cause else ""
        fields = {"status": 0, "type": "", "retry_after": None, "too_long": False, **fields}
        return kind(f"{self.name} {what}{shown}", provider=self.name, model=self._model, told="", **fields)


class _Limit:
    """Hangs up on who is asked when that has taken so many seconds: one who answers byte by byte is never late with the
    next.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._sock: socket.socket | None = None
        self._lock = Lock()
        self._timer = Timer(seconds, self._hang_up)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._sock = None

    def holds(self, sock: socket.socket) -> None:
        """From now on it is there that it hangs up; `TimeoutError` if it is too late already."""
        with self._lock:
            self._sock = sock
            if self.over:
                raise TimeoutError

    def _hang_up(self) -> None:
        with self._lock:
            self.over = True
            if self._sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # below TLS, which goes on reading elsewhere


def can_be_sent(key: str) -> bool:
    """Whether a request can carry this key."""
    return key.isascii() and key.isprintable()


def _parts(address: str) -> SplitResult | None:
    """What an address is made of; None if it is none, or nobody can be asked there."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        good = parts.scheme in {"http", "https"} and host.encode("idna") and port != 0
    except ValueError:
        return None
    plain = can_be_sent(parts.path) and " " not in host + parts.path and host.isprintable()
    return parts if good and plain else None


def _shown(address: str) -> str:
    """An address without what may be secret in it."""
    scheme, apart, rest = address.partition("://")
    return f"{scheme}{apart}{rest.partition('?')[0].rpartition('@')[2]}"[:200]


def _seconds(after: str) -> float | None:
    """What was said of when to ask again, if it was a number of seconds."""
    return float(after) if after.isascii() and after.isdigit() and len(after) <= _DIGITS else None


def _whole(text: str) -> str:
    """A text as it can be sent: halves of signs are none."""
    return text.encode("utf-8", "replace").decode()


def _is_sound(row: list[float]) -> bool:
    """Whether a vector has a length."""
    return isfinite(sum(value * value for value in row))


def _unit(row: list[float]) -> list[float]:
    length = sqrt(sum(value * value for value in row))
    return [value / length for value in row] if length else row
