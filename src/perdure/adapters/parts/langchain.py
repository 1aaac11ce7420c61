"""LangChain's messages as events, and events as LangChain's messages. Pure: nothing here reads or writes.

A message that LangChain wrote is kept beside its events in LangGraph's own bytes and comes back exactly. One that
somebody else wrote is translated; its id names the events it stands for, so that it is recognised when it returns.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from perdure.adapters.parts.pairing import INTERRUPTED, Step, with_results
from perdure.adapters.parts.texts import all_text, one_text
from perdure.events import Message, Spoken, ToolAsked, ToolFinished

_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "function": "tool", "tool": "tool"}
_ALOUD: Final = frozenset({"user", "assistant", "system", "tool"})
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_FOREIGN: Final = re.compile(r"perdure-(\d{1,18})-(\d{1,18})")


def foreign_id(first: int, last: int) -> str:
    """The id of a message that stands for these versions of the log."""
    return f"perdure-{first}-{last}"


def foreign_span(id: Any) -> tuple[int, int] | None:
    """The versions a message stands for, if it is one that was translated."""
    found = _FOREIGN.fullmatch(id) if isinstance(id, str) else None
    return None if found is None else (int(found[1]), int(found[2]))


# ── from LangChain ──


def payloads_of(message: BaseMessage) -> list[Spoken]:
    """What the message says and does, as events."""
    name = message.name if type(message.name) is str else None
    if isinstance(message, ToolMessage):
        return [_finished(message)]
    role = message.role if isinstance(message, ChatMessage) else _ROLES.get(message.type.lower(), "user")
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    content = _content(message.content, calls=bool(calls))
    found: list[Spoken] = []
    if content or not calls:
        found.append(Message(role=role if role in _ALOUD else "user", content=content, name=name))
    for call in calls:
        asked = str(call.get("id") or "")
        found.append(ToolAsked(call=asked, name=str(call["name"]), arguments=plain(call["args"])))
    return found


def _finished(message: ToolMessage) -> ToolFinished:
    content = _content(message.content)
    if message.status == "error":
        text = content if type(content) is str else json.dumps(content, ensure_ascii=False, default=str)
        return ToolFinished(call=message.tool_call_id, error=text)
    return ToolFinished(call=message.tool_call_id, result=content)


def _content(content: Any, *, calls: bool = False) -> Any:
    """A text, or blocks; calls that are events of their own are not said twice."""
    if not isinstance(content, list):
        return plain(content)
    blocks = [{"type": "text", "text": item} if isinstance(item, str) else _block(item) for item in content]
    return one_text([plain(block) for block in blocks if not (calls and block.get("type") == "tool_use")])


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """Images are spelled one way, whoever's they are."""
    image = block.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if block.get("type") == "image_url" and isinstance(url, str):
        found = _DATA_URL.fullmatch(url)
        if found is None:
            return {"type": "image", "source": {"type": "url", "url": url}}
        return {"type": "image", "source": {"type": "base64", "media_type": found[1], "data": found[2]}}
    return block


def plain(value: Any) -> Any:
    """The value as plain data; what has no such form is shown as text. The exact value lies in the native item."""
    if value is None or type(value) is bool or type(value) is bytes:
        return value
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, dict):
        return {plain(key if isinstance(key, str) else str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


# ── to LangChain ──


def going_on(
    own: Sequence[BaseMessage], places: Sequence[int], others: Iterable[tuple[int, BaseMessage]]
) -> list[BaseMessage]:
    """The messages of a list and what was said elsewhere, by their places in the log, with a result for each call that
    was interrupted. Nothing comes between a call of the list and its result.
    """
    messages: list[tuple[BaseMessage, bool]] = []
    taken = 0
    for place, message in others:
        until = max(taken, bisect_right(places, place))
        while until < len(own) and isinstance(own[until], ToolMessage):
            until += 1
        messages += [*((mine, True) for mine in own[taken:until]), (message, False)]
        taken = until
    messages += [(mine, True) for mine in own[taken:]]
    steps = [
        Step(
            [str(call["id"]) for call in message.tool_calls] if isinstance(message, AIMessage) else (),
            [message.tool_call_id] if isinstance(message, ToolMessage) else (),
            own=mine,
        )
        for message, mine in messages
    ]
    return with_results([message for message, _ in messages], steps, _interrupted)


def _interrupted(call: str) -> BaseMessage:
    return ToolMessage(INTERRUPTED, tool_call_id=call, status="error", id=f"interrupted-{call}")


def message_of(payloads: Sequence[Spoken], id: str) -> BaseMessage:
    """One message that says and does what these payloads do: what an assistant said and asked, or anything single."""
    first = payloads[0]
    if isinstance(first, ToolFinished):
        failed = first.error is not None
        content = _told(first.error if failed else first.result)
        return ToolMessage(content, tool_call_id=first.call, status="error" if failed else "success", id=id)
    if isinstance(first, Message) and first.role != "assistant":
        return _single(first, id)
    said: list[Any] = []
    calls: list[dict[str, Any]] = []
    for payload in payloads:
        if isinstance(payload, ToolAsked):
            calls.append(_call(payload.call, payload.name, payload.arguments))
        elif isinstance(payload, Message):
            words, asked = _apart(payload.content)
            said.append(words)
            calls += asked
    return AIMessage(_joined(said), tool_calls=calls, id=id)


def _single(message: Message, id: str) -> BaseMessage:
    if message.role == "tool":
        block = message.content[0] if isinstance(message.content, list) and message.content else None
        if isinstance(block, dict) and block.get("type") == "tool_result":
            status = "error" if block.get("is_error") else "success"
            call = str(block.get("tool_use_id", ""))
            return ToolMessage(_told(block.get("content")), tool_call_id=call, status=status, id=id)
        return ChatMessage(content=_spoken(message.content), role="tool", id=id)
    made = SystemMessage if message.role == "system" else HumanMessage
    return made(_spoken(message.content), name=message.name, id=id)


def joins(before: Sequence[Spoken], after: Sequence[Spoken], *, together: bool) -> bool:
    """Whether one message holds both: what an assistant said `together`, and the calls that follow its words."""
    return _speaks(before) and _speaks(after) and (together or any(isinstance(item, ToolAsked) for item in after))


def _speaks(payloads: Iterable[Spoken]) -> bool:
    return all(
        isinstance(item, ToolAsked) or (isinstance(item, Message) and item.role == "assistant") for item in payloads
    )


def _call(call: str, name: str, arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"input": arguments}
    args = arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}
    return {"type": "tool_call", "id": call, "name": name, "args": args}


def _apart(content: Any) -> tuple[Any, list[dict[str, Any]]]:
    """What an assistant said, and the calls that stand among it."""
    if not isinstance(content, list):
        return content, []
    asked = [item for item in content if isinstance(item, dict) and item.get("type") == "tool_use"]
    calls = [_call(str(item.get("id", "")), str(item.get("name", "")), item.get("input")) for item in asked]
    return [item for item in content if item not in asked], calls


def _joined(said: list[Any]) -> Any:
    said = [all_text(words) for words in said if words]
    if all(isinstance(words, str) for words in said):
        return "\n".join(said)
    blocks: list[Any] = []
    for words in said:
        blocks += _spoken(words) if isinstance(words, list) else [{"type": "text", "text": _told(words)}]
    return blocks


def _spoken(content: Any) -> Any:
    content = all_text(content)
    if not isinstance(content, list):
        return _told(content)
    return [_shown(item) if isinstance(item, dict) else _told(item) for item in content]


def _shown(block: dict[str, Any]) -> dict[str, Any]:
    source = block.get("source")
    if block.get("type") != "image" or not isinstance(source, dict):
        return block
    if source.get("type") == "url":
        return {"type": "image_url", "image_url": {"url": source.get("url")}}
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{source.get('media_type')};base64,{source.get('data')}"},
    }


def _told(value: Any) -> str | list[Any]:
    """As the content of a message: text and blocks as they are, other data as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    blocks = isinstance(value, list) and all(isinstance(item, dict) and "type" in item for item in value)
    return _spoken(value) if value and blocks else json.dumps(value, ensure_ascii=False, default=str)
