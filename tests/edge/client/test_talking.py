"""Turns at a server: rejoined where the way broke off, begun once, and their errors as the embedded library's."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import aclosing

import pytest

import perdure
from perdure.core.errors import NotFound, ProviderBusy, Refused, Unreachable
from perdure.core.talk.parts import Delta, Text
from perdure.core.talk.turning import (
    PieceCame,
    ToolRan,
    TurnBegan,
    TurnBroke,
    TurnEnded,
    TurnEvent,
    TurnOutcome,
    line_of,
)
from perdure.edge.http.api.turns import data_of
from perdure.models import HttpServer
from tests.edge.client.conftest import OWNER
from tests.edge.client.scripted import answer, scripted
from tests.edge.client.served import Served

SESSION = "0192f0c4-7d1e-7abc-8def-0123456789ab"
DONE = TurnOutcome(session=SESSION, turn=3, version=9, status="finished", content=(Text(text="one two"),))
EVENTS: list[TurnEvent] = [
    TurnBegan(turn=3, version=5),
    PieceCame(round=1, piece=Delta(index=0, text="one")),
    PieceCame(round=1, piece=Delta(index=0, text=" two")),
    TurnEnded(outcome=DONE),
]


def said(first: int, last: int, events: list[TurnEvent] = EVENTS) -> Callable[[socket.socket], None]:
    """A stream of some of the events, which then breaks off."""
    place, frames = 0, list[bytes]()
    for event in events:
        data = line_of(event)
        place += len(data)
        kind = str(event.__struct_config__.tag).encode()
        frames.append(b"id: 3:%d\nevent: %b\ndata: %b\n" % (place, kind, data_of(event, data)) + b"\n")
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

    def say(sock: socket.socket) -> None:
        sock.sendall(head + b"".join(frames[first:last]))

    return say


def asked(found: str, name: str) -> str:
    """A header of a request."""
    lines = [line.partition(":") for line in found.splitlines()[1:]]
    return next((value.strip() for key, _, value in lines if key.lower() == name), "")


def test_a_stream_that_breaks_off_is_rejoined_from_the_last_event() -> None:
    with scripted(said(0, 2), said(2, 3), said(3, 4)) as server, perdure.connect(server.url, "key") as db:
        session = db.named(SESSION)
        assert list(session.stream("count")) == EVENTS
        lines = [head.splitlines()[0].split()[:2] for head, _ in server.asked[2:]]
        assert lines == [
            ["POST", f"/v1/sessions/{SESSION}/messages"],
            ["GET", f"/v1/sessions/{SESSION}/turns/3/stream"],
            ["GET", f"/v1/sessions/{SESSION}/turns/3/stream"],
        ]
        places = [asked(head, "last-event-id") for head, _ in server.asked[2:]]
        assert places[0] == ""
        assert [place.partition(":")[0] for place in places[1:]] == ["3", "3"]
        assert int(places[1].partition(":")[2]) < int(places[2].partition(":")[2])


def test_an_answer_that_never_began_is_asked_for_again_under_the_same_key() -> None:
    with scripted(None, said(0, 0), said(0, 4)) as server, perdure.connect(server.url, "key") as db:
        assert db.named(SESSION).send("count") == DONE
        keys = server.keys("/messages")
        assert len(keys) == 3
        assert len(set(keys)) == 1


def test_what_broke_a_turn_is_raised_as_the_embedded_library_does() -> None:
    broke = TurnBroke(turn=3, code="provider_busy", detail="come back later", fields={"retry_after": 5})
    with scripted(said(0, 2, [EVENTS[0], broke])) as server, perdure.connect(server.url, "key") as db:
        with pytest.raises(ProviderBusy, match="come back later") as error:
            db.named(SESSION).send("count")
        assert error.value.fields == {"retry_after": 5}


def test_a_turn_that_somebody_ended_is_told_and_not_raised() -> None:
    broke = TurnBroke(turn=3, code="turn_interrupted", detail="turn 3 was interrupted")
    told = {
        "session_id": SESSION,
        "turn": 3,
        "version": 9,
        "status": "interrupted",
        "content": [],
        "text": "",
        "model": "m",
        "stop_reason": "",
        "usage": {"input": 3},
        "cost": 7,
        "estimated": True,
        "rounds": 1,
        "waiting": [],
        "reason": "crash",
        "cached": "",
    }
    script = (said(0, 2, [EVENTS[0], broke]), answer(200, told))
    with scripted(*script) as server, perdure.connect(server.url, "key") as db:
        outcome = db.named(SESSION).send("count")
        assert (outcome.status, outcome.reason, outcome.cost, outcome.usage.input) == ("interrupted", "crash", 7, 3)


def test_what_the_server_refuses_is_raised_at_once() -> None:
    problem = {"type": "x", "title": "x", "status": 404, "detail": "no", "code": "not_found", "fields": {}}
    with scripted(answer(404, problem)) as server, perdure.connect(server.url, "key") as db:
        with pytest.raises(NotFound):
            db.named(SESSION).send("count")
        assert server.count("/messages") == 1


def test_a_server_that_is_gone_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.edge.client.talking.GIVE_UP", 1)
    with (
        scripted(said(0, 2)) as server,
        perdure.connect(server.url, "key", timeout=0.3, retries=0) as db,
        pytest.raises(Unreachable),
    ):
        db.named(SESSION).send("count")


async def test_a_call_that_a_person_must_allow_is_answered_over_a_connection(server: Served, tenant: str) -> None:
    tooling = server._life._known().tenants.common.tooling

    def pay(amount: int) -> str:
        return f"paid {amount}"

    name = f"pay-{tenant}"
    tooling.register(name, pay, approval=True)
    async with perdure.aconnect(server.url, server.key_for(tenant, OWNER)) as db:
        session = await db.create("trip")
        outcome = await session.send(f'call {name} {{"amount": 5}}')
        assert outcome.status == "parked"
        [waiting] = await session.approvals()
        assert (waiting.name, waiting.arguments, waiting.approval) == (name, {"amount": 5}, True)
        done = await session.approve(waiting.id, note="fine")
        assert (done.status, done.text) == ("finished", f"{name} answered: paid 5.")
        [waiting] = (await session.send(f'call {name} {{"amount": 6}}')).waiting
        denied = await session.approve(waiting.id, allowed=False, note="too much")
        assert denied.text == f"{name} failed: denied: too much."


def test_tools_are_registered_where_the_server_runs(server: Served, tenant: str) -> None:
    key = server.key_for(tenant, OWNER)
    with perdure.connect(server.url, key) as db, pytest.raises(Refused, match="where the server runs"):
        db.tools.register("far", HttpServer(url="http://127.0.0.1:1/"))


async def test_a_running_turn_is_steered_and_interrupted_over_a_connection(server: Served, tenant: str) -> None:
    name = f"wait-{tenant}"

    async def wait() -> str:
        await asyncio.sleep(60)
        return "never"

    server._life._known().tenants.common.tooling.register(name, wait)
    async with perdure.aconnect(server.url, server.key_for(tenant, OWNER)) as db:
        session = await db.create("trip")

        async def waiting() -> None:
            async for event in session.stream(f"call {name} {{}}"):
                if isinstance(event, ToolRan):
                    return

        await waiting()
        await session.steer("Forget it")
        async with aclosing(session.stream("And now?", busy="enqueue")) as events:
            assert isinstance([event async for event in events][-1], TurnEnded)
        assert [turn.status for turn in await session.turns()] == ["finished", "finished"]
        await waiting()
        assert await session.interrupt("enough") is True
        assert [turn.status for turn in await session.turns()] == ["finished", "finished", "interrupted"]
