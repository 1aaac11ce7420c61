"""Clients of Anthropic's and OpenAI's at our door: their histories become sessions, and what they send passes whole."""

import asyncio
import json
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAsked
from perdure.core.session.event import Draft
from perdure.edge.http.upstreams import Provider
from perdure.ports.store import Query
from tests.edge.http.gatehouse import (
    FORMS,
    KEY,
    PATHS,
    assistant,
    body,
    conversation,
    frames,
    gatehouse,
    say,
    upstreams,
    user,
    words,
)
from tests.edge.http.world import Client, World, world
from upstream.server import serving

MODELS = ("a/echo", "c/echo", "r/echo", "off/any")
NOWHERE = "0192f0c4-7d1e-7abc-8def-0123456789ab"
FIRST = [user("one")]
SECOND = [user("one"), assistant("one"), user("two")]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}


async def ledger_of(here: World, client: Client) -> str:
    """The session that keeps what somebody costs who names none, as an admin finds it."""
    actor = await here.store.directory.identify(client.credential or "")
    admin = await here.principal(f"for {actor.name}", Role.ADMIN)
    reply = await admin.get(f"/v1/sessions?name=gateway:{actor.principal}")
    return str(reply.json["items"][0]["session_id"])


# ── every form, every provider ──


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
async def test_every_form_is_served_by_every_provider(form: str, model: str) -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        whole = await say(ana, form, model, [user("hello there")])
        assert whole.status == 200, whole
        assert "hello there" in words(form, whole)
        streamed = await say(ana, form, model, [user("hello there")], stream=True)
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert b"hello" in streamed.body
        managed = await say(ana, form, model, [user("hello there")], "own", headers={"perdure-mode": "manage"})
        assert "hello there" in words(form, managed)
        live = await say(ana, form, model, [user("and then")], "own", stream=True, headers={"perdure-mode": "manage"})
        assert b"then" in live.body
        assert live.headers["perdure-turn"] == "2"


@pytest.mark.parametrize("form", FORMS)
async def test_without_any_upstream_the_built_in_model_answers(form: str) -> None:
    async with world() as here:
        ana = await here.principal("ana")
        reply = await say(ana, form, "whatever", [user("hello there")], "trip")
        assert "hello there" in words(form, reply)
        assert reply.json["model"] == "offline/whatever", "nobody is told that another model answered"
        session = reply.headers["perdure-session"]
        events = (await ana.get(f"/v1/sessions/{session}/events?limit=100")).json["items"]
        logged = {item["data"]["model"] for item in events if item["kind"].startswith("model_")}
        assert logged == {"offline/whatever"}
        again = await say(ana, form, reply.json["model"], [user("hello there")])
        assert again.json["model"].removeprefix("offline/") == "whatever"


@pytest.mark.parametrize(("form", "model"), list(zip(FORMS, MODELS, strict=False)))
async def test_bytes_go_through_as_they_come_where_both_speak_the_same_form(form: str, model: str) -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        wanted = {"stream_options": {"include_usage": True}} if form == "openai-chat" else {}
        reply = await say(ana, form, f"{model}+tokens-20", FIRST, "trip", stream=True, **wanted)
        assert reply.body == b"".join(up.sent)
        assert (await say(ana, form, model, FIRST)).json["id"]


# ── histories ──


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [False, True])
async def test_only_what_is_new_in_a_history_is_appended(form: str, stream: bool) -> None:
    model = MODELS[FORMS.index(form)]
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        first = await say(ana, form, model, FIRST, "trip", stream=stream)
        second = await say(ana, form, model, SECOND, "trip", stream=stream)
        session = first.headers["perdure-session"]
        assert (second.headers["perdure-session"], second.headers["perdure-turn"]) == (session, "2")
        assert "perdure-branched-from" not in second.headers
        told = [("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")]
        assert await conversation(ana, session) == told


async def test_a_history_goes_on_in_another_form_with_another_model() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        session = (await say(ana, "anthropic", "a/echo", FIRST, "trip")).headers["perdure-session"]
        reply = await say(ana, "openai-chat", "r/echo", SECOND, "trip")
        assert reply.headers["perdure-session"] == session
        assert len(await conversation(ana, session)) == 4


async def test_the_same_history_sent_twice_appends_nothing_twice() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        session = (await say(ana, "anthropic", "a/echo", SECOND, "trip")).headers["perdure-session"]
        before = await conversation(ana, session)
        again = await say(ana, "anthropic", "a/echo", SECOND, "trip")
        assert again.headers["perdure-branched-from"] == session
        assert await conversation(ana, session) == before
        assert await conversation(ana, again.headers["perdure-session"]) == before


async def test_a_history_that_departs_makes_a_branch_and_goes_on_there() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        session = (await say(ana, "anthropic", "a/echo", SECOND, "trip")).headers["perdure-session"]
        other = [user("one"), assistant("one"), user("three")]
        branch = await say(ana, "anthropic", "a/echo", other, "trip")
        assert branch.headers["perdure-branched-from"] == session
        found = branch.headers["perdure-session"]
        assert found != session
        longer = [*other, assistant("three"), user("four")]
        reply = await say(ana, "anthropic", "a/echo", longer, "trip")
        assert reply.headers["perdure-session"] == found
        assert [text for _, text in await conversation(ana, found)] == ["one", "one", "three", "three", "four", "four"]
        back = await say(ana, "anthropic", "a/echo", [*SECOND, assistant("two"), user("five")], "trip")
        assert back.headers["perdure-session"] == session


async def test_a_history_that_departs_is_rejected_for_whoever_wants_that() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        session = (await say(ana, "anthropic", "a/echo", SECOND, "trip")).headers["perdure-session"]
        asked = up.counts.requests
        headers = {"perdure-diverge": "reject"}
        reply = await say(ana, "anthropic", "a/echo", [user("else")], "trip", headers=headers)
        assert (reply.status, reply.json["type"]) == (409, "error")
        assert reply.headers["x-should-retry"] == "false"
        assert up.counts.requests == asked
        assert len(await conversation(ana, session)) == 4
        branches = await ana.get(f"/v1/sessions/{session}/branches")
        assert branches.json["items"] == []


async def test_a_session_so_made_is_one_like_any_other() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        session = (await say(ana, "openai-chat", "c/echo", FIRST, "trip")).headers["perdure-session"]
        listed = (await ana.get("/v1/sessions")).json["items"]
        assert [(item["session_id"], item["title"]) for item in listed] == [(session, "trip")]
        branched = await ana.post(f"/v1/sessions/{session}/branch", {})
        assert branched.status == 201, branched
        branch = branched.json["session_id"]
        reply = await say(ana, "openai-chat", "c/echo", SECOND, branch)
        assert reply.headers["perdure-session"] == branch
        assert len(await conversation(ana, session)) == 2
        assert (await ana.post(f"/v1/sessions/{session}/transitions", {"event": "suspend"})).status == 200
        asleep = await say(ana, "openai-chat", "c/echo", SECOND, "trip")
        assert (asleep.status, asleep.json["error"]["code"]) == (409, "suspended")
        assert (await ana.post(f"/v1/sessions/{session}/resume")).status == 200
        assert (await say(ana, "openai-chat", "c/echo", SECOND, "trip")).status == 200
        assert len(await conversation(ana, session)) == 4


async def test_responses_that_go_on_from_what_their_provider_keeps_are_appended() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        first = await say(ana, "openai-responses", "r/echo", FIRST, "trip")
        session, more = first.headers["perdure-session"], {"previous_response_id": first.json["id"]}
        second = await say(ana, "openai-responses", "r/echo", [user("two")], "trip", **more)
        assert second.headers["perdure-session"] == session
        assert up.seen[-1].body["previous_response_id"] == first.json["id"]
        assert [text for _, text in await conversation(ana, session)] == ["one", "one", "two", "two"]
        elsewhere = await say(ana, "openai-responses", "a/echo", [user("three")], "trip", **more)
        assert elsewhere.status == 400
        assert "previous_response_id" in elsewhere.json["error"]["message"]
        managed = {"perdure-mode": "manage"}
        third = await say(ana, "openai-responses", "a/echo", [user("three")], "trip", headers=managed, **more)
        assert third.headers["perdure-turn"] == "3"
        assert len(await conversation(ana, session)) == 6


async def test_tools_go_round_and_are_in_the_log() -> None:
    tools = [{"name": "weather", "input_schema": WEATHER}]
    asked = [user('weather, please: {"city":"Lisbon"}')]
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        reply = await say(ana, "anthropic", "a/tool:weather", asked, "trip", tools=tools)
        assert reply.json["stop_reason"] == "tool_use"
        call = reply.json["content"][-1]
        assert (call["name"], call["input"]) == ("weather", {"city": "Lisbon"})
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"}
        said = [*asked, {"role": "assistant", "content": reply.json["content"]}, {"role": "user", "content": [result]}]
        last = await say(ana, "anthropic", "a/tool:weather", said, "trip", tools=tools)
        assert "sunny" in words("anthropic", last)
        session = reply.headers["perdure-session"]
        assert last.headers["perdure-session"] == session
        assert last.headers["perdure-turn"] == reply.headers["perdure-turn"] == "1"
        kinds = [item["kind"] for item in (await ana.get(f"/v1/sessions/{session}/events")).json["items"]]
        assert (kinds.count("tool_asked"), kinds.count("tool_finished"), kinds.count("turn_finished")) == (1, 1, 1)


async def test_an_answer_is_kept_whole_though_its_client_went_away() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        gone = Gone(here, ana.credential)
        reply = await gone.post(
            PATHS["anthropic"],
            body("anthropic", "a/tokens-40+slow-2ms", FIRST, stream=True),
            headers={"perdure-session": "trip"},
        )
        assert 0 < len(frames(reply)) < 40
        session = reply.headers["perdure-session"]
        for _ in range(500):
            if len(said := await conversation(ana, session)) == 2:
                break
            await asyncio.sleep(0.01)
        assert len(said[1][1].split()) == 40
        assert up.counts.disconnects == 0


class Gone(Client):
    """Somebody who hangs up after the first pieces of an answer."""

    async def ask(self, method: str, target: str, body: Any = None, **more: Any) -> Any:
        application, told = self.world.application, []

        class Hung(Exception):
            pass

        async def cut(scope: Any, receive: Any, send: Any) -> None:
            async def some(message: Any) -> None:
                told.append(message)
                if len(told) > 4:
                    raise Hung
                await send(message)

            try:
                await application(scope, receive, some)
            except Hung:
                pass

        self.world = type("Shortened", (), {"application": staticmethod(cut)})()
        return await super().ask(method, target, body, **more)


# ── naming sessions ──


@pytest.mark.parametrize("form", FORMS)
async def test_a_session_is_named_in_a_header_or_in_the_metadata_or_by_claude(form: str) -> None:
    model = MODELS[FORMS.index(form)]
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        by_header = await say(ana, form, model, FIRST, "über", metadata={"perdure_session": "not this"})
        by_metadata = await say(ana, form, model, FIRST, metadata={"perdure_session": "trip", "user_id": "u"})
        assert up.seen[-1].body["metadata"] == {"user_id": "u"}
        alone = await say(ana, form, model, FIRST, metadata={"perdure_session": "alone"})
        assert "metadata" not in up.seen[-1].body
        by_claude = await say(ana, form, model, FIRST, headers={"x-claude-code-session-id": "0a1b"})
        titles = {item["session_id"]: item["title"] for item in (await ana.get("/v1/sessions")).json["items"]}
        found = [reply.headers["perdure-session"] for reply in (by_header, by_metadata, alone, by_claude)]
        assert [titles[session] for session in found] == ["über", "trip", "alone", "claude-code:0a1b"]


async def test_an_id_that_leads_nowhere_is_not_found_and_makes_nothing() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        reply = await say(ana, "anthropic", "a/echo", FIRST, NOWHERE)
        assert (reply.status, reply.json["error"]["type"]) == (404, "not_found_error")
        assert (await ana.get("/v1/sessions")).json["items"] == []
        assert up.counts.requests == 0


async def test_two_who_name_a_new_session_at_once_share_it() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        asked = [say(ana, "anthropic", "a/echo", [user(f"q{number}")], "trip") for number in range(5)]
        replies = await asyncio.gather(*asked)
        assert {reply.status for reply in replies} == {200}
        origins = {reply.headers.get("perdure-branched-from", reply.headers["perdure-session"]) for reply in replies}
        assert len(origins) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_what_is_not_ones_own_looks_as_what_is_not_there(form: str) -> None:
    async with gatehouse() as (here, up):
        ana, bob = await here.principal("ana"), await here.principal("bob")
        eve = await here.principal("eve", *Role, tenant="globex")
        session = (await say(ana, form, "off/any", FIRST, "trip")).headers["perdure-session"]
        missing = await say(bob, form, "a/echo", FIRST, NOWHERE)
        assert missing.status == 404
        for reply in (
            await say(bob, form, "a/echo", FIRST, session),
            await say(bob, form, "a/echo", FIRST, "trip"),
            await say(eve, form, "a/echo", FIRST, session),
        ):
            assert (reply.status, reply.body, reply.headers) == (404, missing.body, missing.headers)
        theirs = await say(eve, form, "off/any", FIRST, "trip")
        assert theirs.headers["perdure-session"] != session
        assert up.counts.requests == 0
        assert len(await conversation(ana, session)) == 2


async def test_who_may_not_write_turns_is_denied_and_who_may_not_create_makes_no_session() -> None:
    async with gatehouse() as (here, up):
        viewer = await here.principal("vic", Role.VIEWER)
        agent = await here.principal("bot", Role.AGENT, kind="agent")
        assert (await say(viewer, "anthropic", "a/echo", FIRST)).status == 403
        assert (await say(viewer, "openai-chat", "c/echo", FIRST, "trip")).status == 403
        assert up.counts.requests == 0
        assert (await say(agent, "anthropic", "a/echo", FIRST, "trip")).status == 403
        assert (await say(agent, "anthropic", "a/echo", FIRST)).status == 200
        ana = await here.principal("ana")
        shared = await ana.begun(name="shared", isolation={"agents": {"bot": "read_write"}})
        reply = await say(agent, "anthropic", "a/echo", FIRST, "shared")
        assert reply.headers["perdure-session"] == shared


@pytest.mark.parametrize("form", FORMS)
async def test_keys_are_taken_from_both_headers_and_never_go_on(form: str) -> None:
    model = MODELS[FORMS.index(form)]
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        assert ana.credential is not None
        bare = Client(here)
        sent = body(form, model, FIRST)
        assert (await bare.post(PATHS[form], sent, headers={"x-api-key": ana.credential})).status == 200
        assert (await ana.post(PATHS[form], sent)).status == 200
        for seen in up.seen:
            assert ana.credential not in json.dumps([seen.headers, seen.body])
            assert KEY in seen.headers.get("x-api-key", seen.headers.get("authorization", ""))


# ── what passes ──


async def test_unknown_fields_blocks_and_queries_pass_and_of_headers_only_those_for_the_provider() -> None:
    sent = {
        "model": "a/echo",
        "max_tokens": 50,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "output_config": {"effort": "low"},
        "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            user("one"),
            {"role": "system", "content": "a word in between"},
            {"role": "user", "content": [{"type": "mystery", "of": 1}, {"type": "text", "text": "two", "new": True}]},
        ],
    }
    headers = {
        "anthropic-beta": "one-2026,two-2026",
        "anthropic-version": "2023-06-01",
        "x-stainless-lang": "python",
        "cookie": "perdure=x",
        "perdure-session": "trip",
        "openai-organization": "org",
    }
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        reply = await ana.post("/v1/messages?beta=true", sent, headers=headers)
        assert reply.status == 200, reply
        seen = up.seen[-1]
        assert seen.body == {**sent, "model": "echo"}
        assert seen.query == "beta=true"
        assert seen.headers["anthropic-beta"] == "one-2026,two-2026"
        assert not {"x-stainless-lang", "cookie", "perdure-session", "openai-organization"} & seen.headers.keys()


async def test_headers_of_openais_pass_to_openais_alone() -> None:
    headers = {"openai-organization": "org", "openai-project": "p", "openai-beta": "b", "anthropic-beta": "x"}
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        for form, model in (("openai-chat", "c/echo"), ("openai-responses", "r/echo")):
            assert (await say(ana, form, model, FIRST, headers=headers)).status == 200
            seen = up.seen[-1].headers
            assert (seen["openai-organization"], seen["openai-project"], seen["openai-beta"]) == ("org", "p", "b")
            assert "anthropic-beta" not in seen


async def test_a_prompt_may_be_larger_than_other_bodies() -> None:
    async with gatehouse(max_body=4096, max_prompt=65536) as (here, _):
        ana = await here.principal("ana")
        assert (await say(ana, "anthropic", "a/tokens-1", [user("x" * 50_000)])).status == 200
        reply = await say(ana, "anthropic", "a/tokens-1", [user("x" * 70_000)])
        assert (reply.status, reply.json["error"]["type"]) == (413, "request_too_large")


async def test_tokens_are_counted_without_asking_anybody() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        short = await ana.post("/v1/messages/count_tokens?beta=true", {"model": "a/echo", "messages": FIRST})
        long = await ana.post("/v1/messages/count_tokens", {"model": "a/echo", "messages": [user("word " * 500)]})
        assert short.json["input_tokens"] < 20 < 400 < long.json["input_tokens"] < 700
        assert up.counts.requests == 0
        assert (await ana.post("/v1/messages/count_tokens", {"model": "b/no", "messages": FIRST})).status == 404


async def test_models_are_listed_in_both_forms() -> None:
    async with gatehouse(aliases={"fast": "c/echo"}) as (here, _):
        ana = await here.principal("ana")
        openais = (await ana.get("/v1/models")).json
        assert openais["object"] == "list"
        assert {"a/echo", "fast"} <= {item["id"] for item in openais["data"]}
        anthropics = (await ana.get("/v1/models?limit=5", headers={"anthropic-version": "2023-06-01"})).json
        assert [item["id"] for item in anthropics["data"]] == [item["id"] for item in openais["data"]]
        assert (anthropics["has_more"], anthropics["first_id"]) == (False, "a/echo")
        assert (await Client(here).get("/v1/models")).status == 401


async def test_models_are_listed_that_somebody_has() -> None:
    async with serving(key=KEY) as up:
        given = upstreams(up.url)
        given["c"] = Provider(kind="openai-chat", base_url=f"{up.url}/v1", key=KEY, models=("small", "large"))
        given["openai"] = Provider(kind="openai-responses", key=KEY)
        facts = {"aliases": {"fast": "c/small"}, "fallbacks": {"fast": ["r/echo"]}}
        async with world(upstreams=given, default_model="a/echo", **facts) as here:
            ana = await here.principal("ana")
            found = {item["id"] for item in (await ana.get("/v1/models")).json["data"]}
        assert {"a/echo", "fast", "r/echo", "c/small", "c/large", "openai/gpt-5"} <= found
        assert {name for name in found if name.startswith(("a/", "c/", "r/"))} == {
            "a/echo",
            "c/small",
            "c/large",
            "r/echo",
        }


# ── whoever names no session ──


async def test_who_names_no_session_is_charged_in_a_ledger_that_an_admin_caps() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        for _ in range(2):
            reply = await say(ana, "anthropic", "anthropic/claude-sonnet-4-5", FIRST)
            assert reply.status == 200, reply
            assert "perdure-session" not in reply.headers
        ledger = await ledger_of(here, ana)
        root = await here.principal("root", Role.ADMIN)
        told = {"perdure-override": "to see what it costs"}
        costs = (await root.get(f"/v1/sessions/{ledger}/costs", headers=told)).json
        assert (costs["asked"], costs["reserved"]) == (2, 0)
        assert costs["spent"] > 0
        log = (await root.get(f"/v1/sessions/{ledger}/events", headers=told)).body
        assert b'"message"' not in log
        capped = await root.patch(f"/v1/sessions/{ledger}", {"config": {"max_cost": 100}}, headers=told)
        assert capped.status == 200, capped
        asked = up.counts.requests
        refused = await say(ana, "anthropic", "anthropic/claude-sonnet-4-5", FIRST)
        assert (refused.status, refused.json["error"]["type"]) == (402, "billing_error")
        assert up.counts.requests == asked


async def test_a_ledger_is_nobodys_to_open_or_to_make() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        actor = await here.store.directory.identify(ana.credential or "")
        assert (await say(ana, "anthropic", "a/echo", FIRST)).status == 200
        ledger = await ledger_of(here, ana)
        assert (await ana.get(f"/v1/sessions/{ledger}")).status == 404
        assert (await ana.patch(f"/v1/sessions/{ledger}", {"config": {"max_cost": None}})).status == 404
        assert (await say(ana, "anthropic", "a/echo", FIRST, f"gateway:{actor.principal}")).status == 404
        bob = await here.principal("bob")
        prepared = (await here.store.directory.identify(bob.credential or "")).principal
        assert (await bob.post("/v1/sessions", {"name": f"gateway:{prepared}"})).status == 403
        assert (await say(bob, "anthropic", "a/echo", FIRST)).status == 200


async def test_many_at_once_are_charged_each() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        replies = await asyncio.gather(
            *(
                say(ana, "openai-chat", "c/tokens-3", [user(f"q{number}")], stream=number % 2 == 0)
                for number in range(20)
            )
        )
        assert {reply.status for reply in replies} == {200}
        root = await here.principal("root", Role.ADMIN)
        ledger = await ledger_of(here, ana)
        costs = (await root.get(f"/v1/sessions/{ledger}/costs", headers={"perdure-override": "look"})).json
        assert (costs["asked"], costs["reserved"], costs["held_rounds"]) == (20, 0, 0)


# ── turns of our own ──


async def test_a_managed_session_sends_its_own_context_whatever_history_the_client_has() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        session = await ana.begun(name="trip", config={"system_prompt": "You are a guide."})
        manage = {"perdure-mode": "manage"}
        await say(ana, "anthropic", "a/echo", [user("one")], "trip", headers=manage)
        forgotten = [user("never said"), assistant("nor this"), user("two")]
        reply = await say(ana, "openai-chat", "a/echo", forgotten, "trip", headers=manage)
        assert words("openai-chat", reply) == "two"
        assert (reply.headers["perdure-session"], reply.headers["perdure-turn"]) == (session, "2")
        sent = json.dumps(up.seen[-1].body)
        assert "never said" not in sent
        assert "You are a guide." in sent
        assert "one" in sent
        assert [text for _, text in await conversation(ana, session)] == ["one", "one", "two", "two"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_managed_session_hands_the_clients_tools_back_to_it(stream: bool) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        headers = {"perdure-mode": "manage"}
        asked = [user('weather: {"city":"Lisbon"}')]
        reply = await say(ana, "openai-chat", "a/tool:weather", asked, "trip", tools=tools, headers=headers)
        message = reply.json["choices"][0]["message"]
        call = message["tool_calls"][0]
        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("weather", {"city": "Lisbon"})
        assert reply.json["choices"][0]["finish_reason"] == "tool_calls"
        said = [*asked, message, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
        last = await say(
            ana, "openai-chat", "a/tool:weather", said, "trip", tools=tools, headers=headers, stream=stream
        )
        assert b"sunny" in last.body
        assert last.headers["perdure-turn"] == reply.headers["perdure-turn"]


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_that_run_here_are_not_the_clients_to_see(stream: bool) -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        tooling = here.store.services("local").desk.tooling
        tooling.register("weather", lambda city: f"sunny in {city}")
        asked = [user('weather: {"city":"Lisbon"}')]
        headers = {"perdure-mode": "manage"}
        reply = await say(ana, "anthropic", "a/tool:weather", asked, "trip", headers=headers, stream=stream)
        assert reply.status == 200, reply
        assert b"tool_use" not in reply.body
        if not stream:
            assert "sunny in Lisbon" in words("anthropic", reply)
        else:
            assert "sunny in Lisbon" in "".join(item.get("delta", {}).get("text", "") for item in frames(reply))
            kinds = [item["type"] for item in frames(reply)]
            assert (kinds.count("message_start"), kinds.count("message_stop")) == (1, 1)
            starts = [item["index"] for item in frames(reply) if item["type"] == "content_block_start"]
            ends = [item["index"] for item in frames(reply) if item["type"] == "content_block_stop"]
            assert starts == ends == list(range(len(starts)))


async def test_a_managed_session_may_take_an_earlier_answer() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        headers = {"perdure-mode": "manage", "perdure-cache": "exact"}
        first = await say(ana, "anthropic", "a/echo", FIRST, "one", headers=headers)
        second = await say(ana, "anthropic", "a/echo", FIRST, "two", headers=headers)
        assert words("anthropic", first) == words("anthropic", second) == "one"
        assert up.counts.requests == 1
        streamed = await say(ana, "openai-responses", "a/echo", FIRST, "three", headers=headers, stream=True)
        assert frames(streamed)[-1]["type"] == "response.completed"


async def test_a_managed_turn_is_taken_once_under_its_key() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        headers = {"perdure-mode": "manage", "idempotency-key": "k1"}
        first = await say(ana, "anthropic", "a/echo", FIRST, "trip", headers=headers)
        second = await say(ana, "anthropic", "a/echo", FIRST, "trip", headers=headers)
        assert words("anthropic", first) == words("anthropic", second)
        assert first.headers["perdure-turn"] == second.headers["perdure-turn"] == "1"
        assert up.counts.requests == 1


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"perdure-mode": "manage"}, "needs a session"),
        ({"perdure-mode": "both"}, "record, manage"),
        ({"perdure-diverge": "ignore"}, "branch, reject"),
        ({"perdure-cache": "exact"}, "goes with perdure-mode: manage"),
        ({"perdure-agent": "x" * 1001}, "perdure-agent"),
        ({"perdure-session": "x" * 1001}, "perdure-session"),
    ],
)
async def test_a_wish_that_cannot_be_granted_is_told(headers: dict[str, str], told: str) -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        reply = await say(ana, "openai-chat", "c/echo", FIRST, headers=headers)
        assert reply.status == 400
        assert told in reply.json["error"]["message"]


async def test_who_does_it_and_for_what_is_attributed() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        headers = {"perdure-agent": "scout", "perdure-strategy": "cheap first"}
        reply = await say(ana, "anthropic", "anthropic/claude-sonnet-4-5", FIRST, "trip", headers=headers)
        costs = (await ana.get(f"/v1/sessions/{reply.headers['perdure-session']}/costs")).json
        assert costs["by_agent"] == {"scout": costs["spent"]}
        assert costs["by_strategy"] == {"cheap first": costs["spent"]}


async def test_a_key_for_an_upstream_that_does_not_count_is_not_the_clients_fault() -> None:
    async with serving(key=KEY) as up:
        wrong = upstreams(up.url, key="sk-something-else")
        async with world(upstreams=wrong, default_model="a/echo") as here:
            ana = await here.principal("ana")
            reply = await say(ana, "anthropic", "a/echo", FIRST, "trip")
            assert reply.status == 502
            assert b"sk-" not in reply.body
    assert isinstance(wrong["a"], Provider)
    assert "sk-" not in repr(wrong)


async def test_the_same_request_twice_at_once_is_answered_apart() -> None:
    """Two answers to one question cannot both follow it: the second is a branch, or is refused."""
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        session = await ana.begun()
        model, said = "a/echo+slow-100ms", [user("hello")]
        first = asyncio.create_task(say(ana, "anthropic", model, said, session))
        services = here.store.services("local")
        while not services.desk.runners.asks:  # noqa: ASYNC110 - until the first is under way
            await asyncio.sleep(0)
        refused = await say(ana, "anthropic", model, said, session, headers={"perdure-diverge": "reject"})
        second = await say(ana, "anthropic", model, said, session)
        assert refused.status == 409
        assert second.headers["perdure-branched-from"] == session
        assert (await first).headers["perdure-session"] == session
        turns = (await ana.get(f"/v1/sessions/{session}/turns")).json["items"]
        assert len(turns) == 1


async def test_what_a_process_that_is_gone_left_in_a_ledger_is_closed_and_charged() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        assert (await say(ana, "anthropic", "a/echo", [user("hello")])).status == 200
        services = here.store.services("local")
        (row,) = await services.store.find(Query(tenant="local", tags=("ledger",)))
        dead = ".".join((services.desk.node.split(".")[0], "999999", "gone"))
        asked = ModelAsked(ask="lost", provider="a", model="echo", node=dead)
        lost = do.Advance(
            drafts=(Draft(asked, target="lost"),), reserves=(do.Reserve(reservation="lost", amount=7),), arranged=True
        )
        await services.sessions.handle(row.session, lost)
        assert (await say(ana, "anthropic", "a/echo", [user("again")])).status == 200
        state = (await services.sessions.loader.load(row.session)).state
        assert (state.budget.asked, state.budget.open, state.budget.estimated["lost"]) == ({}, {}, 7)
