"""The cache of models' answers: what it did for the tenant who asks, and forgetting it. Each node has its own."""

import msgspec

from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table

table = Table()


class CacheView(msgspec.Struct, kw_only=True):
    """What the cache did for a tenant. `bypassed` are asks that could not be or were not to be answered from it;
    `evicted` are entries that went for want of room or because their time was over.
    """

    exact: int = 0
    semantic: int = 0
    misses: int = 0
    bypassed: int = 0
    kept: int = 0
    evicted: int = 0
    forgotten: int = 0
    entries: int = 0
    bytes: int = 0


class Forgotten(msgspec.Struct, kw_only=True):
    """How many answers went."""

    forgotten: int


@table.add("GET", "/v1/cache", (Verb.LIST, Thing.STORE), answer=CacheView)
async def read_cache(ask: Ask) -> Answer:
    """What this node's cache of answers did for the tenant: hits, misses, entries, bytes."""
    found = ask.services.common.caching.stats(ask.actor.tenant)
    return ask.answer(CacheView(**msgspec.structs.asdict(found)))


@table.add("DELETE", "/v1/cache", (Verb.WRITE, Thing.STORE), answer=Forgotten)
async def clear_cache(ask: Ask) -> Answer:
    """Forget every answer that this node keeps for the tenant."""
    return ask.answer(Forgotten(forgotten=ask.services.common.caching.forget(ask.actor.tenant)))
