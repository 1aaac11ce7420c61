"""Finding sessions: lists by pages, conditions, counts."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask, path_id
from perdure.edge.http.reaching import hidden_of_others, may, own_names, searched
from perdure.edge.http.routes import Table
from perdure.edge.http.views import Listed, session_view

table = Table()
Text = Annotated[str, Meta(max_length=1000)]
Words = Annotated[tuple[Text, ...], Meta(max_length=100)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
AT = ("created_after", "created_before", "active_after", "active_before")


class FindQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Conditions, all of which must hold."""

    owner: Text | None = None
    phase: Annotated[tuple[Text, ...], Meta(max_length=10)] = ()
    tag: Words = ()
    title: Text | None = None
    name: Text | None = None
    text: Annotated[str, Meta(max_length=10_000)] | None = None
    parent: str | None = None
    open_turn: bool | None = None
    created_after: int | None = None
    created_before: int | None = None
    active_after: int | None = None
    active_before: int | None = None
    order: str = "created"
    limit: Limit = 50
    cursor: str | None = None


class FindBody(FindQuery, kw_only=True, forbid_unknown_fields=True):
    """Conditions, all of which must hold, those on metadata among them."""

    metadata: dict[str, Any] | None = None


class Count(msgspec.Struct):
    """How many."""

    count: int


@table.add(
    "GET", "/v1/sessions", (Verb.LIST, Thing.SESSION), query=FindQuery, answer=Listed, errors=(errors.BadCursor,)
)
async def list_sessions(ask: Ask) -> Answer:
    """Sessions that match, newest first, a page at a time."""
    return await _page(ask, ask.query(), None)


@table.add(
    "POST",
    "/v1/sessions/find",
    (Verb.LIST, Thing.SESSION),
    body=FindBody,
    answer=Listed,
    errors=(errors.BadCursor,),
    optional=True,
    example={"metadata": {"customer": "c-17"}, "limit": 20},
)
async def find_sessions(ask: Ask) -> Answer:
    """Sessions that match, also by metadata."""
    body: FindBody = await ask.body()
    return await _page(ask, body, body.metadata)


@table.add("POST", "/v1/sessions/count", (Verb.LIST, Thing.SESSION), body=FindBody, answer=Count, optional=True)
async def count_sessions(ask: Ask) -> Answer:
    """How many sessions match."""
    body: FindBody = await ask.body()
    found = _conditions(ask, body, body.metadata)
    return ask.answer(Count(0 if found is None else await ask.db.count(**found)))


async def _page(ask: Ask, asked: FindQuery, metadata: dict[str, Any] | None) -> Answer:
    if asked.name is not None:
        return await _named(ask, asked.name)
    found = _conditions(ask, asked, metadata)
    if found is None:
        return ask.answer(Listed(items=(), cursor=None))
    page = await ask.db.find(limit=asked.limit, cursor=asked.cursor, **found)
    own, others = own_names(ask.actor), hidden_of_others(ask)
    items = tuple(session_view(row, ask.voice, ask.hidden if row.owner in own else others) for row in page.items)
    return ask.answer(Listed(items=items, cursor=page.cursor))


async def _named(ask: Ask, name: str) -> Answer:
    """The session that goes by a name, if there is one that whoever asks may see; other conditions are not asked."""
    session = ask.db.named(name)
    if not await may(ask, session.id):
        return ask.answer(Listed(items=(), cursor=None))
    row = await session.info()
    shown = session_view(row, ask.voice, ask.hidden if row.owner in own_names(ask.actor) else hidden_of_others(ask))
    return ask.answer(Listed(items=(shown,), cursor=None))


def _conditions(ask: Ask, asked: FindQuery, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The conditions of `find`; None when nothing can match that whoever asks may see."""
    found: dict[str, Any] = {name: getattr(asked, name) for name in AT}
    found |= {
        "phase": asked.phase or None,
        "tags": asked.tag or None,
        "title": asked.title,
        "text": asked.text,
        "parent": None if asked.parent is None else path_id(asked.parent),
        "open_turn": asked.open_turn,
        "order": asked.order,
        "metadata": metadata,
    }
    return searched(ask, asked.owner, found)
