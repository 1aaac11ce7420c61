"""Requests in the form of Anthropic's Messages, read and written.

What was read from here and is written back says the same, to the last unknown field. What comes from elsewhere
keeps its meaning: an instruction at the start becomes the system prompt, a later one a user's message in tags.
"""

from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.anthropic_blocks import (
    PROVIDER,
    blocks_from,
    content_to,
    sendable,
    shown_from,
)
from perdure.core.talk.choosing import choice_of, to_anthropic
from perdure.core.talk.parts import (
    Ask,
    Block,
    Foreign,
    Said,
    Text,
    Tool,
)
from perdure.core.talk.wire import (
    fields,
    flag,
    held,
    left,
    listed,
    merged,
    missing,
    optional,
    origin,
    real,
    rest,
    rest_in,
    strings,
    texts,
    whole,
    within,
    word,
)

MAX_TOKENS: Final = 8192
"""What is asked for when the ask names no limit: Anthropic insists on one."""

_ASK: Final = {
    "model",
    "messages",
    "system",
    "tools",
    "max_tokens",
    "temperature",
    "top_p",
    "stop_sequences",
    "stream",
    "metadata",
}


def ask_from(document: object) -> Ask:
    """The ask that a request carries. Raises Invalid, which says where, for one that is no request."""
    body = fields(document, "body")
    for key in ("messages", "max_tokens"):
        if body.get(key) is None:
            raise missing(f"body.{key}")
    return Ask(
        model=word(body, "model", "body"),
        messages=tuple(
            _said_from(item, f"messages[{at}]") for at, item in enumerate(listed(body["messages"], "messages"))
        ),
        system=_system_from(body.get("system")),
        tools=tuple(_tool_from(item, f"tools[{at}]") for at, item in enumerate(listed(body.get("tools", []), "tools"))),
        max_tokens=whole(body, "max_tokens", "body"),
        temperature=real(body, "temperature", "body"),
        top_p=real(body, "top_p", "body"),
        stop=strings(body.get("stop_sequences", []), "stop_sequences"),
        stream=flag(body, "stream", "body"),
        metadata=optional(body, "metadata", "body"),
        extra={PROVIDER: left(body, _ASK)},
    )


def _said_from(value: object, where: str) -> Said:
    message = fields(value, where)
    if "content" not in message:
        raise missing(f"{where}.content")
    blocks = blocks_from(message["content"], f"{where}.content")
    whole_message = rest(PROVIDER, left(message, {"role", "content"}))
    match word(message, "role", where):
        case "user" | "assistant" | "system" as role:
            return Said(role=role, blocks=(*whole_message, *blocks))
        case role:
            raise Invalid(f"{where}.role is {role!r}; it must be user, assistant or system", where=f"{where}.role")


def _system_from(value: object) -> tuple[Text | Foreign, ...]:
    blocks = () if value is None else shown_from(value, "system")
    found = tuple(block for block in blocks if isinstance(block, Text | Foreign))
    if len(found) != len(blocks):
        raise Invalid("system holds media; send text there", where="system")
    return found


def _tool_from(value: object, where: str) -> Tool:
    document = fields(value, where)
    kind = word(document, "type", where, "custom")
    cached = document.get("cache_control") is not None
    if kind != "custom":
        return Tool(name=word(document, "name", where, kind), foreign={PROVIDER: document}, cached=cached)
    beyond = left(document, {"name", "description", "input_schema", "cache_control", "type"})
    if cached and document["cache_control"] != {"type": "ephemeral"}:
        beyond["cache_control"] = document["cache_control"]
    return Tool(
        name=word(document, "name", where),
        description=word(document, "description", where, ""),
        schema=within(document, "input_schema", where),
        foreign={PROVIDER: beyond} if beyond else None,
        cached=cached,
    )


def ask_to(ask: Ask) -> dict[str, Any]:
    """The request that carries an ask."""
    home = origin(ask) == PROVIDER
    system, messages = (list(ask.system), ask.messages) if home else _gathered(ask)
    body: dict[str, Any] = {"model": ask.model, "max_tokens": MAX_TOKENS if ask.max_tokens is None else ask.max_tokens}
    said = [_said_to(message, home=home) for message in messages]
    body["messages"] = [message for message in said if home or message["content"]]
    if system:
        body["system"] = content_to(system, spoken=False)
    tools = [document for document in map(_tool_to, ask.tools) if document is not None]
    if tools:
        body["tools"] = tools
    if ask.temperature is not None:
        body["temperature"] = ask.temperature if home else min(ask.temperature, 1.0)
    if ask.top_p is not None:
        body["top_p"] = ask.top_p
    if ask.stop:
        body["stop_sequences"] = list(ask.stop)
    if ask.stream:
        body["stream"] = True
    metadata = ask.metadata if home else {key: ask.metadata[key] for key in ("user_id",) if key in ask.metadata}
    if metadata:
        body["metadata"] = metadata
    return merged(body, ask.extra[PROVIDER] if home else to_anthropic(choice_of(ask)) if tools else {})


def _gathered(ask: Ask) -> tuple[list[Block], list[Said]]:
    """The instructions that stand at the start with the system prompt, and later ones as words in tags."""
    system: list[Block] = [block for block in ask.system if rest_in(block) is None]
    messages: list[Said] = []
    for said in ask.messages:
        if said.role != "system":
            messages.append(said)
        elif messages:
            words = Text(text=f"<system>\n{texts(said.blocks)}\n</system>")
            messages.append(Said(role="user", blocks=(words,)))
        else:
            system += [block for block in said.blocks if rest_in(block) is None]
    return system, messages


def _said_to(said: Said, *, home: bool) -> dict[str, Any]:
    message, _ = held(said.blocks, PROVIDER)
    content = content_to(said.blocks if home else sendable(said.blocks), spoken=said.role == "assistant")
    return merged({"role": said.role, "content": content}, message)


def _tool_to(tool: Tool) -> dict[str, Any] | None:
    foreign = tool.foreign or {}
    mine: dict[str, Any] = foreign.get(PROVIDER, {})
    if "type" in mine:
        return mine
    if any("type" in document for document in foreign.values()):
        return None
    document: dict[str, Any] = {"name": tool.name, "input_schema": tool.schema or {"type": "object"}}
    if tool.description:
        document["description"] = tool.description
    if tool.cached:
        document["cache_control"] = {"type": "ephemeral"}
    return merged(document, mine)
