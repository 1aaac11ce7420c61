"""Pages of other origins, if the operator lets them in: what browsers ask before they send, and what they may read.

No cookie ever crosses: such pages show a key or a token, so nothing is done in the name of whoever happens to be signed
in.
"""

from http import HTTPStatus
from typing import Final

from perdure.edge.http.asgi import Answer, Headers, Request
from perdure.edge.http.settings import Settings

SENT: Final = (
    b"accept, authorization, content-type, dpop, idempotency-key, if-match, if-none-match, last-event-id, "
    b"perdure-override, range"
)
READ: Final = b"content-range, dpop-nonce, etag, location, retry-after, x-new-session-token"
SECONDS: Final = b"600"


def preflight(request: Request, methods: tuple[str, ...], settings: Settings) -> Answer | None:
    """The answer to a browser that asks whether a page may send; None when it is none of that, or may not."""
    if request.method != "OPTIONS" or "access-control-request-method" not in request.headers or not methods:
        return None
    if not _listed(request, settings):
        return None
    headers: Headers = [
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", SENT),
        (b"access-control-max-age", SECONDS),
    ]
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", headers)


def readable(request: Request, settings: Settings) -> Headers:
    """The headers that let a page of a listed origin read an answer; none for others."""
    if not _listed(request, settings):
        return []
    origin = request.headers["origin"].encode("latin-1")
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", READ),
        (b"vary", b"origin"),
    ]


def _listed(request: Request, settings: Settings) -> bool:
    return bool(settings.origins) and request.headers.get("origin") in settings.origins
