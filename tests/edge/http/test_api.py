"""The API, endpoint by endpoint, as a client without perdure's library meets it."""

import json
from typing import Any

import pytest

from perdure.core.access.roles import Role
from tests.edge.http.world import world


async def test_a_session_is_made_with_the_body_other_clients_send() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        body = {
            "agent_id": 7,
            "config": {
                "model": "auto",
                "system_prompt": "Be brief.",
                "template": {"name": "trip", "version": "2", "params": {"city": "Lisbon"}},
                "max_cost_usdc": 0.29,
            },
        }
        made = await ana.post("/v1/sessions", body)
        assert made.status == 201, made
        assert made.headers["location"] == f"/v1/sessions/{made.json['session_id']}"
        found = (await ana.get(made.headers["location"])).json
        assert found == made.json
        assert (found["agent_id"], found["model"], found["owner"]) == ("7", "auto", "ana")
        assert found["config"]["max_cost"] == 290_000
        assert (found["max_cost_usd"], found["total_cost_usd"], found["compaction_count"]) == (0.29, 0.0, 0)
        assert (found["checkpoints"], found["sub_agents"], found["scratchpad"]["content"]) == ([], [], "")


async def test_the_same_idempotency_key_makes_one_session_and_another_body_is_refused() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        headers = {"idempotency-key": "first"}
        one = await ana.post("/v1/sessions", {"title": "a"}, headers=headers)
        two = await ana.post("/v1/sessions", {"title": "a"}, headers=headers)
        other = await ana.post("/v1/sessions", {"title": "b"}, headers=headers)
        assert one.json["session_id"] == two.json["session_id"]
        assert (other.status, other.json["code"]) == (422, "key_reused")
        assert (await ana.post("/v1/sessions/count")).json == {"count": 1}


async def test_events_are_appended_once_per_key_and_read_by_pages() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        for text in ("one", "two", "three"):
            events = [{"kind": "message", "data": {"role": "user", "content": text}}]
            for _ in range(2):
                reply = await ana.post(
                    f"/v1/sessions/{id}/events", {"events": events}, headers={"idempotency-key": text}
                )
                assert reply.status == 201, reply
        assert reply.json["version"] == 5
        assert reply.headers["etag"] == '"5"'
        page = (await ana.get(f"/v1/sessions/{id}/events?limit=3")).json
        rest = (await ana.get(f"/v1/sessions/{id}/events?after={page['after']}")).json
        assert [event["version"] for event in page["items"] + rest["items"]] == [1, 2, 3, 4, 5]
        assert rest["after"] is None
        last = (await ana.get(f"/v1/sessions/{id}/events?last=2")).json["items"]
        assert [event["data"]["content"] for event in last] == ["two", "three"]


async def test_a_stale_if_match_is_a_conflict_that_names_the_version() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        events = {"events": [{"kind": "message", "data": {"role": "user", "content": "x"}}]}
        stale = await ana.post(f"/v1/sessions/{id}/events", events, headers={"if-match": '"1"'})
        assert (stale.status, stale.json["code"], stale.json["fields"]["found"]) == (409, "version_conflict", 2)
        assert (await ana.post(f"/v1/sessions/{id}/events", events, headers={"if-match": '"2"'})).status == 201
        odd = await ana.post(f"/v1/sessions/{id}/events", events, headers={"if-match": "yesterday"})
        assert (odd.status, odd.json["code"]) == (422, "invalid")


async def test_an_etag_saves_reading_again() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        first = await ana.get(f"/v1/sessions/{id}")
        again = await ana.get(f"/v1/sessions/{id}", headers={"if-none-match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


async def test_vars_are_changed_by_both_kinds_of_patch_and_compared() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(vars={"city": "Lisbon", "nights": [1, 2]})
        merge = await ana.patch(f"/v1/sessions/{id}/state", {"city": "Porto", "nights": None})
        assert merge.status == 200, merge
        operations = [{"op": "add", "path": "/days", "value": [3]}, {"op": "test", "path": "/city", "value": "Porto"}]
        media = {"content-type": "application/json-patch+json"}
        patch = await ana.patch(f"/v1/sessions/{id}/state", operations, headers=media)
        assert patch.status == 200, patch
        state = (await ana.get(f"/v1/sessions/{id}/state")).json
        assert state["vars"] == {"city": "Porto", "days": [3]}
        diff = (await ana.get(f"/v1/sessions/{id}/state/diff?from=3")).json["changes"]
        assert ["=", ["vars", "city"], "Lisbon", "Porto"] in diff
        failed = [{"op": "test", "path": "/city", "value": "Faro"}]
        refused = await ana.patch(f"/v1/sessions/{id}/state", failed, headers=media)
        assert (refused.status, refused.json["code"]) == (409, "refused")


async def test_the_scratchpad_has_the_shape_other_clients_expect() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        pad = (await ana.patch(f"/v1/sessions/{id}/scratchpad", {"content": "1. Find a flight"})).json
        assert (pad["session_id"], pad["content"], pad["token_count"]) == (id, "1. Find a flight", 4)
        assert (await ana.get(f"/v1/sessions/{id}/scratchpad")).json == pad


async def test_resuming_means_a_branch_with_a_checkpoint_and_waking_without_one() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"model": "small"})
        point = (await ana.post(f"/v1/sessions/{id}/checkpoint", {"label": "here", "metadata": {"a": 1}})).json
        override = {"checkpoint_id": point["checkpoint_id"], "config_override": {"model": "large"}}
        branch = await ana.post(f"/v1/sessions/{id}/resume", override)
        assert (branch.status, branch.json["branched"]) == (201, True)
        assert (await ana.get(f"/v1/sessions/{branch.json['session_id']}")).json["model"] == "large"
        assert (await ana.post(f"/v1/sessions/{id}/transitions", {"event": "suspend"})).status == 200
        woken = await ana.post(f"/v1/sessions/{id}/resume")
        assert (woken.status, woken.json["branched"], woken.json["phase"]) == (200, False, "active"), woken
        listed = (await ana.get(f"/v1/sessions/{id}/branches")).json["items"]
        assert [item["session_id"] for item in listed] == [branch.json["session_id"]]


async def test_checkpoints_are_listed_pinned_read_and_dropped() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        point = (await ana.post(f"/v1/sessions/{id}/checkpoint")).json["checkpoint_id"]
        at = f"/v1/sessions/{id}/checkpoints/{point}"
        assert (await ana.put(f"{at}/pin")).json["pinned"] is True
        assert (await ana.delete(f"{at}/pin")).json["pinned"] is False
        assert (await ana.get(at)).json["state"]["phase"] == "active"
        assert (await ana.delete(at)).status == 204
        assert (await ana.get(f"/v1/sessions/{id}/checkpoints")).json["items"] == []
        assert (await ana.get(at)).status in (404, 410)


async def test_a_merge_that_conflicts_waits_for_an_answer() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(vars={"city": "Lisbon"})
        other = (await ana.post(f"/v1/sessions/{id}/branch")).json["session_id"]
        await ana.patch(f"/v1/sessions/{id}/state", {"city": "Porto"})
        await ana.patch(f"/v1/sessions/{other}/state", {"city": "Faro"})
        merged = (await ana.post(f"/v1/sessions/{id}/merge", {"source": other})).json
        assert merged["conflict_id"] is not None
        path = merged["conflicts"][0]["path"]
        name = path if isinstance(path, str) else ".".join(path)
        url = f"/v1/sessions/{id}/conflicts/{merged['conflict_id']}/resolve"
        settled = await ana.post(url, {"choices": {name: "theirs"}})
        assert settled.status == 200, (settled, merged)
        assert (await ana.get(f"/v1/sessions/{id}/state")).json["vars"] == {"city": "Faro"}


async def test_blobs_go_in_and_come_out_whole_or_in_part() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        put = await ana.post("/v1/blobs?name=a.txt", raw=b"0123456789", headers={"content-type": "text/plain"})
        assert put.status == 201, put
        at = f"/v1/blobs/{put.json['sha256']}"
        assert (await ana.get(at)).body == b"0123456789"
        part = await ana.get(at, headers={"range": "bytes=2-4"})
        assert (part.status, part.body, part.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
        assert (await ana.get(f"/v1/blobs/{'0' * 64}")).status == 404


async def test_an_export_is_imported_elsewhere_and_is_the_same_session() -> None:
    async with world() as here, world() as there:
        ana, admin = await here.principal("ana"), await there.principal("root", Role.ADMIN)
        id = await ana.begun(title="kept")
        lines = (await ana.get(f"/v1/sessions/{id}/export")).body
        media = {"content-type": "application/x-ndjson"}
        assert (await admin.post("/v1/import", raw=lines, headers=media)).json["session_id"] == id
        again = await admin.post("/v1/import", raw=lines, headers=media)
        assert (again.status, again.json["existed"]) == (200, True)
        broken = await admin.post("/v1/import", raw=lines[:-20], headers=media)
        assert (broken.status, broken.json["code"]) == (422, "bad_export")


async def test_money_is_reserved_and_settled_and_an_empty_account_says_so() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun(config={"max_cost": 100})
        assert (await ana.post(f"/v1/sessions/{id}/reserve", {"name": "a", "amount": 80})).status == 200
        refused = await ana.post(f"/v1/sessions/{id}/reserve", {"name": "b", "amount": 80})
        assert (refused.status, refused.json["code"]) == (402, "budget_exhausted")
        await ana.post(f"/v1/sessions/{id}/settle", {"name": "a", "cost": 30})
        account = (await ana.get(f"/v1/sessions/{id}/account")).json
        assert account == {"cap": 100, "spent": 30, "reserved": 0, "paused": False, "left": 70}


async def test_a_session_is_erased_for_good() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        assert (await ana.delete(f"/v1/sessions/{id}")).status == 200
        assert (await ana.get(f"/v1/sessions/{id}")).status == 404


async def test_redaction_leaves_a_session_that_verifies() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        events = {"events": [{"kind": "message", "data": {"role": "user", "content": "my secret"}}]}
        version = (await ana.post(f"/v1/sessions/{id}/events", events)).json["version"]
        assert (await ana.post(f"/v1/sessions/{id}/redact", {"versions": [version]})).status == 200
        assert b"my secret" not in (await ana.get(f"/v1/sessions/{id}/events")).body
        proof = (await ana.post(f"/v1/sessions/{id}/verify")).json
        assert (proof["ok"], proof["redacted"]) == (True, 1)


async def test_problems_are_told_as_their_standard_says() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        nowhere = await ana.get("/v1/nowhere")
        assert (nowhere.status, nowhere.headers["content-type"]) == (404, "application/problem+json")
        method = await ana.ask("PUT", "/v1/sessions")
        assert (method.status, method.headers["allow"]) == (405, "GET, POST")
        broken = await ana.post("/v1/sessions", raw=b"{", headers={"content-type": "application/json"})
        assert (broken.status, broken.json["type"]) == (422, "urn:perdure:problem:invalid")
        wrong = await ana.post("/v1/sessions", {"title": 3})
        assert (wrong.status, wrong.json["fields"]["at"]) == (422, "$.title")
        unknown = await ana.post("/v1/sessions", {"titel": "x"})
        assert unknown.status == 422
        media = await ana.post("/v1/sessions", raw=b"<a/>", headers={"content-type": "application/xml"})
        assert media.status == 415
        query = await ana.get("/v1/sessions?colour=red")
        assert (query.status, "colour" in query.json["detail"]) == (422, True)


async def test_a_body_beyond_the_limit_is_refused_before_it_is_read() -> None:
    async with world(max_body=1024) as there:
        ana = await there.principal("ana")
        large = await ana.post("/v1/sessions", {"title": "x" * 2000})
        assert (large.status, large.json["code"]) == (413, "too_large")


async def test_strangers_wrong_hosts_and_foreign_pages_stay_outside() -> None:
    from tests.edge.http.world import Client

    async with world() as there:
        ana = await there.principal("ana")
        stranger = await Client(there).get("/v1/sessions")
        assert (stranger.status, stranger.headers["www-authenticate"]) == (401, 'Bearer realm="perdure"')
        assert (await Client(there, "pdk_nobody_knows").get("/v1/sessions")).status == 401
        assert (await ana.get("/v1/sessions", headers={"host": "evil.example"})).status == 421
        foreign = {"origin": "https://evil.example"}
        assert (await ana.post("/v1/sessions", {}, headers=foreign)).status == 403


async def test_too_many_requests_are_told_when_to_come_back() -> None:
    async with world(rate=0.001, burst=2) as there:
        ana = await there.principal("ana")
        found = [await ana.get("/v1/whoami") for _ in range(4)]
        assert [reply.status for reply in found] == [200, 200, 429, 429]
        assert int(found[-1].headers["retry-after"]) > 0


async def test_what_is_to_be_masked_never_reaches_the_store() -> None:
    async with world(scrub="pii") as there:
        ana = await there.principal("ana")
        id = await ana.begun(title="mail ana.silva@example.com", vars={"mail": "ana.silva@example.com"})
        events = {"events": [{"kind": "message", "data": {"role": "user", "content": "I am ana.silva@example.com"}}]}
        await ana.post(f"/v1/sessions/{id}/events", events)
        await ana.patch(f"/v1/sessions/{id}/scratchpad", {"content": "ana.silva@example.com"})
        assert b"ana.silva" not in (await ana.get(f"/v1/sessions/{id}/export")).body


async def test_what_json_lacks_travels_exactly_when_asked_for() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        exact = {"content-type": "application/vnd.perdure+json", "accept": "application/vnd.perdure+json"}
        body = json.dumps({"vars": {"raw": {"$bytes": "aGk="}, "$$ref": 1}}).encode()
        id = (await ana.post("/v1/sessions", raw=body, headers=exact)).json["session_id"]
        state = await ana.get(f"/v1/sessions/{id}/state", headers={"accept": exact["accept"]})
        assert state.json["vars"] == {"raw": {"$bytes": "aGk="}, "$$ref": 1}
        plain = await ana.get(f"/v1/sessions/{id}/state")
        assert plain.json["vars"] == {"raw": "aGk=", "$ref": 1}


async def test_plain_json_is_taken_literally_whatever_its_keys_are_called() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/a"}
        id = await ana.begun(vars=schema)
        assert (await ana.get(f"/v1/sessions/{id}/state")).json["vars"] == schema


async def test_a_session_is_found_by_its_name_by_those_who_may_see_it() -> None:
    async with world() as there:
        ana, bob = await there.principal("ana"), await there.principal("bob")
        id = await ana.begun(name="trip")
        assert [item["session_id"] for item in (await ana.get("/v1/sessions?name=trip")).json["items"]] == [id]
        assert (await bob.get("/v1/sessions?name=trip")).json == (await bob.get("/v1/sessions?name=nothing")).json


@pytest.mark.parametrize("what", ["turns", "conversation"])
async def test_what_was_said_is_read_in_pages(what: str) -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        roles = ("user", "assistant") if what == "turns" else ("user",)
        said = [{"kind": "message", "data": {"role": role, "content": f"{n}"}} for n in range(7) for role in roles]
        assert (await ana.post(f"/v1/sessions/{id}/events", {"events": said, "arrange": True})).status == 201
        whole = (await ana.get(f"/v1/sessions/{id}/{what}")).json
        assert len(whole["items"]) == 7
        assert whole["after"] is None
        for asked, wanted in (("", whole["items"]), ("&last=5", whole["items"][-5:])):
            found: list[Any] = []
            page = (await ana.get(f"/v1/sessions/{id}/{what}?limit=2{asked}")).json
            found += page["items"]
            while page["after"] is not None:
                assert len(page["items"]) == 2
                page = (await ana.get(f"/v1/sessions/{id}/{what}?limit=2&after={page['after']}")).json
                found += page["items"]
            assert found == wanted
        assert (await ana.get(f"/v1/sessions/{id}/{what}?after=1000000")).json["items"] == []
        for wrong in ("limit=0", "limit=1001", "after=-1", "after=x", "last=0"):
            assert (await ana.get(f"/v1/sessions/{id}/{what}?{wrong}")).status == 422


async def test_whom_a_session_lets_in_is_spelled_right_or_refused() -> None:
    async with world() as there:
        ana, vic = await there.principal("ana"), await there.principal("vic", Role.VIEWER)
        id = await ana.begun(isolation={"users": ["vic"]})
        assert (await vic.get(f"/v1/sessions/{id}/turns")).status == 200
        for wrong in ({"user": ["vic"]}, {"model": "nonsense"}, {"agents": {"a": "banana"}}):
            assert (await ana.post("/v1/sessions", {"isolation": wrong})).status == 422


async def test_a_key_for_reading_lists_too() -> None:
    from tests.edge.http.world import Client

    async with world() as there:
        await there.principal("ana")
        made = await there.store.directory.add_key("local", "ana", by=None, scopes=("read:*",))
        reader = Client(there, made.spelled)
        assert (await reader.get("/v1/sessions")).status == 200
        assert (await reader.post("/v1/sessions", {})).status == 403


async def test_pages_of_listed_origins_may_ask_and_read_and_others_may_not() -> None:
    async with world(origins=("https://app.example",)) as there:
        ana = await there.principal("ana")
        ask = {"origin": "https://app.example", "access-control-request-method": "POST"}
        before = await ana.ask("OPTIONS", "/v1/sessions", headers=ask)
        assert (before.status, before.headers["access-control-allow-origin"]) == (204, "https://app.example")
        assert "idempotency-key" in before.headers["access-control-allow-headers"]
        made = await ana.post("/v1/sessions", {}, headers={"origin": "https://app.example"})
        assert (made.status, made.headers["access-control-allow-origin"]) == (201, "https://app.example")
        assert "access-control-allow-credentials" not in made.headers
        other = await ana.ask("OPTIONS", "/v1/sessions", headers=ask | {"origin": "https://evil.example"})
        assert (other.status, "access-control-allow-origin" in other.headers) == (405, False)


async def test_an_append_reaches_no_more_than_its_asker_may_write_elsewhere() -> None:
    from tests.edge.http.world import Client

    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        directory = there.store.directory
        turns = Client(there, (await directory.add_key("local", "ana", by=None, scopes=("write:turns",))).spelled)
        words = [{"kind": "message", "data": {"role": "user", "content": "x"}}]
        at = f"/v1/sessions/{id}/events"
        assert (await turns.post(at, {"events": words, "arrange": True})).status == 201
        for more in ({"vars": {"a": 1}}, {"title": "mine"}, {"metadata": {"a": 1}}):
            refused = await turns.post(at, {"events": words, "arrange": True} | more)
            assert (refused.status, refused.json["code"]) == (403, "denied"), more
        pad = [{"kind": "scratchpad_written", "data": {"content": "mine"}}]
        assert (await turns.post(at, {"events": pad})).status == 403


async def test_a_field_is_written_only_by_roles_that_count_in_the_session() -> None:
    async with world() as there:
        root = await there.principal("root", Role.ADMIN)
        ana = await there.principal("ana")
        await root.put("/v1/policies", {"fields": [{"path": "vars.salary", "write": ["owner"]}]})
        id = await ana.begun(vars={"salary": 1}, isolation={"users": ["bob"]})
        bob = await there.principal("bob", Role.OWNER, Role.AGENT)
        assert (await bob.patch(f"/v1/sessions/{id}/state", {"city": "Porto"})).status == 200
        refused = await bob.patch(f"/v1/sessions/{id}/state", {"salary": 2})
        assert (refused.status, refused.json["fields"]["field"]) == (403, "vars.salary")
        assert (await ana.patch(f"/v1/sessions/{id}/state", {"salary": 2})).status == 200


async def test_an_import_takes_neither_the_servers_own_ids_nor_others_accounts() -> None:
    import perdure
    from perdure.core.session.ids import named

    async with world() as there:
        root = await there.principal("root", Role.ADMIN)
        victim = await there.principal("ana", tenant="gamma")
        rich = await victim.begun(config={"max_cost": 1_000_000})
        media = {"content-type": "application/x-ndjson"}
        with perdure.open(":memory:") as db:
            notes = db.create("x", id=named("_perdure", "audit:gamma")).export()
            drawn = db.create("y", id=rich, config={"max_cost": 5}).branch().export()
            plain = db.create(name="kept").export()
        for lines in (notes, drawn):
            refused = await root.post("/v1/import", raw=b"".join(lines), headers=media)
            assert (refused.status, refused.json["code"]) == (422, "invalid"), refused
        assert (await root.post("/v1/import", raw=b"".join(plain), headers=media)).status == 201
        assert (await victim.get(f"/v1/sessions/{rich}/account")).json["reserved"] == 0
