"""Children as their parent sees them: what one is begun with, how it stands, and what it gives back."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

import msgspec

from perdure.core.session.children import ChildFinished, Spawned
from perdure.core.session.conversation import items_of
from perdure.core.session.event import Event
from perdure.core.session.lifecycle import Phase
from perdure.core.session.turns import Message, ToolAsked, ToolFinished
from perdure.core.talk.turning import TurnRequest

Returns: TypeAlias = Literal["summary", "full"]
Status: TypeAlias = Literal["running", "parked", "finished", "failed"]
"""How a child stands: it works; it waits for a person, or for results of tools; it is done; or it ended otherwise."""
TITLE: Final = 80
"""Characters of a task that a list shows."""


class SpawnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A task for a child. It sees `context` and the task, and nothing of the parent's conversation.

    Without a `model` it has the cheap one. `max_tokens` bounds each of its answers. `max_cost`, in micro-dollars, is a
    slice of the parent's budget, with `tokens` and `rounds` where these are limited; without it the child draws on
    what the parent draws on. `tools` are the only ones it may use, of those that the parent may.
    """

    task: str
    model: str | None = None
    context: str | None = None
    max_tokens: int | None = None
    return_format: Returns = "summary"
    max_cost: int | None = None
    tokens: int | None = None
    rounds: int | None = None
    agent: str | None = None
    strategy: str = ""
    tools: tuple[str, ...] | None = None


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A child. `result` is its last answer, or all of its conversation; `spent` is in micro-dollars, and what is known
    of it when it ended; `error` says what went wrong.
    """

    session: str
    task: str
    status: Status
    model: str = ""
    return_format: str = "summary"
    max_cost: int | None = None
    result: Any = None
    error: str = ""
    spent: int = 0
    spawned_at: int = 0
    version: int = 0
    """Where the parent's log speaks of it last."""


def opening(spawned: Spawned, key: str | None = None) -> TurnRequest:
    """What a child's first turn asks for: the context it was given, and its task."""
    context = [{"type": "text", "text": spawned.context}] if spawned.context else []
    content = [*context, {"type": "text", "text": spawned.task}]
    return msgspec.structs.replace(onward(spawned), content=content, key=key)


def onward(spawned: Spawned) -> TurnRequest:
    """What a child is asked with when it goes on where it was cut off."""
    return TurnRequest(model=spawned.model or None, max_tokens=spawned.max_tokens or None, strategy=spawned.strategy)


def narrowed(rules: Any, given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rules that leave a child no tools but these, and them under its parent's rules. What each is given with holds
    where none of those fits. `Invalid` when the parent's say nothing.
    """
    from perdure.core.talk.permitting import policy_of  # not needed to say what a child is

    policy_of(rules)
    found: list[dict[str, Any]] = []
    for name, otherwise in given.items():
        found += [{**rule, "tool": name} for rule in rules or () if fnmatchcase(name, rule["tool"])]
        found.append({"tool": name, "do": otherwise})
    return [*found, {"tool": "*", "do": "deny", "reason": "the child was not given this tool"}]


def titled(task: str) -> str:
    """A task as a title: its first line, shortened."""
    line = next(iter(task.strip().splitlines()), "")
    return line if len(line) <= TITLE else f"{line[: TITLE - 1].rstrip()}…"


def conversation(events: Iterable[Event]) -> list[dict[str, Any]]:
    """All that was said and done in a child, as plain data."""
    return [_plain(payload) for item in items_of(events) for payload in item.payloads]


def _plain(payload: Message | ToolAsked | ToolFinished) -> dict[str, Any]:
    match payload:
        case Message():
            return {"role": payload.role, "content": payload.content}
        case ToolAsked():
            return {"role": "assistant", "call": payload.call, "name": payload.name, "arguments": payload.arguments}
        case ToolFinished():
            found: dict[str, Any] = {"role": "tool", "call": payload.call, "result": payload.result}
            return found if payload.error is None else {**found, "error": payload.error}


def children_in(events: Sequence[Event]) -> list[Child]:
    """The children that these events of a parent speak of, the first spawned first; they run until they end."""
    found: dict[str, Child] = {}
    for event in events:
        name, data = event.target or "", event.data
        if isinstance(data, Spawned):
            found[name] = Child(
                session=name,
                task=data.task,
                status="running",
                model=data.model,
                return_format=data.returns,
                max_cost=data.slice or None,
                spawned_at=event.at,
                version=event.version,
            )
        elif isinstance(data, ChildFinished) and name in found:
            found[name] = msgspec.structs.replace(
                found[name],
                status="finished" if data.phase == Phase.COMPLETED.value else "failed",
                result=data.result,
                error=data.error,
                spent=data.spent,
                version=event.version,
            )
    return list(found.values())
