"""What a policy hides stays hidden from who talks to a model that is told it, and names nobody may take."""

import pytest

from perdure.core.access.roles import Role
from tests.edge.http.gatehouse import gatehouse, say, user
from tests.edge.http.test_field_policies import gathered, hidden


@pytest.mark.parametrize("path", ["scratchpad", "config", "conversation"])
async def test_nobody_has_a_model_tell_what_is_hidden_from_them(path: str) -> None:
    async with gatehouse() as (here, _):
        there = await gathered(here, config={"model": "a/echo"})
        await there.ana.patch(f"{there.at}/scratchpad", {"content": "SECRET"})
        assert (await there.root.put("/v1/policies", {"fields": [hidden(path)]})).status == 200
        sent = await there.agt.post(f"{there.at}/messages", {"content": "what is on the pad?"})
        managed = await say(
            there.agt, "anthropic", "a/echo", [user("hi")], there.session, headers={"perdure-mode": "manage"}
        )
        assert (sent.status, managed.status) == (403, 403)
        assert b"SECRET" not in sent.body + managed.body
        assert (await there.ana.post(f"{there.at}/messages", {"content": "hi"})).status == 200


async def test_answering_for_a_tool_tells_no_hidden_words() -> None:
    async with gatehouse() as (here, _):
        root, ana = await here.principal("root", Role.ADMIN), await here.principal("ana")
        clerk = await here.principal("clerk", Role.AGENT, kind="person")

        def pay(amount: int) -> str:
            return f"paid {amount}"

        here.store.common.tooling.register("pay", pay, approval=True)
        session = await ana.begun(isolation={"agents": {"clerk": "read_write"}})
        body = {"content": '{"amount": 5, "note": "SECRET"}', "model": "a/tool:pay"}
        parked = await ana.post(f"/v1/sessions/{session}/messages", body)
        call = parked.json["waiting"][0]["id"]
        await root.put("/v1/policies", {"fields": [{"path": "conversation", "read": ["owner"]}]})
        answered = await clerk.post(f"/v1/sessions/{session}/approvals/{call}", {"allowed": False})
        assert (answered.status, b"SECRET" in answered.body) == (403, False)


async def test_nobody_takes_anothers_ledger() -> None:
    async with gatehouse() as (here, _):
        ana, bob = await here.principal("ana"), await here.principal("bob")
        owner = next(item for item in (await here.store.directory.book()).principals.values() if item.name == "ana")
        taken = await say(bob, "anthropic", "a/echo", [user("hi")], f"gateway:{owner.id}")
        assert taken.status == 404
        assert (await bob.post("/v1/sessions", {"name": f"gateway:{owner.id}"})).status == 403
        assert (await say(ana, "anthropic", "a/echo", [user("hi")])).status == 200
