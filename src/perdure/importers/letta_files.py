"""The files of Letta's agents, in both spellings: the agents in them, with their blocks and tools."""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from perdure import errors
from perdure.importers.report import Imported

SHORT: Final = 200
_SECRETS: Final = ("tool_exec_environment_variables", "secrets")
_ELSEWHERE: Final = ("files", "sources", "groups", "mcp_servers", "skills")


class Agent(msgspec.Struct, frozen=True, kw_only=True):
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
        return f"{self.prefix}letta/{self.name.replace('%', '%25').replace('/', '%2F')[:SHORT]}/{self.digest}"


def agents(given: str | os.PathLike[str], report: Imported) -> Iterator[Agent]:
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
            report.skip(str(path), wrong.message, lacks=str(path))
            continue
        yield from found


def _in_file(path: Path, report: Imported) -> Iterator[Agent]:
    document = _document(path)
    if type(document.get("agents")) is list:
        if document["agents"] and not any(type(agent) is dict for agent in document["agents"]):
            raise errors.Invalid("an agent in an agent file is an object", source=str(path))
        blocks, tools = _by_id(document.get("blocks")), _by_id(document.get("tools"))
        for name in _ELSEWHERE:
            if document.get(name):
                report.skip(str(path), f"its {name} have no place in a session: {len(listed(document[name]))}")
        for number, agent in enumerate(document["agents"], 1):
            if type(agent) is not dict:
                what = f"{path} agent {number}"
                report.skip(what, "an agent in an agent file is an object", lacks=what)
                continue
            yield _agent(agent, _named(agent, "block_ids", blocks), _named(agent, "tool_ids", tools), path, report)
    elif type(document.get("core_memory")) is list and type(document.get("messages")) is list:
        own = [item for item in listed(document.get("tools")) if type(item) is dict]
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
) -> Agent:
    name = agent.get("name")
    name = name if type(name) is str and name else "agent"
    messages = agent.get("messages")
    digest = sha256(json.dumps([agent, blocks, tools], sort_keys=True).encode()).hexdigest()[:16]
    settings = {key: value for key, value in agent.items() if key not in ("messages", "core_memory", "tools")}
    for secret in _SECRETS:
        if settings.pop(secret, None):
            report.skip(f"{path} {name}", f"the values of its {secret} are secrets and stay behind")
    return Agent(
        name=name,
        settings=settings,
        messages=messages if type(messages) is list else [],
        blocks=blocks,
        tools=tools,
        digest=digest,
    )


def listed(found: Any) -> list[Any]:
    """A list as it is; nothing for what should be one and is not."""
    return found if type(found) is list else []


def _by_id(found: Any) -> dict[str, dict[str, Any]]:
    items = [item for item in listed(found) if type(item) is dict]
    return {str(item.get("id")): item for item in items}


def _named(agent: dict[str, Any], field: str, known: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [known[name] for name in listed(agent.get(field)) if type(name) is str and name in known]


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
