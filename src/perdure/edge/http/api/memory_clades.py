"""Which memory spaces there are for whoever asks, and clades: whom those let in.

A list shows what whoever asks may read, and tells of no other; whom a clade lets in, those alone who may change that.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from perdure.core import errors
from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.errors import AlreadyExists, NotFound
from perdure.core.memory.parts import TAG, Space, space_of
from perdure.edge.given import Conditions, query_of
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.edge.http.seeing import UNREADABLE
from perdure.edge.http.spaces import Name, Owner, Place, entered, made_clade, may_enter, missing, shown
from perdure.ports.store import Row
from perdure.services.finding import MAX_PAGE, fingerprint, make_cursor

table = Table()
T = TypeVar("T")
SHARE: Final = Action(Verb.SHARE, Thing.MEMORY)
RULE: Final = Action(Verb.ISSUE, Thing.MEMORY)
MOST_PASSED: Final = 10_000
"""So many spaces that may not be read are passed over for one page."""
SPACES: Final[dict[str, Any]] = {"tags": (TAG,), "memories": True}
Users = Annotated[tuple[Owner, ...], Meta(max_length=1000)]
Agents = Annotated[dict[Owner, str], Meta(max_length=1000)]


class SpacesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many, and from where on."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str | None = None


class SpaceView(msgspec.Struct, kw_only=True):
    """A space, the session that is its log, when it was begun, and when it was last written to."""

    space: str
    session_id: str
    created_at: int
    active_at: int


class SpaceList(msgspec.Struct, kw_only=True):
    """Spaces, those begun last first; `cursor` leads to the next page, null after the last."""

    items: tuple[SpaceView, ...]
    cursor: str | None = None


class CladeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A space that is shared: with these users, and with these agents, which may `read` or `read_write` there."""

    name: Name
    users: Users = ()
    agents: Agents = {}


class ShareBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whom a clade lets in from now on: these users, and these agents, in place of those it let in; what is not given
    stays.
    """

    users: Users | UnsetType = UNSET
    agents: Agents | UnsetType = UNSET


class CladeView(msgspec.Struct, kw_only=True):
    """A clade, by its name and as a space is told. Whose it is and whom it lets in, those are told who may change it;
    for others it is null.
    """

    name: str
    space: str
    owner: str | None
    users: tuple[str, ...] | None
    agents: dict[str, str] | None


class CladeList(msgspec.Struct, kw_only=True):
    """Clades, those begun last first; `cursor` leads to the next page, null after the last."""

    items: tuple[CladeView, ...]
    cursor: str | None = None


# ── which there are ──


@table.add(
    "GET",
    "/v1/memory/spaces",
    (Verb.READ, Thing.MEMORY),
    query=SpacesQuery,
    answer=SpaceList,
    errors=(errors.BadCursor,),
)
async def list_spaces(ask: Ask) -> Answer:
    """The spaces that were begun and that you may read: your vaults and your agents', clades that let you in, lethe."""

    async def view(row: Row, _: Space) -> SpaceView:
        return SpaceView(space=row.title, session_id=row.session, created_at=row.created_at, active_at=row.active_at)

    items, cursor = await _page(ask, lambda _: True, view)
    return ask.answer(SpaceList(items=items, cursor=cursor))


@table.add(
    "GET",
    "/v1/memory/clades",
    (Verb.READ, Thing.MEMORY),
    query=SpacesQuery,
    answer=CladeList,
    errors=(errors.BadCursor,),
)
async def list_clades(ask: Ask) -> Answer:
    """The clades that you may read, with whom they let in where you may change that."""
    items, cursor = await _page(ask, lambda space: space.namespace == "clade", lambda _, space: _clade(ask, space.name))
    return ask.answer(CladeList(items=items, cursor=cursor))


async def _page(
    ask: Ask, wanted: Callable[[Space], bool], view: Callable[[Row, Space], Awaitable[T]]
) -> tuple[tuple[T, ...], str | None]:
    """A page of the spaces that may be read, and where the next one begins. One more than the page holds is looked for,
    so that a cursor tells of spaces that may be read and of no others; a page that was given up for those in between
    is shorter.
    """
    asked: SpacesQuery = ask.query()
    items, last, looked, cursor = list[T](), "", 0, asked.cursor
    while True:
        page = await ask.db.find(limit=min(MAX_PAGE, max(asked.limit, 100)), cursor=cursor, **SPACES)
        for row in page.items:
            space = space_of(row.tenant, row.session, row.title)
            if space is None or not wanted(space) or not await _is_shown(ask, space):
                continue
            if len(items) == asked.limit:
                return tuple(items), last
            items.append(await view(row, space))
            last = _behind(ask, row)
        looked, cursor = looked + len(page.items), page.cursor
        if cursor is None or looked >= MOST_PASSED:
            return tuple(items), cursor


async def _is_shown(ask: Ask, space: Space) -> bool:
    try:
        return await shown(ask, space)
    except UNREADABLE:
        return False


def _behind(ask: Ask, row: Row) -> str:
    query = ask.services.finding.query(**query_of(cast("Conditions", SPACES)))
    return make_cursor(row.created_at, row, fingerprint(query))


# ── whom they let in ──


@table.add(
    "POST",
    "/v1/memory/clades",
    (Verb.SHARE, Thing.MEMORY),
    body=CladeBody,
    answer=CladeView,
    status=HTTPStatus.CREATED,
    sensitive=True,
    errors=(errors.AlreadyExists, errors.VersionConflict),
    example={"name": "desk", "users": ["bob"], "agents": {"critic": "read"}},
)
async def make_clade(ask: Ask) -> Answer:
    """Begin a space that is shared with others; it is yours."""
    from perdure.services.sharing import isolation_of

    body: CladeBody = await ask.body()
    if not await made_clade(ask, body.name, isolation_of(body.users, body.agents)):
        raise AlreadyExists("there is a clade of that name already; choose another name")
    return ask.answer(await _clade(ask, body.name))


@table.add("GET", "/v1/memory/clades/{clade}", (Verb.LIST, Thing.MEMORY), answer=CladeView)
async def get_clade(ask: Ask) -> Answer:
    """A clade that lets you in, with whom else it lets in where you may change that."""
    place = Place(clade=ask.params["clade"])
    await entered(ask, place)
    return ask.answer(await _clade(ask, ask.params["clade"]))


@table.add(
    "PATCH",
    "/v1/memory/clades/{clade}",
    (Verb.MOVE, Thing.MEMORY),
    body=ShareBody,
    answer=CladeView,
    sensitive=True,
    errors=(errors.VersionConflict,),
    example={"users": ["bob", "cal"]},
)
async def share_clade(ask: Ask) -> Answer:
    """Say whom a clade lets in from now on; its owner does, and admins."""
    from perdure.services.sharing import share

    body: ShareBody = await ask.body()
    place = Place(clade=ask.params["clade"])
    if not await may_enter(ask, place, RULE):
        await entered(ask, place, SHARE)
    given = {name: None if value is UNSET else value for name, value in msgspec.structs.asdict(body).items()}
    try:
        await share(ask.services.memories.shelves, Space("clade", ask.params["clade"]), **given)
    except NotFound:
        raise missing("clade") from None
    return ask.answer(await _clade(ask, ask.params["clade"]))


async def _clade(ask: Ask, name: str) -> CladeView:
    """A clade that whoever asks was let into."""
    from perdure.services.sharing import shared

    place = Place(clade=name)
    if not await may_enter(ask, place, SHARE) and not await may_enter(ask, place, RULE):
        return CladeView(name=name, space=f"clade/{name}", owner=None, users=None, agents=None)
    try:
        found = await shared(ask.services.memories.shelves, Space("clade", name))
    except NotFound:
        raise missing("clade") from None
    return CladeView(name=name, space=found.space, owner=found.owner, users=found.users, agents=found.agents)
