"""What answers rest on, over HTTP; and what goes, or needs no review, because somebody says so who may."""

from functools import partial
from typing import Any

from perdure.core.access.roles import Role
from perdure.core.access.rules import FieldRule, Policy
from perdure.edge.http.remembering import Remembering
from tests.edge.http.world import Client, World
from tests.edge.http.world import world as any_world

world = partial(any_world, memory=Remembering(embedder="none"))
GOLD = "Gold is dug in the northern hills near Velm"
ISOLATION = {"model": "per_user", "users": ["bob"], "agents": {"bob": "read_write"}}


async def dug(ana: Client, **more: Any) -> tuple[str, str]:
    """A session that taught something, and one whose answer rests on that."""
    taught = await ana.begun()
    source = {"kind": "user", "session": taught, "version": 1}
    kept = await ana.post("/v1/memory", {"content": GOLD, "source": source})
    assert kept.status == 201, kept
    session = await ana.begun(config={"model": "offline/echo", "memory": {}}, **more)
    told = await ana.post(f"/v1/sessions/{session}/messages", {"content": f"They say that {GOLD}"})
    assert told.status == 200, told
    return taught, session


async def test_an_answer_tells_what_it_rests_on() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        taught, session = await dug(ana)
        found = await ana.get(f"/v1/sessions/{session}/turns/1/memories")
        assert found.status == 200, found
        [ground] = found.json["grounds"]
        assert (ground["how"], ground["source"]["session"], ground["space"]) == ("words", taught, "vault/ana")
        assert found.json["shown"][0]["id"] == ground["memory_id"]
        assert (await ana.get(f"/v1/sessions/{session}/turns/2/memories")).status == 404
        assert (await ana.get(f"/v1/sessions/{session}/turns/x/memories")).status == 422


async def test_where_it_comes_from_is_told_only_to_those_who_may_read_it() -> None:
    async with world() as there:
        ana, bob = await there.principal("ana"), await there.principal("bob", Role.AGENT, Role.OWNER)
        eve = await there.principal("eve", Role.OWNER)
        taught, session = await dug(ana, isolation=ISOLATION)
        path = f"/v1/sessions/{session}/turns/1/memories"
        told = await bob.get(path)
        assert told.status == 200, told
        assert taught not in told.body.decode()
        assert told.json["grounds"][0]["checkpoint_id"] == ""
        assert (await eve.get(path)).status == 404
        hidden = Policy(fields=(FieldRule(path="vars.x", read=(Role.ADMIN,)),))
        await there.store.directory.set_policy("local", hidden, by=None)
        assert (await ana.get(path)).status == 403


# ── along with a session ──


async def test_a_session_goes_with_what_was_learnt_from_it() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        taught, _ = await dug(ana)
        plain = await ana.begun()
        assert (await ana.delete(f"/v1/sessions/{plain}")).json == {"session_id": plain, "branches": 0, "memories": 0}
        gone = await ana.delete(f"/v1/sessions/{taught}?memories=true")
        assert (gone.status, gone.json["memories"]) == (200, 1)
        assert (await ana.get("/v1/memory")).json["items"] == []


async def test_who_may_forget_nothing_takes_no_memories_along() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        taught, _ = await dug(ana)
        who = (await there.store.directory.principal("local", "ana")).id
        key = await there.store.directory.add_key("local", who, by=None, scopes=("*:session",))
        narrow = Client(there, key.spelled)
        refused = await narrow.delete(f"/v1/sessions/{taught}?memories=true")
        assert (refused.status, refused.json["fields"]["reason"]) == (403, "memory")
        assert len((await ana.get("/v1/memory")).json["items"]) == 1
        assert (await narrow.delete(f"/v1/sessions/{taught}")).status == 200
        assert len((await ana.get("/v1/memory")).json["items"]) == 1


async def test_an_erased_person_s_memories_are_counted() -> None:
    async with world() as there:
        ana, boss = await there.principal("ana"), await there.principal("boss", Role.ADMIN)
        await dug(ana)
        done = await boss.post("/v1/people/ana/erase")
        assert (done.status, done.json["report"]["memories"]) == (200, 1), done


# ── without a review ──


async def accepting(there: World) -> dict[str, Client]:
    made = {
        "ana": await there.principal("ana"),
        "bob": await there.principal("bob", Role.OWNER, Role.AGENT),
        "bot": await there.principal("bot", Role.OWNER, Role.AGENT, kind="agent", acting_for="ana"),
        "root": await there.principal("root", Role.ADMIN, Role.OWNER),
    }
    clade = {"name": "desk", "users": ["bob"], "agents": {"bob": "read_write", "bot": "read_write"}}
    assert (await made["ana"].post("/v1/memory/clades", clade)).status == 201
    return made


async def test_the_owner_of_a_space_says_what_needs_no_review() -> None:
    async with world() as there:
        clients = await accepting(there)
        body = {"clade": "desk", "auto": True}
        for who in ("bob", "bot", "root"):
            assert (await clients[who].put("/v1/memory/auto-accept", body)).status in (403, 404), who
        assert (await clients["ana"].get("/v1/memory/auto-accept?clade=desk")).json["auto"] is False
        said = await clients["ana"].put("/v1/memory/auto-accept", body)
        assert (said.status, said.json) == (200, {"space": "clade/desk", "auto": True})
        assert (await clients["bob"].get("/v1/memory/auto-accept?clade=desk")).json["auto"] is True
        assert (await clients["root"].get("/v1/memory/auto-accept?clade=desk")).status in (403, 404)


async def test_only_an_admin_says_so_for_everybody_s() -> None:
    async with world() as there:
        clients = await accepting(there)
        assert (await clients["ana"].put("/v1/memory/auto-accept", {"auto": True})).status == 403
        assert (await clients["root"].put("/v1/memory/auto-accept", {"auto": True})).status == 200
        assert (await clients["ana"].get("/v1/memory/auto-accept")).json == {"space": "lethe", "auto": True}
        kept = await clients["ana"].post("/v1/memory", {"content": "Never bet on Mondays: markets are thin."})
        evidence = ["seen on three Mondays", "told by the desk"]
        body = {"memory_id": kept.json["id"], "to": "lethe", "ttl": 3600, "evidence": evidence}
        made = await clients["ana"].post("/v1/memory/promote", body)
        assert (made.status, made.json["accepted"], made.json["reviewed_by"]) == (201, True, "gates"), made


async def test_only_an_admin_counts_what_comes_from_a_source() -> None:
    async with world() as there:
        clients = await accepting(there)
        taught, _ = await dug(clients["ana"])
        body = {"session": taught}
        assert (await clients["ana"].post("/v1/memory/sources/report", body)).status == 403
        told = await clients["root"].post("/v1/memory/sources/report", body)
        assert (told.status, told.json["memories"], told.json["spaces"]) == (200, 1, {"vault/ana": 1})
        assert "Velm" not in told.body.decode()
