"""Errors as HTTP tells them: RFC 9457 problems, each with a stable type, and nothing of what is inside."""

from http import HTTPStatus as S
from typing import Any, Final

import msgspec

from perdure.core import errors
from perdure.core.errors import PerdureError
from perdure.edge.http.asgi import Answer, Headers
from perdure.edge.http.wire import Voice

MEDIA: Final = b"application/problem+json"
PREFIX: Final = "urn:perdure:problem:"

STATUS: Final[dict[type[PerdureError], S]] = {
    PerdureError: S.SERVICE_UNAVAILABLE,
    errors.CallerError: S.UNPROCESSABLE_ENTITY,
    errors.TooLarge: S.REQUEST_ENTITY_TOO_LARGE,
    errors.NotFound: S.NOT_FOUND,
    errors.CheckpointExpired: S.GONE,
    errors.Refused: S.CONFLICT,
    errors.NotOwner: S.FORBIDDEN,
    errors.Unauthenticated: S.UNAUTHORIZED,
    errors.Denied: S.FORBIDDEN,
    errors.RateLimited: S.TOO_MANY_REQUESTS,
    errors.BudgetExhausted: S.PAYMENT_REQUIRED,
    errors.QuotaReached: S.FORBIDDEN,
    errors.ConflictError: S.CONFLICT,
    errors.WorldError: S.SERVICE_UNAVAILABLE,
    errors.Shredded: S.GONE,
    errors.DiskFull: S.INSUFFICIENT_STORAGE,
    errors.ColdUnreachable: S.BAD_GATEWAY,
    errors.DeliveryFailed: S.BAD_GATEWAY,
    errors.ProviderFailed: S.BAD_GATEWAY,
    errors.ProviderBusy: S.SERVICE_UNAVAILABLE,
    errors.ProviderSlow: S.GATEWAY_TIMEOUT,
    errors.ProviderRefused: S.BAD_REQUEST,
}
"""The nearest class on the way up the tree decides."""

RETRY: Final[dict[type[PerdureError], int]] = {errors.StoreBusy: 1, errors.DiskFull: 30, errors.KeyInFlight: 1}
"""Seconds after which it is worth asking again."""
_UNTOLD: Final = frozenset({"path", "store", "place", "address", "vault", "key_file"})
"""Fields that say where things lie on the server's machine."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is told of an error. `code` is what the embedded library calls it, `fields` are its facts."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fields: Any = {}


def status_of(kind: type[PerdureError]) -> S:
    """The status of an error."""
    return next(STATUS[cls] for cls in kind.__mro__ if cls in STATUS)


def status_now(error: PerdureError) -> S:
    """The status of an error as it happened: a quota that is there again later is one to wait for."""
    waits = isinstance(error, errors.QuotaReached) and "retry_after" in error.fields
    return S.TOO_MANY_REQUESTS if waits else status_of(type(error))


def told(error: PerdureError, voice: Voice) -> Answer:
    """An error of the tree as an answer. What the world did is told without the places on this machine."""
    kind = type(error)
    status = status_now(error)
    fields = {name: value for name, value in error.fields.items() if name not in _UNTOLD}
    detail = error.message
    if isinstance(error, errors.WorldError):
        detail, fields = _world(kind), {}
    headers: Headers = [(b"cache-control", b"no-store")]
    wait = error.fields.get("retry_after", RETRY.get(kind))
    if wait is not None:
        headers.append((b"retry-after", _seconds(wait)))
    if (nonce := fields.pop("nonce", None)) is not None:
        headers.append((b"dpop-nonce", str(nonce).encode()))
    if status is S.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="perdure"'))
    return answer(status, error.code, detail, voice, fields, headers, title=_title(kind))


def answer(
    status: S,
    code: str,
    detail: str,
    voice: Voice,
    fields: dict[str, Any] | None = None,
    headers: Headers | None = None,
    title: str | None = None,
) -> Answer:
    """A problem as an answer."""
    problem = Problem(
        type=PREFIX + code,
        title=title or status.phrase,
        status=int(status),
        detail=detail,
        code=code,
        fields=voice.content(_plain(fields or {})),
    )
    return Answer(status, voice.encode(problem), MEDIA, headers)


def _seconds(wait: float) -> bytes:
    return str(max(1, int(-(-wait // 1)))).encode()


def _title(kind: type[PerdureError]) -> str:
    return (kind.__doc__ or kind.__name__).strip().splitlines()[0].rstrip(".")


def _world(kind: type[PerdureError]) -> str:
    """What is said when the world stands in the way: enough to know what to do, nothing of where."""
    return f"{_title(kind)}; the server's log says more"


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Facts as plain data; what is none is told as text."""
    return {name: _value(value) for name, value in fields.items()}


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _value(item) for name, item in value.items()}
    return str(value)
