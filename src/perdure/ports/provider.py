"""What asking a model takes: a provider that is asked and answers, whole or in pieces.

A provider speaks one wire form, or none (the built-in model). Where a client speaks the same form, its request goes
through as it came and the answer as it comes: `Sending.body` and `Frame.raw`. So nothing is lost in between that
perdure does not know.
"""

from collections.abc import AsyncGenerator
from typing import Any, Protocol

import msgspec

from perdure.core.talk.parts import Answer, Ask, Piece
from perdure.core.talk.routes import Form

__all__ = ["Form", "Frame", "Gate", "Provider", "Sending", "Whole"]


class Gate(Protocol):
    """What has to happen first, such as an `asyncio.Event`."""

    async def wait(self) -> object:
        """Returns when it has happened."""
        ...


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `body` is the client's own, if it speaks the provider's form; its model is then `ask.model`."""

    ask: Ask
    form: Form = ""
    body: dict[str, Any] | None = None
    headers: dict[str, str] = {}
    """Headers of the client's that the provider is to see, such as `anthropic-beta`."""
    query: str = ""
    key: str = ""
    """Stays the same when the request is tried again."""
    after: Gate | None = None
    """Before that nothing of it may reach who answers; it can be made ready meanwhile."""


class Frame(msgspec.Struct, frozen=True):
    """Some of an answer: what it says, and the bytes it came in if they can go on to the client as they are."""

    pieces: tuple[Piece, ...] = ()
    raw: bytes = b""


class Whole(msgspec.Struct, frozen=True):
    """A whole answer, and the document it came in if that can go on to the client as it is."""

    answer: Answer
    raw: bytes = b""


class Provider(Protocol):
    """Who answers for some models.

    Every failure is a `ProviderFailed` or a `ProviderRefused`; nothing else is raised. A stream ends with an `Ended` or
    a `Failed` piece, or raises; whoever stops early closes it, and the provider hangs up. Works under asyncio alone.
    """

    name: str
    form: Form

    def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        """The answer as it comes."""
        ...

    async def whole(self, sending: Sending) -> Whole:
        """The answer at once."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
