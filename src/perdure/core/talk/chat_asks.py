"""Requests in the form of OpenAI's Chat Completions, read and written.

Here a tool's result is a message of its own; in the common form the results of one round are blocks of a user's
message. The first instruction is the system prompt, whether its role is system or developer; others stay in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.carrying import carried
from perdure.core.talk.chat_parts import (
    PROVIDER,
    assistant_from,
    assistant_to,
    content_from,
    content_to,
    media_in,
)
from perdure.core.talk.choosing import choice_of, to_openai
from perdure.core.talk.parts import Ask, Block, Foreign, Media, Result, Said, Text, Tool
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
    strings,
    whole,
    within,
    word,
)

_ASK: Final = {
    "model",
    "messages",
    "tools",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "stream",
    "metadata",
}
_INSTRUCTING: Final = ("system", "developer")


# ── reading ──


def ask_from(document: object) -> Ask:
    """The ask that a request carries. Raises Invalid, which says where, for one that is no request."""
    body = fields(document, "body")
    if "messages" not in body:
        raise missing("body.messages")
    items = [fields(item, f"messages[{at}]") for at, item in enumerate(listed(body["messages"], "messages"))]
    first = 1 if items and items[0].get("role") in _INSTRUCTING else 0
    extra = left(body, _ASK)
    limit, older = whole(body, "max_completion_tokens", "body"), whole(body, "max_tokens", "body")
    if limit is None and older is not None:
        extra["max_tokens"] = older  # so that it is written back under the name that the client's server knows
    stop = body.get("stop")
    return Ask(
        model=word(body, "model", "body"),
        system=_system_from(items[0]) if first else (),
        messages=_messages_from(items, first),
        tools=tuple(
            _tool_from(item, f"tools[{at}]") for at, item in enumerate(listed(body.get("tools") or [], "tools"))
        ),
        max_tokens=older if limit is None else limit,
        temperature=real(body, "temperature", "body"),
        top_p=real(body, "top_p", "body"),
        stop=(stop,) if isinstance(stop, str) else strings(stop, "stop"),
        stream=flag(body, "stream", "body"),
        metadata=optional(body, "metadata", "body"),
        extra={PROVIDER: extra},
    )


def _system_from(message: dict[str, Any]) -> tuple[Text | Foreign, ...]:
    where = "messages[0]"
    beyond = left(message, {"role", "content"})
    if message["role"] != "system":
        beyond["role"] = message["role"]
    blocks = content_from(_content(message, where), f"{where}.content")
    found = tuple(block for block in blocks if isinstance(block, Text | Foreign))
    if len(found) != len(blocks):
        raise Invalid(f"{where}.content holds media; send text there", where=f"{where}.content")
    return (*rest(PROVIDER, beyond), *found)


def _messages_from(items: Sequence[dict[str, Any]], first: int) -> tuple[Said, ...]:
    said: list[Said] = []
    together = False  # whether the results that were read last may be joined by another one
    for at, message in enumerate(items[first:], first):
        where = f"messages[{at}]"
        if word(message, "role", where) != "tool":
            said.append(_said_from(message, where))
            together = False
            continue
        blocks = _result_from(message, where)
        if together:
            blocks = (*said.pop().blocks, *blocks)
        said.append(Said(role="user", blocks=blocks))
        together = True
    return tuple(said)


def _said_from(message: dict[str, Any], where: str) -> Said:
    role, name = message["role"], word(message, "name", where, "")
    if role == "assistant":
        return Said(role=role, blocks=assistant_from(message, where, {"name"}), name=name)
    beyond = left(message, {"role", "content", "name"})
    blocks = content_from(_content(message, where), f"{where}.content")
    if role == "user":
        return Said(role="user", blocks=(*rest(PROVIDER, beyond), *blocks), name=name)
    if role not in _INSTRUCTING:
        raise Invalid(
            f"{where}.role is {role!r}; it must be system, developer, user, assistant or tool", where=f"{where}.role"
        )
    if role == "developer":
        beyond["role"] = role
    return Said(role="system", blocks=(*rest(PROVIDER, beyond), *blocks), name=name)


def _content(message: dict[str, Any], where: str) -> object:
    if "content" not in message:
        raise missing(f"{where}.content")
    return message["content"]


def _result_from(message: dict[str, Any], where: str) -> tuple[Block, ...]:
    result = Result(
        call=word(message, "tool_call_id", where),
        content=content_from(_content(message, where), f"{where}.content"),
    )
    return (result, *rest(PROVIDER, left(message, {"role", "tool_call_id", "content"})))


def _tool_from(value: object, where: str) -> Tool:
    document = fields(value, where)
    kind = word(document, "type", where)
    if kind != "function":
        inner = document.get(kind)
        name = inner.get("name") if isinstance(inner, dict) else None
        return Tool(name=name if isinstance(name, str) else kind, foreign={PROVIDER: document})
    function, inside = within(document, "function", where), f"{where}.function"
    beyond = left(document, {"type", "function"})
    deeper = left(function, {"name", "description", "parameters"})
    if deeper:
        beyond["function"] = deeper
    return Tool(
        name=word(function, "name", inside),
        description=word(function, "description", inside, ""),
        schema=optional(function, "parameters", inside),
        foreign={PROVIDER: beyond} if beyond else None,
    )


# ── writing ──


def ask_to(ask: Ask, *, limit: str = "max_completion_tokens") -> dict[str, Any]:
    """The request that carries an ask. `limit` is what a server calls the limit that the client did not name."""
    home = origin(ask) == PROVIDER
    extra: dict[str, Any] = ask.extra[PROVIDER] if home else {}
    tools = [document for document in map(_tool_to, ask.tools) if document is not None]
    body: dict[str, Any] = {"model": ask.model, "messages": _messages_to(ask)}
    if tools:
        body["tools"] = tools
    if ask.temperature is not None:
        body["temperature"] = ask.temperature
    if ask.top_p is not None:
        body["top_p"] = ask.top_p
    if ask.stop:
        body["stop"] = list(ask.stop)
    if ask.stream:
        body["stream"] = True
        if not home:
            body["stream_options"] = {"include_usage": True}
    if home and ask.metadata:
        body["metadata"] = ask.metadata
    if not home:
        body |= {**carried(ask, PROVIDER), **(to_openai(choice_of(ask), nested=True) if tools else {})}
    body = merged(body, extra)
    if ask.max_tokens is not None:
        body["max_tokens" if "max_tokens" in extra else limit] = ask.max_tokens
    return body


def _messages_to(ask: Ask) -> list[dict[str, Any]]:
    messages = []
    if ask.system:
        message, _ = held(ask.system, PROVIDER)
        messages.append(merged({"role": "system", "content": content_to(ask.system)}, message))
    for said in ask.messages:
        if said.role == "assistant":
            spoken = assistant_to(said.blocks)
            messages += [_named(spoken, said)] if spoken is not None else []
        elif said.role == "user":
            messages += _user_to(said)
        else:
            message, _ = held(said.blocks, PROVIDER)
            messages.append(_named(merged({"role": "system", "content": content_to(said.blocks)}, message), said))
    return messages


def _named(message: dict[str, Any], said: Said) -> dict[str, Any]:
    return {**message, "name": said.name} if said.name else message


def _user_to(said: Said) -> list[dict[str, Any]]:
    """The results first, for they follow their calls; what they showed beyond words comes in the message after."""
    message, items = held(said.blocks, PROVIDER)
    messages: list[dict[str, Any]] = []
    shown: list[Block] = []
    others: list[Block] = []
    for block, beyond, _ in items:
        if isinstance(block, Result):
            shown += media_in(block.content)
            messages.append(merged(_result_to(block), beyond))
        else:
            others += [block, *rest(PROVIDER, beyond)]
    if shown or others or not messages:
        content = content_to((*shown, *others))
        messages.append(_named(merged({"role": "user", "content": content}, message), said))
    return messages


def _result_to(result: Result) -> dict[str, Any]:
    words: Iterable[Block] = (block for block in result.content if not isinstance(block, Media))
    content = content_to(words)
    if result.failed and not (isinstance(content, str) and content.lower().startswith("error")):
        marked = f"Error: {content}" if isinstance(content, str) else [{"type": "text", "text": "Error:"}, *content]
        return {"role": "tool", "tool_call_id": result.call, "content": marked}
    return {"role": "tool", "tool_call_id": result.call, "content": content}


def _tool_to(tool: Tool) -> dict[str, Any] | None:
    foreign = tool.foreign or {}
    mine: dict[str, Any] = foreign.get(PROVIDER, {})
    if "type" in mine:
        return mine
    if any("type" in document for document in foreign.values()):
        return None
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.schema:
        function["parameters"] = tool.schema
    if foreign.get("openai-responses", {}).get("strict") is True:
        function["strict"] = True
    return merged({"type": "function", "function": function}, mine)
