"""What a session's log comes to for LangGraph: a thread's checkpoints, their channel values, and the conversation.

Pure: it folds events and answers questions, and waits for nothing. Invariant: a checkpoint says only what differs from
its parent; one whose parent was deleted says everything.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from perdure.adapters.parts.channels import Part, Ref, Said, Typed, Value, saids, weight
from perdure.adapters.parts.langchain import joins
from perdure.events import (
    Event,
    Message,
    Noted,
    Retracted,
    Spoken,
    ToolAsked,
    ToolFinished,
    TurnFinished,
    TurnStarted,
    as_given,
)

CHECKPOINT: Final = "checkpoint"
WRITES: Final = "writes"
KEPT: Final = "kept"
GONE: Final = "gone"
ROOT: Final = ""
LEFT: Final = "LangGraph went on without it"
DELETED: Final = "deleted by LangGraph"
"""Why LangGraph takes items out of the conversation itself."""
_ROLLED_BACK: Final = "turn_rolled_back"


class Checkpoint:
    """One checkpoint: its bytes, its parent, its channel values, and the events that hold it. An `older` one was filled
    in after those that follow it.
    """

    __slots__ = ("events", "history", "id", "metadata", "ns", "older", "parent", "typed", "values")

    def __init__(self, event: int, ns: str, data: dict[str, Any]) -> None:
        self.events = [event]
        self.ns = ns
        self.id: str = data["id"]
        self.parent: str | None = data.get("parent")
        self.older: bool = data.get("older", False)
        self.typed: Typed = tuple(data["checkpoint"])
        self.metadata: Typed = tuple(data["metadata"])
        self.values: dict[str, Value] = {}
        self.history: dict[str, Past] = {}


class Past:
    """What a channel owes to ancestors that were deleted: a value to begin with, if any, and writes, oldest first."""

    __slots__ = ("seed", "writes")

    def __init__(self, seed: Value | None, writes: list[list[Any]]) -> None:
        self.seed = seed
        self.writes = writes


class Write:
    """One pending write of a task."""

    __slots__ = ("channel", "event", "idx", "path", "task", "typed")

    def __init__(self, event: int, task: str, path: str, idx: int, channel: str, typed: Typed) -> None:
        self.event = event
        self.task = task
        self.path = path
        self.idx = idx
        self.channel = channel
        self.typed = typed


class Thread:
    """The view of one thread, folded from its session's log."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.spaces: dict[str, dict[str, Checkpoint]] = {}
        self.tips: dict[str, Checkpoint] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self.said: dict[int, Said] = {}
        self.unseen: dict[int, Said] = {}
        self.tally = 0  # how many items stand that LangGraph wrote or has seen
        self._litter: set[int] = set()
        self._order: list[int] = []
        self._fresh: list[Said] = []
        self._item = (0, 0)  # where the latest item begins, and how many of its pieces were heard
        self._kept: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}

    # ── folding ──

    def fold(self, events: Sequence[Event]) -> None:
        """Take in the next events. What replaces a deleted parent is looked for first: it comes after the child."""
        for event in events:
            match event.data:
                case Noted(by="langgraph", about="kept", data=dict() as data):
                    self._kept[data.get("ns", ROOT), data["id"]] = (event.version, data)
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event.data:
            case Noted(by="langgraph", about=about, data=dict() as data):
                take = _NOTED.get(about)
                if take is not None:
                    take(self, event.version, data)
            case Retracted(first=first, upto=upto, reason=reason):
                for said in self.between(first, upto):
                    self._withdraw(said, 0 if reason in (LEFT, DELETED) else event.version)
            case Message() | ToolAsked() | ToolFinished() | TurnStarted() | TurnFinished():
                self._hear(event)
            case _ if event.kind == _ROLLED_BACK:
                for said in self.between(1, event.version):
                    if said.turn == event.turn and said.turn is not None:
                        self._withdraw(said, event.version)

    def _hear(self, event: Event) -> None:
        payload = spoken(event.data)
        if payload is None:
            return
        payload = as_given(payload)
        native = payload.metadata.get("native")
        native = native if isinstance(native, dict) else {}
        if "piece" not in native:
            self._item = (event.version, 1)
        elif native["piece"] != self._item[1]:
            return  # its beginning is not there
        else:
            self._item = (self._item[0], self._item[1] + 1)
            said = self.said.get(self._item[0])
            if said is not None and said.typed is not None:
                said.versions.append(event.version)
                return
        said = self.said[event.version] = Said(event, payload, native, self._item[0])
        self._order.append(event.version)
        if said.typed is None:
            self.unseen[said.first] = said
        else:
            self._fresh.append(said)
            self.tally += 1

    def _withdraw(self, said: Said, gone: int) -> None:
        said.gone = said.gone or gone
        if said.standing:
            said.standing = False
            self.tally -= said.seen
            self.unseen.pop(said.first, None)

    def _see(self, said: Said) -> None:
        if not said.seen:
            said.seen = True
            self.tally += said.standing
            self.unseen.pop(said.first, None)

    def _unsee(self) -> None:
        """What others said and the latest checkpoint does not have is to be seen again."""
        tip = self.tips.get(ROOT)
        lists = [value.refs() for value in tip.values.values() if value.parts is not None] if tip is not None else []
        known = {said.first for refs in lists for ref in refs for said in saids(ref)}
        for said in self.said.values():
            if said.standing and said.typed is None and said.seen and said.first not in known:
                said.seen = False
                self.tally -= 1
                self.unseen[said.first] = said
        self.unseen = dict(sorted(self.unseen.items()))

    def between(self, first: int, last: int) -> list[Said]:
        """The items that begin within these versions."""
        here = self._order[bisect_left(self._order, first) : bisect_left(self._order, last + 1)]
        return [self.said[version] for version in here]

    def _checkpoint(self, event: int, data: dict[str, Any]) -> None:
        ns = data.get("ns", ROOT)
        self.name = data.get("thread", self.name)
        made = Checkpoint(event, ns, data)
        space = self.spaces.setdefault(ns, {})
        parent = space.get(made.parent) if made.parent is not None else None
        made.values = dict(parent.values) if parent is not None else {}
        kept = self._kept.get((ns, made.id)) if parent is None else None
        if kept is not None:
            made.events.append(kept[0])
            data = kept[1]
            made.history = self._past(data)
        fresh = iter(self._fresh[len(self._fresh) - _awaited(data) :])
        for channel, stored in data.get("values", {}).items():
            base = parent.values.get(channel) if parent is not None else None
            made.values[channel] = self.value(stored, base, fresh)
        self._fresh.clear()
        before = space.get(made.id)
        if before is not None:
            made.events += before.events
        space[made.id] = made
        tip = self.tips.get(ns)
        if tip is before or (before is None and not made.older):
            self.tips[ns] = made

    def _past(self, data: dict[str, Any]) -> dict[str, Past]:
        found: dict[str, Past] = {}
        for channel, past in data.get("history", {}).items():
            seed = self.value(past["seed"], None, iter(())) if "seed" in past else None
            found[channel] = Past(seed, past["writes"])
        return found

    def value(self, stored: dict[str, Any], base: Value | None, fresh: Iterator[Said]) -> Value:
        """A channel's value as it is stored; `base` is the parent's, `fresh` are the messages of the same append."""
        if "parts" not in stored:
            return Value(stored["v"], (stored["type"], stored["data"]) if "type" in stored else None)
        made = Value(stored["v"])
        made.keep = stored.get("keep", 0)
        made.base = base if made.keep else None
        made.parts = [self._part(part, fresh) for part in stored["parts"]]
        made.length = made.keep + sum(part.count for part in made.parts)
        if made.keep and base is not None and made.keep == base.length:
            made.weight = base.weight + sum(weight(part.messages or ()) for part in made.parts)
        else:
            made.weight = weight(made.refs())
        return made

    def _part(self, stored: dict[str, Any], fresh: Iterator[Said]) -> Part:
        if "messages" not in stored:
            return Part(stored["n"], typed=(stored["type"], stored["data"]))
        found = [self._ref(item, fresh) for item in stored["messages"]]
        return Part(len(found), messages=found)

    def _ref(self, item: Any, fresh: Iterator[Said]) -> Ref | None:
        if item == 0:
            return next(fresh, None)
        if isinstance(item, int):
            return self.said.get(item)
        heard = [said for said in self.between(item[0], item[1]) if said.typed is None]
        span = tuple([said for said in heard if said.standing] or heard)
        for said in span:
            self._see(said)
        return span or None

    def _write(self, event: int, data: dict[str, Any]) -> None:
        found = self.writes.setdefault((data.get("ns", ROOT), data["id"]), {})
        for idx, channel, kind, content in data["writes"]:
            key = (data["task"], idx)
            if idx < 0 or key not in found:
                found[key] = Write(event, data["task"], data.get("path", ""), idx, channel, (kind, content))

    def _go(self, event: int, data: dict[str, Any]) -> None:
        """Forget deleted checkpoints; their events are litter."""
        for ns, id in data["checkpoints"]:
            gone = self.spaces.get(ns, {}).pop(id, None)
            self._litter.update(gone.events if gone is not None else ())
            self._litter.update(write.event for write in self.writes.pop((ns, id), {}).values())
            if gone is not None and self.tips.get(ns) is gone:
                del self.tips[ns]
                for item in sorted(self.spaces[ns].values(), key=lambda item: not item.older):
                    self.tips[ns] = item
                if ns == ROOT:
                    self._unsee()

    def _keep(self, event: int, data: dict[str, Any]) -> None:
        """Events that stand in for what was deleted are taken into account with their checkpoint."""
        found = self.spaces.get(data.get("ns", ROOT), {}).get(data["id"])
        if found is not None and event not in found.events:
            found.events.append(event)
            found.history = self._past(data)

    # ── asking ──

    def find(self, ns: str, id: str | None) -> Checkpoint | None:
        """A checkpoint by its id, or the latest of a namespace."""
        return self.tips.get(ns) if id is None else self.spaces.get(ns, {}).get(id)

    def referred(self) -> list[Said]:
        """The items of the conversation that some checkpoint refers to."""
        found: dict[int, Said] = {}
        seen: dict[int, int] = {}  # how many items at the beginning of a list were looked at
        for checkpoint in [item for space in self.spaces.values() for item in space.values()]:
            seeds = [past.seed for past in checkpoint.history.values()]
            for value in [*checkpoint.values.values(), *seeds]:
                step, limit = value, value.length if value is not None else 0
                while step is not None and seen.get(id(step), 0) < limit:
                    seen[id(step)] = limit
                    refs = [ref for part, count in step.added(limit) for ref in (part.messages or ())[:count]]
                    found.update({said.first: said for ref in refs for said in saids(ref)})
                    limit, step = min(limit, step.keep), step.base
        return list(found.values())

    def waste(self) -> tuple[list[Said], set[int]]:
        """What nothing needs any more: messages no checkpoint refers to, and the events of all that was deleted."""
        wanted = {said.first for said in self.referred()}
        lost = [said for said in self.said.values() if said.typed is not None and said.first not in wanted]
        return lost, self._litter.union(*(said.versions for said in lost))

    def elsewhere(self, upto: int) -> list[tuple[Said, ...]]:
        """What was said elsewhere up to a version and the latest checkpoint does not have, grouped as messages."""
        groups: list[list[Said]] = []
        for said in [item for item in list(self.unseen.values()) if item.last <= upto]:
            before = [item for each in groups[-1] for item in each.payloads] if groups else []
            if groups and joins(before, said.payloads, together=groups[-1][-1].item == said.item):
                groups[-1].append(said)
            else:
                groups.append([said])
        return [tuple(group) for group in groups]

    def ancestors(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        """The parents, nearest first."""
        space = self.spaces.get(checkpoint.ns, {})
        seen = {checkpoint.id}
        while checkpoint.parent is not None and checkpoint.parent not in seen:
            found = space.get(checkpoint.parent)
            if found is None:
                return
            seen.add(found.id)
            yield found
            checkpoint = found

    def pending(self, checkpoint: Checkpoint) -> list[Write]:
        """The writes of a checkpoint in the order in which a run applies them."""
        found = list(self.writes.get((checkpoint.ns, checkpoint.id), {}).values())
        return sorted(found, key=lambda write: (write.path, write.task, write.idx))


_NOTED: Final[dict[str, Callable[[Thread, int, dict[str, Any]], None]]] = {
    CHECKPOINT: Thread._checkpoint,
    WRITES: Thread._write,
    KEPT: Thread._keep,
    GONE: Thread._go,
}


def _awaited(data: dict[str, Any]) -> int:
    """How many messages of the same append the checkpoint refers to."""
    lists = [part.get("messages", ()) for value in data.get("values", {}).values() for part in value.get("parts", ())]
    return sum(item == 0 for items in lists for item in items)


def spoken(data: Any) -> Spoken | None:
    """What was said or done; None for what was redacted, and for bare starts and ends of turns."""
    match data:
        case ToolAsked(call=call) | ToolFinished(call=call):
            return data if call else None
        case Message(role=role):
            return data if role else None
        case TurnStarted(content=content) if content is not None:
            return Message(role=data.role or "user", content=content)
        case TurnFinished(content=content) if content is not None:
            return Message(role="assistant", content=content)
        case _:
            return None
