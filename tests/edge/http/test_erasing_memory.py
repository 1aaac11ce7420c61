"""Erasing a person over HTTP: what is remembered of them and by them, wherever it went, and where they were let in."""

from functools import partial
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.edge.http.remembering import Remembering
from perdure.edge.library import AsyncPerdure
from perdure.services.forgetting import Forgetting
from tests.edge.http.world import world as any_world

world = partial(any_world, memory=Remembering(embedder="none"))
EVERY = (Role.OWNER, Role.VIEWER, Role.AGENT)


class Crash(Exception):
    """The process dies here."""


async def contents(space: Any) -> list[str]:
    """What is there, proposals included."""
    return [one.content async for one in space.list()] + [one.content for one in await space.proposals(reviewed=True)]


async def test_what_others_promoted_out_of_their_vault_goes_with_them() -> None:
    async with world() as there:
        root, ana = await there.principal("root", Role.ADMIN), await there.principal("ana")
        db = AsyncPerdure(there.store.services("local"))
        kept = (await ana.post("/v1/memory", {"content": "she has the flu"})).json["id"]
        lethe, vault = db.memory(lethe=True), db.memory("ana", owner="ana")
        proposal = await vault.propose(kept, to=lethe, evidence=["seen"])
        await lethe.review(proposal.id, True, reason="fine")
        await lethe.add("the flu is going round")
        report = (await root.post("/v1/people/ana/erase", {})).json["report"]
        assert report["memories"] == 3  # in the vault, the proposal, and what it became
        assert await contents(lethe) == ["the flu is going round"]


@pytest.mark.parametrize("fields", [{"author": "ben"}, {"subjects": ["Ben"]}])
async def test_erasing_somebody_that_broke_off_is_finished_by_the_same_call(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as there:
        root = await there.principal("root", Role.ADMIN)
        await there.principal("ben")
        db = AsyncPerdure(there.store.services("local"))
        vault, lethe = db.memory("a"), db.memory(lethe=True)
        kept = await vault.add("the secret word is here", **fields)
        proposal = await vault.propose(kept.id, to=lethe, evidence=["seen"])
        await lethe.review(proposal.id, True, reason="fine")
        whole, calls = Forgetting._let_go, 0

        async def dies(self: Forgetting, *words: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Crash
            return await whole(self, *words)

        with monkeypatch.context() as patched:
            patched.setattr(Forgetting, "_let_go", dies)
            assert (await root.post("/v1/people/ben/erase", {})).status == 500
        assert (await root.post("/v1/people/ben/erase", {})).status == 200
        assert await contents(lethe) == await contents(vault) == []


@pytest.mark.parametrize("name", ["ana", "Ana@x.org", "ana/1", "ana" * 30])
async def test_the_vaults_of_their_agents_go_by_whatever_way_they_were_begun(name: str) -> None:
    async with world() as there:
        root, ana = await there.principal("root", Role.ADMIN), await there.principal(name)
        db = AsyncPerdure(there.store.services("local"))
        await db.memory("critic").add("what the library keeps for itself")
        await ana.post("/v1/memory", {"content": "over HTTP", "agent": "scout"})
        served = (await ana.get("/v1/memory/spaces")).json["items"][0]["space"].removeprefix("vault/")
        await db.memory(served.replace("scout", "critic")).add("her diagnosis", source={"kind": "user"})
        assert (await ana.get("/v1/memory?agent=critic")).json["items"][0]["content"] == "her diagnosis"
        known = [each.id for each in await there.store.directory.principals("local") if each.name == name]
        assert (await root.post(f"/v1/people/{known[0]}/erase", {})).json["report"]["memories"] == 2
        assert [each.space async for each in db.spaces()] == ["vault/critic"]


async def test_nobody_new_of_their_name_is_let_in_where_they_were() -> None:
    async with world() as there:
        root, ana = await there.principal("root", Role.ADMIN), await there.principal("ana")
        bob = await there.principal("bob", *EVERY)
        let = {"users": ["bob", "cal"], "agents": {"bob": "read_write", "critic": "read"}}
        await ana.post("/v1/memory/clades", {"name": "desk", **let})
        await ana.post("/v1/memory", {"content": "Ana's word", "clade": "desk"})
        assert (await bob.get("/v1/memory?clade=desk")).status == 200
        await root.post("/v1/people/bob/erase", {})
        shared = (await ana.get("/v1/memory/clades/desk")).json
        assert (shared["users"], shared["agents"]) == (["cal"], {"critic": "read"})
        bob = await there.principal("bob", *EVERY)
        assert (await bob.get("/v1/memory?clade=desk")).status == 404
        assert (await bob.get("/v1/memory/spaces")).json["items"] == []
        assert [one["content"] for one in (await ana.get("/v1/memory?clade=desk")).json["items"]] == ["Ana's word"]
