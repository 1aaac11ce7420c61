"""Messages of Pydantic AI as turns say them, and what others said as messages of Pydantic AI.

A message is kept word for word, as the JSON text its own adapter makes of it; beside it stands what it says to
everybody else. All of it is pure: nothing here reads or writes.
"""

import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from perdure.adapters.parts import pairing
from perdure.adapters.parts.sound import sound
from perdure.adapters.parts.texts import all_text, one_text
from perdure.events import Message, Spoken, ToolAsked, ToolFinished

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REFUSED: Final = frozenset({"failed", "denied", "interrupted"})
_LARGEST: Final = 2**63


def as_text(message: ModelMessage) -> str:
    """A message word for word."""
    with sound(f"a {message.kind} of the conversation"):
        return ModelMessagesTypeAdapter.dump_json([message]).decode()[1:-1]


def as_messages(texts: Iterable[str]) -> list[ModelMessage]:
    """The messages that were kept word for word."""
    return ModelMessagesTypeAdapter.validate_json(f"[{','.join(texts)}]")


def time_of(micros: int) -> datetime:
    """A moment as Pydantic AI has it."""
    return _EPOCH + timedelta(microseconds=micros)


# ── what a message says ──


def told(text: str) -> list[Spoken]:
    """What a message, kept word for word, says to those who do not know Pydantic AI; at least one payload."""
    message = json.loads(text)
    if message.get("kind") == "response":
        return _answered(message.get("parts", ()))
    found = [payload for part in message.get("parts", ()) if (payload := _requested(part)) is not None]
    return found or [Message(role="system", content="")]


def _requested(part: dict[str, Any]) -> Spoken | None:
    kind, content = part.get("part_kind"), part.get("content")
    call = part.get("tool_call_id") or ""
    match kind:
        case "system-prompt":
            return Message(role="system", content=_said(content))
        case "user-prompt":
            return Message(role="user", content=_blocks(content))
        case "tool-return" if part.get("outcome") in _REFUSED:
            return ToolFinished(call=call, error=_said(content))
        case "tool-return":
            return ToolFinished(call=call, result=storable(content))
        case "retry-prompt" if part.get("tool_name"):
            return ToolFinished(call=call, error=_said(content))
        case "retry-prompt" | "retry-feedback":
            return Message(role="user", content=_said(content))
        case "speech":
            return Message(role="user", content=_said(part.get("transcript")))
        case _:  # how the model is set up is nothing that was said
            return None


def _answered(parts: Iterable[dict[str, Any]]) -> list[Spoken]:
    """An answer: words and thoughts that follow each other are one message, and each call of a tool is its own."""
    found: list[Spoken] = []
    blocks: list[dict[str, Any]] = []

    def spoken() -> None:
        if blocks:
            plain = len(blocks) == 1 and blocks[0]["type"] == "text"
            found.append(Message(role="assistant", content=blocks[0]["text"] if plain else list(blocks)))
            blocks.clear()

    for part in parts:
        kind, call = part.get("part_kind"), part.get("tool_call_id") or ""
        if kind in ("tool-call", "builtin-tool-call"):
            spoken()
            found.append(ToolAsked(call=call, name=part.get("tool_name") or "", arguments=_arguments(part.get("args"))))
        elif kind == "builtin-tool-return":
            spoken()
            found.append(ToolFinished(call=call, result=storable(part.get("content"))))
        elif kind == "thinking":
            blocks.append({"type": "thinking", "thinking": _said(part.get("content"))})
        elif kind == "file":
            blocks.append(_block(part.get("content")))
        elif kind in ("text", "compaction", "speech"):
            blocks.append({"type": "text", "text": _said(part.get("content") or part.get("transcript"))})
    spoken()
    return found or [Message(role="assistant", content="")]


def _blocks(content: Any) -> Any:
    """What a user said: a text, or blocks as everybody spells them."""
    if not isinstance(content, list):
        return _said(content)
    kept = (item for item in content if not (isinstance(item, dict) and item.get("kind") == "cache-point"))
    return one_text([_block(item) for item in kept])


def _block(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        return {"type": "text", "text": _said(item)}
    kind = str(item.get("kind", ""))
    if kind == "binary":
        media = str(item.get("media_type", ""))
        source = {"type": "base64", "media_type": media, "data": item.get("data")}
        return {"type": "image" if media.startswith("image/") else "document", "source": source}
    if kind in ("image-url", "document-url"):
        return {"type": kind.removesuffix("-url"), "source": {"type": "url", "url": item.get("url")}}
    return {"type": "text", "text": _said(item.get("content") or item.get("url") or item.get("file_id") or item)}


def _arguments(args: Any) -> Any:
    """The arguments of a call, read if they are JSON."""
    if isinstance(args, str):
        try:
            return storable(json.loads(args))
        except ValueError:
            return args
    return storable(args)


def _said(value: Any) -> str:
    """Any value as a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def storable(value: Any) -> Any:
    """A value of JSON with its numbers cut down to those that can be kept; the message itself has them all."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if -_LARGEST <= value < _LARGEST else str(value)
        case float():
            return value if value - value == 0 else str(value)
        case dict():
            return {str(name): storable(item) for name, item in value.items()}
        case list():
            return [storable(item) for item in value]
        case _:
            return _said(value)


# ── what others said ──


def answers(payload: Spoken) -> bool:
    """Whether the model said it; else it was said to the model."""
    return isinstance(payload, ToolAsked) or (isinstance(payload, Message) and payload.role == "assistant")


def begins(payloads: Iterable[Spoken]) -> bool:
    """Whether a turn begins with it: somebody speaks to the agent, before anything else is said or done."""
    roles = (payload.role if isinstance(payload, Message) else "" for payload in payloads)
    return next((role for role in roles if role != "system"), "user") == "user"


def results(payloads: Iterable[Spoken]) -> set[str]:
    """The calls whose results these are: a result names its call, a message of Pydantic AI also the tool."""
    found = {payload.call for payload in payloads if isinstance(payload, ToolFinished)}
    for payload in payloads:
        if isinstance(payload, Message) and isinstance(payload.content, list):
            blocks = (block for block in payload.content if isinstance(block, dict))
            found |= {str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"}
    return found


def heard(payloads: Sequence[Spoken], at: int, names: Mapping[str, str]) -> ModelMessage:
    """What was said, all by the model or all to it, as one message; `names` has the tools of calls made before. What
    comes back to the model within its own answer comes from a tool that its provider ran.
    """
    when = time_of(at)
    if any(answers(payload) for payload in payloads):
        inside = results(payloads)
        spoken = [part for payload in payloads for part in _response(payload, inside, names)]
        return ModelResponse(parts=spoken, timestamp=when)
    parts = [part for payload in payloads for part in _request(payload, when, names)]
    return ModelRequest(parts=parts, timestamp=when)


def results_in_words(payloads: Sequence[Spoken], calls: Collection[str]) -> Sequence[Spoken]:
    """What was said, with the results of these calls told in words: a model refuses a result to nothing."""
    return [_retold(payload, calls) for payload in payloads] if calls else payloads


def _retold(payload: Spoken, calls: Collection[str]) -> Spoken:
    if isinstance(payload, ToolFinished) and payload.call in calls:
        result = payload.result if payload.error is None else payload.error
        return Message(role="user", content=_result(result))
    if isinstance(payload, Message) and isinstance(payload.content, list):
        return Message(role=payload.role, content=[_reworded(block, calls) for block in payload.content])
    return payload


def _reworded(block: Any, calls: Collection[str]) -> Any:
    if isinstance(block, dict) and block.get("type") == "tool_result" and str(block.get("tool_use_id")) in calls:
        return {"type": "text", "text": _result(block.get("content"))}
    return block


def _result(content: Any) -> str:
    return f"(result of a tool) {_said(all_text(content))}"


def in_words(message: ModelMessage, calls: Collection[str]) -> ModelMessage:
    """A message with these calls told in words: they have no result, and no message can be put behind them."""
    if not calls or not isinstance(message, ModelResponse):
        return message
    return replace(message, parts=[_told(part, calls) for part in message.parts])


def _told(part: ModelResponsePart, calls: Collection[str]) -> ModelResponsePart:
    if isinstance(part, ToolCallPart) and part.tool_call_id in calls:
        return TextPart(content=pairing.in_words(part.tool_name))
    return part


def _response(payload: Spoken, inside: Collection[str], names: Mapping[str, str]) -> list[ModelResponsePart]:
    if isinstance(payload, ToolFinished):
        result = payload.result if payload.error is None else payload.error
        return [NativeToolReturnPart(names.get(payload.call) or "tool", result, tool_call_id=payload.call)]
    if isinstance(payload, ToolAsked):
        asked = _call(payload.call, payload.name, payload.arguments)
        if payload.call in inside:
            return [NativeToolCallPart(asked.tool_name, asked.args, tool_call_id=asked.tool_call_id)]
        return [asked]
    content = payload.content
    if not isinstance(content, list):
        return [TextPart(content=_said(content))]
    found: list[ModelResponsePart] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            found.append(_call(str(block.get("id")), str(block.get("name")), block.get("input")))
        elif kind == "thinking":
            found.append(ThinkingPart(content=_said(block.get("thinking"))))
        elif kind != "redacted_thinking":
            found.append(TextPart(content=_words(block)))
    return found


def _call(call: str, name: str, arguments: Any) -> ToolCallPart:
    args = arguments if isinstance(arguments, str | dict) or arguments is None else _said(arguments)
    return ToolCallPart(tool_name=name, args=args, tool_call_id=call)


def _request(payload: Spoken, when: datetime, names: Mapping[str, str]) -> list[ModelRequestPart]:
    if isinstance(payload, ToolFinished):
        failed = payload.error is not None
        result = payload.error if failed else payload.result
        return [_returned(payload.call, result, when, names, failed=failed)]
    content = all_text(payload.content) if isinstance(payload, Message) else None
    if isinstance(payload, Message) and payload.role == "system":
        words = [_words(block) for block in content] if isinstance(content, list) else [_said(content)]
        return [SystemPromptPart(content="\n".join(words), timestamp=when)]
    if not isinstance(content, list):
        return [UserPromptPart(content=_said(content), timestamp=when)]
    found: list[ModelRequestPart] = []
    spoken: list[UserContent] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            failed = block.get("is_error") is True
            call = str(block.get("tool_use_id"))
            found.append(_returned(call, block.get("content"), when, names, failed=failed))
        else:
            spoken.append(_content(block))
    return [*found, UserPromptPart(content=spoken, timestamp=when)] if spoken or not found else found


def _returned(call: str, result: Any, when: datetime, names: Mapping[str, str], *, failed: bool) -> ToolReturnPart:
    return ToolReturnPart(
        tool_name=names.get(call) or "tool",
        content=result,
        tool_call_id=call,
        timestamp=when,
        outcome="failed" if failed else "success",
    )


def _content(block: Any) -> UserContent:
    """A block of a user's message: a picture or a document where it is one, else its words."""
    source = block.get("source") if isinstance(block, dict) else None
    if isinstance(source, dict) and block.get("type") in ("image", "document"):
        url, data = source.get("url"), source.get("data")
        if isinstance(url, str):
            return ImageUrl(url=url) if block["type"] == "image" else DocumentUrl(url=url)
        if isinstance(data, str | bytes):
            try:
                content = data if isinstance(data, bytes) else b64decode(data, validate=True)
            except ValueError:
                return _words(block)
            return BinaryContent(data=content, media_type=str(source.get("media_type", "application/octet-stream")))
    return _words(block)


def _words(block: Any) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return _said(block)
