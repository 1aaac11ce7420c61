"""What an actor sees of a session's documents when some fields are hidden: states, events, patches, conflicts.

Fields are named as users know them: `title`, `tags`, `metadata`, `config`, `vars`, `scratchpad` (below it the names of
agents), `turns` for everything that was said and done, which `conversation` means, too, and `memory` for what agents
keep. Here is where each of them stands in the documents that a session is made of. All documents are plain data.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from perdure.core.access.fields import ANY, changes_without, ends, parsed, pruned, spelled, step, tree, without
from perdure.core.session import agents, approval, children, lifecycle, memories, quality, recording, steering, turns
from perdure.core.session.event import Payload
from perdure.core.session.links import ConflictFound
from perdure.core.session.origin import Configured, Created
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.vars import VarsPatched

_IN_STATE: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("origin", "title"),
    "tags": ("origin", "tags"),
    "metadata": ("origin", "metadata"),
    "config": ("origin", "config"),
    "vars": ("vars", "document"),
    "scratchpad": ("scratchpads", "pads"),
}
SAID: Final = ("turns", "conversation")
"""The names of what was said and done; a path inside them hides all of it, since words cannot be told apart."""
_SAID_IN_STATE: Final = ("turns", "quality.wanted", "life.compensations")
_SAYING: Final[tuple[type[Payload], ...]] = (
    agents.Delegation,
    agents.RoomMessage,
    approval.ApprovalAsked,
    approval.ApprovalGiven,
    children.ChildFinished,
    children.Spawned,
    lifecycle.Compensated,
    lifecycle.CompensationRegistered,
    lifecycle.ExitCriterion,
    quality.Repair,
    quality.Retrieval,
    quality.VerificationResult,
    recording.Noted,
    steering.Feedback,
    steering.FollowedUp,
    steering.OutcomeKnown,
    steering.Steered,
    turns.Compacted,
    turns.Message,
    turns.Retracted,
    turns.ToolAsked,
    turns.ToolFinished,
    turns.TurnFinished,
    turns.TurnInterrupted,
    turns.TurnRolledBack,
    turns.TurnStarted,
)
_SAYS: Final = frozenset(payload.kind for payload in _SAYING)
MEMORY: Final = "memory"
"""The name of what agents keep."""
_REMEMBERS: Final = frozenset(
    payload.kind for payload in vars(memories).values() if isinstance(payload, type) and issubclass(payload, Payload)
) - {Payload.kind}
_STRUCTURE: Final = frozenset(
    {"call", "child", "first", "of", "role", "slice", "spent", "tokens_in", "tokens_out", "upto"}
)
"""What is told of an event that says something, when what was said is hidden."""
_OWN_PAD: Final = "\0"
"""The session's own scratchpad in a path; its real name is empty, which paths cannot spell."""
_CONTENT_ROOTS: Final = {"scratchpads": "scratchpad"}
"""What merging compares, by the names of the fields."""


def of_state(document: dict[str, Any], hidden: tuple[str, ...]) -> dict[str, Any]:
    """A state as a document, without the hidden fields, also where conflicts that wait for an answer repeat them."""
    if not hidden:
        return document
    seen: dict[str, Any] = without(document, _placed(hidden))
    links = seen.get("links")
    waiting = links.get("conflicts") if isinstance(links, dict) else None
    if not waiting:
        return seen
    cut = {name: {**item, "conflicts": of_conflicts(item.get("conflicts"), hidden)} for name, item in waiting.items()}
    return {**seen, "links": {**seen["links"], "conflicts": cut}}


@lru_cache(1024)
def _placed(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """The paths as they lead through the document of a state."""
    return tuple(found for path in hidden for found in _places(path))


def _places(path: str) -> tuple[str, ...]:
    first, *rest = parsed(path)
    if first is ANY:
        starred = (path, *(spelled((*place, *rest)) for place in _IN_STATE.values()))
        return starred if rest else (*starred, *_SAID_IN_STATE)
    if first in SAID:
        return _SAID_IN_STATE
    return (spelled((*_IN_STATE.get(first, (first,)), *rest)),)


def of_event(kind: str, data: Any, hidden: tuple[str, ...], agent: str | None = None) -> Any:
    """An event's data without the hidden fields; `agent` is its envelope's, for whose scratchpad it is."""
    if not hidden or not isinstance(data, dict):
        return data
    if kind in _REMEMBERS:
        return {} if hides_memory(hidden) else data
    if kind in _SAYS:
        return {name: item for name, item in data.items() if name in _STRUCTURE} if hides_words(hidden) else data
    match kind:
        case VarsPatched.kind:
            return _cut(data, "patch", changes_without(data.get("patch", ()), hidden))
        case Created.kind | Configured.kind:
            return without(data, hidden)
        case ScratchpadWritten.kind:
            return {} if hides_pad(agent, hidden) else data
        case ConflictFound.kind:
            return _cut(data, "conflicts", of_conflicts(data.get("conflicts", ()), hidden))
        case _:
            return data


def of_diff(changes: Any, hidden: tuple[str, ...]) -> Any:
    """What leads from one session's vars and scratchpads to another's, without the hidden fields."""
    if not hidden:
        return changes
    found = []
    for change in changes:
        path = tuple(change[1])
        named = (_CONTENT_ROOTS.get(path[0], path[0]), *path[1:]) if path else ()
        left = changes_without([[change[0], named, *change[2:]]], hidden, root=())
        found += [[change[0], change[1], *item[2:]] for item in left]
    return found


def of_conflicts(conflicts: Any, hidden: tuple[str, ...]) -> Any:
    """Conflicts of a merge, without those at hidden paths and without what is hidden in their sides."""
    if not hidden or not conflicts:
        return conflicts
    found: list[Any] = []
    for conflict in conflicts:
        nodes = tree(hidden)
        path = conflict.get("path", ())
        for place, name in enumerate(path):
            nodes = step(nodes, name if place else _CONTENT_ROOTS.get(name, name))
            if ends(nodes):
                break
        else:
            found.append({key: item if key == "path" else _side(item, nodes) for key, item in conflict.items()})
    return tuple(found) if isinstance(conflicts, tuple) else found


def _side(side: Any, nodes: Any) -> Any:
    return {"value": pruned(side["value"], nodes)} if isinstance(side, dict) and "value" in side else side


@lru_cache(1024)
def hides_words(hidden: tuple[str, ...]) -> bool:
    """Whether what was said and done is hidden."""
    return any(names[0] in SAID or names == (ANY,) for names in map(parsed, hidden))


@lru_cache(1024)
def hides_memory(hidden: tuple[str, ...]) -> bool:
    """Whether what agents keep is hidden: by itself, or with what was said, of which it is made. A path inside it hides
    all of it.
    """
    return hides_words(hidden) or any(names[0] == MEMORY for names in map(parsed, hidden))


def hides_pad(agent: str | None, hidden: tuple[str, ...]) -> bool:
    """Whether an agent's scratchpad is hidden, or the session's own."""
    return _hides(("scratchpad", agent or ""), hidden)


def pad_path(agent: str | None) -> str:
    """The path of an agent's scratchpad, or the session's own, for asking whether it may be written."""
    return spelled(("scratchpad", agent or _OWN_PAD))


def conflict_paths(conflicts: Any) -> tuple[str, ...]:
    """The paths that are written when conflicts of a merge are settled."""
    return tuple(_conflict_path(tuple(conflict.get("path", ()))) for conflict in conflicts)


def _conflict_path(path: tuple[Any, ...]) -> str:
    if not path:
        return "*"
    if path[0] == "scratchpads" and len(path) > 1:
        return pad_path(path[1])
    return spelled((_CONTENT_ROOTS.get(path[0], path[0]), *path[1:]))


def _cut(data: dict[str, Any], name: str, left: Any) -> dict[str, Any]:
    return data if left is data.get(name) else {**data, name: left}


def _hides(path: tuple[str, ...], hidden: tuple[str, ...]) -> bool:
    nodes = tree(hidden)
    for name in path:
        nodes = step(nodes, name)
        if ends(nodes):
            return True
    return False
