"""Anthropic's Messages, from the provider's side."""

from collections.abc import Iterator
from typing import Any

import msgspec

from upstream.script import Script
from upstream.talk import Asked, Cache, Saying, Used, spoken

encode = msgspec.json.encode
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
OVERLOADED = 529


def read(body: dict[str, Any]) -> Asked:
    """The request; ValueError says what is missing."""
    for key in ("model", "messages", "max_tokens"):
        if key not in body:
            raise ValueError(f"{key}: Field required")
    messages = body["messages"]
    if not messages:
        raise ValueError("messages: at least one message is required")
    asked = Asked(model=body["model"], stream=bool(body.get("stream")), limit=body["max_tokens"])
    blocks: list[Any] = [*body.get("tools", ())]
    system = body.get("system")
    blocks += [system] if isinstance(system, str) else system or []
    for message in messages:
        content = message["content"]
        blocks += [content] if isinstance(content, str) else content
    for at, block in enumerate(blocks):
        if isinstance(block, dict) and block.get("cache_control"):
            asked.marks.append(at)
            block = {key: value for key, value in block.items() if key != "cache_control"}
        asked.prompt.append(encode(block))
    last = messages[-1]["content"]
    asked.words = spoken(last)
    if isinstance(last, list):
        asked.results = [spoken(block.get("content")) for block in last if block.get("type") == "tool_result"]
    return asked


def used(asked: Asked, cache: Cache) -> Used:
    """The tokens of a prompt."""
    read_, written = cache.marked(asked)
    return Used(asked.tokens - read_ - written, read_, written)


def _usage(used: Used, answer: int) -> dict[str, Any]:
    return {
        "input_tokens": used.prompt,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.read,
        "cache_creation": {"ephemeral_5m_input_tokens": used.written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": answer,
        "service_tier": "standard",
    }


def _reason(said: Saying) -> str:
    return "max_tokens" if said.cut_off else "tool_use" if said.calls else "end_turn"


def _call(said: Saying, at: int) -> str:
    return f"toolu_{said.number:08d}_{at}"


def whole(asked: Asked, said: Saying, used: Used, created: int) -> bytes:
    """The answer in one document."""
    content: list[dict[str, Any]] = []
    if said.thoughts:
        content.append({"type": "thinking", "thinking": "".join(said.thoughts), "signature": "c2lnbmVk"})
    if said.words:
        content.append({"type": "text", "text": "".join(said.words)})
    for at, (name, arguments) in enumerate(said.calls):
        content.append(
            {"type": "tool_use", "id": _call(said, at), "name": name, "input": msgspec.json.decode(arguments)}
        )
    message = {**_empty(asked, said, used), "content": content, "stop_reason": _reason(said)}
    return encode({**message, "usage": _usage(used, used.answer)})


def _empty(asked: Asked, said: Saying, used: Used) -> dict[str, Any]:
    return {
        "id": f"msg_{said.number:024d}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(used, 1),
    }


def _frame(kind: str, **data: Any) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encode({"type": kind, **data}) + b"\n\n"


def frames(asked: Asked, said: Saying, used: Used, created: int) -> Iterator[bytes]:
    """The answer as a stream."""
    yield _frame("message_start", message=_empty(asked, said, used))
    at = 0
    if said.thoughts:
        yield _frame(
            "content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}
        )
        for words in said.thoughts:
            yield _frame("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": words})
        yield _frame("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2lnbmVk"})
        yield _frame("content_block_stop", index=0)
        at = 1
    if said.words:
        yield _frame("content_block_start", index=at, content_block={"type": "text", "text": ""})
        yield b'event: ping\ndata: {"type": "ping"}\n\n'
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":' % at
        for words in said.words:
            yield head + b'{"type":"text_delta","text":' + encode(words) + b"}}\n\n"
        yield _frame("content_block_stop", index=at)
        at += 1
    for number, (name, arguments) in enumerate(said.calls):
        block = {"type": "tool_use", "id": _call(said, number), "name": name, "input": {}}
        yield _frame("content_block_start", index=at, content_block=block)
        for part in ("", arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield _frame("content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": part})
        yield _frame("content_block_stop", index=at)
        at += 1
    usage = {key: value for key, value in _usage(used, used.answer).items() if key.endswith("tokens")}
    yield _frame("message_delta", delta={"stop_reason": _reason(said), "stop_sequence": None}, usage=usage)
    yield _frame("message_stop")


def error(status: int, message: str = "") -> bytes:
    """An error with its status."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    told = message or {529: "Overloaded", 500: "Internal server error"}.get(status, f"An error of type {kind}")
    return encode({"type": "error", "error": {"type": kind, "message": told}, "request_id": "req_local"})


def error_frame() -> bytes:
    """An error in the middle of a stream."""
    return b"event: error\ndata: " + error(OVERLOADED) + b"\n\n"


def too_long(asked: Asked, script: Script) -> bytes:
    """How a prompt that does not fit is refused."""
    return error(400, f"prompt is too long: {asked.tokens} tokens > {script.window} maximum")
