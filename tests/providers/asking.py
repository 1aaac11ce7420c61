"""Upstreams, asks and bodies for the tests of providers."""

from collections.abc import AsyncGenerator
from typing import Any

from perdure.core.errors import PerdureError
from perdure.core.talk import anthropic, chat, responses
from perdure.core.talk.parts import Ask, Piece, Said, Text, Tool
from perdure.core.talk.routes import Form, Kind, Upstream
from perdure.ports.provider import Frame, Provider, Sending
from perdure.providers.making import made
from upstream.server import Server

KEY = "sk-secret-of-ours"
KINDS: tuple[Kind, ...] = ("anthropic", "openai-chat", "openai-responses")
TO = {"anthropic": anthropic.ask_to, "openai-chat": chat.ask_to, "openai-responses": responses.ask_to}


def upstream_of(server: Server | str, kind: Kind, **more: Any) -> Upstream:
    """The server as an upstream of this kind."""
    url = server if isinstance(server, str) else server.url
    base = url if kind == "anthropic" else f"{url}/v1"
    return Upstream(name=more.pop("name", kind), kind=kind, base_url=base, key=KEY, **more)


def provider_of(server: Server | str, kind: Kind, **more: Any) -> Provider:
    """The provider for it."""
    return made(upstream_of(server, kind, **more))


def ask(model: str, words: str = "hello there my friend", **more: Any) -> Ask:
    """A plain ask."""
    return Ask(model=model, messages=(Said(role="user", blocks=(Text(text=words),)),), max_tokens=1000, **more)


def sending(model: str, words: str = "hello there my friend", **more: Any) -> Sending:
    """An ask in the common form."""
    return Sending(ask=ask(model, words, tools=more.pop("tools", ())), **more)


def own(kind: Form, model: str, words: str = "hello there my friend", **extra: Any) -> Sending:
    """An ask as a client of the same form sends it."""
    asked = ask(model, words)
    return Sending(ask=asked, form=kind, body={**TO[kind](asked), "model": "as-the-client-calls-it", **extra})


def tool(name: str) -> Tool:
    """A tool that takes anything."""
    return Tool(name=name, description="does it", schema={"type": "object"})


async def broken(frames: AsyncGenerator[Frame, None]) -> tuple[list[Piece], PerdureError]:
    """What was said before a stream broke off, and what it broke off with."""
    said: list[Piece] = []
    try:
        async for frame in frames:
            said += frame.pieces
    except PerdureError as error:
        return said, error
    raise AssertionError("the stream did not break off")


async def pieces_from(provider: Provider, sent: Sending) -> list[Piece]:
    """All pieces of a stream."""
    return [piece async for frame in provider.stream(sent) for piece in frame.pieces]
