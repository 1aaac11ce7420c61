"""OpenAI's Chat Completions, from the provider's side. The errors are those of Responses, too."""

from collections.abc import Iterator
from typing import Any

import msgspec

from upstream.script import Script
from upstream.talk import Asked, Cache, Saying, Used, spoken

encode = msgspec.json.encode
OVERLOADED = 503
DONE = b"data: [DONE]\n\n"
_ERRORS: dict[int, tuple[str, str | None, str]] = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    503: ("server_error", None, "The server is currently overloaded, please try again later."),
}


def read(body: dict[str, Any]) -> Asked:
    """The request; ValueError says what is missing."""
    for key in ("model", "messages"):
        if key not in body:
            raise ValueError(f"Missing required parameter: '{key}'.")
    if "stream_options" in body and not body.get("stream"):
        raise ValueError("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    messages = body["messages"]
    asked = Asked(model=body["model"], stream=bool(body.get("stream")))
    asked.limit = body.get("max_completion_tokens") or body.get("max_tokens")
    asked.usage_wanted = bool((body.get("stream_options") or {}).get("include_usage"))
    asked.prompt = [encode(item) for item in (*(body.get("tools") or ()), *messages)]
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        asked.results.insert(0, spoken(message.get("content")))
    asked.words = next((spoken(item.get("content")) for item in reversed(messages) if item["role"] == "user"), "")
    return asked


def used(asked: Asked, cache: Cache) -> Used:
    """The tokens of a prompt."""
    return Used(asked.tokens, cache.automatic(asked))


def _usage(used: Used) -> dict[str, Any]:
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.answer,
        "total_tokens": used.prompt + used.answer,
        "prompt_tokens_details": {"cached_tokens": used.read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _reason(said: Saying) -> str:
    return "length" if said.cut_off else "tool_calls" if said.calls else "stop"


def _calls(said: Saying) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{said.number:08d}_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(said.calls)
    ]


def whole(asked: Asked, said: Saying, used: Used, created: int) -> bytes:
    """The answer in one document."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said.words) if said.words else None}
    if said.calls:
        message["tool_calls"] = _calls(said)
    message |= {"refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(said)}
    head = {"id": f"chatcmpl-{said.number:024d}", "object": "chat.completion", "created": created, "model": asked.model}
    tail = {"service_tier": "default", "system_fingerprint": "fp_local"}
    return encode({**head, "choices": [choice], "usage": _usage(used), **tail})


def frames(asked: Asked, said: Saying, used: Used, created: int) -> Iterator[bytes]:
    """The answer as a stream."""
    head = {
        "id": f"chatcmpl-{said.number:024d}",
        "object": "chat.completion.chunk",
        "created": created,
        "model": asked.model,
        "service_tier": "default",
        "system_fingerprint": "fp_local",
    }
    start = b"data: " + encode(head)[:-1] + b',"choices":[{"index":0,"delta":'
    end = b',"logprobs":null,"finish_reason":null}]' + (b',"usage":null}\n\n' if asked.usage_wanted else b"}\n\n")
    yield start + b'{"role":"assistant","content":%s,"refusal":null}' % (b'""' if said.words else b"null") + end
    for words in said.words:
        yield start + b'{"content":' + encode(words) + b"}" + end
    for at, call in enumerate(_calls(said)):
        arguments: str = call["function"]["arguments"]
        opened = {"index": at, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield start + encode({"tool_calls": [opened]}) + end
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield start + encode({"tool_calls": [{"index": at, "function": {"arguments": part}}]}) + end
    yield start + b"{}" + end.replace(b'"finish_reason":null', b'"finish_reason":"%s"' % _reason(said).encode())
    if asked.usage_wanted:
        yield b"data: " + encode({**head, "choices": [], "usage": _usage(used)}) + b"\n\n"
    yield DONE


def error(status: int, message: str = "", code: str | None = None, param: str | None = None) -> bytes:
    """An error with its status."""
    usual = ("invalid_request_error" if status < 500 else "server_error", None, f"An error with status {status}.")
    kind, named, told = _ERRORS.get(status, usual)
    return encode({"error": {"message": message or told, "type": kind, "param": param, "code": code or named}})


def error_frame() -> bytes:
    """An error in the middle of a stream."""
    return b"data: " + error(OVERLOADED) + b"\n\n"


def too_long(asked: Asked, script: Script) -> bytes:
    """How a prompt that does not fit is refused."""
    message = (
        f"This model's maximum context length is {script.window} tokens. However, your messages resulted in "
        f"{asked.tokens} tokens. Please reduce the length of the messages."
    )
    return error(400, message, "context_length_exceeded", "messages")
