"""Whoever may configure a session is not let into its owner's memory by that: those switch it on who may read it."""

import json
from functools import partial
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.core.access.rules import Condition, Policy, Rule
from perdure.edge.http.remembering import Remembering
from tests.edge.http.world import Client, Reply, World
from tests.edge.http.world import world as any_world

world = partial(any_world, memory=Remembering(embedder="none"))
SECRET = "The vault's code is qxzmark."
ASKED = {"content": "What is the vault's code?"}
SHOWN: dict[str, Any] = {"memory": {"top_k": 10}}
FULL = (Role.OWNER, Role.AGENT)


async def scene(there: World) -> dict[str, Client]:
    """Ana remembers a secret. Bob, his agent and hers may do to sessions of hers what she may, by a rule."""
    made = {
        "ana": await there.principal("ana", *FULL),
        "bot": await there.principal("bot", Role.AGENT, Role.OWNER, kind="agent", acting_for="ana"),
        "bob": await there.principal("bob", *FULL),
        "imp": await there.principal("imp", Role.AGENT, Role.OWNER, kind="agent", acting_for="bob"),
        "boss": await there.principal("boss", Role.ADMIN, *FULL),
    }
    kept = await made["ana"].post("/v1/memory", {"content": SECRET})
    assert kept.status == 201, kept
    rule = Rule(effect="allow", actions=("*:session", "*:turns"), when=Condition(names=("bob", "imp", "bot")))
    await there.store.directory.set_policy("local", Policy(rules=(rule,)), by=None)
    return made


async def shared(ana: Client, **config: Any) -> str:
    agents = {"bot": "read_write", "imp": "read_write", "bob": "read_write", "boss": "read_write"}
    isolation = {"model": "per_user", "users": ["bob", "boss"], "agents": agents}
    return await ana.begun(isolation=isolation, config={"model": "offline/echo", **config})


def refused(reply: Reply) -> bool:
    return reply.status == 403 and reply.json["fields"]["reason"] == "memory"


@pytest.mark.parametrize("who", ["bob", "imp", "boss"])
@pytest.mark.parametrize("memory", [{}, {"top_k": 3}, {"agent": "ana"}, {"clades": ["desk"], "lethe": True}])
async def test_who_is_let_into_a_session_switches_no_memory_on_in_it(who: str, memory: dict[str, Any]) -> None:
    async with world() as there:
        clients = await scene(there)
        client, session = clients[who], await shared(clients["ana"])
        path = f"/v1/sessions/{session}"
        changed = await client.patch(path, {"config": {"memory": memory}})
        assert changed.status == 403, changed
        branched = await client.post(f"{path}/branch", {"config": {"memory": memory}})
        assert branched.status == 403, branched
        told = await client.post(f"{path}/messages", ASKED)
        shown = await client.get(f"{path}/context?content=code")
        assert "qxzmark" not in (told.body + shown.body).decode()


async def test_those_who_could_configure_it_are_told_that_it_is_for_memory() -> None:
    """Without this the test above would prove nothing: they may change and branch the session, but for memory."""
    async with world() as there:
        clients = await scene(there)
        session = await shared(clients["ana"])
        path = f"/v1/sessions/{session}"
        able = [who for who in ("bob", "imp") if (await clients[who].patch(path, {"title": "x"})).status == 200]
        assert able != []
        for who in able:
            assert refused(await clients[who].patch(path, {"config": SHOWN})), who
            assert refused(await clients[who].post(f"{path}/branch", {"config": SHOWN})), who
            assert (await clients[who].post(f"{path}/branch", {"config": {"max_rounds": 3}})).status == 201


async def test_an_owner_and_who_acts_for_them_switch_it_on_and_off() -> None:
    async with world() as there:
        clients = await scene(there)
        session = await shared(clients["ana"])
        path = f"/v1/sessions/{session}"
        for who in ("ana", "bot"):
            reply = await clients[who].patch(path, {"config": SHOWN})
            assert reply.status == 200, reply
            shown = await clients[who].get(f"{path}/context?content=What+is+the+code")
            assert "qxzmark" in shown.body.decode(), shown
            assert (await clients["ana"].patch(path, {"config": {"memory": None}})).status == 200


async def test_what_a_session_is_shown_already_may_be_repeated_and_less_of_it_may_be_asked_for() -> None:
    async with world() as there:
        clients = await scene(there)
        path = f"/v1/sessions/{await shared(clients['ana'], memory={'top_k': 3})}"
        able = [who for who in ("bob", "imp") if (await clients[who].patch(path, {"title": "x"})).status == 200]
        for who in able:
            assert refused(await clients[who].patch(path, {"config": {"memory": {"top_k": 10}}}))
            assert (await clients[who].patch(path, {"config": {"memory": {"top_k": 3}}})).status == 200
            assert (await clients[who].patch(path, {"config": {"memory": {"enabled": False}}})).status == 200
            assert refused(await clients[who].patch(path, {"config": {"memory": {"top_k": 3}}}))
            assert (await clients["ana"].patch(path, {"config": {"memory": {"top_k": 3}}})).status == 200


async def test_no_branch_begins_where_memory_was_still_on() -> None:
    async with world() as there:
        clients = await scene(there)
        session = await shared(clients["ana"], memory={"top_k": 10})
        path = f"/v1/sessions/{session}"
        assert (await clients["ana"].post(f"{path}/messages", {"content": "hello"})).status == 200
        point = (await clients["ana"].post(f"{path}/checkpoint")).json["checkpoint_id"]
        version = (await clients["ana"].get(path)).json["version"]
        assert (await clients["ana"].patch(path, {"config": {"memory": None}})).status == 200
        able = [who for who in ("bob", "imp") if (await clients[who].post(f"{path}/branch", {})).status == 201]
        assert able != []
        for who in able:
            for action, body in (
                ("branch", {"at": version}),
                ("rewind", {"turns": 1}),
                ("edit", {"turn": 1, "content": "x"}),
                ("resume", {"checkpoint_id": point}),
            ):
                reply = await clients[who].post(f"{path}/{action}", body)
                assert refused(reply), f"{who} {action}: {reply}"
        for action, body in (("branch", {"at": version}), ("rewind", {"turns": 1})):
            assert (await clients["ana"].post(f"{path}/{action}", body)).status == 201


async def test_a_key_that_reads_no_memory_switches_none_on() -> None:
    async with world() as there:
        narrow = await there.principal("ana", *FULL, scopes=("*:session", "*:turns"))
        assert refused(await narrow.post("/v1/sessions", {"config": SHOWN}))
        assert (await narrow.post("/v1/sessions", {"config": {"memory": {"enabled": False}}})).status == 201


@pytest.mark.parametrize("pruned", [False, True])
async def test_an_admin_imports_no_session_that_is_shown_what_its_owner_remembers(pruned: bool) -> None:
    async with world() as there, world() as elsewhere:
        await scene(there)
        far = await elsewhere.principal("ana", *FULL)
        session = await far.begun(config={"memory": {"top_k": 10}, "model": "offline/echo"})
        assert (await far.post(f"/v1/sessions/{session}/messages", {"content": "hello"})).status == 200
        if pruned:
            assert (await far.post(f"/v1/sessions/{session}/prune", {"upto": 4})).status == 200
        lines = (await far.get(f"/v1/sessions/{session}/export")).body
        boss = await there.principal("chief", Role.ADMIN, *FULL)
        spaced = b"\n".join(json.dumps(json.loads(line)).encode() for line in lines.splitlines())
        for raw in (lines, spaced):
            reply = await boss.ask("POST", "/v1/import", raw=raw, headers={"content-type": "application/x-ndjson"})
            assert refused(reply), reply
