"""The same through real sockets: a server in its own process, raw connections and a WebSocket client."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from tests.edge.http.crowd import AMBIENT, UNHURRIED, Follower, Served, ask, crowd, served

NOTE = {"kind": "noted", "data": {"by": "test", "about": "text", "data": {"text": "hello"}}}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), "--no-seal", *UNHURRIED) as found:
        yield found


def socket(here: Served, session: str, **headers: str) -> Any:
    shown = {"Authorization": f"Bearer {here.key}"} | headers
    url = f"ws://{urlsplit(here.url).netloc}/v1/sessions/{session}/attach?surface=terminal"
    return connect(url, additional_headers=shown)


async def begun(here: Served) -> str:
    return str((await ask(here, "POST", "/v1/sessions", {"title": "trip"}))["session_id"])


async def hear(surface: ClientConnection, kind: str) -> Any:
    """The next message of a type."""
    while True:
        message = json.loads(await asyncio.wait_for(surface.recv(), 20))
        if message["type"] == kind:
            return message


async def test_a_crowd_is_told_everything_in_order(here: Served) -> None:
    found = await crowd(here, 40, 30)
    assert found.deliveries == 1200


async def test_a_crowd_that_comes_at_once_is_let_in_however_busy_the_server_is(tmp_path: Path) -> None:
    """A browser that is told to come back later never does: surfaces have a bound of their own."""
    with served(tmp_path, "--no-seal", "--max-concurrent", "2", *UNHURRIED) as here:
        found = await crowd(here, 60, 5, writers=1)
        assert found.deliveries == 300


async def test_terminal_and_stream_share_a_session(here: Served) -> None:
    session = await begun(here)
    follower = Follower()
    async with socket(here, session) as one, socket(here, session) as two:
        version = (await hear(one, "hello"))["version"]
        following = asyncio.create_task(follower.follow(here, session, version, version + 1))
        await one.send(json.dumps({"type": "append", "id": 1, "events": [NOTE]}))
        assert (await hear(one, "ack"))["version"] == version + 1
        assert (await hear(two, "event"))["event"]["version"] == version + 1
        await asyncio.wait_for(following, 20)
        await one.send("nonsense")
        assert (await hear(one, "problem"))["problem"]["status"] == 422
        await one.send(json.dumps({"type": "detach"}))
        await hear(two, "detached")
        await one.wait_closed()
        assert one.close_code == 1000


async def test_a_refusal_is_told_as_a_problem(here: Served) -> None:
    session = await begun(here)
    for headers, status in (({"Authorization": "Bearer x"}, 401), ({"Origin": "https://evil.example"}, 403)):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with socket(here, session, **headers):
                pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status


async def test_those_who_hang_up_leave_nothing_behind(here: Served) -> None:
    session = await begun(here)
    for _ in range(3):
        follower = Follower()
        await asyncio.wait_for(follower.follow(here, session, 0, 1), 20)
        async with socket(here, session) as surface:
            await hear(surface, "hello")
            surface.transport.abort()
    for _ in range(1000):
        shown = await metrics(here)
        if "perdure_surfaces 0.0" in shown:
            return
        await AMBIENT.sleep(0.01)
    raise AssertionError(shown)


async def metrics(here: Served) -> str:
    reader, writer = await asyncio.open_connection(*here.place)
    writer.write(f"GET /metrics HTTP/1.1\r\nhost: {urlsplit(here.url).netloc}\r\nconnection: close\r\n\r\n".encode())
    found = await reader.read()
    writer.close()
    return found.decode()


async def test_a_server_that_stops_tells_everybody_and_ends(tmp_path: Path) -> None:
    with served(tmp_path, "--no-seal") as here:
        session = await begun(here)
        follower = Follower()
        following = asyncio.create_task(follower.follow(here, session, 0, 10**9))
        async with socket(here, session) as surface:
            await hear(surface, "hello")
            while not follower.ids:
                await AMBIENT.sleep(0.01)
            here.process.terminate()
            assert (await hear(surface, "over"))["reason"] == "leaving"
            await surface.wait_closed()
            assert surface.close_code == 1001
        await asyncio.wait_for(following, 20)
        assert b"event: leaving\n" in follower.raw
        assert here.process.wait(20) in (0, -15)
        assert b"Traceback" not in (tmp_path / "server.log").read_bytes()
