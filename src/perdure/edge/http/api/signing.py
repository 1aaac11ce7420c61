"""Signing in on this machine: the link that the server printed, a cookie for the browser, signing out."""

from html import escape
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import COOKIE, PLAIN_COOKIE
from perdure.edge.http.routes import Table

table = Table()
HTML: Final = b"text/html; charset=utf-8"
POLICY: Final = b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'"


class CodeQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The code of the link."""

    code: Annotated[str, Meta(max_length=512)]


@table.add("GET", "/signin", None, query=CodeQuery, answer=bytes, media="text/html", errors=(errors.Unauthenticated,))
async def sign_in(ask: Ask) -> Answer:
    """Sign in by the link that the server printed; it works once."""
    query: CodeQuery = ask.query()
    signed = await ask.node.entry.signin.enter(query.code)
    page = _page("Signed in", f"You are signed in as {escape(signed.actor.name)}. You can close this page.")
    headers = [*ask.headers, (b"set-cookie", _cookie(ask, signed.cookie, signed.max_age)), *_PAGE]
    return Answer(HTTPStatus.OK, page, HTML, headers, policy=POLICY)


@table.add("POST", "/signout", None, known=True, status=HTTPStatus.NO_CONTENT)
async def sign_out(ask: Ask) -> Answer:
    """Sign out: the cookie counts no longer, on any node."""
    await ask.node.entry.signin.leave(ask.actor)
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", [*ask.headers, (b"set-cookie", _cookie(ask, "", 0))])


_PAGE: Final = [(b"cache-control", b"no-store")]


def _cookie(ask: Ask, value: str, seconds: int) -> bytes:
    """Over TLS the cookie is tied to this host by its name; in the clear it is on loopback."""
    secure = ask.request.scope.get("scheme") == "https"
    name = COOKIE if secure else PLAIN_COOKIE
    told = f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}"
    return (told + "; Secure" if secure else told).encode()


def _page(title: str, text: str) -> bytes:
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>perdure: {title}</title>"
        "<style>body{font:16px/1.5 system-ui;margin:15vh auto;max-width:36em;padding:0 1em}</style>"
        f"<h1>{title}</h1><p>{text}</p></html>"
    ).encode()
