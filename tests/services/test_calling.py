"""Asking again, asking others, leaving alone: counted at real servers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
import pytest

from perdure.core.errors import (
    Invalid,
    ProviderBusy,
    ProviderCut,
    ProviderDown,
    ProviderRefused,
    ProviderSlow,
    UnknownModel,
)
from perdure.core.talk.folding import folded
from perdure.core.talk.parts import Answer, Began, Ended
from perdure.core.talk.retrying import Fuse
from perdure.core.talk.routes import OFFLINE, Kind, Models
from perdure.ports.provider import Frame, Sending, Whole
from perdure.services.calling import Begun, Calling
from perdure.testing import FixedAmbient
from tests.providers.asking import KINDS, broken, own, sending, upstream_of
from upstream.server import Server, serving

FUSE = Fuse(failures=3, pause=5.0)


class Clock(FixedAmbient):
    """Keeps what was slept."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


def calling(
    server: Server, other: Server | None = None, *, kind: Kind = "anthropic", fuse: Fuse = FUSE, **more: Any
) -> tuple[Calling, Clock]:
    clock = Clock()
    upstreams = {"one": upstream_of(server, kind, name="one", **more)}
    if other is not None:
        upstreams["two"] = upstream_of(other, "openai-chat", name="two")
    models = Models(upstreams=upstreams, default="one/echo", fallbacks={"*": ("two/echo",)} if other else {})
    return Calling(models, clock, fuse=fuse), clock


async def read(begun: Begun) -> Answer:
    return folded([piece async for frame in begun.frames for piece in frame.pieces])


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_begins_with_its_first_frame(server: Server, kind: Kind) -> None:
    calls, clock = calling(server, kind=kind)
    begun = await calls.begin(calls.route(None), sending("whatever"))
    frames = [frame async for frame in begun.frames]
    await calls.close()
    assert isinstance(frames[0].pieces[0], Began)
    assert isinstance(frames[-1].pieces[-1], Ended)
    assert (begun.candidate.provider, begun.candidate.model, begun.candidate.form) == ("one", "echo", kind)
    assert clock.slept == []
    assert server.seen[0].body["model"] == "echo", "the candidate's model is asked, by whatever name it was asked for"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
async def test_a_busy_provider_is_asked_again_after_the_time_it_told(server: Server, whole: bool) -> None:
    calls, clock = calling(server)
    route = calls.route("one/429-then-ok+after-7")
    if whole:
        assert (await calls.whole(route, sending("x", key="k1"))).whole.answer.stop == "end"
    else:
        assert (await read(await calls.begin(route, sending("x", key="k1")))).stop == "end"
    await calls.close()
    assert len(clock.slept) == 1
    assert 7 <= clock.slept[0] < 8
    assert server.counts.keys == {"k1": 2}, "the key stays the same"


async def test_it_is_asked_as_often_as_its_upstream_allows(server: Server) -> None:
    calls, clock = calling(server, retries=2, fuse=Fuse())
    with pytest.raises(ProviderDown) as caught:
        await calls.begin(calls.route("one/500"), sending("x"))
    assert caught.value.status == 500
    assert server.counts.requests == 3
    assert len(clock.slept) == 2
    assert 0.25 <= clock.slept[0] <= 0.5 <= clock.slept[1] <= 1.0
    never, _ = calling(server, retries=0)
    with pytest.raises(ProviderDown):
        await never.whole(never.route("one/500"), sending("x"))
    assert server.counts.requests == 4
    await calls.close()
    await never.close()


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("cut-at-start", 3),
        ("html", 1),
        ("malformed-first", 1),
        ("overloaded", 3),
        ("overloaded-first", 3),
        ("400", 1),
        ("401", 1),
    ],
)
async def test_only_what_helps_is_tried_again(server: Server, model: str, asked: int) -> None:
    calls, _ = calling(server, fuse=Fuse())
    with pytest.raises(Exception, match="one"):
        await calls.begin(calls.route(f"one/{model}"), sending("x"))
    await calls.close()
    assert server.counts.requests == asked


async def test_who_asks_for_too_much_patience_is_not_waited_for(server: Server, other: Server) -> None:
    calls, clock = calling(server)
    with pytest.raises(ProviderBusy) as caught:
        await calls.whole(calls.route("one/429+after-3600"), sending("x"))
    assert caught.value.retry_after == 3600
    await calls.close()
    assert (clock.slept, server.counts.requests) == ([], 1)
    both, clock = calling(server, other)
    answered = await both.whole(both.route("one/429+after-7"), sending("x"))
    await both.close()
    assert answered.candidate.provider == "two", "where another can be asked, seven seconds are too long"
    assert clock.slept == []


# ── others ──


@pytest.mark.parametrize("model", ["500", "overloaded", "401", "404", "cut-at-start", "html"])
async def test_another_provider_answers_when_the_first_does_not(server: Server, other: Server, model: str) -> None:
    calls, _ = calling(server, other, fuse=Fuse())
    begun = await calls.begin(calls.route(f"one/{model}"), own("anthropic", "x"))
    answer = await read(begun)
    await calls.close()
    assert (begun.candidate.provider, begun.candidate.form) == ("two", "openai-chat")
    assert answer.stop == "end"
    assert other.seen[0].body["messages"][-1]["content"] == "hello there my friend", "translated for the other form"


async def test_a_request_that_is_wrong_is_wrong_everywhere(server: Server, other: Server) -> None:
    calls, _ = calling(server, other)
    with pytest.raises(ProviderRefused):
        await calls.whole(calls.route("one/400"), sending("x"))
    await calls.close()
    assert other.counts.requests == 0


async def test_who_cannot_be_told_what_is_asked_is_passed_over(server: Server, other: Server) -> None:
    calls, _ = calling(server, other)
    thinking = {"anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    asked = sending("x")
    asked = msgspec.structs.replace(asked, ask=msgspec.structs.replace(asked.ask, extra=thinking))
    with pytest.raises(ProviderDown):
        await calls.whole(calls.route("one/500"), asked)
    assert other.counts.requests == 0, "what the first choice told is heard"
    with pytest.raises(Invalid, match="thinking"):
        await calls.whole(calls.route("two/echo"), asked)
    await calls.close()


async def test_when_nobody_answers_the_first_choice_is_heard(server: Server, other: Server) -> None:
    calls, _ = calling(server, other)
    await other.stop()
    with pytest.raises(ProviderBusy) as caught:
        await calls.whole(calls.route("one/overloaded"), sending("x"))
    await calls.close()
    assert caught.value.provider == "one"


async def test_a_slow_provider_is_not_asked_twice(server: Server, other: Server) -> None:
    calls, _ = calling(server, other, first_byte_timeout=0.1)
    begun = await calls.begin(calls.route("one/hang"), sending("x"))
    assert begun.candidate.provider == "two"
    await read(begun)
    await calls.close()
    assert server.counts.requests == 1


async def test_once_something_was_said_nobody_else_is_asked(server: Server, other: Server) -> None:
    calls, clock = calling(server, other)
    begun = await calls.begin(calls.route("one/cut-mid-stream+tokens-50"), sending("x"))
    pieces, error = await broken(begun.frames)
    await calls.close()
    assert type(error) is ProviderCut
    assert len(pieces) > 10
    assert (server.counts.requests, other.counts.requests, clock.slept) == (1, 0, [])
    assert calls.breaker("one").failures == 1


# ── the breaker ──


async def test_a_breaker_opens_tells_when_and_heals(server: Server) -> None:
    calls, clock = calling(server, retries=0)
    for _ in range(3):
        with pytest.raises(ProviderDown):
            await calls.whole(calls.route("one/flaky-3"), sending("x"))
    with pytest.raises(ProviderDown, match="left alone") as caught:
        await calls.whole(calls.route("one/flaky-3"), sending("x"))
    assert caught.value.retry_after == 5.0
    assert server.counts.requests == 3, "a provider that is down is not asked"
    clock.advance(5)
    assert (await calls.whole(calls.route("one/flaky-3"), sending("x"))).whole.answer.stop == "end"
    assert calls.breaker("one").state == "closed"
    await calls.close()


async def test_while_a_breaker_is_open_the_other_is_asked_at_once(server: Server, other: Server) -> None:
    calls, clock = calling(server, other, retries=5)
    await calls.whole(calls.route("one/500"), sending("x"))
    assert server.counts.requests == 3, "a breaker that opens ends the tries"
    slept = list(clock.slept)
    answered = await calls.whole(calls.route("one/echo"), sending("x"))
    await calls.close()
    assert answered.candidate.provider == "two"
    assert (server.counts.requests, clock.slept) == (3, slept)


async def test_one_request_tries_a_provider_that_was_down_and_the_next_may_when_it_gives_up(server: Server) -> None:
    calls, clock = calling(server, retries=0)
    for _ in range(3):
        with pytest.raises(ProviderDown):
            await calls.whole(calls.route("one/500"), sending("x"))
    clock.advance(5)
    server.asked.clear()
    trying = asyncio.create_task(calls.whole(calls.route("one/hang"), sending("x")))
    await server.asked.wait()
    with pytest.raises(ProviderDown, match="left alone"):
        await calls.whole(calls.route("one/echo"), sending("x"))
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert (await calls.whole(calls.route("one/echo"), sending("x"))).whole.answer.stop == "end"
    await calls.close()


async def test_refusals_and_limits_of_our_own_do_not_open_it(server: Server) -> None:
    calls, _ = calling(server, retries=0)
    for model in ("400", "401", "429", "404") * 2:
        with pytest.raises(Exception, match="one"):
            await calls.whole(calls.route(f"one/{model}"), sending("x"))
    await calls.close()
    assert calls.breaker("one").state == "closed"


# ── going away ──


async def gone(server: Server) -> bool:
    for _ in range(500):
        if server.counts.disconnects and not server.counts.open:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_closing_frames_hangs_up_even_when_none_was_read(server: Server) -> None:
    calls, _ = calling(server)
    begun = await calls.begin(calls.route("one/tokens-1000+slow-10ms"), sending("x"))
    await begun.frames.aclose()
    assert await gone(server)
    with pytest.raises(StopAsyncIteration):
        await anext(begun.frames)
    await calls.close()


async def test_throwing_into_frames_hangs_up(server: Server) -> None:
    calls, _ = calling(server)
    begun = await calls.begin(calls.route("one/tokens-1000+slow-10ms"), sending("x"))
    await anext(begun.frames)
    with pytest.raises(KeyError):
        await begun.frames.athrow(KeyError("stop"))
    assert await gone(server)
    await calls.close()


async def test_a_cancelled_begin_hangs_up(server: Server) -> None:
    calls, _ = calling(server)
    task = asyncio.create_task(calls.begin(calls.route("one/hang"), sending("x")))
    await server.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(server)
    await calls.close()


# ── providers of one's own ──


class Silent:
    """Says nothing at all."""

    name = "one"
    form = ""

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        for frame in ():
            yield frame

    async def whole(self, sending: Sending) -> Whole:
        raise ProviderSlow("never", provider="one")

    async def close(self) -> None:
        pass


async def test_an_answer_that_never_begins_was_cut(server: Server) -> None:
    models = Models(upstreams={"one": upstream_of(server, "anthropic", name="one", retries=0)})
    calls = Calling(models, Clock(), {"one": Silent()})
    with pytest.raises(ProviderCut, match="before it began"):
        await calls.begin(calls.route("one/x"), sending("x"))
    assert server.counts.requests == 0


async def test_without_configuration_the_built_in_model_answers() -> None:
    calls = Calling(OFFLINE, Clock())
    answer = await read(await calls.begin(calls.route(None), sending("x")))
    whole = await calls.whole(calls.route("any-name"), sending("x"))
    assert answer.blocks == whole.whole.answer.blocks
    await calls.close()


def test_an_unknown_model_is_told_each_time() -> None:
    calls = Calling(OFFLINE, Clock())
    for _ in range(2):
        with pytest.raises(UnknownModel):
            calls.route("no/where")
