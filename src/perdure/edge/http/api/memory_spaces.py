"""Memory spaces: what they hold, the plans they are on, and memories taken elsewhere."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.core import errors
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import TooLarge
from perdure.core.memory.plans import plan_of
from perdure.edge.http.api.memory import KEEPING, closed_sources
from perdure.edge.http.asgi import Answer, Gone, Request
from perdure.edge.http.asking import Ask
from perdure.edge.http.remembered import OWN, MemoryStats, is_agents
from perdure.edge.http.routes import Table
from perdure.edge.http.spaces import READ, Entered, Name, Place, SpaceQuery, entered
from perdure.waiting import aside

if TYPE_CHECKING:
    from perdure.core.memory.arriving import Batch, Coming, Others
    from perdure.core.memory.lines import Line
    from perdure.core.memory.parts import Memory

table = Table()
LINES: Final = "application/x-ndjson"
MAX_LINES: Final = 100_000
"""Lines of one import."""
AT_ONCE: Final = 100
"""Lines of an import that are kept at once."""
WORDS: Final = 32_768
"""Characters of an import that are kept at once: while they are looked at, everybody else waits."""


class PlanBody(Place, kw_only=True, forbid_unknown_fields=True):
    """The plan that a space is put on."""

    plan: Name


class ImportQuery(SpaceQuery, kw_only=True, forbid_unknown_fields=True):
    """Where to, and whether the lines are believed who said what."""

    trusted: bool = False


class ImportedMemories(msgspec.Struct, kw_only=True):
    """Memories kept, those that were there already, and those that stay out because they were quarantined or withdrawn
    where they come from.
    """

    space: str
    kept: int
    there: int
    left_out: int


@table.add(
    "GET",
    "/v1/memory/stats",
    (Verb.LIST, Thing.MEMORY),
    query=SpaceQuery,
    answer=MemoryStats,
    errors=(errors.NotFound,),
)
async def memory_stats(ask: Ask) -> Answer:
    """What a space holds and was asked, without a word of it."""
    return await _stats(ask, await entered(ask, ask.query()))


async def _stats(ask: Ask, place: Entered) -> Answer:
    stats = await ask.services.memories.stats(place.space)
    plan, facts = plan_of(stats.plan), msgspec.structs.asdict(stats)
    limits = {name: limit for name in ("memories", "queries") if (limit := getattr(plan, name)) is not None}
    version = facts.pop("version")
    return ask.answer(MemoryStats(**facts | {"space": place.told}, limits=limits, log_version=version))


@table.add(
    "PUT",
    "/v1/memory/plan",
    (Verb.ISSUE, Thing.MEMORY),
    body=PlanBody,
    answer=MemoryStats,
    sensitive=True,
    errors=(errors.NotFound, errors.VersionConflict),
    example={"owner": "ana", "plan": "standard"},
)
async def plan_memory(ask: Ask) -> Answer:
    """Put a space on a plan, which says how much it may hold and be asked."""
    body: PlanBody = await ask.body()
    plan_of(body.plan)
    place = await entered(ask, body)
    await ask.services.memories.plan(place.space, body.plan, owner=place.owner)
    return await _stats(ask, place)


# ── coming and going ──


@table.add(
    "GET",
    "/v1/memory/export",
    (Verb.EXPORT, Thing.MEMORY),
    query=SpaceQuery,
    answer=bytes,
    pieces=True,
    media=LINES,
    sensitive=True,
    errors=(errors.NotFound,),
)
async def export_memory(ask: Ask) -> Answer:
    """Every memory of a space as JSONL, one a line."""
    place = await entered(ask, ask.query())
    await entered(ask, ask.query(), READ)
    name = b'attachment; filename="memory.jsonl"'
    headers = [*ask.headers, (b"content-disposition", name)]
    return Answer(HTTPStatus.OK, b"", LINES.encode(), headers, _exported(ask, place))


async def _exported(ask: Ask, place: Entered) -> AsyncGenerator[bytes, None]:
    async for document in ask.services.memories.exported(place.space):
        yield msgspec.json.encode(document) + b"\n"


@table.add(
    "POST",
    "/v1/memory/import",
    (Verb.CREATE, Thing.MEMORY),
    query=ImportQuery,
    body=bytes,
    answer=ImportedMemories,
    takes=(LINES,),
    errors=(*KEEPING, errors.BadExport),
)
async def import_memory(ask: Ask) -> Answer:
    """Keep what lines say: those of an export, JSON objects, or plain text. What is there is left alone."""
    from perdure.edge.recollecting import Bringing

    query: ImportQuery = ask.query()
    place = await entered(ask, query)
    body = await ask.request.body()
    lines = await aside(lambda: [_claimed(ask, line) for line in _read(body, query.trusted)])
    memories = ask.services.memories

    async def look() -> "list[Memory]":
        return [*(await memories.shelves.look(place.space)).shelf]

    async def bring(batch: "Batch", others: "Others") -> bool:
        closed = await closed_sources(ask, [one.asked for one in batch.coming])
        coming = [one if one.asked.source.session not in closed else _without_session(one) for one in batch.coming]
        open = msgspec.structs.replace(batch, coming=coming)
        return await memories.bring(place.space, open, others, agent=place.agent, owner=place.owner)

    async with _attended(ask.request) as stay:
        bringing = Bringing(look, bring, memories.fresh_id, stay=stay, most=AT_ONCE, most_words=WORDS)
        done = await bringing.bring(lines)
    return ask.answer(ImportedMemories(space=place.told, **msgspec.structs.asdict(done)))


def _read(body: bytes, trusted: bool) -> "list[Line]":
    """The memories of a body's lines; `TooLarge` if there are too many for one import."""
    from perdure.edge.recollecting import lines_of

    ends = body.count(b"\n") + body.count(b"\r") - body.count(b"\r\n")
    if ends + (not body.endswith((b"\n", b"\r"))) > MAX_LINES:
        raise TooLarge(
            f"an import has {MAX_LINES:,} lines at most; send it in several parts, or use `perdure memory import` "
            "where the store is",
            limit=MAX_LINES,
        )
    return lines_of(body.splitlines(), trusted=trusted)


@asynccontextmanager
async def _attended(request: Request) -> AsyncIterator[Callable[[], None]]:
    """What says within the block, by `Gone`, that the client has hung up."""
    left = asyncio.create_task(request.gone())

    def stay() -> None:
        if left.done():
            raise Gone

    try:
        yield stay
    finally:
        left.cancel()
        await asyncio.wait([left])


def _claimed(ask: Ask, line: "Line") -> "Line":
    """A line as far as whoever asks may say whose word it is: not that of what only the server does; what an agent
    passes on of a person's counts as an agent's.
    """
    asked = line.asked
    if asked.source.kind in OWN:
        source = msgspec.structs.replace(asked.source, kind="import")
        return msgspec.structs.replace(line, asked=msgspec.structs.replace(asked, source=source))
    if asked.source.kind == "user" and asked.trust in (None, "high") and is_agents(ask):
        return msgspec.structs.replace(line, asked=msgspec.structs.replace(asked, trust="medium"))
    return line


def _without_session(one: "Coming") -> "Coming":
    """A memory that comes from a session which is not here, or is somebody else's."""
    source = msgspec.structs.replace(one.asked.source, session="", version=0, checkpoint="")
    return msgspec.structs.replace(one, asked=msgspec.structs.replace(one.asked, source=source))
