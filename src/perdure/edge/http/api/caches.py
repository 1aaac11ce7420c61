"""The cache of models' answers: what it did for the tenant who asks, and forgetting it. Each node has its own."""

import msgspec

from perdure.core.access.roles import Thing, Verb
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.routes import Table
from perdure.services.caching import Stats

table = Table()


class Forgotten(msgspec.Struct, kw_only=True):
    """How many answers went."""

    forgotten: int


@table.add("GET", "/v1/cache", (Verb.LIST, Thing.STORE), answer=Stats)
async def read_cache(ask: Ask) -> Answer:
    """What this node's cache of answers did for the tenant: hits, misses, entries, bytes."""
    return ask.answer(ask.services.common.caching.stats(ask.actor.tenant))


@table.add("DELETE", "/v1/cache", (Verb.WRITE, Thing.STORE), answer=Forgotten)
async def clear_cache(ask: Ask) -> Answer:
    """Forget every answer that this node keeps for the tenant."""
    return ask.answer(Forgotten(forgotten=ask.services.common.caching.forget(ask.actor.tenant)))
