"""The items of OpenAI's Responses: what a side said in a row becomes the blocks of one message, and back.

A message of the model is one item among its thoughts and calls. What such an item has beyond its words is kept with
the last of them, under `item`: that is where the item ends.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Block, Call, Foreign, Media, Result, Said, Text, Thought, Usage
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
    rest,
    rest_in,
    url_of,
    whole,
    word,
    written,
)

PROVIDER: Final = "openai-responses"
_UNHEARD: Final = ("audio/", "video/")
_WORDS: Final = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
Side = Literal["user", "assistant", "system"]


# ── reading ──


def said_from(items: Sequence[object], where: str) -> tuple[Said, ...]:
    """The messages that items make: what the model said in a row is one, and so are results in a row."""
    said: list[Said] = []
    for at, value in enumerate(items):
        item = fields(value, f"{where}[{at}]")
        role, blocks = item_from(item, f"{where}[{at}]")
        message = "role" in item
        last = said[-1] if said else None
        if last is not None and last.role == role and _joins(last, role, message):
            said[-1] = Said(role=role, blocks=(*last.blocks, *blocks))
        else:
            said.append(Said(role=role, blocks=blocks))
    return tuple(said)


def _joins(last: Said, role: Side, message: bool) -> bool:
    if role == "assistant":
        return not (message and any(isinstance(block, Text) for block in last.blocks))
    return role == "user" and not message and _is_output(last)


def _is_output(said: Said) -> bool:
    """Whether a user's message holds nothing but what came of tools."""
    return bool(said.blocks) and (
        isinstance(said.blocks[0], Result)
        or (isinstance(said.blocks[0], Foreign) and str(said.blocks[0].block.get("type", "")).endswith("_output"))
    )


def item_from(item: dict[str, Any], where: str) -> tuple[Side, tuple[Block, ...]]:
    """One item: whose it is, and its blocks. One of a type that is not known stays as it was."""
    kind = word(item, "type", where, "message" if "role" in item else "item_reference")
    match kind:
        case "message":
            return _message_from(item, where)
        case "function_call":
            call = arguments(word(item, "call_id", where), word(item, "name", where), word(item, "arguments", where))
            return "assistant", (call, *rest(PROVIDER, left(item, {"type", "call_id", "name", "arguments"})))
        case "custom_tool_call":
            raw = word(item, "input", where)
            call = Call(id=word(item, "call_id", where), name=word(item, "name", where), raw=raw)
            return "assistant", (call, *rest(PROVIDER, left(item, {"call_id", "name", "input"})))
        case "function_call_output" | "custom_tool_call_output":
            if "output" not in item:
                raise Invalid(f"{where}.output is missing; send it", where=f"{where}.output")
            content = content_from(item["output"], f"{where}.output", "input_text")
            known = {"call_id", "output"} | ({"type"} if kind == "function_call_output" else set())
            result = Result(call=word(item, "call_id", where), content=content)
            return "user", (result, *rest(PROVIDER, left(item, known)))
        case "reasoning":
            return "assistant", _thought_from(item, where)
        case _:
            return "user" if kind.endswith("_output") else "assistant", (Foreign(provider=PROVIDER, block=item),)


def _message_from(item: dict[str, Any], where: str) -> tuple[Side, tuple[Block, ...]]:
    role = word(item, "role", where)
    if "content" not in item:
        raise Invalid(f"{where}.content is missing; send it", where=f"{where}.content")
    beyond = left(item, {"type", "role", "content"})
    if role == "assistant":
        return "assistant", _spoken_from(item, beyond, where)
    blocks = content_from(item["content"], f"{where}.content", "input_text")
    if role == "user":
        return "user", (*rest(PROVIDER, beyond), *blocks)
    if role not in ("system", "developer"):
        raise Invalid(
            f"{where}.role is {role!r}; it must be user, assistant, system or developer", where=f"{where}.role"
        )
    if role == "developer":
        beyond["role"] = role
    return "system", (*rest(PROVIDER, beyond), *blocks)


def _spoken_from(item: dict[str, Any], beyond: dict[str, Any], where: str) -> tuple[Block, ...]:
    blocks = list(content_from(item["content"], f"{where}.content", "output_text"))
    if not any(isinstance(block, Text) for block in blocks):
        return (Foreign(provider=PROVIDER, block=item),)
    if beyond:
        last = rest_in(blocks[-1])
        if last is not None:
            blocks.pop()
        blocks += rest(PROVIDER, {**(last or {}), "item": beyond})
    return tuple(blocks)


def _thought_from(item: dict[str, Any], where: str) -> tuple[Block, ...]:
    summary = listed(item.get("summary") or [], f"{where}.summary")
    content = listed(item.get("content") or [], f"{where}.content")
    parts = [
        word(fields(part, f"{where}.summary[{at}]"), "text", f"{where}.summary[{at}]")
        for at, part in enumerate(summary or content)
    ]
    thought = Thought(text="\n\n".join(parts), seal=word(item, "encrypted_content", where, ""))
    beyond = left(item, {"summary", "encrypted_content"})
    if summary != _summary(thought.text):
        beyond["summary"] = summary
    return (thought, *rest(PROVIDER, beyond))


def _summary(text: str) -> list[dict[str, Any]]:
    return [{"type": "summary_text", "text": text}] if text else []


def content_from(value: object, where: str, usual: str) -> tuple[Text | Media | Foreign, ...]:
    """Content: a string or a list of parts, of which words are usually of one type."""
    if isinstance(value, str):
        return (Text(text=value),)
    return tuple(
        block for at, item in enumerate(listed(value, where)) for block in part_from(item, f"{where}[{at}]", usual)
    )


def part_from(value: object, where: str, usual: str) -> tuple[Text | Media | Foreign, ...]:
    """A part and its rest. One of a type that is not known stays as it was."""
    part = fields(value, where)
    kind = word(part, "type", where)
    if kind in _WORDS:
        beyond = left(part, {_WORDS[kind]} | ({"type"} if kind == usual else set()))
        if beyond.get("annotations") == []:
            del beyond["annotations"]
        return (Text(text=word(part, _WORDS[kind], where)), *rest(PROVIDER, beyond))
    media = _media_from(part, kind, where)
    if media is None:
        return (Foreign(provider=PROVIDER, block=part),)
    return (media, *rest(PROVIDER, left(part, media_to(media))))


def _media_from(part: dict[str, Any], kind: str, where: str) -> Media | None:
    match kind:
        case "input_image":
            url, media_type, name = word(part, "image_url", where, ""), "image/*", ""
            found = data_url(url, f"{where}.image_url")
        case "input_file":
            url, media_type = word(part, "file_url", where, ""), "application/pdf"
            name = word(part, "filename", where, "")
            found = data_url(word(part, "file_data", where, ""), f"{where}.file_data")
        case _:
            return None
    if found is not None and found[0].startswith(_UNHEARD):
        return None
    if found is not None and found[1] and found[0].startswith("image/") == (kind == "input_image"):
        return Media(media_type=found[0], data=found[1], name=name)
    return Media(media_type=media_type, url=url, name=name) if url else None


def usage_from(document: dict[str, Any], where: str) -> Usage:
    """Tokens; those from or for a cache are counted apart."""
    details = optional(document, "input_tokens_details", where)
    read = whole(details, "cached_tokens", f"{where}.input_tokens_details") or 0
    write = whole(details, "cache_write_tokens", f"{where}.input_tokens_details") or 0
    return Usage(
        input=max(0, (whole(document, "input_tokens", where) or 0) - read - write),
        output=whole(document, "output_tokens", where) or 0,
        cache_read=read,
        cache_write=write,
    )


# ── writing ──


def items_to(said: Said) -> list[dict[str, Any]]:
    """The items that say a message: of a user first what came of tools, for that follows its calls."""
    if said.role == "assistant":
        return spoken_to(said.blocks)
    message, found = held(said.blocks, PROVIDER)
    items: list[dict[str, Any]] = []
    others: list[Block] = []
    for block, beyond, _ in found:
        if isinstance(block, Result):
            items.append(merged(_result_to(block), beyond))
        elif isinstance(block, Foreign) and str(block.block.get("type", "")).endswith("_output"):
            items += [block.block] if block.provider == PROVIDER else []
        else:
            others += [block, *rest(PROVIDER, beyond)]
    if others or not items:
        content = content_to(others, "input_text")
        items.append(merged({"type": "message", "role": said.role, "content": content}, message))
    return items


def spoken_to(blocks: Iterable[Block], *, name: str = "") -> list[dict[str, Any]]:
    """The items of what a model said. With a name they are its output, and each is whole and has an id."""
    items: list[dict[str, Any]] = []
    words: list[Held] = []

    def close(beyond: dict[str, Any]) -> None:
        if words:
            item = {"type": "message", "role": "assistant", "content": _spoken_content(words, whole_form=bool(name))}
            items.append(merged(_numbered(item, "msg", name, len(items)), beyond))
            words.clear()

    for found in held(blocks, PROVIDER)[1]:
        block, beyond, home = found
        if isinstance(block, Text):
            words.append(found)
            if "item" in beyond:
                close(beyond["item"])
            continue
        if isinstance(block, Foreign) and block.provider != PROVIDER:
            near = nearest(block, spoken=True)
            words += [Held(near, {}, "")] if near is not None else []
            continue
        close({})
        if isinstance(block, Call):
            items.append(merged(_numbered(call_to(block, beyond), "fc", name, len(items)), beyond))
        elif isinstance(block, Thought) and (home == PROVIDER or name):
            item = thought_to(block, sealed=home == PROVIDER)
            items.append(merged({"id": f"rs_{name}_{len(items)}", **item} if name else item, beyond))
        elif isinstance(block, Foreign):
            items.append(block.block)
    close({})
    return items


def _numbered(item: dict[str, Any], prefix: str, name: str, at: int) -> dict[str, Any]:
    return {"id": f"{prefix}_{name}_{at}", "status": "completed", **item} if name else item


def _spoken_content(words: Sequence[Held], *, whole_form: bool) -> str | list[dict[str, Any]]:
    parts = [part for part in (part_to(item, "output_text") for item in words) if part is not None]
    plain = len(parts) == 1 and parts[0]["type"] == "output_text" and set(parts[0]) == {"type", "text", "annotations"}
    if plain and not parts[0]["annotations"] and not whole_form:
        text: str = parts[0]["text"]
        return text
    return parts


def call_to(call: Call, beyond: dict[str, Any]) -> dict[str, Any]:
    """A call as an item."""
    if beyond.get("type") == "custom_tool_call":
        told = written(call) if call.arguments else call.raw
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": told}
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written(call)}


def thought_to(thought: Thought, *, sealed: bool) -> dict[str, Any]:
    """A thought as an item; its seal only if it is from here."""
    item = {"type": "reasoning", "summary": _summary(thought.text)}
    return {**item, "encrypted_content": thought.seal} if sealed and thought.seal else item


def _result_to(result: Result) -> dict[str, Any]:
    output = content_to(result.content, "input_text")
    if result.failed and not (isinstance(output, str) and output.lower().startswith("error")):
        mark = {"type": "input_text", "text": "Error:"}
        output = f"Error: {output}" if isinstance(output, str) else [mark, *output]
    return {"type": "function_call_output", "call_id": result.call, "output": output}


def content_to(blocks: Iterable[Block], usual: str) -> str | list[dict[str, Any]]:
    """Content: plain words as a string, all else as a list."""
    parts = [part for part in (part_to(item, usual) for item in held(blocks, PROVIDER)[1]) if part is not None]
    if not parts:
        return ""
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == usual:
        words: str = parts[0]["text"]
        return words
    return parts


def part_to(item: Held, usual: str) -> dict[str, Any] | None:
    """A block as a part; None for what is no part of a message's content."""
    block, beyond, _ = item
    beyond = left(beyond, {"item"})
    match block:
        case Text():
            kind = str(beyond.get("type", usual))
            noted: dict[str, Any] = {"annotations": []} if kind == "output_text" else {}
            return merged({"type": kind, _WORDS.get(kind, "text"): block.text, **noted}, beyond)
        case Media():
            return merged(media_to(block), beyond)
        case Foreign():
            if block.provider == PROVIDER:
                return block.block
            words = nearest(block, spoken=False)
            return None if words is None else {"type": usual, "text": words.text}
        case Call() | Result() | Thought():
            return None


def media_to(media: Media) -> dict[str, Any]:
    """An image or a file as a part."""
    if media.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": url_of(media)}
    if media.media_type.startswith(_UNHEARD):
        raise Invalid("responses take no sound and no film; send what was said as text", media_type=media.media_type)
    name = {"filename": media.name} if media.name else {}
    return {"type": "input_file", **name, ("file_url" if media.url else "file_data"): url_of(media)}


def usage_to(usage: Usage) -> dict[str, Any]:
    """Tokens as Responses tell them: the input's all together."""
    taken = usage.input + usage.cache_read + usage.cache_write
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        "input_tokens": taken,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": taken + usage.output,
    }
