"""The budget over HTTP: limits of tokens and rounds, corrections, and what a session cost."""

from perdure.core.access.roles import Role
from tests.edge.http.world import world


async def test_tokens_and_rounds_are_limits_of_the_same_kind() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"max_tokens": 100, "max_rounds": 2})
        path = f"/v1/sessions/{id}/reserve"
        assert (await ana.post(path, {"name": "a", "amount": 5, "tokens": 80, "rounds": 1})).status == 200
        refused = await ana.post(path, {"name": "b", "amount": 5, "tokens": 21})
        assert (refused.status, refused.json["code"]) == (402, "limit_reached")
        assert refused.json["fields"] | {"limit": "tokens", "left": 20, "asked": 21} == refused.json["fields"]
        assert (await ana.post(path, {"name": "b", "amount": 5, "tokens": 20, "rounds": 2})).status == 402
        body = {"name": "a", "cost": 5, "tokens": 30, "rounds": 1}
        assert (await ana.post(f"/v1/sessions/{id}/settle", body)).status == 200
        assert (await ana.post(path, {"name": "b", "amount": 5, "tokens": 70, "rounds": 1})).status == 200


async def test_a_cost_that_was_estimated_is_corrected_once() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"max_cost": 100})
        await ana.post(f"/v1/sessions/{id}/reserve", {"name": "a", "amount": 80})
        await ana.post(f"/v1/sessions/{id}/settle", {"name": "a", "cost": 80, "estimated": True})
        assert (await ana.get(f"/v1/sessions/{id}/costs")).json["estimated"] == 80
        key = {"idempotency-key": "late"}
        told = [await ana.post(f"/v1/sessions/{id}/correct", {"name": "a", "cost": 30}, headers=key) for _ in range(2)]
        assert [reply.status for reply in told] == [200, 200]
        assert told[0].json == told[1].json
        assert (await ana.get(f"/v1/sessions/{id}/account")).json["spent"] == 30
        again = await ana.post(f"/v1/sessions/{id}/correct", {"name": "a", "cost": 20})
        assert (again.status, again.json["code"]) == (404, "not_found")


async def test_costs_are_told_with_the_caps_of_the_whole_tree() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"max_cost": 100, "max_rounds": 5})
        branch = (await ana.post(f"/v1/sessions/{id}/branch", {})).json["session_id"]
        await ana.post(f"/v1/sessions/{id}/reserve", {"name": "a", "amount": 40, "tokens": 9, "rounds": 1})
        await ana.post(f"/v1/sessions/{branch}/reserve", {"name": "a", "amount": 20, "rounds": 2})
        await ana.post(f"/v1/sessions/{id}/settle", {"name": "a", "cost": 30, "tokens": 7, "rounds": 1})
        assert (await ana.get(f"/v1/sessions/{id}/costs")).json == {
            "spent": 30,
            "reserved": 0,
            "estimated": 0,
            "overrun": 0,
            "tokens": 7,
            "held_tokens": 0,
            "rounds": 1,
            "held_rounds": 0,
            "asked": 0,
            "tokens_in": 0,
            "tokens_out": 0,
            "cache_read": 0,
            "by_model": {},
            "by_agent": {},
            "by_strategy": {},
            "limits": {
                "cost": {"cap": 100, "spent": 30, "reserved": 20, "paused": False, "left": 50},
                "rounds": {"cap": 5, "spent": 1, "reserved": 2, "paused": False, "left": 2},
            },
        }


async def test_who_may_not_write_the_budget_may_not_correct_it() -> None:
    async with world() as there:
        ana, viewer = await there.principal("ana"), await there.principal("vic", Role.VIEWER)
        id = await ana.begun()
        assert (await viewer.post(f"/v1/sessions/{id}/correct", {"name": "a", "cost": 1})).status in (403, 404)
