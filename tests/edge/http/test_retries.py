"""A request sent again with its Idempotency-Key is answered as it was the first time, to the byte (R4)."""

from typing import Any

import pytest

from perdure.edge.http.building import endpoints
from perdure.edge.http.routes import Endpoint
from tests.edge.http.world import Client, world

KEYED = [endpoint for endpoint in endpoints() if endpoint.keyed and endpoint.name != "answer_approval"]
"""All that take a key; answering for a tool is told by how the turn stands by now."""
SAID = {"events": [{"kind": "message", "data": {"role": "user", "content": "hello"}}], "arrange": True, "echo": True}


async def body_of(endpoint: Endpoint, client: Client, session: str) -> Any:
    """Something that each endpoint does well."""
    if endpoint.name == "append_events":
        return SAID
    if endpoint.name == "resume":
        point = await client.post(f"/v1/sessions/{session}/checkpoint")
        return {"checkpoint_id": point.json["checkpoint_id"]}
    if endpoint.name in ("settle", "correct"):
        await client.post(f"/v1/sessions/{session}/reserve", {"name": "call-1", "amount": 20_000})
    if endpoint.name == "correct":
        await client.post(f"/v1/sessions/{session}/settle", {"name": "call-1", "cost": 20_000, "estimated": True})
    if endpoint.name == "retract":
        await client.post(f"/v1/sessions/{session}/events", SAID)
        return {"first": 4, "upto": 4}
    return {} if endpoint.name == "branch" else endpoint.example


@pytest.mark.parametrize("endpoint", KEYED, ids=[endpoint.name for endpoint in KEYED])
async def test_a_retry_with_the_same_key_is_answered_as_the_first_time(endpoint: Endpoint) -> None:
    async with world() as there:
        client = await there.principal("ana")
        session = await client.begun(config={"max_cost": 1_000_000})
        target = endpoint.path.replace("{session_id}", session)
        body = await body_of(endpoint, client, session)
        key = {"idempotency-key": "once"}
        first = await client.ask(endpoint.method, target, body, headers=key)
        assert first.status in (200, 201), first
        again = await client.ask(endpoint.method, target, body, headers=key)
        assert (again.status, again.headers, again.body) == (first.status, first.headers, first.body)


async def test_a_key_of_one_tenant_means_nothing_to_another() -> None:
    async with world() as there:
        ana, bob = await there.principal("ana", tenant="acme"), await there.principal("bob", tenant="globex")
        key = {"idempotency-key": "once"}
        made = [await client.post("/v1/sessions", {"title": "trip"}, headers=key) for client in (ana, bob)]
        assert [reply.status for reply in made] == [201, 201]
        assert made[0].json["session_id"] != made[1].json["session_id"]


async def test_a_key_of_one_person_means_nothing_to_another_of_the_same_tenant() -> None:
    async with world() as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        key = {"idempotency-key": "once"}
        made = [await client.post("/v1/sessions", {"title": "trip"}, headers=key) for client in (ana, bob)]
        assert [reply.status for reply in made] == [201, 201]
        assert made[0].json["session_id"] != made[1].json["session_id"]
