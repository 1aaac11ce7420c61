"""Live: the change feed as it grows, and the socket by which a surface is attached to a session."""

from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http import problems
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table

table = Table()
Versions = Annotated[int, Meta(ge=0, lt=1 << 62)]


class ChangesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """After which position; from now on when it is left out. `Last-Event-ID` comes first."""

    after: Annotated[int, Meta(ge=0)] | None = None


class AttachQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is attached, under which name, and after which version events are sent; from now on when it is left out."""

    surface: Literal["terminal", "web", "bot"]
    name: Annotated[str, Meta(max_length=200)] = ""
    after: Versions | None = None
    exact: bool = False


@table.add(
    "GET",
    "/v1/changes",
    (Verb.LIST, Thing.SESSION),
    query=ChangesQuery,
    answer=bytes,
    live=True,
    media="text/event-stream",
)
async def watch_changes(ask: Ask) -> Answer:
    """Every committed append of the sessions one may see, as server-sent events; the id is the feed's position."""
    found: Answer = await ask.node.hub.watch(ask)
    return found


@table.add(
    "GET",
    "/v1/sessions/{session_id}/attach",
    (Verb.READ, Thing.LOG),
    query=AttachQuery,
    answer=problems.Problem,
    status=HTTPStatus.UPGRADE_REQUIRED,
    media="application/problem+json",
    errors=(errors.RateLimited,),
)
async def attach_surface(ask: Ask) -> Answer:
    """Attach a surface by WebSocket; what comes as plain HTTP is told to upgrade."""
    ask.query()
    detail = "surfaces are attached by WebSocket; connect to this address with one"
    upgrade = [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    return problems.answer(HTTPStatus.UPGRADE_REQUIRED, "upgrade_required", detail, ask.voice, headers=upgrade)


ATTACH = next(endpoint for endpoint in table.endpoints if endpoint.name == "attach_surface")
"""The row by which a socket is let in."""
