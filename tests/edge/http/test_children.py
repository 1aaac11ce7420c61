"""Children over HTTP: spawned, listed, waited for, and nobody's but their parent's owner's."""

from perdure.core.access.roles import Role
from tests.edge.http.world import world


async def test_a_child_is_spawned_waited_for_and_listed() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        body = {"task": "Find a train", "context": "To Vienna", "max_tokens": 100, "return_format": "full"}
        child = await ana.post(f"/v1/sessions/{id}/spawn", body)
        assert (child.status, child.json["task"]) == (201, "Find a train")
        waited = await ana.post(f"/v1/sessions/{id}/children/wait")
        listed = await ana.get(f"/v1/sessions/{id}/children")
        assert waited.json == listed.json
        [found] = listed.json["items"]
        assert (found["session_id"], found["status"], found["error"]) == (child.json["session_id"], "finished", "")
        texts = [{"type": "text", "text": text} for text in ("To Vienna", "Find a train")]
        assert found["result"][0] == {"role": "user", "content": texts}
        made = (await ana.get(f"/v1/sessions/{found['session_id']}")).json
        assert (made["owner"], made["parent"], made["branch_kind"], made["phase"]) == ("ana", id, "child", "completed")
        assert made["isolation"]["model"] == "nested"


async def test_a_child_that_is_waited_for_comes_whole() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        key = {"idempotency-key": "once"}
        told = [await ana.post(f"/v1/sessions/{id}/spawn", {"task": "x", "wait": True}, headers=key) for _ in range(2)]
        assert [reply.status for reply in told] == [201, 201]
        assert told[0].json == told[1].json
        assert told[0].json["status"] == "finished"
        assert len((await ana.get(f"/v1/sessions/{id}/children")).json["items"]) == 1


async def test_a_child_can_neither_branch_nor_spawn() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        child = (await ana.post(f"/v1/sessions/{id}/spawn", {"task": "x", "wait": True})).json["session_id"]
        branched = await ana.post(f"/v1/sessions/{child}/branch", {})
        assert (branched.status, branched.json["code"]) == (409, "branch_refused")
        assert (await ana.post(f"/v1/sessions/{child}/spawn", {"task": "x"})).status == 409


async def test_children_are_hidden_from_strangers_and_from_agents_of_the_parent_s_task() -> None:
    async with world() as there:
        ana, ben = await there.principal("ana"), await there.principal("ben")
        helper = await there.principal("robot", Role.AGENT, acting_for="ana")
        id = await ana.begun(isolation={"model": "per_task", "task": "travel"})
        child = (await ana.post(f"/v1/sessions/{id}/spawn", {"task": "x", "wait": True})).json["session_id"]
        assert [(await someone.get(f"/v1/sessions/{child}")).status for someone in (ana, ben, helper)] == [
            200,
            404,
            404,
        ]
        for path, body in (("spawn", {"task": "x"}), ("children/wait", {})):
            assert (await ben.post(f"/v1/sessions/{id}/{path}", body)).status == 404
        assert (await ben.get(f"/v1/sessions/{id}/children")).status == 404


async def test_what_is_wrong_with_a_task_is_told() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"max_cost": 10})
        for body, status, code in (
            ({"task": ""}, 422, "invalid"),
            ({}, 422, "invalid"),
            ({"task": "x", "return_format": "half"}, 422, "invalid"),
            ({"task": "x", "tools": ["fly"]}, 422, "invalid"),
            ({"task": "x", "model": "nobody/knows"}, 404, "unknown_model"),
            ({"task": "x", "max_cost": 11}, 402, "budget_exhausted"),
        ):
            reply = await ana.post(f"/v1/sessions/{id}/spawn", body)
            assert (reply.status, reply.json["code"]) == (status, code), body
        missing = await ana.post(f"/v1/sessions/{id}/children/wait", {"children": ["nobody"], "timeout": 0})
        assert (missing.status, missing.json["code"]) == (404, "not_found")
        assert (await ana.get(f"/v1/sessions/{id}/children")).json["items"] == []
