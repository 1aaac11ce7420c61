"""Letta agent files (`.af`): each agent becomes a session, with its messages as turns, its memory blocks on the
scratchpad, and blocks, tools and settings as notes.

Both spellings are read: the one with lists of agents, blocks and tools, and the older one that is a single agent.
Values of environment variables are secrets and stay behind. Invariant: what is written goes by keys made from the
file, and the last append says that the import is whole, so one that was killed goes on and a repeated one adds nothing.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

import perdure
from perdure import errors
from perdure.adapters.parts.making import made
from perdure.events import Message, Noted, Payload, ScratchpadWritten, Spoken, ToolAsked, ToolFinished, native
from perdure.importers.dating import beginning, dated, moment
from perdure.importers.report import THERE, Imported, Progress, own_things, prefix_of, source_of

BY: Final = "letta"
WHOLE: Final = "letta_whole"
"""Whether all of an agent is in, among the metadata of a session that was made by an import."""
BATCH: Final = 250
_PAD: Final = 1 << 20
_SHORT: Final = 200
_SECRETS: Final = ("tool_exec_environment_variables", "secrets")
_ELSEWHERE: Final = ("files", "sources", "groups", "mcp_servers", "skills")
_FAILED: Final = frozenset({"error", "failed"})


class _Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of a file, whichever way the file spells it."""

    name: str
    settings: dict[str, Any]
    messages: list[Any]
    blocks: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    digest: str
    prefix: str = ""

    @property
    def session(self) -> str:
        """The name of its session: the same agent in the same state has the same."""
        return f"{self.prefix}letta/{self.name.replace('%', '%25').replace('/', '%2F')[:_SHORT]}/{self.digest}"


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
    found = [msgspec.structs.replace(agent, prefix=prefix) for agent in _agents(source, report)]
    for done, agent in enumerate(found, 1):
        await _bring(db.aio, agent, report)
        if progress is not None:
            progress(done, len(found))
    return report


async def _bring(db: perdure.AsyncPerdure, agent: _Agent, report: Imported) -> None:
    session = db.named(agent.session)
    messages = list(_messages(agent, report))
    try:
        whole = (await session.info()).metadata.get(WHOLE)
        if whole is not False:
            there = whole is True
            report.skip(agent.session, THERE if there else own_things(), lacks=None if there else agent.session)
            return
    except errors.NotFound:
        if not report.dry_run:
            await _create(db, agent)
    pieces = [*_notes(agent), *messages]
    if not report.dry_run:
        for number, first in enumerate(range(0, len(pieces), BATCH)):
            payloads = [payload for piece in pieces[first : first + BATCH] for payload in piece]
            more = first + BATCH < len(pieces)
            await session.record(payloads, more=more, key=f"{agent.session}/{number}")
        row = await session.info()
        await session.configure(metadata={**row.metadata, WHOLE: True})
    report.sessions += 1
    report.items += len(messages)
    report.names.append(agent.session)


async def _create(db: perdure.AsyncPerdure, agent: _Agent) -> None:
    settings = agent.settings
    model = settings.get("llm_config") or {}
    config = {"system_prompt": settings.get("system"), "model": model.get("model") if type(model) is dict else None}
    tags = [tag.get("tag") if type(tag) is dict else tag for tag in _list(settings.get("tags"))]
    marks = {"letta_agent": settings.get("id"), "letta_type": settings.get("agent_type")}
    known = {name: mark for name, mark in marks.items() if type(mark) is str}
    times = [_when(message) for message in agent.messages]
    await made(
        db,
        agent.session,
        title=agent.name[:_SHORT],
        tags=[tag for tag in tags if type(tag) is str and len(tag) <= _SHORT],
        metadata={**known, **beginning(times), WHOLE: False},
        config={name: value for name, value in config.items() if type(value) is str},
    )


def _notes(agent: _Agent) -> Iterator[list[Payload]]:
    """What the agent is and remembers: for people on the scratchpad, exactly in notes."""
    yield [Noted(by=BY, about="agent", data=agent.settings)]
    for about, found in (("block", agent.blocks), ("tool", agent.tools)):
        for item in found:
            yield [Noted(by=BY, about=about, data=item)]
    pad = "\n\n".join(f"# {block.get('label', 'block')}\n{block.get('value', '')}" for block in agent.blocks)
    if pad:
        yield [ScratchpadWritten(content=pad.encode()[:_PAD].decode("utf-8", "ignore"))]


def _messages(agent: _Agent, report: Imported) -> Iterator[list[Payload]]:
    """Each message as events, with itself beside them."""
    spoken: set[str] = set()
    for number, message in enumerate(agent.messages, 1):
        if type(message) is not dict or type(message.get("role")) is not str:
            report.skip(
                f"{agent.session} message {number}", "it is no message: an object with a role", lacks=agent.session
            )
            continue
        payloads = said(message, spoken)
        if payloads:
            yield list(native(BY, message, dated(payloads, _when(message))))
        else:
            yield [Noted(by=BY, about=message["role"], data=message)]


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
    calls = [call for item in (*_list(message.get("tool_calls")), *_content(message)) if (call := _call(item))]
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
    returned = [item for item in _list(message.get("tool_returns")) if type(item) is dict]
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


# ── files ──


def _agents(given: str | os.PathLike[str], report: Imported) -> Iterator[_Agent]:
    """The agents in a file, or in the files of a folder."""
    source = Path(given).expanduser()
    if not source.exists():
        raise errors.NotFound(f"there is no {source}; give an agent file or a folder of them", source=str(source))
    paths = sorted(source.glob("*.af")) if source.is_dir() else [source]
    if not paths:
        raise errors.Invalid("there is no .af file here; give an agent file or a folder of them", source=str(source))
    for path in paths:
        try:
            found = list(_in_file(path, report))
        except errors.Invalid as wrong:
            if not source.is_dir():
                raise
            report.skip(str(path), wrong.message)
            continue
        yield from found


def _in_file(path: Path, report: Imported) -> Iterator[_Agent]:
    document = _document(path)
    if type(document.get("agents")) is list:
        blocks, tools = _by_id(document.get("blocks")), _by_id(document.get("tools"))
        for name in _ELSEWHERE:
            if document.get(name):
                report.skip(str(path), f"its {name} have no place in a session: {len(_list(document[name]))}")
        for agent in document["agents"]:
            if type(agent) is not dict:
                raise errors.Invalid("an agent in an agent file is an object", source=str(path))
            yield _agent(agent, _named(agent, "block_ids", blocks), _named(agent, "tool_ids", tools), path, report)
    elif type(document.get("core_memory")) is list and type(document.get("messages")) is list:
        own = [item for item in _list(document.get("tools")) if type(item) is dict]
        memory = [item for item in document["core_memory"] if type(item) is dict]
        yield _agent(document, memory, own, path, report)
    else:
        raise errors.Invalid(
            "this is no Letta agent file: it has neither agents nor core_memory and messages", source=str(path)
        )


def _agent(
    agent: dict[str, Any],
    blocks: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    path: Path,
    report: Imported,
) -> _Agent:
    name = agent.get("name")
    name = name if type(name) is str and name else "agent"
    messages = agent.get("messages")
    digest = sha256(json.dumps([agent, blocks, tools], sort_keys=True).encode()).hexdigest()[:16]
    settings = {key: value for key, value in agent.items() if key not in ("messages", "core_memory", "tools")}
    for secret in _SECRETS:
        if settings.pop(secret, None):
            report.skip(f"{path} {name}", f"the values of its {secret} are secrets and stay behind")
    return _Agent(
        name=name,
        settings=settings,
        messages=messages if type(messages) is list else [],
        blocks=blocks,
        tools=tools,
        digest=digest,
    )


def _list(found: Any) -> list[Any]:
    """A list as it is; nothing for what should be one and is not."""
    return found if type(found) is list else []


def _by_id(found: Any) -> dict[str, dict[str, Any]]:
    items = [item for item in _list(found) if type(item) is dict]
    return {str(item.get("id")): item for item in items}


def _named(agent: dict[str, Any], field: str, known: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [known[name] for name in _list(agent.get(field)) if type(name) is str and name in known]


def _document(path: Path) -> dict[str, Any]:
    """The file as plain data, without lone surrogates and endless numbers."""
    try:
        found = json.loads(path.read_bytes(), parse_constant=str)
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as wrong:
        raise errors.Invalid(f"an agent file is JSON, whole and in UTF-8: {wrong}", source=str(path)) from wrong
    if type(found) is not dict:
        raise errors.Invalid("an agent file is a JSON object", source=str(path))
    return found
