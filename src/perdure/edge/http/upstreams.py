"""Who answers for models, as an operator writes it down: upstreams, where our keys for them are, bounds of turns.

A key is named, by a variable of the environment or by a file, rather than written down.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Tokens = Annotated[int, Meta(ge=1, lt=1 << 31)]
KEYS: Final = ("key_env", "key_file", "key")
"""The ways to say what a key is."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider of models: what it speaks, where it is, where our key for it is, and our patience."""

    kind: Annotated[
        Literal["anthropic", "openai-chat", "openai-responses", "offline"], Meta(description="what it speaks")
    ]
    base_url: Annotated[str, Meta(description="where it is; empty: the public address of who made up the form")] = ""
    models: Annotated[
        tuple[str, ...], Meta(description="models that it has; at another address nobody else knows which")
    ] = ()
    free: Annotated[bool, Meta(description="its models cost nothing, also where spending has a cap")] = False
    key_env: Annotated[str | None, Meta(description="the variable of the environment that has our key for it")] = None
    key_file: Annotated[str | None, Meta(description="the file that has our key for it, and nothing else")] = None
    key: Annotated[str | None, Meta(description="our key for it itself; better name a variable or a file")] = None
    headers: Annotated[dict[str, str], Meta(description="headers it wants besides")] = {}
    connect_timeout: Annotated[Seconds, Meta(description="seconds until it must be connected")] = 10.0
    first_byte_timeout: Annotated[
        Seconds,
        Meta(description="seconds until an answer must begin; one that is not streamed may take five times that"),
    ] = 120.0
    idle_timeout: Annotated[Seconds, Meta(description="seconds of silence that end an answer")] = 60.0
    retries: Annotated[int, Meta(ge=0, le=10, description="how often it is asked again")] = 2
    max_connections: Annotated[int, Meta(ge=1, le=10_000, description="connections to it at once")] = 200

    def __post_init__(self) -> None:
        given = [name for name in KEYS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]} both say what the key is; give one of them")

    def __repr__(self) -> str:
        """Without what is secret: the key and the headers."""
        return f"Provider(kind={self.kind!r}, base_url={self.base_url!r})"


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of every turn."""

    max_tokens: Annotated[Tokens, Meta(description="tokens of an answer, where nobody says")] = 4096
    window: Annotated[Tokens, Meta(description="tokens that fit into a model that nobody knows")] = 128_000
    max_rounds: Annotated[Tokens, Meta(description="answers in one turn")] = 64
    timeout: Annotated[Seconds, Meta(description="seconds a turn may take")] = 600.0
    tool_timeout: Annotated[Seconds, Meta(description="seconds a tool may take")] = 60.0
    queue_timeout: Annotated[Seconds, Meta(description="seconds a turn may wait for the one before it")] = 120.0


def without_secrets(upstreams: Mapping[str, Provider]) -> dict[str, Any]:
    """Upstreams as they may be shown: the keys and headers that stand there in the clear are left out."""
    return {
        name: {
            field: "…" if field == "key" else dict.fromkeys(value, "…") if field == "headers" else value
            for field, value in msgspec.structs.asdict(upstream).items()
            if value is not False and value not in (None, "", {}, ())
        }
        for name, upstream in upstreams.items()
    }
