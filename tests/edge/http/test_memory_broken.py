"""What broke memory over HTTP once."""

from functools import partial

from perdure.core.access.roles import Role
from perdure.edge.http.remembering import Remembering
from tests.edge.http.world import world as any_world

world = partial(any_world, memory=Remembering(embedder="none"))


async def test_a_key_whose_memory_was_forgotten_is_refused() -> None:
    async with world() as there:
        ana, key = await there.principal("ana"), {"idempotency-key": "once"}
        one = await ana.post("/v1/memory", {"content": "the code is 4711"}, headers=key)
        assert (await ana.delete(f"/v1/memory/{one.json['id']}")).status == 200
        again = await ana.post("/v1/memory", {"content": "the code is 4711"}, headers=key)
        assert (again.status, again.json["code"], again.json["fields"]) == (
            409,
            "memory_refused",
            {"reason": "forgotten"},
        )


async def test_what_an_agent_makes_of_a_persons_words_is_trusted_as_an_agents() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        bot = await there.principal("bot", Role.AGENT, kind="agent", acting_for="ana")
        one = (await ana.post("/v1/memory", {"content": "spend nothing", "memory_type": "constraint"})).json
        assert one["trust"] == "high"
        changed = (await bot.patch(f"/v1/memory/{one['id']}", {"content": "spend it all", "owner": "ana"})).json
        assert (changed["trust"], changed["writer"]) == ("medium", "bot")
        low = (await ana.post("/v1/memory", {"content": "maybe", "trust": "low"})).json
        assert (await bot.patch(f"/v1/memory/{low['id']}", {"content": "sure", "owner": "ana"})).json["trust"] == "low"
        own = (await ana.post("/v1/memory", {"content": "spend little"})).json
        assert (await ana.patch(f"/v1/memory/{own['id']}", {"content": "spend less"})).json["trust"] == "high"
