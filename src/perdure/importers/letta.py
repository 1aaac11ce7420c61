"""Letta agent files (`.af`): each agent becomes a session, with its messages as turns, its memory blocks on the
scratchpad, and blocks, tools and settings as notes.

Both spellings are read: the one with lists of agents, blocks and tools, and the older one that is a single agent.
Values of environment variables are secrets and stay behind. Invariant: what is written goes by keys made from the
file, and the last append says that the import is whole, so one that was killed goes on and a repeated one adds nothing.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec

import perdure
from perdure import errors
from perdure.adapters.parts.making import made
from perdure.events import Message, Noted, Payload, ScratchpadWritten, Spoken, ToolAsked, ToolFinished, native
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.fitting import batches, name_refusal, refusals, row_refusal
from perdure.importers.letta_files import SHORT, Agent, agents, listed
from perdure.importers.report import THERE, Imported, Progress, own_things, prefix_of, source_of

BY: Final = "letta"
WHOLE: Final = "letta_whole"
"""Whether all of an agent is in, among the metadata of a session that was made by an import."""
BATCH: Final = 250
MESSAGE: Final = "message "
_PAD: Final = 1 << 20
_FAILED: Final = frozenset({"error", "failed"})


Piece = tuple[str, list[Payload]]
"""What belongs together, and what it is."""


async def import_from(
    db: perdure.Perdure | perdure.AsyncPerdure,
    source: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    dry_run: bool = False,
    prefix: str = "",
) -> Imported:
    """Bring over the agents of a file, or of every `.af` file in a folder, under names that begin with the `prefix`."""
    prefix = prefix_of(prefix)
    report = Imported(source=source_of(source), dry_run=dry_run)
    found = [msgspec.structs.replace(agent, prefix=prefix) for agent in agents(source, report)]
    for done, agent in enumerate(found, 1):
        await _bring(db.aio, agent, report)
        if progress is not None:
            progress(done, len(found))
    return report


async def _bring(db: perdure.AsyncPerdure, agent: Agent, report: Imported) -> None:
    """One agent into its session; one that cannot be written is named, and keeps no other from coming."""
    if why := name_refusal(db, agent.session):
        report.skip(agent.session[:1000], why, lacks=agent.session[:1000])
        return
    try:
        await _add(db, agent, report)
    except (errors.CallerError, errors.ConflictError) as error:
        report.skip(agent.session, f"it could not be imported whole: {error}", lacks=agent.session)


async def _add(db: perdure.AsyncPerdure, agent: Agent, report: Imported) -> None:
    session = db.named(agent.session)
    row = await _row(agent, report)
    pieces = await _fitting(agent, [*_notes(agent), *_messages(agent, report)], report)
    try:
        whole = (await session.info()).metadata.get(WHOLE)
        if whole is not False:
            there = whole is True
            report.skip(agent.session, THERE if there else own_things(), lacks=None if there else agent.session)
            return
    except errors.NotFound:
        if not report.dry_run:
            await made(db, agent.session, **row)
    if not report.dry_run:
        parts = list(batches([payloads for _, payloads in pieces], BATCH))
        for number, part in enumerate(parts, 1):
            payloads = [payload for piece in part for payload in piece]
            await session.record(payloads, more=number < len(parts), key=f"{agent.session}/{number}")
        known = await session.info()
        await session.configure(metadata={**known.metadata, WHOLE: True})
    report.sessions += 1
    report.items += sum(what.startswith(MESSAGE) for what, _ in pieces)
    report.names.append(agent.session)


async def _row(agent: Agent, report: Imported) -> dict[str, Any]:
    """What the session is made with; a prompt that does not fit is left out and named."""
    settings = agent.settings
    model = settings.get("llm_config") or {}
    config = {"system_prompt": settings.get("system"), "model": model.get("model") if type(model) is dict else None}
    tags = [tag.get("tag") if type(tag) is dict else tag for tag in listed(settings.get("tags"))]
    marks = {"letta_agent": settings.get("id"), "letta_type": settings.get("agent_type")}
    known = {name: mark for name, mark in marks.items() if type(mark) is str}
    times = [_when(message) for message in agent.messages]
    row: dict[str, Any] = {
        "title": agent.name[:SHORT],
        "tags": [tag for tag in tags if type(tag) is str and len(tag) <= SHORT],
        "metadata": {**known, **beginning(times), WHOLE: False},
        "config": {name: value for name, value in config.items() if type(value) is str},
    }
    if why := await row_refusal(**row):
        report.skip(f"{agent.session} system prompt", why, lacks=agent.session)
        row["config"] = {}
    return row


async def _fitting(agent: Agent, pieces: list[Piece], report: Imported) -> list[Piece]:
    """The pieces that fit; the others are named."""
    refused = await refusals([payloads for _, payloads in pieces], keyed=True)
    for (what, _), why in zip(pieces, refused, strict=True):
        if why is not None:
            report.skip(f"{agent.session} {what}", why, lacks=agent.session)
    return [piece for piece, why in zip(pieces, refused, strict=True) if why is None]


def _notes(agent: Agent) -> Iterator[Piece]:
    """What the agent is and remembers: for people on the scratchpad, exactly in notes."""
    yield "agent", [Noted(by=BY, about="agent", data=agent.settings)]
    for about, found in (("block", agent.blocks), ("tool", agent.tools)):
        for number, item in enumerate(found, 1):
            yield f"{about} {number}", [Noted(by=BY, about=about, data=item)]
    pad = "\n\n".join(f"# {block.get('label', 'block')}\n{block.get('value', '')}" for block in agent.blocks)
    if pad:
        yield "scratchpad", [ScratchpadWritten(content=pad.encode()[:_PAD].decode("utf-8", "ignore"))]


def _messages(agent: Agent, report: Imported) -> Iterator[Piece]:
    """Each message as events, with itself beside them."""
    spoken: set[str] = set()
    for number, message in enumerate(agent.messages, 1):
        what = f"{MESSAGE}{number}"
        if type(message) is not dict or type(message.get("role")) is not str:
            why = "it is no message: an object with a role"
            report.skip(f"{agent.session} {what}", why, lacks=agent.session)
            continue
        payloads = said(message, spoken)
        if payloads:
            yield what, list(native(BY, message, dated(payloads, _when(message))))
        else:
            yield what, [Noted(by=BY, about=message["role"], data=message)]


def _when(message: Any) -> str | None:
    """When a message was written."""
    return moment(message.get("created_at")) if type(message) is dict else None


# ── messages as events ──


def said(message: dict[str, Any], spoken: set[str]) -> list[Spoken]:
    """What a message says. An agent that speaks by calling `send_message` is taken at its word: `spoken` collects those
    calls, whose results say nothing.
    """
    match message["role"]:
        case "user":
            return _from_user(message)
        case "assistant" | "approval":
            return _from_agent(message, spoken)
        case "tool" | "function":
            return _from_tools(message, spoken)
        case role:
            text = _text(_content(message))
            return [Message(role="system", content=text)] if text and role in ("system", "summary") else []


def _from_user(message: dict[str, Any]) -> list[Spoken]:
    """A user's words, out of the envelope that Letta puts them in; envelopes of its own are the system's."""
    blocks = [block for part in _content(message) if (block := _block(part)) is not None]
    if [block["type"] for block in blocks] != ["text"]:
        return [Message(role="user", content=blocks)] if blocks else []
    text = blocks[0]["text"]
    envelope = _parsed(text)
    if type(envelope) is not dict or type(envelope.get("type")) is not str:
        return [Message(role="user", content=text)]
    inside = envelope.get("message")
    if envelope["type"] == "user_message" and type(inside) is str:
        return [Message(role="user", content=inside)]
    return [Message(role="system", content=inside if type(inside) is str else text)]


def _from_agent(message: dict[str, Any], spoken: set[str]) -> list[Spoken]:
    blocks = [block for part in _content(message) if (block := _block(part)) is not None]
    calls = [call for item in (*listed(message.get("tool_calls")), *_content(message)) if (call := _call(item))]
    words = [call for call in calls if call.name == "send_message" and type(_word(call)) is str]
    if words:  # then what it says besides are thoughts
        blocks = [
            {"type": "thinking", "thinking": block["text"]} if block["type"] == "text" else block for block in blocks
        ]
    found: list[Spoken] = []
    if [block["type"] for block in blocks] == ["text"]:
        found.append(Message(role="assistant", content=blocks[0]["text"]))
    elif blocks:
        found.append(Message(role="assistant", content=blocks))
    for call in calls:
        if call in words:
            spoken.add(call.call)
            found.append(Message(role="assistant", content=_word(call)))
        else:
            found.append(call)
    return found


def _from_tools(message: dict[str, Any], spoken: set[str]) -> list[Spoken]:
    returned = [item for item in listed(message.get("tool_returns")) if type(item) is dict]
    returned += [part for part in _content(message) if type(part) is dict and part.get("type") == "tool_return"]
    found: list[Spoken] = []
    for item in returned:
        call = item.get("tool_call_id") or message.get("tool_call_id")
        answer = next((item[name] for name in ("func_response", "tool_return", "content") if name in item), None)
        failed = item.get("is_error") is True or str(item.get("status")).lower() in _FAILED
        if type(call) is str:
            found += _finished(call, answer, failed, spoken)
    call = message.get("tool_call_id")
    if not returned and type(call) is str:
        text = _text(_content(message))
        envelope = _parsed(text)
        failed = type(envelope) is dict and str(envelope.get("status")).lower() in _FAILED
        found += _finished(call, text, failed, spoken)
    return found


def _finished(call: str, answer: Any, failed: bool, spoken: set[str]) -> list[Spoken]:
    if call in spoken:
        return []
    if failed:
        return [ToolFinished(call=call, error=answer if type(answer) is str else _text(_parts(answer)))]
    return [ToolFinished(call=call, result=answer)]


def _content(message: dict[str, Any]) -> list[Any]:
    """The parts of a message, under whichever name it has them."""
    content = message.get("content")
    return _parts(message.get("text") if content is None else content)


def _parts(content: Any) -> list[Any]:
    if type(content) is str:
        return [{"type": "text", "text": content}]
    return content if type(content) is list else []


def _block(part: Any) -> dict[str, Any] | None:
    """A part as a block; None for calls and results, and for what says nothing."""
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text} if text else None
        case {"type": "reasoning", "reasoning": str(thought)}:
            return {"type": "thinking", "thinking": thought}
        case {"type": "tool_call" | "tool_return"}:
            return None
        case {"type": str()}:
            return dict(part)
        case _:
            return None


def _call(item: Any) -> ToolAsked | None:
    """A tool's call, in either spelling."""
    match item:
        case {"id": str(call), "function": {"name": str(name), **rest}} if call:
            given = rest.get("arguments")
            return ToolAsked(call=call, name=name, arguments=_parsed(given, given))
        case {"type": "tool_call", "id": str(call), "name": str(name)} if call:
            return ToolAsked(call=call, name=name, arguments=item.get("input"))
        case _:
            return None


def _word(call: ToolAsked) -> Any:
    return call.arguments.get("message") if type(call.arguments) is dict else None


def _text(parts: list[Any]) -> str:
    texts = [part.get("text") for part in parts if type(part) is dict]
    return "\n".join(text for text in texts if type(text) is str)


def _parsed(text: Any, otherwise: Any = None) -> Any:
    """What a text says in JSON."""
    try:
        return json.loads(text, parse_constant=str) if type(text) is str else otherwise
    except (ValueError, RecursionError):
        return otherwise
