"""Providers over the wire, against real servers: what is asked arrives, what is said comes back, every failure has its
error, and bytes of the same form go through as they are.
"""

import asyncio
import socket
import sys

import msgspec
import pytest

from perdure.core.errors import (
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)
from perdure.core.talk.folding import folded
from perdure.core.talk.parts import Call, Ended, Result, Said, Text, Thought, Usage
from perdure.core.talk.routes import Kind
from perdure.ports.provider import Provider, Sending
from perdure.providers import http
from tests.providers.asking import KEY, KINDS, ask, broken, own, pieces_from, provider_of, sending, tool
from upstream.server import Server

every_kind = pytest.mark.parametrize("kind", KINDS)


async def failure(provider: Provider, sent: Sending, *, stream: bool) -> PerdureError:
    """What a request fails with."""
    with pytest.raises(PerdureError) as caught:
        await (pieces_from(provider, sent) if stream else provider.whole(sent))
    await provider.close()
    assert KEY not in str(caught.value) + repr(caught.value.fields)
    assert caught.value.model == sent.ask.model
    return caught.value


# ── answers ──


@every_kind
async def test_an_answer_is_the_same_whole_and_in_pieces(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    whole = (await provider.whole(sending("echo"))).answer
    pieces = await pieces_from(provider, sending("echo"))
    await provider.close()
    streamed = folded(pieces)
    assert [block.text for block in streamed.blocks if isinstance(block, Text)] == ["hello there my friend"]
    assert (whole.stop, whole.usage, whole.model) == (streamed.stop, streamed.usage, streamed.model)
    assert whole.usage.output == 4
    assert whole.usage.input > 0
    assert isinstance(pieces[-1], Ended)
    assert sum(isinstance(piece, Ended) for piece in pieces) == 1


@every_kind
async def test_tools_are_called_and_their_results_heard(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    asked = sending("tool:look,dig", 'with {"deep": [1, 2]}', tools=(tool("look"), tool("dig")))
    for answer in (folded(await pieces_from(provider, asked)), (await provider.whole(asked)).answer):
        calls = [block for block in answer.blocks if isinstance(block, Call)]
        assert [(call.name, call.arguments) for call in calls] == [
            ("look", {"deep": [1, 2]}),
            ("dig", {"deep": [1, 2]}),
        ]
        assert answer.stop == "tools"
    results = tuple(Result(call=call.id, content=(Text(text=f"found {call.name}"),)) for call in calls)
    history = (*asked.ask.messages, Said(role="assistant", blocks=tuple(calls)), Said(role="user", blocks=results))
    follow = msgspec.structs.replace(asked.ask, messages=history)
    answer = folded(await pieces_from(provider, Sending(ask=follow)))
    await provider.close()
    assert answer.stop == "end"
    said = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    assert said == "look, dig said: found look found dig"


async def test_thoughts_come_before_words(server: Server) -> None:
    provider = provider_of(server, "anthropic")
    answer = folded(await pieces_from(provider, sending("think+tokens-2")))
    await provider.close()
    thought, words = [block for block in answer.blocks if isinstance(block, Thought | Text)]
    assert isinstance(thought, Thought)
    assert (thought.text, thought.seal) == ("I should answer.", "c2lnbmVk")
    assert words == Text(text="w0 w1 ")


@every_kind
async def test_an_answer_that_reaches_its_limit_says_so(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    answer = folded(await pieces_from(provider, sending("tokens-2000")))
    await provider.close()
    assert (answer.stop, answer.usage.output) == ("length", 1000)


async def test_what_caches_hold_is_counted_apart(server: Server) -> None:
    provider = provider_of(server, "anthropic")
    system = (Text(text="long " * 1000, cached=True),)
    marked = Sending(ask=ask("echo", system=system))
    used = [folded(await pieces_from(provider, marked)).usage for _ in range(2)]
    await provider.close()
    assert used[0].cache_write == used[1].cache_read > 1000
    assert (used[0].cache_read, used[1].cache_write) == (0, 0)
    assert used[0].input == used[1].input > 0
    chat = provider_of(server, "openai-chat")
    both = [folded(await pieces_from(chat, marked)).usage for _ in range(2)]
    await chat.close()
    assert both[0].cache_read == 0
    assert both[1].cache_read >= 1024
    assert sum_of(both[0]) == sum_of(both[1])


def sum_of(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


# ── the same form on both sides ──


@every_kind
async def test_bytes_of_the_same_form_go_through_as_they_are(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    extra = {"stream_options": {"include_usage": True}} if kind == "openai-chat" else {}
    sent = own(kind, "comments+tokens-5", stream=True, new_field={"of": "theirs"}, **extra)
    frames = [frame async for frame in provider.stream(sent)]
    assert b"".join(frame.raw for frame in frames) == b"".join(server.sent)
    arrived = server.seen[-1].body
    assert arrived == {**(sent.body or {}), "model": "comments+tokens-5"}
    assert any(isinstance(piece, Ended) for piece in frames[-1].pieces)
    assert not any(isinstance(piece, Ended) for frame in frames[:-1] for piece in frame.pieces)
    assert frames[0].pieces, "nothing is handed on before the answer has begun"
    whole = await provider.whole(own(kind, "echo"))
    await provider.close()
    assert b'"hello there my friend"' in whole.raw


@every_kind
async def test_another_form_gets_no_bytes(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    assert [frame.raw async for frame in provider.stream(sending("echo")) if frame.raw] == []
    assert (await provider.whole(sending("echo"))).raw == b""
    await provider.close()


async def test_usage_that_only_we_asked_for_is_not_shown_to_the_client(server: Server) -> None:
    provider = provider_of(server, "openai-chat")
    frames = [frame async for frame in provider.stream(own("openai-chat", "tokens-3", stream=True))]
    await provider.close()
    relayed = b"".join(frame.raw for frame in frames)
    assert server.seen[-1].body["stream_options"] == {"include_usage": True}
    hidden = [frame for frame in server.sent if b'"choices":[]' in frame]
    assert len(hidden) == 1
    assert relayed == b"".join(frame for frame in server.sent if frame not in hidden)
    assert folded(piece for frame in frames for piece in frame.pieces).usage.output == 3


# ── what is sent ──


@every_kind
async def test_the_provider_sees_our_key_its_version_and_what_may_pass(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind, headers={"X-Ours": "yes"})
    theirs = {"Anthropic-Beta": "b1", "OpenAI-Beta": "b2", "Authorization": "Bearer theirs", "Cookie": "c=1"}
    await provider.whole(sending("echo", headers=theirs, query="beta=true", key="again-1"))
    await provider.whole(sending("echo", query="bad query#x"))
    await provider.close()
    seen = server.seen[0]
    assert seen.query == "beta=true"
    assert server.seen[1].query == ""
    assert (seen.headers["idempotency-key"], seen.headers["x-ours"]) == ("again-1", "yes")
    assert "cookie" not in seen.headers
    if kind == "anthropic":
        assert (seen.headers["x-api-key"], seen.headers["anthropic-version"]) == (KEY, "2023-06-01")
        assert seen.headers["anthropic-beta"] == "b1"
        assert "authorization" not in seen.headers
    else:
        assert (seen.headers["authorization"], seen.headers["openai-beta"]) == (f"Bearer {KEY}", "b2")
    assert server.counts.keys == {"again-1": 1}


async def test_connections_are_used_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = provider_of(server, "anthropic")
    made = 0
    connect = asyncio.get_running_loop().sock_connect

    async def counted(sock: socket.socket, address: object) -> None:
        nonlocal made
        made += 1
        await connect(sock, address)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", counted)
    for _ in range(3):
        await pieces_from(provider, sending("tokens-3"))
        await provider.whole(sending("echo"))
    await provider.close()
    assert made == 1


async def test_a_proxy_of_the_environment_is_not_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    provider = provider_of(server, "anthropic")
    await provider.whole(sending("echo"))
    await provider.close()
    assert server.counts.requests == 1


# ── failures ──


@every_kind
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("model", "kind_of_error"),
    [
        ("400", ProviderRefused),
        ("404", ProviderRefused),
        ("403", ProviderDenied),
        ("429", ProviderBusy),
        ("500", ProviderDown),
        ("overloaded", ProviderBusy),
        ("cut-at-start", ProviderDown),
        ("cut-mid-stream", ProviderCut),
        ("malformed-first", ProviderGarbled),
        ("malformed-chunk", ProviderGarbled),
        ("html", ProviderGarbled),
        ("redirect", ProviderGarbled),
    ],
)
async def test_every_failure_has_its_error(
    server: Server, kind: Kind, stream: bool, model: str, kind_of_error: type[PerdureError]
) -> None:
    error = await failure(provider_of(server, kind), sending(model), stream=stream)
    assert type(error) is kind_of_error
    assert error.retry_after == (1.0 if model == "429" else None)
    assert server.counts.requests == 1, "a provider asks once; who asks again is not its business"


@every_kind
async def test_an_error_with_status_200_is_one(server: Server, kind: Kind) -> None:
    for stream in (True, False):
        error = await failure(provider_of(server, kind), sending("error-200"), stream=stream)
        assert isinstance(error, ProviderBusy | ProviderDown)


@every_kind
async def test_a_stream_that_fails_in_the_middle_says_what_it_said_and_then_raises(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    for model, kind_of_error in (("overloaded-mid-stream", (ProviderBusy, ProviderDown)), ("silent-end", ProviderCut)):
        pieces, error = await broken(provider.stream(sending(f"{model}+tokens-20")))
        assert isinstance(error, kind_of_error)
        assert len(pieces) > 3
        assert not any(isinstance(piece, Ended) for piece in pieces)
    await provider.close()


@every_kind
async def test_a_prompt_beyond_the_window_is_told_in_the_providers_words(server: Server, kind: Kind) -> None:
    for stream in (True, False):
        error = await failure(provider_of(server, kind), sending("window-20", "word " * 100), stream=stream)
        assert type(error) is ProviderRefused
        assert error.too_long is True
        assert "context" in error.told or "prompt is too long" in error.told


@every_kind
async def test_a_wrong_key_is_denied_and_not_repeated(server: Server, kind: Kind) -> None:
    server._key = "another"
    error = await failure(provider_of(server, kind), sending("echo"), stream=True)
    assert type(error) is ProviderDenied


@every_kind
@pytest.mark.parametrize("model", ["hang", "hang-mid-stream+tokens-9"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_whoever_says_nothing_is_slow(server: Server, kind: Kind, model: str, stream: bool) -> None:
    patience = 0.3 if stream else 0.06
    provider = provider_of(server, kind, first_byte_timeout=patience, idle_timeout=0.1)
    assert type(await failure(provider, sending(model), stream=stream)) is ProviderSlow
    assert await hung_up(server)


async def test_where_nobody_listens_the_provider_is_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        provider = provider_of(f"http://127.0.0.1:{taken.getsockname()[1]}", "anthropic")
        assert type(await failure(provider, sending("echo"), stream=True)) is ProviderDown


@pytest.mark.skipif(sys.platform != "linux", reason="what a full queue of connections does differs")
async def test_who_does_not_take_the_connection_in_time_is_down() -> None:
    with socket.socket() as deaf, socket.socket() as one, socket.socket() as two:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for waiting in (one, two):
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        provider = provider_of(f"http://127.0.0.1:{deaf.getsockname()[1]}", "anthropic", connect_timeout=0.1)
        error = await failure(provider, sending("echo"), stream=True)
    assert type(error) is ProviderDown
    assert error.told == "no connection within 0.1 seconds"


@pytest.mark.parametrize(
    ("limit", "model", "stream"),
    [("WHOLE", "echo", False), ("STREAM", "tokens-50", True), ("EVENT", "tokens-50", True)],
)
async def test_no_answer_is_longer_than_it_may_be(
    server: Server, monkeypatch: pytest.MonkeyPatch, limit: str, model: str, stream: bool
) -> None:
    monkeypatch.setattr(http, limit, 100)
    sent = sending(model, "word " * 200)
    error = await failure(provider_of(server, "anthropic"), sent, stream=stream)
    assert type(error) is ProviderGarbled
    assert "longer than 100 bytes" in error.told


async def test_a_long_error_is_read_as_far_as_it_may_be(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ERROR", 10)
    error = await failure(provider_of(server, "anthropic"), sending("500"), stream=False)
    assert (error.status, error.told) == (500, '{"type":"e')


async def test_without_the_extra_one_is_told_how_to_get_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "perdure.providers.connecting", raising=False)
    monkeypatch.setitem(sys.modules, "httptools", None)
    error = await failure(provider_of(server, "anthropic"), sending("echo"), stream=True)
    assert "perdure[gateway]" in str(error)


async def test_what_is_no_http_is_garbled() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x00\xff SSH-2.0 hello\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(garbage, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        error = await failure(provider_of(f"http://127.0.0.1:{port}", "anthropic"), sending("echo"), stream=False)
    assert type(error) is ProviderGarbled


async def test_what_cannot_be_said_in_a_form_is_refused_before_it_is_sent(server: Server) -> None:
    error = await failure(provider_of(server, "anthropic"), sending("echo", "half \ud800"), stream=True)
    assert type(error) is ProviderRefused
    assert server.counts.requests == 0


# ── hanging up ──


async def hung_up(server: Server) -> bool:
    """Whether the server comes to know that its client is gone."""
    for _ in range(500):
        if server.counts.disconnects and not server.counts.open:
            return True
        await asyncio.sleep(0.01)
    return False


@every_kind
async def test_whoever_stops_reading_hangs_up(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    frames = provider.stream(sending("tokens-1000+slow-10ms"))
    await anext(frames)
    await frames.aclose()
    assert await hung_up(server)
    await provider.close()


@every_kind
async def test_a_cancelled_task_hangs_up(server: Server, kind: Kind) -> None:
    provider = provider_of(server, kind)
    for asking in (provider.whole(sending("hang")), pieces_from(provider, sending("tokens-1000+slow-10ms"))):
        task = asyncio.create_task(asking)
        await server.asked.wait()
        server.asked.clear()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await hung_up(server)
        server.counts.disconnects = 0
    await provider.close()
