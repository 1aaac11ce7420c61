"""Events and state of Google's Agent Development Kit as perdure keeps them, and any conversation as ADK reads it.

An event's JSON lies beside what it says, so ADK reads back exactly what it wrote. An event that says nothing (state,
rewinds, compactions) is a note. What others said is translated. Everything here is pure.
"""

import json
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, Final

import msgspec
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions.state import State
from google.genai import types
from pydantic_core import to_jsonable_python

from perdure.adapters.parts.pairing import INTERRUPTED, Step, left_open
from perdure.adapters.parts.sound import sound
from perdure.events import (
    Draft,
    Event,
    Item,
    Message,
    Noted,
    Payload,
    Retracted,
    Spoken,
    ToolAsked,
    ToolFinished,
    items_of,
    native,
)

BY: Final = "google_adk"
MODEL: Final = "model"
"""By whom assistants of other frameworks are unless a service is told otherwise: an agent that ADK does not know."""
EVENT: Final = "event"
REWIND: Final = "rewind"
RESULT: Final = "tool_result"
TELLING: Final = frozenset({"redacted", "retracted", "turn_rolled_back", "vars_patched"})
"""Kinds that change what a session says or holds, besides what is said."""
ODD: Final = "$json"
NESTED: Final = 50
ROLES: Final = {"user": "user", "system": "system"}
_DOCUMENTS: Final = {"image": "image", "application/pdf": "document"}

Document = dict[str, Any]


def spelled(event: AdkEvent) -> str:
    """An event as it is kept: JSON, by the names of the fields, without what is not set."""
    with sound(f"event {event.id}"):
        return event.model_dump_json(exclude_none=True, by_alias=False)


def drafts(event: AdkEvent, text: str) -> list[Draft]:
    """What an event becomes in the log: what it says with its JSON beside it, or a note."""
    agent = event.author if event.author not in ("", "user") else None
    if event.actions.rewind_before_invocation_id:
        return [Draft(Noted(by=BY, about=REWIND, data=text), agent)]
    said = payloads(event)
    if not said:
        return [Draft(Noted(by=BY, about=EVENT, data=text), agent)]
    return [Draft(payload, agent) for payload in native(BY, text, said)]


def payloads(event: AdkEvent) -> list[Spoken]:
    """What an event says and does, in its order; parts that are neither words nor tools are kept as blocks."""
    found: list[Spoken] = []
    blocks: list[dict[str, Any]] = []
    role = "user" if event.author == "user" else "assistant"

    def say() -> None:
        if blocks:
            plain = len(blocks) == 1 and blocks[0]["type"] == "text"
            found.append(Message(role=role, content=blocks[0]["text"] if plain else list(blocks)))
            blocks.clear()

    for part in (event.content.parts if event.content is not None else None) or ():
        call, answer = part.function_call, part.function_response
        if call is not None:
            say()
            found.append(ToolAsked(call=call.id or "", name=call.name or "", arguments=_plain(call.args or {})))
        elif answer is not None:
            say()
            found.append(ToolFinished(call=answer.id or "", result=_plain(answer.response or {})))
        else:
            blocks.append(_block(part))
    say()
    return found


def _plain(value: Any) -> Any:
    """Arguments and results as plain data. The event's JSON has exactly what was given."""
    return _fitting(jsonable(value))


def _fitting(value: Any) -> Any:
    """A value of JSON with its numbers spelled out where they are too large for any store."""
    if type(value) is dict:
        return {key: _fitting(item) for key, item in value.items()}
    if type(value) is list:
        return [_fitting(item) for item in value]
    large = (type(value) is int and not -(2**63) <= value < 2**64) or (type(value) is float and not isfinite(value))
    return str(value) if large else value


def _block(part: types.Part) -> dict[str, Any]:
    if part.text is not None:
        return {"type": "thinking", "thinking": part.text} if part.thought else {"type": "text", "text": part.text}
    data, file = part.inline_data, part.file_data
    if data is not None and data.data is not None and (kind := _kind(data.mime_type)) is not None:
        encoded = b64encode(data.data).decode()
        return {"type": kind, "source": {"type": "base64", "media_type": data.mime_type, "data": encoded}}
    if file is not None and file.file_uri and (kind := _kind(file.mime_type)) is not None:
        return {"type": kind, "source": {"type": "url", "url": file.file_uri}}
    return {"type": BY, "part": part.model_dump(mode="json", exclude_none=True)}


def _kind(mime: str | None) -> str | None:
    mime = mime or ""
    return _DOCUMENTS.get(mime) or _DOCUMENTS.get(mime.partition("/")[0])


def history(log: Iterable[Event], agent: str = MODEL) -> list[tuple[int, AdkEvent]]:
    """The events of a stretch of a log as ADK has them, each with its first version, oldest first. What an assistant of
    another framework said is by the `agent`.

    A rewind takes words out of the conversation for others only: ADK itself skips what it rewound.
    """
    known = list(log)
    rewinds = {event.version - 1 for event in known if _noted(event.data) == REWIND}
    known = [event for event in known if event.version not in rewinds or event.kind != Retracted.kind]
    gone = [event.data for event in known if isinstance(event.data, Retracted)]
    notes = [
        (event.version, AdkEvent.model_validate_json(event.data.data))
        for event in known
        if isinstance(event.data, Noted)
        and _noted(event.data) is not None
        and not any(data.first <= event.version <= data.upto for data in gone)
    ]
    found = [*notes, *_items(items_of(known), agent)]
    found.sort(key=lambda pair: pair[0])
    return found


def _noted(data: Payload) -> str | None:
    """Which note of ours this is; None for everything else, and for one whose content was destroyed."""
    ours = isinstance(data, Noted) and data.by == BY and data.about in (EVENT, REWIND) and type(data.data) is str
    return data.about if ours and isinstance(data, Noted) else None


def _items(items: Sequence[Item], agent: str) -> Iterator[tuple[int, AdkEvent]]:
    names: dict[str, str] = {}
    lacking = _interrupted(items)
    for place, item in enumerate((*items, None)):
        for asked, call in lacking.get(place, ()):
            yield items[place - 1].first, _answered(asked, call, names, agent)
        if item is None:
            return
        names.update((payload.call, payload.name) for payload in item.payloads if isinstance(payload, ToolAsked))
        if item.by == BY and type(item.native) is str:
            yield item.first, AdkEvent.model_validate_json(item.native)
        else:
            yield item.first, _translated(item, names, agent)


def _interrupted(items: Sequence[Item]) -> dict[int, list[tuple[Item, str]]]:
    """The calls without a result, by the place that a result would have, each with the item that made it."""
    steps = [
        Step(
            [payload.call for payload in item.payloads if isinstance(payload, ToolAsked)],
            [call for payload in item.payloads for call in _calls_answered(payload)],
            item.by == BY,
        )
        for item in items
    ]
    found: dict[int, list[tuple[Item, str]]] = {}
    for lack in left_open(steps):
        found.setdefault(lack.place, []).append((items[lack.step], lack.call))
    return found


def _calls_answered(payload: Spoken) -> list[str]:
    """The calls whose results are told; one that comes when its turn is over is told as a block of a message."""
    if isinstance(payload, ToolFinished):
        return [payload.call]
    blocks = payload.content if isinstance(payload, Message) and type(payload.content) is list else []
    return [str(block.get("tool_use_id")) for block in blocks if type(block) is dict and block.get("type") == RESULT]


def _answered(asked: Item, call: str, names: dict[str, str], agent: str) -> AdkEvent:
    """What stands for the result of a call that has none."""
    result = ToolFinished(call=call, error=INTERRUPTED)
    made = _translated(msgspec.structs.replace(asked, payloads=(result,)), names, agent)
    return made.model_copy(update={"id": f"{made.id}-{call}"})


def _translated(item: Item, names: dict[str, str], agent: str) -> AdkEvent:
    """Somebody else's item as an event: by the user, by the system, or by the agent."""
    first = item.payloads[0]
    author = ROLES.get(first.role, agent) if isinstance(first, Message) else agent
    answers = isinstance(first, ToolFinished) or (isinstance(first, Message) and first.role == "tool")
    return AdkEvent(
        id=f"perdure-{item.first}",
        invocation_id="" if item.turn is None else f"perdure-turn-{item.turn}",
        author=author,
        timestamp=item.at / 1_000_000,
        content=types.Content(
            role="model" if author == agent and not answers else "user",
            parts=[part for payload in item.payloads for part in _parts(payload, names)],
        ),
    )


def _parts(payload: Spoken, names: dict[str, str]) -> Iterator[types.Part]:
    match payload:
        case ToolAsked(call=call, name=name, arguments=arguments):
            held = arguments if type(arguments) is dict else {"arguments": arguments}
            yield types.Part(function_call=types.FunctionCall(id=call, name=name, args=held))
        case ToolFinished(call=call, result=result, error=error):
            yield _answer(call, names, result if error is None else {"error": error})
        case Message(content=str(text)):
            yield types.Part(text=text)
        case Message(content=list(blocks)):
            for block in blocks:
                yield from _said(block, names)
        case _:
            yield types.Part(text=str(payload.content))


def _answer(call: str, names: dict[str, str], result: Any) -> types.Part:
    held = result if type(result) is dict else {"result": result}
    return types.Part(
        function_response=types.FunctionResponse(id=call, name=names.get(call) or call or "tool", response=held)
    )


def _said(block: Any, names: dict[str, str]) -> Iterator[types.Part]:
    """The part that a block of another framework comes to; one nobody knows here is left out."""
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            yield types.Part(text=text)
        case {"type": "thinking", "thinking": str(text)}:
            yield types.Part(text=text, thought=True)
        case {"type": "tool_use", "name": str(name), "input": asked}:
            held = asked if type(asked) is dict else {"arguments": asked}
            yield types.Part(function_call=types.FunctionCall(id=block.get("id"), name=name, args=held))
        case {"type": "tool_result", "content": result}:
            yield _answer(str(block.get("tool_use_id") or ""), names, result)
        case {"source": {"type": "base64", "media_type": str(mime), "data": str(data)}}:
            yield _inline(mime, data)
        case {"type": str(kind), "source": {"type": "url", "url": str(url)}}:
            mime = "application/pdf" if kind == "document" else "image/*"
            yield types.Part(file_data=types.FileData(file_uri=url, mime_type=mime))
        case _:
            return


def _inline(mime: str, data: str) -> types.Part:
    """What was sent along with a message; words in its place when it cannot be read."""
    try:
        return types.Part(inline_data=types.Blob(mime_type=mime, data=a2b_base64(data)))
    except ValueError:  # of which base64's own error is one
        return types.Part(text=f"({mime} that cannot be read)")


def jsonable(value: Any) -> Any:
    """What JSON makes of a value, as ADK's own stores write it: what JSON has no word for becomes its `repr`."""
    try:
        return to_jsonable_python(value)
    except (ValueError, TypeError):
        return to_jsonable_python(value, serialize_unknown=True)


def lasting(event: AdkEvent) -> AdkEvent:
    """An event as it is stored: without temporary state."""
    delta = event.actions.state_delta
    if not any(key.startswith(State.TEMP_PREFIX) for key in delta):
        return event
    kept = {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": kept})})


def scopes(state: Document) -> tuple[Document, Document, Document]:
    """State as JSON: the session's own, the app's and the user's without their prefixes, nothing temporary."""
    own, app, user = Document(), Document(), Document()
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = value
    with sound("a key of the state"):
        return (jsonable(own), jsonable(app), jsonable(user)) if state else (own, app, user)


def kept(fields: Document) -> Document:
    """State as vars hold it: a value that JSON has and perdure has not is kept as its text."""
    return {key: {ODD: json.dumps(value)} if _odd(value) else value for key, value in fields.items()}


def given(document: Document) -> Document:
    """State from vars."""
    return {key: json.loads(value[ODD]) if _marked(value) else value for key, value in document.items()}


def _marked(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get(ODD)) is str


def _odd(value: Any, depth: int = 0) -> bool:
    """Whether a value of JSON is more than perdure takes, or looks like one that was."""
    if type(value) is dict:
        inside = [*value, *value.values()]
        return depth > NESTED or (not depth and _marked(value)) or any(_odd(item, depth + 1) for item in inside)
    if type(value) is list:
        return depth > NESTED or any(_odd(item, depth + 1) for item in value)
    if type(value) is str:
        return not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)
    return (type(value) is int and not -(2**63) <= value < 2**64) or (type(value) is float and not isfinite(value))
