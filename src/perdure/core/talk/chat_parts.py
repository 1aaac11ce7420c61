"""The parts of Chat Completions' messages: each becomes a common block, with a rest for what has no place, and back."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Block, Call, Foreign, Media, Result, Stop, Text, Thought, Usage
from perdure.core.talk.wire import (
    Held,
    arguments,
    data_url,
    fields,
    held,
    left,
    listed,
    merged,
    nearest,
    optional,
    packed,
    rest,
    unpacked,
    url_of,
    whole,
    within,
    word,
    written,
)

PROVIDER: Final = "openai-chat"
STOPS: Final[dict[str, Stop]] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}
REASONS: Final[dict[Stop, str]] = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "sequence": "stop",
    "refused": "content_filter",
    "paused": "stop",
    "window": "length",
}
THINKING: Final = ("reasoning_content", "reasoning")
"""Where servers that show thoughts put them; OpenAI's own never does."""

_KNOWN: Final = {
    "text": {"text"},
    "refusal": {"refusal"},
    "image_url": {"image_url"},
    "input_audio": {"input_audio"},
    "file": {"file"},
}


# ── reading ──


def content_from(value: object, where: str) -> tuple[Text | Media | Foreign, ...]:
    """The content of a message: a string or a list of parts."""
    if isinstance(value, str):
        return (Text(text=value),)
    return tuple(block for at, item in enumerate(listed(value, where)) for block in part_from(item, f"{where}[{at}]"))


def part_from(value: object, where: str) -> tuple[Text | Media | Foreign, ...]:
    """A part and its rest. One of a type that is not known stays as it was."""
    part = fields(value, where)
    kind = word(part, "type", where)
    block: Text | Media | None = None
    beyond: dict[str, Any] = {}
    match kind:
        case "text":
            block = Text(text=word(part, "text", where))
        case "refusal":
            block, beyond = Text(text=word(part, "refusal", where)), {"type": kind}
        case "image_url":
            block, beyond = _image(part, where)
        case "input_audio":
            block = _sound(within(part, kind, where), f"{where}.{kind}")
        case "file":
            block = _file(within(part, kind, where), f"{where}.{kind}")
    if block is None:
        return (Foreign(provider=PROVIDER, block=part),)
    return (block, *rest(PROVIDER, {**left(part, _KNOWN[kind] | {"type"}), **beyond}))


def _image(part: dict[str, Any], where: str) -> tuple[Media, dict[str, Any]]:
    image, inside = within(part, "image_url", where), f"{where}.image_url"
    url = word(image, "url", inside)
    more = left(image, {"url"})
    beyond = {"image_url": more} if more else {}
    found = data_url(url, f"{inside}.url")
    if found is None or not found[0].startswith("image/") or not found[1]:
        return Media(media_type="image/*", url=url), beyond
    return Media(media_type=found[0], data=found[1]), beyond


def _sound(sound: dict[str, Any], where: str) -> Media | None:
    form, data = word(sound, "format", where), word(sound, "data", where)
    media = Media(media_type=f"audio/{form}", data=unpacked(data, f"{where}.data"))
    return media if media_to(media)["input_audio"] == sound else None


def _file(file: dict[str, Any], where: str) -> Media | None:
    found = data_url(word(file, "file_data", where, ""), f"{where}.file_data")
    if found is None or found[0].startswith(("image/", "audio/")) or not found[1]:
        return None
    media = Media(media_type=found[0], data=found[1], name=word(file, "filename", where, ""))
    return media if media_to(media)["file"] == file else None


def assistant_from(message: dict[str, Any], where: str, known: set[str]) -> tuple[Block, ...]:
    """What a model said: its thoughts, words, refusal and calls, in this order."""
    blocks: list[Block] = []
    beyond = left(message, {"role", "content", "refusal", "tool_calls"} | known)
    for key in THINKING:
        if isinstance(beyond.get(key), str):
            blocks += [Thought(text=beyond.pop(key)), *rest(PROVIDER, {"type": key} if key != THINKING[0] else {})]
    calls = message.get("tool_calls")
    content = message.get("content")
    if content is not None and (content != "" or not calls):
        blocks += content_from(content, f"{where}.content")
    refusal = word(message, "refusal", where, "")
    if refusal:
        blocks += [Text(text=refusal), *rest(PROVIDER, {"type": "refusal"})]
    for at, item in enumerate(listed(calls or [], f"{where}.tool_calls")):
        blocks += _call_from(item, f"{where}.tool_calls[{at}]")
    return (*rest(PROVIDER, beyond), *blocks)


def _call_from(value: object, where: str) -> tuple[Block, ...]:
    item = fields(value, where)
    kind = word(item, "type", where, "function")
    call = word(item, "id", where)
    if kind not in ("function", "custom"):
        return (Foreign(provider=PROVIDER, block=item),)
    inner, inside = within(item, kind, where), f"{where}.{kind}"
    name = word(inner, "name", inside)
    beyond = left(item, {"id", "type", kind})
    if kind == "custom":
        block = Call(id=call, name=name, raw=word(inner, "input", inside))
        return (block, *rest(PROVIDER, {**beyond, "type": kind}))
    more = left(inner, {"name", "arguments"})
    block = arguments(call, name, word(inner, "arguments", inside, ""))
    return (block, *rest(PROVIDER, {**beyond, "function": more} if more else beyond))


def usage_from(document: dict[str, Any], where: str) -> Usage:
    """Tokens; those from or for a cache are counted apart."""
    details = optional(document, "prompt_tokens_details", where)
    read = whole(details, "cached_tokens", f"{where}.prompt_tokens_details") or 0
    write = whole(details, "cache_write_tokens", f"{where}.prompt_tokens_details") or 0
    return Usage(
        input=max(0, (whole(document, "prompt_tokens", where) or 0) - read - write),
        output=whole(document, "completion_tokens", where) or 0,
        cache_read=read,
        cache_write=write,
    )


def usage_left(document: dict[str, Any], where: str) -> dict[str, Any]:
    """What is told of usage beyond the tokens."""
    usage = optional(document, "usage", where)
    beyond = left(usage, {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"})
    details = optional(usage, "prompt_tokens_details", f"{where}.usage")
    more = left(details, {"cached_tokens", "cache_write_tokens"})
    return {**beyond, "prompt_tokens_details": more} if more else beyond


# ── writing ──


def content_to(blocks: Iterable[Block]) -> str | list[dict[str, Any]]:
    """The content of a message: plain words as a string, all else as a list."""
    _, items = held(blocks, PROVIDER)
    parts = [part for part in map(part_to, items) if part is not None]
    if not parts:
        return ""
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == "text":
        words: str = parts[0]["text"]
        return words
    return parts


def part_to(item: Held) -> dict[str, Any] | None:
    """A block as a part; None for what is no part of a message's content."""
    block, beyond, _ = item
    match block:
        case Text():
            key = "refusal" if beyond.get("type") == "refusal" else "text"
            return merged({"type": key, key: block.text}, beyond)
        case Media():
            return merged(media_to(block), beyond)
        case Foreign():
            if block.provider == PROVIDER:
                return block.block
            words = nearest(block, spoken=False)
            return None if words is None else {"type": "text", "text": words.text}
        case Call() | Result() | Thought():
            return None


def media_to(media: Media) -> dict[str, Any]:
    """An image, a sound or a file as a part."""
    if media.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url_of(media)}}
    if media.url:
        raise Invalid("chat completions take no file by its address; send its bytes", url=media.url)
    if media.media_type.startswith("audio/"):
        form = {"mpeg": "mp3", "x-wav": "wav"}.get(media.media_type[6:], media.media_type[6:])
        return {"type": "input_audio", "input_audio": {"data": packed(media.data), "format": form}}
    name = {"filename": media.name} if media.name else {}
    return {"type": "file", "file": {**name, "file_data": url_of(media)}}


def media_in(blocks: Iterable[Block]) -> list[Block]:
    """The media among the blocks, each with its rest."""
    found: list[Block] = []
    for block, beyond, _ in held(blocks, PROVIDER)[1]:
        if isinstance(block, Media):
            found += [block, *rest(PROVIDER, beyond)]
    return found


def assistant_to(blocks: Sequence[Block], *, joined: bool = False) -> dict[str, Any] | None:
    """What a model said, as a message; None if nothing of it can be told here. `joined` makes one text of all."""
    message, items = held(blocks, PROVIDER)
    content: list[Block] = []
    body: dict[str, Any] = {"role": "assistant", "content": None}
    calls = []
    for block, beyond, _ in items:
        match block:
            case Text() if beyond.get("type") == "refusal":
                body["refusal"] = body.get("refusal", "") + block.text
            case Thought() if block.text and not block.seal:
                key = beyond.get("type", THINKING[0])
                body[key] = body.get(key, "") + block.text
            case Call():
                calls.append(call_to(block, beyond))
            case Text() | Media():
                content += [block, *rest(PROVIDER, beyond)]
            case Foreign() if block.provider == PROVIDER:
                if "id" in block.block:
                    calls.append(block.block)
                else:
                    content.append(block)
            case Foreign():
                words = nearest(block, spoken=True)
                content += [words] if words is not None else []
    if content:
        body["content"] = "".join(b.text for b in content if isinstance(b, Text)) if joined else content_to(content)
    if calls:
        body["tool_calls"] = calls
    if len(body) == 2 and body["content"] is None and not message:
        if items:
            return None
        body["content"] = None if joined else ""
    return merged(body, message)


def call_to(call: Call, beyond: dict[str, Any]) -> dict[str, Any]:
    """A call as Chat Completions write it."""
    if beyond.get("type") == "custom":
        custom = {"name": call.name, "input": written(call) if call.arguments else call.raw}
        return merged({"id": call.id, "type": "custom", "custom": custom}, beyond)
    function = {"name": call.name, "arguments": written(call)}
    return merged({"id": call.id, "type": "function", "function": function}, beyond)


def usage_to(usage: Usage) -> dict[str, Any]:
    """Tokens as OpenAI tells them: the prompt's all together."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    details = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": details,
    }
