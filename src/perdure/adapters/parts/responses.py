"""Items of the Responses API as turns say them, and what others said as items of the Responses API.

An item is kept word for word, as the JSON text it would be sent as; beside it stands what it says to everybody else: a
message, a tool's call, a tool's result. Where that is the very text of the item, the JSON has a hole in its place, so
that no text is stored twice. All of it is pure: nothing here reads or writes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from perdure import errors
from perdure.adapters.parts.texts import one_text
from perdure.events import Item, Message, Spoken, ToolAsked, ToolFinished, native

BY: Final = "openai_agents"
_ROLES: Final = {"user": "user", "system": "system", "developer": "system", "tool": "tool"}
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_DATA_URL: Final = re.compile(r"data:(?P<kind>[^;,]*);base64,(?P<data>.*)", re.DOTALL)
_OWN: Final = frozenset({"type", "id", "call_id", "status", "output", "name", "error", "results", "outputs"})
"""What a call says besides its arguments."""
_STRANGE: Final = re.compile(r"[^a-zA-Z0-9_-]")
HOLE: Final = "\0"
"""Where the text goes that is stored beside the item. JSON has no such character of its own."""
_PLACEHOLDER: Final = '"\\u0000"'
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quickly: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder().decode


def plain(item: Any) -> dict[str, Any]:
    """An item as a dict, also when it is handed over as an object of the SDK's."""
    if isinstance(item, Mapping):
        return dict(item)
    dump = getattr(item, "model_dump", None)
    found = dump(mode="json", exclude_unset=True) if callable(dump) else None
    if not isinstance(found, dict):
        raise errors.Invalid(f"an item is a dict or a model of the Responses API, not {type(item).__name__}")
    return found


def written(items: Iterable[Any]) -> list[list[Spoken]]:
    """What is recorded for each of these items."""
    return [_holed(item) or _whole(item) for item in map(plain, items)]


def as_json(item: Mapping[str, Any]) -> str:
    """An item word for word. `Invalid` for what JSON has no words for."""
    quick = _at_once(item)
    if quick is not None:
        return quick
    try:
        text = _encode(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.Invalid(f"an item must be plain JSON data: {error}; convert it before adding it") from error
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair: escaped, it can be kept
        return json.dumps(item, separators=(",", ":"))
    return text


def _at_once(value: Any) -> str | None:
    """The JSON of plain data; None where reading it would not give the very same: there `json` has the last word."""
    try:
        text = _quickly(value)
        return text.decode() if _read(text) == value else None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def recorded(text: str) -> list[Spoken]:
    """What is recorded for one item, given as the JSON text it is."""
    return native(BY, text, told(json.loads(text)))


def _whole(item: dict[str, Any]) -> list[Spoken]:
    text = as_json(item)
    if all(type(value) is str for value in item.values()) and all(type(name) is str for name in item):
        return native(BY, text, told(item))
    return recorded(text)


def _holed(item: dict[str, Any]) -> list[Spoken] | None:
    """What is recorded for an item whose one text is also what it says to everybody; None for any other."""
    found = _one_text(item)
    if found is None:
        return None
    payload, text, rest = found
    shape = _at_once(rest)
    if shape is None or shape.count(_PLACEHOLDER) != 1 or not _sound(text):
        return None
    return native(BY, shape.replace(_PLACEHOLDER, HOLE), [payload])


def _one_text(item: dict[str, Any]) -> tuple[Spoken, str, dict[str, Any]] | None:
    """What a message or a result of one text says, that text, and the item with another one in its place."""
    kind, content = item.get("type", "message"), item.get("content")
    if kind == "message" and type(item.get("role")) is str:
        role = _ROLES.get(item["role"], "assistant")
        if type(content) is str:
            return Message(role=role, content=content), content, {**item, "content": HOLE}
        part = content[0] if type(content) is list and len(content) == 1 else None
        text = part.get("text") if type(part) is dict and type(part.get("type")) is str else None
        if type(part) is dict and type(text) is str and part["type"] in _TEXTS:
            rest = {**item, "content": [{**part, "text": HOLE}]}
            return Message(role=role, content=text), text, rest
    call, output = item.get("call_id"), item.get("output")
    if kind == "function_call_output" and type(call) is str and call and type(output) is str and _sound(call):
        return ToolFinished(call=call, result=output), output, {**item, "output": HOLE}
    return None


def filled(shape: str, payload: Spoken) -> str:
    """The JSON text of an item."""
    if HOLE not in shape:
        return shape
    said = payload.content if isinstance(payload, Message) else getattr(payload, "result", "")
    if isinstance(said, list):  # one block; a result to a call that nobody knows of is a block too
        said = said[0].get("text", said[0].get("content"))
    return shape.replace(HOLE, _encode(said))


def told(item: dict[str, Any]) -> list[Spoken]:
    """What an item says to those who do not know the Responses API."""
    kind, call = item.get("type") or "message", item.get("call_id")
    if not isinstance(kind, str):
        raise errors.Invalid(f"the type of an item is a text, not {kind!r:.80}; give it the type the API gave it")
    if kind == "message" and "content" in item:
        role = item.get("role")
        content = blocks(item["content"])
        return [Message(role=_ROLES.get(role, "assistant") if isinstance(role, str) else "assistant", content=content)]
    if kind == "reasoning":
        thought = "\n".join(_texts(item.get("summary")) or _texts(item.get("content")))
        return [Message(role="assistant", content=[{"type": "thinking", "thinking": _clean(thought)}])]
    if kind.endswith("call_output") and isinstance(call, str) and call:
        return [ToolFinished(call=_clean(call), result=_result(item.get("output")))]
    if kind.endswith("_call") and isinstance(call, str) and call:
        return [ToolAsked(call=_clean(call), name=_name(item, kind), arguments=_arguments(item))]
    if kind.endswith("_call") and isinstance(item.get("id"), str) and item["id"]:
        return _hosted(item, kind)
    said = [f"({kind})", *([_clean(item["name"])] if isinstance(item.get("name"), str) else [])]
    return [Message(role="assistant", content=" ".join(said))]


def _hosted(item: dict[str, Any], kind: str) -> list[Spoken]:
    """A tool that ran where the model runs: its call and its result are one item."""
    call = _clean(item["id"])
    asked = ToolAsked(call=call, name=_name(item, kind), arguments=_arguments(item))
    found = next((item[name] for name in ("output", "outputs", "results") if item.get(name) is not None), None)
    error = item.get("error")
    if error is not None:
        return [asked, ToolFinished(call=call, error=error if isinstance(error, str) else _dumped(error))]
    return [asked, ToolFinished(call=call, result=_result(found if found is not None else item.get("status")))]


def blocks(content: Any) -> Any:
    """The content of a message: a text, or blocks as everybody spells them."""
    if isinstance(content, str):
        return _clean(content)
    if not isinstance(content, list):
        return _dumped(content)
    return one_text([_block(part) for part in content])


def _block(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in _TEXTS:
        return {"type": "text", "text": _clean(part.get("text"))}
    if kind == "refusal":
        return {"type": "text", "text": _clean(part.get("refusal"))}
    url = part.get("image_url") or part.get("file_url") or part.get("file_data") if isinstance(part, dict) else None
    if kind in ("input_image", "input_file") and isinstance(url, str):
        inline = _DATA_URL.fullmatch(url)
        source = {"type": "url", "url": _clean(url)}
        if inline is not None:
            source = {"type": "base64", "media_type": inline["kind"], "data": inline["data"]}
        return {"type": "image" if kind == "input_image" else "document", "source": source}
    return {"type": "text", "text": _dumped(part)}


def _texts(parts: Any) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    found = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [text for text in found if isinstance(text, str)]


def _result(output: Any) -> Any:
    return blocks(output) if isinstance(output, str | list) else None if output is None else _dumped(output)


def _name(item: dict[str, Any], kind: str) -> str:
    name = item.get("name")
    return _clean(name) if isinstance(name, str) and name else kind.removesuffix("_call")


def _arguments(item: dict[str, Any]) -> Any:
    """The arguments of a call: parsed where they are plain data, else as they were written."""
    given = item.get("arguments", item.get("input", item.get("action")))
    if given is None:
        given = {name: value for name, value in item.items() if name not in _OWN} or None
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except (ValueError, RecursionError):
            return _clean(given)
        return _clean(given) if not isinstance(found, dict) else _kept(found, given)
    return _kept(given, None)


def _kept(value: Any, written: str | None) -> Any:
    """A value, if everybody can read it as it is; else its text."""
    return value if _fits(value, 32) else _clean(written) if written is not None else _dumped(value)


def _fits(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_sound(key) and _fits(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_fits(item, depth - 1) for item in value)
    if isinstance(value, str):
        return _sound(value)
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor no number
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _sound(text: str) -> bool:
    return text.isascii() or _clean(text) == text


def _clean(text: Any) -> str:
    """A text without halves of surrogate pairs; those are in the item itself."""
    found = text if isinstance(text, str) else _dumped(text)
    return found if found.isascii() else found.encode("utf-8", "replace").decode()


def _dumped(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# ── what was said, as items ──


def spelled(item: Item) -> list[dict[str, Any]]:
    """One item of a conversation; what says nothing to a model is left out."""
    if item.by == BY and isinstance(item.native, str):
        return [json.loads(filled(item.native, item.payloads[0]))]
    return [found for payload in item.payloads for found in _spelled(payload)]


def _spelled(payload: Spoken) -> list[dict[str, Any]]:
    if isinstance(payload, ToolAsked):
        return [_call(payload.call, payload.name, payload.arguments)]
    if isinstance(payload, ToolFinished):
        return [output(payload.call, payload.result if payload.error is None else payload.error)]
    content = payload.content
    if not isinstance(content, list):
        return [{"role": _role(payload), "content": content if isinstance(content, str) else _dumped(content)}]
    found: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            found.append(_call(str(block.get("id")), str(block.get("name")), block.get("input")))
        elif kind == "tool_result":
            found.append(output(str(block.get("tool_use_id")), block.get("content")))
        elif kind not in ("thinking", "redacted_thinking"):  # another model's thoughts are no use to this one
            parts.append(_part(block))
    words = [part.get("text") for part in parts]
    if parts and (_role(payload) == "assistant" or all(type(word) is str for word in words)):
        said = "\n".join(word or _dumped(part) for word, part in zip(words, parts, strict=True))
        return [{"role": _role(payload), "content": said}, *found]
    return [{"role": _role(payload), "content": parts}, *found] if parts else found


def _role(message: Message) -> str:
    return message.role if message.role in ("user", "system") else "assistant"


def _part(block: Any) -> dict[str, Any]:
    source = block.get("source") if isinstance(block, dict) else None
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {"type": "input_text", "text": block["text"]}
    if isinstance(source, dict) and block.get("type") in ("image", "document"):
        url = source.get("url")
        if not isinstance(url, str):
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
        if block["type"] == "image":
            return {"type": "input_image", "detail": "auto", "image_url": url}
        place = (
            {"file_url": url} if "url" in source else {"filename": str(block.get("title", "file")), "file_data": url}
        )
        return {"type": "input_file", **place}
    return {"type": "input_text", "text": block if isinstance(block, str) else _readable(block)}


def _readable(value: Any) -> str:
    """Any value as a text."""
    try:
        return _dumped(value)
    except (TypeError, ValueError):
        return str(value)


def _call(call: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else _readable({} if arguments is None else arguments)
    return {"type": "function_call", "call_id": call, "name": _STRANGE.sub("_", name) or "_", "arguments": text}


def output(call: str, result: Any) -> dict[str, Any]:
    """The result of a call."""
    texts = _texts(result) if isinstance(result, list) and result else []
    text = "\n".join(texts) if texts and len(texts) == len(result) else _readable("" if result is None else result)
    return {"type": "function_call_output", "call_id": call, "output": text}
