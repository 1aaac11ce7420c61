"""Transcript entries of the Claude Agent SDK as events. Pure: nothing here reads or writes.

What the user and the model said becomes messages, tool calls and results, with the entry itself beside them; every
other entry is a note of the adapter's. Invariant: an entry comes back equal to what went in, wherever it was kept.
"""

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final, TypeAlias

import msgspec

import perdure
from perdure.events import Message, Noted, Payload, Spoken, ToolAsked, ToolFinished, native

BY: Final = "claude_agent"
Entry: TypeAlias = dict[str, Any]
LARGE: Final = 4 << 20
"""Entries of more bytes than this lie beside the log."""
_SHOWN: Final = 1000
_DEEP: Final = 48
_SPEAKERS: Final = frozenset({"user", "assistant"})


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, how it is kept in the log, and how large it is. `beside` is what lies beside the log, if not None."""

    entry: Entry
    form: Any
    size: int
    beside: bytes | None = None


# ── entries that no log takes as they are ──


def kept(entry: Entry) -> Kept:
    """How an entry is kept: as it is; as JSON when it holds what plain data may not; beside the log when it is large.

    An entry is a dict, so the list that stands for one cannot be mistaken for it.
    """
    if _plain(entry):
        size = len(msgspec.msgpack.encode(entry))
        if size <= LARGE:
            return Kept(entry=entry, form=entry, size=size)
    written = json.dumps(entry)
    if len(written) <= LARGE:
        return Kept(entry=entry, form=["json", uuid_of(entry), written], size=len(written))
    return Kept(entry=entry, form=["beside", uuid_of(entry), None], size=_SHOWN, beside=written.encode())


def beside(found: Kept, ref: perdure.Ref) -> Kept:
    """The same entry, once what lies beside the log has its place."""
    return msgspec.structs.replace(found, form=["beside", uuid_of(found.entry), ref])


def entry_of(form: Any) -> Entry | perdure.Ref | None:
    """The entry behind what the log keeps, or where it lies; None for what is no entry."""
    match form:
        case dict():
            return form
        case ["json", _, str(written)]:
            found: Entry = json.loads(written)
            return found
        case ["beside", _, perdure.Ref() as ref]:
            return ref
        case _:
            return None


def uuid_of(form: Any) -> str | None:
    """The uuid of an entry, in whatever form it is kept."""
    found = form.get("uuid") if type(form) is dict else form[1] if type(form) is list and len(form) == 3 else None
    if type(found) is not str or not found:
        return None
    return _text(found)


def _plain(value: Any) -> bool:
    """Whether a log keeps it exactly: no lone surrogates, no endless numbers, nothing too deep."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEP:
            return False
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if not item.isascii() and _text(item) != item:
                    return False
            elif kind is dict:
                if any(type(key) is not str or len(key) > 250 or _text(key) != key for key in item):
                    return False
                below += item.values()
            elif kind is list:
                below += item
            elif kind is int:
                if not -(2**63) <= item < 2**64:
                    return False
            elif kind is float:
                if not isfinite(item):
                    return False
            elif kind is not bool and item is not None:
                return False
        level = below
    return True


def _text(text: str) -> str:
    """The text without lone surrogates, which a cut in the middle of a character leaves behind."""
    return text.encode("utf-8", "replace").decode()


# ── entries as events ──


def payloads_of(found: Kept, aside: bool = False) -> list[Payload]:
    """An entry as events; one that is aside of the conversation is a note."""
    entry = found.entry
    about = entry.get("type")
    spoken = [] if aside else _spoken(entry)
    if found.beside is not None:
        spoken = [_short(payload) for payload in spoken]
    if not spoken:
        return [Noted(by=BY, about=_text(about)[:_SHOWN] if type(about) is str else "", data=found.form)]
    return list(native(BY, found.form, spoken))


def _spoken(entry: Entry) -> list[Spoken]:
    """What an entry says in the conversation; nothing if it is no part of it."""
    role, message = entry.get("type"), entry.get("message")
    if role not in _SPEAKERS or type(message) is not dict or entry.get("isMeta") or entry.get("isCompactSummary"):
        return []
    content = message.get("content")
    if type(content) is str:
        return [Message(role=role, content=_text(content))]
    return apart(role, content) if type(content) is list else []


def apart(role: str, content: Iterable[Any]) -> list[Spoken]:
    """What these blocks say, each call of a tool and each result by itself."""
    found: list[Spoken] = []
    blocks: list[Any] = []
    for block in content:
        piece = _call(block)
        if piece is None:
            blocks.append(_cleaned(block))
            continue
        found += _message(role, blocks)
        found.append(piece)
        blocks = []
    return found + _message(role, blocks)


def _call(block: Any) -> Spoken | None:
    """A tool's call or result; None for any other block."""
    match block:
        case {"type": "tool_use", "id": str(call), "name": str(name)} if call:
            return ToolAsked(call=_text(call), name=_text(name), arguments=_cleaned(block.get("input")))
        case {"type": "tool_result", "tool_use_id": str(call)} if call:
            content = _cleaned(block.get("content"))
            if block.get("is_error"):
                return ToolFinished(call=_text(call), error=said_in(content))
            return ToolFinished(call=_text(call), result=content)
        case _:
            return None


def _message(role: str, blocks: list[Any]) -> list[Spoken]:
    match blocks:
        case []:
            return []
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return [Message(role=role, content=text)]
        case _:
            return [Message(role=role, content=blocks)]


def _cleaned(value: Any) -> Any:
    """The value as plain data: exactly, or as text."""
    if _plain(value):
        return value
    cleaned = json.loads(_text(json.dumps(value, ensure_ascii=False)))
    return cleaned if _plain(cleaned) else json.dumps(value)


def _short(payload: Spoken) -> Spoken:
    """The payload of an entry that lies beside the log: its beginning."""
    match payload:
        case Message(role=role, content=content):
            return Message(role=role, content=_cut(said_in(content)))
        case ToolAsked(call=call, name=name, arguments=arguments):
            return ToolAsked(call=call, name=name, arguments={"beginning": _cut(json.dumps(arguments))})
        case ToolFinished(call=call, result=result, error=error):
            if error is not None:
                return ToolFinished(call=call, error=_cut(error))
            return ToolFinished(call=call, result=_cut(said_in(result)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def said_in(content: Any) -> str:
    """The texts in a content, whatever its form."""
    if type(content) is str:
        return content
    if type(content) is list:
        texts = [block.get("text") if type(block) is dict else block for block in content]
        known = [text for text in texts if type(text) is str]
        if known or not content:
            return "\n".join(known)
    return "" if content is None else json.dumps(content, default=str)


def goes_on(entries: Iterable[Entry]) -> bool:
    """Whether more of the turn follows these entries: a tool was asked, or the answer has no words yet."""
    for entry in reversed(list(entries)):
        if _spoken(entry):
            if entry.get("type") == "user":
                return True
            message = entry["message"]
            return message.get("stop_reason") in ("tool_use", "pause_turn") or not _worded(message["content"])
    return False


def _worded(content: Any) -> bool:
    return type(content) is str or any(type(block) is dict and block.get("type") == "text" for block in content)
