"""What a policy hides shows nowhere, and what it closes to writing is written by no way round."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.core.session import commands as do
from perdure.core.session.ids import SessionId
from perdure.services.sessions import Outcome, Sessions
from tests.edge.http.attached import Follower, Socket, live
from tests.edge.http.world import Client, Reply, World, world

EXACT = {"accept": "application/vnd.perdure+json"}
OPERATIONS = {"content-type": "application/json-patch+json"}
ISOLATION = {"agents": {"agt": "read_write"}}


class Cast:
    """An owner, an agent whom her session lets in, and whoever lays down the policy."""

    def __init__(self, here: World, root: Client, ana: Client, agt: Client, session: str) -> None:
        self.here = here
        self.root = root
        self.ana = ana
        self.agt = agt
        self.session = session
        self.at = f"/v1/sessions/{session}"

    async def rule(self, *fields: dict[str, Any]) -> None:
        laid = await self.root.put("/v1/policies", {"fields": list(fields)})
        assert laid.status == 200, laid

    async def vars(self) -> Any:
        return (await self.ana.get(f"{self.at}/state")).json["vars"]

    async def operate(self, *operations: dict[str, Any], by: Client | None = None) -> Reply:
        raw = json.dumps(operations).encode()
        return await (by or self.agt).ask("PATCH", f"{self.at}/state", raw=raw, headers=OPERATIONS)


async def gathered(here: World, **body: Any) -> Cast:
    root = await here.principal("root", Role.ADMIN)
    ana = await here.principal("ana")
    agt = await here.principal("agt", Role.AGENT, kind="agent")
    facts = {
        "title": "Lisbon",
        "vars": {"salary": 5, "city": "L", "staff": [{"name": "Bo", "salary": 1}]},
        "metadata": {"x": 1},
        "isolation": ISOLATION,
    }
    return Cast(here, root, ana, agt, await ana.begun(**facts | body))


@asynccontextmanager
async def cast(**body: Any) -> AsyncIterator[Cast]:
    async with world() as here:
        yield await gathered(here, **body)


def hidden(path: str, *readers: str) -> dict[str, Any]:
    return {"path": path, "read": list(readers or ("owner",))}


def fixed(path: str, *writers: str) -> dict[str, Any]:
    return {"path": path, "write": list(writers)}


def words(text: str) -> dict[str, Any]:
    return {"events": [{"kind": "message", "data": {"role": "user", "content": text}}], "arrange": True}


def refused(reply: Reply) -> bool:
    return (reply.status, reply.json.get("code"), reply.json.get("fields", {}).get("reason")) == (
        403,
        "denied",
        "field",
    )


# ── patches ──


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/salary", "value": 5},
        {"op": "test", "path": "/salary", "value": 6},
        {"op": "test", "path": "", "value": {}},
        {"op": "copy", "from": "/salary", "path": "/mine"},
        {"op": "copy", "from": "", "path": "/mine"},
        {"op": "copy", "from": "/staff/0", "path": "/mine"},
        {"op": "copy", "from": "/staff/0/salary", "path": "/mine"},
        {"op": "move", "from": "/staff", "path": "/mine"},
        {"op": "move", "from": "/city", "path": "/salary"},
        {"op": "remove", "path": "/salary"},
        {"op": "replace", "path": "/salary", "value": 5},
        {"op": "add", "path": "/salary", "value": 5},
        {"op": "replace", "path": "", "value": {}},
    ],
)
async def test_no_operation_of_a_patch_tells_of_a_hidden_field(operation: dict[str, Any]) -> None:
    async with cast() as there:
        before = await there.vars()
        await there.rule(hidden("vars.salary"), hidden("vars.staff.salary"))
        assert refused(await there.operate(operation))
        assert await there.vars() == before


async def test_operations_beside_what_is_hidden_are_carried_out() -> None:
    async with cast() as there:
        await there.rule(hidden("vars.salary"))
        copied = await there.operate(
            {"op": "test", "path": "/city", "value": "L"}, {"op": "copy", "from": "/city", "path": "/town"}
        )
        assert copied.status == 200, copied
        assert (await there.vars())["town"] == "L"


@pytest.mark.parametrize("guess", [5, 6])
async def test_a_hidden_value_cannot_be_guessed_by_writing_it(guess: int) -> None:
    async with cast(vars={"salary": 5}, metadata={"pay": 5}) as there:
        await there.rule(hidden("vars.salary"), hidden("metadata.pay", "admin"), hidden("title", "admin"))
        assert refused(await there.agt.patch(f"{there.at}/state", {"salary": guess}))
        assert refused(await there.agt.put(f"{there.at}/state", {"vars": {"salary": guess}}))
        assert refused(await there.agt.post(f"{there.at}/events", words("x") | {"vars": {"salary": guess}}))
        assert refused(await there.ana.patch(there.at, {"metadata": {"pay": guess}}))


async def test_a_patch_has_so_many_operations_and_no_more() -> None:
    async with cast(vars={"a": []}) as there:
        add = {"op": "add", "path": "/a/-", "value": 1}
        assert (await there.operate(*[add] * 1000, by=there.ana)).status == 200
        more = await there.operate(*[add] * 1001, by=there.ana)
        assert (more.status, more.json["fields"]["limit"]) == (413, 1000)


# ── what was said ──


@pytest.mark.parametrize("path", ["turns", "conversation", "turns.content"])
async def test_what_was_said_shows_nowhere_when_turns_are_hidden(path: str) -> None:
    async with cast() as there:
        assert (await there.ana.post(f"{there.at}/events", words("SECRET"))).status == 201
        said = [
            {"kind": "tool_asked", "data": {"call": "c", "name": "SECRET", "arguments": {"q": "SECRET"}}},
            {"kind": "tool_started", "data": {"call": "c"}},
            {"kind": "tool_finished", "data": {"call": "c", "result": "SECRET"}},
            {"kind": "turn_finished", "data": {"content": "SECRET"}},
        ]
        assert (await there.ana.post(f"{there.at}/events", {"events": said})).status == 201
        others = [
            {"kind": "room_message", "data": {"sender": "a", "text": "SECRET"}},
            {"kind": "steered", "data": {"text": "SECRET"}},
            {"kind": "noted", "data": {"by": "x", "about": "y", "data": "SECRET"}},
            {"kind": "compacted", "data": {"upto": 1, "summary": "SECRET"}},
            {"kind": "feedback", "data": {"comment": "SECRET"}},
            {"kind": "delegation", "data": {"id": "d", "to": "b", "task": "SECRET"}},
            {"kind": "retrieval", "data": {"id": "r", "query": "SECRET", "keep": True, "results": ["SECRET"]}},
        ]
        written = await there.ana.post(f"{there.at}/events", {"events": others})
        assert written.status == 201, written
        assert b"SECRET" in (await there.agt.get(f"{there.at}/events")).body
        await there.rule(hidden(path))
        for part in ("/turns", "/conversation", "/events", "/state", ""):
            for headers in ({}, EXACT):
                shown = await there.agt.get(there.at + part, headers=headers)
                assert b"SECRET" not in shown.body, (part, headers, shown.body)
        assert b"SECRET" in (await there.ana.get(f"{there.at}/turns")).body
        echoed = await there.agt.post(f"{there.at}/events", {"events": others[:2], "echo": True})
        assert echoed.status == 201
        assert b"SECRET" not in echoed.body


async def test_what_was_said_is_not_streamed_when_turns_are_hidden() -> None:
    async with live() as (here, _):
        there = await gathered(here)
        last = (await there.ana.post(f"{there.at}/events", words("SECRET"))).json["version"]
        await there.rule(hidden("turns"))
        for exact in ({}, {"accept": "text/event-stream, application/vnd.perdure+json"}):
            follower = Follower(there.agt, f"{there.at}/events", exact)
            await follower.upto(last)
            assert b"SECRET" not in b"".join(follower.pieces)
            await follower.hang_up()
        for exact in ("", "&exact=true"):
            socket = Socket(there.agt, f"{there.at}/attach?surface=web&name=x&after=0{exact}")
            await socket.hears("event", last)
            assert "SECRET" not in json.dumps(socket.messages)
            await socket.hang_up()


# ── waking, scratchpads ──


async def test_waking_does_not_show_what_is_hidden() -> None:
    async with cast(vars={"salary": 424242}) as there:
        await there.ana.patch(f"{there.at}/scratchpad", {"content": "SECRET"})
        await there.rule(hidden("vars.salary", "admin"), hidden("scratchpad", "admin"))
        assert (await there.ana.post(f"{there.at}/transitions", {"event": "suspend"})).status == 200
        woken = await there.ana.post(f"{there.at}/resume", {})
        assert (woken.status, woken.json["phase"]) == (200, "active")
        assert b"SECRET" not in woken.body
        assert b"424242" not in woken.body


async def test_one_agents_scratchpad_is_hidden_by_its_name() -> None:
    async with cast() as there:
        await there.ana.patch(f"{there.at}/scratchpad", {"content": "SECRET", "agent": "planner"})
        await there.ana.patch(f"{there.at}/scratchpad", {"content": "OPEN"})
        await there.rule(hidden("scratchpad.planner"))
        assert (await there.agt.get(f"{there.at}/scratchpad?agent=planner")).json["content"] == ""
        assert (await there.agt.get(f"{there.at}/scratchpad")).json["content"] == "OPEN"
        assert (await there.ana.get(f"{there.at}/scratchpad?agent=planner")).json["content"] == "SECRET"


# ── what may not be written ──


async def test_a_scratchpad_that_is_closed_is_written_by_no_way() -> None:
    async with cast() as there:
        at = f"{there.at}/scratchpad"
        await there.rule(fixed("scratchpad.planner", "admin"))
        assert refused(await there.agt.patch(at, {"content": "x", "agent": "planner"}))
        assert (await there.agt.patch(at, {"content": "x"})).status == 200
        assert (await there.agt.patch(at, {"content": "x", "agent": "critic"})).status == 200
        wrote = {"kind": "scratchpad_written", "data": {"content": "x"}}
        assert refused(await there.agt.post(f"{there.at}/events", {"events": [wrote | {"agent": "planner"}]}))
        assert (await there.agt.post(f"{there.at}/events", {"events": [wrote]})).status == 201
        for path in ("scratchpad", "scratchpad.*"):
            await there.rule(fixed(path, "admin"))
            assert refused(await there.agt.patch(at, {"content": "y"})), path
            assert refused(await there.agt.post(f"{there.at}/events", {"events": [wrote]})), path


async def test_title_tags_metadata_and_configuration_have_their_writers() -> None:
    rules = [fixed("title"), fixed("tags"), fixed("metadata.x"), fixed("config.max_cost")]
    async with cast() as there:
        await there.rule(*rules)
        closed: tuple[dict[str, Any], ...] = (
            {"title": "mine"},
            {"tags": ["mine"]},
            {"metadata": {"x": 2}},
            {"metadata": {}},
            {"config": {"max_cost": 9}},
            {"config": {"max_cost_usdc": 9}},
        )
        for change in closed:
            assert refused(await there.ana.patch(there.at, change)), change
        for change in ({"title": "mine"}, {"metadata": {"x": 2}}):
            assert refused(await there.ana.post(f"{there.at}/events", words("x") | change)), change
        open: dict[str, Any] = {"metadata": {"x": 1, "y": 2}, "config": {"model": "large"}}
        assert (await there.ana.patch(there.at, open)).status == 200
        assert (await there.ana.post(f"{there.at}/events", words("x") | {"metadata": {"x": 1}})).status == 201
        for way in ("branch", "rewind"):
            assert refused(await there.ana.post(f"{there.at}/{way}", {"title": "mine"})), way
        assert refused(await there.ana.post(f"{there.at}/edit", {"turn": 1, "content": "y", "title": "mine"}))
        assert refused(await there.ana.post(f"{there.at}/branch", {"config": {"max_cost": 9}}))
        assert (await there.ana.post(f"{there.at}/branch", {})).status == 201


async def test_a_session_begins_without_what_its_owner_may_not_write() -> None:
    async with cast() as there:
        await there.rule(fixed("title"), fixed("vars.salary"), fixed("metadata.x"), fixed("config.max_cost"))
        for body in (
            {"title": "x"},
            {"vars": {"salary": 1}},
            {"metadata": {"x": 1}},
            {"config": {"max_cost": 1}},
        ):
            assert refused(await there.ana.post("/v1/sessions", body)), body
        await there.ana.begun(vars={"city": "P"}, metadata={"y": 1}, config={"model": "large"})


async def test_an_append_does_not_write_closed_fields_of_other_sessions() -> None:
    async with cast() as there:
        mine = await there.ana.begun(isolation=ISOLATION)
        await there.rule(fixed("vars.salary", "owner"))
        at = f"/v1/sessions/{mine}/events"
        assert refused(await there.agt.post(at, words("x") | {"others": {there.session: {"salary": 6}}}))
        assert (await there.agt.post(at, words("x") | {"others": {there.session: {"city": "P"}}})).status == 201
        assert {name: (await there.vars())[name] for name in ("salary", "city")} == {"salary": 5, "city": "P"}


async def test_neither_a_merge_nor_settling_one_writes_closed_fields() -> None:
    async with cast(vars={"salary": 5, "city": "L"}) as there:
        branch = (await there.ana.post(f"{there.at}/branch", {})).json["session_id"]
        await there.ana.patch(f"/v1/sessions/{branch}/state", {"salary": 6, "city": "B"})
        await there.ana.patch(f"{there.at}/state", {"salary": 7})
        merging = {"source": branch, "policy": "escalate"}
        await there.rule(fixed("vars.salary", "owner"))
        assert refused(await there.agt.post(f"{there.at}/merge", merging | {"policy": "theirs"}))
        found = (await there.ana.post(f"{there.at}/merge", merging)).json
        settle = f"{there.at}/conflicts/{found['conflict_id']}/resolve"
        assert refused(await there.agt.post(settle, {"choices": {"vars.salary": "theirs"}}))
        assert (await there.vars())["salary"] == 7
        assert (await there.ana.post(settle, {"choices": {"vars.salary": "theirs"}})).status == 200
        assert (await there.vars())["salary"] == 6


@pytest.mark.parametrize("way", ["put", "append"])
async def test_what_is_written_is_what_was_checked(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cast(vars={"salary": 0, "n": 0}) as there:
        await there.rule(fixed("vars.salary", "owner"))
        handle, raises = Sessions.handle, [1]

        async def overtaken(self: Sessions, session: SessionId, command: do.Command, **more: Any) -> Outcome:
            if raises:  # between the check of the agent's write and the write
                salary = raises.pop()
                assert (await there.ana.patch(f"{there.at}/state", {"salary": salary})).status == 200
            return await handle(self, session, command, **more)

        stale = {"vars": {"salary": 0, "n": 1}}
        monkeypatch.setattr(Sessions, "handle", overtaken)
        if way == "put":
            late = await there.agt.put(f"{there.at}/state", stale)
        else:
            late = await there.agt.post(f"{there.at}/events", words("x") | stale)
        assert not raises
        assert refused(late)
        assert await there.vars() == {"salary": 1, "n": 0}


async def test_a_version_that_is_yet_to_come_is_not_written_to() -> None:
    async with cast() as there:
        await there.rule(fixed("vars.salary", "owner"))
        version = (await there.ana.get(there.at)).json["version"]
        early = await there.agt.patch(f"{there.at}/state", {"city": "P"}, headers={"if-match": f'"{version + 1}"'})
        assert (early.status, early.json["fields"]["found"]) == (409, version)


# ── finding ──


@pytest.mark.parametrize(
    ("path", "conditions"),
    [
        ("title", {"text": "Lisbon"}),
        ("turns", {"text": "Lisbon"}),
        ("conversation", {"text": "Lisbon"}),
        ("metadata.a.b", {"metadata": {"a": {"b": 5}}}),
        ("metadata.a\\.b", {"metadata": {"a.b": 5}}),
        ("metadata", {"metadata": {"a": 5}}),
    ],
)
async def test_nothing_is_found_by_what_is_hidden(path: str, conditions: dict[str, Any]) -> None:
    async with cast(metadata={"a": {"b": 5}, "a.b": 5}) as there:
        assert (await there.ana.post("/v1/sessions/count", conditions)).status == 200
        await there.rule(hidden(path, "admin"))
        assert refused(await there.ana.post("/v1/sessions/count", conditions))
        beside = {"tag": ["x"]}
        assert (await there.ana.post("/v1/sessions/count", beside)).status == 200


# ── the same request again ──


async def test_a_change_of_state_under_a_key_is_made_once_whatever_came_after() -> None:
    async with cast(vars={"list": []}) as there:
        at, key = f"{there.at}/state", {"idempotency-key": "k1"}
        raw = json.dumps([{"op": "add", "path": "/list/-", "value": 1}]).encode()
        first = await there.ana.ask("PATCH", at, raw=raw, headers=OPERATIONS | key)
        assert (await there.ana.patch(at, {"other": 1})).status == 200
        again = await there.ana.ask("PATCH", at, raw=raw, headers=OPERATIONS | key)
        assert (again.status, again.json) == (200, first.json)
        assert (await there.vars())["list"] == [1]
        another = await there.ana.patch(at, {"other": 2}, headers=key)
        assert (another.status, another.json["code"]) == (422, "key_reused")
        put = {"vars": {"a": 1}}
        whole = await there.ana.put(at, put, headers={"idempotency-key": "k2"})
        await there.ana.patch(at, {"salary": 2})
        assert (await there.ana.put(at, put, headers={"idempotency-key": "k2"})).json == whole.json
        assert (await there.vars())["salary"] == 2
