"""What goes wrong at our door is told as the client's own provider would tell it, and the session goes on after it."""

import json
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.edge.http import shaping
from perdure.edge.http.building import endpoints
from perdure.edge.http.logs import JsonLines
from tests.edge.http.gatehouse import FORMS, KEY, PATHS, body, conversation, frames, gatehouse, say, upstreams, user
from tests.edge.http.world import Client, Reply, world
from upstream.server import serving

OWN = {"anthropic": "a", "openai-chat": "c", "openai-responses": "r"}
"""The upstream that speaks a form."""
FIRST = [user("one")]
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def told(form: str, reply: Reply, status: int) -> Any:
    """The error in an answer, if it is one in this form."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/json"
    found = reply.json
    if form == "anthropic":
        assert found["type"] == "error"
        assert found["error"].keys() == {"type", "message"}
        assert found["error"]["type"] == KINDS[status]
    else:
        assert found.keys() == {"error"}
        assert found["error"].keys() == {"message", "type", "param", "code"}
    return found["error"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("429+after-7", 429),
        ("500", 502),
        ("503", 0),
        ("overloaded", 0),
        ("401", 502),
        ("403", 502),
        ("html", 502),
        ("cut-at-start", 502),
        ("hang", 504),
        ("malformed-first", 502),
        ("window-3", 400),
        ("404", 404),
        ("400", 400),
    ],
)
async def test_what_a_provider_does_wrong_is_told_and_the_session_goes_on(
    form: str, stream: bool, model: str, status: int
) -> None:
    async with serving(key=KEY) as up:
        impatient = upstreams(up.url, first_byte_timeout=0.2 if model == "hang" else 5.0)
        async with world(upstreams=impatient, default_model="a/echo") as here:
            ana = await here.principal("ana")
            said = [user("one two three four five six seven eight nine ten")]
            reply = await say(ana, form, f"{OWN[form]}/{model}", said, "trip", stream=stream)
            error = told(form, reply, status or (529 if form == "anthropic" else 503))
            assert "127.0.0.1" not in error["message"]
            assert KEY not in error["message"]
            if model.startswith("429"):
                assert reply.headers["retry-after"] == "7"
            if model.startswith("window"):
                assert form == "anthropic" or error["code"] == "context_length_exceeded"
                assert reply.headers["x-should-retry"] == "false"
            again = await say(ana, form, "off/any", said, "trip", stream=stream)
            assert again.status == 200, again
            assert "perdure-branched-from" not in again.headers
            assert [role for role, _ in await conversation(ana, again.headers["perdure-session"])] == [
                "user",
                "assistant",
            ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["cut-mid-stream", "overloaded-mid-stream", "malformed-chunk", "silent-end"])
@pytest.mark.parametrize("upstream", ["same", "other"])
@pytest.mark.parametrize("mode", ["record", "manage"])
async def test_an_answer_that_breaks_off_ends_with_an_error_in_its_form(
    form: str, model: str, upstream: str, mode: str
) -> None:
    name = OWN[form] if upstream == "same" else "c" if form == "anthropic" else "a"
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        asked = f"{name}/{model}+tokens-30"
        reply = await say(ana, form, asked, FIRST, "trip", stream=True, headers={"perdure-mode": mode})
        assert reply.status == 200, reply
        found = frames(reply)
        assert len(found) > 2
        last = found[-1]
        if form == "anthropic":
            assert last["type"] == "error"
            assert last["error"]["message"]
            assert "message_stop" not in [item["type"] for item in found]
        elif form == "openai-chat":
            assert last["error"]["message"]
            assert b"[DONE]" not in reply.body
        else:
            assert last["type"] in ("error", "response.failed")
            assert "response.completed" not in [item["type"] for item in found]
        again = await say(ana, form, "off/any", FIRST, "trip", headers={"perdure-mode": mode})
        assert again.status == 200, again


@pytest.mark.parametrize("form", FORMS)
async def test_what_the_client_does_wrong_is_told_in_its_form(form: str) -> None:
    async with gatehouse() as (here, up):
        ana, path = await here.principal("ana"), PATHS[form]
        stranger = Client(here)
        error = told(form, await stranger.post(path, body(form, "a/echo", FIRST)), 401)
        assert form == "anthropic" or error["code"] == "invalid_api_key"
        told(form, await stranger.post(path, {}, headers={"x-api-key": "pdk_nobody"}), 401)
        error = told(form, await say(ana, form, "gone/model", FIRST), 404)
        assert form == "anthropic" or error["code"] == "model_not_found"
        for wrong in ({}, {"model": 7}, [], "text", {"model": "a/echo"}, {**body(form, "a/echo", FIRST), "stream": 3}):
            told(form, await ana.post(path, wrong), 400)
        told(form, await ana.post(path, raw=b"{nothing", headers={"content-type": "application/json"}), 400)
        told(form, await ana.post(path, raw=b"[" * 5000, headers={"content-type": "application/json"}), 400)
        viewer = await here.principal("vic", Role.VIEWER)
        told(form, await say(viewer, form, "a/echo", FIRST), 403)
        assert up.counts.requests == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["record", "manage"])
async def test_a_session_that_has_spent_all_it_may_says_so_and_is_not_asked_again(form: str, mode: str) -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        session = await ana.begun(name="trip", config={"max_cost": 10})
        headers = {"perdure-mode": mode}
        reply = await say(ana, form, "anthropic/claude-sonnet-4-5", FIRST, "trip", headers=headers, stream=True)
        error = told(form, reply, 402)
        assert form == "anthropic" or error["type"] == error["code"] == "insufficient_quota"
        assert reply.headers["x-should-retry"] == "false"
        assert up.counts.requests == 0
        assert (await ana.patch(f"/v1/sessions/{session}", {"config": {"max_cost": 10**9}})).status == 200
        assert (await say(ana, form, "anthropic/claude-sonnet-4-5", FIRST, "trip", headers=headers)).status == 200


@pytest.mark.parametrize(
    ("form", "model", "more", "named"),
    [
        ("openai-chat", "a/echo", {"response_format": {"type": "json_object"}}, "response_format"),
        ("openai-chat", "r/echo", {"seed": 7}, "seed"),
        ("openai-responses", "c/echo", {"tools": [{"type": "web_search"}]}, "web_search"),
        ("anthropic", "c/echo", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ],
)
async def test_what_would_change_the_answer_and_cannot_be_said_is_refused_before_anything_is_written(
    form: str, model: str, more: dict[str, Any], named: str
) -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        for session in (None, "trip"):
            error = told(form, await say(ana, form, model, FIRST, session, **more), 400)
            assert named in error["message"]
            assert form in error["message"], "which says whom to ask instead"
        assert up.counts.requests == 0
        assert (await ana.get("/v1/sessions?name=trip")).json["items"] == []
        own = await say(ana, form, f"{OWN[form]}/echo", FIRST, "trip", **more)
        assert own.status == 200, own
        assert (await say(ana, form, "off/any", FIRST, **more)).status == 200, "the built-in model hears none of it"
        managed = await say(ana, form, model, FIRST, "own", headers={"perdure-mode": "manage"}, **more)
        assert managed.status == (400 if "tools" in more else 200), managed


async def test_the_shape_of_an_answer_is_told_in_the_providers_form() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
        reply = await say(ana, "openai-chat", "r/echo", FIRST, response_format=shape, reasoning_effort="low", user="u")
        assert reply.status == 200, reply
        sent = up.seen[-1].body
        assert sent["text"]["format"] == {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
        assert sent["reasoning"] == {"effort": "low"}
        assert "user" not in sent


@pytest.mark.parametrize("form", FORMS)
async def test_who_asks_too_often_is_told_when_to_come_back(form: str) -> None:
    async with gatehouse(burst=2, rate=0.1) as (here, _):
        ana = await here.principal("ana")
        for _ in range(2):
            assert (await say(ana, form, "off/any", FIRST)).status == 200
        reply = await say(ana, form, "off/any", FIRST)
        told(form, reply, 429)
        assert int(reply.headers["retry-after"]) >= 1


async def test_errors_of_the_list_of_models_are_told_to_either_client_in_its_form() -> None:
    async with gatehouse() as (here, _):
        stranger = Client(here)
        told("openai-chat", await stranger.get("/v1/models"), 401)
        told("anthropic", await stranger.get("/v1/models", headers={"anthropic-version": "2023-06-01"}), 401)


async def test_only_official_clients_are_told_in_their_form_that_nothing_is_there() -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        plain = await ana.post("/v1/embeddings", {})
        assert (plain.status, plain.headers["content-type"]) == (404, "application/problem+json")
        for form, headers in (
            ("openai-chat", {"user-agent": "OpenAI/Python 2.1"}),
            ("openai-chat", {"user-agent": "AsyncOpenAI/Python 2.1"}),
            ("openai-chat", {"x-stainless-lang": "js"}),
            ("anthropic", {"user-agent": "AsyncAnthropic/Python 0.70"}),
            ("anthropic", {"anthropic-version": "2023-06-01", "x-stainless-lang": "js"}),
        ):
            told(form, await ana.post("/v1/embeddings", {}, headers=headers), 404)
        wrong = await ana.get("/v1/chat/completions", headers={"x-stainless-lang": "js"})
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
        assert "is not here" in wrong.json["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_log_says_who_failed_with_what_and_no_more(caplog: pytest.LogCaptureFixture, stream: bool) -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")
        with caplog.at_level("INFO", logger="perdure"):
            for model, status, code in (("500", 500, "provider_down"), ("400", 400, "provider_refused")):
                caplog.clear()
                await say(ana, "anthropic", f"a/{model}", FIRST, stream=stream)
                (line,) = [record for record in caplog.records if record.levelname == "WARNING"]
                found = json.loads(JsonLines().format(line))
                assert (found["upstream"], found["model"], found["status"]) == ("a", model, status)
                assert found["code"] == code
                assert "trace" not in found
            caplog.clear()
            await say(ana, "anthropic", "a/cut-mid-stream+tokens-9", FIRST, stream=True)
            (line,) = [record for record in caplog.records if record.levelname == "WARNING"]
            found = json.loads(JsonLines().format(line))
            assert (found["upstream"], found["model"]) == ("a", "cut-mid-stream+tokens-9")


async def test_what_cannot_get_better_is_not_asked_for_again() -> None:
    async with gatehouse() as (here, up):
        ana = await here.principal("ana")
        for model in ("html", "401"):
            reply = await say(ana, "openai-chat", f"c/{model}", FIRST)
            assert (reply.status, reply.headers["x-should-retry"]) == (502, "false")
        assert up.counts.requests == 2


async def test_what_nobody_thought_of_is_told_without_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gatehouse() as (here, _):
        ana = await here.principal("ana")

        async def broken(*_: Any) -> Any:
            raise RuntimeError("the secret of the house")

        monkeypatch.setattr(here.store.services("local").gateway, "record", broken)
        for form in FORMS:
            reply = await say(ana, form, "off/any", FIRST, "trip")
            told(form, reply, 500)
            assert b"secret" not in reply.body


def test_an_error_is_known_again_by_its_code() -> None:
    from perdure.core.errors import BudgetExhausted, ProviderBusy, TurnRefused

    assert type(shaping.known("budget_exhausted", "words", {})) is BudgetExhausted
    assert type(shaping.known("provider_busy", "words", {"status": 429})) is ProviderBusy
    assert type(shaping.known("nobody_said_this", "words", {})) is TurnRefused


def test_only_what_stands_in_for_a_provider_speaks_its_form() -> None:
    assert {row.path for row in endpoints() if row.form} == {
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/models",
    }
