"""What an MCP server lists and answers, in our terms: tools, and blocks of a result."""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.talk.content import json_text
from perdure.core.talk.parts import Media, Text, Tool
from perdure.tools.outcome import Content, Outcome

LONGEST: Final = 64
"""Characters of a tool's name that every provider takes."""
BETWEEN: Final = "__"
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def named(server: str, tools: Iterable[Any]) -> dict[str, tuple[str, Tool]]:
    """The tools of a server by the name they have here, each with its own name there.

    A name that providers would not take is changed, and told apart by a part of its digest.
    """
    found: dict[str, tuple[str, Tool]] = {}
    for tool in tools:
        plain = f"{server}{BETWEEN}{_OTHER.sub('_', tool.name)}"
        if len(plain) > LONGEST or plain in found:
            plain = f"{plain[: LONGEST - 9]}_{sha256(tool.name.encode()).hexdigest()[:8]}"
        if plain not in found:
            words = tool.description or tool.title or ""
            found[plain] = (tool.name, Tool(name=plain, description=words, schema=dict(tool.input_schema)))
    return found


def outcome_from(answer: Any) -> Outcome:
    """What a server answered. Data that its texts do not say already is added as JSON."""
    content = [block for item in answer.content for block in _blocks(item)]
    data = answer.structured_content
    if data is not None and not _is_told(data, content):
        content.append(Text(text=json_text(data)))
    return Outcome(content=tuple(content), failed=bool(answer.is_error))


def _blocks(item: Any) -> tuple[Content, ...]:
    match item.type:
        case "text":
            return (Text(text=item.text),) if item.text else ()
        case "image" | "audio":
            return (_media(item.mime_type, item.data),)
        case "resource":
            held = item.resource
            if hasattr(held, "text"):
                return (Text(text=held.text),)
            return (_media(held.mime_type or "application/octet-stream", held.blob, held.uri),)
        case "resource_link":
            return (Text(text=f"{item.title or item.name}: {item.uri}"),)
        case _:
            return (Text(text=item.model_dump_json(by_alias=True, exclude_none=True)),)


def _media(kind: str, data: str, name: str = "") -> Content:
    try:
        return Media(media_type=kind, data=a2b_base64(data.encode("ascii")), name=name)
    except (Base64Error, UnicodeEncodeError):
        return Text(text=f"[left out: {kind} that is not base64]")


def _is_told(data: Any, content: list[Content]) -> bool:
    """Whether a text says the data already; servers wrap a plain answer as {"result": …}."""
    wrapped = data.get("result") if type(data) is dict and len(data) == 1 else None
    for block in content:
        if not isinstance(block, Text):
            continue
        if wrapped is not None and block.text == wrapped:
            return True
        try:
            said = msgspec.json.decode(block.text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
        if said == data or (wrapped is not None and said == wrapped):
            return True
    return False
