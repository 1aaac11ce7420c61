"""Signing in on this machine: the link that the server printed, a cookie for the browser, signing out."""

import logging
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import COOKIE, PLAIN_COOKIE
from perdure.edge.http.pages import in_browser, page
from perdure.edge.http.routes import Table

table = Table()
log: Final = logging.getLogger("perdure.http")
_NEXT: Final = (
    ("/v1/whoami", "who you are here"),
    ("/v1/sessions", "your sessions"),
    ("/openapi.json", "everything there is to ask"),
)
_USED: Final = (
    "This link does not count any more: each works once, and for a few minutes. If it was you who used it, you are "
    "signed in already. For a new one, start the server again; or use a key, which `perdure principals key` makes."
)


class CodeQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The code of the link."""

    code: Annotated[str, Meta(max_length=512)]


@table.add("GET", "/signin", None, query=CodeQuery, answer=bytes, media="text/html", errors=(errors.Unauthenticated,))
async def sign_in(ask: Ask) -> Answer:
    """Sign in by the link that the server printed; it works once."""
    query: CodeQuery = ask.query()
    try:
        signed = await ask.node.entry.signin.enter(query.code)
    except errors.Unauthenticated as stranger:
        if not in_browser(ask.request):
            raise
        ask.node.entrance.strange(ask, stranger)
        log.info("refused", extra={"endpoint": ask.endpoint.name, "code": errors.Unauthenticated.code})
        ask.headers.append((b"www-authenticate", b'Bearer realm="perdure"'))
        return page(HTTPStatus.UNAUTHORIZED, "perdure: not signed in", _USED, headers=ask.headers)
    ask.actor = signed.actor
    await ask.node.entrance.noted(ask, reason="code")
    text = f"You are signed in as {signed.actor.name}: in this browser the interface answers without a key. Try:"
    headers = [*ask.headers, (b"set-cookie", _cookie(ask, signed.cookie, signed.max_age))]
    return page(HTTPStatus.OK, "perdure: signed in", text, _NEXT, headers)


@table.add("POST", "/signout", None, known=True, status=HTTPStatus.NO_CONTENT)
async def sign_out(ask: Ask) -> Answer:
    """Sign out: the cookie counts no longer, on any node."""
    await ask.node.entry.signin.leave(ask.actor)
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", [*ask.headers, (b"set-cookie", _cookie(ask, "", 0))])


def _cookie(ask: Ask, value: str, seconds: int) -> bytes:
    """Over TLS the cookie is tied to this host by its name; in the clear it is on loopback."""
    secure = ask.request.scope.get("scheme") == "https"
    name = COOKIE if secure else PLAIN_COOKIE
    told = f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}"
    return (told + "; Secure" if secure else told).encode()
