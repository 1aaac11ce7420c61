"""What a client is told of a mistake names what would be right."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.access.roles import Action, Actor, Decision, Reason, Role, Thing, Verb
from perdure.core.errors import Denied, Invalid
from perdure.edge.http.api.sessions import CreateBody
from perdure.edge.http.asking import allowed
from perdure.edge.http.faults import EDGE
from perdure.edge.http.problems import STATUS
from perdure.edge.http.wire import LONGEST, MOST_NAMES, fitted
from tests.edge.http.world import Client, Reply, world

READ_TURNS = Action(Verb.READ, Thing.TURNS)


def told(reply: Reply, code: str = "invalid") -> str:
    """The words of a refusal for what was sent."""
    assert (reply.status, reply.json["code"]) == (422, code), reply
    return str(reply.json["detail"])


@pytest.mark.parametrize(
    ("body", "says", "at"),
    [
        (
            {"isolation": {"model": "desk"}},
            "'desk' is not one of nested, per_agent, per_task, per_user, or empty",
            "$.isolation.model",
        ),
        (
            {"isolation": {"agents": {"planner": "all"}}},
            "'all' is not one of none, read, read_write",
            "$.isolation.agents[...]",
        ),
        ({"isolation": {"user": ["vic"]}}, "there is no `user`; there are model, task, users, agents", "$.isolation"),
        ({"titel": "x"}, "there is no `titel`; there are agent_id, config, title, owner, name, tags, metadata", "$"),
        ({"title": 3}, "Expected `str`, got `int`", "$.title"),
    ],
)
async def test_a_body_that_does_not_fit_is_told_what_would(body: dict[str, Any], says: str, at: str) -> None:
    async with world() as there:
        ana = await there.principal("ana")
        reply = await ana.post("/v1/sessions", body)
        assert told(reply).startswith(says)
        assert reply.json["fields"]["at"] == at


async def test_a_missing_field_an_unknown_role_and_a_query_are_told_plainly() -> None:
    async with world() as there:
        ana, root = await there.principal("ana"), await there.principal("root", Role.ADMIN)
        id = await ana.begun()
        assert told(await ana.post(f"/v1/sessions/{id}/merge", {})) == "`source` is missing; give it"
        nested = await ana.post(f"/v1/sessions/{id}/events", {"events": [{"data": {}}]})
        assert told(nested) == "`kind` is missing; give it - at `$.events[0]`"
        policy = await root.put("/v1/policies", {"fields": [{"path": "vars.a", "read": ["boss"]}]})
        assert told(policy) == "'boss' is not one of owner, agent, viewer, auditor, admin - at `$.fields[0].read[0]`"
        watch = await there.principal("watch", Role.AUDITOR)
        listed = told(await watch.get("/v1/audit?outcome=perhaps"))
        assert listed == "'perhaps' is not one of allowed, denied, flagged - at `$.outcome`"
        assert told(await ana.get("/signin")) == "`code` is missing; give it"


@pytest.mark.parametrize("depth", [480, 500, 700, 900, 1000])
async def test_what_is_nested_too_deep_is_told_so_wherever_it_stands(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    async with world() as there:
        ana, nobody = await there.principal("ana"), Client(there)
        events = f"/v1/sessions/{await ana.begun()}/events"
        for client, path, body in (
            (nobody, "/v1/tokens/refresh", b'{"refresh_token": %s}'),
            (nobody, "/v1/tokens/refresh", b'{"nobody_knows": %s}'),
            (ana, "/v1/sessions", b'{"title": %s}'),
            (ana, "/v1/memory", b'{"content": [%s]}'),
            (ana, events, b'{"events": [{"kind": %s}]}'),
        ):
            reply = await client.post(path, raw=body % deep, headers={"content-type": "application/json"})
            assert "nested too deep" in told(reply, "too_deep"), (path, reply)


def test_what_is_told_back_is_short_whatever_was_sent() -> None:
    for wrong in ({"n" * 5000: 1}, {"isolation": {"model": "m" * 5000}}):
        with pytest.raises(Invalid) as caught:
            fitted(wrong, CreateBody)
        assert len(caught.value.message) < 2 * LONGEST + 400
    many = msgspec.defstruct("Many", [(f"f{n}", int, 0) for n in range(30)], forbid_unknown_fields=True)
    with pytest.raises(Invalid) as caught:
        fitted({"x": 1}, many)
    assert caught.value.message.count(", ") == MOST_NAMES
    assert caught.value.message.endswith(", …")


async def test_a_field_rule_for_what_no_session_has_is_refused_and_names_what_there_is() -> None:
    async with world() as there:
        root = await there.principal("root", Role.ADMIN)
        reply = await root.put("/v1/policies", {"fields": [{"path": "salary", "read": ["owner"]}]})
        assert "title, tags, metadata, config, vars, scratchpad, turns" in told(reply)
        assert reply.json["fields"]["field"] == "salary"
        for path in ("turns", "conversation", "*.secret", "scratchpad.planner", "vars.salary"):
            taken = await root.put("/v1/policies", {"fields": [{"path": path, "read": ["owner"]}]})
            assert taken.status == 200, taken


async def test_facts_of_a_refusal_are_bare_texts() -> None:
    async with world() as there:
        root = await there.principal("root", Role.ADMIN)
        for method, path, fact in (
            ("GET", "/v1/principals/nobody", "principal"),
            ("PATCH", "/v1/principals/nobody", "principal"),
            ("DELETE", "/v1/keys/nobody", "key"),
            ("DELETE", "/v1/webhooks/nobody", "webhook"),
        ):
            reply = await root.ask(method, path, {} if method == "PATCH" else None)
            assert (reply.status, reply.json["fields"]) == (404, {fact: "nobody"}), reply
        reply = await root.post("/v1/principals", {"name": "a#b"})
        assert reply.json["fields"] == {"name": "a#b"}


async def test_a_redacted_message_says_that_it_is_one() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        said = [{"kind": "message", "data": {"role": "user", "content": text}} for text in ("kept", "secret")]
        version = (await ana.post(f"/v1/sessions/{id}/events", {"events": said})).json["version"]
        await ana.post(f"/v1/sessions/{id}/redact", {"versions": [version]})
        turn = (await ana.get(f"/v1/sessions/{id}/turns")).json["items"][0]
        assert turn["messages"] == [{"role": "user", "content": "kept"}, {"redacted": True}]


@pytest.mark.parametrize("reason", [Reason.ROLE, Reason.ISOLATION, Reason.FIELD])
@pytest.mark.parametrize(
    ("roles", "scopes", "action", "hears"),
    [
        ({Role.ADMIN}, ("*",), READ_TURNS, True),
        ({Role.OWNER, Role.ADMIN}, ("*",), READ_TURNS, True),
        ({Role.OWNER, Role.VIEWER}, ("*",), READ_TURNS, False),
        ({Role.ADMIN}, ("read:*",), READ_TURNS, False),
        ({Role.ADMIN}, ("*",), Action(Verb.DELETE, Thing.LOG), False),
    ],
)
def test_only_an_admin_whom_it_would_help_hears_how_the_glass_is_broken(
    reason: Reason, roles: set[Role], scopes: tuple[str, ...], action: Action, hears: bool
) -> None:
    actor = Actor(tenant="t", principal="prn_1", name="ann", roles=frozenset(roles), scopes=scopes)
    with pytest.raises(Denied) as caught:
        allowed(Decision(False, reason), action, actor)
    assert ("perdure-override" in caught.value.message) is hears


async def test_a_suspended_session_goes_on_by_a_bare_resume_or_by_two_moves() -> None:
    async with world() as there:
        ana = await there.principal("ana")
        id = await ana.begun()
        moves = f"/v1/sessions/{id}/transitions"
        await ana.post(moves, {"event": "suspend"})
        woken = await ana.post(f"/v1/sessions/{id}/resume")
        assert (woken.status, woken.json["phase"], woken.json["branched"]) == (200, "active", False)
        await ana.post(moves, {"event": "suspend"})
        assert (await ana.post(moves, {"event": "resume"})).status == 200
        assert (await ana.get(f"/v1/sessions/{id}")).json["phase"] == "resumed"
        assert (await ana.post(moves, {"event": "complete"})).status == 409
        assert (await ana.post(moves, {"event": "reactivate"})).status == 200
        assert (await ana.post(moves, {"event": "complete"})).status == 200
        other = await ana.begun()
        for move in ("suspend", "resume"):
            await ana.post(f"/v1/sessions/{other}/transitions", {"event": move})
        assert (await ana.post(f"/v1/sessions/{other}/resume")).json["phase"] == "active"


def test_the_page_names_every_status_that_a_problem_can_have() -> None:
    page = (Path(__file__).parents[3] / "docs" / "SERVER.md").read_text()
    errors = page.partition("- **Errors**")[2].partition("\n- **")[0]
    assert {int(status) for status in {*STATUS.values(), *EDGE.values()} if f"{int(status)} " not in errors} == set()
