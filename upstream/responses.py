"""OpenAI's Responses, from the provider's side."""

from collections.abc import Iterator
from typing import Any

import msgspec

from upstream import chat
from upstream.chat import OVERLOADED, error, used
from upstream.script import Script
from upstream.talk import Asked, Saying, Used, spoken

__all__ = ["OVERLOADED", "error", "error_frame", "frames", "read", "too_long", "used", "whole"]

encode = msgspec.json.encode


def read(body: dict[str, Any]) -> Asked:
    """The request; ValueError says what is missing."""
    for key in ("model", "input"):
        if key not in body:
            raise ValueError(f"Missing required parameter: '{key}'.")
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    asked = Asked(model=body["model"], stream=bool(body.get("stream")), limit=body.get("max_output_tokens"))
    instructions = [body["instructions"]] if body.get("instructions") else []
    asked.prompt = [encode(item) for item in (*(body.get("tools") or ()), *instructions, *items)]
    for item in reversed(items):
        if item.get("type") != "function_call_output":
            break
        asked.results.insert(0, spoken(item.get("output")))
    asked.words = next((spoken(item["content"]) for item in reversed(items) if item.get("role") == "user"), "")
    return asked


def _usage(used: Used) -> dict[str, Any]:
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": {"cached_tokens": used.read},
        "output_tokens": used.answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.prompt + used.answer,
    }


def _message(said: Saying, status: str, words: str | None) -> dict[str, Any]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": words}
    content = [] if words is None else [part]
    name = f"msg_{said.number:024d}"
    return {"id": name, "type": "message", "status": status, "content": content, "role": "assistant"}


def _call(said: Saying, at: int, status: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"fc_{said.number:08d}_{at}",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": f"call_{said.number:08d}_{at}",
        "name": said.calls[at][0],
    }


def _output(said: Saying) -> list[dict[str, Any]]:
    words = [_message(said, "incomplete" if said.cut_off else "completed", "".join(said.words))] if said.words else []
    return words + [_call(said, at, "completed", call[1]) for at, call in enumerate(said.calls)]


def _response(asked: Asked, said: Saying, used: Used | None, created: int) -> dict[str, Any]:
    """The response as it stands: in progress as long as nothing was used."""
    status = "in_progress" if used is None else "incomplete" if said.cut_off else "completed"
    return {
        "id": f"resp_{said.number:024d}",
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": asked.limit,
        "model": asked.model,
        "output": [] if used is None else _output(said),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if used is None else _usage(used),
        "user": None,
        "metadata": {},
    }


def whole(asked: Asked, said: Saying, used: Used, created: int) -> bytes:
    """The answer in one document."""
    return encode(_response(asked, said, used, created))


class _Events:
    """Events with their numbers."""

    def __init__(self) -> None:
        self.number = -1

    def frame(self, kind: str, **data: Any) -> bytes:
        """One of them."""
        self.number += 1
        body = encode({"type": kind, "sequence_number": self.number, **data})
        return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def frames(asked: Asked, said: Saying, used: Used, created: int) -> Iterator[bytes]:
    """The answer as a stream."""
    frame = (events := _Events()).frame
    started = _response(asked, said, None, created)
    yield frame("response.created", response=started)
    yield frame("response.in_progress", response=started)
    at = 0
    if said.words:
        yield from _spoken(events, said)
        at = 1
    for number, (_, arguments) in enumerate(said.calls):
        place = {"output_index": at + number}
        yield frame("response.output_item.added", **place, item=_call(said, number, "in_progress", ""))
        place["item_id"] = f"fc_{said.number:08d}_{number}"  # type: ignore[assignment]
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield frame("response.function_call_arguments.delta", **place, delta=part)
        yield frame("response.function_call_arguments.done", **place, arguments=arguments)
        item = _call(said, number, "completed", arguments)
        yield frame("response.output_item.done", output_index=at + number, item=item)
    ended = _response(asked, said, used, created)
    yield frame(f"response.{ended['status']}", response=ended)


def _spoken(events: _Events, said: Saying) -> Iterator[bytes]:
    frame = events.frame
    text = "".join(said.words)
    yield frame("response.output_item.added", output_index=0, item=_message(said, "in_progress", None))
    place = {"item_id": f"msg_{said.number:024d}", "output_index": 0, "content_index": 0}
    part: dict[str, Any] = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    yield frame("response.content_part.added", **place, part=part)
    head = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d,'
    tail = b'"logprobs":[],' + encode(place)[1:-1] + b',"delta":'
    for words in said.words:
        events.number += 1
        yield head % events.number + tail + encode(words) + b"}\n\n"
    yield frame("response.output_text.done", **place, text=text, logprobs=[])
    yield frame("response.content_part.done", **place, part={**part, "text": text})
    done = _message(said, "incomplete" if said.cut_off else "completed", text)
    yield frame("response.output_item.done", output_index=0, item=done)


def error_frame() -> bytes:
    """An error in the middle of a stream."""
    told = "The server is currently overloaded, please try again later."
    body = {"type": "error", "code": "server_overloaded", "message": told, "param": None, "sequence_number": 9}
    return b"event: error\ndata: " + encode(body) + b"\n\n"


def too_long(asked: Asked, script: Script) -> bytes:
    """How a prompt that does not fit is refused."""
    told = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return chat.error(400, told, "context_length_exceeded", "input")
