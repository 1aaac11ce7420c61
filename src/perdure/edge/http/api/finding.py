"""Finding sessions: lists by pages, conditions, counts."""

from typing import Annotated, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import Refused
from perdure.edge.given import Conditions, query_of
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask, path_id
from perdure.edge.http.reaching import searched
from perdure.edge.http.routes import Table
from perdure.edge.http.seeing import Sight
from perdure.edge.http.views import Listed, session_view
from perdure.ports.store import Row
from perdure.services.finding import MAX_PAGE, fingerprint, make_cursor

table = Table()
Text = Annotated[str, Meta(max_length=1000)]
Words = Annotated[tuple[Text, ...], Meta(max_length=100)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
AT = ("created_after", "created_before", "active_after", "active_before")
Shown: TypeAlias = tuple[Row, tuple[str, ...]]
BATCH: Final = 100
MOST_PASSED: Final = 10_000
"""So many rows that may not be seen are passed over for one page."""
MOST_COUNTED: Final = 10_000
"""So many rows are looked at one by one for a count."""


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
    memories: bool = False
    """Whether the logs in which memories are kept are found, too."""
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


@table.add(
    "POST",
    "/v1/sessions/count",
    (Verb.LIST, Thing.SESSION),
    body=FindBody,
    answer=Count,
    errors=(errors.Refused,),
    optional=True,
)
async def count_sessions(ask: Ask) -> Answer:
    """How many sessions match, of those that whoever asks may see."""
    body: FindBody = await ask.body()
    found = _conditions(ask, body, body.metadata)
    return ask.answer(Count(0 if found is None else await _counted(ask, found)))


async def _counted(ask: Ask, found: dict[str, Any]) -> int:
    sight = Sight(ask, found)
    if sight.all_seen(found["owner"]):
        return await ask.db.count(**found)
    counted, looked, cursor = 0, 0, None
    while True:
        page = await ask.db.find(limit=MAX_PAGE, cursor=cursor, **found)
        for row in page.items:
            counted += await sight.hidden(row) is not None
        looked, cursor = looked + len(page.items), page.cursor
        if cursor is None:
            return counted
        if looked >= MOST_COUNTED:
            raise Refused(
                f"too many sessions to count one by one; narrow it to at most {MOST_COUNTED}", limit=MOST_COUNTED
            )


async def _page(ask: Ask, asked: FindQuery, metadata: dict[str, Any] | None) -> Answer:
    if asked.name is not None:
        return await _named(ask, asked.name)
    found = _conditions(ask, asked, metadata)
    if found is None:
        return ask.answer(Listed(items=(), cursor=None))
    rows, cursor = await _seen(ask, found, asked.limit, asked.cursor)
    items = tuple(session_view(row, ask.voice, hidden) for row, hidden in rows)
    return ask.answer(Listed(items=items, cursor=cursor))


async def _seen(ask: Ask, found: dict[str, Any], limit: int, cursor: str | None) -> tuple[list[Shown], str | None]:
    """A page of the rows that may be seen, with what is hidden of each, and where the next page starts.

    One more than the page holds is looked for, so that a cursor tells of rows that may be seen and of no others. Only
    a page that was given up for the rows in between is shorter; its cursor leads past them.
    """
    sight = Sight(ask, found)
    seen: list[Shown] = []
    looked = 0
    while True:
        page = await ask.db.find(limit=min(MAX_PAGE, max(limit, BATCH)) if looked else limit, cursor=cursor, **found)
        for row in page.items:
            hidden = await sight.hidden(row)
            if hidden is None:
                continue
            if len(seen) == limit:
                return seen, _behind(ask, found, seen[-1][0])
            seen.append((row, hidden))
        looked, cursor = looked + len(page.items), page.cursor
        if (
            cursor is None
            or looked >= limit + MOST_PASSED
            or (len(seen) == limit == looked and sight.all_seen(found["owner"]))
        ):
            return seen, cursor


def _behind(ask: Ask, found: dict[str, Any], row: Row) -> str:
    """The cursor that leads on behind a row."""
    query = ask.services.finding.query(**query_of(cast("Conditions", found)))
    return make_cursor(row.active_at if query.by_activity else row.created_at, row, fingerprint(query))


async def _named(ask: Ask, name: str) -> Answer:
    """The session that goes by a name, if there is one that whoever asks may see; other conditions are not asked."""
    try:
        row = await ask.db.named(name).info()
    except errors.NotFound:
        return ask.answer(Listed(items=(), cursor=None))
    hidden = await Sight(ask, {}).hidden(row)
    items = () if hidden is None else (session_view(row, ask.voice, hidden),)
    return ask.answer(Listed(items=items, cursor=None))


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
        "memories": asked.memories,
        "metadata": metadata,
    }
    return searched(ask, asked.owner, found)
