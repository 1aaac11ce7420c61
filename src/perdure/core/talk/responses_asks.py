"""Requests in the form of OpenAI's Responses, read and written."""

from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.carrying import carried
from perdure.core.talk.choosing import choice_of, to_openai
from perdure.core.talk.parts import Ask, Foreign, Said, Text, Tool
from perdure.core.talk.responses_items import PROVIDER, items_to, said_from
from perdure.core.talk.wire import (
    fields,
    flag,
    left,
    listed,
    merged,
    nearest,
    optional,
    origin,
    real,
    rest_in,
    texts,
    whole,
    word,
)

_ASK: Final = {
    "model",
    "input",
    "instructions",
    "tools",
    "max_output_tokens",
    "temperature",
    "top_p",
    "stream",
    "metadata",
}
_ELSEWHERE: Final = ("prompt", "previous_response_id", "conversation")


def ask_from(document: object) -> Ask:
    """The ask that a request carries. Raises Invalid, which says where, for one that is no request."""
    body = fields(document, "body")
    given = body.get("input")
    if given is None and not any(body.get(key) for key in _ELSEWHERE):
        raise Invalid("body.input is missing; send a string or a list of items", where="body.input")
    messages: tuple[Said, ...] = ()
    if isinstance(given, str):
        messages = (Said(role="user", blocks=(Text(text=given),)),)
    elif given is not None:
        messages = said_from(listed(given, "input"), "input")
    instructions = word(body, "instructions", "body", "")
    return Ask(
        model=word(body, "model", "body"),
        messages=messages,
        system=(Text(text=instructions),) if instructions else (),
        tools=tuple(
            _tool_from(item, f"tools[{at}]") for at, item in enumerate(listed(body.get("tools") or [], "tools"))
        ),
        max_tokens=whole(body, "max_output_tokens", "body"),
        temperature=real(body, "temperature", "body"),
        top_p=real(body, "top_p", "body"),
        stream=flag(body, "stream", "body"),
        metadata=optional(body, "metadata", "body"),
        extra={PROVIDER: left(body, _ASK)},
    )


def _tool_from(value: object, where: str) -> Tool:
    document = fields(value, where)
    kind = word(document, "type", where)
    if kind != "function":
        return Tool(name=word(document, "name", where, kind), foreign={PROVIDER: document})
    beyond = left(document, {"type", "name", "description", "parameters"})
    return Tool(
        name=word(document, "name", where),
        description=word(document, "description", where, ""),
        schema=optional(document, "parameters", where),
        foreign={PROVIDER: beyond} if beyond else None,
    )


def ask_to(ask: Ask) -> dict[str, Any]:
    """The request that carries an ask. Stop sequences have no place in it."""
    home = origin(ask) == PROVIDER
    body: dict[str, Any] = {
        "model": ask.model,
        "input": [item for said in ask.messages for item in items_to(said)],
    }
    instructions = _instructions(ask)
    if instructions:
        body["instructions"] = instructions
    tools = [document for document in (_tool_to(tool, home=home) for tool in ask.tools) if document is not None]
    if tools:
        body["tools"] = tools
    if ask.max_tokens is not None:
        body["max_output_tokens"] = ask.max_tokens
    if ask.temperature is not None:
        body["temperature"] = ask.temperature
    if ask.top_p is not None:
        body["top_p"] = ask.top_p
    if ask.stream:
        body["stream"] = True
    if home:
        return merged({**body, "metadata": ask.metadata} if ask.metadata else body, ask.extra[PROVIDER])
    return {**body, **carried(ask, PROVIDER), **(to_openai(choice_of(ask), nested=False) if tools else {})}


def _instructions(ask: Ask) -> str:
    words = [
        nearest(block, spoken=False) if isinstance(block, Foreign) else block
        for block in ask.system
        if rest_in(block) is None
    ]
    return texts([block for block in words if block is not None])


def _tool_to(tool: Tool, *, home: bool) -> dict[str, Any] | None:
    foreign = tool.foreign or {}
    mine: dict[str, Any] = foreign.get(PROVIDER, {})
    if "type" in mine:
        return mine
    if any("type" in document for document in foreign.values()):
        return None
    document: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": tool.schema or {"type": "object"}}
    if tool.description:
        document["description"] = tool.description
    if not home:
        strict = foreign.get("openai-chat", {}).get("function", {}).get("strict")
        document["strict"] = strict is True  # silence means strict here, and nowhere else
    return merged(document, mine)
