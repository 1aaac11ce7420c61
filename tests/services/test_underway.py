"""Questions on their way: nothing of one reaches a provider before it may, and nothing at all when it may not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure.core.talk.folding import Folding
from perdure.core.talk.routes import OFFLINE, Kind, Models
from perdure.ports.provider import Sending
from perdure.services.calling import Calling
from perdure.services.underway import Underway
from perdure.testing import FixedAmbient
from tests.providers.asking import KEY, KINDS, ask, upstream_of
from upstream.server import Server, serving

TURNS = 200
"""Turns of the loop, each with a pause, in which a request that is not held back has long arrived."""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving(key=KEY) as running:
        yield running


@pytest.fixture
async def calling(server: Server) -> AsyncIterator[Calling]:
    upstreams = {**OFFLINE.upstreams, **{kind: upstream_of(server, kind, retries=0) for kind in KINDS}}
    made = Calling(Models(upstreams=upstreams), FixedAmbient())
    yield made
    await made.close()


def asked(calling: Calling, model: str, *, stream: bool) -> Underway:
    return Underway(calling, calling.route(model), Sending(ask=ask(model.partition("/")[2], stream=stream)))


async def a_while() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0.001)


async def heard(underway: Underway, *, stream: bool) -> str:
    if not stream:
        return (await underway.whole()).whole.answer.stop
    folding = Folding()
    async for frame in (await underway.begun()).frames:
        for piece in frame.pieces:
            folding.take(piece)
    return folding.answer().stop


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_provider_hears_nothing_before_it_may(
    server: Server, calling: Calling, kind: Kind, stream: bool
) -> None:
    for number in (1, 2):  # over a new connection, and over one that is there
        underway = asked(calling, f"{kind}/echo", stream=stream)
        await a_while()
        assert server.counts.requests == number - 1
        underway.send()
        assert await heard(underway, stream=stream) == "end"
        assert server.counts.requests == number


@pytest.mark.parametrize("stream", [False, True])
async def test_who_may_not_ask_does_not_and_others_still_can(server: Server, calling: Calling, stream: bool) -> None:
    for _ in range(3):
        dropped = asked(calling, "openai-chat/echo", stream=stream)
        await a_while()
        dropped.drop()
        with pytest.raises(asyncio.CancelledError):
            await heard(dropped, stream=stream)
    assert server.counts.requests == 0
    underway = asked(calling, "openai-chat/echo", stream=stream)
    underway.send()
    assert await heard(underway, stream=stream) == "end"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_built_in_model_waits_as_well(calling: Calling, stream: bool) -> None:
    underway = asked(calling, "offline/echo", stream=stream)
    waiting = asyncio.create_task(heard(underway, stream=stream))
    await a_while()
    assert not waiting.done()
    underway.send()
    assert await waiting == "end"
