"""Memory in turns over HTTP: kept with one call, shown to a provider's server, and the prefix that it caches stays."""

import json
from itertools import pairwise
from typing import Any

import pytest

from perdure.edge.http.settings import Remembering
from tests.edge.http.gatehouse import gatehouse
from tests.edge.http.world import Client
from upstream.server import Server

WORDS = Remembering(embedder="none")
RULES = ("Never dig below the water line.", "Never sell before noon.")


async def kept(client: Client, content: str, **more: Any) -> str:
    reply = await client.post("/v1/memory", {"content": content, **more})
    assert reply.status in (200, 201), reply
    found: str = reply.json["id"]
    return found


def unmarked(value: Any) -> Any:
    """A document without the marks of caches, which move to the end."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def blocks_of(body: dict[str, Any]) -> list[bytes]:
    """All that a provider is sent before its answer, block by block, as bytes."""
    found: list[Any] = [body.get("system") or []]
    for said in unmarked(body["messages"]):
        content = said["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [[said["role"], block] for block in blocks]
    return [json.dumps(unmarked(item)).encode() for item in found]


def last_mark(body: dict[str, Any]) -> int:
    """How many blocks there are up to the last breakpoint."""
    at, found = 0, 0
    for said in body["messages"]:
        for block in said["content"] if isinstance(said["content"], list) else [said["content"]]:
            at += 1
            found = at if isinstance(block, dict) and "cache_control" in block else found
    return 1 + found


async def said(client: Client, up: Server, session: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    reply = await client.post(f"/v1/sessions/{session}/messages", {"content": text})
    assert reply.status == 200, reply
    return up.seen[-1].body, reply.json


@pytest.mark.parametrize("cite", ["auto", "never"])
async def test_the_prefix_that_a_provider_caches_stays_while_memories_come(cite: str) -> None:
    async with gatehouse(memory=WORDS) as (there, up):
        ana = await there.principal("ana")
        for rule in RULES:
            await kept(ana, rule, memory_type="constraint", importance=0.9)
        session = await ana.begun(config={"model": "a/echo", "memory": {"cite": cite}, "system_prompt": "You dig."})
        bodies, read = [], []
        for number in range(5):
            await kept(ana, f"Gold was seen in place {number}.")
            await kept(ana, f"Rule {number}: wash your hands.", memory_type="constraint", importance=1.0)
            body, outcome = await said(ana, up, session, f"Where is gold, in place {number}?")
            bodies.append(body)
            read.append(outcome["usage"].get("cache_read", 0))
        for before, after in pairwise(bodies):
            mark = last_mark(before)
            assert blocks_of(before)[:mark] == blocks_of(after)[:mark]
        told = json.dumps(bodies[-1])
        assert all(told.count(rule[:-1]) == (2 if cite == "auto" else 1) for rule in RULES)
        assert "Gold was seen in place 4" in told
        assert ("search_result" in told) == (cite == "auto")
        assert ("agent_memory" in told) == (cite == "never")
        assert read[0] == 0
        assert all(count > 0 for count in read[1:])
        assert all(len(body["messages"][-1]["content"]) > 1 for body in bodies)


async def test_the_context_tells_what_is_shown_and_what_is_not_and_changes_nothing() -> None:
    async with gatehouse(memory=WORDS) as (there, up):
        ana = await there.principal("ana")
        await kept(ana, "Gold is dug in the northern hills.")
        await kept(ana, RULES[0], memory_type="constraint")
        session = await ana.begun(config={"model": "a/echo", "memory": {"clades": ["desk"]}})
        await said(ana, up, session, "Where is gold dug?")
        replies = [await ana.get(f"/v1/sessions/{session}/context") for _ in range(2)]
        assert replies[0].status == 200, replies[0]
        assert replies[0].json == replies[1].json
        parts = {part["name"]: part for part in replies[0].json["parts"]}
        assert parts["memories"]["cached"] is True
        assert parts["memories"]["tokens"] > 0
        assert "clade/desk: nothing is kept there" in [
            part["why"] for part in replies[0].json["parts"] if part["name"] == "memories left out"
        ]


async def test_what_is_wrong_with_a_session_s_memory_is_said() -> None:
    async with gatehouse(memory=WORDS) as (there, _):
        ana = await there.principal("ana")
        for wrong in ({"top_k": -1}, {"cite": "perhaps"}, {"budget": "x"}, {"nothing": 1}, "yes"):
            reply = await ana.post("/v1/sessions", {"config": {"memory": wrong}})
            assert reply.status == 422 or reply.json["code"] == "invalid", reply


async def test_somebody_elses_vault_is_never_shown() -> None:
    async with gatehouse(memory=WORDS) as (there, up):
        bob, ana = await there.principal("bob"), await there.principal("ana")
        await kept(bob, "The secret gold mine is at Velm.")
        await kept(bob, "The secret gold mine is at Orm.", agent="dog")
        for agent in ("bob", "dog", "bob:dog", "bob/dog"):
            config = {"model": "a/echo", "memory": {"agent": agent, "clades": ["bob"], "lethe": True}}
            session = await ana.begun(config=config)
            body, _ = await said(ana, up, session, "Where is the secret gold mine?")
            assert "Velm" not in json.dumps(body)
            assert "Orm" not in json.dumps(body)
        session = await bob.begun(config={"model": "a/echo", "memory": {"agent": "dog"}})
        body, _ = await said(bob, up, session, "Where is the secret gold mine?")
        assert "Orm" in json.dumps(body)
        assert "Velm" not in json.dumps(body)
