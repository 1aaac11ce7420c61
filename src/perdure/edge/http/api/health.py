"""What anyone may ask: whether the server lives, whether it is ready, what it counts, what there is to ask."""

from functools import cache
from http import HTTPStatus
from typing import Final

import msgspec

from perdure.core import errors
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.pages import in_browser, page
from perdure.edge.http.routes import Router, Table

table = Table()
_BELOW: Final = (
    ("/openapi.json", "everything there is to ask"),
    ("/healthz", "whether it lives"),
    ("/readyz", "whether it takes work"),
)


class Health(msgspec.Struct):
    """`ok`, or what is wrong."""

    status: str


class About(msgspec.Struct, kw_only=True):
    """What answers here, and where it says more."""

    name: str
    interface: str
    health: str


class Me(msgspec.Struct, kw_only=True):
    """Who asks."""

    tenant: str
    principal: str
    name: str
    kind: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    session_id: str | None
    acting_for: str | None


class Position(msgspec.Struct):
    """Where the change feed stands, and the server's clock in microseconds since 1970."""

    position: int
    now: int


@table.add("GET", "/", None, answer=About)
async def about(ask: Ask) -> Answer:
    """What this is and where to go on; a page for browsers."""
    if in_browser(ask.request):
        text = (
            "This is a perdure server: durable sessions for AI agents, over HTTP. Whoever asks shows a key, as "
            "`Authorization: Bearer …`, or signs in by the link that the server printed when it started."
        )
        return page(HTTPStatus.OK, "perdure", text, _BELOW, ask.headers)
    ask.headers.append((b"vary", b"accept"))
    return ask.answer(About(name="perdure", interface="/openapi.json", health="/healthz"))


@table.add("GET", "/healthz", None, answer=Health)
async def healthz(ask: Ask) -> Answer:
    """Whether the process lives."""
    return ask.answer(Health("ok"))


@table.add("GET", "/readyz", None, answer=Health, errors=(errors.StoreClosed,))
async def readyz(ask: Ask) -> Answer:
    """Whether it takes work: the store answers, and the server is not leaving."""
    node = ask.node
    if not node.ready or node.leaving:
        return ask.answer(Health("leaving" if node.leaving else "starting"), status=HTTPStatus.SERVICE_UNAVAILABLE)
    await node.tenants.store.position()
    return ask.answer(Health("ok"))


@table.add("GET", "/metrics", None, answer=bytes, media="text/plain")
async def metrics(ask: Ask) -> Answer:
    """What the server counts, for Prometheus. It tells neither who asked nor for what."""
    return Answer(HTTPStatus.OK, ask.node.measures.shown(), b"text/plain; version=0.0.4; charset=utf-8", ask.headers)


@table.add("GET", "/openapi.json", None, answer=bytes)
async def openapi(ask: Ask) -> Answer:
    """This interface, described."""
    return Answer(HTTPStatus.OK, _description(ask.node.router), headers=ask.headers)


@cache
def _description(router: Router) -> bytes:
    from perdure import __version__
    from perdure.edge.http.openapi import described

    return described(router.endpoints, __version__)


@table.add("GET", "/v1/whoami", None, known=True, answer=Me)
async def whoami(ask: Ask) -> Answer:
    """Who the server takes the asker for."""
    actor = ask.actor
    me = Me(
        tenant=actor.tenant,
        principal=actor.principal,
        name=actor.name,
        kind=actor.kind,
        roles=tuple(sorted(role.value for role in actor.roles)),
        scopes=actor.scopes,
        session_id=actor.session,
        acting_for=actor.acting_for,
    )
    return ask.answer(me)


@table.add("GET", "/v1/position", None, known=True, answer=Position)
async def position(ask: Ask) -> Answer:
    """Where the change feed stands, to watch from there."""
    return ask.answer(Position(await ask.node.tenants.store.position(), ask.node.tenants.ambient.now()))
