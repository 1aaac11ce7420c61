"""Memory: what agents keep, find again, change and forget, each in a space of their own or in one they share."""

from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import BadCursor, NotFound
from perdure.core.memory.parts import Memory, MemoryType, Status, Trust
from perdure.core.memory.requests import MAX_BATCH, Keeping, Seeking
from perdure.core.session.ids import is_id, session_id
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.asking import missing as no_session
from perdure.edge.http.reaching import READ_TURNS, may
from perdure.edge.http.remembered import (
    MOVES,
    BatchBody,
    FoundMemories,
    FoundView,
    KeepBody,
    MemoryList,
    MemoryView,
    MoveWord,
    SearchBody,
    Text,
    UpdateBody,
    changing_of,
    found_view,
    is_agents,
    keeping_of,
    seeking_of,
    view_of,
)
from perdure.edge.http.routes import Table
from perdure.edge.http.spaces import Entered, Place, SpaceQuery, What, entered, missing

table = Table()
T = TypeVar("T")
KEEPING: Final = (errors.QuotaReached, errors.NotFound, errors.VersionConflict, errors.MemoryRefused)


class MemoryQuery(Place, kw_only=True, forbid_unknown_fields=True):
    """Which memories, and from where on."""

    status: Annotated[tuple[Status, ...], Meta(max_length=10)] = (Status.LIVE,)
    type: Annotated[tuple[MemoryType, ...], Meta(max_length=10)] = ()
    session: Text = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_BATCH)] = 100
    cursor: Text | None = None


class ForgetQuery(Place, kw_only=True, forbid_unknown_fields=True):
    """Where, and why."""

    reason: Text = "forgotten"


class MoveMemoryBody(Place, kw_only=True, forbid_unknown_fields=True):
    """Where to: put away, kept from being found until somebody has looked, or brought back."""

    to: MoveWord
    reason: Text = ""


class ForgottenMemories(msgspec.Struct, kw_only=True):
    """How many memories are gone for good: this one, the forms it had, what gave way to it, and what says the same."""

    forgotten: int


class MovedMemory(msgspec.Struct, kw_only=True):
    """How many were moved: none, if it was so already."""

    id: str
    moved: int


# ── keeping ──


@table.add(
    "POST",
    "/v1/memory",
    (Verb.CREATE, Thing.MEMORY),
    body=KeepBody,
    answer=MemoryView,
    status=HTTPStatus.CREATED,
    keyed=True,
    errors=KEEPING,
    example={
        "content": "Never LP in pools with less than $100K TVL: slippage on exit cost 3.2 %.",
        "memory_type": "constraint",
        "importance": 0.95,
        "metadata": {"tokens": ["USDC", "ETH"], "chains": [1], "protocols": ["uniswap"]},
    },
)
async def keep_memory(ask: Ask) -> Answer:
    """Keep a memory."""
    body: KeepBody = await ask.body()
    place = await entered(ask, body)
    found = await kept(ask, place, [keeping_of(ask, body, body.exact)], ask.key)
    ask.headers.append((b"location", f"/v1/memory/{found[0].id}".encode()))
    return ask.answer(view_of(found[0], place, ask))


@table.add(
    "POST",
    "/v1/memory/batch",
    (Verb.CREATE, Thing.MEMORY),
    body=BatchBody,
    answer=MemoryList,
    status=HTTPStatus.CREATED,
    keyed=True,
    errors=KEEPING,
    example={"items": [{"content": "Ana lives in Lisbon."}, {"content": "Ana likes trains.", "importance": 0.7}]},
)
async def keep_memories(ask: Ask) -> Answer:
    """Keep up to 1,000 memories, all or none, in this order."""
    body: BatchBody = await ask.body()
    place = await entered(ask, body)
    asked = [keeping_of(ask, item, body.exact) for item in body.items]
    return _listed(ask, place, await kept(ask, place, asked, ask.key))


async def kept(ask: Ask, place: Entered, asked: Sequence[Keeping], key: str | None = None) -> tuple[Memory, ...]:
    """These memories, kept; a vault begins with its first as its owner's. What they come from must be open to whoever
    asks: memories are judged by it.
    """
    if await closed_sources(ask, asked):
        raise no_session()
    memories = ask.services.memories
    return await or_missing(memories.keep(place.space, asked, agent=place.agent, key=key, owner=place.owner))


async def closed_sources(ask: Ask, asked: Sequence[Keeping]) -> frozenset[str]:
    """The sessions that memories are said to come from, and that whoever asks may not read, or that are not there."""
    told = {one.source.session for one in asked if is_id(one.source.session)}
    return frozenset([session for session in told if not await may(ask, session_id(session), READ_TURNS)])


async def or_missing(found: Awaitable[T], what: What = "memory") -> T:
    """What was found; what is not there is told in the words in which it is told of what is somebody else's."""
    try:
        return await found
    except NotFound:
        raise missing(what) from None


@table.add(
    "PATCH",
    "/v1/memory/{memory_id}",
    (Verb.WRITE, Thing.MEMORY),
    body=UpdateBody,
    answer=MemoryView,
    errors=KEEPING,
    example={"content": "Morpho's USDC vault has 2.1 % base APY.", "reason": "looked it up again"},
)
async def update_memory(ask: Ask) -> Answer:
    """Change a memory; other content makes another memory, which takes its place."""
    body: UpdateBody = await ask.body()
    place = await entered(ask, body)
    memories = ask.services.memories
    trust: Trust | None = "medium" if is_agents(ask) else None
    changed = memories.update(place.space, ask.params["memory_id"], changing_of(body), agent=place.agent, trust=trust)
    return ask.answer(view_of(await or_missing(changed), place, ask))


@table.add(
    "POST",
    "/v1/memory/{memory_id}/move",
    (Verb.MOVE, Thing.MEMORY),
    body=MoveMemoryBody,
    answer=MovedMemory,
    errors=KEEPING,
    example={"to": "quarantine", "reason": "it gives orders"},
)
async def move_memory(ask: Ask) -> Answer:
    """Archive a memory, quarantine it, or bring it back."""
    body: MoveMemoryBody = await ask.body()
    place, id = await entered(ask, body), ask.params["memory_id"]
    moved = await or_missing(ask.services.memories.move(place.space, [id], MOVES[body.to], body.reason))
    return ask.answer(MovedMemory(id=id, moved=moved))


@table.add(
    "DELETE",
    "/v1/memory/{memory_id}",
    (Verb.DELETE, Thing.MEMORY),
    query=ForgetQuery,
    answer=ForgottenMemories,
    sensitive=True,
    errors=(errors.VersionConflict,),
)
async def forget_memory(ask: Ask) -> Answer:
    """Take a memory out of the log for good, with every form it has had."""
    query: ForgetQuery = ask.query()
    place = await entered(ask, query)
    found = await ask.services.memories.forget(place.space, [ask.params["memory_id"]], query.reason)
    if not found:
        raise missing("memory")
    return ask.answer(ForgottenMemories(forgotten=found))


# ── finding ──


@table.add(
    "POST",
    "/v1/memory/search",
    (Verb.READ, Thing.MEMORY),
    body=SearchBody,
    answer=FoundMemories,
    errors=(errors.QuotaReached, errors.NotFound, errors.VersionConflict),
    example={"query": "which pools are safe?", "top_k": 5, "type_filter": ["constraint"], "min_importance": 0.3},
)
async def search_memory(ask: Ask) -> Answer:
    """The memories that fit best, by words and by sense."""
    body: SearchBody = await ask.body()
    place = await entered(ask, body)
    others = [await entered(ask, Place(clade=name)) for name in dict.fromkeys(body.clades)]
    if body.beyond:
        others.append(await entered(ask, Place(namespace="lethe")))
    asked = seeking_of(body)
    items = await _found(ask, place, asked)
    beyond: list[FoundView] = []
    if body.beyond:
        wider = msgspec.structs.replace(asked, top_k=body.beyond)
        for other in others:
            if other.space != place.space:
                beyond += await _found(ask, other, wider)
    best = sorted(beyond, key=lambda found: -found.score)[: body.beyond]
    return ask.answer(FoundMemories(items=tuple(items), beyond=tuple(best)))


async def _found(ask: Ask, place: Entered, asked: Seeking) -> list[FoundView]:
    found = await ask.services.memories.search(place.space, asked)
    return [found_view(scored, place, ask) for scored in found]


@table.add(
    "GET",
    "/v1/memory",
    (Verb.READ, Thing.MEMORY),
    query=MemoryQuery,
    answer=MemoryList,
    errors=(errors.BadCursor, errors.NotFound),
)
async def list_memories(ask: Ask) -> Answer:
    """Memories in the order in which they were kept, a page at a time."""
    query: MemoryQuery = ask.query()
    place = await entered(ask, query)
    after = query.cursor or ""
    if after and not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadCursor("this is no cursor of a list of memories; give the `cursor` of the page before")
    page = await ask.services.memories.list(
        place.space,
        statuses=query.status,
        types=query.type,
        session=query.session,
        limit=query.limit,
        after=after,
    )
    return _listed(ask, place, page.items, page.next or None)


def _listed(ask: Ask, place: Entered, items: tuple[Memory, ...], cursor: str | None = None) -> Answer:
    return ask.answer(MemoryList(items=tuple(view_of(item, place, ask) for item in items), cursor=cursor))


@table.add("GET", "/v1/memory/{memory_id}", (Verb.READ, Thing.MEMORY), query=SpaceQuery, answer=MemoryView)
async def get_memory(ask: Ask) -> Answer:
    """A memory, whatever its status."""
    place = await entered(ask, ask.query())
    found = await or_missing(ask.services.memories.get(place.space, ask.params["memory_id"]))
    return ask.answer(view_of(found, place, ask))


@table.add("GET", "/v1/memory/{memory_id}/history", (Verb.READ, Thing.MEMORY), query=SpaceQuery, answer=MemoryList)
async def memory_history(ask: Ask) -> Answer:
    """Every form that a memory has had, oldest first."""
    place = await entered(ask, ask.query())
    return _listed(ask, place, await or_missing(ask.services.memories.history(place.space, ask.params["memory_id"])))
