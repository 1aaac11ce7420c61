"""Surfaces by WebSocket: they see the same events in the same order and each other, and write as requests do."""

import json
from typing import Any

import pytest

from perdure.core.access.roles import Role
from perdure.edge.http.live import socket
from perdure.edge.http.live.channel import NOTES
from tests.edge.http.attached import Socket, live, said, turns, until
from tests.edge.http.world import Client, World

NOTE = {"kind": "noted", "data": {"by": "test", "about": "text", "data": {"text": "hello"}}}
SAID = {"kind": "message", "data": {"role": "user", "content": "hi"}}
MISSING = "0192f0c4-7d1e-7abc-8def-0123456789ab"


async def begun(here: World, name: str = "ana") -> tuple[Client, str]:
    """Somebody, and a session of theirs."""
    client = await here.principal(name)
    return client, await client.begun(title="trip")


def at(session: str, surface: str = "terminal", **query: Any) -> str:
    return f"/v1/sessions/{session}/attach?surface={surface}" + "".join(f"&{key}={query[key]}" for key in query)


# ── together ──


async def test_all_surfaces_see_the_same_events_in_the_same_order_whoever_writes() -> None:
    async with live(session_burst=10_000) as (here, _):
        client, session = await begun(here)
        surfaces = [Socket(client, at(session, kind)) for kind in ("terminal", "web", "bot")]
        for surface in surfaces:
            await surface.hears("hello")
        for number in range(20):
            surfaces[number % 3].say("append", id=number, events=[NOTE])
        await said(client, session, "by request")
        for surface in surfaces:
            await surface.hears("event", 21)
        seen = [[message["event"] for message in surface.heard("event")] for surface in surfaces]
        assert seen[0] == seen[1] == seen[2]
        start = surfaces[0].heard("hello")[0]["version"]
        assert [event["version"] for event in seen[0]] == list(range(start + 1, start + 22))
        assert (await client.get(f"/v1/sessions/{session}/events?after={start}")).json["items"] == seen[0]
        acks = [message["version"] for surface in surfaces for message in surface.heard("ack")]
        assert len(set(acks)) == 20


async def test_surfaces_know_who_else_is_there() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        first = Socket(client, at(session, "terminal", name="desk"))
        me = (await first.hears("hello"))["you"]
        assert (me["kind"], me["name"], me["principal"]) == ("terminal", "desk", "ana")
        second = Socket(client, at(session, "web", name="phone"))
        hello = await second.hears("hello")
        assert hello["attached"] == [me]
        assert (await first.hears("attached"))["who"] == hello["you"]
        second.say("presence", state={"looks": "at the map"})
        second.say("typing")
        assert (await first.hears("presence"))["state"] == {"looks": "at the map"}
        assert await first.hears("typing") == {"type": "typing", "surface": hello["you"]["surface"], "on": True}
        third = Socket(client, at(session, "bot"))
        assert [who.get("state") for who in (await third.hears("hello"))["attached"]] == [None, {"looks": "at the map"}]
        await second.hang_up()
        assert (await first.hears("detached"))["who"]["surface"] == hello["you"]["surface"]
        assert second.heard("typing") == second.heard("presence") == []


async def test_presence_stays_in_the_session() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        other = Socket(client, at(await client.begun(title="other")))
        await other.hears("hello")
        here_too = Socket(client, at(session))
        await here_too.hears("hello")
        here_too.say("typing")
        other.say("ping", id="p")
        await other.hears("pong")
        assert {message["type"] for message in other.messages} == {"hello", "pong"}


async def test_so_much_coming_and_going_is_told_at_once() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        slow, busy = Socket(client, at(session)), Socket(client, at(session, "bot"))
        await slow.hears("hello")
        await busy.hears("hello")
        slow.open.clear()
        for number in range(80):
            busy.say("presence", state=number)
        (channel,) = here.node.hub.channels.values()
        await until(lambda: channel.noted >= 80)
        for _ in range(NOTES + 100):
            channel.note("x", b'{"type":"typing","surface":"x","on":true}')
        slow.open.set()
        told = await slow.hears("surfaces")
        assert [who["state"] for who in told["attached"]] == [79]


async def test_one_goes_on_at_another_surface_from_the_last_version() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        desk = Socket(client, at(session))
        await desk.hears("hello")
        desk.say("append", events=[NOTE])
        seen = (await desk.hears("event"))["event"]["version"]
        await desk.hang_up()
        last = await said(client, session, "meanwhile", "and more")
        phone = Socket(client, at(session, "web", after=seen))
        await phone.hears("event", 2)
        assert [message["event"]["version"] for message in phone.heard("event")] == [seen + 1, last]
        assert (await phone.hears("hello"))["after"] == seen


# ── writing ──


async def test_a_write_has_the_meaning_of_the_same_request() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session))
        version = (await surface.hears("hello"))["version"]
        surface.say("append", id="a", events=[NOTE], key="once", expected=version)
        surface.say("append", id="b", events=[NOTE], key="once", expected=version)
        surface.say("append", id="c", events=[NOTE, NOTE], key="once", expected=version)
        surface.say("append", id="d", events=[NOTE], expected=version)
        surface.say(
            "append", id="e", events=[{"kind": "message", "data": {"role": "user", "content": "hi"}}], arrange=True
        )
        await surface.hears("ack", 3)
        await surface.hears("problem", 2)
        acks = [(message["id"], message["version"]) for message in surface.heard("ack")]
        assert acks[:2] == [("a", version + 1), ("b", version + 1)]
        problems = [(message["id"], message["problem"]["code"]) for message in surface.heard("problem")]
        assert problems == [("c", "key_reused"), ("d", "version_conflict")]
        same = {"idempotency-key": "once", "if-match": f'"{version}"'}
        again = await client.post(f"/v1/sessions/{session}/events", {"events": [NOTE]}, headers=same)
        assert again.json["version"] == version + 1
        events = (await client.get(f"/v1/sessions/{session}/events?after={version}")).json["items"]
        assert {event["actor"] for event in events} == {"ana"}


async def test_one_who_may_only_read_may_not_write() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        key = await here.store.directory.add_key("local", "ana", by=None, scopes=("read:log",))
        surface = Socket(Client(here, key.spelled), at(session))
        await surface.hears("hello")
        surface.say("append", id=1, events=[NOTE])
        problem = (await surface.hears("problem"))["problem"]
        assert (problem["status"], problem["code"]) == (403, "denied")
        last = await said(client, session, "still told")
        assert (await surface.hears("event"))["event"]["version"] == last


async def test_a_revoked_key_writes_nothing_more() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        key = await here.store.directory.add_key("local", "ana", by=None)
        surface = Socket(Client(here, key.spelled), at(session))
        version = (await surface.hears("hello"))["version"]
        await here.store.directory.revoke_key("local", key.key.id, by=None)
        surface.say("append", events=[NOTE])
        assert await surface.over() == 4003
        assert (await client.get(f"/v1/sessions/{session}")).json["version"] == version
        assert surface.messages[-1]["reason"] == "access"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "null",
        "1",
        '"append"',
        "{}",
        '{"type": 1}',
        '{"type": "nothing"}',
        '{"type": "append"}',
        '{"type": "append", "events": 1}',
        '{"type": "append", "events": [{"kind": "no_such_kind"}]}',
        '{"type": "append", "events": [], "expected": "x"}',
        '{"type": "append", "events": [], "expected": 1.5}',
        '{"type": "append", "events": [], "key": 7}',
        '{"type": "append", "events": [], "key": "a\\nb"}',
        '{"type": "append", "events": [], "more": true}',
        '{"type": "append", "id": {}, "events": []}',
        '{"type": "ping", "id": "' + "x" * 300 + '"}',
        '{"type": "ping", "what": 1}',
        '{"type": "typing", "on": "yes"}',
        '{"type": "presence"}',
        '{"type": "presence", "state": "' + "x" * 5000 + '"}',
        '{"type": "ping", "x": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"type": "append", "events": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type": "ping", "id": "\\ud800"}',
        '{"type": "presence", "state": "\\ud800"}',
    ],
)
async def test_a_message_that_makes_no_sense_is_answered_and_no_more(text: str) -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface, other = Socket(client, at(session)), Socket(client, at(session))
        await surface.hears("hello")
        await other.hears("hello")
        surface.say_text(text)
        problem = (await surface.hears("problem"))["problem"]
        assert 400 <= problem["status"] < 500
        surface.say("ping", id="alive")
        assert await surface.hears("pong") == {"type": "pong", "id": "alive"}
        assert {message["type"] for message in other.messages} <= {"hello", "attached"}


async def test_binary_and_oversized_messages_are_answered() -> None:
    async with live(max_body=2048) as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session))
        surface.say_bytes(b"\xff\x00")
        surface.say("append", events=[{**NOTE, "agent": "x" * 4000}])
        await surface.hears("problem", 2)
        assert [message["problem"]["status"] for message in surface.heard("problem")] == [422, 413]


async def test_one_who_says_too_much_is_read_later_and_loses_nothing() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session))
        await surface.hears("hello")
        for number in range(socket.MESSAGES.burst + 10):
            surface.say("ping", id=number)
        await turns(20)
        assert len(surface.heard("pong")) <= socket.MESSAGES.burst + 2
        await surface.hears("pong", socket.MESSAGES.burst + 10)
        assert [message["id"] for message in surface.heard("pong")] == list(range(socket.MESSAGES.burst + 10))


async def test_one_who_takes_no_answers_is_read_no_further() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session))
        await surface.hears("hello")
        surface.open.clear()
        for number in range(socket.ANSWERS + 20):
            surface.say("ping", id=number)
        (attached,) = here.node.hub.surfaces
        await until(lambda: len(attached.answers) >= socket.ANSWERS - 1)
        await turns(50)
        assert len(attached.answers) <= socket.ANSWERS
        surface.open.set()
        await surface.hears("pong", socket.ANSWERS + 20)


# ── how it ends ──


async def test_detaching_closes_in_peace_and_is_told() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        stays, goes = Socket(client, at(session)), Socket(client, at(session))
        await stays.hears("hello")
        await goes.hears("hello")
        goes.say("detach")
        assert await goes.over() == 1000
        await stays.hears("detached")
        await stays.hang_up()
        hub = here.node.hub
        assert (hub.surfaces, hub.channels, hub.passes._passes) == (set(), {}, {})


async def test_erasing_leaving_and_losing_access_have_codes_of_their_own() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        other = await client.begun(title="other")
        erased, left = Socket(client, at(session)), Socket(client, at(other))
        token = (await client.post(f"/v1/sessions/{other}/tokens", {"ttl": 5})).json["access_token"]
        expired = Socket(Client(here, token), at(other))
        for surface in (erased, left, expired):
            await surface.hears("hello")
        await client.delete(f"/v1/sessions/{session}")
        assert await erased.over() == 4004
        await clock.pass_by(6)
        assert await expired.over() == 4003
        assert expired.messages[-1]["problem"]["code"] == "token_expired"
        await here.node.hub.leave()
        assert await left.over() == 1001
        assert left.messages[-1] == {"type": "over", "reason": "leaving", "problem": None}


async def test_silence_is_broken_by_heartbeats() -> None:
    async with live() as (here, clock):
        client, session = await begun(here)
        surface = Socket(client, at(session))
        await surface.hears("hello")
        await clock.pass_by(15)
        assert (await surface.hears("heartbeat"))["at"] > 0


# ── who gets in ──


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:7464.evil.example"}, 403),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer nonsense"}, 401),
        ({"authorization": "", "cookie": "perdure=abc"}, 403),
        ({"authorization": "", "cookie": "perdure=abc", "origin": "https://evil.example"}, 403),
        ({"authorization": "", "cookie": "perdure=abc", "origin": "http://127.0.0.1:7464"}, 401),
    ],
)
async def test_a_foreign_page_a_wrong_name_and_a_stranger_are_refused(headers: dict[str, str], status: int) -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session), headers)
        assert await surface.over() == status
        assert surface.accepted is None
        assert json.loads(surface.body)["status"] == status


async def test_the_servers_own_page_gets_in() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, at(session, "web"), {"origin": "http://127.0.0.1:7464"})
        await surface.hears("hello")


async def test_a_browser_shows_its_token_as_a_protocol_which_is_never_said_back() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        token = (await client.post(f"/v1/sessions/{session}/tokens", {})).json["access_token"]
        for shown in (token, client.credential):
            surface = Socket(Client(here), at(session, "web"), {}, "perdure", f"perdure.bearer.{shown}")
            await surface.hears("hello")
            assert surface.accepted["subprotocol"] == "perdure"
            assert str(shown) not in json.dumps([surface.accepted, surface.messages])
        refused = Socket(Client(here), at(session, "web"), {}, "perdure", "perdure.bearer.nonsense")
        assert await refused.over() == 401


async def test_listening_does_not_keep_a_sign_in_alive_and_writing_does() -> None:
    async with live(sign_in_idle=60) as (here, clock):
        _, session = await begun(here)
        principal = await here.store.directory.principal("local", "ana")
        signin = here.node.entrance.entry.signin
        surfaces = []
        for _ in range(2):
            signed = await signin.enter(await signin.code(principal.id))
            headers = {"cookie": f"perdure={signed.cookie}", "origin": "http://127.0.0.1:7464"}
            surfaces.append(Socket(Client(here), at(session, "web"), headers))
        listener, writer = surfaces
        await listener.hears("hello")
        await writer.hears("hello")
        await clock.pass_by(45)
        writer.say("append", events=[NOTE])
        await writer.hears("ack")
        await clock.pass_by(30)
        assert await listener.over() == 4003
        writer.say("ping")
        await writer.hears("pong")


async def test_a_foreign_session_looks_as_a_missing_one() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        neighbour = await here.principal("cy", Role.OWNER, tenant="other")
        foreign, missing = Socket(neighbour, at(session)), Socket(client, at(MISSING))
        assert (await foreign.over(), await missing.over()) == (404, 404)
        assert foreign.body == missing.body


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/v1/sessions/{}/attach", 422),
        ("/v1/sessions/{}/attach?surface=fridge", 422),
        ("/v1/sessions/{}/attach?surface=web&after=99", 422),
        ("/v1/sessions/{}/attach?surface=web&colour=red", 422),
        ("/v1/sessions/x/attach?surface=web", 404),
        ("/v1/sessions/{}/events", 404),
        ("/", 404),
    ],
)
async def test_what_cannot_be_attached_is_told_why(target: str, status: int) -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        surface = Socket(client, target.format(session))
        assert await surface.over() == status


async def test_there_is_room_for_so_many() -> None:
    async with live(max_session_surfaces=1) as (here, _):
        client, session = await begun(here)
        first = Socket(client, at(session))
        await first.hears("hello")
        assert await Socket(client, at(session)).over() == 429


async def test_plain_http_is_told_to_upgrade() -> None:
    async with live() as (here, _):
        client, session = await begun(here)
        reply = await client.get(at(session))
        assert (reply.status, reply.json["code"]) == (426, "upgrade_required")
