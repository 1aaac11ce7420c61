"""Lists, searches and counts of sessions leave out the logs in which memories are kept, unless these are asked for."""

from typing import Any

from perdure.core.access.roles import Role
from perdure.edge.http.remembering import Remembering
from tests.edge.http.world import Client, world


async def test_logs_of_memories_are_listed_only_when_they_are_asked_for() -> None:
    async with world(memory=Remembering(embedder="none")) as there:
        ana, boss = await there.principal("ana"), await there.principal("boss", Role.ADMIN, Role.OWNER)
        session = await ana.begun(title="mine")
        for agent in ("ana", "helper"):
            assert (await ana.post("/v1/memory", {"content": "x", "agent": agent})).status == 201
        for client in (ana, boss):
            assert await listed(client) == [session]
            assert await listed(client, limit=1) == [session]
            assert len(await listed(client, memories=True)) == 3
            assert (await client.post("/v1/sessions/count", {})).json["count"] == 1
            assert (await client.post("/v1/sessions/count", {"memories": True})).json["count"] == 3
        assert (await ana.get("/v1/sessions?memories=maybe")).status == 422


async def listed(client: Client, **asked: Any) -> list[str]:
    """By the list and by the search, which say the same."""
    words = "&".join(f"{name}={str(value).lower()}" for name, value in asked.items())
    replies = await client.get(f"/v1/sessions?{words}"), await client.post("/v1/sessions/find", asked)
    found = [[item["session_id"] for item in reply.json["items"]] for reply in replies]
    assert found[0] == found[1]
    assert all(reply.json["cursor"] is None for reply in replies)
    return found[0]
