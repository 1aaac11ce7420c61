"""The blocks of Anthropic's Messages: each becomes a common block, with a rest for what has no place, and back."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.talk.parts import NOTHING, Block, Call, Foreign, Media, Result, Stop, Text, Thought, Usage
from perdure.core.talk.wire import (
    Held,
    fields,
    flag,
    held,
    left,
    listed,
    merged,
    nearest,
    optional,
    packed,
    rest,
    unpacked,
    whole,
    within,
    word,
    wrong,
)

PROVIDER: Final = "anthropic"
STOPS: Final[dict[str, Stop]] = {
    "end_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "stop_sequence": "sequence",
    "refusal": "refused",
    "pause_turn": "paused",
    "model_context_window_exceeded": "window",
}
REASONS: Final = {stop: reason for reason, stop in STOPS.items()}
_UNHEARD: Final = ("audio/", "video/")
_MARK: Final = {"type": "ephemeral"}
_ALWAYS: Final = {"type", "cache_control"}
_KNOWN: Final = {
    "text": {"text"},
    "image": {"source"},
    "document": {"source", "title"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}


# ── reading ──


def block_from(value: object, where: str) -> tuple[Block, ...]:
    """A block and its rest. One of a type that is not known stays as it was."""
    document = fields(value, where)
    kind = word(document, "type", where)
    block = _common(document, kind, where)
    if block is None:
        return (Foreign(provider=PROVIDER, block=document),)
    beyond = left(document, _KNOWN[kind] | _ALWAYS)
    if document.get("cache_control") != _MARK and "cache_control" in document:
        beyond["cache_control"] = document["cache_control"]
    if kind == "thinking" and not document["thinking"]:
        beyond["type"] = kind  # else it would be taken for a hidden one
    return (block, *rest(PROVIDER, beyond))


def _common(document: dict[str, Any], kind: str, where: str) -> Block | None:
    cached = document.get("cache_control") is not None
    match kind:
        case "text":
            return Text(text=word(document, "text", where), cached=cached)
        case "image" | "document":
            return _media(document, kind, cached, where)
        case "tool_use":
            return Call(
                id=word(document, "id", where),
                name=word(document, "name", where),
                arguments=within(document, "input", where),
                cached=cached,
            )
        case "tool_result":
            content = document.get("content")
            return Result(
                call=word(document, "tool_use_id", where),
                content=() if content is None else shown_from(content, f"{where}.content"),
                failed=flag(document, "is_error", where),
                cached=cached,
            )
        case "thinking":
            return Thought(
                text=word(document, "thinking", where), seal=word(document, "signature", where, ""), cached=cached
            )
        case "redacted_thinking":
            return Thought(seal=word(document, "data", where), cached=cached)
        case _:
            return None


def _media(document: dict[str, Any], kind: str, cached: bool, where: str) -> Media | None:
    source = within(document, "source", where)
    inside = f"{where}.source"
    name = word(document, "title", where, "")
    match word(source, "type", inside), len(source):
        case "base64", 3:
            media_type = word(source, "media_type", inside)
            data = unpacked(word(source, "data", inside), f"{inside}.data")
            found = Media(media_type=media_type, data=data, name=name, cached=cached)
        case "url", 2:
            media_type = "image/*" if kind == "image" else "application/pdf"
            found = Media(media_type=media_type, url=word(source, "url", inside), name=name, cached=cached)
        case "text", 3:
            media_type = word(source, "media_type", inside)
            data = word(source, "data", inside).encode("utf-8", "surrogatepass")
            found = Media(media_type=media_type, data=data, name=name, cached=cached)
        case _:
            return None
    if found.media_type.startswith(_UNHEARD):
        return None
    made = _media_to(found)
    return found if (made["type"], made["source"]) == (kind, source) else None


def shown_from(value: object, where: str) -> tuple[Text | Media | Foreign, ...]:
    """Content that holds no calls: that of a tool's result, or of the system prompt."""
    if isinstance(value, str):
        return (Text(text=value),)
    found: list[Text | Media | Foreign] = []
    for at, item in enumerate(listed(value, where)):
        for block in block_from(item, f"{where}[{at}]"):
            if not isinstance(block, Text | Media | Foreign):
                raise Invalid(f"{where}[{at}] may not stand there; send text or media", where=f"{where}[{at}]")
            found.append(block)
    return tuple(found)


def blocks_from(value: object, where: str) -> tuple[Block, ...]:
    """The content of a message: a string or a list of blocks."""
    if isinstance(value, str):
        return (Text(text=value),)
    if not isinstance(value, list):
        raise wrong(where, "a string or a list", value)
    return tuple(block for at, item in enumerate(value) for block in block_from(item, f"{where}[{at}]"))


def usage_from(document: dict[str, Any], where: str, before: Usage = NOTHING) -> Usage:
    """Tokens; what is not told is as it was before."""

    def told(key: str, otherwise: int) -> int:
        count = whole(document, key, where)
        return otherwise if count is None else count

    return Usage(
        input=told("input_tokens", before.input),
        output=told("output_tokens", before.output),
        cache_read=told("cache_read_input_tokens", before.cache_read),
        cache_write=told("cache_creation_input_tokens", before.cache_write),
    )


def usage_left(document: dict[str, Any], where: str) -> dict[str, Any]:
    """What is told of usage beyond the tokens."""
    return left(optional(document, "usage", where), usage_to(NOTHING))


# ── writing ──


def block_to(item: Held, *, spoken: bool) -> dict[str, Any] | None:
    """A block as Anthropic writes it; None for what only another provider would understand."""
    block, beyond, home = item
    document: dict[str, Any] = {}
    match block:
        case Text():
            document = {"type": "text", "text": block.text}
        case Media():
            document = _media_to(block)
        case Call():
            document = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
            if block.raw:
                document["input"] = {"raw": block.raw}
        case Result():
            document = _result_to(block)
        case Thought():
            if home not in ("", PROVIDER):
                return None
            hidden = not block.text and beyond.get("type") != "thinking"
            document = {"type": "thinking", "thinking": block.text, "signature": block.seal}
            if hidden:
                document = {"type": "redacted_thinking", "data": block.seal}
        case Foreign():
            if block.provider == PROVIDER:
                return block.block
            words = nearest(block, spoken=spoken)
            return None if words is None else {"type": "text", "text": words.text}
    mark = {"cache_control": dict(_MARK)} if block.cached and "cache_control" not in beyond else {}
    return merged({**document, **mark}, beyond)


def _media_to(media: Media) -> dict[str, Any]:
    if media.media_type.startswith(_UNHEARD):
        raise Invalid("anthropic takes no sound and no film; send what was said as text", media_type=media.media_type)
    kind = "image" if media.media_type.startswith("image/") else "document"
    if media.url:
        source = {"type": "url", "url": media.url}
    elif media.media_type == "text/plain":
        source = {"type": "text", "media_type": media.media_type, "data": media.data.decode("utf-8", "replace")}
    else:
        source = {"type": "base64", "media_type": media.media_type, "data": packed(media.data)}
    title = {"title": media.name} if media.name and kind == "document" else {}
    return {"type": kind, "source": source, **title}


def _result_to(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call}
    if result.content:
        document["content"] = content_to(result.content, spoken=False)
    return {**document, "is_error": True} if result.failed else document


def content_to(blocks: Iterable[Block], *, spoken: bool) -> str | list[dict[str, Any]]:
    """The content of a message: plain words as a string, all else as a list."""
    items = content_list(blocks, spoken=spoken)
    if len(items) == 1 and set(items[0]) == {"type", "text"} and items[0]["type"] == "text":
        words: str = items[0]["text"]
        return words
    return items


def content_list(blocks: Iterable[Block], *, spoken: bool) -> list[dict[str, Any]]:
    """The blocks as they stand in a list. A sealed thought goes back to whoever sealed it; an open one to nobody."""
    _, items = held(blocks, PROVIDER)
    found = (block_to(item, spoken=spoken) for item in items)
    return [document for document in found if document is not None]


def sendable(blocks: Sequence[Block]) -> list[Block]:
    """Without what Anthropic would not take: thoughts that were never sealed, and blocks without words."""
    kept = [block for block in blocks if not isinstance(block, Thought) or block.seal]
    return [block for block in kept if not isinstance(block, Text) or block.text.strip()]


def usage_to(usage: Usage) -> dict[str, Any]:
    """Tokens as Anthropic tells them."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
