"""Turns over HTTP: said, streamed, rejoined, steered, approved; every refusal a problem, and nothing for outsiders."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from perdure.core.access.roles import Role
from tests.edge.http.world import Client, Reply, World, world


def events(reply: Reply) -> list[tuple[str, str, Any]]:
    """The server-sent events of an answer: id, event, data."""
    found = []
    for frame in reply.body.decode().strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines())
        found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


async def asked(there: World, **body: Any) -> tuple[Client, str, Reply]:
    """Somebody, a session of theirs, and what came of saying something."""
    ana = await there.principal("ana")
    session = await ana.begun()
    return ana, session, await ana.post(f"/v1/sessions/{session}/messages", {"content": "Hello", **body})


async def test_saying_something_is_answered_and_is_in_the_log() -> None:
    async with world() as there:
        ana, session, reply = await asked(there, agent="ann", strategy="polite")
        assert reply.status == 200, reply
        found = reply.json
        assert (found["status"], found["turn"], found["rounds"], found["model"]) == ("finished", 1, 1, "offline")
        assert "Hello" in found["text"]
        assert reply.headers["etag"] == f'"{found["version"]}"'
        turns = (await ana.get(f"/v1/sessions/{session}/turns")).json
        assert [item["number"] for item in turns["items"]] == [1]
        assert (await ana.get(f"/v1/sessions/{session}/turns/1")).json == found


async def test_the_same_key_is_answered_once() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        path, headers = f"/v1/sessions/{session}/messages", {"idempotency-key": "k1"}
        first = await ana.post(path, {"content": "Hello"}, headers=headers)
        again = await ana.post(path, {"content": "Hello"}, headers=headers)
        assert first.json == again.json
        assert (await ana.post(path, {"content": "Else"}, headers=headers)).json["code"] == "key_reused"


async def test_a_stream_has_ids_and_is_rejoined_from_any_of_them() -> None:
    async with world() as there:
        ana, session, reply = await asked(there, stream=True)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.headers["perdure-turn"] == "1"
        told = events(reply)
        assert [kind for _, kind, _ in told if kind != "piece"] == ["turn_began", "turn_ended"]
        said = "".join(data["piece"].get("text", "") for _, kind, data in told if kind == "piece")
        assert said == told[-1][2]["outcome"]["content"][0]["text"]
        assert told[-1][2]["outcome"] == (await ana.get(f"/v1/sessions/{session}/turns/1")).json
        path = f"/v1/sessions/{session}/turns/1/stream"
        rejoined = events(await ana.get(path, headers={"last-event-id": told[3][0]}))
        assert rejoined[-1][1] == "turn_ended"
        assert rejoined[-1][2]["outcome"]["version"] == told[-1][2]["outcome"]["version"]
        assert (await ana.get(path, headers={"last-event-id": "2:0"})).json["code"] == "invalid"
        assert (await ana.get(path, headers={"last-event-id": "x"})).json["code"] == "invalid"
        assert (await ana.get(f"/v1/sessions/{session}/turns/9/stream")).status == 404
        assert (await ana.get(f"/v1/sessions/{session}/turns/nine")).status == 422


async def test_a_running_stream_is_rejoined_where_it_was_left() -> None:
    async with world() as there:
        gate, ana = asyncio.Event(), await there.principal("ana")
        session = await ana.begun()

        async def wait() -> str:
            await gate.wait()
            return "done"

        there.store.common.tooling.register("wait", wait)
        path = f"/v1/sessions/{session}"
        whole = asyncio.create_task(ana.post(f"{path}/messages", {"content": "call wait {}", "stream": True}))
        while there.store.services("local").talking.runners.all() == ():  # noqa: ASYNC110 - until it runs
            await asyncio.sleep(0)
        half = asyncio.create_task(ana.get(f"{path}/turns/1/stream?after=10"))
        await asyncio.sleep(0)
        gate.set()
        assert events(await half) == events(await whole)[1:] or events(await half) == events(await whole)


async def test_tools_of_the_caller_and_their_results() -> None:
    async with world() as there:
        tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
        ana, session, reply = await asked(there, content='call look {"at": "x"}', tools=tools)
        assert reply.json["status"] == "tools"
        (call,) = reply.json["waiting"]
        assert (call["name"], call["arguments"], call["approval"]) == ("look", {"at": "x"}, False)
        path = f"/v1/sessions/{session}/messages"
        refused = await ana.post(path, {"content": "Something else"})
        assert (refused.status, refused.json["code"]) == (409, "turn_refused")
        done = await ana.post(path, {"results": [{"id": call["id"], "content": "a cat"}], "tools": tools})
        assert done.json["status"] == "finished"
        assert "a cat" in done.json["text"]


async def test_a_call_that_needs_a_person_is_not_for_agents_to_allow() -> None:
    async with world() as there:
        ran: list[int] = []

        async def pay(amount: int) -> str:
            ran.append(amount)
            return "paid"

        there.store.common.tooling.register("pay", pay, approval=True)
        ana, session, reply = await asked(there, content='call pay {"amount": 5}')
        assert reply.json["status"] == "parked"
        path = f"/v1/sessions/{session}/approvals"
        (waiting,) = (await ana.get(path)).json["waiting"]
        robot = await there.principal("robot", Role.OWNER, Role.ADMIN, kind="agent")
        denied = await robot.post(f"{path}/{waiting['id']}", {"allowed": True})
        assert denied.status in (403, 404)
        assert (await ana.post(f"{path}/nothing", {"allowed": True})).json["code"] == "turn_refused"
        body, key = {"allowed": True, "note": "fine"}, {"idempotency-key": "once"}
        for _ in range(2):  # again, under the same key, it is only told
            allowed = await ana.post(f"{path}/{waiting['id']}", body, headers=key)
            assert allowed.status == 200, allowed
        for _ in range(200):
            found = (await ana.get(f"/v1/sessions/{session}/turns/1")).json
            if found["status"] == "finished":
                break
            await asyncio.sleep(0.02)
        assert (found["status"], ran) == ("finished", [5])
        assert (await ana.get(path)).json["waiting"] == []


async def test_steers_follow_ups_and_the_context() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        session = await ana.begun(config={"model": "offline/x", "system_prompt": "Be brief."})
        path = f"/v1/sessions/{session}"
        assert (await ana.post(f"{path}/follow-up", {"text": "Mind the cost"})).status == 200
        assert (await ana.post(f"{path}/steer", {"text": "Take the train"})).status == 200
        await ana.patch(f"{path}/scratchpad", {"content": "a plan"})
        view = (await ana.get(f"{path}/context?content=How%3F")).json
        assert [part["name"] for part in view["parts"]] == ["template", "user message", "follow-ups", "scratchpad"]
        assert all(part["why"] and part["tokens"] > 0 for part in view["parts"])
        texts = [block["text"] for block in view["messages"][-1]["content"]]
        assert texts == [
            "<steer>\nTake the train\n</steer>",
            "How?",
            "<follow_up>\nMind the cost\n</follow_up>",
            "<working_memory>\na plan\n</working_memory>",
        ]
        assert (await ana.post(f"{path}/interrupt")).json["interrupted"] is False


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"content": "x", "model": "nobody/else"}, 404, "unknown_model"),
        ({"content": "x", "max_tokens": 0}, 422, "invalid"),
        ({"content": "x", "max_tokens": 10**9}, 422, "prompt_too_long"),
        ({"content": "x", "temperature": 9}, 422, "invalid"),
        ({"content": "x", "busy": "whatever"}, 422, "invalid"),
        ({"content": "x", "unknown": 1}, 422, "invalid"),
        ({"content": [{"type": "tool_result", "tool_use_id": "a"}]}, 422, "invalid"),
        ({"results": [{"id": "nothing"}]}, 409, "turn_refused"),
    ],
)
async def test_what_is_wrong_is_told_and_nothing_is_written(body: Any, status: int, code: str) -> None:
    async with world() as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        before = (await ana.get(f"/v1/sessions/{session}")).json["version"]
        reply = await ana.post(f"/v1/sessions/{session}/messages", body)
        assert (reply.status, reply.json["code"]) == (status, code), reply
        assert (await ana.get(f"/v1/sessions/{session}")).json["version"] == before


async def test_nobody_else_talks_here() -> None:
    async with world() as there:
        ana, session, _ = await asked(there)
        bob, viewer = await there.principal("bob"), await there.principal("eve", Role.VIEWER)
        path = f"/v1/sessions/{session}"
        for method, target, body in (
            ("POST", "messages", {"content": "x"}),
            ("POST", "steer", {"text": "x"}),
            ("POST", "interrupt", {}),
            ("POST", "approvals/x", {"allowed": True}),
            ("GET", "turns/1", None),
            ("GET", "turns/1/stream", None),
            ("GET", "context", None),
        ):
            assert (await bob.ask(method, f"{path}/{target}", body)).status == 404
            assert (await Client(there).ask(method, f"{path}/{target}", body)).status == 401
            if method == "POST":
                assert (await viewer.ask(method, f"{path}/{target}", body)).status in (403, 404)
        assert (await ana.get(f"{path}/turns/1")).status == 200


async def test_the_cache_is_told_of_and_forgotten_by_admins_of_the_tenant() -> None:
    async with world() as there:
        boss = await there.principal("boss", Role.ADMIN, Role.OWNER)
        one, two = await boss.begun(), await boss.begun()
        body = {"content": "What is it?", "cache": "exact"}
        assert (await boss.post(f"/v1/sessions/{one}/messages", body)).json["cached"] == ""
        assert (await boss.post(f"/v1/sessions/{two}/messages", body)).json["cached"] == "exact"
        found = (await boss.get("/v1/cache")).json
        assert (found["exact"], found["entries"]) == (1, 1)
        ana = await there.principal("ana")
        assert (await ana.delete("/v1/cache")).status == 403
        other = await there.principal("rival", Role.ADMIN, tenant="rival")
        assert (await other.delete("/v1/cache")).json == {"forgotten": 0}
        assert (await boss.delete("/v1/cache")).json == {"forgotten": 1}


async def test_what_was_erased_on_another_node_is_given_to_nobody_here(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    async with world(path) as here, world(path) as there:
        ana = await here.principal("ana", Role.ADMIN, Role.OWNER)
        one, two = await ana.begun(), await ana.begun()
        body = {"content": "the secret", "cache": "exact"}
        await ana.post(f"/v1/sessions/{one}/messages", body)
        assert (await Client(there, ana.credential).delete(f"/v1/sessions/{one}")).status in (200, 204)
        assert (await ana.post(f"/v1/sessions/{two}/messages", body)).json["cached"] == ""


async def test_without_words_there_must_be_something_to_go_on_with() -> None:
    async with world() as there:
        ana, session, _ = await asked(there)
        reply = await ana.post(f"/v1/sessions/{session}/messages", {})
        assert (reply.status, reply.json["code"]) == (409, "turn_refused")
        assert "say something" in reply.json["detail"]


async def test_a_picture_in_a_blob_is_said_by_its_uri_and_reaches_the_model() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        session = await ana.begun()
        put = await ana.post("/v1/blobs", raw=b"\x89PNG", headers={"content-type": "image/png"})
        assert put.status in (200, 201), put
        source = {"uri": put.json["uri"], "sha256": put.json["sha256"]}
        content = ["What is it?", {"type": "image", "source": source}]
        assert (await ana.post(f"/v1/sessions/{session}/messages", {"content": content})).status == 200
        shown = (await ana.get(f"/v1/sessions/{session}/context")).json
        assert '"data":"iVBORw=="' in json.dumps(shown, separators=(",", ":"))
        assert '"media_type":"image/png"' in json.dumps(shown, separators=(",", ":"))


@pytest.mark.parametrize("content", [5, [{"type": "hologram"}]])
async def test_what_is_no_content_is_refused_with_the_kinds_there_are(content: Any) -> None:
    async with world() as there:
        ana = await there.principal("ana")
        reply = await ana.post(f"/v1/sessions/{await ana.begun()}/messages", {"content": content})
        assert (reply.status, reply.json["code"]) == (422, "invalid")
        assert "image, document" in reply.json["detail"]
