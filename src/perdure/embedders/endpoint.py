"""Vectors from an endpoint elsewhere that speaks OpenAI's form of embeddings.

It is a plain call that blocks: whoever is on an event loop makes it on a thread. Every failure is one of the errors of
a model's provider.
"""

import http.client
from collections.abc import Sequence
from math import sqrt
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
_TOLD: Final = 500
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

_Error = TypeVar("_Error", bound=ProviderFailed | ProviderRefused)


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int


class _Answer(msgspec.Struct):
    data: list[_Row]


class Endpoint:
    """An embedder at an address such as `https://host/v1`; its first answer tells `dimensions`, if nobody has."""

    def __init__(self, address: str, model: str, *, key: str = "", dimensions: int = 0, timeout: float = 30.0) -> None:
        parts = _parts(address)
        if parts is None or not model:
            raise Invalid("an endpoint has an address and a model: https://host/v1#model", address=address)
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
            some = [text[:most] or " " for text in texts]
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
        except (msgspec.MsgspecError, RecursionError) as garbled:
            raise self._error(
                ProviderGarbled, "does not say what belongs there; see whether its address is right", str(garbled)
            ) from None
        rows = sorted(answer.data, key=lambda row: row.index)
        whole = [row.index for row in rows] == list(range(len(texts)))
        wanted = self.dimensions or (len(rows[0].embedding) if rows else 0)
        if not whole or not wanted or any(len(row.embedding) != wanted for row in rows):
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
        try:
            connection.connect()
            connection.sock.settimeout(self._timeout)
            connection.request("POST", f"{parts.path.rstrip('/')}/embeddings", body, headers)
            answer = connection.getresponse()
            told = answer.read(_LARGEST)
        except TimeoutError:
            raise self._error(ProviderSlow, "did not answer in time; ask again later") from None
        except http.client.HTTPException as broken:
            raise self._error(ProviderCut, "broke off in the middle; ask again", str(broken)) from None
        except OSError as down:
            raise self._error(ProviderDown, "cannot be reached; ask again later", str(down)) from None
        finally:
            connection.close()
        if answer.length:  # so many bytes are still to come
            raise self._error(ProviderCut, "broke off in the middle; ask again")
        if answer.status != http.client.OK:
            raise self._refused(answer.status, told, answer.getheader("retry-after", ""))
        return told

    def _refused(self, status: int, body: bytes, after: str) -> ProviderFailed | ProviderRefused:
        told = body[:_TOLD].decode("utf-8", "replace")
        kind = _STATUSES.get(status)
        if kind is None and 400 <= status < 500:
            return self._error(ProviderRefused, "says that the request is wrong; correct it", told, status=status)
        seconds = float(after) if after.isdigit() else None
        what = "fails on its side; ask again later"
        if kind is ProviderDenied:
            wrong = "does not take our key for this" if self._key else "wants a key"
            what = f"{wrong}; name the variable of the environment that has it: key_env beside embedder"
        return self._error(kind or ProviderDown, what, told, status=status, retry_after=seconds)

    def _error(self, kind: type[_Error], what: str, told: str = "", **fields: Any) -> _Error:
        if len(self._key) > 3:
            told = told.replace(self._key, "***")
        shown = f" ({told})" if told else ""
        fields = {"status": 0, "type": "", "retry_after": None, "too_long": False, **fields}
        return kind(f"{self.name} {what}{shown}", provider=self.name, model=self._model, told=told, **fields)


def _parts(address: str) -> SplitResult | None:
    """What an address is made of; None if it is none."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        return None
    return parts if good else None


def _unit(row: list[float]) -> list[float]:
    length = sqrt(sum(value * value for value in row))
    return [value / length for value in row] if length else row
