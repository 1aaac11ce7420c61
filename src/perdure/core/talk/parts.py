"""What is said to a model and what it says: messages made of blocks, asked for whole or as pieces of a stream.

One form for every provider. What a provider has beyond it is kept as it is: unknown fields of a request in `extra`,
unknown blocks as `Foreign`, so that nothing is lost between a client and the model it talks to.
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant"]
Stop: TypeAlias = Literal["end", "tools", "length", "sequence", "refused", "paused", "window"]
"""Why a model stopped: it was done, wants tools run, reached max_tokens, met a stop sequence, refuses, pauses, or the
window is full.
"""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """One block of a message. `cached` asks the provider to keep everything up to here for the next time."""

    cached: bool = False


class Text(Part, frozen=True, kw_only=True, omit_defaults=True, tag="text"):
    """Words."""

    text: str


class Media(Part, frozen=True, kw_only=True, omit_defaults=True, tag="media"):
    """An image, a document, a sound: its bytes, or where they are."""

    media_type: str
    data: bytes = b""
    url: str = ""
    name: str = ""


class Call(Part, frozen=True, kw_only=True, omit_defaults=True, tag="call"):
    """A tool that the model wants run. `raw` is the text of arguments that are no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str = ""


class Result(Part, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """What came of a tool."""

    call: str
    content: "tuple[Text | Media | Foreign, ...]" = ()
    failed: bool = False


class Thought(Part, frozen=True, kw_only=True, omit_defaults=True, tag="thought"):
    """What a model thought on the way. `seal` is the provider's signature, or all there is of a hidden thought."""

    text: str = ""
    seal: str = ""


class Foreign(Part, frozen=True, kw_only=True, omit_defaults=True, tag="foreign"):
    """A block that only `provider` understands (anthropic, openai-chat, openai-responses), as it was."""

    provider: str
    block: dict[str, Any]


Block: TypeAlias = Text | Media | Call | Result | Thought | Foreign


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message."""

    role: Role
    blocks: tuple[Block, ...]
    name: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the model may ask for; one that the provider runs itself is `foreign`, as it was."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    foreign: dict[str, Any] | None = None
    cached: bool = False


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model is asked. `extra` are fields of the request that have no place here, as they were."""

    model: str
    messages: tuple[Said, ...]
    system: tuple[Text | Foreign, ...] = ()
    tools: tuple[Tool, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens. `input` counts neither those read from a cache nor those written to one."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model said."""

    id: str
    model: str
    blocks: tuple[Block, ...]
    stop: Stop = "end"
    sequence: str = ""
    usage: Usage = Usage()
    extra: dict[str, Any] = {}


# ── the same in pieces ──


class Began(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="began"):
    """The answer begins."""

    id: str
    model: str
    usage: Usage = Usage()


class BlockBegan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="block_began"):
    """A block begins: empty, or as much of it as is known at once."""

    index: int
    block: Block


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="delta"):
    """More of a block: words, a fragment of a call's arguments as JSON, thoughts or their seal."""

    index: int
    text: str = ""
    json: str = ""
    thought: str = ""
    seal: str = ""


class BlockEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="block_ended"):
    """A block is whole."""

    index: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="ended"):
    """The answer is whole."""

    stop: Stop = "end"
    sequence: str = ""
    usage: Usage = Usage()


class Failed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="failed"):
    """The provider gave up in the middle, in its own words: `overloaded_error`, `server_error`."""

    type: str
    message: str = ""


Piece: TypeAlias = Began | BlockBegan | Delta | BlockEnded | Ended | Failed
NOTHING: Final = Usage()
